//! Counters that one core writes and any reads, and what can be said from
//! them of all cores: how many tasks live.

use crate::queue::ordering;
use hal::sync::atomic::{AtomicU64, Ordering::*, fence};

/// Written by one core, read by any.
pub struct Counter(AtomicU64);

impl Counter {
    /// Nothing yet.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Nothing yet.
    #[cfg(loom)]
    #[allow(clippy::new_without_default, reason = "part of a core's counters")]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to it. By the one core that writes it, or under the one lock.
    #[inline]
    pub fn add(&self, more: u64) {
        // Release pairs with the acquire in `get`: who sees the end of a task counted sees its spawns, too.
        let order = ordering!(Release unless seeded = "counter_add_relaxed");
        self.0.store(self.0.load(Relaxed).wrapping_add(more), order);
    }

    /// Adds to it, from any core.
    pub fn add_from_any(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// What it has come to.
    pub fn get(&self) -> u64 {
        self.0
            .load(ordering!(Acquire unless seeded = "counter_get_relaxed"))
    }
}

/// How many tasks live, by how many began and ended on each core. Possibly too
/// many; too few only if that many more were spawned from outside meanwhile.
pub fn live<'a>(
    ended: impl Iterator<Item = &'a Counter>,
    begun: impl Iterator<Item = &'a Counter>,
) -> u64 {
    let sum = |count: u64, counter: &Counter| count.wrapping_add(counter.get());
    if cfg!(seeded = "live_counts_the_begun_first") {
        let begun = begun.fold(0, sum);
        return begun.wrapping_sub(ended.fold(0, sum));
    }
    // Those that ended first: whoever sees an end sees, by the acquire in `get`, all that the task
    // spawned before it. So a task that is missed was spawned by one that is missed or seen alive,
    // and in the end by one that is seen alive.
    let ended = ended.fold(0, sum);
    begun.fold(0, sum).wrapping_sub(ended)
}

/// The same, after an end was counted: of several that count the last ends at
/// the same time, at least one sees that nothing is left.
pub fn live_after_end<'a>(
    ended: impl Iterator<Item = &'a Counter>,
    begun: impl Iterator<Item = &'a Counter>,
) -> u64 {
    // Pairs with itself: of two, one sees what the other counted.
    if !cfg!(seeded = "live_after_end_without_fence") {
        fence(SeqCst);
    }
    live(ended, begun)
}
