//! `pack`: embeds the symbol table in a kernel, so that a panicking guest can name its functions.
//!
//! The kernel is linked with its last segment holding section `.symbols`, only a header:
//! magic u64, total length u32, count u32. The table that takes its place is that header, then
//! `count` pairs (start address minus link base u32, offset of the name in the table u32) sorted by
//! address, then the names, each a u16 length and UTF-8 bytes; all little-endian.
//!
//! x86_64 stays an ELF (QEMU and GRUB read its headers); aarch64 becomes the flat file that starts
//! with a Linux Image header, which is what QEMU and the Pi's firmware load.

use crate::files;
use crate::problem::{Problem, Result, stop};
use crate::symbols::{self, Elf, Function};
use object::LittleEndian;
use object::elf::{EM_AARCH64, EM_X86_64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use std::path::Path;

const MAGIC: u64 = 0x5359_4d42_4f4c_5331;
const HEADER: usize = 16;
/// Larger than any kernel: a flat image beyond it means that the segments are scattered.
const LARGEST_FLAT: u64 = 256 << 20;
/// "ARM\x64", at offset 56 of the Linux Image header; the size of the image is at offset 16.
const IMAGE_MAGIC: &[u8] = b"ARM\x64";

/// Packs the ELF file `input` into `output` and keeps the unpacked ELF as `output`.elf.
pub fn pack(input: &Path, output: &Path) -> Result<()> {
    let bytes = files::read(input)?;
    let packed = convert(&bytes).map_err(|problem| Problem::at(input, problem))?;
    files::write(&files::with_suffix(output, ".elf"), &bytes)?;
    files::write(output, &packed)
}

fn convert(bytes: &[u8]) -> Result<Vec<u8>> {
    let elf = symbols::parse(bytes)?;
    let Some(base) = symbols::address_of(&elf, "__image_start") else {
        stop!(
            "has no symbol `__image_start`, which the linker script should set to the link address"
        );
    };
    let place = Place::find(&elf, bytes)?;
    let table = table(&symbols::functions(&elf)?, base)?;
    match elf.elf_header().e_machine(LittleEndian) {
        EM_X86_64 => Ok(elf_with_table(bytes, &place, &table)),
        EM_AARCH64 => flat_with_table(bytes, &elf, &place, &table),
        other => stop!("is for machine {}; pack knows x86_64 and aarch64", other.0),
    }
}

/// Lays out the symbol table.
fn table(functions: &[Function], base: u64) -> Result<Vec<u8>> {
    let mut pairs = Vec::new();
    let mut names = Vec::new();
    let names_start = HEADER + functions.len() * 8;
    for function in functions {
        let relative = function
            .start
            .checked_sub(base)
            .and_then(|offset| u32::try_from(offset).ok());
        let Some(relative) = relative else {
            stop!(
                "function `{}` at {:#x} is not within 4 GiB of the link base {base:#x}",
                function.name,
                function.start
            );
        };
        let Ok(length) = u16::try_from(function.name.len()) else {
            stop!(
                "a function's name is longer than 65535 bytes: {:.80}...",
                function.name
            );
        };
        pairs.extend(relative.to_le_bytes());
        pairs.extend(((names_start + names.len()) as u32).to_le_bytes());
        names.extend(length.to_le_bytes());
        names.extend(function.name.as_bytes());
    }
    let Ok(total) = u32::try_from(names_start + names.len()) else {
        stop!("the symbol table is larger than 4 GiB");
    };
    let mut table = Vec::with_capacity(total as usize);
    table.extend(MAGIC.to_le_bytes());
    table.extend(total.to_le_bytes());
    table.extend((functions.len() as u32).to_le_bytes());
    table.extend(pairs);
    table.extend(names);
    Ok(table)
}

/// Where the headers for the symbol table are in the ELF file, and where it goes in memory.
struct Place {
    /// File offset of the segment's program header.
    program_header: usize,
    /// File offset of the section's header.
    section_header: usize,
    address: u64,
    align: u64,
}

impl Place {
    fn find(elf: &Elf<'_>, bytes: &[u8]) -> Result<Place> {
        let endian = LittleEndian;
        let header = elf.elf_header();
        let Some((index, section)) = elf.elf_section_table().section_by_name(endian, b".symbols")
        else {
            stop!("has no section `.symbols`, which the linker script should keep");
        };
        let address = section.sh_addr(endian);
        let segments = elf.elf_program_headers();
        let loads = || {
            segments
                .iter()
                .enumerate()
                .filter(|(_, segment)| segment.p_type(endian) == PT_LOAD)
        };
        let Some((number, segment)) =
            loads().find(|(_, segment)| segment.p_vaddr(endian) == address)
        else {
            stop!("section `.symbols` does not start a segment of its own");
        };
        if segment.p_memsz(endian) != section.sh_size(endian) {
            stop!("the segment of `.symbols` holds other sections too");
        }
        if let Some((_, later)) = loads().find(|(_, other)| other.p_vaddr(endian) > address) {
            stop!(
                "the segment of `.symbols` is not the last: one at {:#x} follows",
                later.p_vaddr(endian)
            );
        }
        let start = usize::try_from(section.sh_offset(endian)).unwrap_or(usize::MAX);
        if bytes.get(start..).and_then(|rest| rest.first_chunk()) != Some(&MAGIC.to_le_bytes()) {
            stop!("section `.symbols` does not start with the magic number {MAGIC:#x}");
        }
        Ok(Place {
            program_header: header.e_phoff(endian) as usize
                + number * usize::from(header.e_phentsize(endian)),
            section_header: header.e_shoff(endian) as usize
                + index.0 * usize::from(header.e_shentsize(endian)),
            address,
            align: segment.p_align(endian).max(0x1000),
        })
    }
}

/// The same ELF with the table at the end of the file. `Place::find` read every header that is
/// written to here, so they lie within the file.
fn elf_with_table(bytes: &[u8], place: &Place, table: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let end = file.len() as u64;
    let offset = end + (place.address.wrapping_sub(end)) % place.align;
    file.resize(offset as usize, 0);
    file.extend(table);
    let size = table.len() as u64;
    put(&mut file, place.program_header + 8, offset);
    put(&mut file, place.program_header + 32, size);
    put(&mut file, place.program_header + 40, size);
    put(&mut file, place.section_header + 24, offset);
    put(&mut file, place.section_header + 32, size);
    file
}

/// Memory as the loader should lay it out, from the lowest address to the end of the table.
fn flat_with_table(bytes: &[u8], elf: &Elf<'_>, place: &Place, table: &[u8]) -> Result<Vec<u8>> {
    let endian = LittleEndian;
    let loads = || {
        elf.elf_program_headers()
            .iter()
            .filter(|segment| segment.p_type(endian) == PT_LOAD)
    };
    let base = loads()
        .map(|segment| segment.p_vaddr(endian))
        .min()
        .unwrap_or(place.address);
    if place.address - base > LARGEST_FLAT {
        stop!(
            "its segments span {} MiB, too much for a flat image",
            (place.address - base) >> 20
        );
    }
    let mut flat = vec![0; (place.address - base) as usize];
    for segment in loads().filter(|segment| segment.p_vaddr(endian) != place.address) {
        let data = segment
            .data(endian, bytes)
            .map_err(|()| Problem::new("a segment lies outside of the file"))?;
        let start = (segment.p_vaddr(endian) - base) as usize;
        let Some(room) = flat.get_mut(start..start + data.len()) else {
            stop!(
                "the segment at {:#x} overlaps `.symbols`",
                segment.p_vaddr(endian)
            );
        };
        if segment.p_vaddr(endian) + segment.p_memsz(endian) > place.address {
            stop!(
                "the segment at {:#x} reaches into `.symbols`",
                segment.p_vaddr(endian)
            );
        }
        room.copy_from_slice(data);
    }
    flat.extend(table);
    if flat.get(56..60) != Some(IMAGE_MAGIC) {
        stop!("does not start with a Linux arm64 Image header");
    }
    let size = flat.len() as u64;
    put(&mut flat, 16, size);
    Ok(flat)
}

fn put(file: &mut [u8], at: usize, value: u64) {
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests;
