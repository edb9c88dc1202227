//! What boot calls, in the order of the boot.

use super::{CORES, Core, apic, paging, pm_timer, trap};
use crate::{
    board::{Interrupts, Platform},
    context::ContextBlock,
    flush, irq,
    stack::{self, Bounds},
};
use core::{ptr, sync::atomic::Ordering::Relaxed};
use x86_64::{VirtAddr, registers::model_specific::GsBase};

pub use super::{counter, halt as stay_out};
pub use apic::{
    Ticks, calibrate_begin, calibrate_end as start_clock, send_init, send_startup, set_id,
};
pub use paging::{activate, root};
pub use pm_timer::boot_micros;
pub use trap::{STACK_SIZE as TRAP_STACK_SIZE, STACKS as TRAP_STACKS};

/// Trap stacks of the boot core until the memory for guarded ones is there.
#[repr(C, align(4096))]
struct EarlyStacks([[u8; trap::STACK_SIZE]; trap::STACKS]);
static mut EARLY_STACKS: EarlyStacks = EarlyStacks([[0; trap::STACK_SIZE]; trap::STACKS]);

/// Gives this core its number, its block and its first context.
///
/// # Safety
/// First thing on a core, once for each number. The caller hands over to a function that is never
/// inlined: a read of [`context::current`](crate::context::current) may be moved anywhere within its
/// function, and must not come before this.
pub unsafe fn claim_core(id: usize, stack: Bounds) {
    let core: &'static Core = &CORES[id];
    core.id.store(id as u32, Relaxed);
    core.this.store(ptr::from_ref(core).cast_mut(), Relaxed);
    let first: *const ContextBlock = &raw const core.first_context;
    core.current.store(first.cast_mut(), Relaxed);
    GsBase::write(VirtAddr::from_ptr(core));
    // SAFETY: the context is the one that runs here.
    unsafe { core.first_context.set_stack(stack) };
}

/// Turns on traps on the boot core.
///
/// # Safety
/// Once, after `claim_core`.
pub unsafe fn traps_on_boot_core() {
    let base = &raw mut EARLY_STACKS as usize;
    let stacks = core::array::from_fn(|i| Bounds {
        low: base + i * trap::STACK_SIZE,
        high: base + (i + 1) * trap::STACK_SIZE,
    });
    // SAFETY: the caller's promise.
    unsafe {
        trap::init_once();
        traps_each_core(stacks);
    }
}

/// Turns on traps on this core.
///
/// # Safety
/// Once for each core, after `claim_core`; the stacks are its own for good.
pub unsafe fn traps_each_core(stacks: [Bounds; TRAP_STACKS]) {
    let core = &CORES[super::this_core()];
    // SAFETY: the caller's promise.
    unsafe {
        core.set_trap_stacks(stacks);
        // Loading a segment register clears the GS base: put it back.
        core.load_tables();
        GsBase::write(VirtAddr::from_ptr(core));
        trap::init_each_core();
    }
}

/// Moves this core's traps to other stacks.
///
/// # Safety
/// Not in a trap; the stacks are its own for good.
pub unsafe fn replace_trap_stacks(stacks: [Bounds; TRAP_STACKS]) {
    let _masked = irq::mask();
    // SAFETY: with interrupts masked no trap is under way; the hardware reads the slots at the next.
    unsafe { CORES[super::this_core()].set_trap_stacks(stacks) };
}

/// Sets up what the whole machine shares.
pub fn init_once(platform: &Platform) {
    if let Interrupts::Apic {
        local,
        io,
        pm_timer,
    } = platform.interrupts
    {
        apic::init_once(local, io).expect("the APICs can be mapped");
        pm_timer::init_once(pm_timer);
    }
}

/// Sets up the rest of this core.
pub fn init_each_core() {
    apic::init_each_core();
    flush::join_each_core();
    stack::refill();
}
