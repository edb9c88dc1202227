//! Spawning tasks.

use super::{
    Builder, TaskHandle, TaskId,
    cell::{self, Header},
    start::{Origin, Start, Unborn, expect, start, start_task},
    state::{Place, State},
    waker,
};
use crate::{Priority, scheduler::worker::Worker};
use core::{fmt, future::Future, ptr::NonNull};
use hal::preempt;

/// Why a task could not be spawned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpawnError {
    /// There is no memory for it.
    NoMemory,
    /// Its group may not take so much; see [`TaskGroup::quota`](super::TaskGroup::quota).
    Quota,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => f.write_str("no memory for another task"),
            Self::Quota => f.write_str("another task would be more than the quota of its group"),
        }
    }
}

impl core::error::Error for SpawnError {}

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

/// As [`spawn`], but says so when there is no memory; the future is then dropped.
///
/// # Errors
/// There is no memory for it.
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
            let task = match cell::allocate(future, State::new(place), core::ptr::null_mut()) {
                Ok(task) => task,
                Err(future) => return Err(refuse(guard, Unborn::Future(future))),
            };
            // SAFETY: a new task; the guard makes us the owner of this worker.
            unsafe {
                let Ok(id) = worker.adopt(task) else {
                    return Err(refuse(guard, Unborn::<F>::Task(task)));
                };
                worker.push_spawned(task, Priority::Normal as usize);
                drop(guard);
                (task, id)
            }
        }
        _ => {
            drop(guard);
            spawn_unusually(future).ok_or(SpawnError::NoMemory)?
        }
    };
    // SAFETY: the handle's reference and bit are in the state from birth.
    Ok(unsafe { TaskHandle::new(task, id) })
}

/// As `try_spawn` where that is not simple; None: there is no memory. Out of line, as the usual way is another.
#[cold]
#[inline(never)]
#[track_caller]
fn spawn_unusually<F>(future: F) -> Option<(NonNull<Header>, TaskId)>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are `Send`.
    let started = unsafe { start_task(Origin::current(), Start::default(), future) };
    started.map_err(Unborn::discard).ok()
}

/// There is no memory for it.
#[cold]
#[inline(never)]
fn refuse<F: Future>(guard: preempt::Guard, unborn: Unborn<F>) -> SpawnError {
    drop(guard);
    unborn.discard()
}

/// Starts a task with a name, a priority, a core.
///
/// # Panics
/// As [`spawn`], and if the runtime has no such core. [`Builder::try_spawn`] says so when there is no memory.
#[track_caller]
pub fn spawn_with<F>(builder: Builder, future: F) -> TaskHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    expect(builder.try_spawn(future))
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
/// [`Runtime::block_on`](crate::Runtime::block_on). And when there is no memory; [`try_spawn_local`] says so instead.
#[track_caller]
pub fn spawn_local<F>(future: F) -> TaskHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    expect(try_spawn_local(future))
}

/// As [`spawn_local`], but says so when there is no memory; the future is then dropped.
///
/// # Errors
/// There is no memory for it.
///
/// # Panics
/// Outside a local task, as [`spawn_local`] does.
#[track_caller]
pub fn try_spawn_local<F>(future: F) -> Result<TaskHandle<F::Output>, SpawnError>
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
    let builder = Builder::new().core(here.index());
    let how = Start {
        builder,
        local: true,
        ..Start::default()
    };
    // SAFETY: it stays on this core, with the task that made it, and never runs at the same time.
    unsafe { start(origin, how, future) }
}

/// Starts a task that is not `Send` on core `core` of the runtime, from
/// anywhere: what is sent there is the function that makes the future.
///
/// # Panics
/// As [`spawn`], and if the runtime has no such core. [`Builder::try_spawn_local`] says so when there is no memory.
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
