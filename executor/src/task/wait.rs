//! Waiting for a future in code that is not async.

use super::{TaskError, cell::Header, waker};
use crate::{
    scheduler::{context::Context, switching::suspend},
    simple::block_on_simple,
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
/// is ready, and the task ends at its next await; see [`try_wait`].
///
/// All local tasks of a core are one thread: while one of them waits so, the
/// others do too. It must not wait for them.
///
/// Outside a task, the core or the thread sleeps until the future is ready.
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
/// ever; and if there is no memory for a stack to go on with meanwhile.
pub fn wait<F: IntoFuture>(future: F) -> F::Output {
    let future = pin!(future.into_future());
    assert!(
        preempt::is_allowed() && irq::are_enabled() && !irq::in_handler(),
        "`wait` was called under a guard or a lock, or in an interrupt: whoever is waited for could not run"
    );
    if waker::current_header().is_some() {
        wait_in_task(future)
    } else {
        block_on_simple(future)
    }
}

fn wait_in_task<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let context = Context::current();
    // Of the context, not of the task: that is polled already.
    let waker = waker::borrowed(context.header());
    let mut wakes_us = task::Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut wakes_us) {
            return output;
        }
        super::waits_for(&"wait");
        if let Err(error) = suspend(false) {
            panic!("a task cannot wait: {error}");
        }
    }
}

/// As [`wait`], but comes back with [`TaskError::Cancelled`] when the task is
/// cancelled before the future is ready; which is then dropped.
pub fn try_wait<F: IntoFuture>(future: F) -> Result<F::Output, TaskError> {
    let Some(task) = waker::current_header() else {
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

impl Header {
    /// It was cancelled while it was polled: if that poll waits, it is to hear of it.
    pub(super) fn tell(&self) {
        // Pairs with the fence in `try_wait`. Before the look for the block, too, which the task may
        // only just have made.
        fence(SeqCst);
        if let Some(extra) = self.extra() {
            extra.on_cancel.wake();
        }
    }
}
