//! Work for tests, on the host and on the machine: cores allocate and free at
//! once, what they and what others allocated, and check every byte they can.
//!
//! Blocks lie on a shelf of slots that all cores share. A turn puts a new block
//! (or nothing) into a random slot and frees what was there. A block says its
//! own size, alignment and what is in the rest of it.

use alloc::vec::Vec;
use core::{
    alloc::{GlobalAlloc, Layout},
    fmt,
    ptr::{null_mut, with_exposed_provenance_mut},
    sync::atomic::{AtomicUsize, Ordering::*},
};

/// A small generator of numbers, the same for each seed on every machine.
pub struct Random(u64);

impl Random {
    /// Numbers for this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    /// A layout as kernels ask for: mostly small, now and then large, seldom aligned.
    pub fn layout(&mut self) -> Layout {
        let size = match self.below(20) {
            0 => 2048 + self.below(20_000),
            1 | 2 => 512 + self.below(1536),
            _ => 16 + self.below(496),
        };
        let align = if self.below(8) == 0 {
            16 << self.below(9)
        } else {
            8
        };
        Layout::from_size_align(size, align).expect("small, and a power of two")
    }
}

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The allocator returned null.
    OutOfMemory,
    /// It returned an address that is not aligned as asked.
    NotAligned(usize),
    /// Somebody else wrote to the block at this address.
    Corrupt(usize),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory => write!(f, "out of memory"),
            Self::NotAligned(at) => write!(f, "{at:#x} is not aligned as asked"),
            Self::Corrupt(at) => write!(f, "the block at {at:#x} was written to by somebody else"),
        }
    }
}

fn mix(a: usize, b: usize) -> usize {
    (a ^ b.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Word `i` of a block. The first says the layout, the second guards it.
fn word(block: *mut u8, layout: Layout, i: usize) -> usize {
    let head = layout.size() << 8 | layout.align().trailing_zeros() as usize;
    match i {
        0 => head,
        _ => mix(mix(block.addr(), head), i),
    }
}

/// Words of a block that are written and checked: all of a small one, every 16th of a large one, the last.
fn words(layout: Layout) -> impl Iterator<Item = usize> {
    let count = layout.size() / 8;
    (0..count).filter(move |&i| i < 64 || i % 16 == 0 || i + 1 == count)
}

/// Allocates and fills a block of at least 16 bytes.
pub fn make(heap: &impl GlobalAlloc, layout: Layout) -> Result<*mut u8, Trouble> {
    // SAFETY: the size is not 0.
    let block = unsafe { heap.alloc(layout) };
    if block.is_null() {
        return Err(Trouble::OutOfMemory);
    }
    if !block.addr().is_multiple_of(layout.align()) {
        return Err(Trouble::NotAligned(block.addr()));
    }
    // SAFETY: just allocated with this layout.
    unsafe { fill(block, layout) };
    Ok(block)
}

/// Writes what [`check`] looks for.
///
/// # Safety
/// The block is the caller's, of this layout.
pub unsafe fn fill(block: *mut u8, layout: Layout) {
    for i in words(layout) {
        // SAFETY: inside the block, and aligned to 8.
        unsafe { block.cast::<usize>().add(i).write(word(block, layout, i)) };
    }
}

/// Checks a block that [`make`] returned.
///
/// # Safety
/// The block is the caller's, and was not freed.
pub unsafe fn check(block: *mut u8) -> Result<Layout, Trouble> {
    let corrupt = Trouble::Corrupt(block.addr());
    // SAFETY: every block has at least two words.
    let (head, guard) = unsafe {
        (
            block.cast::<usize>().read(),
            block.cast::<usize>().add(1).read(),
        )
    };
    let layout = Layout::from_size_align(
        head >> 8,
        1usize.checked_shl(head as u32 & 0xff).unwrap_or(0),
    );
    let layout = layout.map_err(|_| corrupt)?;
    if guard != word(block, layout, 1) {
        return Err(corrupt);
    }
    for i in words(layout) {
        // SAFETY: the head is right, by its guard, so this is inside the block.
        if unsafe { block.cast::<usize>().add(i).read() } != word(block, layout, i) {
            return Err(corrupt);
        }
    }
    Ok(layout)
}

/// Checks and frees a block that [`make`] returned.
///
/// # Safety
/// As for [`check`]; it is gone afterwards.
pub unsafe fn destroy(heap: &impl GlobalAlloc, block: *mut u8) -> Result<(), Trouble> {
    // SAFETY: the caller's promise; the layout is the one it was made with.
    unsafe {
        let layout = check(block)?;
        // Whoever still uses it finds out.
        block.cast::<usize>().write(0);
        heap.dealloc(block, layout);
    }
    Ok(())
}

/// Blocks that all cores share.
pub struct Shelf {
    slots: Vec<AtomicUsize>,
}

impl Shelf {
    /// A shelf with room for `slots` blocks.
    pub fn new(slots: usize) -> Self {
        Self {
            slots: (0..slots).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Puts a block into a slot; returns what was there, or null.
    fn exchange(&self, slot: usize, block: *mut u8) -> *mut u8 {
        // AcqRel pairs with itself: whoever takes the block out sees what was written to it.
        with_exposed_provenance_mut(self.slots[slot].swap(block.expose_provenance(), AcqRel))
    }

    /// Allocates and frees about `operations` times; each turn is two of them.
    pub fn work(
        &self,
        heap: &impl GlobalAlloc,
        seed: u64,
        operations: usize,
    ) -> Result<(), Trouble> {
        let mut random = Random::new(seed);
        for _ in 0..operations / 2 {
            let layout = random.layout();
            let new = if random.below(16) == 0 {
                null_mut()
            } else {
                make(heap, layout)?
            };
            let old = self.exchange(random.below(self.slots.len()), new);
            if !old.is_null() {
                // SAFETY: it was on the shelf, and only this core took it.
                unsafe { destroy(heap, old)? };
            }
        }
        Ok(())
    }

    /// Frees all that is left.
    pub fn clear(&self, heap: &impl GlobalAlloc) -> Result<(), Trouble> {
        for slot in 0..self.slots.len() {
            let old = self.exchange(slot, null_mut());
            if !old.is_null() {
                // SAFETY: as in `work`.
                unsafe { destroy(heap, old)? };
            }
        }
        Ok(())
    }
}
