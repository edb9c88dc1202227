//! The frame allocator: physical memory in whole pages.
//!
//! Built from the regions of the boot memory map. The descriptors of all pages
//! (16 bytes each, 0.4 %) are put at the end of the largest region. Allocating
//! and freeing take a number of steps that grows with the logarithm of the
//! memory, behind one lock.

use super::{
    buddy::{Buddy, NotAllocated},
    pages::{MAX_REGIONS, Page, PageMap, Span},
};
use hal::{
    layout::{self, PAGE},
    sync::Lock,
};

/// The frame allocator. Empty until [`init`](Self::init).
pub struct Frames {
    pub(super) map: PageMap,
    buddy: Lock<Buddy>,
}

/// How much memory there is, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameStats {
    /// All that the allocator was given, without its own descriptors.
    pub total: usize,
    /// Free now.
    pub free: usize,
    /// The largest free block.
    pub largest: usize,
}

#[allow(clippy::new_without_default, reason = "made in a static")]
impl Frames {
    /// No memory yet.
    pub const fn new() -> Self {
        Self {
            map: PageMap::new(),
            buddy: Lock::new(Buddy::new()),
        }
    }

    /// Takes over the memory of `regions`: from the first byte to before the
    /// second, physical, cut to whole pages, in any order. What is beyond
    /// `MAX_REGIONS` is left out. Frame 0 is never given out: as an address in a table
    /// or a register, 0 means none.
    ///
    /// # Safety
    /// (1) Called once, before anyone allocates. (2) Nobody uses the memory, for good.
    /// (3) All of it is seen at its physical address plus `window`.
    pub unsafe fn init(&self, window: usize, regions: impl Iterator<Item = (u64, u64)>) {
        let mut spans = [Span {
            frame: 0,
            first: 0,
            length: 0,
        }; MAX_REGIONS];
        let count = gather(&mut spans, regions);
        let spans = &mut spans[..count];
        let total: usize = spans.iter().map(|span| span.length as usize).sum();
        let Some(home) = spans.iter_mut().max_by_key(|span| span.length) else {
            return;
        };
        // With no more than 128 regions the largest has at least a 128th of all pages, and a
        // 256th is enough; only if there are but a few pages at all may it not be.
        let needed = (total * size_of::<Page>()).div_ceil(PAGE) as u32;
        if home.length <= needed {
            return;
        }
        home.length -= needed;
        let pages = (home.frame + u64::from(home.length)) * PAGE as u64;
        let pages = (pages as usize).wrapping_add(window) as *mut Page;
        // SAFETY: points 2 and 3: the memory is there and nobody else's; whole pages are aligned enough.
        unsafe { pages.write_bytes(0, total) };
        let mut first = 0;
        for span in spans.iter_mut() {
            span.first = first;
            first += span.length;
        }
        // SAFETY: point 1, the zeroed array above with one descriptor for each page, and point 3.
        unsafe { self.map.init(window, pages, spans) };
        let mut buddy = self.buddy.lock();
        for span in self.map.spans() {
            buddy.add(&self.map, span);
        }
    }

    /// A frame with anything in it.
    pub fn alloc_frame(&self) -> Option<u64> {
        self.alloc_pages(1, 0)
    }

    /// A frame of zeros.
    pub fn alloc_zeroed_frame(&self) -> Option<u64> {
        let frame = self.alloc_frame()?;
        // SAFETY: the frame was just allocated, and `init`'s caller promised that it is seen there.
        unsafe { self.map.to_virt(frame).write_bytes(0, PAGE) };
        Some(frame)
    }

    /// Two to the `order` frames, aligned to as many.
    pub fn alloc_order(&self, order: usize) -> Option<u64> {
        self.alloc_pages(1usize.checked_shl(order as u32)?, order)
    }

    /// `count` frames side by side, the first aligned to two to the `align_order` frames.
    pub fn alloc_pages(&self, count: usize, align_order: usize) -> Option<u64> {
        let index = self.buddy.lock().allocate(&self.map, count, align_order)?;
        Some(self.map.phys_of(index))
    }

    /// Gives back what an `alloc_*` returned.
    ///
    /// What was not allocated is left alone; with debug assertions it is a panic.
    pub fn free(&self, phys: u64) -> usize {
        self.shrink(phys, 0)
    }

    /// Gives back all but the first `keep` frames of an allocation; returns how many that were.
    pub fn shrink(&self, phys: u64, keep: usize) -> usize {
        let freed = self
            .map
            .index_of(phys)
            .ok_or("is not the frame allocator's")
            .and_then(|index| {
                let released = self.buddy.lock().release(&self.map, index, keep);
                released.map_err(|NotAllocated| "was freed, but no allocation begins there")
            });
        match freed {
            Ok(count) => count,
            Err(problem) if cfg!(debug_assertions) => panic!("frame {phys:#x} {problem}"),
            Err(_) => 0,
        }
    }

    /// How much there is.
    pub fn stats(&self) -> FrameStats {
        let buddy = self.buddy.lock();
        FrameStats {
            total: self.map.total() as usize,
            free: buddy.free_pages(),
            largest: buddy.largest(),
        }
    }
}

/// Writes the regions down in order of address, with those that touch made one.
fn gather(spans: &mut [Span], regions: impl Iterator<Item = (u64, u64)>) -> usize {
    let mut count = 0;
    // Indices have 32 bits: 16 TiB are enough.
    let mut room = u64::from(u32::MAX - 1);
    for (start, end) in regions {
        let start = layout::page_up(start).max(PAGE as u64) / PAGE as u64;
        let end = layout::page_down(end) / PAGE as u64;
        let end = end.min(start + room);
        if start >= end {
            continue;
        }
        if count == spans.len() {
            break;
        }
        let at = spans[..count].partition_point(|span| span.frame < start);
        spans.copy_within(at..count, at + 1);
        spans[at] = Span {
            frame: start,
            first: 0,
            length: (end - start) as u32,
        };
        count += 1;
        room -= end - start;
    }
    let mut last = 0;
    for i in 1..count {
        let Span { frame, length, .. } = spans[i];
        let end = spans[last].frame + u64::from(spans[last].length);
        debug_assert!(frame >= end, "regions of the memory map overlap");
        if frame == end {
            spans[last].length += length;
        } else {
            last += 1;
            spans[last] = spans[i];
        }
    }
    count.min(last + 1)
}
