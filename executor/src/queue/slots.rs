//! The array behind [`Deque`](super::Deque) and [`Ring`](super::Ring).
//!
//! A slot is named by a *position*: a count that only grows, and wraps at 2^32.
//! Capacities are powers of two, so that they divide 2^32 and a position names
//! the same slot before and after the wrap.
//!
//! Both queues read a slot only after they have claimed it, and write one only
//! after its last reader said that it is done. So slots are never raced for, and
//! `Relaxed` is enough: the words around them order the accesses. Under loom, a
//! cell next to each slot checks that.

use crate::memory::{NoMemory, try_slice};
use alloc::boxed::Box;
use core::ptr::{self, NonNull};
use hal::sync::atomic::{AtomicPtr, Ordering::Relaxed};

struct Slot<T> {
    item: AtomicPtr<T>,
    #[cfg(loom)]
    unraced: loom::cell::UnsafeCell<()>,
}

// SAFETY: there is nothing in the cell.
#[cfg(loom)]
unsafe impl<T> Sync for Slot<T> {}

impl<T> Slot<T> {
    fn new() -> Self {
        Self {
            item: AtomicPtr::new(ptr::null_mut()),
            #[cfg(loom)]
            unraced: loom::cell::UnsafeCell::new(()),
        }
    }

    #[inline]
    fn put(&self, item: NonNull<T>) {
        #[cfg(loom)]
        self.unraced.with_mut(|_| ());
        self.item.store(item.as_ptr(), Relaxed);
    }

    #[inline]
    fn get(&self) -> NonNull<T> {
        #[cfg(loom)]
        self.unraced.with(|_| ());
        let item = self.item.load(Relaxed);
        if cfg!(any(loom, debug_assertions)) {
            assert!(!item.is_null(), "a slot was claimed that was never filled");
        }
        // SAFETY: only what was put in is claimed, and that is never null.
        unsafe { NonNull::new_unchecked(item) }
    }
}

/// Items that are out of the queue, in slots that are not yet free.
#[must_use = "the slots are lost until the claim is released"]
pub(super) struct Claimed {
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Claimed {
    /// The position after the last.
    pub(super) fn end(&self) -> u32 {
        self.first.wrapping_add(self.count)
    }
}

pub(super) struct Slots<T> {
    slots: Box<[Slot<T>]>,
    mask: u32,
}

impl<T> Slots<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self::try_new(capacity).expect("no memory for a queue")
    }

    pub(super) fn try_new(capacity: usize) -> Result<Self, NoMemory> {
        assert!(
            capacity.is_power_of_two() && capacity <= 1 << 31,
            "a queue's capacity is a power of two, at most 2^31"
        );
        Ok(Self {
            slots: try_slice(capacity, |_| Some(Slot::new()))?,
            mask: (capacity - 1) as u32,
        })
    }

    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.mask as usize + 1
    }

    /// How many more fit when `oldest..tail` are in use.
    #[inline]
    pub(super) fn room(&self, oldest: u32, tail: u32) -> u32 {
        (self.mask + 1).wrapping_sub(tail.wrapping_sub(oldest))
    }

    #[inline]
    fn slot(&self, position: u32) -> &Slot<T> {
        // SAFETY: at most `mask`, which is one less than the number of slots.
        unsafe { self.slots.get_unchecked((position & self.mask) as usize) }
    }

    /// Fills a slot. Whoever read it last is done.
    #[inline]
    pub(super) fn put(&self, position: u32, item: NonNull<T>) {
        self.slot(position).put(item);
    }

    /// What is in a slot that the caller has claimed.
    #[inline]
    pub(super) fn get(&self, position: u32) -> NonNull<T> {
        self.slot(position).get()
    }

    /// The slots from this position on, up to the end of the array.
    fn from(&self, position: u32) -> &[Slot<T>] {
        &self.slots[(position & self.mask) as usize..]
    }

    /// What was claimed, oldest first.
    pub(super) fn claimed(&self, claimed: &Claimed) -> impl Iterator<Item = NonNull<T>> {
        let first = claimed.first;
        (0..claimed.count).map(move |offset| self.get(first.wrapping_add(offset)))
    }

    /// Returns the oldest that was claimed, and fills free slots of another queue
    /// from `to` on with the others.
    pub(super) fn move_claimed(&self, claimed: &Claimed, dest: &Self, to: u32) -> NonNull<T> {
        let oldest = self.get(claimed.first);
        let (mut from, mut to) = (claimed.first.wrapping_add(1), to);
        // In runs up to where one of the arrays ends, of which there are at most three.
        while from != claimed.end() {
            let left = claimed.end().wrapping_sub(from) as usize;
            let run = self.from(from).iter().zip(dest.from(to)).take(left);
            let mut count = 0;
            for (slot, into) in run {
                into.put(slot.get());
                count += 1;
            }
            from = from.wrapping_add(count);
            to = to.wrapping_add(count);
        }
        oldest
    }
}
