//! The free objects that a core keeps at hand.

use super::{
    classes::{CLASSES, Class},
    slabs,
};
use core::{
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed},
};

/// The caches of one core: for each class a list of free objects. Written by
/// that core only, under a guard; read by anyone who asks for statistics.
///
/// Apart from the words of other cores; and a power of two in size, an array
/// for each field, so that finding a word takes one shift.
#[repr(C, align(1024))]
pub struct Caches {
    /// The first object; null: none.
    first: [AtomicPtr<u8>; CLASSES],
    /// How many more fit. 0 until the cache is set up, so that a new heap is all zeros.
    room: [AtomicU32; CLASSES],
    /// Allocations from the cache.
    pub hits: [AtomicU64; CLASSES],
    /// Allocations that found the cache empty.
    pub misses: [AtomicU64; CLASSES],
    is_set_up: [AtomicBool; CLASSES],
}

impl Caches {
    /// Empty caches.
    pub const fn new() -> Self {
        Self {
            first: [const { AtomicPtr::new(null_mut()) }; CLASSES],
            room: [const { AtomicU32::new(0) }; CLASSES],
            hits: [const { AtomicU64::new(0) }; CLASSES],
            misses: [const { AtomicU64::new(0) }; CLASSES],
            is_set_up: [const { AtomicBool::new(false) }; CLASSES],
        }
    }

    /// The class's element of one of the arrays.
    #[inline]
    fn of<T>(array: &[T; CLASSES], class: Class) -> &T {
        // SAFETY: the number of a class is below `CLASSES`.
        unsafe { array.get_unchecked(class.index()) }
    }

    /// Takes the newest object of a class.
    #[inline]
    pub fn pop(&self, class: Class) -> Option<NonNull<u8>> {
        let first = Self::of(&self.first, class);
        let object = NonNull::new(first.load(Relaxed))?;
        // SAFETY: the cache's objects are free, and only this core, under a guard, touches them.
        first.store(unsafe { slabs::next(object) }, Relaxed);
        let room = Self::of(&self.room, class);
        room.store(room.load(Relaxed) + 1, Relaxed);
        count(Self::of(&self.hits, class));
        Some(object)
    }

    /// Puts an object of a class in, if there is room.
    #[inline]
    pub fn push(&self, class: Class, object: NonNull<u8>) -> bool {
        let room = Self::of(&self.room, class);
        let left = room.load(Relaxed);
        if left == 0 {
            return false;
        }
        room.store(left - 1, Relaxed);
        let first = Self::of(&self.first, class);
        // SAFETY: the object was just freed, and only this core, under a guard, touches it.
        unsafe { slabs::set_next(object, first.load(Relaxed)) };
        first.store(object.as_ptr(), Relaxed);
        true
    }

    /// Makes the `count` objects from `first` on the content of a class's cache.
    pub fn set(&self, class: Class, first: *mut u8, count: u32) {
        Self::of(&self.first, class).store(first, Relaxed);
        Self::of(&self.room, class).store(class.cache_limit() - count, Relaxed);
        Self::of(&self.is_set_up, class).store(true, Relaxed);
    }

    /// How many objects of a class there are.
    pub fn count(&self, class: Class) -> u32 {
        if Self::of(&self.is_set_up, class).load(Relaxed) {
            class.cache_limit() - Self::of(&self.room, class).load(Relaxed)
        } else {
            0
        }
    }

    /// Counts an allocation that found the cache empty.
    pub fn count_miss(&self, class: Class) {
        count(Self::of(&self.misses, class));
    }

    /// Keeps the newest `keep` objects of a class; returns the first of the others, or null.
    pub fn cut(&self, class: Class, keep: u32) -> *mut u8 {
        let all = self.count(class);
        let first = Self::of(&self.first, class).load(Relaxed);
        if all <= keep {
            self.set(class, first, all);
            return null_mut();
        }
        if keep == 0 {
            self.set(class, null_mut(), 0);
            return first;
        }
        let mut last = first;
        for _ in 1..keep {
            // SAFETY: the cache's objects are free and only this core's, and there are more than `keep`.
            last = unsafe { slabs::next(NonNull::new_unchecked(last)) };
        }
        self.set(class, first, keep);
        // SAFETY: as above.
        unsafe {
            let last = NonNull::new_unchecked(last);
            let rest = slabs::next(last);
            slabs::set_next(last, null_mut());
            rest
        }
    }
}

/// Counts up a number that only this core writes.
#[inline]
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}
