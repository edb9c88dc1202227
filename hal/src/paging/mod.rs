//! Page tables: map, unmap, protect, look up.
//!
//! x86_64 and aarch64 (4 KiB granule, 48 bits) share the shape of the tree:
//! four levels of 512 entries; they differ only in how an entry is written,
//! which `arch::paging` says. [`Access`] has no variant that is both writable
//! and executable, so no caller can ask for one. `sparse` has what is done
//! without a lock, for stacks.

#[cfg_attr(
    not(target_os = "none"),
    allow(dead_code, reason = "the host's stacks are the OS's")
)]
pub(crate) mod sparse;

use crate::{
    arch::paging as entry,
    flush,
    layout::{self, PAGE},
    sync::{Lock, Rank, ranked},
};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// What may be done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Constants.
    ReadOnly,
    /// Data; never executable.
    ReadWrite,
    /// Code; never writable.
    ReadExecute,
    /// Device registers: not cached, not reordered, never executable.
    Device,
}

impl Access {
    /// Whether a store succeeds.
    pub fn is_writable(self) -> bool {
        matches!(self, Self::ReadWrite | Self::Device)
    }
}

/// One entry, taken apart. `Leaf` access is `None` if the entry allows both
/// writing and executing, which only boot's first coarse tables do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Not present.
    Empty,
    /// Another table, at this physical address.
    Table(u64),
    /// Memory, at this physical address.
    Leaf(u64, Option<Access>),
}

/// Why a mapping could not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// No frame left for a page table.
    OutOfFrames,
    /// Something is mapped at this address already.
    Taken(usize),
    /// Nothing is mapped at this address.
    NotMapped(usize),
    /// The address lies inside a block larger than a page.
    InsideBlock(usize),
    /// Addresses and lengths are whole pages.
    NotAligned,
}

impl core::fmt::Display for MapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OutOfFrames => write!(f, "no memory left for page tables"),
            Self::Taken(at) => write!(f, "{at:#x} is mapped already"),
            Self::NotMapped(at) => write!(f, "{at:#x} is not mapped"),
            Self::InsideBlock(at) => write!(f, "{at:#x} is inside a large block"),
            Self::NotAligned => write!(f, "not on a page boundary"),
        }
    }
}

/// Gives zeroed frames for new tables.
pub type FrameSource<'a> = &'a mut dyn FnMut() -> Option<u64>;

/// A tree of page tables.
pub struct Space {
    root: u64,
    /// Added to a physical address to reach a table.
    window: usize,
}

const LEVELS: usize = 4;

fn index(address: usize, level: usize) -> usize {
    (address >> (12 + 9 * level)) & 511
}

fn span(level: usize) -> usize {
    PAGE << (9 * level)
}

impl Space {
    /// The tree at `root`, whose tables are reached at their physical address plus `window`.
    ///
    /// # Safety
    /// `root` is a page table, it and all below it can be reached through
    /// `window`, and of all `Space`s for it one at a time is used by `&mut`.
    pub const unsafe fn new(root: u64, window: usize) -> Self {
        Self { root, window }
    }

    /// Physical address of the topmost table.
    pub fn root(&self) -> u64 {
        self.root
    }

    fn slot(&self, table: u64, index: usize) -> &AtomicU64 {
        let at = (table as usize + self.window + 8 * index) as *mut u64;
        // SAFETY: `table` came from `root` or from a table entry, so by `new`'s contract it is a
        // page table seen through `window`; `index` is below 512. The hardware reads it too, hence atomic.
        unsafe { AtomicU64::from_ptr(at) }
    }

    /// Maps `length` bytes at `virt` to the memory at `phys`, in the largest blocks that fit.
    /// Frames for tables come from `frames`. What was mapped before an error stays mapped.
    pub fn map(
        &mut self,
        virt: usize,
        phys: u64,
        length: usize,
        access: Access,
        frames: FrameSource<'_>,
    ) -> Result<(), MapError> {
        if !(virt | phys as usize | length).is_multiple_of(PAGE) {
            return Err(MapError::NotAligned);
        }
        let result = self.map_blocks(virt, phys, length, access, frames);
        // Also after an error: part of it is there.
        entry::after_map();
        result
    }

    fn map_blocks(
        &mut self,
        virt: usize,
        phys: u64,
        length: usize,
        access: Access,
        frames: FrameSource<'_>,
    ) -> Result<(), MapError> {
        let mut done = 0;
        while done < length {
            let (virt, phys) = (virt + done, phys + done as u64);
            let fits = |level: &usize| {
                (virt | phys as usize).is_multiple_of(span(*level)) && length - done >= span(*level)
            };
            let level = (0..=entry::largest_block_level())
                .rev()
                .find(fits)
                .unwrap_or(0);
            let table = self.table_at(virt, level, frames)?;
            let slot = self.slot(table, index(virt, level));
            if entry::decode(slot.load(Relaxed), level) != Entry::Empty {
                return Err(MapError::Taken(virt));
            }
            slot.store(entry::leaf(phys, access, level), Relaxed);
            done += span(level);
        }
        Ok(())
    }

    /// The table of `level` that covers `virt`, made if it is not there.
    fn table_at(
        &mut self,
        virt: usize,
        level: usize,
        frames: FrameSource<'_>,
    ) -> Result<u64, MapError> {
        let mut table = self.root;
        for above in (level + 1..LEVELS).rev() {
            let slot = self.slot(table, index(virt, above));
            table = match entry::decode(slot.load(Relaxed), above) {
                Entry::Table(next) => next,
                Entry::Leaf(..) => return Err(MapError::Taken(virt)),
                Entry::Empty => {
                    let next = frames().ok_or(MapError::OutOfFrames)?;
                    // Release: another core's walker that sees the table sees its zeros too.
                    slot.store(entry::table(next), Release);
                    next
                }
            };
        }
        Ok(table)
    }

    /// The table that has the entry of the page at `at`.
    fn last_table(&self, at: usize) -> Result<u64, MapError> {
        let mut table = self.root;
        for level in (1..LEVELS).rev() {
            table = match entry::decode(self.slot(table, index(at, level)).load(Relaxed), level) {
                Entry::Table(next) => next,
                Entry::Leaf(..) => return Err(MapError::InsideBlock(at)),
                Entry::Empty => return Err(MapError::NotMapped(at)),
            };
        }
        Ok(table)
    }

    /// The entry of the page at `at`, which is mapped.
    fn page_slot(&self, at: usize) -> Result<&AtomicU64, MapError> {
        let slot = self.slot(self.last_table(at)?, index(at, 0));
        match entry::decode(slot.load(Relaxed), 0) {
            Entry::Leaf(..) => Ok(slot),
            _ => Err(MapError::NotMapped(at)),
        }
    }

    /// Calls `change` with the entry and the frame of each page of the range:
    /// all of them, or none if one is not there.
    fn for_each_page(
        &mut self,
        virt: usize,
        length: usize,
        mut change: impl FnMut(&AtomicU64, u64),
    ) -> Result<(), MapError> {
        if !(virt | length).is_multiple_of(PAGE) {
            return Err(MapError::NotAligned);
        }
        let pages = || (virt..virt + length).step_by(PAGE);
        for at in pages() {
            self.page_slot(at)?;
        }
        for at in pages() {
            let slot = self.page_slot(at)?;
            if let Entry::Leaf(phys, _) = entry::decode(slot.load(Relaxed), 0) {
                change(slot, phys);
            }
            entry::flush_page(at);
        }
        Ok(())
    }

    /// Takes pages out; `freed` gets the frame of each. Cores may use the old
    /// translations until a ticket that is drawn afterwards is done.
    pub fn unmap(
        &mut self,
        virt: usize,
        length: usize,
        mut freed: impl FnMut(u64),
    ) -> Result<(), MapError> {
        self.for_each_page(virt, length, |slot, phys| {
            slot.store(0, Relaxed);
            freed(phys);
        })
    }

    /// Changes what may be done with pages; known to all cores as for [`unmap`](Self::unmap).
    pub fn protect(&mut self, virt: usize, length: usize, access: Access) -> Result<(), MapError> {
        self.for_each_page(virt, length, |slot, phys| {
            slot.store(entry::leaf(phys, access, 0), Relaxed);
        })
    }

    /// What `virt` is mapped to.
    pub fn translate(&self, virt: usize) -> Option<(u64, Option<Access>)> {
        let mut table = self.root;
        for level in (0..LEVELS).rev() {
            match entry::decode(self.slot(table, index(virt, level)).load(Relaxed), level) {
                Entry::Table(next) => table = next,
                Entry::Leaf(phys, access) => {
                    return Some((phys + (virt & (span(level) - 1)) as u64, access));
                }
                Entry::Empty => return None,
            }
        }
        None
    }

    /// Calls `visit(virt, phys, length, access)` for every mapping.
    pub fn walk(&self, visit: &mut dyn FnMut(usize, u64, usize, Option<Access>)) {
        self.walk_table(self.root, LEVELS - 1, 0, visit);
    }

    fn walk_table(
        &self,
        table: u64,
        level: usize,
        base: usize,
        visit: &mut dyn FnMut(usize, u64, usize, Option<Access>),
    ) {
        for i in 0..512 {
            let mut virt = base + i * span(level);
            if level == LEVELS - 1 && i >= 256 {
                virt |= 0xffff << 48;
            }
            match entry::decode(self.slot(table, i).load(Relaxed), level) {
                Entry::Empty => {}
                Entry::Table(next) => self.walk_table(next, level - 1, virt, visit),
                Entry::Leaf(phys, access) => visit(virt, phys, span(level), access),
            }
        }
    }
}

/// The kernel's own address space, shared by all cores.
static KERNEL: Lock<Option<Space>> = ranked(Rank::PageTables, None);
/// Its topmost table, for what needs no lock. Written by `adopt`, before there are other cores.
static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

/// Where new page tables come from once the frame allocator runs.
static FRAMES: AtomicUsize = AtomicUsize::new(0);
/// Where frames go that are not needed any more.
static FREED: AtomicUsize = AtomicUsize::new(0);

/// Takes over the tables that boot made.
///
/// # Safety
/// `root` is the table in use, with the direct map in place, and nobody else changes it.
pub unsafe fn adopt(root: u64) {
    KERNEL_ROOT.store(root, Relaxed);
    // SAFETY: the caller's promise.
    *KERNEL.lock() = Some(unsafe { Space::new(root, layout::DIRECT_MAP) });
}

/// From here on, page tables are made of frames from `source`.
///
/// # Safety
/// It gives frames of zeros that nobody else uses and that are in the direct map.
pub unsafe fn set_frame_source(source: fn() -> Option<u64>) {
    FRAMES.store(source as usize, Relaxed);
}

pub(crate) fn frame() -> Option<u64> {
    let source = FRAMES.load(Relaxed);
    if source == 0 {
        return None;
    }
    // SAFETY: only `set_frame_source` writes it, and writes a `fn() -> Option<u64>`.
    let source = unsafe { core::mem::transmute::<usize, fn() -> Option<u64>>(source) };
    source()
}

/// From here on, frames of stacks that are gone are given to `sink`, and hal
/// takes frames that it does not need for good.
///
/// # Safety
/// The frame source gives what may be given to it.
pub unsafe fn set_frame_sink(sink: fn(u64)) {
    FREED.store(sink as usize, Relaxed);
}

#[cfg_attr(
    not(target_os = "none"),
    allow(dead_code, reason = "the host's stacks are the OS's")
)]
pub(crate) fn sink() -> Option<fn(u64)> {
    let sink = FREED.load(Relaxed);
    // SAFETY: only `set_frame_sink` writes it, and writes a `fn(u64)`.
    (sink != 0).then(|| unsafe { core::mem::transmute::<usize, fn(u64)>(sink) })
}

fn with_kernel<T>(use_it: impl FnOnce(&mut Space) -> T) -> T {
    use_it(
        KERNEL
            .lock()
            .as_mut()
            .expect("boot has adopted its page tables"),
    )
}

/// Maps memory in the kernel's address space.
pub fn map(virt: usize, phys: u64, length: usize, access: Access) -> Result<(), MapError> {
    with_kernel(|space| space.map(virt, phys, length, access, &mut frame))
}

/// Takes pages out of the kernel's address space. `freed` gets the frame of
/// each; whoever reuses one must first wait for the ticket, because another
/// core may still hold the old translation.
///
/// # Safety
/// Nobody uses those pages any more.
pub unsafe fn unmap(
    virt: usize,
    length: usize,
    freed: impl FnMut(u64),
) -> Result<flush::Ticket, MapError> {
    with_kernel(|space| space.unmap(virt, length, freed))?;
    Ok(flush::issue())
}

/// Changes what may be done with pages of the kernel's address space. Other
/// cores may act by the old rule until the ticket is done.
///
/// # Safety
/// Nobody does with those pages what is no longer allowed, and they are memory before and after.
pub unsafe fn protect(
    virt: usize,
    length: usize,
    access: Access,
) -> Result<flush::Ticket, MapError> {
    with_kernel(|space| space.protect(virt, length, access))?;
    Ok(flush::issue())
}

/// What the kernel's address space has at `virt`.
pub fn translate(virt: usize) -> Option<(u64, Option<Access>)> {
    with_kernel(|space| space.translate(virt))
}

/// Visits every mapping of the kernel's address space.
pub fn walk(visit: &mut dyn FnMut(usize, u64, usize, Option<Access>)) {
    with_kernel(|space| space.walk(visit));
}

/// Next free address for device registers.
static NEXT_DEVICE: AtomicUsize = AtomicUsize::new(layout::DEVICES);

/// Maps the registers at `phys` and returns where they are seen.
pub fn map_device(phys: u64, length: usize) -> Result<usize, MapError> {
    let first = layout::page_down(phys);
    let length = (layout::page_up(phys + length as u64) - first) as usize;
    // One page between devices stays free, so that running over an end faults.
    let at = NEXT_DEVICE.fetch_add(length + PAGE, Relaxed);
    map(at, first, length, Access::Device)?;
    Ok(at + (phys - first) as usize)
}
