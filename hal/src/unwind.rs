//! Catching a panic, where there is unwinding to catch.
//!
//! On the host a panic unwinds, and [`catch`] ends it. The bare-metal targets
//! abort on panic, so there [`catch`] is a plain call and a [`Payload`] cannot
//! exist: `Result<R, Payload>` is as large as `R`, and nobody looks at it.

use crate::arch;
use core::fmt;

/// What a panic threw. Dropping it does not panic, whatever it is.
pub struct Payload(arch::Payload);

/// Calls `f`, and catches its panic if it has one.
///
/// What `f` was in the middle of is left as it was: who goes on after a panic
/// keeps everybody away from that, or knows that it does not matter.
#[inline]
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    arch::catch(f).map_err(Payload)
}

/// Goes on with a panic that was caught.
pub fn resume(payload: Payload) -> ! {
    arch::resume(payload.0)
}

/// Whether this thread is unwinding: a panic now would end the program.
pub fn is_panicking() -> bool {
    arch::is_panicking()
}

impl Payload {
    /// What `panic!` was told, unless something else was thrown.
    pub fn message(&self) -> Option<&str> {
        arch::message(&self.0)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Payload").field(&self.message()).finish()
    }
}
