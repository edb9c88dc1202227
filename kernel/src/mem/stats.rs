//! How much memory is used, and by what. Counted by each core for itself and
//! added up when asked, so while cores allocate the numbers are of slightly
//! different moments.

use super::{
    classes::{CLASSES, Class},
    frames::{FrameStats, Frames},
    heap::Heap,
};
use core::{fmt, sync::atomic::Ordering::Relaxed};
use hal::layout::PAGE;

/// Numbers of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Bytes of an object.
    pub size: usize,
    /// Objects in use.
    pub live: usize,
    /// Free objects in the caches of all cores.
    pub cached: usize,
    /// Pages of its slabs.
    pub pages: usize,
    /// Allocations that were served from the core's cache.
    pub hits: u64,
    /// Those that found it empty.
    pub misses: u64,
}

/// Numbers of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapStats {
    /// Each class, smallest first.
    pub classes: [ClassStats; CLASSES],
    /// Blocks larger than any class, and their pages.
    pub large: usize,
    /// Pages of those.
    pub large_pages: usize,
    /// Pages the heap has from the frame allocator.
    pub pages: usize,
    /// The most that ever was.
    pub peak_pages: usize,
}

impl HeapStats {
    /// Objects in use.
    pub fn live_objects(&self) -> usize {
        self.large + self.classes.iter().map(|class| class.live).sum::<usize>()
    }

    /// Bytes that those take.
    pub fn live_bytes(&self) -> usize {
        self.large_pages * PAGE
            + self
                .classes
                .iter()
                .map(|class| class.live * class.size)
                .sum::<usize>()
    }

    /// Allocations that were served from a cache, and those that were not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        self.classes.iter().fold((0, 0), |(hits, misses), class| {
            (hits + class.hits, misses + class.misses)
        })
    }
}

impl Heap {
    /// The heap's numbers.
    pub fn stats(&self) -> HeapStats {
        let mut classes = [ClassStats::default(); CLASSES];
        for (class, stats) in Class::all().zip(&mut classes) {
            for caches in &self.caches {
                stats.cached += caches.count(class) as usize;
                stats.hits += caches.hits[class.index()].load(Relaxed);
                stats.misses += caches.misses[class.index()].load(Relaxed);
            }
            let slabs = self.shared[class.index()].0.lock();
            stats.size = class.size();
            stats.live = slabs.out.saturating_sub(stats.cached);
            stats.pages = slabs.count << class.slab_order();
        }
        HeapStats {
            classes,
            large: self.counters.large.load(Relaxed),
            large_pages: self.counters.large_pages.load(Relaxed),
            pages: self.counters.pages.load(Relaxed),
            peak_pages: self.counters.peak_pages.load(Relaxed),
        }
    }
}

/// All numbers of memory. As text: a table for people.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Frames the machine has.
    pub frames_total: usize,
    /// Frames that are free.
    pub frames_free: usize,
    /// Frames in the largest free block.
    pub frames_largest: usize,
    /// Bytes in use on the heap.
    pub live_bytes: usize,
    /// Objects in use on the heap.
    pub live_objects: usize,
    /// More about the heap.
    pub heap: HeapStats,
}

impl Stats {
    pub(super) fn of(frames: &Frames, heap: &Heap) -> Self {
        let FrameStats {
            total,
            free,
            largest,
        } = frames.stats();
        let heap = heap.stats();
        Self {
            frames_total: total,
            frames_free: free,
            frames_largest: largest,
            live_bytes: heap.live_bytes(),
            live_objects: heap.live_objects(),
            heap,
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = |pages: usize| pages * (PAGE / 1024);
        let heap = &self.heap;
        writeln!(
            f,
            "frames: {} of {} KiB free, the largest block {} KiB",
            kib(self.frames_free),
            kib(self.frames_total),
            kib(self.frames_largest)
        )?;
        writeln!(
            f,
            "heap:   {} bytes in {} objects; {} KiB of frames, at most {} KiB so far",
            self.live_bytes,
            self.live_objects,
            kib(heap.pages),
            kib(heap.peak_pages)
        )?;
        let (hits, misses) = heap.hits_and_misses();
        let all = (hits + misses).max(1);
        writeln!(
            f,
            "caches: {hits} hits, {misses} misses ({} % hits)",
            hits * 100 / all
        )?;
        write!(
            f,
            "    size      live    cached   KiB         hits     misses"
        )?;
        for class in heap.classes.iter().filter(|class| class.misses > 0) {
            write!(
                f,
                "\n{:8} {:9} {:9} {:5} {:12} {:10}",
                class.size,
                class.live,
                class.cached,
                kib(class.pages),
                class.hits,
                class.misses
            )?;
        }
        write!(
            f,
            "\n  larger {:9} {:>9} {:5}",
            heap.large,
            "-",
            kib(heap.large_pages)
        )
    }
}
