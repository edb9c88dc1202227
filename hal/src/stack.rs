//! Stacks with a guard page below.

use crate::{
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
    /// it is in the guard page right below.
    pub fn is_overflow(&self, address: usize) -> bool {
        self.low != 0 && (self.low - PAGE..self.low).contains(&address)
    }

    /// Whether `address` is on the stack.
    pub fn contains(&self, address: usize) -> bool {
        (self.low..self.high).contains(&address)
    }
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
