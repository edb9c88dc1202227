//! Stacks of contexts. For now they have all their memory from the beginning, and keep it.

use crate::{
    paging,
    stack::{self, Bounds, NoMemory},
};

/// Room for a context.
pub const DEFAULT_SIZE: usize = 64 << 10;

/// Makes a stack above a page that is not there.
pub fn reserve(size: usize) -> Result<Bounds, NoMemory> {
    stack::allocate(size, paging::frame).map_err(|_| NoMemory)
}

/// Keeps it.
///
/// # Safety
/// None needed.
pub unsafe fn release(_: Bounds) {}

/// How much of it has memory.
pub fn memory(bounds: Bounds) -> usize {
    bounds.high - bounds.low
}
