//! Who sleeps, who searches, and whom to kick: so that no work lies about
//! while all sleep, and no core is kicked in vain.
//!
//! Whoever makes work visible to others calls [`Idle::notify`] after it, and
//! kicks the core that this names, if any. A core that finds nothing to do
//! [announces](Idle::announce) that it sleeps, looks at every queue once more,
//! and only then sleeps. Both sides have a full fence between what they write
//! and what they read, so one of them sees the other: the notifier the sleeper,
//! or the sleeper the work.
//!
//! While a core searches, nobody else is kicked: it will find the work. If it
//! finds other work first it kicks the next ([`Idle::found`]); if it finds none
//! it looks again after it announced.

use crate::queue::Padded;
use hal::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*, fence};

/// Sleepers and searchers of a runtime.
pub struct Idle {
    /// Cores that sleep or are about to, one bit each. Whoever clears a bit wakes that core.
    sleepers: Padded<AtomicU64>,
    /// Cores that look for work, or were kicked to do so.
    searching: Padded<AtomicUsize>,
}

impl Idle {
    /// Nobody sleeps.
    #[allow(clippy::new_without_default, reason = "part of a runtime only")]
    pub fn new() -> Self {
        Self {
            sleepers: Padded(AtomicU64::new(0)),
            searching: Padded(AtomicUsize::new(0)),
        }
    }

    /// There is work that others may take: which core to kick, if any. That
    /// core counts as searching from here on.
    #[inline]
    pub fn notify(&self) -> Option<usize> {
        // Pairs with the fence in `announce`.
        if !cfg!(seeded = "idle_notify_without_fence") {
            fence(SeqCst);
        }
        if self.sleepers.0.load(Relaxed) == 0 {
            return None;
        }
        self.claim_any()
    }

    #[cold]
    fn claim_any(&self) -> Option<usize> {
        loop {
            let sleepers = self.sleepers.0.load(Relaxed);
            if sleepers == 0 {
                return None;
            }
            // One searcher is enough: it kicks the next when it finds something.
            if self
                .searching
                .0
                .compare_exchange(0, 1, Relaxed, Relaxed)
                .is_err()
            {
                return None;
            }
            let mut left = sleepers;
            while left != 0 {
                let core = left.trailing_zeros() as usize;
                if self.claim(core) {
                    return Some(core);
                }
                left &= left - 1;
            }
            // All have woken by themselves. Others may have kicked nobody, because we searched: look
            // again for those who fell asleep meanwhile. The fence pairs with that in `announce`.
            self.searching.0.fetch_sub(1, Relaxed);
            if cfg!(seeded = "idle_claim_gives_up") {
                return None;
            }
            fence(SeqCst);
        }
    }

    /// There is work for `core` alone: which core to kick, if any; almost always
    /// that one. It then counts as searching.
    pub fn notify_core(&self, core: usize) -> Option<usize> {
        // Pairs with the fence in `announce`.
        if !cfg!(seeded = "idle_notify_core_without_fence") {
            fence(SeqCst);
        }
        if self.sleepers.0.load(Relaxed) & (1 << core) == 0 {
            return None;
        }
        self.searching.0.fetch_add(1, Relaxed);
        if self.claim(core) {
            return Some(core);
        }
        // It woke by itself. Meanwhile others may have kicked nobody, because we seemed to search.
        self.searching.0.fetch_sub(1, Relaxed);
        if cfg!(seeded = "idle_notify_core_gives_up") {
            return None;
        }
        // As in `claim_any`.
        fence(SeqCst);
        self.claim_any()
    }

    /// Clears the core's bit; true: it was set, so it is ours to wake.
    fn claim(&self, core: usize) -> bool {
        self.sleepers.0.fetch_and(!(1 << core), AcqRel) & (1 << core) != 0
    }

    /// This core has run out of work and begins to look at others.
    #[inline]
    pub fn search(&self) {
        self.searching.0.fetch_add(1, Relaxed);
    }

    /// A searching core has found work. True: it was the last that searched, so
    /// it must notify: others may have kicked nobody because of it.
    #[must_use]
    #[inline]
    pub fn found(&self) -> bool {
        self.searching.0.fetch_sub(1, Relaxed) == 1
    }

    /// A searching core has found nothing and is about to sleep. The caller must
    /// look at every queue once more before it does.
    pub fn announce(&self, core: usize) {
        self.sleepers.0.fetch_or(1 << core, AcqRel);
        self.searching.0.fetch_sub(1, Relaxed);
        // Pairs with the fences in the notifiers: they see this core asleep, or it sees their work.
        if !cfg!(seeded = "idle_announce_without_fence") {
            fence(SeqCst);
        }
    }

    /// The core does not sleep, or no longer. It is searching from here on,
    /// whether it was kicked or goes by itself.
    pub fn retract(&self, core: usize) {
        if self.claim(core) {
            self.searching.0.fetch_add(1, Relaxed);
        }
    }

    /// Cores that sleep now.
    pub fn sleepers(&self) -> u64 {
        self.sleepers.0.load(Relaxed)
    }
}
