//! Making tasks.
//!
//! A task begins on the core that spawns it, in the queue that other cores
//! steal from; a pinned one on its own core; one from outside in the injector.
//!
//! There may be no memory for it, at any step. Then nothing of it stays, and the
//! future is dropped when no guard is held any more: it may be anything.

use super::{
    Builder, SpawnError, TaskHandle, TaskId,
    cell::{self, Header},
    extra::Extra,
    state::{Place, State},
    waker,
};
use crate::{
    NoMemory, Priority,
    bomb::Bomb,
    runtime::LEAST_STACK,
    scheduler::{inherit, shared::Shared, switching::context_for, worker::Worker},
};
use alloc::boxed::Box;
use core::{future::Future, pin::Pin, ptr::NonNull};
use hal::preempt;

/// Where a spawn comes from.
pub(crate) enum Origin<'a> {
    /// A task, on one of the runtime's cores.
    Core(Guarded<'a>),
    /// Anywhere else.
    Outside(&'a Shared),
}

/// A worker, and the guard that keeps us on its core.
pub(crate) struct Guarded<'a> {
    worker: &'a Worker,
    _guard: preempt::Guard,
}

impl<'a> Origin<'a> {
    /// Where this runs.
    #[track_caller]
    pub(super) fn current() -> Self {
        let guard = preempt::guard();
        if let Some(worker) = Worker::here(&guard) {
            // SAFETY: a worker outlives what runs on its core.
            let worker = unsafe { &*core::ptr::from_ref(worker) };
            let guarded = Guarded {
                worker,
                _guard: guard,
            };
            return Self::Core(guarded);
        }
        drop(guard);
        match waker::visited() {
            Some(shared) => Self::Outside(shared),
            None => panic!(
                "a task or thread was spawned where no runtime runs: do it in a task or within `Runtime::block_on`; for tasks there is `Runtime::spawn`"
            ),
        }
    }

    fn shared(&self) -> &Shared {
        match self {
            Self::Core(here) => here.worker.shared(),
            Self::Outside(shared) => shared,
        }
    }
}

impl Guarded<'_> {
    /// The core's number in the runtime.
    pub(super) fn index(&self) -> usize {
        self.worker.index
    }
}

/// What is not as usual with a task to be spawned.
#[derive(Default)]
pub(crate) struct Start {
    pub(crate) builder: Builder,
    pub(crate) local: bool,
    pub(crate) main: bool,
    /// Whose child it is, if not that of the task that spawns it.
    pub(crate) parent: Option<TaskId>,
    /// It ends before it runs.
    pub(crate) cancelled: bool,
    /// It is a thread.
    pub(crate) thread: bool,
    /// It comes after what is as urgent as who waits for it.
    pub(crate) background: bool,
    /// Room for its stack, if not that of others.
    pub(crate) stack_size: Option<usize>,
}

impl Start {
    /// Whether it needs what not every task has.
    fn asks_for_extra(&self) -> bool {
        let builder = &self.builder;
        self.parent.is_some() || self.thread || builder.name.is_some() || builder.tag != 0
    }
}

/// Bytes that a task of this future takes.
pub(super) fn memory_of<F: Future>(how: &Start, _: &F) -> usize {
    let extra = match how.asks_for_extra() {
        true => size_of::<Extra>(),
        false => 0,
    };
    cell::memory_of::<F>() + extra
}

impl From<Builder> for Start {
    fn from(builder: Builder) -> Self {
        Self {
            builder,
            ..Self::default()
        }
    }
}

/// Starts a task that does not await.
#[track_caller]
pub(crate) fn start_thread<F>(how: Start, body: F) -> Result<TaskHandle<F::Output>, SpawnError>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are `Send`.
    unsafe { start(Origin::current(), how, body) }
}

/// Starts a task that has a parent, whoever spawns it.
#[track_caller]
pub(super) fn spawn_child<F>(
    builder: Builder,
    parent: Option<TaskId>,
    future: F,
) -> Result<TaskHandle<F::Output>, SpawnError>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let how = Start {
        builder,
        parent,
        ..Start::default()
    };
    // SAFETY: the future and its output are `Send`.
    unsafe { start(Origin::current(), how, future) }
}

#[track_caller]
pub(crate) fn expect<T>(spawned: Result<T, SpawnError>) -> T {
    match spawned {
        Ok(task) => task,
        Err(error) => panic!("{error}"),
    }
}

/// What is left of a task that could not be made.
pub(crate) enum Unborn<F: Future> {
    /// There is no memory for it.
    Future(F),
    /// There was, but not for all that it needs. Nobody knows of it.
    Task(NonNull<Header>),
}

impl<F: Future> Unborn<F> {
    /// Drops it. Not under a guard: it may be anything, and wait in its destructors.
    #[cold]
    pub(super) fn discard(self) -> SpawnError {
        if let Self::Task(task) = self {
            // SAFETY: nobody knows of it.
            unsafe {
                task.as_ref().abort(super::TaskError::Cancelled);
                task.as_ref().drop_outcome();
                cell::free(task);
            }
        }
        SpawnError::NoMemory
    }
}

/// Starts a task, in all the ways there are.
///
/// # Safety
/// The future and its output are `Send`, or `how.local` is set and the future
/// may begin on that core; they are `'static`, or outlived by the task.
#[track_caller]
pub(crate) unsafe fn start<F: Future>(
    origin: Origin<'_>,
    how: Start,
    future: F,
) -> Result<TaskHandle<F::Output>, SpawnError> {
    // SAFETY: the caller's promise.
    unsafe { try_start(origin, how, future) }.map_err(Unborn::discard)
}

/// The same. Err: what is left of it is for the caller to discard, when it holds no guard.
///
/// # Safety
/// As for [`start`].
#[track_caller]
pub(super) unsafe fn try_start<F: Future>(
    origin: Origin<'_>,
    how: Start,
    future: F,
) -> Result<TaskHandle<F::Output>, Unborn<F>> {
    // SAFETY: the caller's promise.
    let (task, id) = unsafe { start_task(origin, how, future)? };
    // SAFETY: the handle's reference and bit are in the state from birth.
    Ok(unsafe { TaskHandle::new(task, id) })
}

/// The same, without a handle: that is for the caller to make. Out of line, as the usual way is another.
///
/// # Safety
/// As for [`start`].
#[inline(never)]
#[track_caller]
pub(super) unsafe fn start_task<F: Future>(
    origin: Origin<'_>,
    how: Start,
    future: F,
) -> Result<(NonNull<Header>, TaskId), Unborn<F>> {
    let cores = origin.shared().cores().len();
    if let Some(core) = how.builder.core
        && core >= cores
    {
        // Not under a guard: this is the caller's fault, and not the machine's.
        drop(origin);
        panic!("core {core} is asked for; the runtime has {cores}");
    }
    // SAFETY: the caller's promise.
    let task = unsafe { prepare(origin.shared(), how, future)? };
    // SAFETY: just made, and with two references: one is the handle's.
    match unsafe { enter(origin, task) } {
        Ok(id) => Ok((task, id)),
        Err(NoMemory) => Err(Unborn::Task(task)),
    }
}

/// Starts a task that any core may come to, in the order of such spawns. `prepare` sees its future first, where
/// it will stay.
///
/// # Safety
/// As for [`start`]; `prepare` moves nothing out of the future.
pub(super) unsafe fn start_prepared<F: Future>(
    shared: &Shared,
    how: Start,
    future: F,
    prepare_future: impl FnOnce(Pin<&mut F>),
) -> Result<TaskHandle<F::Output>, SpawnError> {
    // SAFETY: the caller's promise.
    let task = unsafe { prepare(shared, how, future) }.map_err(Unborn::discard)?;
    // SAFETY: just made, with such a future, and nobody knows of it.
    prepare_future(unsafe { cell::future(task) });
    // SAFETY: just made, and with two references: one is the handle's.
    let Ok(id) = (unsafe { enter(Origin::Outside(shared), task) }) else {
        return Err(Unborn::<F>::Task(task).discard());
    };
    // SAFETY: the handle's reference and bit are in the state from birth.
    Ok(unsafe { TaskHandle::new(task, id) })
}

/// Makes a task that is in no queue: for whoever polls it at once, or queues it.
///
/// # Safety
/// As for [`start`]; the worker is this core's, under a guard, so the future's destructors do not wait.
pub(crate) unsafe fn make<F: Future>(
    worker: &Worker,
    how: Start,
    future: F,
) -> Result<(NonNull<Header>, TaskHandle<F::Output>), SpawnError> {
    // SAFETY: the caller's promise.
    let task = unsafe { prepare(worker.shared(), how, future) }.map_err(Unborn::discard)?;
    // SAFETY: just made.
    let Ok(id) = (unsafe { settle(worker, task) }) else {
        return Err(Unborn::<F>::Task(task).discard());
    };
    // SAFETY: the handle's reference and bit are in the state from birth.
    Ok((task, unsafe { TaskHandle::new(task, id) }))
}

/// Makes a task that has no home yet.
///
/// # Safety
/// As for [`start`]; there is such a core.
unsafe fn prepare<F: Future>(
    shared: &Shared,
    how: Start,
    future: F,
) -> Result<NonNull<Header>, Unborn<F>> {
    let tracked = shared.config.track;
    let asks_for_extra = how.asks_for_extra() || tracked;
    let builder = how.builder;
    if builder.priority != Priority::Normal {
        inherit::note_levels();
    }
    let place = Place {
        level: builder.priority as u8,
        core: builder.core.map(|core| core as u8),
        local: how.local,
        tracked,
        main: how.main,
        aside: how.stack_size.is_some(),
        background: how.background,
    };
    let extra = if asks_for_extra {
        let spawner = || waker::own_header().map(|spawner| spawner.id());
        let parent = how.parent.or_else(spawner);
        match make_extra(builder, parent, shared.clock.now()) {
            Some(extra) => extra,
            None => return Err(Unborn::Future(future)),
        }
    } else {
        core::ptr::null_mut()
    };
    let task = match cell::allocate(future, State::new(place), extra) {
        Ok(task) => task,
        Err(future) => {
            if !extra.is_null() {
                // SAFETY: just made, and given to nobody.
                drop(unsafe { Box::from_raw(extra) });
            }
            return Err(Unborn::Future(future));
        }
    };
    if let Some(size) = how.stack_size {
        let size = size.max(LEAST_STACK);
        let Ok(context) = context_for(shared.outsider(), task, size) else {
            return Err(Unborn::Task(task));
        };
        // SAFETY: just made, with a block, as a thread has.
        unsafe { task.as_ref() }
            .extra_or_new()
            .own_context
            .set(context);
    }
    if how.cancelled {
        // Queued from birth, so nobody is to be told.
        // SAFETY: just made.
        let _ = unsafe { task.as_ref() }.state.cancel();
    }
    Ok(task)
}

/// Gives a new task a home on this core.
///
/// # Safety
/// It was just allocated, and nobody knows of it; the worker is this core's, under a guard.
unsafe fn settle(worker: &Worker, task: NonNull<Header>) -> Result<TaskId, NoMemory> {
    // SAFETY: a new task, and the owner under a guard.
    let id = unsafe { worker.adopt(task)? };
    // SAFETY: the handle's reference, which the caller has, keeps it.
    let header = unsafe { task.as_ref() };
    count_local(worker.shared(), header);
    if !worker.is_open() {
        // Queued already, so nobody is to be told.
        let _ = header.state.cancel();
    }
    Ok(id)
}

/// A new task has a home: if it is local, its core counts it. Before it is queued.
fn count_local(shared: &Shared, header: &Header) {
    let word = header.state.now();
    if let (true, false, Some(core)) = (word.is_local(), word.is_main(), word.pinned_to()) {
        shared.cores()[core].local_begins();
    }
}

/// Gives a new task a home and puts it into a queue. Err: there was no memory, and nobody knows of it.
///
/// # Safety
/// It was just allocated, and nobody knows of it.
unsafe fn enter(origin: Origin<'_>, task: NonNull<Header>) -> Result<TaskId, NoMemory> {
    // SAFETY: the handle's reference, which the caller has, keeps it.
    let header = unsafe { task.as_ref() };
    match origin {
        Origin::Core(here) => {
            let worker = here.worker;
            // SAFETY: as the caller says.
            let id = unsafe { settle(worker, task)? };
            // A policy of the user's own may have kept it all the same, and nobody would have its handle.
            let bomb =
                Bomb("a policy panicked over a new task; a policy of the user's own must not");
            worker.enqueue_spawned(task, header.state.now());
            bomb.defuse();
            Ok(id)
        }
        Origin::Outside(shared) => {
            let outside = shared.outside.lock();
            // SAFETY: a new task, and the holder of the lock.
            let id = unsafe { shared.outsider().adopt(task)? };
            count_local(shared, header);
            if shared.is_cancelling() && !header.state.now().is_main() {
                let _ = header.state.cancel();
            }
            drop(outside);
            shared.inject(task, header.state.now());
            Ok(id)
        }
    }
}

#[cold]
#[inline(never)]
fn make_extra(builder: Builder, parent: Option<TaskId>, now: u64) -> Option<*mut Extra> {
    builder.extra(parent, now).try_box()
}
