//! A future that turns into its output, and keeps it until it is asked for.

use core::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

/// A future, or its output, or neither.
pub enum MaybeDone<F: Future> {
    /// Pinned with the whole.
    Future(F),
    /// Not pinned.
    Done(F::Output),
    Taken,
}

// Outputs are not pinned.
impl<F: Future + Unpin> Unpin for MaybeDone<F> {}

impl<F: Future> MaybeDone<F> {
    #[inline]
    pub(super) fn new(future: F) -> Self {
        Self::Future(future)
    }

    /// Polls the future if it is not done, and drops it as soon as it is. True: there is an output.
    ///
    /// # Panics
    /// If the output was taken.
    #[inline]
    pub(super) fn poll_done(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        // SAFETY: the future stays where it is until it is dropped there, by `set`.
        match unsafe { self.as_mut().get_unchecked_mut() } {
            Self::Future(future) => {
                // SAFETY: a part of what is pinned.
                match unsafe { Pin::new_unchecked(future) }.poll(cx) {
                    Poll::Ready(output) => self.set(Self::Done(output)),
                    Poll::Pending => return false,
                }
            }
            Self::Done(_) => {}
            Self::Taken => was_ready(),
        }
        true
    }

    /// Its output, once it is done.
    #[inline]
    pub(super) fn take(self: Pin<&mut Self>) -> F::Output {
        // SAFETY: a future is not moved: it is a mistake to ask before it is done.
        let this = unsafe { self.get_unchecked_mut() };
        if !matches!(this, Self::Done(_)) {
            was_ready();
        }
        match mem::replace(this, Self::Taken) {
            Self::Done(output) => output,
            _ => was_ready(),
        }
    }
}

impl<T, E, F: Future<Output = Result<T, E>>> MaybeDone<F> {
    /// As `poll_done`; but an error is not kept.
    #[inline]
    pub(super) fn try_poll_done(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Result<bool, E> {
        if !self.as_mut().poll_done(cx) {
            return Ok(false);
        }
        if matches!(&*self, Self::Done(Err(_)))
            && let Err(error) = self.take()
        {
            return Err(error);
        }
        Ok(true)
    }

    /// What it succeeded with, once it is done.
    #[inline]
    pub(super) fn take_ok(self: Pin<&mut Self>) -> T {
        match self.take() {
            Ok(output) => output,
            Err(_) => was_ready(),
        }
    }
}

#[cold]
#[inline(never)]
fn was_ready() -> ! {
    panic!("futures that are joined were polled after they were ready")
}
