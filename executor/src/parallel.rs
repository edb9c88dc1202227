//! Functions that run side by side, and borrow from whoever waits for them.
//!
//! [`scope`] is for any number of them, [`join`] for two. A function runs on
//! whichever core comes to it first; the caller waits as in
//! [`task::wait`], so its core goes on with others.
//!
//! Each function that is spawned runs, whatever happens: what it was to do is
//! done when the scope has ended. Cancelling the caller therefore only tells
//! them, by [`task::is_cancelled`].

mod job;
mod join;

pub use join::join;

use crate::task::{self, Call, Start};
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
pub struct Scope<'scope, 'env: 'scope> {
    tasks: task::Scope<'scope, 'env, Infallible, Infallible>,
    /// Of the first function that panicked.
    panic: Lock<Option<Payload>>,
}

impl<'scope> Scope<'scope, '_> {
    /// Has a function run, which may borrow whatever outlives the scope.
    ///
    /// # Panics
    /// As [`task::spawn`].
    #[track_caller]
    pub fn spawn(&'scope self, function: impl FnOnce() + Send + 'scope) {
        let call = Call::new(|| {
            if let Err(panic) = unwind::catch(function) {
                self.keep(panic);
            }
        });
        let spawned = self.tasks.start(Start::default(), call, |()| Ok(None));
        task::expect(spawned);
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
