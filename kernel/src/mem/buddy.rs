//! Free frames, in blocks of 1, 2, 4, .. pages, each aligned to its size.
//!
//! The state of a page says whether a block begins there, so the buddy of a
//! block that is freed is judged by one look at its descriptor. A number of
//! pages that is no power of two is allocated as the blocks that its binary
//! digits name, side by side: the first is `USED`, those behind it `PART`.
//! What is beyond goes back at once, so 5 pages cost 5.

use super::pages::{List, PageMap, Span};
use core::sync::atomic::Ordering::Relaxed;

/// The largest block has two to this many pages: 1 GiB.
pub const MAX_ORDER: usize = 18;

// States: one of these and, for those that begin a block, its order. Written
// under the frame allocator's lock only, which guards every `Buddy`.
/// Inside a block.
const INSIDE: u8 = 0;
/// First page of a free block.
const FREE: u8 = 1 << 5;
/// First page of an allocation.
const USED: u8 = 2 << 5;
/// First page of a block that continues an allocation.
const PART: u8 = 3 << 5;
const KIND: u8 = 3 << 5;

/// The free blocks.
pub struct Buddy {
    lists: [List; MAX_ORDER + 1],
    /// Orders whose list is not empty, one bit each.
    filled: u32,
    /// Free pages.
    free: usize,
}

/// What is wrong with a page that was to be freed: no allocation begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAllocated;

/// How many orders up is needed for `count` pages.
fn order_for(count: usize) -> usize {
    count.next_power_of_two().trailing_zeros() as usize
}

impl Buddy {
    /// Nothing is free.
    pub const fn new() -> Self {
        Self {
            lists: [const { List::new() }; MAX_ORDER + 1],
            filled: 0,
            free: 0,
        }
    }

    /// Free pages.
    pub fn free_pages(&self) -> usize {
        self.free
    }

    /// Pages of the largest free block.
    pub fn largest(&self) -> usize {
        self.filled.checked_ilog2().map_or(0, |order| 1 << order)
    }

    /// Makes all pages of a region free. Their descriptors are zeroed.
    pub fn add(&mut self, map: &PageMap, span: Span) {
        let (mut frame, end) = (span.frame, span.frame + u64::from(span.length));
        while frame < end {
            let aligned = frame.trailing_zeros() as usize;
            let fits = (end - frame).ilog2() as usize;
            let order = aligned.min(fits).min(MAX_ORDER);
            self.insert(map, span.first + (frame - span.frame) as u32, order);
            frame += 1 << order;
        }
        self.free += span.length as usize;
    }

    /// Takes `count` pages whose first is aligned to two to the `align_order` pages.
    pub fn allocate(&mut self, map: &PageMap, count: usize, align_order: usize) -> Option<u32> {
        if count == 0 || count > 1 << MAX_ORDER || align_order > MAX_ORDER {
            return None;
        }
        let order = order_for(count).max(align_order);
        let fitting = self.filled >> order << order;
        if fitting == 0 {
            return None;
        }
        let found = fitting.trailing_zeros() as usize;
        let index = self.lists[found]
            .first()
            .expect("a filled list is not empty");
        self.unlink(map, index, found);
        // Of the block found, the upper halves go back until what is left has the right order;
        // then, of that, all that is behind the pages wanted.
        for half in (order..found).rev() {
            self.insert(map, index + (1 << half), half);
        }
        let mut at = count;
        while at < 1 << order {
            let order = at.trailing_zeros();
            self.insert(map, index + at as u32, order as usize);
            at += 1 << order;
        }
        self.mark(map, index, count);
        self.free -= count;
        Some(index)
    }

    /// Frees the allocation that begins at `index`, apart from its first `keep` pages.
    /// Returns how many pages were freed.
    pub fn release(
        &mut self,
        map: &PageMap,
        index: u32,
        keep: usize,
    ) -> Result<usize, NotAllocated> {
        if map.page(index).state.load(Relaxed) & KIND != USED {
            return Err(NotAllocated);
        }
        let total = map.total();
        let (mut at, mut kind) = (index, USED);
        while at < total && map.page(at).state.load(Relaxed) & KIND == kind {
            let state = &map.page(at).state;
            let order = state.load(Relaxed) & !KIND;
            state.store(INSIDE, Relaxed);
            at += 1 << order;
            kind = PART;
        }
        let count = (at - index) as usize;
        let keep = keep.min(count);
        self.mark(map, index, keep);
        let span = map.span_of(index);
        let mut at = keep;
        while at < count {
            let order = (at.trailing_zeros()).min((count - at).ilog2());
            self.merge(map, span, index + at as u32, order as usize);
            at += 1 << order;
        }
        self.free += count - keep;
        Ok(count - keep)
    }

    /// Marks `count` pages from `index` on as one allocation.
    fn mark(&mut self, map: &PageMap, index: u32, count: usize) {
        let (mut at, mut kind) = (0, USED);
        while at < count {
            let order = (count - at).ilog2();
            map.page(index + at as u32)
                .state
                .store(kind | order as u8, Relaxed);
            at += 1 << order;
            kind = PART;
        }
    }

    /// Makes a block free, joined with its buddy as long as that is free too.
    fn merge(&mut self, map: &PageMap, span: Span, mut index: u32, mut order: usize) {
        while order < MAX_ORDER {
            let frame = span.frame + u64::from(index - span.first);
            let buddy = frame ^ (1 << order);
            if buddy < span.frame || buddy + (1 << order) > span.frame + u64::from(span.length) {
                break;
            }
            let buddy = span.first + (buddy - span.frame) as u32;
            if map.page(buddy).state.load(Relaxed) != FREE | order as u8 {
                break;
            }
            self.unlink(map, buddy, order);
            index = index.min(buddy);
            order += 1;
        }
        self.insert(map, index, order);
    }

    fn insert(&mut self, map: &PageMap, index: u32, order: usize) {
        map.page(index).state.store(FREE | order as u8, Relaxed);
        self.lists[order].push(map, index);
        self.filled |= 1 << order;
    }

    fn unlink(&mut self, map: &PageMap, index: u32, order: usize) {
        map.page(index).state.store(INSIDE, Relaxed);
        self.lists[order].remove(map, index);
        if self.lists[order].first().is_none() {
            self.filled &= !(1 << order);
        }
    }
}
