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
//! it looks again after it announced. So whoever makes the count of searchers 0
//! has a full fence after that, and then looks at every queue or kicks somebody:
//! who relied on the count had a fence before it looked, and one of them sees the other.

use crate::queue::{Padded, ordering};
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
            // One searcher is enough: it kicks the next when it finds something. Counted before
            // the claim, whose order makes it so for all.
            let counted = self.searching.0.compare_exchange(0, 1, Relaxed, Relaxed);
            if counted.is_err() {
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
        // Acquire pairs with the release in `announce`: which core of the machine it is. And a core
        // that finds its bit cleared acquires what whoever cleared it released: that it is counted as
        // searching, before it takes itself off that count, and the work.
        let order = ordering!(AcqRel unless seeded = "idle_claim_relaxed");
        self.sleepers.0.fetch_and(!(1 << core), order) & (1 << core) != 0
    }

    /// This core has run out of work and begins to look at others.
    #[inline]
    pub fn search(&self) {
        self.searching.0.fetch_add(1, Relaxed);
    }

    /// A searching core has found work. If it was the last that searched, others
    /// may have kicked nobody because of it, so if `is_more` finds that there is
    /// more in any queue: which core to kick, if any.
    #[must_use]
    #[inline]
    pub fn found(&self, is_more: impl FnOnce() -> bool) -> Option<usize> {
        // Release pairs with the fence after the last one's step to 0, here or in `announce`: it sees
        // what this one has moved to its own queues.
        let order = ordering!(Release unless seeded = "idle_found_relaxed");
        if self.searching.0.fetch_sub(1, order) != 1 {
            return None;
        }
        // Pairs with the fences in the notifiers: they see that nobody searches, or this sees their
        // work; and with that in `announce`: this sees the sleeper, or that sees what this has moved.
        if !cfg!(seeded = "idle_found_without_fence") {
            fence(SeqCst);
        }
        if self.sleepers.0.load(Relaxed) == 0 || !is_more() || cfg!(seeded = "idle_found_is_all") {
            return None;
        }
        self.claim_any()
    }

    /// A searching core has found nothing and is about to sleep, unless `is_work`
    /// finds something in any queue. True: it may sleep. In any case it is to
    /// [retract](Self::retract) afterwards.
    #[must_use]
    pub fn announce(&self, core: usize, is_work: impl FnOnce() -> bool) -> bool {
        // Release pairs with the acquire in `claim`.
        let order = ordering!(Release unless seeded = "idle_announce_relaxed");
        self.sleepers.0.fetch_or(1 << core, order);
        self.searching.0.fetch_sub(1, Relaxed);
        // Pairs with the fences in the notifiers and in `found`: they see this core asleep and not
        // searching, or it sees their work.
        if !cfg!(seeded = "idle_announce_without_fence") {
            fence(SeqCst);
        }
        cfg!(seeded = "idle_announce_without_look") || !is_work()
    }

    /// The core does not sleep, or no longer. It is searching from here on,
    /// whether it was kicked or goes by itself.
    pub fn retract(&self, core: usize) {
        // Who kicked it has counted it.
        if self.claim(core) && !cfg!(seeded = "idle_retract_is_not_counted") {
            self.searching.0.fetch_add(1, Relaxed);
        }
    }

    /// How many cores search now, or were kicked to do so. For models.
    #[cfg(loom)]
    pub fn searchers(&self) -> usize {
        self.searching.0.load(Relaxed)
    }

    /// Cores that sleep now.
    pub fn sleepers(&self) -> u64 {
        self.sleepers.0.load(Relaxed)
    }
}
