//! The final page tables.
//!
//! - the image: code executable, constants read-only, data writable, nothing both;
//! - all usable memory and the image's data in the direct map, writable;
//! - a page that is not mapped below the boot stack; nothing in the lower half.
//!
//! Firmware tables are mapped when somebody reads them ([`map_firmware`]).

use crate::{
    arch,
    memory::{Kind, MemoryMap},
};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use hal::{
    layout::{self, DIRECT_MAP, PAGE},
    paging::{self, Access, MapError, Space},
    stack::Bounds,
};

/// Address of a symbol of the linker script.
macro_rules! symbol {
    ($name:ident) => {{
        unsafe extern "C" {
            static $name: u8;
        }
        &raw const $name as usize
    }};
}

/// Frames for page tables until the frame allocator runs. In the image's data,
/// so that they can be written before anything else is mapped.
#[repr(C, align(4096))]
struct Pool([[u8; PAGE]; Pool::FRAMES]);
impl Pool {
    /// Four tables for the image, about two for each stretch of memory, the devices of boot.
    const FRAMES: usize = arch::POOL_FRAMES;
}
static mut POOL: Pool = Pool([[0; PAGE]; Pool::FRAMES]);
static USED: AtomicUsize = AtomicUsize::new(0);

/// The next zeroed frame of the pool.
pub fn frame() -> Option<u64> {
    let index = USED.fetch_add(1, Relaxed);
    let at = &raw mut POOL as usize + index * PAGE;
    (index < Pool::FRAMES).then(|| (at - arch::image_offset()) as u64)
}

/// The boot core's stack.
pub fn boot_stack() -> Bounds {
    Bounds {
        low: symbol!(__boot_stack_low),
        high: symbol!(__boot_stack_high),
    }
}

/// First and last byte of the image in physical memory.
pub fn image() -> (u64, u64) {
    let start = symbol!(__image_start) - arch::image_offset();
    let end = symbols_end() - arch::image_offset();
    (start as u64, layout::page_up(end as u64))
}

/// The table of names of an image that was not packed: magic ("SYMBOLS1"),
/// length, and no name. The packer puts the real one in its place.
#[used]
#[unsafe(link_section = ".symbols")]
static NO_SYMBOLS: (u64, u32, u32) = (0x5359_4d42_4f4c_5331, 16, 0);

/// Where the symbol table ends, which grew when the image was packed.
fn symbols_end() -> usize {
    let header = symbol!(__symbols) as *const u32;
    // SAFETY: the linker script puts the table's header here; its third word is its length.
    symbol!(__symbols) + unsafe { header.add(2).read() } as usize
}

/// Makes the final tables and switches to them.
pub fn enter(map: &MemoryMap) -> Result<(), MapError> {
    let offset = arch::image_offset();
    let root = frame().ok_or(MapError::OutOfFrames)?;
    // SAFETY: a fresh zeroed frame; the pool is part of the image, which the coarse tables map at `offset`.
    let mut space = unsafe { Space::new(root, offset) };
    let mut add = |virt: usize, phys: u64, length: usize, access| {
        space.map(virt, phys, length, access, &mut frame)
    };

    let mut image =
        |start: usize, end: usize, access| add(start, (start - offset) as u64, end - start, access);
    image(
        symbol!(__text_start),
        symbol!(__text_end),
        Access::ReadExecute,
    )?;
    image(
        symbol!(__rodata_start),
        symbol!(__rodata_end),
        Access::ReadOnly,
    )?;
    image(
        symbol!(__data_start),
        symbol!(__boot_stack_guard),
        Access::ReadWrite,
    )?;
    image(
        symbol!(__boot_stack_low),
        symbol!(__data_end),
        Access::ReadWrite,
    )?;
    let symbols = symbol!(__symbols);
    image(
        symbols,
        layout::page_up(symbols_end() as u64) as usize,
        Access::ReadOnly,
    )?;

    let data = (symbol!(__data_start) - offset) as u64;
    add(
        layout::phys_to_virt(data),
        data,
        symbol!(__boot_stack_guard) - symbol!(__data_start),
        Access::ReadWrite,
    )?;
    for region in map.regions() {
        if matches!(region.kind, Kind::Usable | Kind::Trampoline) {
            add(
                DIRECT_MAP + region.start as usize,
                region.start,
                region.len() as usize,
                Access::ReadWrite,
            )?;
        }
    }
    // SAFETY: the tables map the image as the coarse ones do, and the boot stack in it; from here on
    // they are reached through the direct map, which has the pool.
    unsafe {
        arch::activate(root);
        paging::adopt(root);
    }
    // SAFETY: the pool's frames are zeros, each is given out once, and the direct map has them.
    unsafe { paging::set_frame_source(frame) };
    Ok(())
}

/// Makes sure that `length` bytes of the firmware's memory at `phys` can be
/// read in the direct map; returns where.
pub fn map_firmware(phys: u64, length: usize) -> Result<usize, MapError> {
    let end = phys
        .checked_add(length as u64)
        .ok_or(MapError::NotAligned)?;
    let end = layout::page_up(end);
    for page in (layout::page_down(phys)..end).step_by(PAGE) {
        let virt = layout::phys_to_virt(page);
        if paging::translate(virt).is_none() {
            paging::map(virt, page, PAGE, Access::ReadOnly)?;
        }
    }
    Ok(layout::phys_to_virt(phys))
}
