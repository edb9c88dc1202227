//! Streams: one value after the other, each waited for.
//!
//! A stream is what implements [`futures_core::Stream`]: what receives, and [`Interval`](crate::time::Interval). The adaptors of
//! futures-util and tokio-stream work on them; what is here is what there must be without these.
//!
//! | | |
//! |---|---|
//! | [`StreamNext::next`] | the next value |
//! | [`generate`], [`try_generate`] | a stream from async code |
//!
//! # Streams from code
//!
//! What a `stream! { yield x }` would be is a closure here, which gives its values away. It runs only while
//! somebody asks for the next one, and goes on when that was taken: it is never ahead by more than the one.
//!
//! ```
//! use executor::{block_on_simple, stream::{StreamNext, generate}};
//! use std::pin::pin;
//!
//! let squares = generate(async |mut out| {
//!     for number in 1..=3 {
//!         out.give(number * number).await;
//!     }
//! });
//! block_on_simple(async {
//!     let mut squares = pin!(squares);
//!     let mut sum = 0;
//!     while let Some(square) = squares.next().await {
//!         sum += square;
//!     }
//!     assert_eq!(sum, 14);
//! });
//! ```
//!
//! # Several into one
//!
//! A `select!` in such a closure merges streams, with all that a `select!` can do. A lost `next` loses no value, and one that
//! has ended does not match any more, so it ends when both have:
//!
//! ```
//! use executor::{block_on_simple, select, stream::{Stream, StreamNext, generate}};
//!
//! fn merge<T>(
//!     mut one: impl Stream<Item = T> + Unpin,
//!     mut other: impl Stream<Item = T> + Unpin,
//! ) -> impl Stream<Item = T> {
//!     generate(async move |mut out| loop {
//!         select! {
//!             Some(value) = one.next() => out.give(value).await,
//!             Some(value) = other.next() => out.give(value).await,
//!             else => break,
//!         }
//!     })
//! }
//!
//! # let numbers = |range: std::ops::Range<u8>| Box::pin(generate(async move |mut out| {
//! #     for number in range { out.give(number).await; }
//! # }));
//! let mut merged = Box::pin(merge(numbers(0..3), numbers(10..13)));
//! let mut all = Vec::new();
//! block_on_simple(async {
//!     while let Some(number) = merged.next().await {
//!         all.push(number);
//!     }
//! });
//! all.sort();
//! assert_eq!(all, [0, 1, 2, 10, 11, 12]);
//! ```
//!
//! (A stream that was asked after its end may panic; those of this crate say again that they have ended.) Between
//! tasks, fan-in is a channel whose sender is cloned.

mod generate;

pub use futures_core::{FusedStream, Stream};
pub use generate::{Give, Giver, TryGiver, generate, try_generate};

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// `next`, for every stream.
///
/// That of futures-util is the same: where its `StreamExt` is in use, this one is not needed, and both at once are ambiguous.
///
/// ```
/// use executor::{block_on_simple, stream::{Stream, StreamNext, generate}};
///
/// async fn sum(mut numbers: impl Stream<Item = u32> + Unpin) -> u32 {
///     let mut sum = 0;
///     while let Some(number) = numbers.next().await {
///         sum += number;
///     }
///     sum
/// }
/// # let numbers = Box::pin(generate(async |mut out| for number in 1..4 { out.give(number).await; }));
/// assert_eq!(block_on_simple(sum(numbers)), 6);
/// ```
pub trait StreamNext: Stream {
    /// Waits for the next value; None: there are no more.
    ///
    /// The future may be dropped: nothing is lost. A stream that is not [`Unpin`] is pinned first.
    ///
    /// ```
    /// use executor::{block_on_simple, stream::{StreamNext, generate}};
    /// use std::pin::pin;
    ///
    /// block_on_simple(async {
    ///     let mut one = pin!(generate(async |mut out| out.give(1).await));
    ///     assert_eq!(one.next().await, Some(1));
    ///     assert_eq!(one.next().await, None);
    /// });
    /// ```
    #[inline]
    fn next(&mut self) -> Next<'_, Self>
    where
        Self: Unpin,
    {
        Next { stream: self }
    }
}

impl<S: Stream + ?Sized> StreamNext for S {}

/// Future of [`StreamNext::next`].
///
/// ```
/// use executor::{block_on_simple, stream::{Next, StreamNext}, sync::channel::{Receiver, bounded}};
///
/// let (sender, mut receiver) = bounded(1);
/// sender.try_send(1).unwrap();
/// let next: Next<'_, Receiver<u8>> = receiver.next();
/// drop(next);
/// assert_eq!(block_on_simple(receiver.next()), Some(1));
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[derive(Debug)]
pub struct Next<'a, S: ?Sized> {
    stream: &'a mut S,
}

impl<S: Stream + Unpin + ?Sized> Future for Next<'_, S> {
    type Output = Option<S::Item>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut *self.stream).poll_next(cx)
    }
}
