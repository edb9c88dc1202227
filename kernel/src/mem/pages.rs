//! What is known of each page: a descriptor of 16 bytes, and where it is.
//!
//! The descriptors of all regions form one array, without gaps for the holes
//! between regions; a page is named by its *index* in that array. The buddy
//! allocator and the heap keep their lists in the descriptors, so free memory
//! is never touched.

use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};
use hal::layout::PAGE;

/// Most regions; as many as boot's memory map has room for.
pub const MAX_REGIONS: usize = 128;

/// Descriptor of one page. Everything is atomic because the buddy allocator
/// looks at the state of pages that belong to others; no field is ever written
/// by two sides.
#[repr(C, align(16))]
pub struct Page {
    // The frame allocator's lock:
    /// What the page is; see `buddy`.
    pub state: AtomicU8,

    // Whoever allocated the block; for slabs the lock of their class:
    /// Class of the slab that begins here plus one; 0: no slab.
    pub class: AtomicU8,
    /// Slab: objects that were never handed out begin with this one.
    pub fresh: AtomicU16,
    /// Slab: first of the objects that came back, in units of 16 bytes plus one; 0: none.
    pub free: AtomicU16,
    /// Slab: objects that are handed out.
    pub used: AtomicU16,

    // The lock of the list that the page is in: the frame allocator's while the
    // block is free, the class's while it is a slab:
    next: AtomicU32,
    prev: AtomicU32,
}

const _: () = assert!(size_of::<Page>() == 16);

/// A stretch of memory. Written once, before the map is published.
struct Region {
    /// Number of its first frame: physical address divided by the size of a page.
    frame: AtomicU64,
    /// Index of its first page.
    first: AtomicU32,
    /// How many pages.
    length: AtomicU32,
}

/// Where every page and its descriptor are.
pub struct PageMap {
    // Written by `init`, once:
    /// Added to a physical address to reach the memory.
    window: AtomicUsize,
    pages: AtomicPtr<Page>,
    regions: [Region; MAX_REGIONS],
    /// How many regions there are. Written last.
    count: AtomicUsize,
}

/// The frames of a region, as the buddy allocator wants them.
#[derive(Clone, Copy)]
pub struct Span {
    /// Number of its first frame.
    pub frame: u64,
    /// Index of its first page.
    pub first: u32,
    /// How many pages.
    pub length: u32,
}

impl PageMap {
    /// A map of nothing.
    pub const fn new() -> Self {
        Self {
            window: AtomicUsize::new(0),
            pages: AtomicPtr::new(core::ptr::null_mut()),
            regions: [const {
                Region {
                    frame: AtomicU64::new(0),
                    first: AtomicU32::new(0),
                    length: AtomicU32::new(0),
                }
            }; MAX_REGIONS],
            count: AtomicUsize::new(0),
        }
    }

    /// Describes `spans`: at most [`MAX_REGIONS`], in order of address, with
    /// indices that count on from one to the next.
    ///
    /// # Safety
    /// (1) Called once. (2) `pages` points to a zeroed descriptor for each index, for good.
    /// (3) The memory of the spans is seen at its physical address plus `window`.
    pub unsafe fn init(&self, window: usize, pages: *mut Page, spans: &[Span]) {
        self.window.store(window, Relaxed);
        self.pages.store(pages, Relaxed);
        for (region, span) in self.regions.iter().zip(spans) {
            region.frame.store(span.frame, Relaxed);
            region.first.store(span.first, Relaxed);
            region.length.store(span.length, Relaxed);
        }
        // Release pairs with the acquire in `regions`.
        self.count.store(spans.len().min(MAX_REGIONS), Release);
    }

    fn regions(&self) -> &[Region] {
        // Acquire pairs with the release in `init`.
        &self.regions[..self.count.load(Acquire)]
    }

    /// The regions, lowest first.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.regions().iter().map(Region::span)
    }

    /// Descriptor of the page with this index.
    #[inline]
    pub fn page(&self, index: u32) -> &Page {
        debug_assert!(index < self.total(), "no page has this index");
        // SAFETY: indices come from `index_of`, the spans or lists of such, so by `init`'s second
        // point there is a descriptor; it is never written but through its atomics.
        unsafe { &*self.pages.load(Relaxed).add(index as usize) }
    }

    /// How many pages there are.
    pub fn total(&self) -> u32 {
        self.regions().last().map_or(0, |region| {
            let span = region.span();
            span.first + span.length
        })
    }

    /// The region that the page with this index is in.
    pub fn span_of(&self, index: u32) -> Span {
        let regions = self.regions();
        let behind = regions.partition_point(|region| region.first.load(Relaxed) <= index);
        regions[behind - 1].span()
    }

    /// Index of the page at physical address `phys`; `None`: no page begins there.
    pub fn index_of(&self, phys: u64) -> Option<u32> {
        if !phys.is_multiple_of(PAGE as u64) {
            return None;
        }
        let frame = phys / PAGE as u64;
        let regions = self.regions();
        let behind = regions.partition_point(|region| region.frame.load(Relaxed) <= frame);
        let span = regions[behind.checked_sub(1)?].span();
        let offset = frame - span.frame;
        (offset < u64::from(span.length)).then_some(span.first + offset as u32)
    }

    /// Physical address of the page with this index.
    pub fn phys_of(&self, index: u32) -> u64 {
        let span = self.span_of(index);
        (span.frame + u64::from(index - span.first)) * PAGE as u64
    }

    /// Where the memory at `phys` is seen.
    #[inline]
    pub fn to_virt(&self, phys: u64) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(
            (phys as usize).wrapping_add(self.window.load(Relaxed)),
        )
    }

    /// Physical address of what is seen at `address`.
    #[inline]
    pub fn to_phys(&self, address: *mut u8) -> u64 {
        address
            .expose_provenance()
            .wrapping_sub(self.window.load(Relaxed)) as u64
    }
}

impl Region {
    fn span(&self) -> Span {
        Span {
            frame: self.frame.load(Relaxed),
            first: self.first.load(Relaxed),
            length: self.length.load(Relaxed),
        }
    }
}

/// A doubly linked list of pages through their descriptors. Changed only under
/// the lock of whoever owns the list and all pages in it. Links are indices
/// plus one, so that zeroed memory is an empty list.
pub struct List {
    head: u32,
}

impl List {
    /// An empty list.
    pub const fn new() -> Self {
        Self { head: 0 }
    }

    /// The page at the front.
    pub fn first(&self) -> Option<u32> {
        self.head.checked_sub(1)
    }

    /// Puts a page that is in no list to the front.
    pub fn push(&mut self, map: &PageMap, index: u32) {
        let page = map.page(index);
        page.prev.store(0, Relaxed);
        page.next.store(self.head, Relaxed);
        if let Some(second) = self.first() {
            map.page(second).prev.store(index + 1, Relaxed);
        }
        self.head = index + 1;
    }

    /// Takes a page out that is in this list.
    pub fn remove(&mut self, map: &PageMap, index: u32) {
        let page = map.page(index);
        let (prev, next) = (page.prev.load(Relaxed), page.next.load(Relaxed));
        match prev.checked_sub(1) {
            Some(prev) => map.page(prev).next.store(next, Relaxed),
            None => {
                debug_assert_eq!(self.head, index + 1, "the page is in another list");
                self.head = next;
            }
        }
        if let Some(next) = next.checked_sub(1) {
            map.page(next).prev.store(prev, Relaxed);
        }
    }

    /// Takes the page at the front.
    pub fn pop(&mut self, map: &PageMap) -> Option<u32> {
        let first = self.first()?;
        self.remove(map, first);
        Some(first)
    }
}
