//! Threads that borrow from the stack of whoever waits for them.

use super::{Builder, Thread};
use crate::{
    memory::Counted,
    sync::WakerSlot,
    task::{self, Call, SpawnError, TaskError},
};
use core::{
    convert::Infallible,
    fmt,
    future::poll_fn,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    task::Poll,
};
use hal::{sync::Lock, unwind};

/// Calls a function that spawns threads which may borrow from what is around it,
/// and returns what it returned when all of them have ended, joined or not.
///
/// If the task that calls this is cancelled, the threads are as soon as it waits
/// for anything; one that has not begun then still runs, and is told by
/// [`task::is_cancelled`].
///
/// ```
/// # use executor::{Runtime, thread};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let mut numbers = vec![1, 2, 3];
/// let sum = thread::scope(|scope| {
///     let (first, rest) = numbers.split_at_mut(1);
///     scope.spawn(|| first[0] = 10);
///     let sum = scope.spawn(|| rest.iter().sum::<i32>());
///     sum.join().unwrap()
/// });
/// assert_eq!((sum, numbers[0]), (5, 10));
/// # });
/// ```
///
/// What a thread borrows must outlive the scope, and its handle must not:
///
/// ```compile_fail,E0373
/// # use executor::thread;
/// thread::scope(|scope| {
///     let local = 1;
///     scope.spawn(|| local + 1);
/// });
/// ```
///
/// ```compile_fail
/// # use executor::thread;
/// let handle = thread::scope(|scope| scope.spawn(|| 1));
/// ```
///
/// # Panics
/// If the function does, or a thread that was not joined, when all have ended; if
/// such a thread was lost, because its stack was too small; and as [`task::wait`].
#[track_caller]
pub fn scope<'env, F, R>(body: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let parent = task::try_current().map(|parent| parent.id());
    let scope = Scope {
        // SAFETY: only the body has it, and the threads.
        tasks: unsafe { task::Scope::new(parent, false) },
        panics: AtomicUsize::new(0),
    };
    let (result, ended) = scope.tasks.run(|| body(&scope));
    let result = result.unwrap_or_else(|panic| unwind::resume(panic));
    // Relaxed: the threads have ended, and who joins them was one or is here. Who joined one that was
    // lost has counted it down, too.
    let failed = scope.panics.load(Relaxed).wrapping_add(ended.lost());
    assert!(failed == 0, "a scoped thread panicked or was lost");
    result
}

/// Spawns the threads of a [`scope`]: in its function, and in the threads themselves.
///
/// ```
/// use executor::{Runtime, thread::{self, Scope}};
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
///     thread::scope(|scope| fill(scope, &mut places));
///     assert_eq!(places, [7; 3]);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    tasks: task::Scope<'scope, 'env, Infallible, Infallible>,
    /// Threads that panicked, less those of which somebody knows that.
    panics: AtomicUsize,
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread, which may borrow whatever outlives the scope.
    ///
    /// ```
    /// use executor::{Runtime, thread};
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let words = ["one", "three"];
    ///     let lengths = thread::scope(|scope| {
    ///         let threads = words.each_ref().map(|word| scope.spawn(|| word.len()));
    ///         threads.map(|thread| thread.join().unwrap())
    ///     });
    ///     assert_eq!(lengths, [3, 5]);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// Where no runtime runs, and when there is no memory; [`Builder::spawn_scoped`] says so instead.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, body: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        task::expect(Builder::new().spawn_scoped(self, body))
    }
}

impl Builder {
    /// Spawns a thread of a scope; see [`Scope::spawn`]. Err: there is no memory.
    ///
    /// ```
    /// use executor::{Runtime, thread::{self, Builder}};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let text = String::from("hello");
    ///     thread::scope(|scope| {
    ///         let counter = Builder::new().name("counter").spawn_scoped(scope, || text.len()).unwrap();
    ///         assert_eq!(counter.thread().name(), Some("counter"));
    ///         assert_eq!(counter.join().unwrap(), 5);
    ///     });
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// Where no runtime runs, and if the runtime has no such core.
    #[track_caller]
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        body: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let outcome = Counted::try_new(Outcome::default()).map_err(|_| SpawnError::NoMemory)?;
        let panics = &scope.panics;
        let call = {
            let outcome = outcome.clone();
            Call::new(move || {
                let result = unwind::catch(body);
                if result.is_err() {
                    panics.fetch_add(1, Relaxed);
                }
                outcome.set(result.map_err(|panic| TaskError::Panicked(panic.into())));
                // If the handle is gone, so is what the thread returned.
                if unwind::catch(|| drop(outcome)).is_err() {
                    panics.fetch_add(1, Relaxed);
                }
            })
        };
        let task = scope.tasks.start(self.into(), call, |()| Ok(None))?;
        Ok(ScopedJoinHandle {
            thread: Thread(task),
            outcome,
            panics,
        })
    }
}

/// What a thread ended with, between it and its handle.
struct Outcome<T> {
    result: Lock<Option<Result<T, TaskError>>>,
    waiting: WakerSlot,
}

impl<T> Default for Outcome<T> {
    fn default() -> Self {
        Self {
            result: Lock::new(None),
            waiting: WakerSlot::new(),
        }
    }
}

impl<T> Outcome<T> {
    fn set(&self, result: Result<T, TaskError>) {
        *self.result.lock() = Some(result);
        self.waiting.wake();
    }

    fn take(&self) -> Option<Result<T, TaskError>> {
        self.result.lock().take()
    }
}

/// Waits for a thread of a scope. Dropping it leaves that to the scope.
///
/// ```
/// use executor::{Runtime, thread::{self, ScopedJoinHandle}};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let mut sum = 0;
///     thread::scope(|scope| {
///         let adder: ScopedJoinHandle<'_, ()> = scope.spawn(|| sum = 1 + 2);
///         drop(adder);
///     });
///     assert_eq!(sum, 3);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct ScopedJoinHandle<'scope, T> {
    thread: Thread,
    outcome: Counted<Outcome<T>>,
    panics: &'scope AtomicUsize,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits until the thread's function has ended, and returns what it
    /// returned. (The scope waits for the thread's finalizers, too.)
    ///
    /// ```
    /// use executor::{Runtime, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     thread::scope(|scope| {
    ///         assert_eq!(scope.spawn(|| 1 + 1).join().unwrap(), 2);
    ///         // Who joins it knows of the panic, so the scope does not.
    ///         assert!(scope.spawn(|| panic!("on purpose")).join().is_err());
    ///     });
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`task::wait`].
    #[track_caller]
    pub fn join(self) -> Result<T, TaskError> {
        let outcome = &self.outcome;
        let loss = self.thread.task().header().extra().map(|extra| &extra.loss);
        let look = || {
            let lost = || loss?.why().map(Err);
            outcome.take().or_else(lost)
        };
        let result = task::wait(poll_fn(|context| {
            if let Some(result) = look() {
                return Poll::Ready(result);
            }
            outcome.waiting.register(context.waker());
            if let Some(loss) = loss {
                loss.register(context.waker());
            }
            look().map_or(Poll::Pending, Poll::Ready)
        }));
        outcome.waiting.clear();
        if let Some(loss) = loss {
            loss.clear();
        }
        if result.is_err() {
            self.panics.fetch_sub(1, Relaxed);
        }
        result
    }

    /// The thread itself.
    ///
    /// ```
    /// use executor::{Runtime, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     thread::scope(|scope| {
    ///         let parked = scope.spawn(thread::park);
    ///         parked.thread().unpark();
    ///     });
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Whether it has ended.
    ///
    /// ```
    /// use executor::{Runtime, sync::oneshot, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (sender, receiver) = oneshot::channel();
    ///     thread::scope(|scope| {
    ///         let thread = scope.spawn(|| receiver.blocking_recv());
    ///         assert!(!thread.is_finished());
    ///         sender.send(1).unwrap();
    ///         while !thread.is_finished() {
    ///             thread::yield_now();
    ///         }
    ///     });
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn is_finished(&self) -> bool {
        self.thread.task().is_finished()
    }

    /// Asks the thread to end: [`task::is_cancelled`] tells it, and `park`, `sleep`
    /// and [`task::try_wait`] return early. One that has not begun still runs. False: it has ended already.
    ///
    /// ```
    /// use executor::{Runtime, task, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     thread::scope(|scope| {
    ///         let thread = scope.spawn(|| {
    ///             while !task::is_cancelled() {
    ///                 thread::park();
    ///             }
    ///             "told"
    ///         });
    ///         assert!(thread.cancel());
    ///         assert_eq!(thread.join().unwrap(), "told");
    ///     });
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.thread.task().cancel()
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopedJoinHandle({})", self.thread.id())
    }
}
