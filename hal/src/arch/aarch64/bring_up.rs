//! What boot calls, in the order of the boot.

use super::{CORES, Core, interrupts, paging, trap};
use crate::{
    board::Platform,
    clock,
    context::ContextBlock,
    flush, irq,
    layout::PAGE,
    stack::{self, Bounds},
};
use core::{
    arch::asm,
    ptr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

pub use super::{counter, halt as stay_out};
pub use paging::{MEMORY_ATTRIBUTES, flush_all, root};

/// A core's trap stack, the one for when that was the problem, and the one for fast interrupts.
pub const TRAP_STACKS: usize = 3;
/// How large each is: a machine panic is reported on one.
pub const TRAP_STACK_SIZE: usize = 4 * PAGE;

/// Trap stacks of the boot core until the memory for guarded ones is there.
#[repr(C, align(4096))]
struct EarlyStacks([[u8; TRAP_STACK_SIZE]; TRAP_STACKS]);
static mut EARLY_STACKS: EarlyStacks = EarlyStacks([[0; TRAP_STACK_SIZE]; TRAP_STACKS]);

/// Whether boot found a cycle counter.
static HAS_CYCLE_COUNTER: AtomicBool = AtomicBool::new(false);

/// Says that boot has turned on the cycle counter.
pub fn set_cycle_counter(there: bool) {
    HAS_CYCLE_COUNTER.store(there, Relaxed);
}

/// Whether there is a cycle counter.
pub fn has_cycle_counter() -> bool {
    HAS_CYCLE_COUNTER.load(Relaxed)
}

/// Gives this core its number, its block and its first context.
///
/// # Safety
/// First thing on a core, once for each number. The caller hands over to a function that is never
/// inlined: a read of [`context::current`](crate::context::current) may be moved anywhere within its
/// function, and must not come before this.
pub unsafe fn claim_core(id: usize, stack: Bounds) {
    let core: &'static Core = &CORES[id];
    core.id.store(id as u32, Relaxed);
    let first: &'static ContextBlock = &core.first_context;
    first.core.store(ptr::from_ref(core).cast_mut(), Relaxed);
    // SAFETY: the block lives for good, and is this core's own.
    unsafe {
        asm!("msr tpidr_el1, {}", in(reg) ptr::from_ref(first), options(nostack, preserves_flags));
        first.set_stack(stack);
    }
}

/// Turns on traps on the boot core.
///
/// # Safety
/// Once, after `claim_core`.
pub unsafe fn traps_on_boot_core() {
    let base = &raw mut EARLY_STACKS as usize;
    let stacks = core::array::from_fn(|i| Bounds {
        low: base + i * TRAP_STACK_SIZE,
        high: base + (i + 1) * TRAP_STACK_SIZE,
    });
    // SAFETY: the caller's promise.
    unsafe { traps_each_core(stacks) };
}

/// Turns on traps on this core.
///
/// # Safety
/// Once for each core, after `claim_core`, running on SP_EL0; the stacks are its own for good.
pub unsafe fn traps_each_core(stacks: [Bounds; TRAP_STACKS]) {
    // SAFETY: the caller's promise.
    unsafe { replace_trap_stacks(stacks) };
    trap::init_each_core();
}

/// Moves this core's traps to other stacks.
///
/// # Safety
/// Not in a trap; the stacks are its own for good.
pub unsafe fn replace_trap_stacks(stacks: [Bounds; TRAP_STACKS]) {
    let _masked = irq::mask();
    let core = &CORES[super::this_core()];
    // Whoever is on one of the others is above this too, so the one comparison tells.
    debug_assert!(stacks[0].low < stacks[1].low && stacks[0].low < stacks[2].low);
    core.trap_stack_low.store(stacks[0].low as u64, Relaxed);
    core.emergency_stack.store(stacks[1].high as u64, Relaxed);
    core.fast_stack.store(stacks[2].high as u64, Relaxed);
    // SAFETY: this runs on SP_EL0, so SP_EL1 is in use by nobody; it is selected, set and left again.
    unsafe {
        asm!("msr spsel, #1", "mov sp, {}", "msr spsel, #0", in(reg) stacks[0].high,
             options(preserves_flags));
    }
}

/// Sets up what the whole machine shares, and starts the clock, whose rate the hardware knows.
pub fn init_once(platform: &Platform, entered: u64) {
    clock::start(entered, frequency());
    interrupts::init_once(platform.interrupts).expect("the interrupt controller can be mapped");
}

fn frequency() -> u64 {
    let hertz: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nostack, preserves_flags, nomem)) };
    assert!(
        hertz != 0,
        "the firmware did not say how fast the counter runs (CNTFRQ_EL0 is 0)"
    );
    hertz
}

/// The clock runs from `init_once` on.
pub fn start_clock(_entered: u64) {}

/// The boot core's timer interrupts it every so often: for waiting.
pub struct Ticks(());

impl Ticks {
    /// Lets it tick.
    pub fn start() -> Self {
        Self(())
    }

    /// Sleeps until the next tick, or another interrupt.
    pub fn nap(&self) {
        let masked = irq::mask();
        super::timer_arm(clock::now() + 50_000);
        irq::wait(&masked);
        super::timer_disarm();
    }
}

/// Microseconds since the image was entered.
pub fn boot_micros() -> u64 {
    clock::now() / 1000
}

/// Sets up the rest of this core.
pub fn init_each_core() {
    super::timer_disarm();
    interrupts::init_each_core();
    flush::join_each_core();
    stack::refill();
}
