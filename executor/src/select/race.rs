//! The first of two futures.

use super::random;
use crate::polite::{hold, proceed};
use core::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, ready},
};

/// Waits for the first of two futures that is ready: its output. The other is dropped with the [`Race`].
///
/// Which is polled first is random each time, so that two that are always ready win alike.
///
/// ```
/// use executor::{block_on_simple, select::race};
/// use std::future::{pending, ready};
///
/// assert_eq!(block_on_simple(race(pending(), ready(2))), 2);
/// ```
#[inline]
pub fn race<T, A: IntoFuture<Output = T>, B: IntoFuture<Output = T>>(
    first: A,
    second: B,
) -> Race<A::IntoFuture, B::IntoFuture> {
    Race {
        first: first.into_future(),
        second: second.into_future(),
    }
}

/// Future of [`race`].
///
/// ```
/// use executor::{block_on_simple, select::{Race, race}};
/// use std::future::{Pending, Ready, pending, ready};
///
/// let first: Race<Pending<u8>, Ready<u8>> = race(pending(), ready(2));
/// assert_eq!(block_on_simple(first), 2);
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[derive(Debug)]
pub struct Race<A, B> {
    // Pinned with the whole, both.
    first: A,
    second: B,
}

impl<T, A: Future<Output = T>, B: Future<Output = T>> Future for Race<A, B> {
    type Output = T;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        ready!(proceed(cx));
        // SAFETY: 1. neither field is ever moved out of a pinned `Race`; 2. it has no `Drop`, and is not
        // packed; 3. it is `Unpin` only if both fields are.
        let (mut first, mut second) = unsafe {
            let this = self.get_unchecked_mut();
            (
                Pin::new_unchecked(&mut this.first),
                Pin::new_unchecked(&mut this.second),
            )
        };
        let _held = hold(false);
        let start = random::below(2);
        // A loop, so that each is polled at one place in the code.
        for turn in 0..2 {
            let polled = match start ^ turn {
                0 => first.as_mut().poll(cx),
                _ => second.as_mut().poll(cx),
            };
            if polled.is_ready() {
                return polled;
            }
        }
        Poll::Pending
    }
}
