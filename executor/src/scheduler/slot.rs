//! One place in the list of all tasks: empty, or a task that whoever walks the
//! list may count a reference to, before whoever ends it takes it out.
//!
//! The walker has no reference to begin with, so the task must not be freed
//! between its look at the slot and its count: it locks the slot for that long,
//! and the task, before it ends, waits until it can clear the slot.

use crate::{queue::ordering, shim::const_unless_loom};
use hal::sync::atomic::{AtomicUsize, Ordering::*};

// A slot is 0 (never used), an item's address, or free: then it holds the address of the next free one.
const FREE: usize = 1;
/// Somebody is counting a reference to the item in this slot.
const LOCKED: usize = 2;

/// The place. All zeros: never used.
#[repr(transparent)]
pub struct Slot(AtomicUsize);

#[allow(clippy::new_without_default, reason = "it is a part of something")]
impl Slot {
    const_unless_loom! {
        /// Never used.
        pub const fn new() -> Self {
            Self(AtomicUsize::new(0))
        }
    }

    /// The free slot after this one, which is free too and the caller's.
    #[inline]
    pub fn next_free(&self) -> usize {
        self.0.load(Relaxed) & !FREE
    }

    /// The slot, which is the caller's, is free, and `next` comes after it.
    #[inline]
    pub fn set_free(&self, next: usize) {
        self.0.store(next | FREE, Relaxed);
    }

    /// Puts an item, by its address, a multiple of 4, into a slot that is free and the caller's.
    #[inline]
    pub fn fill(&self, item: usize) {
        debug_assert!(is_item(item));
        // Release pairs with the acquire in `look_up`: the item is seen whole.
        let order = ordering!(Release unless seeded = "slot_fill_relaxed");
        self.0.store(item, order);
    }

    /// Takes the item out. From then on the slot is free, `next` comes after
    /// it, and whoever is going to find the item has. `relax` is called while
    /// somebody counts a reference to it.
    #[inline]
    pub fn clear(&self, item: usize, next: usize, mut relax: impl FnMut()) {
        if cfg!(seeded = "slot_clear_does_not_wait") {
            return self.set_free(next);
        }
        // Acquire pairs with the release in `look_up`: the reference that was counted there is seen
        // before this one is dropped.
        let order = ordering!(Acquire unless seeded = "slot_clear_relaxed");
        while self
            .0
            .compare_exchange(item, next | FREE, order, Relaxed)
            .is_err()
        {
            relax();
        }
    }

    /// Calls `count` with the item, if there is one, which stays as long as that
    /// takes. What `mask` returns lives as long: it must keep off whatever could
    /// come between, as others wait. `relax` is called when somebody else looks.
    pub fn look_up<M, R>(
        &self,
        mask: impl Fn() -> M,
        relax: impl Fn(),
        count: impl FnOnce(usize) -> R,
    ) -> Option<R> {
        loop {
            if !is_item(self.0.load(Relaxed) & !LOCKED) {
                return None;
            }
            let masked = mask();
            let item = self.0.load(Relaxed) & !LOCKED;
            if is_item(item) && self.lock(item) {
                let counted = count(item);
                if !cfg!(seeded = "slot_is_not_locked") {
                    // Release pairs with the acquire in `clear`.
                    let order = ordering!(Release unless seeded = "slot_unlock_relaxed");
                    self.0.store(item, order);
                }
                return Some(counted);
            }
            drop(masked);
            // Somebody else looks, or it went just now.
            relax();
        }
    }

    fn lock(&self, item: usize) -> bool {
        if cfg!(seeded = "slot_is_not_locked") {
            return self.0.load(Acquire) == item;
        }
        // Acquire pairs with the release in `fill`.
        let order = ordering!(Acquire unless seeded = "slot_lock_relaxed");
        self.0
            .compare_exchange(item, item | LOCKED, order, Relaxed)
            .is_ok()
    }
}

fn is_item(word: usize) -> bool {
    word != 0 && word & (FREE | LOCKED) == 0
}
