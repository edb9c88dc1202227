//! When has every core forgotten an old translation?
//!
//! On aarch64 an invalidation is broadcast by the hardware and done when
//! `dsb` returns. On x86_64 each core has to do it itself. No core waits for
//! another inside an unmap: it takes a [`Ticket`], and every core drops its
//! cached translations when it next passes a *flush point* (each interrupt is
//! one). Whoever wants to reuse the memory asks the ticket first.
//!
//! The protocol: `issue` draws a number after the table was changed. A core
//! passing a flush point reads the newest number, flushes, and only then
//! publishes the number as passed. A ticket is done when every core that is up
//! has published its number or a later one.

use crate::sync::atomic::{AtomicU64, Ordering::*};
#[cfg(not(loom))]
use crate::{
    arch,
    cores::{self, CoreSet, MAX_CORES},
    sync::atomic::fence,
};

/// The protocol, apart from what it flushes, so that it can be modelled.
pub struct Flushes<const CORES: usize> {
    /// Any core.
    issued: AtomicU64,
    /// Each written by its own core.
    passed: [AtomicU64; CORES],
}

impl<const CORES: usize> Flushes<CORES> {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self {
            issued: AtomicU64::new(0),
            passed: [const { AtomicU64::new(0) }; CORES],
        }
    }

    #[cfg(loom)]
    /// For the models.
    pub fn new() -> Self {
        Self {
            issued: AtomicU64::new(0),
            passed: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Draws a number; the change of the table comes before it.
    pub fn issue(&self) -> u64 {
        // Release, pairs with the acquire in `pass` and `join`: who sees the number sees the changed table.
        let order = if cfg!(seeded = "flush_issue_relaxed") {
            Relaxed
        } else {
            Release
        };
        self.issued.fetch_add(1, order) + 1
    }

    /// What core `core` does at a flush point.
    pub fn pass(&self, core: usize, flush: impl FnOnce()) {
        // Acquire pairs with `issue`.
        let newest = self.issued.load(Acquire);
        if self.passed[core].load(Relaxed) == newest {
            return;
        }
        if cfg!(seeded = "flush_publishes_early") {
            self.publish(core, newest);
            return flush();
        }
        flush();
        self.publish(core, newest);
    }

    /// What core `core` does as it comes up, before it is counted as online: it
    /// flushes whatever number it passed in an earlier life. Once it is online,
    /// it must pass once more: for what was issued in between, nobody waited for it.
    pub fn join(&self, core: usize, flush: impl FnOnce()) {
        if cfg!(seeded = "flush_join_reads_late") {
            flush();
            return self.publish(core, self.issued.load(Acquire));
        }
        // Acquire pairs with `issue`. Before the flush: for a change that comes after it, it would lie.
        let newest = self.issued.load(Acquire);
        flush();
        self.publish(core, newest);
    }

    fn publish(&self, core: usize, number: u64) {
        // Release pairs with the acquire in `has_passed`: the flush is over when the number is seen.
        let order = if cfg!(seeded = "flush_publish_relaxed") {
            Relaxed
        } else {
            Release
        };
        self.passed[core].store(number, order);
    }

    /// Whether `core` has passed number `number`.
    pub fn has_passed(&self, core: usize, number: u64) -> bool {
        // Acquire pairs with the release in `publish`.
        self.passed[core].load(Acquire) >= number
    }
}

#[cfg(not(loom))]
static FLUSHES: Flushes<MAX_CORES> = Flushes::new();

/// Proof that a change of the page tables is known, or will be, to every core.
#[cfg(not(loom))]
#[must_use = "memory that was unmapped may be reused only when its ticket is done"]
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u64);

#[cfg(not(loom))]
impl Ticket {
    fn laggards(self) -> CoreSet {
        cores::online()
            .iter()
            .filter(|&core| !FLUSHES.has_passed(core, self.0))
            .collect()
    }

    /// Whether no core can use the old translation any more.
    pub fn is_done(self) -> bool {
        arch::paging::FLUSH_IS_BROADCAST || self.laggards().is_empty()
    }

    /// Kicks the cores that lag, so that it is done soon.
    pub fn hurry(self) {
        if !arch::paging::FLUSH_IS_BROADCAST {
            self.laggards().iter().for_each(cores::kick);
        }
    }

    /// Waits until it is done, kicking the cores that lag. Not under a lock.
    pub fn wait(self) {
        if arch::paging::FLUSH_IS_BROADCAST {
            return;
        }
        self.hurry();
        while !self.is_done() {
            // Passing here too keeps two waiters with masked interrupts from waiting for each other.
            flush_point();
            crate::pause();
        }
    }
}

/// Draws a ticket for a change of the page tables that was just made.
#[cfg(not(loom))]
pub fn issue() -> Ticket {
    if arch::paging::FLUSH_IS_BROADCAST {
        return Ticket(0);
    }
    let ticket = Ticket(FLUSHES.issue());
    flush_point();
    ticket
}

/// Drops cached translations if some are out of date. Interrupts are masked,
/// or the caller holds a guard: the core must not change in between.
#[cfg(not(loom))]
pub fn flush_point() {
    if !arch::paging::FLUSH_IS_BROADCAST {
        // Nothing of this core's earlier work may slip behind the flush; and of a core that has just
        // come online and one that has just issued, at least one sees the other.
        fence(SeqCst);
        let _masked = crate::irq::mask();
        let core = cores::this_core();
        // Threads of the host beyond that are in no machine: nobody waits for them.
        if core < MAX_CORES {
            FLUSHES.pass(core, arch::paging::flush_all);
        }
    }
}

/// Called by each core as it comes up, before it is counted as online.
#[cfg(not(loom))]
pub(crate) fn join_each_core() {
    FLUSHES.join(cores::this_core(), arch::paging::flush_all);
}
