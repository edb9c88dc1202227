//! x86_64: one block per core behind GS, whose first word is the block of the
//! context that runs there.

pub mod apic;
pub mod bring_up;
mod messages;
pub mod paging;
mod pm_timer;
pub mod power;
pub mod probe;
mod switch;
mod trap;

pub use apic::{
    disable_line, enable_line, has_nmi, kick, kick_self, send_nmi, send_stop, set_trigger,
    timer_arm, timer_disarm,
};
pub use messages::{release_message, reserve_message};
pub use switch::{Frame, registers_survive, switch, touch_below};

use crate::{context::ContextBlock, cores::MAX_CORES, preempt::TOLD};
use core::{
    arch::asm,
    cell::UnsafeCell,
    mem::offset_of,
    ptr::NonNull,
    sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{Relaxed, SeqCst},
        fence,
    },
};
use x86_64::structures::port::{PortRead, PortWrite};

/// How deep traps may nest in handlers: a fault in one, a probe in the report of that fault, and a
/// fault in the probe's own handling.
const NESTED: usize = 3;

/// What a core must reach without knowing anything: GS points here.
#[repr(C, align(128))]
pub struct Core {
    /// Block of the context that runs. Written by this core, interrupts masked.
    current: AtomicPtr<ContextBlock>,
    /// Its own address, to get from GS to a pointer.
    this: AtomicPtr<Core>,
    /// What the executor keeps for this core. Written by this core.
    local: AtomicPtr<()>,
    /// Its number.
    id: AtomicU32,
    /// How many traps deep it is. Written by its trap entry and exit.
    trap_depth: AtomicU32,
    /// Top of a stack that is free whenever no trap is being handled: an `iretq` frame is built there.
    resume_stack: AtomicU64,
    /// Frames of handlers that were interrupted, by depth; the last is the NMI's.
    nested: [UnsafeCell<Frame>; NESTED + 1],
    /// The context the core comes up in.
    first_context: ContextBlock,
    tables: UnsafeCell<trap::Tables>,
}

// SAFETY: the cells are touched by the core itself only, with interrupts masked
// (`tables` before its traps are on, `nested` by its trap entry).
unsafe impl Sync for Core {}

static CORES: [Core; MAX_CORES] = [const {
    Core {
        current: AtomicPtr::new(core::ptr::null_mut()),
        this: AtomicPtr::new(core::ptr::null_mut()),
        local: AtomicPtr::new(core::ptr::null_mut()),
        id: AtomicU32::new(0),
        trap_depth: AtomicU32::new(0),
        resume_stack: AtomicU64::new(0),
        nested: [const { UnsafeCell::new(Frame::EMPTY) }; NESTED + 1],
        first_context: ContextBlock::new(),
        tables: UnsafeCell::new(trap::Tables::new()),
    }
}; MAX_CORES];

/// Number of this core.
#[inline]
pub fn this_core() -> usize {
    // 64 bits wide, because the load clears the upper half: as a `u32` it would be cleared once more.
    let id: usize;
    // SAFETY: GS points to this core's block from the first Rust on.
    unsafe {
        asm!("mov {:e}, gs:[{}]", out(reg) id, const offset_of!(Core, id),
             options(nostack, preserves_flags, readonly));
    }
    id
}

/// What was kept for this core.
#[inline]
pub fn local() -> *mut () {
    let local: *mut ();
    // SAFETY: as for `this_core`.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) local, const offset_of!(Core, local),
             options(nostack, preserves_flags, readonly));
    }
    local
}

/// Keeps a word for this core.
#[inline]
pub fn set_local(local: *mut ()) {
    // SAFETY: as for `this_core`; only this core touches the word.
    unsafe {
        asm!("mov gs:[{}], {}", const offset_of!(Core, local), in(reg) local,
             options(nostack, preserves_flags));
    }
}

/// Block of the context that runs here. `pure` and `nomem`, though it reads
/// memory: to the code of a context what it reads is a constant, as
/// [`context::current`](crate::context::current) argues. (Linux reads its
/// `current` in the same way, by `this_cpu_read_stable`.)
#[inline]
pub fn current() -> NonNull<ContextBlock> {
    let current: *mut ContextBlock;
    // SAFETY: GS points to this core's block, whose first word is never null once it is set. One
    // load: were it two, an interrupt between them could move this context to another core.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) current, const offset_of!(Core, current),
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
        asm!("mov {}, gs:[{}]", out(reg) current, const offset_of!(Core, current),
             options(nostack, preserves_flags, readonly));
        NonNull::new_unchecked(current)
    }
}

/// From here on, `next` is the context that runs on this core.
///
/// # Safety
/// Interrupts are masked and `next` is about to be resumed.
pub unsafe fn set_current(next: NonNull<ContextBlock>) {
    // SAFETY: GS points to this core's block; with interrupts masked nobody reads in between.
    unsafe {
        asm!("mov gs:[{}], {}", const offset_of!(Core, current), in(reg) next.as_ptr(),
             options(nostack, preserves_flags));
    }
}

/// Counts a guard, of the context, which is this one. In the whole word that [`leave`] is about to count down: if only a half of it
/// were written, real cores would read the word only when that is in the cache, about ten times later.
#[inline(always)]
pub fn enter(context: &ContextBlock) {
    debug_assert!(context.guards.load(Relaxed) < u32::MAX);
    // SAFETY: only this context counts its guards, and the lower half does not overflow.
    unsafe {
        asm!("inc qword ptr [{} + {}]", in(reg) context, const offset_of!(ContextBlock, guards), options(nostack));
    }
}

/// Counts a guard down; whether the context, which is this one, was asked for anything. In one instruction, on the word
/// that both are in: what was asked is its sign.
#[inline(always)]
pub fn leave(context: &ContextBlock) -> bool {
    debug_assert_ne!(
        context.guards.load(Relaxed),
        0,
        "a guard of another context"
    );
    // SAFETY: only this context counts its guards, there is one, and whoever asks does it in an interrupt on this core.
    unsafe {
        asm!("dec qword ptr [{} + {}]", "js {}", in(reg) context, const offset_of!(ContextBlock, guards),
             label { return true }, options(nostack));
    }
    false
}

/// Whether the context, which is this one, is to hear that its poll takes long. Compilers would load it first.
#[inline(always)]
pub fn is_told(context: &ContextBlock) -> bool {
    // SAFETY: reads a byte, which only this core writes.
    unsafe {
        asm!("test byte ptr [{} + {}], {}", "jnz {}", in(reg) context, const offset_of!(ContextBlock, soft),
             const TOLD, label { return true }, options(nostack, readonly));
    }
    false
}

/// Whether this core is in a trap handler. Compilers would load it first.
#[inline(always)]
pub fn in_trap() -> bool {
    // SAFETY: as for `this_core`.
    unsafe {
        asm!("cmp dword ptr gs:[{}], 0", "jne {}", const offset_of!(Core, trap_depth), label { return true },
             options(nostack, readonly));
    }
    false
}

/// Masks interrupts; says whether they were enabled.
#[inline]
pub fn irq_mask() -> bool {
    let were_enabled = irq_are_enabled();
    // A compiler barrier too: what comes after must not move before it.
    // SAFETY: masking interrupts breaks nothing.
    unsafe { asm!("cli", options(nostack)) };
    were_enabled
}

/// Lets interrupts in.
#[inline]
pub fn irq_enable() {
    // SAFETY: traps are set up before anyone can hold the last mask guard.
    unsafe { asm!("sti", options(nostack)) };
}

/// Whether interrupts can come.
#[inline]
pub fn irq_are_enabled() -> bool {
    let flags: u64;
    // SAFETY: reads the flags through the stack, which `asm!` knows of.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags & (1 << 9) != 0
}

/// Sleeps until an interrupt, takes it, and masks again. `sti` takes effect after the next instruction, so no interrupt fits between it
/// and `hlt`; but an NMI does, and knows it by the name of that.
#[unsafe(naked)]
pub extern "C" fn wait_for_interrupt() {
    core::arch::naked_asm!(
        // A frame, for backtraces.
        "push rbp",
        "mov rbp, rsp",
        "sti",
        ".global wait_hlt",
        "wait_hlt: hlt",
        "cli",
        "pop rbp",
        "ret"
    )
}

/// Where a core is that is about to sleep.
pub fn address_of_wait() -> usize {
    unsafe extern "C" {
        safe static wait_hlt: u8;
    }
    (&raw const wait_hlt).addr()
}

/// Tells the core that it is in a spin loop.
#[inline]
pub fn pause() {
    core::hint::spin_loop();
}

/// Stops this core for good.
pub fn halt() -> ! {
    loop {
        // SAFETY: nothing runs here any more.
        unsafe { asm!("cli", "hlt", options(nostack)) };
    }
}

/// Program counter and frame pointer of the caller.
#[inline(always)]
pub fn here() -> (usize, usize) {
    let (program_counter, frame_pointer);
    // SAFETY: reads two registers.
    unsafe {
        asm!("lea {}, [rip]", "mov {}, rbp", out(reg) program_counter, out(reg) frame_pointer,
             options(nostack, preserves_flags));
    }
    (program_counter, frame_pointer)
}

/// The raw counter that the clock is made of.
#[inline]
pub fn counter() -> u64 {
    // SAFETY: every x86_64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Under QEMU's icount the TSC counts instructions.
#[inline]
pub fn cycles() -> u64 {
    counter()
}

/// Reads from an I/O port.
///
/// # Safety
/// The port belongs to the caller's device.
pub unsafe fn read_port<T: PortRead>(port: u16) -> T {
    // SAFETY: the caller's promise.
    unsafe { T::read_from_port(port) }
}

/// Writes to an I/O port.
///
/// # Safety
/// The port belongs to the caller's device.
pub unsafe fn write_port<T: PortWrite>(port: u16, value: T) {
    // SAFETY: the caller's promise.
    unsafe { T::write_to_port(port, value) }
}

/// Physical address of what is in the direct map.
pub fn physical(address: *const u8) -> u64 {
    crate::layout::direct_to_phys(address.addr())
}

/// Stores are seen in order; a load may still come before a store that precedes it, which this forbids.
#[inline]
pub fn order_memory() {
    fence(SeqCst);
}

/// Registers are not cached: a store to them comes after all before it.
#[inline]
pub fn order_before_registers() {
    fence(SeqCst);
}
