//! How a page table entry is written.

use crate::paging::{Access, Entry};
use core::arch::asm;

/// Level 2 entries may be blocks (1 GiB).
pub const fn largest_block_level() -> usize {
    2
}
/// An invalidation reaches every core before its `dsb` is over.
pub const FLUSH_IS_BROADCAST: bool = true;

const VALID: u64 = 1;
/// A table above the last level, a page on it.
const TABLE_OR_PAGE: u64 = 1 << 1;
/// First attribute of MAIR: device; second: normal memory.
const NORMAL: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESSED: u64 = 1 << 10;
const NEVER_EXECUTE: u64 = 1 << 53;
const NEVER_EXECUTE_BELOW: u64 = 1 << 54;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// Attributes of memory: device (no gathering or reordering), normal (write-back).
pub const MEMORY_ATTRIBUTES: u64 = 0xff04;

/// An entry that leads to memory.
pub fn leaf(phys: u64, access: Access, level: usize) -> u64 {
    let rights = match access {
        Access::ReadOnly => READ_ONLY | NEVER_EXECUTE | NORMAL,
        Access::ReadWrite => NEVER_EXECUTE | NORMAL,
        Access::ReadExecute => READ_ONLY | NORMAL,
        Access::Device => NEVER_EXECUTE,
    };
    let page = if level == 0 { TABLE_OR_PAGE } else { 0 };
    phys | rights | NEVER_EXECUTE_BELOW | INNER_SHAREABLE | ACCESSED | page | VALID
}

/// An entry that leads to another table.
pub fn table(phys: u64) -> u64 {
    phys | TABLE_OR_PAGE | VALID
}

/// Takes an entry apart.
pub fn decode(entry: u64, level: usize) -> Entry {
    if entry & VALID == 0 {
        return Entry::Empty;
    }
    if level > 0 && entry & TABLE_OR_PAGE != 0 {
        return Entry::Table(entry & ADDRESS);
    }
    let access = match (entry & READ_ONLY == 0, entry & NEVER_EXECUTE == 0) {
        (true, true) => None,
        (true, false) if entry & NORMAL == 0 => Some(Access::Device),
        (true, false) => Some(Access::ReadWrite),
        (false, true) => Some(Access::ReadExecute),
        (false, false) => Some(Access::ReadOnly),
    };
    let offset = (crate::layout::PAGE << (9 * level)) as u64 - 1;
    Entry::Leaf(entry & ADDRESS & !offset, access)
}

/// Makes new entries seen by every core's table walker.
pub fn after_map() {
    // SAFETY: barriers.
    unsafe { asm!("dsb ishst", "isb", options(nostack, preserves_flags)) };
}

/// Drops every core's translation of one page.
pub fn flush_page(address: usize) {
    // SAFETY: dropping a cached translation is always sound.
    unsafe {
        asm!("dsb ishst", "tlbi vaae1is, {}", "dsb ish", "isb",
             in(reg) (address >> 12) & 0xfff_ffff_ffff, options(nostack, preserves_flags));
    }
}

/// Drops all translations, on every core.
pub fn flush_all() {
    // SAFETY: dropping cached translations is always sound.
    unsafe {
        asm!(
            "dsb ishst",
            "tlbi vmalle1is",
            "dsb ish",
            "isb",
            options(nostack, preserves_flags)
        );
    }
}

/// Physical address of the topmost table in use.
pub fn root() -> u64 {
    let root: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, ttbr1_el1", out(reg) root, options(nostack, preserves_flags)) };
    root & ADDRESS
}
