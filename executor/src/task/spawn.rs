//! Making tasks.
//!
//! A task begins on the core that spawns it, in the queue that other cores
//! steal from; a pinned one on its own core; one from outside in the injector.

use super::{
    TaskHandle, TaskId,
    cell::{self, Header},
    extra::Extra,
    state::{Place, State},
    waker,
};
use crate::{
    Priority,
    bomb::Bomb,
    runtime::LEAST_STACK,
    scheduler::{inherit, shared::Shared, switching::context_for, worker::Worker},
};
use alloc::{borrow::Cow, boxed::Box};
use core::{fmt, future::Future, pin::Pin, ptr::NonNull};
use hal::preempt;

/// How a task is to be spawned.
///
/// ```
/// # use executor::{Priority, Runtime, task::{self, Builder}};
/// # Runtime::builder().workers(1).build().unwrap().block_on(async {
/// let reader = Builder::new()
///     .name("reader")
///     .priority(Priority::High)
///     .spawn(async { 6 * 7 });
/// assert_eq!(reader.await.unwrap(), 42);
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    /// What it is called in lists of tasks.
    pub name: Option<Cow<'static, str>>,
    /// Which tasks it goes before.
    pub priority: Priority,
    /// The core of the runtime, from 0, that alone may run it.
    pub core: Option<usize>,
    /// A number for a scheduling policy of the user's own, such as a deadline.
    pub tag: u64,
}

impl Builder {
    /// A task of normal priority, on any core, without a name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls it something.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Gives it a priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Binds it to a core of the runtime, numbered from 0. On core 0 it runs only
    /// while some thread is in [`Runtime::block_on`](crate::Runtime::block_on).
    pub fn core(mut self, core: usize) -> Self {
        self.core = Some(core);
        self
    }

    /// Gives it a number, for a policy.
    pub fn tag(mut self, tag: u64) -> Self {
        self.tag = tag;
        self
    }

    /// Spawns it; see [`spawn`].
    ///
    /// # Panics
    /// As [`spawn_with`].
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_with(self, future)
    }

    /// Spawns a future that is not `Send` on [`core`](Self::core); see [`spawn_local_on`].
    ///
    /// # Panics
    /// If no core was chosen, and as [`spawn_local_on`].
    #[track_caller]
    pub fn spawn_local<F>(
        self,
        factory: impl FnOnce() -> F + Send + 'static,
    ) -> TaskHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        assert!(self.core.is_some(), "a local task needs a core: `.core(n)`");
        let origin = Origin::current();
        // SAFETY: the factory is `Send`; what it makes is made on the core it stays on.
        expect(unsafe {
            start(
                origin,
                Start {
                    builder: self,
                    local: true,
                    ..Start::default()
                },
                async move { factory().await },
            )
        })
    }

    fn extra(self, parent: Option<TaskId>, born: u64) -> Extra {
        Extra {
            name: self.name,
            parent,
            tag: self.tag,
            born,
            ..Extra::new()
        }
    }
}

/// Why a task could not be spawned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpawnError {
    /// There is no memory for it.
    NoMemory,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => f.write_str("no memory for another task"),
        }
    }
}

impl core::error::Error for SpawnError {}

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
    /// Room for its stack, if not that of others.
    pub(crate) stack_size: Option<usize>,
}

impl From<Builder> for Start {
    fn from(builder: Builder) -> Self {
        Self {
            builder,
            ..Self::default()
        }
    }
}

/// Starts a task. It runs by itself, on whichever core comes to it first; the
/// handle is for waiting for it, cancelling it, and for its output.
///
/// # Panics
/// Where no runtime runs; use [`Runtime::spawn`](crate::Runtime::spawn) there. And when there is no memory;
/// [`try_spawn`] returns that instead.
#[inline]
#[track_caller]
pub fn spawn<F>(future: F) -> TaskHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    expect(try_spawn(future))
}

/// As [`spawn`], but says so when there is no memory.
///
/// # Panics
/// Where no runtime runs, as [`spawn`] does.
#[inline]
#[track_caller]
pub fn try_spawn<F>(future: F) -> Result<TaskHandle<F::Output>, SpawnError>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let guard = preempt::guard();
    let (task, id) = match Worker::here(&guard) {
        Some(worker) if worker.spawns_plainly() => {
            let place = Place {
                level: Priority::Normal as u8,
                ..Place::default()
            };
            let task = cell::allocate(future, State::new(place), core::ptr::null_mut())
                .map_err(|_| SpawnError::NoMemory)?;
            // SAFETY: a new task; the guard makes us the owner of this worker.
            unsafe {
                let Ok(id) = worker.adopt(task) else {
                    return Err(discard(task));
                };
                worker.push_spawned(task, Priority::Normal as usize);
                drop(guard);
                (task, id)
            }
        }
        _ => {
            drop(guard);
            // SAFETY: the future and its output are `Send`.
            unsafe { start_task(Origin::current(), Start::default(), future)? }
        }
    };
    // SAFETY: the handle's reference and bit are in the state from birth.
    Ok(unsafe { TaskHandle::new(task, id) })
}

/// Starts a task with a name, a priority, a core.
///
/// # Panics
/// As [`spawn`], and if the runtime has no such core.
#[track_caller]
pub fn spawn_with<F>(builder: Builder, future: F) -> TaskHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are `Send`.
    expect(unsafe { start(Origin::current(), builder.into(), future) })
}

/// Starts a task that is not `Send`, on this core, where it stays; it may be
/// woken from anywhere.
///
/// For local tasks only (what `block_on` runs is one): all local tasks of a core
/// are one thread, of which one runs at a time, so they may share what is not
/// `Send`. Any other task may be interrupted and moved to another core in the
/// middle of using such a thing; use [`spawn_local_on`] there.
///
/// # Panics
/// Outside a local task. In a `block_on` while another thread serves the first core, too; see
/// [`Runtime::block_on`](crate::Runtime::block_on).
#[track_caller]
pub fn spawn_local<F>(future: F) -> TaskHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let is_local = waker::current_header().is_some_and(|task| task.state.now().is_local());
    assert!(
        waker::visited().is_none(),
        "`spawn_local` was called in a `block_on` while another thread serves the runtime's first core: \
         what runs here is no local task then; use `spawn_local_on`"
    );
    assert!(
        is_local,
        "`spawn_local` is for local tasks: use `spawn_local_on`, which makes the future on its core"
    );
    let origin = Origin::current();
    let Origin::Core(here) = &origin else {
        unreachable!("a local task runs on its core")
    };
    let builder = Builder::new().core(here.worker.index);
    let how = Start {
        builder,
        local: true,
        ..Start::default()
    };
    // SAFETY: it stays on this core, with the task that made it, and never runs at the same time.
    expect(unsafe { start(origin, how, future) })
}

/// Starts a task that is not `Send` on core `core` of the runtime, from
/// anywhere: what is sent there is the function that makes the future.
///
/// # Panics
/// As [`spawn`], and if the runtime has no such core.
#[track_caller]
pub fn spawn_local_on<F>(
    core: usize,
    factory: impl FnOnce() -> F + Send + 'static,
) -> TaskHandle<F::Output>
where
    F: Future + 'static,
    F::Output: Send + 'static,
{
    Builder::new().core(core).spawn_local(factory)
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
) -> TaskHandle<F::Output>
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
    expect(unsafe { start(Origin::current(), how, future) })
}

#[track_caller]
pub(crate) fn expect<T>(spawned: Result<T, SpawnError>) -> T {
    match spawned {
        Ok(task) => task,
        Err(error) => panic!("{error}"),
    }
}

/// A task for which there was no slot.
///
/// # Safety
/// It was just allocated, and nobody knows of it.
unsafe fn discard(task: NonNull<Header>) -> SpawnError {
    // SAFETY: nobody else knows of it.
    unsafe {
        task.as_ref().abort(super::TaskError::Cancelled);
        task.as_ref().drop_outcome();
        cell::free(task);
    }
    SpawnError::NoMemory
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
    let (task, id) = unsafe { start_task(origin, how, future)? };
    // SAFETY: the handle's reference and bit are in the state from birth.
    Ok(unsafe { TaskHandle::new(task, id) })
}

/// The same, without a handle: the caller makes it. Out of line, as the usual way is another.
///
/// # Safety
/// As for [`start`].
#[inline(never)]
#[track_caller]
unsafe fn start_task<F: Future>(
    origin: Origin<'_>,
    how: Start,
    future: F,
) -> Result<(NonNull<Header>, TaskId), SpawnError> {
    // SAFETY: the caller's promise.
    let task = unsafe { prepare(origin.shared(), how, future)? };
    // SAFETY: just made, and with two references: one is the handle's.
    let id = unsafe { enter(origin, task)? };
    Ok((task, id))
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
    let task = unsafe { prepare(shared, how, future)? };
    // SAFETY: just made, with such a future, and nobody knows of it.
    prepare_future(unsafe { cell::future(task) });
    // SAFETY: just made, and with two references: one is the handle's.
    let id = unsafe { enter(Origin::Outside(shared), task)? };
    // SAFETY: the handle's reference and bit are in the state from birth.
    Ok(unsafe { TaskHandle::new(task, id) })
}

/// Makes a task that is in no queue: for whoever polls it at once, or queues it.
///
/// # Safety
/// As for [`start`]; the worker is this core's, under a guard.
pub(crate) unsafe fn make<F: Future>(
    worker: &Worker,
    how: Start,
    future: F,
) -> Result<(NonNull<Header>, TaskHandle<F::Output>), SpawnError> {
    // SAFETY: the caller's promise.
    let task = unsafe { prepare(worker.shared(), how, future)? };
    // SAFETY: just made.
    let id = unsafe { settle(worker, task)? };
    // SAFETY: the handle's reference and bit are in the state from birth.
    Ok((task, unsafe { TaskHandle::new(task, id) }))
}

/// Makes a task that has no home yet.
///
/// # Safety
/// As for [`start`].
#[track_caller]
unsafe fn prepare<F: Future>(
    shared: &Shared,
    how: Start,
    future: F,
) -> Result<NonNull<Header>, SpawnError> {
    let builder = how.builder;
    let cores = shared.cores().len();
    if let Some(core) = builder.core {
        assert!(
            core < cores,
            "core {core} is asked for; the runtime has {cores}"
        );
    }
    if builder.priority != Priority::Normal {
        inherit::note_levels();
    }
    let tracked = shared.config.track;
    let place = Place {
        level: builder.priority as u8,
        core: builder.core.map(|core| core as u8),
        local: how.local,
        tracked,
        main: how.main,
        aside: how.stack_size.is_some(),
    };
    let asks =
        tracked || how.parent.is_some() || how.thread || builder.name.is_some() || builder.tag != 0;
    let extra = if asks {
        let spawner = || waker::own_header().map(|spawner| spawner.id());
        let parent = how.parent.or_else(spawner);
        make_extra(builder, parent, shared.clock.now())?
    } else {
        core::ptr::null_mut()
    };
    let Ok(task) = cell::allocate(future, State::new(place), extra) else {
        if !extra.is_null() {
            // SAFETY: just made, and given to nobody.
            drop(unsafe { Box::from_raw(extra) });
        }
        return Err(SpawnError::NoMemory);
    };
    if let Some(size) = how.stack_size {
        let size = size.max(LEAST_STACK);
        let Ok(context) = context_for(shared.outsider(), task, size) else {
            // SAFETY: nobody knows of it.
            return Err(unsafe { discard(task) });
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
    if let (true, false, Some(core)) = (how.local, how.main, place.core) {
        shared.cores()[usize::from(core)].local_begins();
    }
    Ok(task)
}

/// Gives a new task a home on this core.
///
/// # Safety
/// It was just allocated, and nobody knows of it; the worker is this core's, under a guard.
unsafe fn settle(worker: &Worker, task: NonNull<Header>) -> Result<TaskId, SpawnError> {
    // SAFETY: a new task, and the owner under a guard.
    let id = unsafe { worker.adopt(task).map_err(|_| discard(task))? };
    if !worker.is_open() {
        // Queued already, so nobody is to be told.
        // SAFETY: the handle's reference, which the caller has, keeps it.
        let _ = unsafe { task.as_ref() }.state.cancel();
    }
    Ok(id)
}

/// Gives a new task a home and puts it into a queue.
///
/// # Safety
/// It was just allocated, and nobody knows of it.
unsafe fn enter(origin: Origin<'_>, task: NonNull<Header>) -> Result<TaskId, SpawnError> {
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
            let adopted = unsafe { shared.outsider().adopt(task) };
            let Ok(id) = adopted else {
                // The future's destructors may spawn.
                drop(outside);
                // SAFETY: nobody knows of it.
                return Err(unsafe { discard(task) });
            };
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
fn make_extra(
    builder: Builder,
    parent: Option<TaskId>,
    now: u64,
) -> Result<*mut Extra, SpawnError> {
    let extra = builder.extra(parent, now);
    extra.try_box().ok_or(SpawnError::NoMemory)
}
