//! Functions that block.
//!
//! Each is a task, so it has a handle, can be cancelled, and is waited for when the runtime ends. It
//! first waits for its turn, of which there are [so many](crate::runtime::Builder::blocking_threads); its
//! place among those who wait it has from the moment it was spawned. Then:
//!
//! - on the image it is called in its task's poll. It is preempted like all else, and of low priority,
//!   so that whatever awaits comes first;
//! - on the host nothing is preempted, so a thread of the OS calls it (`hal::blocking`), as a visitor
//!   of the runtime that stands for the task; and the task waits for what comes of it.

mod rest;

pub(crate) use self::rest::Rest;

use super::{
    Builder, SpawnError, Start, Task, TaskHandle, cell::Header, expect, extra::Extra,
    start::start_prepared, wait::wait_for_lent, waker,
};
use crate::{
    Priority,
    bomb::Bomb,
    memory::{Counted, NoMemory},
    runtime::{self, Runtime},
    scheduler::shared::Shared,
    sync::{Acquire, Permit, Semaphore, oneshot},
};
use core::{
    future::Future,
    pin::{Pin, pin},
    ptr,
    task::{Context, Poll, Waker},
};
use hal::{
    blocking::Threads,
    sync::Lock,
    unwind::{self, Payload},
};

/// Calls a function that may block or compute for long, without holding a core: beside it, tasks go on.
///
/// On the image it is preempted, and runs at [low priority](Priority::Low); on the host it
/// has a thread of the OS for itself, which is made if none is idle. No more than
/// [`blocking_threads`](crate::runtime::Builder::blocking_threads) run at once; the others wait for their turn, in the order
/// they were spawned. One that waits for another, with all turns taken, waits for ever.
///
/// [`cancel`](TaskHandle::cancel) before its turn has come, and it is never called. After that it always comes to its
/// end, and the handle gives what it returned; but it may ask [`is_cancelled`](super::is_cancelled) now and
/// then, and [`try_wait`](super::try_wait) in it comes back early.
///
/// Within the function all is as in a thread of [`thread::spawn`](crate::thread::spawn): it may
/// [`spawn`](super::spawn), [`wait`](super::wait) and use all that has `blocking` in its name.
///
/// [`Runtime::shutdown`] waits for all of them, [`Runtime::shutdown_now`] and the drop of the runtime for those that
/// have begun. A function that never ends makes them wait for ever.
///
/// A function that waits now and then for what tasks do needs none of this: any task may
/// [`wait`](super::wait), and only its own poll does. `docs/blocking.md` says when to use which.
///
/// ```
/// use executor::{Runtime, task::spawn_blocking};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let text = spawn_blocking(|| std::fs::read_to_string("Cargo.toml"));
///     assert!(text.await.unwrap().is_ok());
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// # Panics
/// Where no runtime runs; use [`Runtime::spawn_blocking`] there. And when there is no memory;
/// [`try_spawn_blocking`] returns that instead.
#[track_caller]
pub fn spawn_blocking<F, R>(function: F) -> TaskHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    expect(try_spawn_blocking(function))
}

/// As [`spawn_blocking`], but says so when there is no memory.
///
/// ```
/// use executor::{Runtime, task::try_spawn_blocking};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     match try_spawn_blocking(|| (1..=10).product::<u32>()) {
///         Ok(product) => assert_eq!(product.await.unwrap(), 3_628_800),
///         Err(error) => println!("not now: {error}"),
///     }
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// # Panics
/// Where no runtime runs, as [`spawn_blocking`] does.
#[track_caller]
pub fn try_spawn_blocking<F, R>(function: F) -> Result<TaskHandle<R>, SpawnError>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    runtime::with_current(|shared| start(shared, function))
}

impl Runtime {
    /// Calls a function that may block; see [`task::spawn_blocking`](super::spawn_blocking). On a runtime of one core
    /// it begins, as any task, only while some thread is in [`block_on`](Self::block_on).
    ///
    /// ```
    /// use executor::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let sum = runtime.spawn_blocking(|| (1..=10).sum::<u32>());
    /// assert_eq!(runtime.block_on(sum).unwrap(), 55);
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// When there is no memory.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, function: F) -> TaskHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        expect(start(self.shared(), function))
    }
}

/// Through the injector, like what comes from outside: so they begin in the order they came, on any core.
#[track_caller]
fn start<F, R>(shared: &Shared, function: F) -> Result<TaskHandle<R>, SpawnError>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let builder = Builder::new().name("blocking");
    let how = Start {
        // On the host its task has little to do, and others wait for that.
        builder: match hal::PREEMPTS {
            true => builder.priority(Priority::Low),
            false => builder,
        },
        thread: true,
        background: true,
        ..Start::default()
    };
    let job = Job {
        turn: Semaphore::acquire_counted(shared.blocking.turns.clone()),
        turn_now: None,
        function: Some(function),
    };
    // SAFETY: the function and what it returns are `Send`; nothing pinned is moved.
    unsafe { start_prepared(shared, how, job, Job::queue_up) }
}

/// The turn of a function.
pub(crate) type TurnPermit = Permit<Counted<Semaphore>>;

/// What a runtime has for functions that block.
pub(crate) struct Blocking {
    /// As many as may run at once.
    turns: Counted<Semaphore>,
    most: usize,
    threads: Threads,
    /// Functions on other threads that do not wait for anything of ours: virtual time stands still meanwhile.
    busy: Counted<Lock<usize>>,
}

impl Blocking {
    pub(crate) fn try_new(most: usize) -> Result<Self, NoMemory> {
        let most = most.min(Semaphore::MAX_PERMITS);
        Ok(Self {
            turns: Counted::try_new(Semaphore::new(most)).map_err(|_| NoMemory)?,
            most,
            threads: Threads::new(most),
            busy: Counted::try_new(Lock::new(0)).map_err(|_| NoMemory)?,
        })
    }

    /// How many have their turn.
    pub(crate) fn running(&self) -> usize {
        self.most - self.turns.available_permits()
    }

    /// How many threads are there for them.
    pub(crate) fn threads(&self) -> usize {
        self.threads.count()
    }

    /// Whether one is at work where no core sees it.
    pub(crate) fn is_busy(&self) -> bool {
        *self.busy.lock() != 0
    }

    /// No task is left: neither are threads needed.
    pub(crate) fn end(&self) {
        self.threads.end();
    }
}

impl Shared {
    /// Whether a function of it runs on this thread, which it has to wait for before it ends.
    pub(crate) fn is_lent_here(&self) -> bool {
        lent().is_some_and(|shared| ptr::eq(shared, self))
    }
}

/// The runtime whose function runs on this thread, beside its cores.
fn lent<'a>() -> Option<&'a Shared> {
    let task = waker::own_header().filter(|_| waker::current_header().is_none())?;
    // SAFETY: a task's home lives as long as the task, which waits for the function.
    Some(unsafe { task.home.as_ref() }.shared())
}

/// The future of a function that blocks.
struct Job<F> {
    /// Pinned with the whole.
    turn: Acquire<Counted<Semaphore>>,
    /// It came at once.
    turn_now: Option<TurnPermit>,
    /// Until it is called. Never pinned.
    function: Option<F>,
}

impl<F> Job<F> {
    /// Takes its place among those who wait for their turn, before anybody polls it.
    fn queue_up(mut self: Pin<&mut Self>) {
        // Its task is queued, and asks again.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(turn) = self.as_mut().poll_turn(&mut context) {
            // SAFETY: what is pinned is not moved.
            unsafe { self.get_unchecked_mut() }.turn_now = Some(turn);
        }
    }

    fn poll_turn(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<TurnPermit> {
        // SAFETY: what is pinned is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some(turn) = this.turn_now.take() {
            return Poll::Ready(turn);
        }
        // SAFETY: pinned with the whole, and never moved out of it.
        let turn = unsafe { Pin::new_unchecked(&mut this.turn) }.poll_at_once(context);
        turn.map(|turn| turn.expect("nobody closes it"))
    }
}

impl<F, R> Future for Job<F>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        let Poll::Ready(turn) = self.as_mut().poll_turn(context) else {
            return Poll::Pending;
        };
        // SAFETY: what is pinned is not moved.
        let function = unsafe { self.get_unchecked_mut() }.function.take();
        let function = function.expect("it is not polled again when it was called");
        let task = waker::current_header().expect("it is polled as a task");
        let _turn = Turn::begin(task, turn);
        if hal::PREEMPTS {
            return Poll::Ready(function());
        }
        match lend(task, function) {
            Some(output) => Poll::Ready(output),
            // It was cancelled just before it began, and ends here.
            None => Poll::Pending,
        }
    }
}

/// The turn of the function that runs. Kept beside the future: what that has is never dropped if it is lost.
struct Turn<'a>(&'a Extra);

impl<'a> Turn<'a> {
    fn begin(task: &'a Header, turn: TurnPermit) -> Self {
        let extra = task.extra_or_new();
        // SAFETY: the task itself, and nobody else looks at it now.
        unsafe { *extra.turn.get() = Some(turn) };
        Self(extra)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // SAFETY: the task itself.
        unsafe { self.0.give_turn_back() };
    }
}

impl Extra {
    /// The function of this task has ended, or is lost.
    ///
    /// # Safety
    /// The caller runs the task.
    pub(crate) unsafe fn give_turn_back(&self) {
        // SAFETY: the caller's promise; no reference is kept across the drop.
        drop(unsafe { (*self.turn.get()).take() });
    }
}

/// Has a thread beside the cores call the function of this task, which runs here, and waits for what comes of
/// it. None: the task was cancelled before.
fn lend<F, R>(task: &Header, function: F) -> Option<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    // SAFETY: a task's home lives as long as the task.
    let shared = unsafe { task.home.as_ref() }.shared();
    let (tell, told) = oneshot::channel();
    let lent = Lent {
        task: super::current(),
        function,
        tell,
    };
    let config = &shared.config;
    let Blocking { threads, busy, .. } = &shared.blocking;
    *busy.lock() += 1;
    if let Err(lent) = threads.run(lent, Lent::call, config.stack, config.blocking_idle) {
        *busy.lock() -= 1;
        // There is no thread to be had. Rather than never, it is called here, and holds the core.
        return Some((lent.function)());
    }
    // The function uses the task, which must not end before it.
    let bomb = Bomb("a blocking function runs, and there is no memory for its task to wait for it");
    let outcome = wait_for_lent(pin!(told));
    bomb.defuse();
    *busy.lock() -= 1;
    match outcome.expect("a thread has it, and calls it") {
        Ok(output) => output,
        Err(panic) => unwind::resume(panic),
    }
}

/// A function on its way to another thread, and who waits for it.
struct Lent<F, R> {
    task: Task,
    function: F,
    tell: oneshot::Sender<Result<Option<R>, Payload>>,
}

impl<F: FnOnce() -> R, R> Lent<F, R> {
    /// Calls it, on this thread.
    fn call(self) {
        let Self {
            task,
            function,
            tell,
        } = self;
        let outcome = unwind::catch(|| match task.is_cancelled() {
            true => None,
            false => Some(waker::visit_for(task.header(), function)),
        });
        // From here on the task goes on, and may end. It waits as long as this is not sent.
        let _ = tell.send(outcome);
    }
}
