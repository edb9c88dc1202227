//! Stacks: room for one to grow down in, above a page that is never there.
//!
//! [`Stack`] is one that comes and goes, as those of contexts do: it has memory
//! only as far as it was used. [`allocate`] makes those that stay. `slots` and
//! `generations` are what the image's backend is made of.

pub mod generations;
pub mod slots;

use crate::{
    arch::stack as backend,
    layout::{self, PAGE},
    paging::{self, Access, MapError},
};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Lowest address of a stack and the first address above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Lowest address that may be used.
    pub low: usize,
    /// First address above it: where it begins, as it grows down.
    pub high: usize,
}

impl Bounds {
    /// No stack.
    pub const EMPTY: Self = Self { low: 0, high: 0 };

    /// Whether an access to `address` means that this stack was too small:
    /// it is in the guard page below, or between that and the stack.
    pub fn is_overflow(&self, address: usize) -> bool {
        self.low != 0 && (self.low - PAGE - backend::BELOW..self.low).contains(&address)
    }

    /// Whether `address` is on the stack.
    pub fn contains(&self, address: usize) -> bool {
        (self.low..self.high).contains(&address)
    }
}

/// How much room a stack has unless another size is asked for.
pub const DEFAULT_SIZE: usize = backend::DEFAULT_SIZE;
/// How much of a new stack has memory.
pub const FIRST: usize = 2 * PAGE;

/// There is no memory for another stack, or no room in the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl core::fmt::Display for NoMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no memory for another stack")
    }
}

/// A stack that gives its memory back when it is dropped.
#[derive(Debug)]
pub struct Stack(Bounds);

impl Stack {
    /// Room for `size` bytes, rounded up to whole pages; memory for the first
    /// few. Not in an interrupt, nor under a lock: with no memory left, it
    /// waits for that of stacks that were dropped.
    pub fn new(size: usize) -> Result<Self, NoMemory> {
        let size = layout::page_up(size as u64) as usize;
        backend::reserve(size.max(FIRST)).map(Self)
    }

    /// Where it is: all of its room.
    pub fn bounds(&self) -> Bounds {
        self.0
    }

    /// How many bytes of it have memory: as much as was ever in use, in pages.
    pub fn memory(&self) -> usize {
        backend::memory(self.0)
    }
}

impl Drop for Stack {
    /// Nothing runs on it any more. Not in an interrupt, nor under a lock.
    fn drop(&mut self) {
        // SAFETY: made by `reserve`, and nobody's any more.
        unsafe { backend::release(self.0) };
    }
}

/// Waits until all memory of stacks that were dropped is free again. Not under a lock.
pub fn collect() {
    backend::collect();
}

/// Fills this core's reserve of pages for stacks that grow under a guard. Not under a lock.
pub fn refill() {
    backend::refill();
}

/// How many pages this core's reserve has.
pub fn ready() -> usize {
    backend::ready()
}

/// Next free address for a stack.
static NEXT: AtomicUsize = AtomicUsize::new(layout::STACKS);

/// Makes a stack of `size` bytes, rounded up to whole pages, above a page that
/// is never mapped. `frame` gives its memory.
pub fn allocate(size: usize, mut frame: impl FnMut() -> Option<u64>) -> Result<Bounds, MapError> {
    let size = layout::page_up(size as u64) as usize;
    let low = NEXT.fetch_add(size + PAGE, Relaxed) + PAGE;
    for page in (low..low + size).step_by(PAGE) {
        let frame = frame().ok_or(MapError::OutOfFrames)?;
        paging::map(page, frame, PAGE, Access::ReadWrite)?;
    }
    Ok(Bounds {
        low,
        high: low + size,
    })
}
