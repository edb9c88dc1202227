//! The other cores.
//!
//! Each finds itself in a table by its hardware number, so it does not matter
//! in which order they arrive, or that one comes after it was given up: it
//! sees that and stays out.

use crate::{BootInfo, arch};
use core::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::*},
};
use hal::{
    bring_up::{self, TRAP_STACKS, Ticks},
    cores::{self, CoreSet, MAX_CORES},
    stack::Bounds,
};

/// The stacks of a core.
#[derive(Clone, Copy, Debug)]
pub struct CoreStacks {
    /// What it runs on.
    pub main: Bounds,
    /// What its traps run on.
    pub traps: [Bounds; TRAP_STACKS],
}

/// One core's row in the table. The entry assembly reads the first two words.
#[repr(C, align(64))]
pub struct Slot {
    /// Hardware number; written before the core is started.
    pub hardware_id: AtomicU64,
    /// Top of its stack; written before the core is started.
    pub stack_top: AtomicUsize,
    /// Counter when it arrived; written by the core.
    arrived: AtomicU64,
    /// Written before the core is started, then read by it alone.
    stacks: UnsafeCell<Option<CoreStacks>>,
}

// SAFETY: `stacks` is written by the boot core before `hardware_id`, which lets the core in.
unsafe impl Sync for Slot {}

/// No core has this hardware number.
pub const NOBODY: u64 = u64::MAX;

/// The table.
#[unsafe(no_mangle)]
pub static BOOT_SLOTS: [Slot; MAX_CORES] = [const {
    Slot {
        hardware_id: AtomicU64::new(NOBODY),
        stack_top: AtomicUsize::new(0),
        arrived: AtomicU64::new(0),
        stacks: UnsafeCell::new(None),
    }
}; MAX_CORES];

/// Where cores go on when they are up.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// What became of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It came up, this many ticks of the raw counter after it was called.
    Up(u64),
    /// The firmware refused to start it; the number is its error.
    Refused(i64),
    /// It did not answer.
    Silent,
    /// There was no memory for its stacks.
    NoStack,
}

/// What became of one core.
#[derive(Clone, Copy, Debug)]
pub struct CoreReport {
    /// Its number.
    pub core: usize,
    /// Its hardware number.
    pub hardware_id: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// How long a core may take. Generous: on a loaded host a virtual core may not
/// run for seconds. A core that is there answers within milliseconds.
const PATIENCE_MICROS: u64 = 10_000_000;

/// Starts all other cores at `main`, and waits until each is up or given up.
/// `stacks` makes the stacks of a core.
pub fn release_cores(
    info: &BootInfo,
    mut stacks: impl FnMut(usize) -> Option<CoreStacks>,
    main: fn() -> !,
    mut report: impl FnMut(CoreReport),
) {
    // Release pairs with the acquire in `come_up`.
    MAIN.store(main as usize, Release);
    let hardware_id = |core: usize| info.cores.ids()[core];
    let mut tell = |core, outcome| {
        report(CoreReport {
            core,
            hardware_id: hardware_id(core),
            outcome,
        })
    };
    let mut waiting = CoreSet::EMPTY;
    for (core, slot) in BOOT_SLOTS
        .iter()
        .enumerate()
        .take(info.cores.ids().len())
        .skip(1)
    {
        let Some(stacks) = stacks(core) else {
            tell(core, Outcome::NoStack);
            continue;
        };
        // SAFETY: the core has not been started.
        unsafe { *slot.stacks.get() = Some(stacks) };
        slot.stack_top.store(stacks.main.high, Relaxed);
        // Release: the entry assembly compares it first, and the core reads the rest after.
        slot.hardware_id.store(hardware_id(core), Release);
        waiting.0 |= 1 << core;
    }
    if waiting.is_empty() {
        return;
    }
    let called = bring_up::counter();
    let ticks = Ticks::start();
    arch::start_cores(waiting, &hardware_id, &ticks, &mut |core, error| {
        waiting = waiting.without(core);
        tell(core, Outcome::Refused(error));
    });
    let start = bring_up::boot_micros();
    while !waiting.is_empty() {
        for core in waiting.iter() {
            if cores::arrival(core).is_up() {
                waiting = waiting.without(core);
                let ticks = BOOT_SLOTS[core]
                    .arrived
                    .load(Relaxed)
                    .saturating_sub(called);
                tell(core, Outcome::Up(ticks));
            }
        }
        // Asleep, so as not to take from the cores that are waited for.
        ticks.nap();
        if bring_up::boot_micros() - start > PATIENCE_MICROS {
            for core in waiting.iter() {
                // It may arrive at this very moment; then the next turn finds it up.
                if cores::arrival(core).give_up() {
                    waiting = waiting.without(core);
                    tell(core, Outcome::Silent);
                }
            }
        }
    }
}

/// Where the entry assembly of each architecture ends, on the core's own stack,
/// with the final page tables.
pub extern "C" fn secondary_main(core: usize) -> ! {
    // SAFETY: written before the core was let in; only it reads it now.
    let stacks = unsafe { *BOOT_SLOTS[core].stacks.get() };
    let stacks = stacks.expect("the slot was filled before the core was started");
    // SAFETY: first thing on this core; `Arrival` makes sure it is the only one with this number.
    unsafe { bring_up::claim_core(core, stacks.main) };
    come_up(core, &stacks)
}

/// The rest, where the core has its block. Never inlined: see `claim_core`.
#[inline(never)]
fn come_up(core: usize, stacks: &CoreStacks) -> ! {
    let slot = &BOOT_SLOTS[core];
    // SAFETY: once on this core, which was claimed before; the stacks were made for it.
    unsafe { bring_up::traps_each_core(stacks.traps) };
    bring_up::init_each_core();
    slot.arrived.store(bring_up::counter(), Relaxed);
    // Last: from here on the others send it kicks.
    if !cores::arrival(core).arrive() {
        bring_up::stay_out();
    }
    // What was unmapped while this core was not yet counted.
    hal::flush::flush_point();
    // SAFETY: `release_cores` stored a `fn() -> !`. Acquire pairs with its release.
    let main = unsafe { core::mem::transmute::<usize, fn() -> !>(MAIN.load(Acquire)) };
    main()
}
