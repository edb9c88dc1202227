//! A function as a future.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use hal::context;

/// Calls a function when it is first polled, or else when its task drops it: so it is
/// called once, also by a task that was cancelled before it began. Not if there was no memory for that task.
pub(crate) struct Call<F: FnOnce()> {
    function: Option<F>,
    /// Who makes the task. It lives while that is made, so it is not that; and it may be nobody.
    maker: *const (),
}

// SAFETY: the maker is compared, and nothing else is done with it.
unsafe impl<F: FnOnce() + Send> Send for Call<F> {}

impl<F: FnOnce()> Call<F> {
    pub(crate) fn new(function: F) -> Self {
        Self {
            function: Some(function),
            maker: context::current().task(),
        }
    }

    fn call(&mut self) {
        if let Some(function) = self.function.take() {
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
        if context::current().task().cast_const() != self.maker {
            self.call();
        }
    }
}
