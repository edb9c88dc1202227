//! Trap entry and exit.
//!
//! Contexts run on SP_EL0 and traps on SP_EL1, so a trap never pushes onto a
//! context's stack, which may be unmapped. The entry saves all registers into
//! the block of the interrupted context, calls [`dispatch`] and resumes
//! whatever frame that returns. A trap inside a handler saves into a spare
//! frame of the core, one for each depth, and goes on on the trap stack, or on
//! another if that is full: it may be what was wrong.
//!
//! Fast interrupts are what no code masks: another core asks what this one does, or stops it. They come in
//! anywhere, also between two contexts, so they have a frame and a stack of their own. Only where the
//! registers of a trap are not saved yet, or are restored already, they have to wait: the hardware masks them as the
//! trap begins, and [`resume`] as it ends.

use super::{Core, Frame, interrupts};
use crate::{
    context::ContextBlock,
    sample, stop,
    traps::{self, FaultKind},
};
use core::{
    arch::{asm, global_asm, naked_asm},
    mem::offset_of,
    sync::atomic::Ordering::Relaxed,
};

unsafe extern "C" {
    fn trap_vectors();
}

/// Points this core at the vectors.
pub fn init_each_core() {
    // SAFETY: the vectors are aligned and handle every entry; asynchronous aborts and fast interrupts come from here on.
    unsafe {
        asm!("msr vbar_el1, {}", "isb", "msr daifclr, #5", in(reg) trap_vectors as *const () as u64,
             options(nostack, preserves_flags));
    }
}

const SYNCHRONOUS: u64 = 0;
const INTERRUPT: u64 = 1;
const FAST: u64 = 2;

// Sixteen entries of 128 bytes: four kinds (synchronous, interrupt, fast interrupt, abort) from
// EL1 on SP_EL0, from EL1 on SP_EL1, and from below, where nothing runs. TPIDR_EL0 and TPIDRRO_EL0 are
// free to hold a register.
global_asm!(
    ".pushsection .text.trap_vectors, \"ax\"",
    ".balign 2048",
    ".global trap_vectors",
    ".type trap_vectors, @function",
    "trap_vectors:",
    ".set kind, 0",
    ".rept 4",
    ".balign 128",
    ".if kind == {fast}",
    "b {fast_entry}",
    ".endif",
    "msr tpidr_el0, x0",
    "mrs x0, tpidr_el1",
    "stp x1, x2, [x0, #{x} + 8]",
    "mov x1, #kind",
    "mrs x2, sp_el0",
    "b {entry}",
    ".set kind, kind + 1",
    ".endr",
    ".set kind, 0",
    ".rept 4",
    ".balign 128",
    ".if kind == {fast}",
    "b {fast_entry}",
    ".endif",
    "msr tpidr_el0, x0",
    "msr tpidrro_el0, x1",
    "mrs x0, tpidr_el1",
    "ldr x0, [x0, #{core}]",
    // The spare frame of this depth; deeper than there are frames, nothing can be told any more.
    "ldr w1, [x0, #{depth}]",
    "cmp w1, #{deepest}",
    "b.hi .",
    "add x0, x0, #{nested}",
    "2:",
    "subs w1, w1, #1",
    // Also for depth 0: what a switch runs on the trap stack has faulted.
    "b.ls 3f",
    "add x0, x0, #{frame_size}",
    "b 2b",
    "3:",
    "mrs x1, tpidrro_el0",
    "stp x1, x2, [x0, #{x} + 8]",
    "mov x1, #kind",
    "mov x2, sp",
    "b {nested_entry}",
    ".set kind, kind + 1",
    ".endr",
    ".rept 8",
    ".balign 128",
    "b .",
    ".endr",
    ".balign 128",
    ".size trap_vectors, . - trap_vectors",
    ".popsection",
    x = const offset_of!(Frame, x),
    core = const offset_of!(ContextBlock, core),
    depth = const offset_of!(Core, trap_depth),
    deepest = const super::NESTED,
    nested = const offset_of!(Core, nested),
    frame_size = const size_of::<Frame>(),
    fast = const FAST,
    fast_entry = sym fast_entry,
    entry = sym entry,
    nested_entry = sym nested_entry,
);

/// A trap in a handler, with registers as for `entry`: on another stack if
/// there are no 1024 bytes left on this one.
#[unsafe(naked)]
extern "C" fn nested_entry() {
    naked_asm!(
        "str x3, [x0, #{x} + 3 * 8]",
        "mrs x3, tpidr_el1",
        "ldr x3, [x3, #{core}]",
        "ldr x3, [x3, #{low}]",
        "add x3, x3, #1024",
        "cmp x2, x3",
        "b.hs 2f",
        "mrs x3, tpidr_el1",
        "ldr x3, [x3, #{core}]",
        "ldr x3, [x3, #{emergency}]",
        "mov sp, x3",
        "2:",
        "ldr x3, [x0, #{x} + 3 * 8]",
        "b {entry}",
        x = const offset_of!(Frame, x),
        core = const offset_of!(ContextBlock, core),
        low = const offset_of!(Core, trap_stack_low),
        emergency = const offset_of!(Core, emergency_stack),
        entry = sym entry,
    )
}

/// x0: frame to save to, with x1 and x2 saved; x1: kind; x2: stack pointer;
/// TPIDR_EL0: x0.
#[unsafe(naked)]
extern "C" fn entry() {
    naked_asm!(
        "stp x3, x4, [x0, #{x} + 3 * 8]",
        "stp x5, x6, [x0, #{x} + 5 * 8]",
        "stp x7, x8, [x0, #{x} + 7 * 8]",
        "stp x9, x10, [x0, #{x} + 9 * 8]",
        "stp x11, x12, [x0, #{x} + 11 * 8]",
        "stp x13, x14, [x0, #{x} + 13 * 8]",
        "stp x15, x16, [x0, #{x} + 15 * 8]",
        "stp x17, x18, [x0, #{x} + 17 * 8]",
        "stp x19, x20, [x0, #{x} + 19 * 8]",
        "stp x21, x22, [x0, #{x} + 21 * 8]",
        "stp x23, x24, [x0, #{x} + 23 * 8]",
        "stp x25, x26, [x0, #{x} + 25 * 8]",
        "stp x27, x28, [x0, #{x} + 27 * 8]",
        "stp x29, x30, [x0, #{x} + 29 * 8]",
        "mrs x3, tpidr_el0",
        "str x3, [x0, #{x}]",
        "mrs x3, elr_el1",
        "mrs x4, spsr_el1",
        "stp x2, x3, [x0, #{sp}]",
        "stp x4, xzr, [x0, #{state}]",
        "mrs x5, tpidr_el1",
        "ldr x5, [x5, #{core}]",
        "ldr w6, [x5, #{depth}]",
        "add w6, w6, #1",
        "str w6, [x5, #{depth}]",
        // A made-up stack frame, so that a backtrace goes on into what was interrupted.
        "stp x29, x3, [sp, #-16]!",
        "mov x29, sp",
        // All is saved: fast interrupts may come.
        "msr daifclr, #1",
        "bl {dispatch}",
        "add sp, sp, #16",
        // The core is the one that was entered, whatever context comes next.
        "mrs x5, tpidr_el1",
        "ldr x5, [x5, #{core}]",
        "ldr w6, [x5, #{depth}]",
        "sub w6, w6, #1",
        "str w6, [x5, #{depth}]",
        "b {resume}",
        x = const offset_of!(Frame, x),
        sp = const offset_of!(Frame, sp),
        state = const offset_of!(Frame, state),
        core = const offset_of!(ContextBlock, core),
        depth = const offset_of!(Core, trap_depth),
        dispatch = sym dispatch,
        resume = sym resume,
    )
}

/// Goes on with the frame in x0, whichever way it was saved. Interrupts are
/// masked, and SP_EL1 is in use.
#[unsafe(naked)]
pub extern "C" fn resume() {
    naked_asm!(
        // A fast interrupt would overwrite the next two.
        "msr daifset, #1",
        "ldp x2, x3, [x0, #{sp}]",
        "ldr x4, [x0, #{state}]",
        "msr elr_el1, x3",
        "msr spsr_el1, x4",
        // A handler that was interrupted goes on on SP_EL1, all others on SP_EL0.
        "tbnz x4, #0, 2f",
        "msr sp_el0, x2",
        "b 3f",
        "2:",
        "mov sp, x2",
        "3:",
        "ldp x1, x2, [x0, #{x} + 8]",
        "ldp x3, x4, [x0, #{x} + 3 * 8]",
        "ldp x5, x6, [x0, #{x} + 5 * 8]",
        "ldp x7, x8, [x0, #{x} + 7 * 8]",
        "ldp x9, x10, [x0, #{x} + 9 * 8]",
        "ldp x11, x12, [x0, #{x} + 11 * 8]",
        "ldp x13, x14, [x0, #{x} + 13 * 8]",
        "ldp x15, x16, [x0, #{x} + 15 * 8]",
        "ldp x17, x18, [x0, #{x} + 17 * 8]",
        "ldp x19, x20, [x0, #{x} + 19 * 8]",
        "ldp x21, x22, [x0, #{x} + 21 * 8]",
        "ldp x23, x24, [x0, #{x} + 23 * 8]",
        "ldp x25, x26, [x0, #{x} + 25 * 8]",
        "ldp x27, x28, [x0, #{x} + 27 * 8]",
        "ldp x29, x30, [x0, #{x} + 29 * 8]",
        "ldr x0, [x0, #{x}]",
        "eret",
        x = const offset_of!(Frame, x),
        sp = const offset_of!(Frame, sp),
        state = const offset_of!(Frame, state),
    )
}

/// A fast interrupt, from wherever. It goes back to where it came from, and to nowhere else.
#[unsafe(naked)]
extern "C" fn fast_entry() {
    naked_asm!(
        "msr tpidr_el0, x0",
        "mrs x0, tpidr_el1",
        "ldr x0, [x0, #{core}]",
        "add x0, x0, #{fast}",
        "stp x1, x2, [x0, #{x} + 8]",
        "stp x3, x4, [x0, #{x} + 3 * 8]",
        "stp x5, x6, [x0, #{x} + 5 * 8]",
        "stp x7, x8, [x0, #{x} + 7 * 8]",
        "stp x9, x10, [x0, #{x} + 9 * 8]",
        "stp x11, x12, [x0, #{x} + 11 * 8]",
        "stp x13, x14, [x0, #{x} + 13 * 8]",
        "stp x15, x16, [x0, #{x} + 15 * 8]",
        "stp x17, x18, [x0, #{x} + 17 * 8]",
        "stp x19, x20, [x0, #{x} + 19 * 8]",
        "stp x29, x30, [x0, #{x} + 29 * 8]",
        "mrs x3, tpidr_el0",
        "str x3, [x0, #{x}]",
        "mrs x3, elr_el1",
        "mrs x4, spsr_el1",
        "stp x4, xzr, [x0, #{state}]",
        // Kept in registers that calls keep: the frame, and the stack of traps, which may be in use.
        "mov x19, x0",
        "mov x20, sp",
        "stp x20, x3, [x0, #{sp}]",
        "sub x5, x0, #{fast}",
        "ldr x6, [x5, #{fast_stack}]",
        "mov sp, x6",
        "ldr w6, [x5, #{depth}]",
        "add w6, w6, #1",
        "str w6, [x5, #{depth}]",
        "stp x29, x3, [sp, #-16]!",
        "mov x29, sp",
        "bl {on_fast}",
        "mov x0, x19",
        "mov sp, x20",
        "sub x5, x0, #{fast}",
        "ldr w6, [x5, #{depth}]",
        "sub w6, w6, #1",
        "str w6, [x5, #{depth}]",
        "ldr x3, [x0, #{sp} + 8]",
        "ldr x4, [x0, #{state}]",
        "msr elr_el1, x3",
        "msr spsr_el1, x4",
        "ldp x1, x2, [x0, #{x} + 8]",
        "ldp x3, x4, [x0, #{x} + 3 * 8]",
        "ldp x5, x6, [x0, #{x} + 5 * 8]",
        "ldp x7, x8, [x0, #{x} + 7 * 8]",
        "ldp x9, x10, [x0, #{x} + 9 * 8]",
        "ldp x11, x12, [x0, #{x} + 11 * 8]",
        "ldp x13, x14, [x0, #{x} + 13 * 8]",
        "ldp x15, x16, [x0, #{x} + 15 * 8]",
        "ldp x17, x18, [x0, #{x} + 17 * 8]",
        "ldp x19, x20, [x0, #{x} + 19 * 8]",
        "ldp x29, x30, [x0, #{x} + 29 * 8]",
        "ldr x0, [x0, #{x}]",
        "eret",
        x = const offset_of!(Frame, x),
        sp = const offset_of!(Frame, sp),
        state = const offset_of!(Frame, state),
        core = const offset_of!(ContextBlock, core),
        depth = const offset_of!(Core, trap_depth),
        fast = const offset_of!(Core, fast),
        fast_stack = const offset_of!(Core, fast_stack),
        on_fast = sym on_fast,
    )
}

/// Another core asks what this one does. Nothing may be woken here, and nothing may fault.
extern "C" fn on_fast(frame: &Frame) {
    const INTERRUPTS_MASKED: u64 = 1 << 7;
    interrupts::on_fast(|| {
        // This is one itself.
        let in_handler = super::this().trap_depth.load(Relaxed) > 1;
        sample::on_nmi(frame, frame.state & INTERRUPTS_MASKED == 0, in_handler);
    });
}

const _: () = assert!(offset_of!(Core, fast) < 4096);
const _: () = assert!(offset_of!(Frame, pc) == offset_of!(Frame, sp) + 8);
const _: () = assert!(offset_of!(Frame, kind) == offset_of!(Frame, state) + 8);
const _: () = assert!(offset_of!(ContextBlock, frame) == 0);

/// Handles a trap and says which frame to resume.
extern "C" fn dispatch(frame: *mut Frame, kind: u64) -> *const Frame {
    // SAFETY: the entry passes the frame it just filled; nobody else has a reference to it.
    let saved = unsafe { &mut *frame };
    match kind {
        SYNCHRONOUS => return on_exception(saved),
        INTERRUPT => interrupts::on_interrupt(|| {
            if stop::is_requested() {
                stop::halt_here(saved.program_counter(), saved.frame_pointer());
            }
        }),
        other => {
            let at = saved.program_counter();
            return traps::on_fault(FaultKind::Other(0x100 + other), at, false, saved);
        }
    }
    traps::leave(frame)
}

fn on_exception(frame: &mut Frame) -> *const Frame {
    let (syndrome, address): (u64, u64);
    // SAFETY: reads what the trap left; nothing can trap before this.
    unsafe {
        asm!("mrs {}, esr_el1", "mrs {}, far_el1", out(reg) syndrome, out(reg) address,
             options(nostack, preserves_flags));
    }
    let class = syndrome >> 26 & 0x3f;
    if super::probe::recover(class, frame) {
        return frame;
    }
    let kind = match class {
        0x00 | 0x0e => FaultKind::IllegalInstruction,
        0x20 | 0x21 => FaultKind::Execute,
        0x22 | 0x26 => FaultKind::Alignment,
        // Fault status 0b100001: alignment.
        0x24 | 0x25 if syndrome & 0x3f == 0x21 => FaultKind::Alignment,
        0x24 | 0x25 if syndrome & 1 << 6 != 0 => FaultKind::Write,
        0x24 | 0x25 => FaultKind::Read,
        0x30..=0x35 | 0x3c => FaultKind::Breakpoint,
        other => FaultKind::Other(other),
    };
    // Fault status 0b0001xx of a data abort in EL1: no translation.
    let is_missing = class == 0x25 && syndrome & 0x3c == 0x04;
    traps::on_fault(kind, address as usize, is_missing, frame)
}
