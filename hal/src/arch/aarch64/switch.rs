//! The saved registers of a context, and the switch from one to another.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;

/// Registers of a context that does not run.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// x0 to x30. After `switch` only x19 to x30 count.
    pub(super) x: [u64; 31],
    pub(super) sp: u64,
    pub(super) pc: u64,
    /// Processor state, as `eret` takes it.
    pub(super) state: u64,
    /// 0: all registers, by a trap. 1: those that a call keeps, by `switch`.
    pub(super) kind: u64,
}

/// EL1, on SP_EL0, debug exceptions and interrupts masked. Fast interrupts are not: they are what cannot be masked.
const STATE: u64 = 0x284;

impl Frame {
    /// An empty frame, for a context that runs now.
    pub const EMPTY: Self = {
        Self {
            x: [0; 31],
            sp: 0,
            pc: 0,
            state: STATE,
            kind: 1,
        }
    };

    /// A frame that begins at `entry(argument)` on the stack that ends at `top`.
    pub fn start(top: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> Self {
        let mut frame = Self::EMPTY;
        frame.pc = start as *const () as u64;
        frame.sp = top as u64 & !15;
        frame.x[19] = entry as usize as u64;
        frame.x[20] = argument as u64;
        // A frame pointer of 0 ends backtraces here.
        frame.x[29] = 0;
        frame
    }

    /// Where in it the program counter is, and where the frame pointer.
    pub(crate) const PLACE: (usize, usize) = (
        core::mem::offset_of!(Self, pc),
        core::mem::offset_of!(Self, x) + 29 * 8,
    );

    /// Where it was.
    pub fn program_counter(&self) -> usize {
        self.pc as usize
    }

    /// Where its stack was.
    pub fn stack_pointer(&self) -> usize {
        self.sp as usize
    }

    /// Where its chain of stack frames begins.
    pub fn frame_pointer(&self) -> usize {
        self.x[29] as usize
    }
}

impl core::fmt::Display for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        writeln!(
            f,
            "  pc  {:016x}  sp  {:016x}  state {:x}",
            self.pc, self.sp, self.state
        )?;
        for (i, row) in self.x.chunks(4).enumerate() {
            for (j, value) in row.iter().enumerate() {
                write!(f, "  x{:<2} {value:016x}", 4 * i + j)?;
            }
            if i < 7 {
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

/// First instructions of a new context: `x19(x20)`.
#[unsafe(naked)]
extern "C" fn start() {
    naked_asm!("mov x0, x20", "mov x30, xzr", "blr x19", "brk #1")
}

/// Saves the caller to `old`, leaves its stack, runs `after(argument)` there
/// where it is no longer in use, and resumes `new`.
///
/// # Safety
/// As for [`context::switch`](crate::context::switch).
#[unsafe(naked)]
pub unsafe extern "C" fn switch(
    old: *mut Frame,
    new: *const Frame,
    after: extern "C" fn(usize),
    argument: usize,
) {
    naked_asm!(
        "stp x19, x20, [x0, #{x} + 19 * 8]",
        "stp x21, x22, [x0, #{x} + 21 * 8]",
        "stp x23, x24, [x0, #{x} + 23 * 8]",
        "stp x25, x26, [x0, #{x} + 25 * 8]",
        "stp x27, x28, [x0, #{x} + 27 * 8]",
        "stp x29, x30, [x0, #{x} + 29 * 8]",
        "mov x8, sp",
        "mov x9, #1",
        // Resumed, it returns to its caller.
        "str x8, [x0, #{sp}]",
        "str x30, [x0, #{pc}]",
        "str x9, [x0, #{kind}]",
        "mov x9, #{state}",
        "str x9, [x0, #{state_at}]",
        // From here on only the core's trap stack is touched. The new context's might be full to the
        // brim; and if it grew, that trap would be saved over the frame that is to be resumed.
        "mov x19, x1",
        "msr spsel, #1",
        "mov x0, x3",
        "blr x2",
        "mov x0, x19",
        "ldr x9, [x0, #{kind}]",
        "cbz x9, 2f",
        "msr spsel, #0",
        "ldr x8, [x0, #{sp}]",
        "mov sp, x8",
        "ldp x29, x30, [x0, #{x} + 29 * 8]",
        "ldr x8, [x0, #{pc}]",
        "ldp x27, x28, [x0, #{x} + 27 * 8]",
        "ldp x25, x26, [x0, #{x} + 25 * 8]",
        "ldp x23, x24, [x0, #{x} + 23 * 8]",
        "ldp x21, x22, [x0, #{x} + 21 * 8]",
        "ldp x19, x20, [x0, #{x} + 19 * 8]",
        "br x8",
        "2:",
        "b {resume}",
        x = const offset_of!(Frame, x),
        sp = const offset_of!(Frame, sp),
        pc = const offset_of!(Frame, pc),
        kind = const offset_of!(Frame, kind),
        state_at = const offset_of!(Frame, state),
        state = const STATE,
        resume = sym super::trap::resume,
    )
}

/// Reads `DISTANCE` below the stack pointer, so that the stack grows now if it must.
#[inline(always)]
pub fn touch_below<const DISTANCE: usize>() {
    // SAFETY: reads its own stack, or the guard page: then it has overflowed.
    unsafe {
        asm!("sub {0}, sp, #{1}", "ldr {0}, [{0}]", out(reg) _, const DISTANCE,
             options(nostack, preserves_flags, readonly));
    }
}

/// See [`context::registers_survive`](crate::context::registers_survive).
pub fn registers_survive(seed: u64, turns: u64) -> bool {
    differences(seed, turns) == 0
}

/// Gives every register but the stack pointer `seed` plus its number, sets the
/// carry, spins, and gathers what has changed.
#[unsafe(naked)]
extern "C" fn differences(_seed: u64, _turns: u64) -> u64 {
    naked_asm!(
        "stp x19, x20, [sp, #-96]!",
        "stp x21, x22, [sp, #16]",
        "stp x23, x24, [sp, #32]",
        "stp x25, x26, [sp, #48]",
        "stp x27, x28, [sp, #64]",
        "stp x29, x30, [sp, #80]",
        "add x2, x0, #2",
        "add x3, x0, #3",
        "add x4, x0, #4",
        "add x5, x0, #5",
        "add x6, x0, #6",
        "add x7, x0, #7",
        "add x8, x0, #8",
        "add x9, x0, #9",
        "add x10, x0, #10",
        "add x11, x0, #11",
        "add x12, x0, #12",
        "add x13, x0, #13",
        "add x14, x0, #14",
        "add x15, x0, #15",
        "add x16, x0, #16",
        "add x17, x0, #17",
        "add x18, x0, #18",
        "add x19, x0, #19",
        "add x20, x0, #20",
        "add x21, x0, #21",
        "add x22, x0, #22",
        "add x23, x0, #23",
        "add x24, x0, #24",
        "add x25, x0, #25",
        "add x26, x0, #26",
        "add x27, x0, #27",
        "add x28, x0, #28",
        "add x29, x0, #29",
        "add x30, x0, #30",
        // Equal: zero and carry.
        "cmp x0, x0",
        "2:",
        "sub x1, x1, #1",
        "cbnz x1, 2b",
        "cset x1, lo",
        "sub x2, x2, x0",
        "sub x2, x2, #2",
        "orr x1, x1, x2",
        "sub x3, x3, x0",
        "sub x3, x3, #3",
        "orr x1, x1, x3",
        "sub x4, x4, x0",
        "sub x4, x4, #4",
        "orr x1, x1, x4",
        "sub x5, x5, x0",
        "sub x5, x5, #5",
        "orr x1, x1, x5",
        "sub x6, x6, x0",
        "sub x6, x6, #6",
        "orr x1, x1, x6",
        "sub x7, x7, x0",
        "sub x7, x7, #7",
        "orr x1, x1, x7",
        "sub x8, x8, x0",
        "sub x8, x8, #8",
        "orr x1, x1, x8",
        "sub x9, x9, x0",
        "sub x9, x9, #9",
        "orr x1, x1, x9",
        "sub x10, x10, x0",
        "sub x10, x10, #10",
        "orr x1, x1, x10",
        "sub x11, x11, x0",
        "sub x11, x11, #11",
        "orr x1, x1, x11",
        "sub x12, x12, x0",
        "sub x12, x12, #12",
        "orr x1, x1, x12",
        "sub x13, x13, x0",
        "sub x13, x13, #13",
        "orr x1, x1, x13",
        "sub x14, x14, x0",
        "sub x14, x14, #14",
        "orr x1, x1, x14",
        "sub x15, x15, x0",
        "sub x15, x15, #15",
        "orr x1, x1, x15",
        "sub x16, x16, x0",
        "sub x16, x16, #16",
        "orr x1, x1, x16",
        "sub x17, x17, x0",
        "sub x17, x17, #17",
        "orr x1, x1, x17",
        "sub x18, x18, x0",
        "sub x18, x18, #18",
        "orr x1, x1, x18",
        "sub x19, x19, x0",
        "sub x19, x19, #19",
        "orr x1, x1, x19",
        "sub x20, x20, x0",
        "sub x20, x20, #20",
        "orr x1, x1, x20",
        "sub x21, x21, x0",
        "sub x21, x21, #21",
        "orr x1, x1, x21",
        "sub x22, x22, x0",
        "sub x22, x22, #22",
        "orr x1, x1, x22",
        "sub x23, x23, x0",
        "sub x23, x23, #23",
        "orr x1, x1, x23",
        "sub x24, x24, x0",
        "sub x24, x24, #24",
        "orr x1, x1, x24",
        "sub x25, x25, x0",
        "sub x25, x25, #25",
        "orr x1, x1, x25",
        "sub x26, x26, x0",
        "sub x26, x26, #26",
        "orr x1, x1, x26",
        "sub x27, x27, x0",
        "sub x27, x27, #27",
        "orr x1, x1, x27",
        "sub x28, x28, x0",
        "sub x28, x28, #28",
        "orr x1, x1, x28",
        "sub x29, x29, x0",
        "sub x29, x29, #29",
        "orr x1, x1, x29",
        "sub x30, x30, x0",
        "sub x30, x30, #30",
        "orr x1, x1, x30",
        "mov x0, x1",
        "ldp x29, x30, [sp, #80]",
        "ldp x27, x28, [sp, #64]",
        "ldp x25, x26, [sp, #48]",
        "ldp x23, x24, [sp, #32]",
        "ldp x21, x22, [sp, #16]",
        "ldp x19, x20, [sp], #96",
        "ret",
    )
}
