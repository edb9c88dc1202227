//! Where there are no tasks of ours, nothing is noted.

use super::Lockable;

/// Nothing.
pub type Wait = ();

/// None.
pub struct Name;

impl Name {
    pub const fn none() -> Self {
        Self
    }
}

/// It was unlocked, and somebody waits.
#[cold]
#[inline(never)]
pub fn hand_on(lock: &dyn Lockable) {
    lock.permits().hand_out(|| {});
}
