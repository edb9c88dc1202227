//! A spin lock: one flag, taken by whoever turns it from free to taken.
//!
//! Not fair, on purpose. Cores may be virtual, and more than the host has; a
//! fair lock would make all wait for the one whose turn it is, even when that
//! one does not run (`docs/decisions.md` has the figures).

use super::atomic::{AtomicBool, Ordering::*};

/// The flag.
pub struct Flag {
    taken: AtomicBool,
}

impl Flag {
    /// A lock that is free.
    #[cfg(not(loom))]
    #[allow(clippy::new_without_default, reason = "a lock is made in a static")]
    pub const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
        }
    }

    /// A lock that is free.
    #[cfg(loom)]
    #[allow(clippy::new_without_default, reason = "as above")]
    pub fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
        }
    }

    /// Takes the lock; `relax` is called with each look in vain. Looks before
    /// it tries again, so that waiting cores only read.
    #[inline]
    pub fn lock(&self, mut relax: impl FnMut()) {
        while !self.try_lock() {
            while self.taken.load(Relaxed) {
                relax();
            }
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        if cfg!(seeded = "flag_load_then_store") {
            let free = !self.taken.load(Acquire);
            if free {
                self.taken.store(true, Relaxed);
            }
            return free;
        }
        // Acquire pairs with the release in `unlock`: what the last holder wrote is seen. Not a
        // swap, which would write in vain too: loom, unlike the hardware, may then order that
        // write behind the holder's `unlock`.
        let order = if cfg!(seeded = "flag_taken_relaxed") {
            Relaxed
        } else {
            Acquire
        };
        self.taken
            .compare_exchange(false, true, order, Relaxed)
            .is_ok()
    }

    /// Lets others in. Called by the holder only.
    #[inline]
    pub fn unlock(&self) {
        // Release pairs with the acquire in `try_lock`.
        let order = if cfg!(seeded = "flag_unlock_relaxed") {
            Relaxed
        } else {
            Release
        };
        self.taken.store(false, order);
    }

    /// Whether somebody holds it.
    pub fn is_locked(&self) -> bool {
        self.taken.load(Relaxed)
    }
}
