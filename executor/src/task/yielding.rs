//! Letting others run.

use super::waker;
use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use hal::{context, preempt};

/// Lets everything run that was runnable on this core, at this priority, and goes on behind it.
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// What [`yield_now`] returns.
#[must_use = "futures do nothing unless awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        if waker::is_of_current(context.waker()) {
            // The core that polls us needs no waker to know that we want to go on.
            let here = context::current();
            here.set_task(here.task().map_addr(|task| task | waker::YIELDED));
        } else {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// For futures that are ready again and again without ever waiting: `Pending`,
/// once, if the poll has taken so long that others should have their turn.
///
/// Called before anything is changed, as the future is polled again.
#[inline]
pub fn poll_proceed(context: &mut Context<'_>) -> Poll<()> {
    if !preempt::take_soft() {
        return Poll::Ready(());
    }
    Pin::new(&mut yield_now()).poll(context)
}
