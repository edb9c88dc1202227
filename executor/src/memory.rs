//! Memory that may not be there: allocations that say so, and do not panic.
//!
//! Boxes and `Arc`s have no such forms in stable Rust. [`try_box`] and [`try_slice`] make boxes as
//! all others are; [`Counted`] is our `Arc`, as nobody else can make one of those.

mod counted;

pub use self::counted::{Counted, Inner, OnWake};

use alloc::{boxed::Box, vec::Vec};
use core::{alloc::Layout, fmt};

/// There is no memory for it.
///
/// ```
/// use executor::{NoMemory, sync::channel::try_bounded};
///
/// // Far more than there is.
/// let channel = try_bounded::<[u8; 4096]>(1 << 40);
/// assert_eq!(channel.unwrap_err(), NoMemory);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no memory for it")
    }
}

impl core::error::Error for NoMemory {}

/// Puts a value into a box, or gives it back.
#[inline]
pub(crate) fn try_box<T>(value: T) -> Result<Box<T>, T> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        // Nothing needs no memory.
        return Ok(Box::new(value));
    }
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc::alloc::alloc(layout) }.cast::<T>();
    if memory.is_null() {
        return Err(value);
    }
    // SAFETY: fresh memory of its layout from the global allocator: that is what a box is.
    unsafe {
        memory.write(value);
        Ok(Box::from_raw(memory))
    }
}

/// A slice of what `make` makes of each index; None of that: there is no memory for a part of it.
pub(crate) fn try_slice<T>(
    count: usize,
    mut make: impl FnMut(usize) -> Option<T>,
) -> Result<Box<[T]>, NoMemory> {
    let mut items = Vec::new();
    items.try_reserve_exact(count).map_err(|_| NoMemory)?;
    for index in 0..count {
        items.push(make(index).ok_or(NoMemory)?);
    }
    // It is full, so nothing is moved.
    Ok(items.into_boxed_slice())
}
