//! Between a claim and its publication.
//!
//! Who puts a message into a queue claims its place, then writes it there, then says so. Who
//! takes messages out may come to a place that is claimed and not yet written. He spins. That is for a few
//! instructions, because whoever owes a publication holds a [`guard`]: he is not switched away, so
//! he runs on another core, now. An interrupt may come between, so handlers take nothing out.

/// Held from a claim for which others may spin to its publication. Nothing that may wait, and no code of
/// others, runs under it.
#[cfg(not(loom))]
pub use hal::preempt::{Guard, guard};

/// Nobody is switched away for good in the models.
#[cfg(loom)]
pub struct Guard;

/// As hal's.
#[cfg(loom)]
pub fn guard() -> Guard {
    Guard
}

/// Waits for what somebody who holds a guard is about to publish. Nearly always it is there, so this is for the
/// cold half of what takes messages out.
pub fn wait_until(mut is_there: impl FnMut() -> bool) {
    while !is_there() {
        relax();
    }
}

/// One turn of a spin loop.
pub fn relax() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    {
        // Who owes the publication may have been stopped by a machine panic; then this core is to stop too, even
        // if it does not hear interrupts.
        hal::stop::check();
        hal::pause();
    }
}
