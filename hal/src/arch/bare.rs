//! What all architectures without an operating system have in common.

use core::convert::Infallible;

/// A panic ends the machine, so there is never one to catch.
pub type Payload = Infallible;

/// Calls `f`.
#[inline(always)]
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    Ok(f())
}

/// Nobody can call this.
pub fn resume(payload: Payload) -> ! {
    match payload {}
}

/// Nobody can call this.
pub fn message(payload: &Payload) -> Option<&str> {
    match *payload {}
}
