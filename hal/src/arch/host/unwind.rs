//! Panics unwind here, and can be caught.

use std::{
    any::Any,
    mem,
    panic::{self, AssertUnwindSafe},
};

/// What a panic threw. It may be anything, and panic as it is dropped: that is caught, and forgotten.
pub struct Payload(Option<Box<dyn Any + Send>>);

// SAFETY: through a reference it is only asked whether it is a text, which may be shared.
unsafe impl Sync for Payload {}

impl Drop for Payload {
    fn drop(&mut self) {
        let payload = self.0.take();
        let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(payload)));
        mem::forget(dropped);
    }
}

/// Calls `f` and catches its panic.
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    panic::catch_unwind(AssertUnwindSafe(f)).map_err(|payload| Payload(Some(payload)))
}

/// Goes on with a panic, without reporting it anew.
pub fn resume(mut payload: Payload) -> ! {
    panic::resume_unwind(payload.0.take().expect("taken only by drop"))
}

/// The text that `panic!` was called with: a literal, or one that was formatted.
pub fn message(payload: &Payload) -> Option<&str> {
    let payload = payload.0.as_ref()?;
    let literal = payload.downcast_ref::<&'static str>().copied();
    literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

/// Whether this thread is unwinding.
pub fn is_panicking() -> bool {
    std::thread::panicking()
}
