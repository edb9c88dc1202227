//! All of a collection of futures.

use super::done::MaybeDone;
use alloc::{boxed::Box, vec::Vec};
use core::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
};

/// Waits for all of these futures: their outputs, in their order. Of none, an empty vector at once.
///
/// A future is dropped as soon as it is ready.
///
/// ```
/// use executor::{block_on_simple, join::join_all};
///
/// let squares = block_on_simple(join_all((1..4).map(|number| async move { number * number })));
/// assert_eq!(squares, [1, 4, 9]);
/// ```
pub fn join_all<I>(futures: I) -> JoinAll<<I::Item as IntoFuture>::IntoFuture>
where
    I: IntoIterator<Item: IntoFuture>,
{
    JoinAll {
        parts: Parts::new(futures),
    }
}

/// Waits for all of these futures, whose outputs are [`Result`]s: what they succeed with, in their order, or the first error
/// that there is. Then the others are dropped with the [`TryJoinAll`].
///
/// ```
/// use executor::{block_on_simple, join::try_join_all};
///
/// let parse = |text: &'static str| async move { text.parse::<u8>() };
/// assert_eq!(block_on_simple(try_join_all(["1", "2"].map(parse))), Ok(vec![1, 2]));
/// assert!(block_on_simple(try_join_all(["1", "two", "3"].map(parse))).is_err());
/// ```
pub fn try_join_all<I, T, E>(futures: I) -> TryJoinAll<<I::Item as IntoFuture>::IntoFuture>
where
    I: IntoIterator<Item: IntoFuture<Output = Result<T, E>>>,
{
    TryJoinAll {
        parts: Parts::new(futures),
    }
}

/// Futures, which turn into their outputs.
struct Parts<F: Future>(Pin<Box<[MaybeDone<F>]>>);

impl<F: Future> Parts<F> {
    fn new<I: IntoIterator<Item: IntoFuture<IntoFuture = F, Output = F::Output>>>(
        futures: I,
    ) -> Self {
        let new = |future: I::Item| MaybeDone::new(future.into_future());
        Self(Box::into_pin(futures.into_iter().map(new).collect()))
    }

    fn iter(&mut self) -> impl Iterator<Item = Pin<&mut MaybeDone<F>>> {
        // SAFETY: nothing is moved out of the slice.
        let parts = unsafe { self.0.as_mut().get_unchecked_mut() };
        // SAFETY: a part of what is pinned.
        parts
            .iter_mut()
            .map(|part| unsafe { Pin::new_unchecked(part) })
    }
}

/// Future of [`join_all`].
///
/// ```
/// use executor::{block_on_simple, join::JoinAll};
/// use std::future::{Ready, ready};
///
/// let all: JoinAll<Ready<u8>> = (1..4).map(ready).collect();
/// assert_eq!(block_on_simple(all), [1, 2, 3]);
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct JoinAll<F: Future> {
    parts: Parts<F>,
}

impl<F: Future> FromIterator<F> for JoinAll<F> {
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        join_all(futures)
    }
}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut are_done = true;
        for part in self.parts.iter() {
            are_done &= part.poll_done(cx);
        }
        match are_done {
            true => Poll::Ready(self.parts.iter().map(MaybeDone::take).collect()),
            false => Poll::Pending,
        }
    }
}

/// Future of [`try_join_all`].
///
/// ```
/// use executor::{block_on_simple, join::TryJoinAll};
/// use std::future::{Ready, ready};
///
/// let all: TryJoinAll<Ready<Result<u8, &str>>> = [Ok(1), Err("no"), Ok(3)].map(ready).into_iter().collect();
/// assert_eq!(block_on_simple(all), Err("no"));
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct TryJoinAll<F: Future> {
    parts: Parts<F>,
}

impl<T, E, F: Future<Output = Result<T, E>>> FromIterator<F> for TryJoinAll<F> {
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        try_join_all(futures)
    }
}

impl<T, E, F: Future<Output = Result<T, E>>> Future for TryJoinAll<F> {
    type Output = Result<Vec<T>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut are_done = true;
        for part in self.parts.iter() {
            match part.try_poll_done(cx) {
                Ok(is_done) => are_done &= is_done,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        match are_done {
            true => Poll::Ready(Ok(self.parts.iter().map(MaybeDone::take_ok).collect())),
            false => Poll::Pending,
        }
    }
}
