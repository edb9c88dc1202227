//! Threads: functions that run by themselves and are preempted like any task.
//!
//! A thread is a task that is polled once: it runs on the stack it is polled
//! on, keeps it whenever it waits or is preempted, and has ended when the
//! function returns. So threads and tasks share cores, queues, priorities,
//! cancellation and introspection, and either may wait for the other. (On the host there is no tick: a thread
//! keeps its core until it waits or yields; what blocks there is for [`task::spawn_blocking`].)
//!
//! ```
//! # use executor::{Runtime, thread};
//! # let runtime = Runtime::builder().workers(2).build().unwrap();
//! # runtime.block_on(async {
//! let adder = thread::spawn(|| (1..=10).sum::<u32>());
//! assert_eq!(adder.await.unwrap(), 55);
//! # });
//! ```
//!
//! Those of a [`scope`] borrow from whoever waits for them. [`Mutex`], [`RwLock`] and [`Condvar`] are for what
//! threads share; a thread may use what is in [`sync`](crate::sync) just as well, by what there has
//! `blocking` in its name, or by [`task::wait`] for any future.

mod condvar;
pub(crate) mod held;
mod lock;
mod scoped;

pub use self::{
    condvar::{Condvar, WaitTimeoutResult},
    lock::{Guard, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard},
    scoped::{Scope, ScopedJoinHandle, scope},
};

use crate::{
    Priority,
    scheduler::switching::{Leave, suspend},
    sync::WakerSlot,
    task::{self, SpawnError, Start, Task, TaskError, TaskHandle, TaskId, waker},
    time::{self, Duration},
};
use alloc::borrow::Cow;
use core::{
    fmt,
    future::{IntoFuture, poll_fn},
    sync::atomic::{AtomicBool, Ordering::*},
    task::Poll,
};

/// How a thread is to be spawned.
///
/// ```
/// use executor::{Priority, Runtime, thread::Builder};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let builder = Builder::new().name("adder").priority(Priority::High);
///     let adder = builder.spawn(|| 1 + 1).expect("there is memory");
///     assert_eq!(adder.await.unwrap(), 2);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    /// What it is called in lists of tasks.
    pub name: Option<Cow<'static, str>>,
    /// Room for its stack, in bytes. None: as the runtime's others.
    pub stack_size: Option<usize>,
    /// What it goes before.
    pub priority: Priority,
    /// The core of the runtime, from 0, that alone may run it.
    pub core: Option<usize>,
}

impl Builder {
    /// A thread of normal priority, on any core, without a name.
    ///
    /// ```
    /// use executor::{Priority, thread::Builder};
    ///
    /// let builder = Builder::new();
    /// assert_eq!((builder.name, builder.priority, builder.core), (None, Priority::Normal, None));
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls it something.
    ///
    /// ```
    /// use executor::{Runtime, thread::{self, Builder}};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let named = Builder::new().name("adder").spawn(|| thread::current().name().map(String::from));
    ///     assert_eq!(named.unwrap().await.unwrap().as_deref(), Some("adder"));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Gives its stack this much room, in bytes, but at least 16 KiB. It has memory only as far as it was used.
    ///
    /// ```
    /// use executor::{Runtime, thread::Builder};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let large = Builder::new().stack_size(32 << 20).spawn(|| {
    ///         let room = std::hint::black_box([1_u8; 10 << 20]);
    ///         room[room.len() - 1]
    ///     });
    ///     assert_eq!(large.unwrap().await.unwrap(), 1);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Gives it a priority.
    ///
    /// ```
    /// use executor::{Priority, Runtime, sync::channel::unbounded, thread::Builder};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (sender, receiver) = unbounded();
    ///     for priority in [Priority::Low, Priority::High] {
    ///         let sender = sender.clone();
    ///         let builder = Builder::new().priority(priority);
    ///         builder.spawn(move || sender.send_blocking(priority)).unwrap();
    ///     }
    ///     assert_eq!(receiver.recv().await, Ok(Priority::High));
    ///     assert_eq!(receiver.recv().await, Ok(Priority::Low));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn priority(mut self, priority: Priority) -> Self {
        if priority != Priority::Normal {
            crate::scheduler::inherit::note_levels();
        }
        self.priority = priority;
        self
    }

    /// Binds it to a core of the runtime, numbered from 0.
    ///
    /// ```
    /// use executor::{Runtime, thread::Builder};
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     // Core 0 is the one that calls `block_on`.
    ///     let here = std::thread::current().id();
    ///     let bound = Builder::new().core(0).spawn(|| std::thread::current().id());
    ///     assert_eq!(bound.unwrap().await.unwrap(), here);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn core(mut self, core: usize) -> Self {
        self.core = Some(core);
        self
    }

    /// Spawns it; see [`spawn`]. Err: there is no memory.
    ///
    /// ```
    /// use executor::{Runtime, thread::Builder};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     match Builder::new().spawn(|| 1 + 1) {
    ///         Ok(thread) => assert_eq!(thread.await.unwrap(), 2),
    ///         Err(error) => println!("no thread: {error}"),
    ///     }
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// Where no runtime runs, and if the runtime has no such core.
    #[track_caller]
    pub fn spawn<F, T>(self, body: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        task::start_thread(self.into(), async { body() }).map(JoinHandle)
    }
}

impl From<Builder> for Start {
    fn from(builder: Builder) -> Self {
        let Builder {
            name,
            stack_size,
            priority,
            core,
        } = builder;
        Self {
            builder: task::Builder {
                name,
                priority,
                core,
                tag: 0,
            },
            thread: true,
            stack_size,
            ..Self::default()
        }
    }
}

/// Starts a thread.
///
/// ```
/// use executor::{Runtime, thread};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let text = String::from("hello");
///     let counter = thread::spawn(move || text.len());
///     assert_eq!(counter.await.unwrap(), 5);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// # Panics
/// Where no runtime runs, and when there is no memory; [`Builder::spawn`] says so instead.
#[track_caller]
pub fn spawn<F, T>(body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    task::expect(Builder::new().spawn(body))
}

/// Waits for a thread: [`join`](Self::join) in a thread, `.await` in a task.
/// Dropping it lets the thread go on by itself.
///
/// ```
/// use executor::{Runtime, thread::{self, JoinHandle}};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let threads: Vec<JoinHandle<u32>> = (1..4).map(|number| thread::spawn(move || number * number)).collect();
///     let mut sum = 0;
///     for thread in threads {
///         sum += thread.await.unwrap();
///     }
///     assert_eq!(sum, 14);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct JoinHandle<T>(TaskHandle<T>);

impl<T> JoinHandle<T> {
    /// Waits until the thread has ended, and returns what it returned.
    ///
    /// ```
    /// use executor::{Runtime, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let sum = thread::spawn(|| {
    ///         let half = thread::spawn(|| 1 + 2);
    ///         3 + 4 + half.join().unwrap()
    ///     });
    ///     assert_eq!(sum.await.unwrap(), 10);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`task::wait`].
    #[track_caller]
    pub fn join(self) -> Result<T, TaskError> {
        task::wait(self.0)
    }

    /// The thread itself.
    ///
    /// ```
    /// use executor::{Runtime, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let parked = thread::spawn(thread::park);
    ///     parked.thread().unpark();
    ///     parked.await.unwrap();
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn thread(&self) -> Thread {
        Thread(self.0.task())
    }

    /// Whether it has ended.
    ///
    /// ```
    /// use executor::{Runtime, sync::oneshot, task::yield_now, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (sender, receiver) = oneshot::channel();
    ///     let thread = thread::spawn(|| receiver.blocking_recv());
    ///     assert!(!thread.is_finished());
    ///     sender.send(1).unwrap();
    ///     while !thread.is_finished() {
    ///         yield_now().await;
    ///     }
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Asks the thread to end: [`task::is_cancelled`] tells it, and [`park`],
    /// [`sleep`] and [`task::try_wait`] return early. A thread that has not begun never begins; who joins it
    /// hears that it was cancelled. False: it has ended already.
    ///
    /// ```
    /// use executor::{Runtime, sync::oneshot, task, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (sender, has_begun) = oneshot::channel();
    ///     let thread = thread::spawn(move || {
    ///         sender.send(()).unwrap();
    ///         while !task::is_cancelled() {
    ///             thread::park();
    ///         }
    ///         "told"
    ///     });
    ///     has_begun.await.unwrap();
    ///     assert!(thread.cancel());
    ///     assert_eq!(thread.await.unwrap(), "told");
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.0.cancel()
    }
}

impl<T> IntoFuture for JoinHandle<T> {
    type Output = Result<T, TaskError>;
    type IntoFuture = TaskHandle<T>;

    fn into_future(self) -> TaskHandle<T> {
        self.0
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinHandle({})", self.0.id())
    }
}

/// A thread, or a task. May be kept after it has ended.
///
/// ```
/// use executor::{Runtime, thread::{self, Thread}};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let me: Thread = thread::current();
///     let waker = thread::spawn(move || me.unpark());
///     thread::park();
///     waker.await.unwrap();
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Thread(Task);

impl Thread {
    /// Which one it is.
    ///
    /// ```
    /// use executor::{Runtime, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let thread = thread::spawn(thread::id);
    ///     let id = thread.thread().id();
    ///     assert_eq!(thread.await.unwrap(), id);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn id(&self) -> TaskId {
        self.0.id()
    }

    /// What it was called when it was spawned.
    ///
    /// ```
    /// use executor::{Runtime, thread::Builder};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let thread = Builder::new().name("idle").spawn(|| {}).unwrap();
    ///     assert_eq!(thread.thread().name(), Some("idle"));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Lets its next [`park`], or the one it is in, return.
    ///
    /// ```
    /// use executor::{Runtime, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let me = thread::current();
    ///     me.unpark();
    ///     // It was unparked before, so this returns at once.
    ///     thread::park();
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn unpark(&self) {
        if let Some(extra) = self.0.header().extra() {
            extra.parking.unpark();
        }
    }

    /// The same as a task.
    ///
    /// ```
    /// use executor::{Runtime, thread};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let thread = thread::spawn(|| {}).thread();
    ///     assert_eq!(thread.task().id(), thread.id());
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn task(&self) -> &Task {
        &self.0
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The thread, or the task, that runs here.
///
/// ```
/// use executor::{Runtime, thread};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let thread = thread::spawn(thread::current);
///     let expected = thread.thread();
///     assert_eq!(thread.await.unwrap(), expected);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// # Panics
/// Outside both; and in a task without a name, if there is no memory for what an `unpark` looks at.
#[track_caller]
pub fn current() -> Thread {
    let task = task::current();
    // Who unparks it looks there.
    task.header().extra_or_new();
    Thread(task)
}

/// Id of the thread that runs here.
///
/// ```
/// use executor::{Runtime, thread};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let other = thread::spawn(thread::id);
///     assert_ne!(other.await.unwrap(), thread::id());
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// # Panics
/// Outside a thread or a task.
#[track_caller]
pub fn id() -> TaskId {
    task::id()
}

/// Lets everything run that was runnable on this core, at this priority, and goes on behind it.
///
/// ```
/// use executor::{Runtime, thread};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let other = thread::spawn(|| {});
///     while !other.is_finished() {
///         thread::yield_now();
///     }
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// # Panics
/// Outside a thread or a task; and under a guard, a lock of hal's or in an interrupt.
#[track_caller]
pub fn yield_now() {
    assert!(waker::own_header().is_some(), "no thread runs here");
    task::assert_may_wait();
    if waker::current_header().is_none() {
        // A blocking function, on a thread of its own.
        return hal::pause();
    }
    // Without memory for another stack, nobody else can have the core.
    let _ = suspend(Leave::ToGiveWay);
}

/// Waits for so long. Returns early if the thread is cancelled.
///
/// ```
/// use executor::{Runtime, thread, time::{Duration, Instant}};
///
/// # let runtime = Runtime::builder().workers(1).virtual_clock().build()?;
/// runtime.block_on(async {
///     let began = Instant::now();
///     thread::sleep(Duration::from_secs(1));
///     assert!(began.elapsed() >= Duration::from_secs(1));
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// # Panics
/// Where no runtime runs, and as [`task::wait`].
#[track_caller]
pub fn sleep(duration: Duration) {
    let _ = task::try_wait(time::sleep(duration));
}

/// Waits until somebody calls [`Thread::unpark`]: at once if that was since
/// the last one. May return early, and does if the thread is cancelled.
///
/// ```
/// use executor::{Runtime, thread};
/// use std::sync::{Arc, atomic::{AtomicBool, Ordering::*}};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let is_open = Arc::new(AtomicBool::new(false));
///     let looks = is_open.clone();
///     let waiting = thread::spawn(move || {
///         while !looks.load(Acquire) {
///             thread::park();
///         }
///     });
///     is_open.store(true, Release);
///     waiting.thread().unpark();
///     waiting.await.unwrap();
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// # Panics
/// Outside a thread or a task, and as [`task::wait`].
#[track_caller]
pub fn park() {
    let current = current();
    let parking = &current.0.header().extra_or_new().parking;
    let _ = task::try_wait(poll_fn(|context| {
        if parking.take() {
            return Poll::Ready(());
        }
        parking.waiting.register(context.waker());
        if parking.take() {
            return Poll::Ready(());
        }
        Poll::Pending
    }));
    parking.waiting.clear();
}

/// Whether a thread may go on, and who is to be woken then.
#[derive(Default)]
pub(crate) struct Parking {
    is_unparked: AtomicBool,
    waiting: WakerSlot,
}

impl Parking {
    fn take(&self) -> bool {
        // Acquire pairs with the release in `unpark`.
        self.is_unparked.swap(false, Acquire)
    }

    fn unpark(&self) {
        // Release pairs with the acquire in `take`. The slot's lock orders it with the second look there.
        self.is_unparked.store(true, Release);
        self.waiting.wake();
    }
}
