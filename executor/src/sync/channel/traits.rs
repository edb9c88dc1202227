//! Channels as streams and sinks.
//!
//! An end is not pinned, so what waits is on the heap; it is made the first time that it has to.

use super::{
    Receiver, SendError, Sender, TrySendError,
    futures::{Channel, Receiving, Value},
};
use crate::sync::{proceed, wait_list::Waiter};
use alloc::boxed::Box;
use core::{
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};
use futures_core::{FusedStream, Stream};
use futures_sink::Sink;

/// The messages, until the channel is closed and all are received.
impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = &mut *self;
        let is_waiting = this.stream.as_ref().is_some_and(|wait| wait.is_waiting());
        if !is_waiting {
            if proceed(cx).is_pending() {
                return Poll::Pending;
            }
            if let Ok(value) = this.shared.try_recv() {
                return Poll::Ready(Some(value));
            }
        }
        let wait = this
            .stream
            .get_or_insert_with(|| Box::pin(Receiving::new()));
        // SAFETY: nothing is moved out of it.
        let wait = unsafe { wait.as_mut().get_unchecked_mut() };
        wait.poll(&*this.shared, cx.waker()).map(Result::ok)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self.shared.is_over() {
            true => (0, Some(0)),
            false => (0, None),
        }
    }
}

/// Ended when the channel is closed and all is received.
impl<T> FusedStream for Receiver<T> {
    fn is_terminated(&self) -> bool {
        self.shared.is_over()
    }
}

impl<T> Receiver<T> {
    /// As a stream it waits no more.
    pub(super) fn leave(&mut self) {
        if let Some(wait) = &mut self.stream
            && wait.is_waiting()
        {
            // SAFETY: nothing is moved out of it.
            unsafe { wait.as_mut().get_unchecked_mut() }.leave(&*self.shared);
        }
    }
}

/// A message on its way.
pub struct Sinking<T> {
    waiter: Waiter,
    value: Value<T>,
    /// There is one in `value`, and it does not wait.
    is_there: bool,
}

impl<T> Sinking<T> {
    /// There is one, or there was when it began to wait.
    fn is_busy(&self) -> bool {
        self.is_there || self.waiter.is_waiting()
    }
}

impl<T> Sender<T> {
    /// Sends what it has kept.
    fn poll_sink(&mut self, waker: &Waker) -> Poll<Result<(), SendError<T>>> {
        match &mut self.sink {
            Some(sinking) if sinking.is_busy() => {
                // SAFETY: nothing is moved out of it.
                let sinking = unsafe { sinking.as_mut().get_unchecked_mut() };
                // It waits from here on, or it is taken; even if something panics.
                sinking.is_there = false;
                // SAFETY: 1. always with this channel; 2. pinned, this keeps the channel, and `leave` is called
                // before it is dropped.
                unsafe {
                    let waiter = Pin::new_unchecked(&mut sinking.waiter);
                    self.shared.wait_to_send(waiter, &sinking.value, waker)
                }
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    /// As a sink it waits no more, and drops what it has kept.
    pub(super) fn leave(&mut self) {
        let Some(sinking) = &mut self.sink else {
            return;
        };
        // SAFETY: nothing is moved out of it.
        let sinking = unsafe { sinking.as_mut().get_unchecked_mut() };
        if sinking.waiter.is_waiting() {
            // SAFETY: it waits, so it is pinned, and it does so in this channel.
            sinking.is_there = unsafe {
                let waiter = Pin::new_unchecked(&mut sinking.waiter);
                self.shared.leave_senders(waiter)
            };
        }
        if sinking.is_there {
            sinking.is_there = false;
            // SAFETY: 1. asked; 2. it does not wait.
            drop(unsafe { sinking.value.take() });
        }
    }
}

/// Sends, one after the other. While the channel is full, a sender keeps one message that is not sent yet: it is sent when the sink is
/// polled, ready or flushed, and dropped with the sender. Closing a sink lets this one sender go, as dropping it does.
impl<T> Sink<T> for Sender<T> {
    type Error = SendError<T>;

    fn poll_ready(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError<T>>> {
        if proceed(cx).is_pending() {
            return Poll::Pending;
        }
        self.poll_sink(cx.waker())
    }

    fn start_send(mut self: Pin<&mut Self>, value: T) -> Result<(), SendError<T>> {
        assert!(
            !self.sink.as_ref().is_some_and(|sink| sink.is_busy()),
            "a sink was used that was not ready"
        );
        if self.is_gone {
            return Err(SendError(value));
        }
        match self.shared.try_send(value) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(value)) => Err(SendError(value)),
            // Without memory for it, whoever polls the sink next hears of that.
            Err(TrySendError::Full(value) | TrySendError::NoMemory(value)) => {
                let sinking = self.sink.get_or_insert_with(|| {
                    Box::pin(Sinking {
                        waiter: Waiter::new(),
                        value: Value::empty(),
                        is_there: false,
                    })
                });
                // SAFETY: 1. nothing is moved out of it; 2. it does not wait.
                unsafe {
                    let sinking = sinking.as_mut().get_unchecked_mut();
                    sinking.value.put(value);
                    sinking.is_there = true;
                }
                Ok(())
            }
        }
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError<T>>> {
        self.poll_sink(cx.waker())
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError<T>>> {
        let sent = ready!(self.poll_sink(cx.waker()));
        if !self.is_gone {
            self.is_gone = true;
            self.shared.drop_sender();
        }
        Poll::Ready(sent)
    }
}
