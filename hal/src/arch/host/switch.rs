//! The saved registers of a context, and the switch from one to another: what
//! the bare-metal architectures do, but voluntary only, and with the registers
//! that floating point code keeps.

use core::{arch::naked_asm, mem::offset_of};

/// Registers of a context that does not run: those that a call keeps.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pc: u64,
    sp: u64,
    fp: u64,
    /// x86_64: rbx, r12 to r15. aarch64: x19 to x28, d8 to d15.
    kept: [u64; KEPT],
    /// The stack it was left on; empty: it has not run yet.
    #[cfg(asan)]
    pub(super) stack: crate::stack::Bounds,
}

#[cfg(target_arch = "x86_64")]
const KEPT: usize = 5;
#[cfg(target_arch = "aarch64")]
const KEPT: usize = 18;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("contexts are switched on x86_64 and aarch64 hosts only");

impl Frame {
    /// An empty frame, for a context that runs now.
    pub const EMPTY: Self = {
        Self {
            pc: 0,
            sp: 0,
            fp: 0,
            kept: [0; KEPT],
            #[cfg(asan)]
            stack: crate::stack::Bounds::EMPTY,
        }
    };

    /// A frame that begins at `entry(argument)` on the stack that ends at `top`.
    pub fn start(top: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> Self {
        let mut frame = Self::EMPTY;
        frame.pc = start as *const () as u64;
        frame.sp = top as u64 & !15;
        frame.kept[0] = entry as usize as u64;
        frame.kept[1] = argument as u64;
        frame
    }

    /// Where in it the program counter is, and where the frame pointer.
    pub(crate) const PLACE: (usize, usize) = (
        core::mem::offset_of!(Self, pc),
        core::mem::offset_of!(Self, fp),
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
        self.fp as usize
    }
}

impl Default for Frame {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl core::fmt::Display for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "  pc {:016x}  sp {:016x}  fp {:016x}",
            self.pc, self.sp, self.fp
        )
    }
}

/// The OS lets stacks grow wherever they do.
pub fn touch_below<const DISTANCE: usize>() {}

/// First instructions of a new context: `kept[0](kept[1])`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn start() {
    naked_asm!("mov rdi, r12", "call rbx", "ud2")
}

/// First instructions of a new context: `kept[0](kept[1])`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn start() {
    naked_asm!("mov x0, x20", "mov x30, xzr", "blr x19", "brk #1")
}

/// Saves the caller to `old`, leaves its stack, runs `after(argument)` on that
/// of `new`, and resumes `new`.
///
/// # Safety
/// As for [`context::switch`](crate::context::switch).
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C" fn switch(
    old: *mut Frame,
    new: *const Frame,
    after: extern "C" fn(usize),
    argument: usize,
) {
    naked_asm!(
        "mov [rdi + {kept}], rbx",
        "mov [rdi + {kept} + 8], r12",
        "mov [rdi + {kept} + 16], r13",
        "mov [rdi + {kept} + 24], r14",
        "mov [rdi + {kept} + 32], r15",
        "mov [rdi + {fp}], rbp",
        // Resumed, it returns to its caller.
        "pop rax",
        "mov [rdi + {pc}], rax",
        "mov [rdi + {sp}], rsp",
        // From here on only the new stack is touched.
        "mov rbx, rsi",
        "mov rsp, [rsi + {sp}]",
        "and rsp, -16",
        "mov rdi, rcx",
        "call rdx",
        "mov rdi, rbx",
        "mov rbx, [rdi + {kept}]",
        "mov r12, [rdi + {kept} + 8]",
        "mov r13, [rdi + {kept} + 16]",
        "mov r14, [rdi + {kept} + 24]",
        "mov r15, [rdi + {kept} + 32]",
        "mov rbp, [rdi + {fp}]",
        "mov rsp, [rdi + {sp}]",
        "jmp qword ptr [rdi + {pc}]",
        pc = const offset_of!(Frame, pc),
        sp = const offset_of!(Frame, sp),
        fp = const offset_of!(Frame, fp),
        kept = const offset_of!(Frame, kept),
    )
}

/// Saves the caller to `old`, leaves its stack, runs `after(argument)` on that
/// of `new`, and resumes `new`.
///
/// # Safety
/// As for [`context::switch`](crate::context::switch).
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub unsafe extern "C" fn switch(
    old: *mut Frame,
    new: *const Frame,
    after: extern "C" fn(usize),
    argument: usize,
) {
    naked_asm!(
        "stp x19, x20, [x0, #{kept}]",
        "stp x21, x22, [x0, #{kept} + 16]",
        "stp x23, x24, [x0, #{kept} + 32]",
        "stp x25, x26, [x0, #{kept} + 48]",
        "stp x27, x28, [x0, #{kept} + 64]",
        "stp d8, d9, [x0, #{kept} + 80]",
        "stp d10, d11, [x0, #{kept} + 96]",
        "stp d12, d13, [x0, #{kept} + 112]",
        "stp d14, d15, [x0, #{kept} + 128]",
        "mov x8, sp",
        "str x29, [x0, #{fp}]",
        // Resumed, it returns to its caller.
        "str x30, [x0, #{pc}]",
        "str x8, [x0, #{sp}]",
        // From here on only the new stack is touched.
        "mov x19, x1",
        "ldr x8, [x1, #{sp}]",
        "mov sp, x8",
        "mov x0, x3",
        "blr x2",
        "mov x0, x19",
        "ldr x29, [x0, #{fp}]",
        "ldr x30, [x0, #{pc}]",
        "ldp d14, d15, [x0, #{kept} + 128]",
        "ldp d12, d13, [x0, #{kept} + 112]",
        "ldp d10, d11, [x0, #{kept} + 96]",
        "ldp d8, d9, [x0, #{kept} + 80]",
        "ldp x27, x28, [x0, #{kept} + 64]",
        "ldp x25, x26, [x0, #{kept} + 48]",
        "ldp x23, x24, [x0, #{kept} + 32]",
        "ldp x21, x22, [x0, #{kept} + 16]",
        "ldp x19, x20, [x0, #{kept}]",
        "ret",
        pc = const offset_of!(Frame, pc),
        sp = const offset_of!(Frame, sp),
        fp = const offset_of!(Frame, fp),
        kept = const offset_of!(Frame, kept),
    )
}
