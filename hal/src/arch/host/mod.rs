//! The host: OS threads are the cores, so that all above hal runs natively.
//!
//! A thread finds the [`Core`] it plays through a thread-local pointer;
//! `threads` says how it gets one. Interrupts are simulated: a kick, a line or
//! an expired timer is remembered, and delivered on the thread itself when it
//! unmasks, waits, pauses, arms its timer or kicks itself. Between those
//! points nothing is interrupted: the host has no tick.
//!
//! A context may go on in another thread than it was left in. The compiler
//! takes the address of a thread-local variable for constant within a
//! function, so whatever reads one is `#[inline(never)]` here.

mod blocking;
pub mod bring_up;
mod interrupts;
pub mod paging;
mod pool;
pub mod power;
pub mod probe;
#[cfg(asan)]
mod sanitizer;
pub mod stack;
mod switch;
mod threads;
mod unwind;

pub(crate) use crate::preempt::portable::{enter, is_told, leave};
pub use blocking::Threads;
pub use interrupts::{
    disable_line, enable_line, has_nmi, in_trap, irq_are_enabled, irq_enable, irq_mask, kick,
    pause, send_nmi, send_stop, set_trigger, timer_arm, timer_disarm, wait_for_interrupt,
};
pub use pool::{FREE_AT_START, add_core, usable, usual};
#[cfg(asan)]
pub use sanitizer::switch;
#[cfg(not(asan))]
pub use switch::switch;
pub use switch::{Frame, touch_below};
pub use threads::Core;
pub use unwind::{Payload, catch, is_panicking, message, resume};

use crate::{clock, context::ContextBlock};
use core::{
    arch::asm,
    ptr::NonNull,
    sync::atomic::{
        Ordering::{Relaxed, SeqCst},
        fence,
    },
};
use std::{sync::OnceLock, time::Instant};

/// Interrupts come only where a thread lets them in.
pub const PREEMPTS: bool = false;

/// Number of this core.
pub fn this_core() -> usize {
    threads::core().id
}

/// What was kept for this core.
pub fn local() -> *mut () {
    threads::core().local.load(Relaxed)
}

/// Keeps a word for this core.
pub fn set_local(local: *mut ()) {
    threads::core().local.store(local, Relaxed);
}

/// Block of the context that runs here.
pub fn current() -> NonNull<ContextBlock> {
    let current = threads::core().current.load(Relaxed);
    NonNull::new(current).expect("a thread that plays a core has a context")
}

/// The same: it is read anew each time here.
pub fn current_anew() -> NonNull<ContextBlock> {
    current()
}

/// From here on, `next` is the context that runs on this core.
///
/// # Safety
/// Interrupts are masked and `next` is about to be resumed.
pub unsafe fn set_current(next: NonNull<ContextBlock>) {
    threads::core().current.store(next.as_ptr(), Relaxed);
}

/// Stops this core for good. The thread stays, so that its stack can be looked at.
pub fn halt() -> ! {
    loop {
        std::thread::park();
    }
}

/// Program counter and frame pointer of the caller.
#[inline(always)]
pub fn here() -> (usize, usize) {
    let (program_counter, frame_pointer);
    // SAFETY: reads two registers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("lea {}, [rip]", "mov {}, rbp", out(reg) program_counter, out(reg) frame_pointer,
             options(nostack, preserves_flags));
    }
    // SAFETY: reads two registers.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("adr {}, .", "mov {}, x29", out(reg) program_counter, out(reg) frame_pointer,
             options(nostack, preserves_flags));
    }
    (program_counter, frame_pointer)
}

/// The raw counter that the clock is made of: nanoseconds. The first look at it starts the clock.
pub fn counter() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(|| {
        clock::start(0, 1_000_000_000);
        Instant::now()
    });
    start.elapsed().as_nanos() as u64
}

/// Cycles where they are cheap to read, nanoseconds elsewhere.
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 has it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return counter();
}

/// Nothing is preempted here, so they do.
pub fn registers_survive(_seed: u64, _turns: u64) -> bool {
    true
}

/// A process has no I/O ports.
///
/// # Safety
/// None needed.
pub unsafe fn read_port<T>(_: u16) -> T {
    unreachable!("the host has no I/O ports")
}

/// A process has no I/O ports.
///
/// # Safety
/// None needed.
pub unsafe fn write_port<T>(_: u16, _: T) {
    unreachable!("the host has no I/O ports")
}

/// What plays a device in a test is in this process, and finds memory where it is.
pub fn physical(address: *const u8) -> u64 {
    address.expose_provenance() as u64
}

/// Orders all accesses to memory.
pub fn order_memory() {
    fence(SeqCst);
}

/// The same: there are no registers.
pub fn order_before_registers() {
    fence(SeqCst);
}

/// Nothing sends messages.
pub fn reserve_message(_: crate::mmio::Window) -> Option<u32> {
    None
}

/// There is none.
pub fn release_message(_: u32) {}
