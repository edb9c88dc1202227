//! The messages of a receiver as a stream.

use super::{
    Receiver,
    error::{Lagged, TryRecvError},
};
use crate::sync::{Notified, proceed};
use core::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use futures_core::{FusedStream, Stream};

/// Stream of [`Receiver::into_stream`].
///
/// It is not `Unpin`: what waits in it is in a list of the channel, and allocates nothing.
///
/// ```
/// use executor::{block_on_simple, stream::StreamNext, sync::broadcast::{self, BroadcastStream}};
/// use std::pin::Pin;
///
/// let (sender, receiver) = broadcast::channel(4);
/// let mut stream: Pin<Box<BroadcastStream<u8>>> = Box::pin(receiver.into_stream());
/// sender.send(1).unwrap();
/// drop(sender);
/// assert_eq!(block_on_simple(stream.next()), Some(Ok(1)));
/// assert_eq!(block_on_simple(stream.next()), None);
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct BroadcastStream<T> {
    /// What it waits for. It refers to what `receiver` keeps, and is before it, so that it is dropped first.
    notified: Option<Notified<'static>>,
    receiver: Receiver<T>,
    is_closed: bool,
}

impl<T> BroadcastStream<T> {
    pub(super) fn new(receiver: Receiver<T>) -> Self {
        Self {
            notified: None,
            receiver,
            is_closed: false,
        }
    }

    /// The receiver, to be asked how far behind it is, or for one more.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::broadcast::channel(4);
    /// let stream = receiver.into_stream();
    /// sender.send(1).unwrap();
    /// assert_eq!(stream.receiver().len(), 1);
    /// ```
    pub fn receiver(&self) -> &Receiver<T> {
        &self.receiver
    }
}

impl<T: Clone> Stream for BroadcastStream<T> {
    type Item = Result<T, Lagged>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // SAFETY: nothing that is pinned is moved out of it; that is `notified` alone, which is dropped in place.
        let this = unsafe { self.get_unchecked_mut() };
        if this.notified.is_none() {
            ready!(proceed(cx));
        }
        loop {
            if let Some(notified) = &mut this.notified {
                // SAFETY: pinned with the whole.
                ready!(unsafe { Pin::new_unchecked(notified) }.poll(cx));
                this.notified = None;
            }
            // Made before the look, so it hears of what is sent after it.
            let notified = this.receiver.shared.sent.notified();
            // SAFETY: what it refers to is in an `Arc` that `receiver` keeps as long as this lives; it is not moved, and
            // never handed out.
            let notified =
                unsafe { core::mem::transmute::<Notified<'_>, Notified<'static>>(notified) };
            match this.receiver.try_recv() {
                Ok(message) => return Poll::Ready(Some(Ok(message))),
                Err(TryRecvError::Lagged(missed)) => {
                    return Poll::Ready(Some(Err(Lagged(missed))));
                }
                Err(TryRecvError::Closed) => {
                    this.is_closed = true;
                    return Poll::Ready(None);
                }
                Err(TryRecvError::Empty) => this.notified = Some(notified),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Lost messages come as one item.
        (usize::from(!self.receiver.is_empty()), None)
    }
}

impl<T: Clone> FusedStream for BroadcastStream<T> {
    fn is_terminated(&self) -> bool {
        self.is_closed
    }
}

impl<T> fmt::Debug for BroadcastStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastStream")
            .field("receiver", &self.receiver)
            .finish_non_exhaustive()
    }
}
