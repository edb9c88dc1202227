//! What a task does on its way out, whichever way that is.
//!
//! A destructor runs on every exit, too, but it cannot await. A finalizer is a
//! future: once the task's own future is gone, done, cancelled or panicked, its finalizers
//! are polled in its place, the last registered first, each to its end. A
//! cancellation does not touch them, and whoever joins the task waits for them.
//!
//! One that registers another, while it runs, still comes to its end first; then
//! the new one is the last registered. So one must not wait for what another
//! that it registers will do.

use super::{Task, extra::Extra, waker};
use crate::memory::try_box;
use alloc::boxed::Box;
use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use hal::unwind;

/// What is left to do. `Send`, or of a local task.
pub(crate) type Finalizer = Pin<Box<dyn Future<Output = ()>>>;

/// Makes the current task run `last` when it ends, whether it is done, cancelled,
/// or has panicked. Finalizers run in reverse order, cannot be cancelled, and are
/// waited for by whoever joins the task.
///
/// ```
/// # use executor::{Runtime, task};
/// # Runtime::builder().workers(1).build().unwrap().block_on(async {
/// task::on_exit(async { /* give back what this task holds */ });
/// # });
/// ```
///
/// # Panics
/// Outside a task, and where the outcome of one is dropped that nobody asks for: then it has ended. And if there
/// is no memory; [`try_on_exit`] says so instead.
#[track_caller]
pub fn on_exit(last: impl Future<Output = ()> + Send + 'static) {
    expect(try_on_exit(last));
}

/// As [`on_exit`], but gives the future back when there is no memory.
///
/// ```
/// # use executor::{Runtime, task};
/// # Runtime::builder().workers(1).build().unwrap().block_on(async {
/// if task::try_on_exit(async { /* give back what this task holds */ }).is_err() {
///     // Then at once.
/// }
/// # });
/// ```
///
/// # Errors
/// There is no memory, and here is the future again.
///
/// # Panics
/// Outside a task, and where it has ended, as [`on_exit`] does.
#[track_caller]
pub fn try_on_exit<F: Future<Output = ()> + Send + 'static>(last: F) -> Result<(), F> {
    let task =
        Task::try_current().expect("`on_exit` is for tasks: nothing else has an end to wait for");
    // SAFETY: it is `Send`.
    unsafe { register(&task, last) }
}

/// As [`on_exit`], for what is not `Send`: in local tasks, which end on the core
/// that they run on.
///
/// # Panics
/// Outside a local task, and as [`on_exit`].
#[track_caller]
pub fn on_exit_local(last: impl Future<Output = ()> + 'static) {
    let is_local = waker::current_header().is_some_and(|task| task.state.now().is_local());
    assert!(
        is_local,
        "`on_exit_local` is for local tasks: use `on_exit`, with a future that is `Send`"
    );
    let task = Task::try_current().expect("just asked");
    // SAFETY: a local task is polled, finalizers and all, and they are dropped, on its core only, as
    // one logical thread with all that it could share them with.
    expect(unsafe { register(&task, last) });
}

#[track_caller]
fn expect<F>(registered: Result<(), F>) {
    if registered.is_err() {
        panic!("there is no memory for a finalizer");
    }
}

/// # Safety
/// It is `Send`, or the task, which is the current one, is local.
#[track_caller]
unsafe fn register<F: Future<Output = ()> + 'static>(task: &Task, last: F) -> Result<(), F> {
    assert!(
        !waker::has_ended(),
        "`on_exit` is too late: the task has ended, and what it returned is being dropped"
    );
    let Some(extra) = task.header().try_extra() else {
        return Err(last);
    };
    // SAFETY: this is the task itself, so its core runs it, and nothing else looks at them now.
    let finalizers = unsafe { &mut *extra.finalizers.get() };
    // For this one, and for the one that may register it while it runs, and is put back then.
    if finalizers.try_reserve(2).is_err() {
        return Err(last);
    }
    finalizers.push(Box::into_pin(try_box(last)?));
    Ok(())
}

impl Extra {
    /// # Safety
    /// The caller runs the task.
    #[inline]
    pub(crate) unsafe fn has_finalizers(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { !(*self.finalizers.get()).is_empty() }
    }

    /// Polls the last one, and the one before when it has ended; true: all have.
    ///
    /// # Safety
    /// The caller runs the task.
    pub(crate) unsafe fn poll_finalizers(&self, context: &mut Context<'_>) -> bool {
        // SAFETY: the caller's promise.
        if !unsafe { self.poll_scopes(context) } {
            return false;
        }
        loop {
            // Taken out while it is polled: it may register more.
            // SAFETY: the caller's promise; no reference is kept across the poll.
            let Some(mut last) = (unsafe { (*self.finalizers.get()).pop() }) else {
                return true;
            };
            // A panic in one has printed itself, on the host; the others still run.
            match unwind::catch(|| last.as_mut().poll(context)) {
                Ok(Poll::Pending) => {
                    // On top of those it registered, so that it comes to its end first.
                    // SAFETY: as above.
                    unsafe { (*self.finalizers.get()).push(last) };
                    return false;
                }
                Ok(Poll::Ready(())) | Err(_) => {
                    let _ = unwind::catch(|| drop(last));
                }
            }
        }
    }
}
