//! Stacks of contexts: the OS gives memory to a page when it is first touched.

use crate::{
    layout::PAGE,
    stack::{Bounds, NoMemory},
};
use core::ptr;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// As much as the OS gives a program's first thread.
pub const DEFAULT_SIZE: usize = 8 << 20;

/// Makes a stack above a page that cannot be touched.
pub fn reserve(size: usize) -> Result<Bounds, NoMemory> {
    let whole = size.checked_add(PAGE).ok_or(NoMemory)?;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: new memory, wherever the OS likes.
    let guard =
        unsafe { mmap_anonymous(ptr::null_mut(), whole, rights, flags) }.map_err(|_| NoMemory)?;
    // SAFETY: the first page of it, which nobody uses yet.
    if unsafe { mprotect(guard, PAGE, MprotectFlags::empty()) }.is_err() {
        // SAFETY: as above.
        let _ = unsafe { munmap(guard, whole) };
        return Err(NoMemory);
    }
    let low = guard.expose_provenance() + PAGE;
    let bounds = Bounds {
        low,
        high: low + size,
    };
    #[cfg(asan)]
    super::sanitizer::stack_is_new(bounds);
    Ok(bounds)
}

/// Gives it back.
///
/// # Safety
/// It is from [`reserve`], and nobody's any more.
pub unsafe fn release(bounds: Bounds) {
    #[cfg(asan)]
    super::sanitizer::stack_goes(bounds);
    let guard = bounds.low - PAGE;
    // SAFETY: the caller's promise.
    let done = unsafe { munmap(ptr::with_exposed_provenance_mut(guard), bounds.high - guard) };
    debug_assert!(done.is_ok());
}

/// How much of it has memory: the OS knows, and is not asked.
pub fn memory(bounds: Bounds) -> usize {
    bounds.high - bounds.low
}

/// All is given back at once.
pub fn collect() {}

/// The OS gives pages under a guard too.
pub fn lacks() -> bool {
    false
}

/// There is no reserve.
pub fn refill() {}

/// The OS ends the program if one does, guard or not.
pub const BELOW: usize = 0;

/// As above.
pub fn overflow() {}

/// There is no reserve.
pub fn ready() -> usize {
    0
}
