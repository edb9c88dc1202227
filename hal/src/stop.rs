//! Stopping every other core, for a machine panic.
//!
//! A stopped core leaves its registers where the panicking one can walk its
//! stack, then halts for good. Cores are stopped by an interrupt that they cannot mask, whatever they do: an NMI on
//! x86_64, a fast interrupt on aarch64. Only where a GIC keeps those for another world, a core that masks interrupts for good does
//! not answer, except while it waits for a [`Lock`](crate::sync::Lock), which looks here.

use crate::{
    arch,
    cores::{self, CoreSet, MAX_CORES},
};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

/// Core that panics plus one; 0: none.
static PANICKING: AtomicU32 = AtomicU32::new(0);

struct Stopped {
    done: AtomicBool,
    program_counter: AtomicUsize,
    frame_pointer: AtomicUsize,
}

static STOPPED: [Stopped; MAX_CORES] = [const {
    Stopped {
        done: AtomicBool::new(false),
        program_counter: AtomicUsize::new(0),
        frame_pointer: AtomicUsize::new(0),
    }
}; MAX_CORES];

/// Who is to report a machine panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This core: it was first.
    Reporter,
    /// This core panicked while it was reporting.
    Again,
    /// Another core: this one is to stop.
    Bystander,
}

/// Claims the machine panic for this core.
pub fn claim() -> Role {
    let me = cores::this_core() as u32 + 1;
    // AcqRel: whoever claims sees nothing half done by an earlier claimer; there is only ever one.
    match PANICKING.compare_exchange(0, me, AcqRel, Acquire) {
        Ok(_) => Role::Reporter,
        Err(other) if other == me => Role::Again,
        Err(_) => Role::Bystander,
    }
}

/// Whether another core has claimed a machine panic, so that this one is to stop.
#[inline]
pub fn is_requested() -> bool {
    let claimed = PANICKING.load(Relaxed);
    claimed != 0 && claimed != cores::this_core() as u32 + 1
}

/// Stops the other cores and waits until they stand, but no longer than
/// `patience` nanoseconds. Returns those that did not answer.
pub fn stop_others(patience: u64) -> CoreSet {
    let others = cores::online().without(cores::this_core());
    for core in others.iter() {
        arch::send_stop(core);
    }
    let end = crate::clock::now().saturating_add(patience);
    // Before the clock runs, turns are all there is to count.
    let mut turns = 0u64;
    loop {
        let silent: CoreSet = others
            .iter()
            // Acquire pairs with the release in `halt_here`: its registers are there.
            .filter(|&core| !STOPPED[core].done.load(Acquire))
            .collect();
        turns += 1;
        let over = if crate::clock::is_running() {
            crate::clock::now() >= end
        } else {
            turns >= 10_000_000
        };
        if silent.is_empty() || over {
            return silent;
        }
        crate::pause();
    }
}

/// Where a stopped core was: program counter and frame pointer.
pub fn place(core: usize) -> Option<(usize, usize)> {
    let stopped = &STOPPED[core];
    // Acquire pairs with the release in `halt_here`.
    stopped.done.load(Acquire).then(|| {
        (
            stopped.program_counter.load(Relaxed),
            stopped.frame_pointer.load(Relaxed),
        )
    })
}

/// Stops this core for good, as seen at the given place.
pub fn halt_here(program_counter: usize, frame_pointer: usize) -> ! {
    let _ = arch::irq_mask();
    // None: a thread of the host of which nobody asks.
    if let Some(stopped) = STOPPED.get(cores::this_core()) {
        stopped.program_counter.store(program_counter, Relaxed);
        stopped.frame_pointer.store(frame_pointer, Relaxed);
        // Release pairs with the acquire in `stop_others` and `place`.
        stopped.done.store(true, Release);
    }
    arch::halt()
}

/// Stops this core if some other has claimed a machine panic. For loops that
/// wait with interrupts masked.
#[inline]
pub fn check() {
    if is_requested() {
        let (program_counter, frame_pointer) = arch::here();
        halt_here(program_counter, frame_pointer);
    }
}
