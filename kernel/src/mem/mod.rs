//! Memory: frames, and the heap above them.
//!
//! | | |
//! |---|---|
//! | `frames` | physical memory in whole pages |
//! | `buddy`, `pages` | how those are found and described |
//! | `heap` | the global allocator |
//! | `classes`, `caches`, `slabs` | its sizes, what each core keeps at hand, and where that comes from |
//! | `stats` | how much is used, and by what |
//!
//! All of it is portable and is given its memory, so the same code is tested
//! on the host over an ordinary buffer.

mod buddy;
mod caches;
mod classes;
mod frames;
mod heap;
mod pages;
mod slabs;
mod stats;

#[cfg(all(feature = "kernel-test", target_os = "none"))]
pub mod failing;
#[cfg(test)]
mod host_tests;
#[cfg(any(test, all(feature = "kernel-test", target_os = "none")))]
mod stress;
#[cfg(all(feature = "kernel-test", target_os = "none"))]
mod tests;

pub use frames::{FrameStats, Frames};
pub use heap::Heap;
pub use stats::{ClassStats, HeapStats, Stats};

use hal::layout::DIRECT_MAP;

/// The machine's frames.
static FRAMES: Frames = Frames::new();

/// The machine's heap.
#[cfg_attr(target_os = "none", global_allocator)]
static HEAP: Heap = Heap::new();

/// Takes over the usable memory: `regions` from first byte to behind the last,
/// physical. From here on there are frames and a heap.
///
/// # Safety
/// Called once, by the boot core, before anything is allocated. The memory is in the
/// direct map, and nobody else's, for good.
pub unsafe fn init(regions: impl Iterator<Item = (u64, u64)>) {
    // SAFETY: the caller's promise.
    unsafe { FRAMES.init(DIRECT_MAP, regions) };
    HEAP.init(&FRAMES);
}

/// The machine's frame allocator.
pub fn frames() -> &'static Frames {
    &FRAMES
}

/// The machine's heap.
pub fn heap() -> &'static Heap {
    &HEAP
}

/// A frame with anything in it.
pub fn alloc_frame() -> Option<u64> {
    FRAMES.alloc_frame()
}

/// A frame of zeros: for page tables.
pub fn alloc_zeroed_frame() -> Option<u64> {
    FRAMES.alloc_zeroed_frame()
}

/// Gives a frame back.
pub fn free_frame(frame: u64) {
    FRAMES.free(frame);
}

/// How much memory is used, and by what.
pub fn stats() -> Stats {
    Stats::of(&FRAMES, &HEAP)
}
