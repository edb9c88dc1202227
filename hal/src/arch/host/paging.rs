//! How a page table entry is written where no hardware reads it: for tests of
//! the logic above. Flushes are counted, so that tests can see them.

use crate::{
    cores::MAX_CORES,
    layout::PAGE,
    paging::{Access, Entry},
};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Level 2 entries may be blocks (1 GiB).
pub const fn largest_block_level() -> usize {
    2
}
/// Each core must drop its own translations, if it had any.
pub const FLUSH_IS_BROADCAST: bool = false;

const PRESENT: u64 = 1;
const LEAF: u64 = 1 << 1;
const WRITABLE: u64 = 1 << 2;
const EXECUTABLE: u64 = 1 << 3;
const DEVICE: u64 = 1 << 4;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// An entry that leads to memory.
pub fn leaf(phys: u64, access: Access, _level: usize) -> u64 {
    let rights = match access {
        Access::ReadOnly => 0,
        Access::ReadWrite => WRITABLE,
        Access::ReadExecute => EXECUTABLE,
        Access::Device => WRITABLE | DEVICE,
    };
    phys | rights | LEAF | PRESENT
}

/// An entry that leads to another table.
pub fn table(phys: u64) -> u64 {
    phys | PRESENT
}

/// Takes an entry apart.
pub fn decode(entry: u64, level: usize) -> Entry {
    if entry & PRESENT == 0 {
        return Entry::Empty;
    }
    if level > 0 && entry & LEAF == 0 {
        return Entry::Table(entry & ADDRESS);
    }
    let access = match (entry & WRITABLE != 0, entry & EXECUTABLE != 0) {
        (true, true) => None,
        (true, false) if entry & DEVICE != 0 => Some(Access::Device),
        (true, false) => Some(Access::ReadWrite),
        (false, true) => Some(Access::ReadExecute),
        (false, false) => Some(Access::ReadOnly),
    };
    let offset = (PAGE << (9 * level)) as u64 - 1;
    Entry::Leaf(entry & ADDRESS & !offset, access)
}

/// Nothing walks these tables.
pub fn after_map() {}

/// There is no translation to drop.
pub fn flush_page(_address: usize) {}

static FLUSHES: [AtomicU64; MAX_CORES] = [const { AtomicU64::new(0) }; MAX_CORES];

/// Counts.
pub fn flush_all() {
    FLUSHES[super::this_core()].fetch_add(1, Relaxed);
}

/// How often a core has flushed.
pub fn flushes_of(core: usize) -> u64 {
    FLUSHES[core].load(Relaxed)
}
