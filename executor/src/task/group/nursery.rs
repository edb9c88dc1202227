//! Groups whose children borrow: from the stack of whoever waits for them.
//!
//! Nobody can be kept from forgetting a future, so what waits for such children
//! must not be one. [`nursery`] is a call: it returns, or unwinds, only when all
//! have ended. [`Scope`] is what spawns them, here and in
//! [`thread::scope`](crate::thread::scope) and [`parallel`](crate::parallel).

use super::{
    ChildError,
    children::{Ended, Group},
    group_of,
};
use crate::{
    bomb::Bomb,
    memory::Counted,
    task::{Builder, SpawnError, Start, Task, TaskId, expect, wait, wait::assert_may_wait, waker},
};
use alloc::vec::Vec;
use core::{fmt, future::Future, marker::PhantomData};
use hal::{
    cores,
    unwind::{self, Payload},
};

/// Runs a function that spawns tasks which may borrow from what is around it,
/// and waits until it and all of them have ended; gives what they returned, in
/// the order in which they were spawned, or the first error. Only the poll that
/// calls it waits, as in [`wait`](super::super::wait()).
///
/// The first child that ends in error (returns one, panics, or is cancelled by
/// somebody) makes it cancel the others. So does a panic of the function, which
/// goes on when they have ended. If the task that calls this is cancelled, the
/// children are as soon as it waits for anything; the result is then as after
/// [`cancel_all`](Scope::cancel_all), and the task ends at its next await.
///
/// A child has ended when its future is dropped and its finalizers have run:
/// nothing that it borrows is in use any more.
///
/// ```
/// # use executor::{Runtime, task::nursery};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let text = String::from("one two three");
/// let mut letters = [0; 26];
/// let lengths = nursery(|scope| {
///     for word in text.split(' ') {
///         scope.spawn(async move { Ok::<_, ()>(word.len()) });
///     }
///     scope.spawn(async {
///         for letter in text.bytes().filter(u8::is_ascii_lowercase) {
///             letters[usize::from(letter - b'a')] += 1;
///         }
///         Ok(text.len())
///     });
/// });
/// assert_eq!(lengths.unwrap(), [3, 3, 5, 13]);
/// assert_eq!(letters[4], 3);
/// # });
/// ```
///
/// In a local task it keeps the other local tasks of its core waiting, so the children must not wait
/// for those.
///
/// # What does not compile
/// A child that borrows from what ends before it may:
///
/// ```compile_fail,E0373
/// # use executor::task::nursery;
/// let _ = nursery(|scope| {
///     let local = 1;
///     scope.spawn(async { Ok::<_, ()>(local + 1) });
/// });
/// ```
///
/// Two that write to the same:
///
/// ```compile_fail,E0499
/// # use executor::task::nursery;
/// let mut count = 0;
/// let _ = nursery(|scope| {
///     for _ in 0..2 {
///         scope.spawn(async { count += 1; Ok::<_, ()>(()) });
///     }
/// });
/// ```
///
/// A child that is not `Send`:
///
/// ```compile_fail,E0277
/// # use executor::task::nursery;
/// let shared = std::rc::Rc::new(1);
/// let _ = nursery(|scope| {
///     scope.spawn(async { Ok::<_, ()>(*shared) });
/// });
/// ```
///
/// A scope that is used after its end:
///
/// ```compile_fail,E0521
/// # use executor::task::{Scope, nursery};
/// let mut kept: Option<&Scope<'_, '_, (), ()>> = None;
/// let _ = nursery(|scope| kept = Some(scope));
/// kept.unwrap().cancel_all();
/// ```
///
/// # Panics
/// If the function panics, and as [`wait`](super::super::wait()).
#[track_caller]
pub fn nursery<'env, T, E, F>(body: F) -> Result<Vec<T>, ChildError<E>>
where
    T: Send,
    E: Send,
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env, T, E>),
{
    in_scope(true, body).all_or_first_error()
}

/// As [`nursery`], but an error leaves the other children alone, and what comes
/// back is how each of them ended.
///
/// ```
/// # use executor::{Runtime, task::nursery_independent};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let words = ["1", "two", "3"];
/// let numbers = nursery_independent(|scope| {
///     for word in &words {
///         scope.spawn(async { word.parse::<u32>() });
///     }
/// });
/// assert_eq!(numbers.iter().filter(|number| number.is_ok()).count(), 2);
/// # });
/// ```
///
/// # Panics
/// As [`nursery`].
#[track_caller]
pub fn nursery_independent<'env, T, E, F>(body: F) -> Vec<Result<T, ChildError<E>>>
where
    T: Send,
    E: Send,
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env, T, E>),
{
    in_scope(false, body).in_order().collect()
}

#[track_caller]
fn in_scope<'env, T, E, F>(fails_fast: bool, body: F) -> Ended<T, E>
where
    T: Send,
    E: Send,
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env, T, E>),
{
    let parent = waker::own_header().map(|parent| parent.id());
    // SAFETY: only the body has it, and children.
    let scope = unsafe { Scope::new(parent, fails_fast) };
    let (result, ended) = scope.run(|| body(&scope));
    result.unwrap_or_else(|panic| unwind::resume(panic));
    ended
}

/// Spawns the tasks of a [`nursery`]: in its function, and in the tasks themselves.
pub struct Scope<'scope, 'env: 'scope, T, E> {
    group: Counted<Group<T, E>>,
    // Neither may be taken for a shorter or a longer one: `'scope` is what children may borrow for.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, T: Send, E: Send> Scope<'scope, '_, T, E> {
    /// Starts a child, which may borrow whatever outlives the scope; its result is kept until the scope
    /// ends. If the scope was cancelled, the child is cancelled before it begins.
    ///
    /// # Panics
    /// As [`task::spawn`](crate::task::spawn).
    #[track_caller]
    pub fn spawn(&'scope self, future: impl Future<Output = Result<T, E>> + Send + 'scope) -> Task {
        self.spawn_with(Builder::new(), future)
    }

    /// Starts a child with a name, a priority, a core.
    ///
    /// # Panics
    /// As [`task::spawn_with`](crate::task::spawn_with).
    #[track_caller]
    pub fn spawn_with(
        &'scope self,
        builder: Builder,
        future: impl Future<Output = Result<T, E>> + Send + 'scope,
    ) -> Task {
        expect(self.try_spawn_with(builder, future))
    }

    /// Starts a child of which only an error is of interest: nothing is kept of
    /// one that ended well.
    ///
    /// # Panics
    /// As [`task::spawn_with`](crate::task::spawn_with).
    #[track_caller]
    pub fn spawn_background(
        &'scope self,
        builder: Builder,
        future: impl Future<Output = Result<(), E>> + Send + 'scope,
    ) -> Task {
        expect(self.start(builder.into(), future, |result| result.map(|()| None)))
    }

    /// As [`spawn_with`](Self::spawn_with), but says so when there is no memory; the future is then dropped.
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// Where no runtime runs, and if the runtime has no such core.
    #[track_caller]
    pub fn try_spawn_with(
        &'scope self,
        builder: Builder,
        future: impl Future<Output = Result<T, E>> + Send + 'scope,
    ) -> Result<Task, SpawnError> {
        self.start(builder.into(), future, |result| result.map(Some))
    }

    /// Starts a child, in all the ways there are.
    #[track_caller]
    pub(crate) fn start<F: Future + Send + 'scope>(
        &'scope self,
        how: Start,
        future: F,
        map: fn(F::Output) -> Result<Option<T>, E>,
    ) -> Result<Task, SpawnError> {
        // SAFETY: what it borrows outlives `'scope`, and that ends after `run` has returned, because who
        // made the scope calls that; which it does when no child is live. What `T` and `E` borrow
        // outlives the whole call.
        unsafe { self.group.start(how, future, map) }
    }
}

impl<T, E> Scope<'_, '_, T, E> {
    /// Cancels all children, and those to come. The result is then that a child
    /// was cancelled, unless all had ended before.
    pub fn cancel_all(&self) {
        self.group.cancel_all();
    }

    /// Whether the scope was cancelled, by an error or by somebody.
    pub fn is_cancelled(&self) -> bool {
        self.group.is_cancelled()
    }

    /// Children that have not ended.
    pub fn live(&self) -> usize {
        self.group.live()
    }
}

impl<T: Send, E: Send> Scope<'_, '_, T, E> {
    /// # Safety
    /// Nobody has it who is not called by [`run`](Self::run), or a child.
    #[track_caller]
    pub(crate) unsafe fn new(parent: Option<TaskId>, fails_fast: bool) -> Self {
        Self {
            group: group_of(Group::try_new(parent, fails_fast)),
            scope: PhantomData,
            env: PhantomData,
        }
    }

    /// Calls the body, and waits until no child is left.
    #[track_caller]
    pub(crate) fn run<R>(&self, body: impl FnOnce() -> R) -> (Result<R, Payload>, Ended<T, E>) {
        assert_may_wait();
        let task = waker::own_header();
        assert!(
            task.is_some() || cores::local().is_null(),
            "a scope was opened by a waker or a policy, where nobody can wait"
        );
        if let Some(task) = task {
            task.open_scope(self.group.erased());
        }
        let bomb = Bomb("tasks borrow from a scope that cannot wait for them");
        let result = unwind::catch(body);
        if result.is_err() {
            self.cancel_all();
        }
        // If this task is cancelled, that cancels them.
        wait(self.group.until(|state| state.live == 0));
        if let Some(task) = task {
            task.close_scope();
        }
        let ended = self.group.try_close();
        let ended = ended.expect("only the body and children have spawned any");
        bomb.defuse();
        (result, ended)
    }
}

impl<T, E> fmt::Debug for Scope<'_, '_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({} live)", self.live())
    }
}
