//! Functions side by side, that borrow from whoever waits for them.
//!
//! | | |
//! |---|---|
//! | [`par_map`], [`par_filter`], [`par_reduce`], [`par_for_each`] | one function for all items of a slice, a vector or a range |
//! | [`join`] | two functions |
//! | [`scope`] | any number of them |
//!
//! All are calls that return when everything is done; the caller waits as in
//! [`task::wait`], so its core goes on with others. A function runs on whichever core comes to
//! it first, the caller's included.
//!
//! # Pieces
//! What is to be gone through is not cut in advance. Whoever has a piece of it offers the second half to
//! cores that have nothing to do, and goes through the first. If one takes the half, both have a piece
//! and do the same; if none does, the half comes back, and is halved again. So with no core idle this
//! costs little more than a loop, and with many idle there are soon pieces for all.
//!
//! So items must not wait for each other: one may have to wait for its turn on the core that the other has.
//! They may wait for anything else.
//!
//! A piece that is taken becomes a task, of its taker's core and the caller's priority: what a
//! function learns from [`task::id`] or a task-local may be the caller's or not.
//!
//! # Cancelled callers
//! What is begun is done, as what it was to do is done when the call has returned: a plain value comes
//! back, and the caller ends at its next await. Cancelling only tells the functions, by
//! [`task::is_cancelled`], those that run as other tasks as soon as the caller waits for them.
//!
//! # Panics
//! A panic of a function goes on in the caller, the first of them if there are more, when nothing
//! is at work any more for that call. Each function of a [`scope`] and of a [`join`] runs all the same; of
//! the others some items may be left, which are dropped, as are results.
//!
//! # Elsewhere
//! Outside a runtime, under a guard or a lock and in interrupts nobody helps: there [`join`] and
//! the functions for items do everything themselves, one after the other. A [`scope`] cannot.

mod functions;
mod input;
mod job;
mod join;
mod pieces;

pub use {
    functions::{par_filter, par_for_each, par_map, par_reduce},
    input::Input,
    join::join,
};

use crate::task::{self, Call, SpawnError, Start};
use core::convert::Infallible;
use hal::{
    sync::Lock,
    unwind::{self, Payload},
};

/// Calls a function that spawns others which may borrow from what is around it,
/// and returns what it returned when all of them have, too.
///
/// ```
/// # use executor::{Runtime, parallel};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let mut numbers = [1, 2, 3, 4];
/// parallel::scope(|scope| {
///     for number in &mut numbers {
///         scope.spawn(|| *number *= 10);
///     }
/// });
/// assert_eq!(numbers, [10, 20, 30, 40]);
/// # });
/// ```
///
/// What a function borrows must outlive the scope, and be `Send`:
///
/// ```compile_fail,E0373
/// # use executor::parallel;
/// parallel::scope(|scope| {
///     let local = 1;
///     scope.spawn(|| assert_eq!(local, 1));
/// });
/// ```
///
/// ```compile_fail,E0277
/// # use executor::parallel;
/// let shared = std::rc::Rc::new(1);
/// parallel::scope(|scope| scope.spawn(|| assert_eq!(*shared, 1)));
/// ```
///
/// # Panics
/// If one of the functions does, when all have ended; if the stack of one was too small; and as [`task::wait`].
#[track_caller]
pub fn scope<'env, F, R>(body: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let scope = Scope {
        // Their parent is not noted: that would be a block of memory for each.
        // SAFETY: only the body has it, and functions that are spawned.
        tasks: unsafe { task::Scope::new(None, false) },
        panic: Lock::new(None),
    };
    let (result, ended) = scope.tasks.run(|| body(&scope));
    let panic = scope.panic.lock().take();
    match (result, panic) {
        (Ok(result), None) => {
            assert!(
                ended.lost() == 0,
                "the stack of a function in a scope was too small: what it was to do is not done"
            );
            result
        }
        (Err(panic), _) | (_, Some(panic)) => unwind::resume(panic),
    }
}

/// Spawns the functions of a [`scope`]: in its own, and in those themselves.
///
/// ```
/// use executor::{Runtime, parallel::{self, Scope}};
///
/// fn fill<'scope>(scope: &'scope Scope<'scope, '_>, places: &'scope mut [u8]) {
///     if let Some((first, rest)) = places.split_first_mut() {
///         scope.spawn(|| *first = 7);
///         scope.spawn(|| fill(scope, rest));
///     }
/// }
/// # let runtime = Runtime::builder().workers(2).build()?;
/// runtime.block_on(async {
///     let mut places = [0; 3];
///     parallel::scope(|scope| fill(scope, &mut places));
///     assert_eq!(places, [7; 3]);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    tasks: task::Scope<'scope, 'env, Infallible, Infallible>,
    /// Of the first function that panicked.
    panic: Lock<Option<Payload>>,
}

impl<'scope> Scope<'scope, '_> {
    /// Has a function run, which may borrow whatever outlives the scope.
    ///
    /// ```
    /// use executor::{Runtime, parallel};
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let (mut sum, mut product) = (0, 0);
    ///     parallel::scope(|scope| {
    ///         scope.spawn(|| sum = 3 + 4);
    ///         scope.spawn(|| product = 3 * 4);
    ///     });
    ///     assert_eq!((sum, product), (7, 12));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`task::spawn`].
    #[track_caller]
    pub fn spawn(&'scope self, function: impl FnOnce() + Send + 'scope) {
        task::expect(self.try_spawn(function));
    }

    /// As [`spawn`](Self::spawn), but says so when there is no memory; the function is then dropped.
    ///
    /// ```
    /// use executor::{Runtime, parallel};
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let mut sum = 0;
    ///     parallel::scope(|scope| {
    ///         let spawned = scope.try_spawn(|| sum = 3 + 4);
    ///         assert!(spawned.is_ok());
    ///     });
    ///     assert_eq!(sum, 7);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// Where no runtime runs.
    #[track_caller]
    pub fn try_spawn(
        &'scope self,
        function: impl FnOnce() + Send + 'scope,
    ) -> Result<(), SpawnError> {
        let call = Call::new(|| {
            if let Err(panic) = unwind::catch(function) {
                self.keep(panic);
            }
        });
        let spawned = self.tasks.start(Start::default(), call, |()| Ok(None));
        spawned.map(drop)
    }

    fn keep(&self, panic: Payload) {
        // Dropped after the lock: it may be anything.
        let _unwanted = {
            let mut first = self.panic.lock();
            match *first {
                None => first.replace(panic),
                Some(_) => Some(panic),
            }
        };
    }
}
