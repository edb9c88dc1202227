//! Interrupts that are messages (MSI-X): a device writes a word to where the local APICs listen.
//!
//! Each has a line beyond those of the I/O APIC, hence a vector, and a bound entry of its device's table: there is written which core
//! and which vector it is for. So a message is let in, steered and shut off as other lines are.

use super::apic;
use crate::{mmio::Window, sync::Lock};

/// The first line that is a message, and how many there are: up to the vectors of the local APICs.
const FIRST: u32 = 128;
const COUNT: usize = 62;
const _: () = assert!(apic::FIRST_LINE + FIRST as u64 + COUNT as u64 <= apic::TIMER);

// An entry of the table.
const ADDRESS: usize = 0;
const ADDRESS_HIGH: usize = 4;
const DATA: usize = 8;
const CONTROL: usize = 12;
const ENTRY: usize = 16;
const MASKED: u32 = 1;

/// Where the local APICs listen; the id of one is in bits 12 to 19.
const LISTENS: u32 = 0xfee0_0000;

/// The entry of each line that is taken.
static ENTRIES: Lock<[Option<Window>; COUNT]> = Lock::new([None; COUNT]);

/// Whether this line is a message.
pub fn is_message(line: u32) -> bool {
    line >= FIRST
}

fn index(line: u32) -> usize {
    (line - FIRST) as usize
}

/// Takes a free line for the device with this entry, which is masked.
pub fn reserve_message(entry: Window) -> Option<u32> {
    let entry = entry.part(0, ENTRY)?;
    let mut entries = ENTRIES.lock();
    let free = entries.iter().position(Option::is_none)?;
    entry.write32(CONTROL, MASKED);
    entries[free] = Some(entry);
    Some(FIRST + free as u32)
}

/// Gives a line back.
pub fn release_message(line: u32) {
    disable(line);
    if let Some(entry) = ENTRIES.lock().get_mut(index(line)) {
        *entry = None;
    }
}

/// Sends the device's messages to the core with this APIC id.
pub fn enable(line: u32, id: u32) {
    let entries = ENTRIES.lock();
    if let Some(Some(entry)) = entries.get(index(line)) {
        // Masked while it changes: a device must not see half of it.
        entry.write32(CONTROL, MASKED);
        entry.write32(ADDRESS, LISTENS | (id & 0xff) << 12);
        entry.write32(ADDRESS_HIGH, 0);
        // Fixed delivery, by edge.
        entry.write32(DATA, apic::FIRST_LINE as u32 + line);
        entry.write32(CONTROL, 0);
    }
}

/// Makes the device keep its messages to itself.
pub fn disable(line: u32) {
    let entries = ENTRIES.lock();
    if let Some(Some(entry)) = entries.get(index(line)) {
        entry.write32(CONTROL, MASKED);
    }
}
