//! A runtime: the cores it has, and how it begins and ends.
//!
//! The first core of a runtime is whichever thread calls
//! [`block_on`](Runtime::block_on), while it does; the others come from
//! `hal::lot` (on the image the cores that have nothing to do, on the host
//! new threads) and go back there when the runtime is shut down.

mod builder;

pub(crate) use builder::LEAST_STACK;
pub use builder::{BuildError, Builder, Config};

use crate::{
    bomb::Bomb,
    scheduler::{
        mail::STOP,
        shared::{Phase, Shared},
        worker::Worker,
    },
    sync::WakerSlot,
    task::{
        self, Builder as TaskBuilder, Origin, SpawnError, Start, TaskError, TaskHandle,
        blocking::Rest, local::without_locals, waker,
    },
    thread::held::poll_checked,
};
use alloc::{sync::Arc, task::Wake, vec::Vec};
use core::{
    future::{Future, poll_fn},
    mem,
    pin::{Pin, pin},
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering::*},
    task::{Context, Poll, RawWaker, RawWakerVTable, Waker},
};
use hal::{cores, irq, lot::Run, preempt, unwind};

/// What a core of the lot does for a runtime.
fn serve(worker: usize) {
    let worker = core::ptr::with_exposed_provenance::<Worker>(worker);
    // SAFETY: `end` waits until this core has said that it is done.
    let worker = unsafe { &*worker };
    // SAFETY: this is the only core that was given this worker.
    unsafe { worker.run() };
    let shared = worker.shared();
    let waiting = shared.waiting.load(Relaxed);
    // Release pairs with the acquire in `end`. The runtime may be gone from here on.
    shared.serving.fetch_sub(1, Release);
    cores::kick(waiting);
}

/// Cores that run tasks.
///
/// Dropping it cancels all its tasks and waits until they have ended, as
/// [`shutdown_now`](Self::shutdown_now) does; see [`shutdown`](Self::shutdown) for letting them finish.
///
/// Within a task nobody can serve its first core: there it ends only if no task of
/// it lives, and panics otherwise. If that task panics already, the runtime is
/// given up without a word: its tasks and its other cores go on, for nobody.
pub struct Runtime {
    shared: NonNull<Shared>,
    /// What its cores but the first do.
    runs: Vec<Run>,
}

// SAFETY: all that is shared is made for it.
unsafe impl Send for Runtime {}
// SAFETY: as above.
unsafe impl Sync for Runtime {}

impl Runtime {
    /// A runtime on the usual cores: all that are free, on the host no more than run at once;
    /// see [`Builder::workers`].
    pub fn new() -> Result<Self, BuildError> {
        Builder::new().build()
    }

    /// A runtime that is not as usual.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the runtime's own reference keeps it.
        unsafe { self.shared.as_ref() }
    }

    /// How many cores it has.
    pub fn cores(&self) -> usize {
        self.shared().cores().len()
    }

    /// Starts a task; see [`task::spawn`].
    ///
    /// # Panics
    /// When there is no memory.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_with(TaskBuilder::new(), future)
    }

    /// Starts a task with a name, a priority, a core.
    ///
    /// # Panics
    /// When there is no memory, and if the runtime has no such core.
    #[track_caller]
    pub fn spawn_with<F>(&self, builder: TaskBuilder, future: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        task::expect(self.try_spawn_with(builder, future))
    }

    /// As [`spawn`](Self::spawn), but says so when there is no memory; the future is then dropped.
    ///
    /// ```
    /// use executor::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let task = runtime.try_spawn(async { 6 * 7 })?;
    /// assert_eq!(runtime.block_on(task)?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn try_spawn<F>(&self, future: F) -> Result<TaskHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.try_spawn_with(TaskBuilder::new(), future)
    }

    /// As [`spawn_with`](Self::spawn_with), but says so when there is no memory; the future is then dropped.
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// If the runtime has no such core.
    #[track_caller]
    pub fn try_spawn_with<F>(
        &self,
        builder: TaskBuilder,
        future: F,
    ) -> Result<TaskHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: the future and its output are `Send`.
        unsafe { task::start(Origin::Outside(self.shared()), builder.into(), future) }
    }

    /// Runs a future to its end, and meanwhile, if no other thread does, serves
    /// the runtime's first core. The future is a local task of that core: it
    /// need not be `Send`, and may [`spawn_local`](task::spawn_local). The local
    /// tasks of the first core that are left when the future has ended are
    /// cancelled before this returns: they belong to this thread.
    ///
    /// While another thread serves the first core, this one only visits: it polls
    /// the future by itself, which may `spawn` and sleep, but is no task. There
    /// [`spawn_local`](task::spawn_local), [`on_exit`](task::on_exit) and [`task::id`] panic. Which of the
    /// two it is, is a matter of who comes first: with several threads, let the future do without these.
    ///
    /// Tasks that are bound to core 0, and all tasks of a runtime of one core,
    /// run only while some thread is in `block_on`.
    ///
    /// Within a task it is [`wait`](task::wait).
    ///
    /// # Panics
    /// If the future panics, if a policy of the user's own drops it, and where nobody may wait.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        if waker::current_header().is_some() {
            return task::wait(future);
        }
        assert!(
            is_outside(),
            "`block_on` was called by a waker or in an interrupt, where nobody can wait"
        );
        let shared = self.shared();
        if shared.take_seat() {
            return shared.serve_seated(future);
        }
        let mut future = pin!(future);
        match without_locals(|| shared.wait_for(future.as_mut())) {
            Some(output) => output,
            // Whoever served has left, and somebody has to.
            None => shared.serve_seated(future),
        }
    }
}

impl Shared {
    /// True: this thread is to serve the first core from here on.
    fn take_seat(&self) -> bool {
        // Acquire pairs with the release in `leave_seat`: the worker as the last one left it.
        !self.seat.load(Relaxed) && !self.seat.swap(true, Acquire)
    }

    fn leave_seat(&self) {
        // Release pairs with the acquire in `take_seat`.
        self.seat.store(false, Release);
        // Who comes to the lock after this sees through it that the seat is free. From the last to the first: who
        // leaves meanwhile is replaced by the last, which was kicked already.
        let mut left = self.visitors.lock().len();
        while left != 0 {
            left -= 1;
            let core = self.visitors.lock().get(left).copied();
            core.into_iter().for_each(cores::kick);
        }
    }

    /// `block_on` once the seat is taken, which it leaves.
    fn serve_seated<F: Future>(&self, future: F) -> F::Output {
        let result = without_locals(|| {
            let result = self.serve_while(future);
            let worker = &self.cores()[0];
            if worker.has_locals() {
                let ended = self.serve_while(worker.end_locals());
                debug_assert!(ended.is_ok());
            }
            result
        });
        self.leave_seat();
        match result {
            Ok(output) => output,
            Err(TaskError::Panicked(panic)) => panic.resume(),
            Err(TaskError::Cancelled) => {
                panic!("the runtime's policy dropped what `block_on` ran")
            }
            Err(error) => panic!("what `block_on` ran is lost: {error}"),
        }
    }

    /// `block_on` in the first core's seat.
    fn serve_while<F: Future>(&self, future: F) -> Result<F::Output, TaskError> {
        let worker = &self.cores()[0];
        let builder = TaskBuilder::new().core(0);
        let how = Start {
            // A name is memory: only where somebody looks at it.
            builder: match self.config.track {
                true => builder.name("main"),
                false => builder,
            },
            local: true,
            main: true,
            ..Start::default()
        };
        // SAFETY: it runs on this core only, and has ended before this function returns.
        let mut main = task::expect(unsafe { task::start(Origin::Outside(self), how, future) });
        let waker = stop_waker(worker);
        loop {
            if let Poll::Ready(outcome) = pin!(&mut main).poll(&mut Context::from_waker(&waker)) {
                return outcome;
            }
            // The task that this waits for, and what it borrows, would be left in a queue.
            let bomb = Bomb("the loop of a core panicked; a policy of the user's own must not");
            // SAFETY: the seat is ours, and the runtime outlives whoever calls this.
            unsafe { worker.run() };
            bomb.defuse();
        }
    }

    /// `block_on` when another thread serves the first core. None: it has left,
    /// and the seat is taken.
    fn wait_for<F: Future>(&self, mut future: Pin<&mut F>) -> Option<F::Output> {
        let _visit = Visit::begin(self);
        let signal = Signal::new();
        let waker = Waker::from(signal.clone());
        loop {
            // Acquire pairs with the release in `wake`.
            if signal.is_set.swap(false, Acquire) {
                let poll = || future.as_mut().poll(&mut Context::from_waker(&waker));
                let poll = || poll_checked(poll);
                if let Poll::Ready(output) = waker::visit(self, poll) {
                    return Some(output);
                }
            }
            signal.rest_begins();
            let masked = irq::mask();
            if self.take_seat() {
                signal.rest.end();
                return None;
            }
            if !signal.is_set.load(Relaxed) {
                irq::wait(&masked);
            }
            signal.rest.end();
        }
    }

    /// [`wait`](task::wait) in a `block_on` that visits: there is no task, so the thread waits. If whoever
    /// served has left, somebody has to, or what is waited for might never come.
    pub(crate) fn wait_visiting<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        let _visit = Visit::begin(self);
        let signal = Signal::new();
        let waker = Waker::from(signal.clone());
        let mut poll = || future.as_mut().poll(&mut Context::from_waker(&waker));
        loop {
            // Acquire pairs with the release in `wake`.
            if signal.is_set.swap(false, Acquire)
                && let Poll::Ready(output) = poll_checked(&mut poll)
            {
                return output;
            }
            if let Some(task) = waker::own_header() {
                task.pass_on_cancel(&waker);
            }
            signal.rest_begins();
            let masked = irq::mask();
            if self.take_seat() {
                drop(masked);
                // Not the future itself: that stays where it is, and sees what is around it.
                self.serve_seated(signal.until_set());
            } else if !signal.is_set.load(Relaxed) {
                irq::wait(&masked);
            }
            signal.rest.end();
        }
    }
}

impl Runtime {
    /// Takes no more tasks from outside, waits until all have ended, and gives
    /// the cores back. A task that never ends keeps it waiting for ever.
    ///
    /// # Panics
    /// Within a task, if tasks of this runtime live. Its cores are then lost.
    pub fn shutdown(self) {
        self.end(Phase::Draining);
    }

    /// Cancels all tasks, waits until their finalizers have run, and gives the
    /// cores back. The same as dropping the runtime. A task that never comes to
    /// an await, or a finalizer that never ends, keeps it waiting for ever; so does sync code that waits for what never comes, as
    /// [`task::wait`] and all that ends with `_blocking` are not cut short ([`try_wait`](crate::task::try_wait) is).
    ///
    /// # Panics
    /// As [`shutdown`](Self::shutdown).
    pub fn shutdown_now(self) {}

    /// False: it cannot end, and nobody may be told.
    fn end(&self, phase: Phase) -> bool {
        let shared = self.shared();
        if is_outside() && !shared.is_lent_here() {
            self.drain(phase);
        } else if shared.serves_here() || irq::in_handler() || !shared.is_empty() {
            // A second panic would end the program.
            if unwind::is_panicking() {
                return false;
            }
            panic!(
                "a runtime was dropped or shut down within a task while its tasks live, where nobody can serve \
                 its first core: wait for its tasks, or call `shutdown` or `shutdown_now` outside of any task"
            );
        } else {
            shared.begin(phase);
        }
        self.stop_cores();
        true
    }

    /// Waits until all tasks have ended.
    fn drain(&self, phase: Phase) {
        let shared = self.shared();
        // On this core, as a task: so the first core is served meanwhile.
        self.block_on(async {
            shared.begin(phase);
            poll_fn(|context| {
                shared.set_drained(context.waker());
                // This one lives.
                if shared.live() <= 1 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        });
    }

    /// No task is left: the cores but the first go back to the lot.
    fn stop_cores(&self) {
        let shared = self.shared();
        // In a task too: the kick is for this core.
        let guard = preempt::guard();
        shared.waiting.store(cores::this_core(), Relaxed);
        for worker in &shared.cores()[1..] {
            worker.post_mail(STOP);
            shared.notify_core(worker.index);
        }
        loop {
            let masked = irq::mask();
            // Acquire pairs with the release in `serve`.
            if shared.serving.load(Acquire) == 0 {
                break;
            }
            irq::wait(&masked);
        }
        drop(guard);
        // All have said that they return; so that they are back in the lot when this does.
        self.runs.iter().for_each(|run| run.wait());
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let shared = self.shared();
        if shared.phase() != Phase::Draining && !self.end(Phase::Cancelling) {
            return;
        }
        #[cfg(feature = "embassy-time")]
        for worker in shared.cores() {
            worker.timers.forget_wakes();
        }
        Shared::free(self.shared);
    }
}

/// Whether this is no task, nor anything else that runs on a core of some runtime, nor an interrupt.
fn is_outside() -> bool {
    waker::current_header().is_none() && cores::local().is_null() && !irq::in_handler()
}

/// A thread that waits outside, and is told when the seat is left.
struct Visit<'a> {
    shared: &'a Shared,
    core: usize,
}

impl<'a> Visit<'a> {
    fn begin(shared: &'a Shared) -> Self {
        let core = cores::this_core();
        let mut more = Vec::new();
        loop {
            let mut visitors = shared.visitors.lock();
            if visitors.len() == visitors.capacity() {
                let capacity = visitors.capacity();
                if more.capacity() <= capacity {
                    // Memory is allocated without the lock.
                    drop(visitors);
                    more = Vec::with_capacity(capacity * 2 + 4);
                    continue;
                }
                more.append(&mut visitors);
                mem::swap(&mut more, &mut visitors);
            }
            visitors.push(core);
            return Self { shared, core };
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut visitors = self.shared.visitors.lock();
        if let Some(at) = visitors.iter().position(|&core| core == self.core) {
            visitors.swap_remove(at);
        }
    }
}

/// Wakes a thread that waits outside.
struct Signal {
    core: usize,
    is_set: AtomicBool,
    /// What that thread runs meanwhile, if it serves.
    served: WakerSlot,
    /// It may be a blocking function, which is idle meanwhile.
    rest: Rest,
}

impl Signal {
    /// For this thread, which has not looked yet.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            core: cores::this_core(),
            is_set: AtomicBool::new(true),
            served: WakerSlot::new(),
            rest: Rest::new(),
        })
    }

    fn rest_begins(&self) {
        self.rest.begin(|| self.is_set.load(Relaxed));
    }

    async fn until_set(&self) {
        poll_fn(|context| {
            self.served.register(context.waker());
            // Relaxed: it is looked at again. The slot's lock orders it with the store in `wake`.
            if self.is_set.load(Relaxed) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        self.served.clear();
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release pairs with the acquire in `wait_for`.
        self.is_set.store(true, Release);
        self.rest.end();
        self.served.wake();
        cores::kick(self.core);
    }
}

/// A waker that makes a worker's loop return. Not counted: its clones are used
/// by that worker's tasks only, before it returns.
fn stop_waker(worker: &Worker) -> Waker {
    static VTABLE: RawWakerVTable =
        RawWakerVTable::new(|worker| RawWaker::new(worker, &VTABLE), stop, stop, |_| {});
    fn stop(worker: *const ()) {
        // SAFETY: the main task ends on this worker, while it is served.
        unsafe { &*worker.cast::<Worker>() }.post_mail(STOP);
    }
    // SAFETY: the functions keep the contract of wakers; nothing is counted.
    unsafe { Waker::from_raw(RawWaker::new(core::ptr::from_ref(worker).cast(), &VTABLE)) }
}

/// [`Builder::inheritance`] of the runtime that this runs in, while it runs: for showing what it is good for.
///
/// ```
/// use executor::{Runtime, runtime::set_inheritance};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     set_inheritance(false);
///     // ...
///     set_inheritance(true);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// # Panics
/// Where none runs.
#[track_caller]
pub fn set_inheritance(on: bool) {
    with_current(|shared| shared.set_inheritance(on));
}

/// Calls `with` for the runtime that this runs in.
#[track_caller]
pub(crate) fn with_current<R>(with: impl FnOnce(&Shared) -> R) -> R {
    let shared = {
        let guard = hal::preempt::guard();
        Worker::here(&guard).map(|worker| worker.shared)
    };
    match (shared, waker::visited()) {
        // SAFETY: what runs on a worker's core is outlived by its runtime.
        (Some(shared), _) => with(unsafe { shared.as_ref() }),
        (None, Some(shared)) => with(shared),
        (None, None) => {
            panic!("no runtime runs here: call this within `Runtime::block_on` or a task")
        }
    }
}
