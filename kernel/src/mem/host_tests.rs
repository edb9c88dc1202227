//! Tests of memory on the host: the same code over a buffer that plays the
//! physical memory, and threads that play cores.

mod cores;
mod frames;
mod heap;

use super::{Frames, Heap};
use std::{
    alloc::{GlobalAlloc, Layout, alloc_zeroed, dealloc},
    ops::Range,
    slice,
};

/// A machine's memory, its frames and its heap.
struct Machine {
    frames: &'static Frames,
    heap: &'static Heap,
    /// Where the memory really is.
    memory: (*mut u8, Layout),
}

/// Physical address at which a machine's memory begins.
const BASE: u64 = 0x4000_0000;
const PAGE: u64 = hal::layout::PAGE as u64;

impl Machine {
    /// A machine with memory in these pages, counted from `BASE`.
    fn new(regions: &[Range<u64>]) -> Self {
        Self::at(BASE, regions)
    }

    /// A machine whose memory is at `base`.
    fn at(base: u64, regions: &[Range<u64>]) -> Self {
        let pages = regions.iter().map(|region| region.end).max().unwrap_or(0);
        let layout = Layout::from_size_align((pages * PAGE) as usize, 1 << 21).unwrap();
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let frames: &'static Frames = Box::leak(Box::new(Frames::new()));
        let heap: &'static Heap = Box::leak(Box::new(Heap::new()));
        let window = memory.expose_provenance().wrapping_sub(base as usize);
        let regions = regions
            .iter()
            .map(|region| (base + region.start * PAGE, base + region.end * PAGE));
        // SAFETY: new, and the buffer is this machine's alone, and seen through the window.
        unsafe { frames.init(window, regions) };
        heap.init(frames);
        Self {
            frames,
            heap,
            memory: (memory, layout),
        }
    }

    /// A machine with `pages` pages of memory in one piece.
    fn with_pages(pages: u64) -> Self {
        Self::new(slice::from_ref(&(0..pages)))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: made by `new` in the same way; nothing of the machine is used after it.
        unsafe {
            drop(Box::from_raw(std::ptr::from_ref(self.frames).cast_mut()));
            drop(Box::from_raw(std::ptr::from_ref(self.heap).cast_mut()));
            dealloc(self.memory.0, self.memory.1);
        }
    }
}

// SAFETY: the pointer is only used to free the memory at the end.
unsafe impl Sync for Machine {}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

impl Machine {
    fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no test asks for 0 bytes.
        unsafe { self.heap.alloc(layout) }
    }

    fn free(&self, block: *mut u8, layout: Layout) {
        // SAFETY: tests give back what they got, but for those that show what happens if not.
        unsafe { self.heap.dealloc(block, layout) }
    }

    /// Nothing is in use, and with this core's caches drained no page is either.
    fn assert_all_is_back(&self) {
        self.heap.drain();
        let stats = self.heap.stats();
        assert_eq!(
            (stats.live_objects(), stats.live_bytes(), stats.pages),
            (0, 0, 0)
        );
        let frames = self.frames.stats();
        assert_eq!(frames.free, frames.total);
    }
}
