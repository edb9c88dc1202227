//! The kernel heap: a cache per core and size class over shared slabs, and
//! whole frames for what is larger.
//!
//! A cache is a list of free objects that only its core touches, under a guard
//! against being switched away; an allocation that hits it takes no lock and
//! writes no word that another core writes. A miss fetches half a cache full
//! from the class's slabs, and a cache that is full returns its older half, so
//! a core that only frees what another allocates holds a bounded number, and
//! each takes the class's lock once for a batch. There are no headers: the
//! layout says the class, and the page's descriptor knows the slab.
//!
//! Interrupt handlers must not come here: they could meet their own core's
//! cache half changed. With debug assertions that is a panic.

use super::{
    caches::Caches,
    classes::{CLASSES, Class},
    frames::Frames,
    slabs::{self, Slabs},
};
use core::{
    alloc::{GlobalAlloc, Layout},
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*},
};
use hal::{
    cores::{self, MAX_CORES},
    irq,
    layout::PAGE,
    preempt,
    sync::{Lock, Rank, ranked},
};

/// The slabs of a class, apart from the words of others: two cache lines,
/// because they are fetched in pairs.
#[repr(align(128))]
pub(super) struct Shared(pub(super) Lock<Slabs>);

/// Counters of what does not go through a cache. Any core.
#[repr(align(128))]
pub(super) struct Counters {
    /// Large blocks in use, and their pages.
    pub(super) large: AtomicUsize,
    pub(super) large_pages: AtomicUsize,
    /// Pages that the heap has: slabs and large blocks.
    pub(super) pages: AtomicUsize,
    /// The most that those ever were.
    pub(super) peak_pages: AtomicUsize,
}

/// The heap. Ready to be the global allocator; all zeros at first, and null is
/// all it returns until [`init`](Self::init).
pub struct Heap {
    pub(super) caches: [Caches; MAX_CORES],
    pub(super) shared: [Shared; CLASSES],
    pub(super) counters: Counters,
    /// Written once, by `init`.
    frames: AtomicPtr<Frames>,
}

#[allow(clippy::new_without_default, reason = "made in a static")]
impl Heap {
    /// A heap without memory.
    pub const fn new() -> Self {
        Self {
            caches: [const { Caches::new() }; MAX_CORES],
            shared: [const { Shared(ranked(Rank::Heap, Slabs::new())) }; CLASSES],
            counters: Counters {
                large: AtomicUsize::new(0),
                large_pages: AtomicUsize::new(0),
                pages: AtomicUsize::new(0),
                peak_pages: AtomicUsize::new(0),
            },
            frames: AtomicPtr::new(null_mut()),
        }
    }

    /// From here on the heap takes its memory from `frames`.
    pub fn init(&self, frames: &'static Frames) {
        // Release pairs with the acquire in `frames`.
        self.frames
            .store(core::ptr::from_ref(frames).cast_mut(), Release);
    }

    fn frames(&self) -> Option<&'static Frames> {
        // SAFETY: null, or a `&'static Frames` from `init`. Acquire pairs with its release.
        unsafe { self.frames.load(Acquire).as_ref() }
    }

    /// This core's caches. The caller holds a guard as long as it uses them.
    #[inline]
    fn here(&self) -> &Caches {
        let core = cores::this_core();
        // Threads of the host may have numbers beyond.
        assert!(cfg!(target_os = "none") || core < MAX_CORES);
        // SAFETY: hal numbers the cores of a machine below `MAX_CORES`.
        unsafe { self.caches.get_unchecked(core) }
    }

    /// Gives the objects in this core's caches and all empty slabs back.
    /// Other cores' caches stay: they are theirs, and bounded.
    pub fn drain(&self) {
        let Some(frames) = self.frames() else { return };
        let _guard = preempt::guard();
        for class in Class::all() {
            self.flush(class, self.here(), frames, 0);
            let mut slabs = self.shared[class.index()].0.lock();
            let before = slabs.count;
            slabs.trim(frames, 0);
            self.counters
                .lost((before - slabs.count) << class.slab_order());
        }
    }

    /// Fetches half a cache full and returns one of it; null: out of memory.
    #[cold]
    #[inline(never)]
    fn refill(&self, class: Class, _guard: preempt::Guard) -> *mut u8 {
        let caches = self.here();
        caches.count_miss(class);
        let Some(frames) = self.frames() else {
            return null_mut();
        };
        let shared = &self.shared[class.index()].0;
        let mut chain = shared.lock().take(class, &frames.map, class.batch());
        if chain.count == 0 {
            let Some(block) = self.pages(frames, 1 << class.slab_order(), class.slab_order())
            else {
                return null_mut();
            };
            let mut slabs = shared.lock();
            slabs.add(class, &frames.map, block);
            chain = slabs.take(class, &frames.map, class.batch());
        }
        let Some(object) = NonNull::new(chain.first) else {
            return null_mut();
        };
        // SAFETY: the objects of the chain are free, and this core's alone.
        let rest = unsafe { slabs::next(object) };
        // Draining in `pages` may have left the cache other than it was, but never fuller than empty.
        caches.set(class, rest, chain.count - 1);
        handed_out(object)
    }

    /// Returns all but the newest `keep` objects of this core's cache to their slabs.
    fn flush(&self, class: Class, caches: &Caches, frames: &Frames, keep: u32) {
        let mut rest = caches.cut(class, keep);
        let mut slabs = self.shared[class.index()].0.lock();
        let before = slabs.count;
        while let Some(object) = NonNull::new(rest) {
            // SAFETY: free objects of this class, which are in the cache no more.
            unsafe {
                rest = slabs::next(object);
                slabs.put(class, frames, object);
            }
        }
        self.counters
            .lost((before - slabs.count) << class.slab_order());
    }

    /// Makes room in a full cache and puts the object there.
    #[cold]
    #[inline(never)]
    fn overflow(&self, class: Class, object: NonNull<u8>, _guard: preempt::Guard) {
        let caches = self.here();
        let Some(frames) = self.frames() else { return };
        self.flush(class, caches, frames, class.batch());
        let pushed = caches.push(class, object);
        debug_assert!(pushed, "there is room after a flush");
    }

    /// Pages from the frame allocator; when it has none, after giving back what this core can spare.
    fn pages(&self, frames: &Frames, count: usize, align_order: usize) -> Option<u64> {
        let block = frames.alloc_pages(count, align_order).or_else(|| {
            self.drain();
            frames.alloc_pages(count, align_order)
        })?;
        self.counters.gained(count);
        Some(block)
    }

    #[cold]
    #[inline(never)]
    fn alloc_large(&self, layout: Layout) -> *mut u8 {
        let Some(frames) = self.frames() else {
            return null_mut();
        };
        let count = layout.size().div_ceil(PAGE).max(1);
        let align_order = layout.align().div_ceil(PAGE).ilog2() as usize;
        let Some(block) = self.pages(frames, count, align_order) else {
            return null_mut();
        };
        self.counters.large.fetch_add(1, Relaxed);
        self.counters.large_pages.fetch_add(count, Relaxed);
        frames.map.to_virt(block)
    }

    /// Gives back all but the first `keep` pages of a large block.
    #[cold]
    #[inline(never)]
    fn shrink_large(&self, block: *mut u8, keep: usize) {
        let Some(frames) = self.frames() else { return };
        let freed = frames.shrink(frames.map.to_phys(block), keep);
        self.counters.lost(freed);
        self.counters.large_pages.fetch_sub(freed, Relaxed);
        if keep == 0 {
            self.counters.large.fetch_sub(1, Relaxed);
        }
    }
}

impl Counters {
    fn gained(&self, pages: usize) {
        let now = self.pages.fetch_add(pages, Relaxed) + pages;
        self.peak_pages.fetch_max(now, Relaxed);
    }

    fn lost(&self, pages: usize) {
        if pages > 0 {
            self.pages.fetch_sub(pages, Relaxed);
        }
    }
}

/// Looks whether the object is as it was left when it was freed.
#[inline]
fn handed_out(object: NonNull<u8>) -> *mut u8 {
    if cfg!(debug_assertions) {
        // SAFETY: the object was free a moment ago, and is nobody else's.
        unsafe { slabs::open(object) };
    }
    object.as_ptr()
}

#[inline]
fn assert_not_in_a_handler() {
    debug_assert!(!irq::in_handler(), "allocation in an interrupt handler");
}

// SAFETY: every object is in exactly one place: its slab, one cache, or in use. Slabs are changed under
// the lock of their class, a cache by its core alone. An object is as large and aligned as its class,
// which `Class::of` picks to fit; a large block is whole pages. Nothing here unwinds but debug assertions.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        assert_not_in_a_handler();
        #[cfg(all(feature = "kernel-test", target_os = "none"))]
        if super::failing::fails() {
            return null_mut();
        }
        let Some(class) = Class::of(layout.size(), layout.align()) else {
            return self.alloc_large(layout);
        };
        let guard = preempt::guard();
        let Some(object) = self.here().pop(class) else {
            return self.refill(class, guard);
        };
        guard.release(handed_out(object))
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        assert_not_in_a_handler();
        let Some(class) = Class::of(layout.size(), layout.align()) else {
            return self.shrink_large(object, 0);
        };
        // SAFETY: the caller promises that it is an object of this heap.
        let object = unsafe { NonNull::new_unchecked(object) };
        if cfg!(debug_assertions) {
            // SAFETY: the caller gives the object back.
            unsafe { slabs::close(object) };
        }
        let guard = preempt::guard();
        if !self.here().push(class, object) {
            self.overflow(class, object, guard);
        }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let class = Class::of(layout.size(), layout.align());
        if class == Class::of(new_size, layout.align()) {
            if class.is_some() {
                return object;
            }
            let (old, new) = (layout.size().div_ceil(PAGE), new_size.div_ceil(PAGE));
            if new <= old {
                if new < old {
                    self.shrink_large(object, new);
                }
                return object;
            }
        }
        // SAFETY: the caller promises that `new_size`, rounded up to the alignment, is no overflow;
        // both blocks have at least as many bytes as are copied, and they are different blocks.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(object, layout.size().min(new_size));
                self.dealloc(object, layout);
            }
            moved
        }
    }
}
