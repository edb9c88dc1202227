//! The first of a collection of futures.

use super::random;
use crate::polite::{hold, proceed};
use alloc::{boxed::Box, vec::Vec};
use core::{
    future::{Future, IntoFuture},
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// Waits for the first of these futures that is ready: its output. The others are dropped with the [`RaceAll`].
///
/// They are polled from a random one on.
///
/// # Panics
/// If there are none: nobody would ever win.
///
/// ```
/// use executor::{Runtime, select::race_all, time::{Duration, sleep}};
///
/// # let runtime = Runtime::builder().workers(1).virtual_clock().build()?;
/// let first = runtime.block_on(race_all([30, 10, 20].map(|millis| async move {
///     sleep(Duration::from_millis(millis)).await;
///     millis
/// })));
/// assert_eq!(first, 10);
/// # Ok::<(), executor::BuildError>(())
/// ```
#[track_caller]
pub fn race_all<I>(futures: I) -> RaceAll<<I::Item as IntoFuture>::IntoFuture>
where
    I: IntoIterator<Item: IntoFuture>,
{
    let futures: Box<[_]> = futures.into_iter().map(IntoFuture::into_future).collect();
    assert!(!futures.is_empty(), "a race of no futures would never end");
    RaceAll {
        futures: Box::into_pin(futures),
    }
}

/// Future of [`race_all`].
///
/// ```
/// use executor::{block_on_simple, select::{RaceAll, race_all}};
/// use std::future::{Ready, ready};
///
/// let either: RaceAll<Ready<u8>> = race_all([ready(1), ready(2)]);
/// assert!([1, 2].contains(&block_on_simple(either)));
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct RaceAll<F> {
    futures: Pin<Box<[F]>>,
}

impl<F: Future> Future for RaceAll<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        ready!(proceed(cx));
        let _held = hold(false);
        let start = random::below(self.futures.len());
        // SAFETY: nothing is moved out of the slice.
        let futures = unsafe { self.futures.as_mut().get_unchecked_mut() };
        let (before, after) = futures.split_at_mut(start);
        for future in after.iter_mut().chain(before) {
            // SAFETY: a part of what is pinned.
            let polled = unsafe { Pin::new_unchecked(future) }.poll(cx);
            if polled.is_ready() {
                return polled;
            }
        }
        Poll::Pending
    }
}

/// Waits for the first of these futures that is ready: its output, which of them it was, and the others, which go on.
/// The last of them is then where the one that was ready has been.
///
/// They are polled in their order, so the first of those that are ready wins.
///
/// # Panics
/// If there are none.
///
/// ```
/// use executor::{block_on_simple, select::select_all};
/// use std::future::{pending, ready};
/// use std::pin::Pin;
///
/// let futures: Vec<Pin<Box<dyn Future<Output = u8>>>> =
///     vec![Box::pin(pending()), Box::pin(ready(7)), Box::pin(ready(8))];
/// let (output, index, rest) = block_on_simple(select_all(futures));
/// assert_eq!((output, index, rest.len()), (7, 1, 2));
/// assert_eq!(block_on_simple(select_all(rest)).0, 8);
/// ```
#[track_caller]
pub fn select_all<I>(futures: I) -> SelectAll<I::Item>
where
    I: IntoIterator<Item: Future + Unpin>,
{
    let futures: Vec<_> = futures.into_iter().collect();
    assert!(!futures.is_empty(), "the first of no futures never comes");
    SelectAll { futures }
}

/// Future of [`select_all`].
///
/// ```
/// use executor::{block_on_simple, select::SelectAll};
/// use std::future::{Ready, ready};
///
/// let first: SelectAll<Ready<u8>> = (1..4).map(ready).collect();
/// let (output, index, rest) = block_on_simple(first);
/// assert_eq!((output, index, rest.len()), (1, 0, 2));
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[derive(Debug)]
pub struct SelectAll<F> {
    futures: Vec<F>,
}

impl<F> SelectAll<F> {
    /// The futures, which go on.
    ///
    /// ```
    /// use executor::{block_on_simple, join::join_all, select::select_all};
    /// use std::future::ready;
    ///
    /// let futures = select_all([ready(1), ready(2)]).into_inner();
    /// assert_eq!(block_on_simple(join_all(futures)), [1, 2]);
    /// ```
    pub fn into_inner(self) -> Vec<F> {
        self.futures
    }
}

impl<F: Future + Unpin> FromIterator<F> for SelectAll<F> {
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        select_all(futures)
    }
}

// They are not pinned with the whole.
impl<F> Unpin for SelectAll<F> {}

impl<F: Future + Unpin> Future for SelectAll<F> {
    type Output = (F::Output, usize, Vec<F>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(proceed(cx));
        let _held = hold(false);
        let futures = &mut self.futures;
        let poll = |(index, future): (usize, &mut F)| match Pin::new(future).poll(cx) {
            Poll::Ready(output) => Some((index, output)),
            Poll::Pending => None,
        };
        match futures.iter_mut().enumerate().find_map(poll) {
            Some((index, output)) => {
                drop(futures.swap_remove(index));
                Poll::Ready((output, index, mem::take(futures)))
            }
            None => Poll::Pending,
        }
    }
}
