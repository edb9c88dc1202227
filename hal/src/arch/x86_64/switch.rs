//! The saved registers of a context, and the switch from one to another.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;

/// Registers of a context that does not run.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// 0: all registers, by a trap. 1: those that a call keeps, by `switch`.
    pub(super) kind: u64,
    pub(super) rax: u64,
    pub(super) rbx: u64,
    pub(super) rcx: u64,
    pub(super) rdx: u64,
    pub(super) rsi: u64,
    pub(super) rdi: u64,
    pub(super) rbp: u64,
    pub(super) r8: u64,
    pub(super) r9: u64,
    pub(super) r10: u64,
    pub(super) r11: u64,
    pub(super) r12: u64,
    pub(super) r13: u64,
    pub(super) r14: u64,
    pub(super) r15: u64,
    pub(super) rip: u64,
    pub(super) rsp: u64,
    pub(super) rflags: u64,
}

impl Frame {
    /// An empty frame, for a context that runs now.
    pub const EMPTY: Self = {
        Self {
            kind: 1,
            rax: 0,
            rbx: 0,
            rcx: 0,
            rdx: 0,
            rsi: 0,
            rdi: 0,
            rbp: 0,
            r8: 0,
            r9: 0,
            r10: 0,
            r11: 0,
            r12: 0,
            r13: 0,
            r14: 0,
            r15: 0,
            rip: 0,
            rsp: 0,
            rflags: 0,
        }
    };

    /// A frame that begins at `entry(argument)` on the stack that ends at `top`.
    pub fn start(top: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> Self {
        Self {
            rip: start as *const () as u64,
            // A frame pointer of 0 ends backtraces here.
            rbp: 0,
            rbx: entry as usize as u64,
            r12: argument as u64,
            rsp: top as u64 & !15,
            ..Self::EMPTY
        }
    }

    /// Where in it the program counter is, and where the frame pointer.
    pub(crate) const PLACE: (usize, usize) = (
        core::mem::offset_of!(Self, rip),
        core::mem::offset_of!(Self, rbp),
    );

    /// Where it was.
    pub fn program_counter(&self) -> usize {
        self.rip as usize
    }

    /// Where its stack was.
    pub fn stack_pointer(&self) -> usize {
        self.rsp as usize
    }

    /// Where its chain of stack frames begins.
    pub fn frame_pointer(&self) -> usize {
        self.rbp as usize
    }
}

impl core::fmt::Display for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        writeln!(
            f,
            "  rip {:016x}  rsp {:016x}  rbp {:016x}  flags {:x}",
            self.rip, self.rsp, self.rbp, self.rflags
        )?;
        writeln!(
            f,
            "  rax {:016x}  rbx {:016x}  rcx {:016x}  rdx {:016x}",
            self.rax, self.rbx, self.rcx, self.rdx
        )?;
        writeln!(
            f,
            "  rsi {:016x}  rdi {:016x}  r8  {:016x}  r9  {:016x}",
            self.rsi, self.rdi, self.r8, self.r9
        )?;
        writeln!(
            f,
            "  r10 {:016x}  r11 {:016x}  r12 {:016x}  r13 {:016x}",
            self.r10, self.r11, self.r12, self.r13
        )?;
        write!(f, "  r14 {:016x}  r15 {:016x}", self.r14, self.r15)
    }
}

/// First instructions of a new context: `rbx(r12)`.
#[unsafe(naked)]
extern "C" fn start() {
    naked_asm!("mov rdi, r12", "call rbx", "ud2")
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
        "mov [rdi + {rbx}], rbx",
        "mov [rdi + {rbp}], rbp",
        "mov [rdi + {r12}], r12",
        "mov [rdi + {r13}], r13",
        "mov [rdi + {r14}], r14",
        "mov [rdi + {r15}], r15",
        // Resumed, it returns to its caller.
        "pop rax",
        "mov [rdi + {rip}], rax",
        "mov [rdi + {rsp}], rsp",
        "mov qword ptr [rdi + {kind}], 1",
        // From here on only the core's own stack is touched. The new context's might be full to the
        // brim; and if it grew, that trap would be saved over the frame that is to be resumed.
        "mov rbx, rsi",
        "mov rsp, gs:[{resume_stack}]",
        "mov rdi, rcx",
        "call rdx",
        "mov rdi, rbx",
        "jmp {resume}",
        kind = const offset_of!(Frame, kind),
        rip = const offset_of!(Frame, rip),
        rsp = const offset_of!(Frame, rsp),
        rbx = const offset_of!(Frame, rbx),
        rbp = const offset_of!(Frame, rbp),
        r12 = const offset_of!(Frame, r12),
        r13 = const offset_of!(Frame, r13),
        r14 = const offset_of!(Frame, r14),
        r15 = const offset_of!(Frame, r15),
        resume_stack = const offset_of!(super::Core, resume_stack),
        resume = sym super::trap::resume,
    )
}

/// Reads `DISTANCE` below the stack pointer, so that the stack grows now if it must.
#[inline(always)]
pub fn touch_below<const DISTANCE: usize>() {
    // SAFETY: reads its own stack, or the guard page: then it has overflowed.
    unsafe {
        asm!("mov {:e}, [rsp - {}]", out(reg) _, const DISTANCE,
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
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov rax, rdi",
        "mov rcx, rsi",
        "lea rbx, [rax + 1]",
        "lea rdx, [rax + 2]",
        "lea rsi, [rax + 3]",
        "lea rdi, [rax + 4]",
        "lea rbp, [rax + 5]",
        "lea r8, [rax + 6]",
        "lea r9, [rax + 7]",
        "lea r10, [rax + 8]",
        "lea r11, [rax + 9]",
        "lea r12, [rax + 10]",
        "lea r13, [rax + 11]",
        "lea r14, [rax + 12]",
        "lea r15, [rax + 13]",
        "stc",
        // `dec` leaves the carry alone.
        "2:",
        "dec rcx",
        "jnz 2b",
        "mov ecx, 0",
        "adc ecx, -1",
        "sub rbx, rax",
        "sub rbx, 1",
        "or rcx, rbx",
        "sub rdx, rax",
        "sub rdx, 2",
        "or rcx, rdx",
        "sub rsi, rax",
        "sub rsi, 3",
        "or rcx, rsi",
        "sub rdi, rax",
        "sub rdi, 4",
        "or rcx, rdi",
        "sub rbp, rax",
        "sub rbp, 5",
        "or rcx, rbp",
        "sub r8, rax",
        "sub r8, 6",
        "or rcx, r8",
        "sub r9, rax",
        "sub r9, 7",
        "or rcx, r9",
        "sub r10, rax",
        "sub r10, 8",
        "or rcx, r10",
        "sub r11, rax",
        "sub r11, 9",
        "or rcx, r11",
        "sub r12, rax",
        "sub r12, 10",
        "or rcx, r12",
        "sub r13, rax",
        "sub r13, 11",
        "or rcx, r13",
        "sub r14, rax",
        "sub r14, 12",
        "or rcx, r14",
        "sub r15, rax",
        "sub r15, 13",
        "or rcx, r15",
        "mov rax, rcx",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}
