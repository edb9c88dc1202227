//! Futures of the models, polled by hand.

use super::count::Count;
use loom::thread;
use std::{
    mem::ManuallyDrop,
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// A future whose memory stays until the end of the model, also when it was dropped.
pub struct Kept<F>(Pin<Box<ManuallyDrop<F>>>);

impl<F: Future> Kept<F> {
    pub fn new(future: F) -> Self {
        Self(Box::pin(ManuallyDrop::new(future)))
    }

    pub fn poll(&mut self, waker: &Waker) -> Poll<F::Output> {
        self.as_mut().poll(&mut Context::from_waker(waker))
    }

    pub fn as_mut(&mut self) -> Pin<&mut F> {
        // SAFETY: pinned with the box.
        unsafe { self.0.as_mut().map_unchecked_mut(|future| &mut **future) }
    }

    /// Drops the future, in place.
    pub fn drop(&mut self) {
        // SAFETY: pinned to its end; each model drops it once and polls it no more.
        unsafe { ManuallyDrop::drop(self.0.as_mut().get_unchecked_mut()) };
    }
}

/// Polls until it is ready; between polls it waits to be woken.
pub fn block_on<F: Future>(future: &mut Kept<F>) -> F::Output {
    let (count, waker) = Count::new();
    for seen in 0.. {
        if let Poll::Ready(output) = future.poll(&waker) {
            future.drop();
            return output;
        }
        while count.get() == seen {
            thread::yield_now();
        }
    }
    unreachable!()
}
