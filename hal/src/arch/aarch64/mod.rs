//! aarch64: TPIDR_EL1 points to the block of the context that runs, and that
//! to its core. Contexts run in EL1 on SP_EL0, traps on SP_EL1, so which of
//! the two is in use tells whether a trap is being handled.

mod bcm2836;
pub mod bring_up;
mod gic_v2;
mod gic_v3;
mod interrupts;
pub mod paging;
pub mod power;
pub mod probe;
mod switch;
mod trap;

pub(crate) use crate::preempt::portable::{enter, is_told, leave};
pub use interrupts::{
    disable_line, enable_line, has_nmi, kick, kick_self, send_nmi, send_stop, set_trigger,
};
pub use switch::{Frame, registers_survive, switch, touch_below};

use crate::{clock, context::ContextBlock, cores::MAX_CORES, irq};
use core::{
    arch::asm,
    cell::UnsafeCell,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed},
};

/// How deep traps may nest in handlers: a fault in one, a probe in the report of that fault, and a
/// fault in the probe's own handling.
const NESTED: usize = 3;

/// What belongs to a core.
#[repr(C, align(128))]
pub struct Core {
    /// What the executor keeps for this core. Written by this core.
    local: AtomicPtr<()>,
    /// Its number.
    id: AtomicU32,
    /// How many traps deep it is. Written by its trap entry and exit.
    trap_depth: AtomicU32,
    /// Lowest address of the trap stack, to see whether it is full.
    trap_stack_low: AtomicU64,
    /// Top of the stack for traps when it is.
    emergency_stack: AtomicU64,
    /// Frames of handlers that were interrupted, by depth.
    nested: [UnsafeCell<Frame>; NESTED],
    /// What a fast interrupt has interrupted.
    fast: UnsafeCell<Frame>,
    /// Top of the stack for that.
    fast_stack: AtomicU64,
    /// The context the core comes up in.
    first_context: ContextBlock,
}

// SAFETY: `nested` and `fast` are touched by the core's own trap entry only.
unsafe impl Sync for Core {}

static CORES: [Core; MAX_CORES] = [const {
    Core {
        local: AtomicPtr::new(core::ptr::null_mut()),
        id: AtomicU32::new(0),
        trap_depth: AtomicU32::new(0),
        trap_stack_low: AtomicU64::new(0),
        emergency_stack: AtomicU64::new(0),
        nested: [const { UnsafeCell::new(Frame::EMPTY) }; NESTED],
        fast: UnsafeCell::new(Frame::EMPTY),
        fast_stack: AtomicU64::new(0),
        first_context: ContextBlock::new(),
    }
}; MAX_CORES];

/// The core that the current context runs on, at this moment.
#[inline]
fn this() -> &'static Core {
    // SAFETY: the block of a context that runs names the core it runs on.
    unsafe { &*current().as_ref().core.load(Relaxed) }
}

/// Number of this core.
#[inline]
pub fn this_core() -> usize {
    this().id.load(Relaxed) as usize
}

/// What was kept for this core.
#[inline]
pub fn local() -> *mut () {
    this().local.load(Relaxed)
}

/// Keeps a word for this core.
#[inline]
pub fn set_local(local: *mut ()) {
    this().local.store(local, Relaxed);
}

/// Block of the context that runs here. `pure`, though a switch writes the
/// register: to the code of a context what it reads is a constant, as
/// [`context::current`](crate::context::current) argues.
#[inline]
pub fn current() -> NonNull<ContextBlock> {
    let current: *mut ContextBlock;
    // SAFETY: set by `claim_core`, before anything else, and by each switch; never null since.
    unsafe {
        asm!("mrs {}, tpidr_el1", out(reg) current,
             options(nostack, preserves_flags, pure, nomem));
        NonNull::new_unchecked(current)
    }
}

/// The same, read at this very place.
#[inline]
pub fn current_anew() -> NonNull<ContextBlock> {
    let current: *mut ContextBlock;
    // SAFETY: as for `current`.
    unsafe {
        asm!("mrs {}, tpidr_el1", out(reg) current, options(nostack, preserves_flags));
        NonNull::new_unchecked(current)
    }
}

/// From here on, `next` is the context that runs on this core.
///
/// # Safety
/// Interrupts are masked and `next` is about to be resumed.
pub unsafe fn set_current(next: NonNull<ContextBlock>) {
    // SAFETY: interrupts are masked, so the core is the same before and after.
    unsafe {
        let core = current_anew().as_ref().core.load(Relaxed);
        next.as_ref().core.store(core, Relaxed);
        asm!("msr tpidr_el1, {}", in(reg) next.as_ptr(), options(nostack, preserves_flags));
    }
}

/// Whether this core is in a trap handler.
#[inline]
pub fn in_trap() -> bool {
    let selected: u64;
    // SAFETY: reads which stack pointer is in use.
    unsafe { asm!("mrs {}, spsel", out(reg) selected, options(nostack, preserves_flags, nomem)) };
    // A switch to what a trap saved borrows the trap stack too; only a trap counts. On SP_EL1 nothing
    // moves to another core, so the core is the same in both looks.
    selected != 0 && this().trap_depth.load(Relaxed) != 0
}

const IRQ_MASKED: u64 = 1 << 7;

/// Masks interrupts; says whether they were enabled.
#[inline]
pub fn irq_mask() -> bool {
    let were_enabled = irq_are_enabled();
    // A compiler barrier too: what comes after must not move before it.
    // SAFETY: masking interrupts breaks nothing.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
    were_enabled
}

/// Lets interrupts in.
#[inline]
pub fn irq_enable() {
    // SAFETY: traps are set up before anyone can hold the last mask guard.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Whether interrupts can come.
#[inline]
pub fn irq_are_enabled() -> bool {
    let flags: u64;
    // SAFETY: reads the mask bits.
    unsafe { asm!("mrs {}, daif", out(reg) flags, options(nostack, preserves_flags)) };
    flags & IRQ_MASKED == 0
}

/// Sleeps until an interrupt, takes it, and masks again.
#[inline]
pub fn wait_for_interrupt() {
    // `wfi` ends for an interrupt that is masked too; it is taken between the next two. The
    // `dsb` lets what was written before be seen while this core sleeps.
    // SAFETY: traps are set up.
    unsafe {
        asm!(
            "dsb sy",
            "wfi",
            "msr daifclr, #2",
            "isb",
            "msr daifset, #2",
            options(nostack)
        )
    };
}

/// Tells the core that it is in a spin loop. Not `core::hint::spin_loop`: that
/// is an `isb` here, which stalls an emulator that runs all cores in one thread.
#[inline]
pub fn pause() {
    // SAFETY: a hint.
    unsafe { asm!("yield", options(nostack, preserves_flags, nomem)) };
}

/// Stops this core for good.
pub fn halt() -> ! {
    loop {
        // SAFETY: nothing runs here any more.
        unsafe { asm!("msr daifset, #15", "wfi", options(nostack)) };
    }
}

/// Program counter and frame pointer of the caller.
#[inline(always)]
pub fn here() -> (usize, usize) {
    let (program_counter, frame_pointer);
    // SAFETY: reads two registers.
    unsafe {
        asm!("adr {}, .", "mov {}, x29", out(reg) program_counter, out(reg) frame_pointer,
             options(nostack, preserves_flags));
    }
    (program_counter, frame_pointer)
}

/// The raw counter that the clock is made of.
#[inline]
pub fn counter() -> u64 {
    let count: u64;
    // The `isb` keeps it from being read before what came before.
    // SAFETY: boot lets EL1 read it.
    unsafe { asm!("isb", "mrs {}, cntpct_el0", out(reg) count, options(nostack, preserves_flags)) };
    count
}

/// Cycles; under QEMU's icount, instructions. 0 where there is no counter for them.
#[inline]
pub fn cycles() -> u64 {
    if !bring_up::has_cycle_counter() {
        return 0;
    }
    let count: u64;
    // SAFETY: boot turned the counter on.
    unsafe { asm!("mrs {}, pmccntr_el0", out(reg) count, options(nostack, preserves_flags)) };
    count
}

/// Sets this core's timer: it compares with the raw counter itself, 64 bits wide.
pub fn timer_arm(deadline: u64) {
    let ticks = clock::nanos_to_counter(deadline);
    // One that is on already may fire between the two writes: its handler would turn it off, and
    // the second turn it on again, for a deadline that was told.
    let _masked = irq::mask();
    // SAFETY: boot lets EL1 use the physical timer.
    unsafe {
        asm!("msr cntp_cval_el0, {}", "msr cntp_ctl_el0, {}", "isb", in(reg) ticks, in(reg) 1u64,
             options(nostack, preserves_flags));
    }
}

/// This core's timer does not fire.
pub fn timer_disarm() {
    // SAFETY: as above.
    unsafe {
        asm!(
            "msr cntp_ctl_el0, xzr",
            "isb",
            options(nostack, preserves_flags)
        )
    };
}

/// There are no I/O ports.
///
/// # Safety
/// None needed.
pub unsafe fn read_port<T>(_: u16) -> T {
    unreachable!("no board with this architecture has I/O ports")
}

/// There are no I/O ports.
///
/// # Safety
/// None needed.
pub unsafe fn write_port<T>(_: u16, _: T) {
    unreachable!("no board with this architecture has I/O ports")
}

/// Physical address of what is in the direct map.
pub fn physical(address: *const u8) -> u64 {
    crate::layout::direct_to_phys(address.addr())
}

/// Orders all accesses to memory, as devices see them too.
#[inline]
pub fn order_memory() {
    // SAFETY: a barrier.
    unsafe { asm!("dmb osh", options(nostack, preserves_flags)) };
}

/// A register may be written before what was written to memory has arrived there: this waits for it.
#[inline]
pub fn order_before_registers() {
    // SAFETY: a barrier.
    unsafe { asm!("dsb osh", options(nostack, preserves_flags)) };
}

/// No controller of these takes messages: a GICv3's service for them is not driven.
pub fn reserve_message(_: crate::mmio::Window) -> Option<u32> {
    None
}

/// There is none.
pub fn release_message(_: u32) {}
