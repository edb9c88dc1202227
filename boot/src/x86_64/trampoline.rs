//! How the other cores of a PC get from real mode to Rust.
//!
//! An inter-processor interrupt starts them in real mode at a page of the
//! first megabyte. The code copied there goes straight to long mode, with
//! tables that have this one page at its physical address too; up in the
//! image it finds its row in the table of cores, and takes the final tables.

use crate::{
    memory::{Kind, MemoryMap},
    secondary::{Slot, secondary_main},
    space,
};
use core::{
    arch::global_asm,
    mem::offset_of,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use hal::{
    bring_up::{self, Ticks},
    cores::CoreSet,
    layout::{self, PAGE},
    paging::{Access, Space},
};

/// Physical address of the page.
static AT: AtomicU64 = AtomicU64::new(0);

/// Takes a page of the first megabyte out of the memory map.
pub fn choose_page(map: &mut MemoryMap) -> u64 {
    let page = map
        .usable()
        .filter(|region| region.start < 0xa_0000)
        .map(|region| region.end.min(0xa_0000) - PAGE as u64)
        .last()
        .expect("a PC has memory below 640 KiB");
    map.reserve(page, PAGE as u64, Kind::Trampoline);
    page
}

unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_end: u8;
    static trampoline_gdt: u8;
    static trampoline_gdt_base: u8;
    static trampoline_long: u8;
    static trampoline_target: u8;
    static trampoline_tables: u8;
}

/// Copies the code to `page` and fills in what depends on the place.
pub fn prepare(page: u64) {
    AT.store(page, Relaxed);
    // Tables of their own: the upper half is the kernel's, the lower has the one page.
    let root = space::frame().expect("the pool has room for the trampoline's tables");
    // SAFETY: a fresh zeroed frame of the pool, which the direct map has.
    let mut tables = unsafe { Space::new(root, layout::DIRECT_MAP) };
    tables
        .map(
            page as usize,
            page,
            PAGE,
            Access::ReadExecute,
            &mut space::frame,
        )
        .expect("the pool has room for the trampoline's tables");
    let upper = layout::phys_to_virt(bring_up::root()) + PAGE / 2;
    let code = &raw const trampoline_start as usize;
    let offset = |label: *const u8| label as usize - code;
    let to = layout::phys_to_virt(page);
    let put = |label: *const u8, value: u32| {
        // SAFETY: inside the page, which is ours and writable in the direct map.
        unsafe { ((to + offset(label)) as *mut u32).write_unaligned(value) };
    };
    // SAFETY: 1. both tables are page-sized frames in the direct map, and what a core needs until it takes
    // the final ones, the image, is in the upper half by now; 2. the code is shorter than the page it is copied to.
    unsafe {
        let entries = (layout::phys_to_virt(root) + PAGE / 2) as *mut u8;
        entries.copy_from_nonoverlapping(upper as *const u8, PAGE / 2);
        (to as *mut u8)
            .copy_from_nonoverlapping(code as *const u8, offset(&raw const trampoline_end));
    }
    put(
        &raw const trampoline_gdt_base,
        page as u32 + offset(&raw const trampoline_gdt) as u32,
    );
    put(
        &raw const trampoline_target,
        page as u32 + offset(&raw const trampoline_long) as u32,
    );
    put(&raw const trampoline_tables, root as u32);
    FINAL_ROOT.store(bring_up::root(), Relaxed);
}

/// The tables that cores take once they are up in the image.
#[unsafe(no_mangle)]
static FINAL_ROOT: AtomicU64 = AtomicU64::new(0);

/// Sends `cores` on their way.
pub fn start_cores(
    cores: CoreSet,
    apic_id: &dyn Fn(usize) -> u64,
    ticks: &Ticks,
    _refused: &mut dyn FnMut(usize, i64),
) {
    let page = (AT.load(Relaxed) / PAGE as u64) as u8;
    let wait = |micros| {
        let start = bring_up::boot_micros();
        while bring_up::boot_micros() - start < micros {
            ticks.nap();
        }
    };
    for core in cores.iter() {
        bring_up::set_id(core, apic_id(core) as u32);
        bring_up::send_init(apic_id(core) as u32);
    }
    // The manual's 10 ms are for processors of the last century; as Linux does, none since.
    wait(100);
    for _ in 0..2 {
        for core in cores.iter() {
            bring_up::send_startup(apic_id(core) as u32, page);
        }
        wait(100);
    }
}

global_asm!(
    ".pushsection .rodata.trampoline, \"a\"",
    ".balign 16",
    ".code16",
    ".global trampoline_start",
    "trampoline_start:",
    "cli",
    "cld",
    "movw %cs, %ax",
    "movw %ax, %ds",
    "lgdtl trampoline_gdt_pointer - trampoline_start",
    "movl %cr4, %eax",
    "orl $(1 << 5 | 1 << 7), %eax",
    "movl %eax, %cr4",
    "movl trampoline_tables - trampoline_start, %eax",
    "movl %eax, %cr3",
    "movl $0xc0000080, %ecx",
    "rdmsr",
    "orl $(1 << 8 | 1 << 11), %eax",
    "wrmsr",
    // Caches on: a core comes out of reset with them off.
    "movl %cr0, %eax",
    "andl $0x9fffffff, %eax",
    "orl $(1 << 31 | 1 << 16 | 1), %eax",
    "movl %eax, %cr0",
    "ljmpl *(trampoline_target - trampoline_start)",
    ".code64",
    ".global trampoline_long",
    "trampoline_long:",
    "movabsq $trampoline_upper, %rax",
    "jmp *%rax",
    ".balign 8",
    ".global trampoline_gdt",
    "trampoline_gdt:",
    ".quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff",
    "trampoline_gdt_pointer:",
    ".short 23",
    ".global trampoline_gdt_base",
    "trampoline_gdt_base: .long 0",
    ".balign 4",
    ".global trampoline_target",
    "trampoline_target: .long 0",
    ".short 8",
    ".balign 4",
    ".global trampoline_tables",
    "trampoline_tables: .long 0",
    ".global trampoline_end",
    "trampoline_end:",
    ".popsection",

    ".pushsection .text.trampoline_upper, \"ax\"",
    ".type trampoline_upper, @function",
    "trampoline_upper:",
    // Nobody called this: debuggers stop here.
    ".cfi_startproc",
    ".cfi_undefined rip",
    "xorl %eax, %eax",
    "movw %ax, %ds",
    "movw %ax, %es",
    "movw %ax, %ss",
    "movw %ax, %fs",
    "movw %ax, %gs",
    "movabsq $FINAL_ROOT, %rax",
    "movq (%rax), %rax",
    "movq %rax, %cr3",
    // Which row is mine?
    "movl $1, %eax",
    "cpuid",
    "shrl $24, %ebx",
    "movabsq $BOOT_SLOTS, %rax",
    "xorl %edi, %edi",
    "2:",
    "cmpq %rbx, {hardware_id}(%rax)",
    "je 3f",
    "addq ${slot_size}, %rax",
    "incl %edi",
    "cmpl ${rows}, %edi",
    "jb 2b",
    // None: nobody called this core.
    "4:",
    "cli",
    "hlt",
    "jmp 4b",
    "3:",
    "movq {stack_top}(%rax), %rsp",
    "xorl %ebp, %ebp",
    "call {main}",
    "ud2",
    ".cfi_endproc",
    ".size trampoline_upper, . - trampoline_upper",
    ".popsection",
    hardware_id = const offset_of!(Slot, hardware_id),
    stack_top = const offset_of!(Slot, stack_top),
    slot_size = const size_of::<Slot>(),
    rows = const hal::cores::MAX_CORES,
    main = sym secondary_main,
    options(att_syntax),
);
