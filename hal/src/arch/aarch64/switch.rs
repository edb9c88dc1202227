//! The saved registers of a context, and the switch from one to another.

use core::arch::naked_asm;
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

/// EL1, on SP_EL0, debug exceptions, interrupts and fast interrupts masked.
const STATE: u64 = 0x2c4;

impl Frame {
    /// An empty frame, for a context that runs now.
    pub const fn new() -> Self {
        Self {
            x: [0; 31],
            sp: 0,
            pc: 0,
            state: STATE,
            kind: 1,
        }
    }

    /// A frame that begins at `entry(argument)` on the stack that ends at `top`.
    pub fn start(top: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> Self {
        let mut frame = Self::new();
        frame.pc = start as *const () as u64;
        frame.sp = top as u64 & !15;
        frame.x[19] = entry as usize as u64;
        frame.x[20] = argument as u64;
        // A frame pointer of 0 ends backtraces here.
        frame.x[29] = 0;
        frame
    }

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
        writeln!(f, "  pc  {:016x}  sp  {:016x}  state {:x}", self.pc, self.sp, self.state)?;
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
        // From here on only the new stack is touched: its own, if it was left by `switch`;
        // the core's trap stack, if it was left by a trap and may be full to the brim.
        "mov x19, x1",
        "ldr x9, [x1, #{kind}]",
        "cbz x9, 2f",
        "ldr x8, [x1, #{sp}]",
        "mov sp, x8",
        "mov x0, x3",
        "blr x2",
        "mov x0, x19",
        "ldp x29, x30, [x0, #{x} + 29 * 8]",
        "ldr x8, [x0, #{pc}]",
        "ldp x27, x28, [x0, #{x} + 27 * 8]",
        "ldp x25, x26, [x0, #{x} + 25 * 8]",
        "ldp x23, x24, [x0, #{x} + 23 * 8]",
        "ldp x21, x22, [x0, #{x} + 21 * 8]",
        "ldp x19, x20, [x0, #{x} + 19 * 8]",
        "br x8",
        "2:",
        "msr spsel, #1",
        "mov x0, x3",
        "blr x2",
        "mov x0, x19",
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
