//! Several tasks that end together: structured concurrency.
//!
//! [`TaskGroup`] owns the children, a [`GroupHandle`] spawns more of them from
//! anywhere, and [`task_group`] is both for one function. These children are
//! `'static`; those of a [`nursery`] borrow.
//!
//! Beneath, `start` starts one and hears of its end; `children` counts them and
//! knows how each ended.

mod children;
mod nursery;
mod start;

use self::children::{Ended, Group, Phase, State};
use super::{Builder, SpawnError, Task, TaskError, expect, waker};
use crate::memory::{Counted, NoMemory};
use alloc::vec::Vec;
use core::{
    fmt,
    future::{Future, poll_fn},
    ops::Deref,
    pin::pin,
    task::Poll,
};

pub use self::nursery::{Scope, nursery, nursery_independent};
pub(super) use self::start::Children;

/// Why a child has no output.
#[derive(Debug)]
pub enum ChildError<E> {
    /// It returned this error.
    Failed(E),
    /// It was cancelled or panicked.
    Task(TaskError),
}

impl<E: fmt::Display> fmt::Display for ChildError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Task(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for ChildError<E> {}

/// A group of tasks that end together.
///
/// The first child that ends in error (returns one, panics, or is cancelled by
/// somebody) makes the group cancel the others, and is what [`join`](Self::join)
/// returns once all have ended. Dropping the group cancels its children too, so
/// cancelling a task goes down through the groups it holds; their destructors
/// and finalizers still run, but nobody waits for them.
///
/// ```
/// # use executor::{Runtime, task::{ChildError, TaskGroup}};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let group = TaskGroup::new();
/// for number in 0..4 {
///     group.spawn(async move { if number < 4 { Ok(number * number) } else { Err("too large") } });
/// }
/// assert_eq!(group.join().await.unwrap(), [0, 1, 4, 9]);
/// # });
/// ```
#[must_use = "dropping a group cancels its tasks: `join` it"]
pub struct TaskGroup<T, E>(GroupHandle<T, E>);

/// Spawns into a [`TaskGroup`], from wherever it is brought, the group's own
/// children among that.
pub struct GroupHandle<T, E>(Counted<Group<T, E>>);

impl<T: Send + 'static, E: Send + 'static> TaskGroup<T, E> {
    /// A group in which the first error cancels the others. Its children's parent is the task that calls this.
    ///
    /// # Panics
    /// If there is no memory for it; [`try_new`](Self::try_new) says so instead.
    #[track_caller]
    pub fn new() -> Self {
        group_of(Self::try_new())
    }

    /// As [`new`](Self::new), but says so when there is no memory.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn try_new() -> Result<Self, NoMemory> {
        Self::with(true)
    }

    /// A group in which an error leaves the others alone.
    ///
    /// # Panics
    /// If there is no memory for it; [`try_independent`](Self::try_independent) says so instead.
    #[track_caller]
    pub fn independent() -> Self {
        group_of(Self::try_independent())
    }

    /// As [`independent`](Self::independent), but says so when there is no memory.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn try_independent() -> Result<Self, NoMemory> {
        Self::with(false)
    }

    fn with(fails_fast: bool) -> Result<Self, NoMemory> {
        let parent = waker::own_header().map(|parent| parent.id());
        Ok(Self(GroupHandle(Group::try_new(parent, fails_fast)?)))
    }

    /// Lets its tasks take no more than so many bytes, all that live together. What is counted are the
    /// tasks themselves: their futures with all that is in them, and what the executor keeps of each; not what they allocate.
    ///
    /// A child that would be too much is refused: by the forms with `try_`, with [`SpawnError::Quota`]; the others panic.
    ///
    /// ```
    /// use executor::{Runtime, task::{SpawnError, TaskGroup, yield_now}};
    ///
    /// async fn large() -> Result<u8, ()> {
    ///     let room = [1; 3000];
    ///     yield_now().await;
    ///     Ok(room[2999])
    /// }
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let mut group = TaskGroup::new().quota(5000);
    ///     group.try_spawn(large()).unwrap();
    ///     assert_eq!(group.try_spawn(large()).unwrap_err(), SpawnError::Quota);
    ///     group.wait().await;
    ///     // The first has ended.
    ///     group.try_spawn(large()).unwrap();
    ///     assert_eq!(group.join().await.unwrap(), [1, 1]);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn quota(self, bytes: usize) -> Self {
        self.0.0.state.lock().quota = bytes;
        self
    }

    /// To spawn from elsewhere.
    pub fn handle(&self) -> GroupHandle<T, E> {
        self.0.clone()
    }

    /// Waits until no child is left, and leaves their results in the group.
    /// Nothing is lost if this is dropped half way.
    pub async fn wait(&mut self) {
        self.0.0.until(|state| state.live == 0).await;
    }

    /// Waits until all children have ended, and returns what they returned, in
    /// the order in which they were spawned; or the first error there was.
    pub async fn join(self) -> Result<Vec<T>, ChildError<E>> {
        self.close().await.all_or_first_error()
    }

    /// Waits until all children have ended, and returns how each did, in the
    /// order in which they were spawned.
    pub async fn join_all(self) -> Vec<Result<T, ChildError<E>>> {
        self.close().await.in_order().collect()
    }

    /// Waits until no child is left and none can be added.
    async fn close(mut self) -> Ended<T, E> {
        loop {
            self.wait().await;
            // Somebody with a handle may have added one since.
            if let Some(ended) = self.0.0.try_close() {
                return ended;
            }
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Default for TaskGroup<T, E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, E> Deref for TaskGroup<T, E> {
    type Target = GroupHandle<T, E>;

    fn deref(&self) -> &GroupHandle<T, E> {
        &self.0
    }
}

impl<T, E> Drop for TaskGroup<T, E> {
    fn drop(&mut self) {
        let group = &self.0.0;
        let waiter = {
            let mut state = group.state.lock();
            state.phase = Phase::Closed;
            state.waiter.take()
        };
        drop(waiter);
        group.cancel_children();
    }
}

impl<T: Send + 'static, E: Send + 'static> GroupHandle<T, E> {
    /// Starts a child; its result is kept until the group is joined. If the group was cancelled or
    /// has ended, the child is cancelled before it begins.
    ///
    /// # Panics
    /// As [`task::spawn`](super::spawn).
    #[track_caller]
    pub fn spawn(&self, future: impl Future<Output = Result<T, E>> + Send + 'static) -> Task {
        self.spawn_with(Builder::new(), future)
    }

    /// Starts a child with a name, a priority, a core.
    ///
    /// # Panics
    /// As [`task::spawn_with`](super::spawn_with).
    #[track_caller]
    pub fn spawn_with(
        &self,
        builder: Builder,
        future: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Task {
        expect(self.try_spawn_with(builder, future))
    }

    /// Starts a child of which only an error is of interest: nothing is kept of
    /// one that ended well. For servers, that spawn for as long as they run.
    ///
    /// # Panics
    /// As [`task::spawn_with`](super::spawn_with).
    #[track_caller]
    pub fn spawn_background(
        &self,
        builder: Builder,
        future: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Task {
        expect(self.try_spawn_background(builder, future))
    }

    /// As [`spawn`](Self::spawn), but says so when there is no memory; the future is then dropped.
    ///
    /// # Errors
    /// There is no memory for it, or it would be more than the [quota](TaskGroup::quota).
    ///
    /// # Panics
    /// Where no runtime runs.
    #[track_caller]
    pub fn try_spawn(
        &self,
        future: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<Task, SpawnError> {
        self.try_spawn_with(Builder::new(), future)
    }

    /// As [`spawn_with`](Self::spawn_with), but says so when there is no memory; the future is then dropped.
    ///
    /// # Errors
    /// As [`try_spawn`](Self::try_spawn).
    ///
    /// # Panics
    /// Where no runtime runs, and if the runtime has no such core.
    #[track_caller]
    pub fn try_spawn_with(
        &self,
        builder: Builder,
        future: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<Task, SpawnError> {
        self.start(builder, future, |result| result.map(Some))
    }

    /// As [`spawn_background`](Self::spawn_background), but says so when there is no memory; the future is then dropped.
    ///
    /// # Errors
    /// As [`try_spawn`](Self::try_spawn).
    ///
    /// # Panics
    /// Where no runtime runs, and if the runtime has no such core.
    #[track_caller]
    pub fn try_spawn_background(
        &self,
        builder: Builder,
        future: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Result<Task, SpawnError> {
        self.start(builder, future, |result| result.map(|()| None))
    }

    #[track_caller]
    fn start<F: Future + Send + 'static>(
        &self,
        builder: Builder,
        future: F,
        map: fn(F::Output) -> Result<Option<T>, E>,
    ) -> Result<Task, SpawnError> {
        // SAFETY: nothing is borrowed: all of it is `'static`.
        unsafe { self.0.start(builder.into(), future, map) }
    }
}

impl<T, E> GroupHandle<T, E> {
    /// Cancels all children, and those to come. The group's result is then that
    /// a child was cancelled, unless all had ended before.
    pub fn cancel_all(&self) {
        self.0.cancel_all();
    }

    /// Whether the group was cancelled, by an error or by somebody, or has ended.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Children that have not ended.
    pub fn live(&self) -> usize {
        self.0.live()
    }

    /// Bytes that these take, as a [quota](TaskGroup::quota) counts them.
    pub fn used(&self) -> usize {
        self.0.used()
    }
}

impl<T, E> Clone for GroupHandle<T, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[track_caller]
fn group_of<G>(made: Result<G, NoMemory>) -> G {
    made.unwrap_or_else(|NoMemory| panic!("there is no memory for a group of tasks"))
}

/// Runs a function that spawns tasks into a group, and waits until it and all
/// of them have ended; gives what they returned, in the order in which they
/// were spawned, or the first error.
///
/// After an error, or [`cancel_all`](GroupHandle::cancel_all), the function too
/// ends at its next await. Dropping the future cancels everything in it.
///
/// ```
/// # use executor::{Runtime, task::{ChildError, task_group}};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let lengths = task_group(async |group| {
///     for word in ["one", "three"] {
///         group.spawn(async move { Ok::<_, ()>(word.len()) });
///     }
/// });
/// assert_eq!(lengths.await.unwrap(), [3, 5]);
/// # });
/// ```
pub async fn task_group<T, E>(
    body: impl AsyncFnOnce(GroupHandle<T, E>),
) -> Result<Vec<T>, ChildError<E>>
where
    T: Send + 'static,
    E: Send + 'static,
{
    let group = TaskGroup::new();
    {
        let mut body = pin!(body(group.handle()));
        let is_over = |state: &State<T, E>| state.phase != Phase::Open;
        poll_fn(|context| match body.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => group.0.0.poll_until(context, is_over),
        })
        .await;
    }
    group.join().await
}
