//! Giving up on a future when its time is over.

use super::{
    instant::Instant,
    sleep::{Sleep, sleep, sleep_until},
};
use crate::polite::{hold, proceed};
use core::{
    error, fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

/// Gives a future this long, from now.
///
/// The future is polled before the clock is looked at, so one that is ready
/// succeeds, however late; even with a duration of zero it is polled once. A
/// duration beyond the end of the clock is no limit. What is given up is
/// dropped together with the [`Timeout`].
///
/// # Panics
/// When the future is not ready, as [`sleep`] does where no runtime runs.
///
/// ```no_run
/// use executor::time::{Duration, Elapsed, timeout};
///
/// async fn answer(ask: impl Future<Output = u32>) -> Result<u32, Elapsed> {
///     timeout(Duration::from_millis(100), ask).await
/// }
/// ```
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        sleep: sleep(duration),
    }
}

/// Gives a future until `deadline`; otherwise like [`timeout`].
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        sleep: sleep_until(deadline),
    }
}

/// Future of [`timeout`] and [`timeout_at`].
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[derive(Debug)]
pub struct Timeout<F> {
    // Pinned with the whole, both.
    future: F,
    sleep: Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: 1. neither field is ever moved out of a pinned `Timeout`; 2. it has no `Drop`, and
        // is not packed; 3. it is `Unpin` only if both fields are.
        let (future, sleep) = unsafe {
            let this = self.get_unchecked_mut();
            (
                Pin::new_unchecked(&mut this.future),
                Pin::new_unchecked(&mut this.sleep),
            )
        };
        // It gives way as a whole: a future that gave way by itself would lose to a time that is over.
        ready!(proceed(cx));
        let held = hold(false);
        let polled = future.poll(cx);
        drop(held);
        if let Poll::Ready(output) = polled {
            return Poll::Ready(Ok(output));
        }
        sleep.poll(cx).map(|()| Err(Elapsed(())))
    }
}

/// The time was over before the future was ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Debug for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elapsed")
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time limit is over")
    }
}

impl error::Error for Elapsed {}
