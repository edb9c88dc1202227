//! A function as a future.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// Calls a function when it is first polled, or else when it is dropped: so it is
/// called once, also by a task that was cancelled before it began.
pub(crate) struct Call<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Call<F> {
    pub(crate) fn new(function: F) -> Self {
        Self(Some(function))
    }

    fn call(&mut self) {
        if let Some(function) = self.0.take() {
            function();
        }
    }
}

// The function is moved out before it is called.
impl<F: FnOnce()> Unpin for Call<F> {}

impl<F: FnOnce()> Future for Call<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.call();
        Poll::Ready(())
    }
}

impl<F: FnOnce()> Drop for Call<F> {
    fn drop(&mut self) {
        self.call();
    }
}
