//! Turns that go out of order, so that nothing runnable waits for ever.
//!
//! Most turns take what is best for speed: the highest level, the newest task.
//! Each 61st, and each after a preemption, looks at the old ends instead, going
//! round all levels and queues of the core and the injector. So whatever is first in its queue is polled
//! within [`BOUND`] turns of its core, whatever else is runnable, and what is
//! behind `n` others in that queue within `(n + 1) * BOUND`.
//!
//! A core that ticks gives such a turn to a level below the highest only once in [`LOWER_PERIOD`] ticks: its polls may be long, and
//! what is more urgent would wait for one in each few dozen of its own. So there the bound is [`BOUND`] turns or
//! [`LOWER_BOUND`] ticks, whichever is later.

use super::worker::{DEQUE, KINDS, LEVELS, RING, Worker};
use crate::task::cell::Header;
use core::{
    cell::Cell,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Every so many turns one is fair. A prime, so that it does not keep step with what tasks do.
pub const PERIOD: u32 = 61;
/// Injector, deque, ring and pinned tasks, of each level.
const SOURCES: u32 = LEVELS as u32 * KINDS;

/// The bits of queues that others may take from, of all levels.
const STEALABLE: u32 = (1 << DEQUE | 1 << RING) * 0x1111;

/// Turns of a core within which the first task of any of its queues is polled.
pub const BOUND: u32 = PERIOD * SOURCES;

/// So many ticks are between two turns of levels below the highest.
pub const LOWER_PERIOD: u64 = 10;
/// Ticks of a core within which the first task of any of its queues is polled, if [`BOUND`] turns are over.
pub const LOWER_BOUND: u64 = LOWER_PERIOD * SOURCES as u64;

/// When the next fair turn is due, and where it looks first.
pub(super) struct Fairness {
    // Owner only:
    /// Turns until the next fair one. Below 0, too: a turn that is left in the middle counts when it goes
    /// on, and once more when it ends.
    left: Cell<i32>,
    /// Where that looks first,
    source: Cell<u32>,
    /// and if it looks at the highest level only. By one cursor for both, each turn of the highest would send those for the others
    /// back to where they were.
    highest_source: Cell<u32>,
    /// The tick of the last turn of a level below the highest.
    lower: Cell<u64>,

    // Written by the owner, read by any:
    /// Turns up to when the owner last said so: at each fair turn, before it sleeps, when it leaves its
    /// loop, and when it is asked on its own core.
    turns: AtomicU64,
    /// What `left` was then.
    from: Cell<i32>,
}

impl Fairness {
    pub(super) const fn new() -> Self {
        Self {
            left: Cell::new(PERIOD as i32),
            source: Cell::new(0),
            highest_source: Cell::new(0),
            lower: Cell::new(0),
            turns: AtomicU64::new(0),
            from: Cell::new(PERIOD as i32),
        }
    }

    /// Counts a turn that has ended or was left; false: the next one is to be fair.
    #[inline(always)]
    pub(super) fn count(&self) -> bool {
        let left = self.left.get() - 1;
        self.left.set(left);
        left != 0
    }

    /// Whether the next turn is to be fair.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.left.get() <= 0
    }

    /// True every other turn.
    #[inline]
    pub(super) fn alternates(&self) -> bool {
        self.left.get() & 1 == 0
    }

    /// Turns so far. From any core, where it may be a few behind.
    pub(super) fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    /// The turn that the owner is in, for itself and its interrupts.
    pub(super) fn turn(&self) -> u64 {
        // An interrupt may see a round that is just about to begin: any number does, if it is another.
        let since = self.from.get().wrapping_sub(self.left.get());
        self.turns().wrapping_add(since as u64)
    }

    /// Says how many turns there were.
    pub(super) fn publish(&self) {
        let since = self.from.replace(self.left.get()) - self.left.get();
        self.turns.store(self.turns() + since as u64, Relaxed);
    }

    /// The next turn is to be fair. Not while the owner is in its loop.
    pub(super) fn make_due(&self) {
        self.begin_round(0);
    }

    fn begin_round(&self, turns: i32) {
        self.publish();
        self.left.set(turns);
        self.from.set(turns);
    }
}

impl Worker {
    /// Tasks that yield in turn kick nobody: a core that sleeps hears of them here.
    fn share(&self) {
        let shared = self.shared();
        if self.is_many
            && shared.config.stealing
            && shared.idle.sleepers() != 0
            && (self.ready.get() & STEALABLE != 0 || !self.inbox.0.is_empty())
        {
            shared.notify();
        }
    }

    /// Where a fair turn may find something: only in the highest level, if another had a turn just now. And the cursor of such turns.
    fn sources_in_time(&self) -> (u32, &Cell<u32>) {
        let sources = self.sources();
        let since = self.ticks().wrapping_sub(self.fairness.lower.get());
        if sources == 0 || !self.ticks_now() || since >= LOWER_PERIOD {
            return (sources, &self.fairness.source);
        }
        let highest = sources.ilog2() / KINDS;
        let only_highest = sources & (!0 << (highest * KINDS));
        (only_highest, &self.fairness.highest_source)
    }

    /// A turn for what has waited longest, starting where the last such one ended.
    #[cold]
    pub(super) fn fair_turn(&self) -> Option<NonNull<Header>> {
        self.fairness.begin_round(PERIOD as i32);
        // A busy core of the host is not interrupted by its timer.
        let timer = self.next_timer();
        if timer != u64::MAX && timer <= self.shared().clock.now() {
            self.expire_timers();
        }
        self.share();
        let (sources, cursor) = self.sources_in_time();
        // Those from where the last turn ended on, and then those before.
        let first = cursor.get();
        let mut left = (sources | sources << SOURCES) >> first;
        while left != 0 {
            let source = (first + left.trailing_zeros()) % SOURCES;
            if let Some(task) = self.pick_old(source) {
                cursor.set((source + 1) % SOURCES);
                if sources >> ((source / KINDS + 1) * KINDS) != 0 {
                    self.fairness.lower.set(self.ticks());
                }
                return Some(task);
            }
            left &= left - 1;
        }
        None
    }
}
