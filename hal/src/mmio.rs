//! Registers of a device in memory, seen through a window that knows its length.
//!
//! Where a device is, and which of its registers are where, often the device says itself. So each access is compared with the length of the window, and
//! a window is never opened onto the machine's own memory.

use crate::{
    layout::{self, PAGE},
    paging::{self, MapError},
};

/// Registers of a device, mapped for good.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    at: usize,
    length: usize,
}

/// Longest window: no device of ours has more registers.
const LONGEST: usize = 1 << 20;

/// Why there is no such window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowError {
    /// There are no registers that begin and end there.
    Range,
    /// That is the machine's memory.
    Memory,
    /// It cannot be mapped.
    Map(MapError),
}

impl Window {
    /// Opens a window onto the registers at this physical address.
    pub fn map(physical: u64, length: usize) -> Result<Self, WindowError> {
        let end = physical.checked_add(length as u64);
        let last = end.filter(|end| *end <= layout::DIRECT_MAP_SIZE);
        let Some(end) = last.filter(|_| physical != 0 && (1..=LONGEST).contains(&length)) else {
            return Err(WindowError::Range);
        };
        // All memory that is used is in the direct map.
        let mut pages = (layout::page_down(physical)..layout::page_up(end)).step_by(PAGE);
        if pages.any(|page| paging::translate(layout::phys_to_virt(page)).is_some()) {
            return Err(WindowError::Memory);
        }
        let at = paging::map_device(physical, length).map_err(WindowError::Map)?;
        Ok(Self { at, length })
    }

    /// How many bytes it shows.
    pub fn length(&self) -> usize {
        self.length
    }

    /// A part of it. `None`: it does not reach so far.
    pub fn part(&self, offset: usize, length: usize) -> Option<Self> {
        let end = offset.checked_add(length)?;
        (end <= self.length).then_some(Self {
            at: self.at + offset,
            length,
        })
    }

    #[track_caller]
    fn at<T>(&self, offset: usize) -> *mut T {
        let fits = offset <= self.length && self.length - offset >= size_of::<T>();
        assert!(fits, "register {offset:#x} is behind the window");
        let at = self.at + offset;
        assert!(
            at.is_multiple_of(align_of::<T>()),
            "register {offset:#x} is not aligned"
        );
        core::ptr::with_exposed_provenance_mut(at)
    }

    /// Reads a register of 8 bits.
    pub fn read8(&self, offset: usize) -> u8 {
        // SAFETY: `map` has mapped them for good, outside of all memory; `at` has seen that this one is whole and aligned.
        unsafe { self.at::<u8>(offset).read_volatile() }
    }

    /// Reads a register of 16 bits.
    pub fn read16(&self, offset: usize) -> u16 {
        // SAFETY: as for `read8`.
        unsafe { self.at::<u16>(offset).read_volatile() }
    }

    /// Reads a register of 32 bits.
    pub fn read32(&self, offset: usize) -> u32 {
        // SAFETY: as for `read8`.
        unsafe { self.at::<u32>(offset).read_volatile() }
    }

    /// Writes a register of 8 bits.
    pub fn write8(&self, offset: usize, value: u8) {
        // SAFETY: as for `read8`.
        unsafe { self.at::<u8>(offset).write_volatile(value) }
    }

    /// Writes a register of 16 bits.
    pub fn write16(&self, offset: usize, value: u16) {
        // SAFETY: as for `read8`.
        unsafe { self.at::<u16>(offset).write_volatile(value) }
    }

    /// Writes a register of 32 bits.
    pub fn write32(&self, offset: usize, value: u32) {
        // SAFETY: as for `read8`.
        unsafe { self.at::<u32>(offset).write_volatile(value) }
    }
}
