//! What tasks wait on. As yet only one thing; channels and locks are to come.
//!
//! | | |
//! |---|---|
//! | [`WakerSlot`] | the one waker of whoever waits for an interrupt |
//!
//! Beneath: `wait_list` is who waits, for all of them.

#[cfg(not(loom))]
#[allow(dead_code, reason = "what uses it is to come")]
mod wait_list;
#[cfg(loom)]
pub mod wait_list;
#[cfg(not(loom))]
mod waker_slot;

#[cfg(not(loom))]
pub use waker_slot::WakerSlot;
