//! How a page table entry is written.

use crate::paging::{Access, Entry};
use x86_64::{VirtAddr, instructions::tlb, registers::control::Cr3};

/// Level 1 entries may be blocks (2 MiB) everywhere, level 2 entries (1 GiB) where the processor has them.
pub fn largest_block_level() -> usize {
    let has_gibibytes = core::arch::x86_64::__cpuid(0x8000_0001).edx & 1 << 26 != 0;
    if has_gibibytes { 2 } else { 1 }
}
/// Each core must drop its own translations.
pub const FLUSH_IS_BROADCAST: bool = false;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const WRITE_THROUGH: u64 = 1 << 3;
const NO_CACHE: u64 = 1 << 4;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const BLOCK: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// An entry that leads to memory.
pub fn leaf(phys: u64, access: Access, level: usize) -> u64 {
    let rights = match access {
        Access::ReadOnly => NO_EXECUTE,
        Access::ReadWrite => NO_EXECUTE | WRITABLE,
        Access::ReadExecute => 0,
        Access::Device => NO_EXECUTE | WRITABLE | NO_CACHE | WRITE_THROUGH,
    };
    let block = if level > 0 { BLOCK } else { 0 };
    phys | rights | block | GLOBAL | ACCESSED | DIRTY | PRESENT
}

/// An entry that leads to another table.
pub fn table(phys: u64) -> u64 {
    phys | PRESENT | WRITABLE
}

/// Takes an entry apart.
pub fn decode(entry: u64, level: usize) -> Entry {
    if entry & PRESENT == 0 {
        return Entry::Empty;
    }
    if level > 0 && entry & BLOCK == 0 {
        return Entry::Table(entry & ADDRESS);
    }
    let access = match (entry & WRITABLE != 0, entry & NO_EXECUTE == 0) {
        (true, true) => None,
        (true, false) if entry & NO_CACHE != 0 => Some(Access::Device),
        (true, false) => Some(Access::ReadWrite),
        (false, true) => Some(Access::ReadExecute),
        (false, false) => Some(Access::ReadOnly),
    };
    let offset = (crate::layout::PAGE << (9 * level)) as u64 - 1;
    Entry::Leaf(entry & ADDRESS & !offset, access)
}

/// A new entry needs nothing: what was not present is not cached.
pub fn after_map() {}

/// Drops this core's translation of one page.
pub fn flush_page(address: usize) {
    tlb::flush(VirtAddr::new_truncate(address as u64));
}

/// Drops all of this core's translations, global ones too.
pub fn flush_all() {
    use x86_64::registers::control::{Cr4, Cr4Flags};
    let flags = Cr4::read();
    // SAFETY: turning global pages off and on again is how global translations are dropped.
    unsafe {
        Cr4::write(flags - Cr4Flags::PAGE_GLOBAL);
        Cr4::write(flags);
    }
}

/// Physical address of the topmost table in use.
pub fn root() -> u64 {
    Cr3::read_raw().0.start_address().as_u64()
}

/// Starts to use the tables at `root`.
///
/// # Safety
/// They map at least what the current ones do of the running code, its stack and data.
pub unsafe fn activate(root: u64) {
    use x86_64::{PhysAddr, registers::control::Cr3Flags, structures::paging::PhysFrame};
    let frame = PhysFrame::containing_address(PhysAddr::new(root));
    // SAFETY: the caller's promise.
    unsafe { Cr3::write(frame, Cr3Flags::empty()) };
    flush_all();
}
