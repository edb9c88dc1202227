//! What tasks wait on.
//!
//! | | |
//! |---|---|
//! | [`WakerSlot`] | the one waker of whoever waits for an interrupt |

mod waker_slot;

pub use waker_slot::WakerSlot;
