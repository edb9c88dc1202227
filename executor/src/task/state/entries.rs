//! Levels, and second entries: how a task that waits in a queue is boosted.

use super::{State, word::*};
use crate::queue::ordering;
use hal::sync::atomic::Ordering::*;

impl State {
    /// Makes it of another level; `base`: by itself, and of this one at least until those who wait for it have it lower.
    pub fn set_level(&self, level: usize, base: Option<usize>) -> Change {
        let bits = |level: usize| (level ^ NORMAL) as u64;
        let mut old = self.0.load(Relaxed);
        loop {
            let mut new = old & !LEVEL_MASK | bits(level) << LEVEL_SHIFT;
            if let Some(base) = base {
                new = new & !BASE_MASK | bits(base) << BASE_SHIFT;
            }
            if old & DONE != 0 || new == old {
                return Change::Nothing;
            }
            // Release pairs with the acquires in `suspend`: who sees this in a context sees it in the task.
            match self.0.compare_exchange_weak(old, new, Release, Relaxed) {
                Ok(_) => {}
                Err(now) => {
                    old = now;
                    continue;
                }
            }
            let word = Word(new);
            return if word.is_queued() && old & RUNNING == 0 {
                Change::Queued(word)
            } else if word.is_running() {
                Change::Running
            } else {
                Change::Parked
            };
        }
    }

    /// A proxy came out of a queue: this core owns what it stands for, if that waits in a queue still. Its entry there does not count
    /// any more, and has a reference.
    pub fn claim(&self) -> Option<Word> {
        let mut old = self.0.load(Relaxed);
        loop {
            let mut states = QUEUED | RUNNING | STALE | DONE;
            if cfg!(seeded = "boost_claims_twice") {
                states &= !STALE;
            }
            if old & states != QUEUED {
                return None;
            }
            let mut new = (old | STALE | TAKEN) + REFERENCE;
            if cfg!(seeded = "boost_entry_not_counted") {
                new -= REFERENCE;
            }
            // Acquire as in `start`.
            let order = ordering!(Acquire unless seeded = "boost_claim_relaxed");
            match self.0.compare_exchange_weak(old, new, order, Relaxed) {
                // As `start` would say.
                Ok(_) => return Some(Word(new & !(STALE | TAKEN | QUEUED) | RUNNING)),
                Err(now) => old = now,
            }
        }
    }

    /// An entry came out of a queue that does not count, and `start` has said so.
    #[cold]
    pub fn settle(&self) -> Settled {
        let mut old = self.0.load(Relaxed);
        loop {
            debug_assert!(
                old & (QUEUED | RUNNING | STALE) == RUNNING | STALE,
                "{old:#x}"
            );
            let rest = (old & !(STALE | TAKEN | AGAIN)) - REFERENCE;
            let is_ours = old & (DONE | TAKEN | AGAIN) == AGAIN;
            let new = match old & (DONE | TAKEN | AGAIN) {
                TAKEN | AGAIN => rest,
                // Who runs it sees that it was woken.
                both if both == TAKEN | AGAIN => {
                    if cfg!(seeded = "boost_loses_wake") {
                        rest
                    } else {
                        rest | QUEUED
                    }
                }
                // Parked, or ended.
                _ => rest & !RUNNING,
            };
            // Acquire: as in `start` if it is ours, as in `release` if it is to be freed. Release as there.
            match self.0.compare_exchange_weak(old, new, AcqRel, Relaxed) {
                Ok(_) if is_ours => return Settled::Started(Word(new)),
                Ok(_) if new < REFERENCE => return Settled::Free,
                Ok(_) => return Settled::Dropped,
                Err(now) => old = now,
            }
        }
    }

    /// The word of what is taken, and is to be queued or to wait, and whether its entry counts again.
    pub(super) fn leave_taken(old: u64, again: bool) -> (u64, bool) {
        match (again, old & QUEUED != 0) {
            // It is in a queue.
            (true, true) => ((old & !(STALE | TAKEN | AGAIN)) - REFERENCE, true),
            // It just came out, and who has it settles that.
            (true, false) => (old & !TAKEN | AGAIN, false),
            (false, _) => (old & !TAKEN, false),
        }
    }

    /// The word of what has an entry that does not count, and is woken or cancelled; whether that entry counts again.
    #[cold]
    pub(super) fn ask_stale(old: u64, what: u64) -> (u64, bool) {
        let asked = old | what & !QUEUED;
        // It waits for a waker, and its entry is in a queue: if it just came out, who has it sees to it.
        if old & (TAKEN | QUEUED) == QUEUED {
            return ((asked & !STALE) - REFERENCE, true);
        }
        (asked | AGAIN, false)
    }
}
