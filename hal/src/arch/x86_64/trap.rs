//! Trap entry and exit.
//!
//! Each kind of trap comes in on a stack of its own (IST). The entry saves all
//! registers into the block of the interrupted context, calls [`dispatch`] and
//! resumes whatever frame that returns. A trap inside a handler saves into a
//! spare frame of the core instead, one for each depth, as does every NMI. A
//! fault while a fault is handled begins further down on the stack for faults.

use super::{Core, Frame, apic};
use crate::{
    irq::Line,
    layout::PAGE,
    sample,
    stack::Bounds,
    traps::{self, FaultKind},
};
use core::{
    arch::{asm, global_asm, naked_asm},
    cell::UnsafeCell,
    mem::offset_of,
    sync::atomic::Ordering::Relaxed,
};
use x86_64::{VirtAddr, registers::control::Cr2, structures::tss::TaskStateSegment};

const CODE: u64 = 8;
const DATA: u64 = 16;
const TSS: u16 = 24;

/// Interrupt stack table slots.
const IST_IRQ: usize = 0;
const IST_FAULT: usize = 1;
const IST_DOUBLE: usize = 2;
const IST_NMI: usize = 3;
/// How many trap stacks a core needs.
pub const STACKS: usize = 4;
/// How large each is: a machine panic is reported on one, in one of its parts.
pub const STACK_SIZE: usize = 8 * PAGE;
/// A fault while a fault is handled begins this much further down.
const PART: u64 = 2 * PAGE as u64;

/// Descriptor tables of one core.
#[repr(C)]
pub struct Tables {
    gdt: [u64; 5],
    tss: TaskStateSegment,
}

impl Tables {
    pub const fn new() -> Self {
        Self {
            // null, 64-bit code, data, and two words for the task state
            gdt: [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0, 0],
            tss: TaskStateSegment::new(),
        }
    }

    /// Loads them on this core.
    pub unsafe fn load(&mut self) {
        let base = &raw const self.tss as u64;
        let limit = size_of::<TaskStateSegment>() as u64 - 1;
        self.gdt[3] = limit & 0xffff
            | (base & 0xff_ffff) << 16
            | 0x89 << 40
            | (limit >> 16 & 0xf) << 48
            | (base >> 24 & 0xff) << 56;
        self.gdt[4] = base >> 32;
        let gdt = Pointer {
            limit: size_of_val(&self.gdt) as u16 - 1,
            base: self.gdt.as_ptr() as u64,
        };
        // SAFETY: the tables are this core's own and live for good; the selectors match the entries above.
        unsafe {
            asm!(
                "lgdt [{gdt}]",
                "push {code}",
                "lea {scratch}, [rip + 2f]",
                "push {scratch}",
                "retfq",
                "2:",
                "mov ds, {data:e}",
                "mov es, {data:e}",
                "mov ss, {data:e}",
                "ltr {tss:x}",
                gdt = in(reg) &raw const gdt,
                code = const CODE,
                data = in(reg) DATA,
                tss = in(reg) TSS,
                scratch = out(reg) _,
            );
        }
    }

    pub fn set_stacks(&mut self, stacks: [Bounds; STACKS]) {
        // The structure is packed, so the table is written as a whole.
        let mut table = [VirtAddr::zero(); 7];
        for (slot, stack) in table.iter_mut().zip(stacks) {
            *slot = VirtAddr::new_truncate(stack.high as u64);
        }
        self.tss.interrupt_stack_table = table;
    }
}

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

/// The interrupt descriptor table, the same for all cores.
struct Idt(UnsafeCell<[[u64; 2]; 256]>);
// SAFETY: written once, by the boot core, before any other core is up.
unsafe impl Sync for Idt {}
static IDT: Idt = Idt(UnsafeCell::new([[0; 2]; 256]));

/// Fills the descriptor table.
///
/// # Safety
/// Called once, by the boot core, before interrupts or other cores are on.
pub unsafe fn init_once() {
    // SAFETY: the caller's promise: nobody else looks at the table.
    let table = unsafe { &mut *IDT.0.get() };
    for (vector, gate) in table.iter_mut().enumerate() {
        let ist = match vector {
            2 => IST_NMI,
            8 => IST_DOUBLE,
            0..32 => IST_FAULT,
            _ => IST_IRQ,
        } as u64
            + 1;
        let entry = trap_stubs as *const () as u64 + 16 * vector as u64;
        gate[0] =
            entry & 0xffff | CODE << 16 | ist << 32 | 0x8e00 << 32 | (entry >> 16 & 0xffff) << 48;
        gate[1] = entry >> 32;
    }
}

/// Points this core at the descriptor table.
pub unsafe fn init_each_core() {
    let idt = Pointer {
        limit: 256 * 16 - 1,
        base: IDT.0.get() as u64,
    };
    // SAFETY: the table is filled, and never changed again.
    unsafe { asm!("lidt [{}]", in(reg) &raw const idt, options(nostack)) };
}

unsafe extern "C" {
    fn trap_stubs();
}

// One stub of 16 bytes for each vector: makes up an error code where the
// hardware pushes none, pushes the vector, and goes on at the common entry.
global_asm!(
    ".pushsection .text.trap_stubs, \"ax\"",
    ".balign 16",
    ".global trap_stubs",
    ".type trap_stubs, @function",
    "trap_stubs:",
    ".set vector, 0",
    ".rept 256",
    ".balign 16",
    ".if vector != 8 && (vector < 10 || vector > 14) && vector != 17 && vector != 21 && vector != 29 && vector != 30",
    "push 0",
    ".endif",
    "push vector",
    "jmp {entry}",
    ".set vector, vector + 1",
    ".endr",
    ".balign 16",
    ".size trap_stubs, . - trap_stubs",
    ".popsection",
    entry = sym entry,
);

/// On the stack: vector, error code, rip, cs, rflags, rsp, ss.
#[unsafe(naked)]
extern "C" fn entry() {
    naked_asm!(
        "push rbx",
        "push rax",
        "add dword ptr gs:[{depth}], 1",
        // Where to save: an NMI to the core's last spare frame, a trap in a handler to the one of its
        // depth, all others to the block of the context that runs, which begins with its frame.
        "mov ebx, {nmi}",
        "cmp qword ptr [rsp + 16], 2",
        "je 3f",
        "mov ebx, gs:[{depth}]",
        "sub ebx, 1",
        "jnz 4f",
        "mov rax, gs:[{current}]",
        "jmp 2f",
        "4:",
        "sub ebx, 1",
        "cmp ebx, {nmi}",
        "jb 3f",
        "mov ebx, {nmi} - 1",
        "3:",
        "imul ebx, ebx, {frame_size}",
        "mov rax, gs:[{this}]",
        "lea rax, [rax + rbx + {nested}]",
        "2:",
        "mov [rax + {rcx}], rcx",
        "mov [rax + {rdx}], rdx",
        "mov [rax + {rsi}], rsi",
        "mov [rax + {rdi}], rdi",
        "mov [rax + {rbp}], rbp",
        "mov [rax + {r8}], r8",
        "mov [rax + {r9}], r9",
        "mov [rax + {r10}], r10",
        "mov [rax + {r11}], r11",
        "mov [rax + {r12}], r12",
        "mov [rax + {r13}], r13",
        "mov [rax + {r14}], r14",
        "mov [rax + {r15}], r15",
        "mov qword ptr [rax + {kind}], 0",
        "pop rbx",
        "mov [rax + {rax}], rbx",
        "pop rbx",
        "mov [rax + {rbx}], rbx",
        "pop rdi",
        "pop rsi",
        "mov rbx, [rsp + 16]",
        "mov [rax + {rflags}], rbx",
        "mov rbx, [rsp + 24]",
        "mov [rax + {rsp}], rbx",
        "mov rbx, [rsp]",
        "mov [rax + {rip}], rbx",
        "mov rdx, rax",
        // A made-up stack frame, so that a backtrace goes on into what was interrupted.
        "push rbx",
        "push rbp",
        "mov rbp, rsp",
        "and rsp, -16",
        "cld",
        "call {dispatch}",
        "mov rdi, rax",
        "sub dword ptr gs:[{depth}], 1",
        "jmp {resume}",
        depth = const offset_of!(Core, trap_depth),
        this = const offset_of!(Core, this),
        current = const offset_of!(Core, current),
        nmi = const super::NESTED,
        nested = const offset_of!(Core, nested),
        frame_size = const size_of::<Frame>(),
        kind = const offset_of!(Frame, kind),
        rax = const offset_of!(Frame, rax),
        rbx = const offset_of!(Frame, rbx),
        rcx = const offset_of!(Frame, rcx),
        rdx = const offset_of!(Frame, rdx),
        rsi = const offset_of!(Frame, rsi),
        rdi = const offset_of!(Frame, rdi),
        rbp = const offset_of!(Frame, rbp),
        r8 = const offset_of!(Frame, r8),
        r9 = const offset_of!(Frame, r9),
        r10 = const offset_of!(Frame, r10),
        r11 = const offset_of!(Frame, r11),
        r12 = const offset_of!(Frame, r12),
        r13 = const offset_of!(Frame, r13),
        r14 = const offset_of!(Frame, r14),
        r15 = const offset_of!(Frame, r15),
        rip = const offset_of!(Frame, rip),
        rsp = const offset_of!(Frame, rsp),
        rflags = const offset_of!(Frame, rflags),
        dispatch = sym dispatch,
        resume = sym resume,
    )
}

/// Goes on with the frame in `rdi`, whichever way it was saved. Interrupts are
/// masked; for a frame of a trap the stack in use has room for five words.
#[unsafe(naked)]
pub extern "C" fn resume() {
    naked_asm!(
        "mov rbx, [rdi + {rbx}]",
        "mov rbp, [rdi + {rbp}]",
        "mov r12, [rdi + {r12}]",
        "mov r13, [rdi + {r13}]",
        "mov r14, [rdi + {r14}]",
        "mov r15, [rdi + {r15}]",
        "cmp qword ptr [rdi + {kind}], 1",
        "jne 2f",
        "mov rsp, [rdi + {rsp}]",
        "jmp qword ptr [rdi + {rip}]",
        "2:",
        "push {data}",
        "push qword ptr [rdi + {rsp}]",
        "push qword ptr [rdi + {rflags}]",
        "push {code}",
        "push qword ptr [rdi + {rip}]",
        "mov rax, [rdi + {rax}]",
        "mov rcx, [rdi + {rcx}]",
        "mov rdx, [rdi + {rdx}]",
        "mov rsi, [rdi + {rsi}]",
        "mov r8, [rdi + {r8}]",
        "mov r9, [rdi + {r9}]",
        "mov r10, [rdi + {r10}]",
        "mov r11, [rdi + {r11}]",
        "mov rdi, [rdi + {rdi}]",
        "iretq",
        code = const CODE,
        data = const DATA,
        kind = const offset_of!(Frame, kind),
        rax = const offset_of!(Frame, rax),
        rbx = const offset_of!(Frame, rbx),
        rcx = const offset_of!(Frame, rcx),
        rdx = const offset_of!(Frame, rdx),
        rsi = const offset_of!(Frame, rsi),
        rdi = const offset_of!(Frame, rdi),
        rbp = const offset_of!(Frame, rbp),
        r8 = const offset_of!(Frame, r8),
        r9 = const offset_of!(Frame, r9),
        r10 = const offset_of!(Frame, r10),
        r11 = const offset_of!(Frame, r11),
        r12 = const offset_of!(Frame, r12),
        r13 = const offset_of!(Frame, r13),
        r14 = const offset_of!(Frame, r14),
        r15 = const offset_of!(Frame, r15),
        rip = const offset_of!(Frame, rip),
        rsp = const offset_of!(Frame, rsp),
        rflags = const offset_of!(Frame, rflags),
    )
}

/// Handles a trap and says which frame to resume.
extern "C" fn dispatch(vector: u64, error: u64, frame: *mut Frame) -> *const Frame {
    // SAFETY: the entry passes the frame it just filled; nobody else has a reference to it.
    let saved = unsafe { &mut *frame };
    match vector {
        0..32 => return on_exception(vector, error, saved),
        // Nobody's: the local APIC's own, and the 8259s', which are masked and know no end of interrupt.
        apic::SPURIOUS | 0x20..apic::FIRST_LINE => return frame,
        apic::TIMER => {
            apic::end_of_interrupt();
            if apic::on_timer() {
                traps::upcalls().on_timer();
            }
        }
        apic::KICK => {
            apic::end_of_interrupt();
            traps::upcalls().on_kick();
        }
        line => {
            traps::upcalls().on_line(Line((line - apic::FIRST_LINE) as u32));
            apic::end_of_interrupt();
        }
    }
    traps::leave(frame)
}

fn on_exception(vector: u64, error: u64, frame: &mut Frame) -> *const Frame {
    if vector == 2 {
        on_nmi(frame);
        return frame;
    }
    // First: what follows may fault too.
    let address = match vector {
        8 | 14 => Cr2::read_raw() as usize,
        _ => frame.program_counter(),
    };
    let core = &super::CORES[super::this_core()];
    core.move_fault_stack(|top| top - PART);
    let resumed = if super::probe::recover(vector, frame) {
        frame
    } else {
        report(vector, error, address, frame)
    };
    core.move_fault_stack(|top| top + PART);
    resumed
}

/// Another core asks what this one does. Nothing may be woken here, and nothing may fault: the end of that would let the next NMI in,
/// on this one's stack.
fn on_nmi(frame: &mut Frame) {
    const HLT_LENGTH: u64 = 1;
    let lets_interrupts_in = frame.rflags & 1 << 9 != 0;
    // This is one itself.
    let in_handler = super::CORES[super::this_core()].trap_depth.load(Relaxed) > 1;
    sample::on_nmi(frame, lets_interrupts_in, in_handler);
    // Between the `sti` and the `hlt` of a core that is about to sleep: what is pending would come before that, and not
    // end its sleep. So it does not begin.
    if frame.rip == super::address_of_wait() as u64 {
        frame.rip += HLT_LENGTH;
    }
}

/// Returns the frame to go on with.
fn report(vector: u64, error: u64, address: usize, frame: &mut Frame) -> *const Frame {
    let kind = match vector {
        0 => FaultKind::Divide,
        3 => FaultKind::Breakpoint,
        6 => FaultKind::IllegalInstruction,
        8 => FaultKind::Double,
        14 if error & 16 != 0 => FaultKind::Execute,
        14 if error & 2 != 0 => FaultKind::Write,
        14 => FaultKind::Read,
        17 => FaultKind::Alignment,
        other => FaultKind::Other(other),
    };
    // Neither a page that is there nor the fetch of an instruction.
    let is_missing = vector == 14 && error & (1 | 16) == 0;
    traps::on_fault(kind, address, is_missing, frame)
}

impl Core {
    /// Loads this core's tables with these trap stacks.
    pub unsafe fn set_trap_stacks(&self, stacks: [Bounds; STACKS]) {
        // An `iretq` frame is built at the top of the stack for interrupts, which is free
        // whenever no interrupt is being handled.
        self.resume_stack
            .store(stacks[IST_IRQ].high as u64, Relaxed);
        // SAFETY: only this core touches its tables, with interrupts masked.
        unsafe { (*self.tables.get()).set_stacks(stacks) };
    }

    /// Makes the next fault begin elsewhere on the stack for faults.
    fn move_fault_stack(&self, to: impl FnOnce(u64) -> u64) {
        // SAFETY: only this core touches its tables, and in a fault handler nothing else on it does.
        unsafe {
            let table = &raw mut (*self.tables.get()).tss.interrupt_stack_table;
            let slot = table.cast::<u64>().add(IST_FAULT);
            slot.write_unaligned(to(slot.read_unaligned()));
        }
    }

    pub unsafe fn load_tables(&self) {
        // SAFETY: only this core touches its tables, with interrupts masked.
        unsafe { (*self.tables.get()).load() };
    }
}
