//! What tasks wait on. As yet only one thing; channels and locks are to come.
//!
//! | | |
//! |---|---|
//! | [`WakerSlot`] | the one waker of whoever waits for an interrupt |

mod waker_slot;

pub use waker_slot::WakerSlot;
