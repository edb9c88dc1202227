//! Where a core finds what others, and interrupts, want it to run: a stack of
//! linked items, pushed one by one and taken all at once.
//!
//! A push may be interrupted by another at any instruction, on the same core as
//! well, and allocates nothing. Nobody ever takes a single item, so it does not
//! matter if the top was taken and pushed again between the look and the
//! exchange: it is the top, and that is all that the new item's link says.

use super::{Linked, List, ordering};
use core::ptr::{self, NonNull};
use hal::sync::atomic::{AtomicPtr, Ordering::*};

/// The inbox. It does not own what its items point to: dropped, it forgets them.
pub struct Inbox<T: Linked> {
    /// The newest item; each links to the one before it.
    top: AtomicPtr<T>,
}

impl<T: Linked> Inbox<T> {
    /// An empty inbox.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            top: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// An empty inbox.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            top: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Puts an item in. Whether it was empty before: then, whoever takes from it
    /// has not heard of anything yet.
    ///
    /// Anyone, in interrupts too.
    ///
    /// # Safety
    ///
    /// The item stays where it is until it is taken out, and its link is in no
    /// other queue until then.
    #[inline]
    pub unsafe fn push(&self, item: NonNull<T>) -> bool {
        // SAFETY: the caller keeps the item alive; it is the caller's alone until it is pushed.
        let link = unsafe { item.as_ref() }.link();
        let mut top = self.top.load(Relaxed);
        if cfg!(seeded = "inbox_link_follows_push") {
            top = self.top.swap(item.as_ptr(), Release);
            link.store(top, Relaxed);
            return top.is_null();
        }
        let looked = top;
        loop {
            if top == looked || !cfg!(seeded = "inbox_link_not_renewed") {
                link.store(top, Relaxed);
            }
            if cfg!(seeded = "inbox_push_does_not_compare") {
                self.top.store(item.as_ptr(), Release);
                return top.is_null();
            }
            // Release pairs with the acquire in `take_all`: who takes the item sees its link and
            // what was written before the push. What earlier pushes released stays released, as
            // each push continues the sequence of the one before.
            let order = ordering!(Release unless seeded = "inbox_push_relaxed");
            match self
                .top
                .compare_exchange_weak(top, item.as_ptr(), order, Relaxed)
            {
                Ok(_) if cfg!(seeded = "inbox_was_empty_at_first_look") => return looked.is_null(),
                Ok(_) => return top.is_null(),
                Err(now) => top = now,
            }
        }
    }

    /// Takes all that is in it, the first to arrive first.
    ///
    /// Anyone.
    pub fn take_all(&self) -> List<T> {
        // Many look, and mostly in vain: they should not write.
        if self.is_empty() {
            return List::new();
        }
        let mut newest;
        if cfg!(seeded = "inbox_take_does_not_swap") {
            newest = self.top.load(Acquire);
            self.top.store(ptr::null_mut(), Relaxed);
        } else {
            // Acquire pairs with the release in `push`.
            let order = ordering!(Acquire unless seeded = "inbox_take_relaxed");
            newest = self.top.swap(ptr::null_mut(), order);
        }
        let mut arrived = List::new();
        while let Some(item) = NonNull::new(newest) {
            // SAFETY: it was pushed and not taken until now, and so is alive.
            newest = unsafe { item.as_ref() }.link().load(Relaxed);
            // SAFETY: as above; and it is in no other queue, since the whole stack was taken.
            unsafe { arrived.push_front(item) };
        }
        arrived
    }

    /// Whether nothing is in it. A hint, except that what was pushed and not
    /// taken is seen if a `SeqCst` fence after the push came before one ahead of this.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top.load(Relaxed).is_null()
    }
}

impl<T: Linked> Default for Inbox<T> {
    fn default() -> Self {
        Self::new()
    }
}
