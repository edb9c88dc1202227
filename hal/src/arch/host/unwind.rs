//! Panics unwind here, and can be caught.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
};

/// What a panic threw.
pub type Payload = Box<dyn Any + Send>;

/// Calls `f` and catches its panic.
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    panic::catch_unwind(AssertUnwindSafe(f))
}

/// Goes on with a panic, without reporting it anew.
pub fn resume(payload: Payload) -> ! {
    panic::resume_unwind(payload)
}

/// The text that `panic!` was called with: a literal, or one that was formatted.
pub fn message(payload: &Payload) -> Option<&str> {
    let literal = payload.downcast_ref::<&'static str>().copied();
    literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

/// Whether this thread is unwinding.
pub fn is_panicking() -> bool {
    std::thread::panicking()
}
