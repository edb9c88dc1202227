//! A fair spin lock: draw a ticket, wait until it is served.
//!
//! Fair because on a machine with several cores an unfair one can starve a
//! core for as long as the others keep asking.

use super::atomic::{AtomicU32, Ordering::*};

/// The two counters.
pub struct Ticket {
    /// Any core.
    next: AtomicU32,
    /// Written by the holder only.
    serving: AtomicU32,
}

impl Ticket {
    /// A lock that is free.
    #[cfg(not(loom))]
    #[allow(clippy::new_without_default, reason = "a lock is made in a static")]
    pub const fn new() -> Self {
        Self {
            next: AtomicU32::new(0),
            serving: AtomicU32::new(0),
        }
    }

    #[cfg(loom)]
    /// A lock that is free.
    pub fn new() -> Self {
        Self {
            next: AtomicU32::new(0),
            serving: AtomicU32::new(0),
        }
    }

    /// Takes the lock; `relax` is called with each look in vain.
    #[inline]
    pub fn lock(&self, mut relax: impl FnMut()) {
        let mine = self.next.fetch_add(1, Relaxed);
        // Acquire pairs with the release in `unlock`.
        while self.serving.load(if cfg!(seeded = "ticket_relaxed") { Relaxed } else { Acquire }) != mine {
            relax();
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        // Acquire pairs with the release in `unlock`.
        let serving = self.serving.load(Acquire);
        if cfg!(seeded = "ticket_load_then_store") {
            let free = self.next.load(Relaxed) == serving;
            if free {
                self.next.store(serving.wrapping_add(1), Relaxed);
            }
            return free;
        }
        self.next
            .compare_exchange(serving, serving.wrapping_add(1), Relaxed, Relaxed)
            .is_ok()
    }

    /// Lets the next one in. Called by the holder only.
    #[inline]
    pub fn unlock(&self) {
        let mine = self.serving.load(Relaxed);
        // Release pairs with the acquire in `lock` and `try_lock`.
        self.serving.store(mine.wrapping_add(1), Release);
    }

    /// Whether somebody holds or waits for it.
    pub fn is_locked(&self) -> bool {
        self.next.load(Relaxed) != self.serving.load(Relaxed)
    }
}
