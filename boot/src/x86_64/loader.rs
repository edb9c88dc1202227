//! What the loader left: memory map, command line, ACPI root pointer.
//!
//! Read with the coarse tables, in which the first GiB is at its physical
//! address; GRUB may have put its block anywhere between our segments, so all
//! of it is copied before anything is allocated.

use super::entry;
use crate::{
    command_line,
    memory::{Kind, MemoryMap},
};

/// What was read.
pub struct Left {
    pub memory: MemoryMap,
    pub command_line: [u8; command_line::ROOM + 1],
    pub rsdp: u64,
    pub loader: &'static str,
}

/// Reads a value of the loader's, which may be unaligned.
fn get<T: Copy>(at: usize) -> T {
    // SAFETY: the loader's blocks are below 1 GiB, where the coarse tables map everything;
    // they are plain bytes, and `T` is an integer or an array of them at every call.
    unsafe { (at as *const T).read_unaligned() }
}

impl Left {
    fn copy_command_line(&mut self, at: usize, most: usize) {
        // The last byte stays 0.
        let room = self.command_line.len() - 1;
        for (i, byte) in self.command_line[..room].iter_mut().enumerate().take(most) {
            *byte = get(at + i);
            if *byte == 0 {
                return;
            }
        }
    }

    /// Adds a region in the numbering that BIOS, PVH and multiboot2 share: 1 is usable.
    fn add_region(&mut self, start: u64, length: u64, kind: u32) {
        match kind {
            1 => self.memory.add_usable(start, length),
            _ => self.memory.reserve(start, length, Kind::Firmware),
        }
    }
}

/// Reads the block at `block`.
pub fn read(protocol: usize, block: usize) -> Left {
    let mut left = Left {
        memory: MemoryMap::new(),
        command_line: [0; _],
        rsdp: 0,
        loader: "PVH",
    };
    match protocol {
        entry::PVH => read_pvh(block, &mut left),
        _ => read_multiboot2(block, &mut left),
    }
    left
}

fn read_pvh(block: usize, left: &mut Left) {
    let command_line: u64 = get(block + 24);
    if command_line != 0 {
        left.copy_command_line(command_line as usize, usize::MAX);
    }
    left.rsdp = get(block + 32);
    let table: u64 = get(block + 40);
    let entries: u32 = get(block + 48);
    for i in 0..entries as usize {
        let at = table as usize + 24 * i;
        left.add_region(get(at), get(at + 8), get(at + 16));
    }
}

fn read_multiboot2(block: usize, left: &mut Left) {
    left.loader = "multiboot2";
    let total = get::<u32>(block) as usize;
    let mut at = block + 8;
    while at + 8 <= block + total {
        let (kind, size) = (get::<u32>(at), get::<u32>(at + 4) as usize);
        match kind {
            0 => break,
            1 => left.copy_command_line(at + 8, size.saturating_sub(8)),
            6 => {
                let entry_size = (get::<u32>(at + 8) as usize).max(24);
                let mut entry = at + 16;
                while entry + entry_size <= at + size {
                    left.add_region(get(entry), get(entry + 8), get(entry + 16));
                    entry += entry_size;
                }
            }
            // Copies of the ACPI 1 and 2 root pointers: the pointer itself, not where it is. Ours
            // lives on in GRUB's block, which the next line keeps.
            14 if left.rsdp == 0 => left.rsdp = (at + 8) as u64,
            15 => left.rsdp = (at + 8) as u64,
            _ => {}
        }
        at += size.max(8).next_multiple_of(8);
    }
    left.memory
        .reserve(block as u64, total as u64, Kind::Firmware);
}
