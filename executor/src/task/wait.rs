//! Waiting for a future in code that is not async.

use super::{TaskError, TaskHandle, cell::Header, extra::Extra, group::Children, waker};
use crate::{
    memory::Counted,
    scheduler::{
        context::Context,
        switching::{Leave, suspend},
    },
    simple,
    thread::held::poll_checked,
};
use core::{
    future::{Future, IntoFuture, poll_fn},
    pin::{Pin, pin},
    sync::atomic::{Ordering::SeqCst, fence},
    task::{self, Poll},
};
use hal::{irq, preempt};

/// Waits for a future, in code that is not async, however deep it is called.
/// Only the poll that calls it waits: it keeps its stack, and its core goes on
/// with other tasks.
///
/// If the task is cancelled meanwhile, this still returns only when the future
/// is ready, and the task ends at its next await; see [`try_wait`]. But the
/// children of each [`nursery`](super::nursery) that it is in are cancelled then.
///
/// All local tasks of a core are one thread: while one of them waits so, the
/// others do too. It must not wait for them.
///
/// Outside a task, the core or the thread sleeps until the future is ready; in a
/// [`block_on`](crate::Runtime::block_on) that only visits, it serves the runtime's first core if nobody else does any more.
///
/// On the host it may go on in another thread of the OS. What belongs to a thread (a reference
/// from std's `thread_local!`, a guard of its `Mutex`, being in the middle of a panic) must not be
/// kept across it; the compiler does not see that. An image has no such things.
///
/// ```
/// # use executor::{Runtime, task::{spawn, wait}};
/// fn sum() -> u32 {
///     let parts = [1, 2, 3].map(|part| spawn(async move { part * part }));
///     parts.into_iter().map(|part| wait(part).unwrap()).sum()
/// }
/// # let runtime = Runtime::builder().workers(2).build().unwrap();
/// assert_eq!(runtime.block_on(async { sum() }), 14);
/// ```
///
/// # Panics
/// Under a guard, a lock of hal's or in an interrupt, where it would wait for
/// ever; in a waker or a policy that a core of a runtime calls, if the future is
/// not ready; and if there is no memory for a stack to go on with meanwhile.
#[track_caller]
pub fn wait<F: IntoFuture>(future: F) -> F::Output {
    let future = pin!(future.into_future());
    match waker::current_header() {
        Some(task) => wait_in_task(task, future),
        None => {
            assert_may_wait();
            wait_outside(future)
        }
    }
}

/// Waits where there is no task: in a `block_on` that visits a runtime, or far from any.
#[track_caller]
pub(crate) fn wait_outside<F: Future>(future: Pin<&mut F>) -> F::Output {
    match waker::visited() {
        Some(shared) if !irq::in_handler() => shared.wait_visiting(future),
        _ => simple::block(future),
    }
}

/// # Panics
/// Where `wait` would wait for ever.
#[track_caller]
pub(crate) fn assert_may_wait() {
    assert!(
        may_wait(),
        "a task cannot wait or give way under a guard or a lock, or in an interrupt: whoever is waited for could not run"
    );
}

/// Whether `wait` would come back.
#[inline]
pub(crate) fn may_wait() -> bool {
    preempt::is_allowed() && irq::are_enabled() && !irq::in_handler()
}

/// Waits in the poll of this task, which runs here.
#[track_caller]
pub(crate) fn wait_in_task<F: Future>(task: &Header, future: Pin<&mut F>) -> F::Output {
    wait_hearing(future, |waker| task.pass_on_cancel(waker))
}

/// The same for a poll that has lent its task to another thread: who cancels it tells that one.
#[track_caller]
pub(super) fn wait_for_lent<F: Future>(future: Pin<&mut F>) -> F::Output {
    wait_hearing(future, |_| {})
}

/// Waits in the poll that runs here. `hear` is called whenever it is about to be left.
#[track_caller]
fn wait_hearing<F: Future>(mut future: Pin<&mut F>, hear: impl Fn(&task::Waker)) -> F::Output {
    assert_may_wait();
    let context = Context::current();
    // Of the context, not of the task: that is polled already.
    if let Some(task) = waker::current_header() {
        // Who waits for a lock is known by his waker.
        context.take_entry_of(task);
    }
    let waker = waker::borrowed(context.header());
    let mut wakes_us = task::Context::from_waker(&waker);
    loop {
        let times_left = context.times_left();
        if let Poll::Ready(output) = poll_checked(|| future.as_mut().poll(&mut wakes_us)) {
            return output;
        }
        // It may have kept a guard.
        assert_may_wait();
        hear(&waker);
        super::waits_for(&"wait");
        if let Err(error) = context.make_tasks_of_offers() {
            panic!("a task cannot wait for what it does in parallel: {error}");
        }
        if let Err(error) = suspend(Leave::ToWait(times_left)) {
            panic!("a task cannot wait: {error}");
        }
    }
}

/// As [`wait`], but comes back with [`TaskError::Cancelled`] when the task is
/// cancelled before the future is ready; which is then dropped.
///
/// # Panics
/// As [`wait`].
#[track_caller]
pub fn try_wait<F: IntoFuture>(future: F) -> Result<F::Output, TaskError> {
    let Some(task) = waker::own_header() else {
        return Ok(wait(future));
    };
    let told = &task.extra_or_new().on_cancel;
    let mut future = pin!(future.into_future());
    let result = wait(poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        told.register(context.waker());
        // Pairs with the fence in `tell`: either this sees that it is cancelled, or that sees the waker.
        fence(SeqCst);
        if task.state.now().is_cancelled() {
            return Poll::Ready(Err(TaskError::Cancelled));
        }
        Poll::Pending
    }));
    told.clear();
    result
}

/// Waits for a task that does a part of what the one that runs here has to do. If this one is
/// cancelled, so is that.
#[track_caller]
pub(crate) fn wait_for_part(part: &mut TaskHandle<()>) {
    let cancelled = waker::current_header().filter(|task| !task.state.now().is_main());
    let _ = wait(poll_fn(|context| {
        if let Poll::Ready(outcome) = Pin::new(&mut *part).poll(context) {
            return Poll::Ready(outcome);
        }
        if let Some(task) = cancelled {
            task.extra_or_new().on_cancel.register(context.waker());
            // Pairs with the fence in `tell`: either this sees that it is cancelled, or that sees the waker.
            fence(SeqCst);
            if task.state.now().is_cancelled() {
                part.cancel();
            }
        }
        Poll::Pending
    }));
    if let Some(extra) = cancelled.and_then(Header::extra) {
        extra.on_cancel.clear();
    }
}

impl Header {
    // ---- the scopes that the task is in, which it cancels when it is cancelled; the task itself ----

    /// The task is in one more.
    pub(super) fn open_scope(&self, scope: Counted<dyn Children>) {
        let scopes = &self.extra_or_new().scopes;
        // SAFETY: the task itself, and nothing is called that comes back here.
        unsafe { &mut *scopes.get() }.push(scope);
    }

    /// It leaves the one that was opened last.
    pub(super) fn close_scope(&self) {
        let extra = self.extra_or_new();
        extra.on_cancel.clear();
        // SAFETY: as in `open_scope`.
        let scope = unsafe { &mut *extra.scopes.get() }.pop();
        drop(scope);
    }

    /// It is to wait: if it was cancelled, so are these; else `waker` is to hear of it.
    pub(crate) fn pass_on_cancel(&self, waker: &task::Waker) {
        let Some(extra) = self.extra() else {
            return;
        };
        // Clones, as what cancels them may be code of the user's.
        // SAFETY: as in `open_scope`.
        let scope = |depth: usize| unsafe { &*extra.scopes.get() }.get(depth).cloned();
        if scope(0).is_none() {
            return;
        }
        extra.on_cancel.register(waker);
        // Pairs with the fence in `tell`: either this sees that it is cancelled, or that sees the waker.
        fence(SeqCst);
        if self.state.now().is_cancelled() {
            (0..).map_while(scope).for_each(|scope| scope.cancel_all());
        }
    }

    // ---- anybody ----

    /// It was cancelled while it was polled: if that poll waits, it is to hear of it.
    pub(super) fn tell(&self) {
        // Pairs with the fences in `try_wait` and `pass_on_cancel`. Before the look for the block, too,
        // which the task may only just have made.
        fence(SeqCst);
        if let Some(extra) = self.extra() {
            extra.on_cancel.wake();
        }
    }
}

impl Extra {
    /// Waits for the children of those scopes in which the task's poll was lost: they may have borrowed
    /// what is not the task's own, so it must not end before them. True: none is left.
    ///
    /// # Safety
    /// The caller runs the task, which is in its finalizers.
    pub(super) unsafe fn poll_scopes(&self, context: &mut task::Context<'_>) -> bool {
        loop {
            // A clone, as what cancels them may be code of the user's.
            // SAFETY: the caller's promise; no reference is kept.
            let innermost = unsafe { &*self.scopes.get() }.last().cloned();
            let Some(scope) = innermost else {
                return true;
            };
            if scope.poll_end(context).is_pending() {
                return false;
            }
            // SAFETY: as above.
            unsafe { &mut *self.scopes.get() }.pop();
        }
    }
}
