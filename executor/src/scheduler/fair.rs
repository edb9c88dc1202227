//! Turns that go out of order, so that nothing runnable waits for ever.
//!
//! Most turns take what is best for speed: the highest level, the newest task.
//! Each 61st looks at the old ends instead, going round all levels and queues
//! of the core and the injector. So whatever is first in its queue is polled
//! within [`BOUND`] turns of its core, whatever else is runnable, and what is
//! behind `n` others in that queue within `(n + 1) * BOUND`.

use super::worker::{LEVELS, Worker};
use crate::task::cell::Header;
use core::{cell::Cell, ptr::NonNull};

/// Every so many turns one is fair. A prime, so that it does not keep step with what tasks do.
pub const PERIOD: u32 = 61;
/// Injector, deque, ring and pinned tasks.
const QUEUES: usize = 4;
const SOURCES: usize = LEVELS * QUEUES;

/// Turns of a core within which the first task of any of its queues is polled.
pub const BOUND: u32 = PERIOD * SOURCES as u32;

/// When the next fair turn is due, and where it looks first. Owner only.
pub(super) struct Fairness {
    left: Cell<u32>,
    source: Cell<u32>,
}

impl Fairness {
    pub(super) const fn new() -> Self {
        Self {
            left: Cell::new(PERIOD),
            source: Cell::new(0),
        }
    }

    /// Counts a turn; whether it is a fair one.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let left = self.left.get() - 1;
        self.left.set(left);
        left == 0
    }

    /// True every other turn.
    #[inline]
    pub(super) fn alternates(&self) -> bool {
        self.left.get() & 1 == 0
    }
}

impl Worker {
    /// A turn for what has waited longest, starting where the last one ended.
    #[cold]
    pub(super) fn fair_turn(&self) -> Option<NonNull<Header>> {
        self.fairness.left.set(PERIOD);
        // A busy core of the host is not interrupted by its timer.
        if self.timers.next() <= self.shared().clock.now() {
            self.expire_timers();
        }
        let sources = self.sources();
        if sources == 0 {
            return None;
        }
        // Those from where the last turn ended on, and then those before.
        let first = self.fairness.source.get();
        let mut later = sources & !((1 << first) - 1);
        let mut sooner = sources ^ later;
        loop {
            let left = if later != 0 { &mut later } else { &mut sooner };
            if *left == 0 {
                return None;
            }
            let source = left.trailing_zeros();
            *left &= *left - 1;
            if let Some(task) = self.pick_old(source as usize / QUEUES, source as usize % QUEUES) {
                self.fairness.source.set((source + 1) % SOURCES as u32);
                return Some(task);
            }
        }
    }
}
