//! Where work goes that has no better place: what overflows a core's queues,
//! and what comes from outside of the executor. One for the whole machine, and
//! seldom touched, so a lock around a list is enough.
//!
//! Not part of loom's models: the lock is modelled in hal, the list is one
//! core's at a time under it, and the length beside it is a hint.

use super::{Linked, List, Padded, Ring};
use core::ptr::NonNull;
use hal::sync::{
    Lock,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The injector: first in, first out. It does not own what its items point to:
/// dropped, it forgets them.
pub struct Injector<T: Linked> {
    list: Padded<Lock<List<T>>>,
    /// The list's length. Written under the lock, read by anyone: every core looks
    /// often, and mostly in vain.
    len: Padded<AtomicUsize>,
}

impl<T: Linked> Injector<T> {
    /// An empty injector.
    pub const fn new() -> Self {
        Self {
            list: Padded(Lock::new(List::new())),
            len: Padded(AtomicUsize::new(0)),
        }
    }

    /// Puts an item in.
    ///
    /// Anyone.
    ///
    /// # Safety
    ///
    /// The item stays where it is until it is taken out, and its link is in no
    /// other queue until then.
    pub unsafe fn push(&self, item: NonNull<T>) {
        let mut one = List::new();
        // SAFETY: as the caller says.
        unsafe { one.push_back(item) };
        self.push_all(one);
    }

    /// Puts all of a list in, with one turn of the lock.
    ///
    /// Anyone.
    pub fn push_all(&self, items: List<T>) {
        let mut list = self.list.lock();
        list.append(items);
        self.len.store(list.len(), Relaxed);
    }

    /// Takes the oldest item.
    ///
    /// Anyone.
    pub fn pop(&self) -> Option<NonNull<T>> {
        self.take(1).pop_front()
    }

    /// Takes the `most` oldest items. They are walked over under the lock, with
    /// interrupts masked: `most` should be bounded.
    ///
    /// Anyone.
    pub fn take(&self, most: usize) -> List<T> {
        if self.is_empty() {
            return List::new();
        }
        let mut list = self.list.lock();
        let taken = list.split_front(most);
        self.len.store(list.len(), Relaxed);
        taken
    }

    /// Takes the `most` oldest items, but at most what `dest` has room for.
    /// Returns the oldest, and how many were taken with it; the others are in `dest`.
    ///
    /// Anyone, who must own `dest`.
    pub fn pop_into(&self, dest: &Ring<T>, most: usize) -> Option<(NonNull<T>, usize)> {
        let mut taken = self.take(most.min(dest.room() + 1));
        let count = taken.len();
        let oldest = taken.pop_front()?;
        for item in taken {
            let pushed = dest.push(item);
            debug_assert!(pushed.is_ok(), "only the owner makes the room smaller");
        }
        Some((oldest, count))
    }

    /// How many items wait. A hint, except that what was pushed and not taken is
    /// seen if a `SeqCst` fence after the push came before one ahead of this.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Whether nothing waits; as much of a hint as [`len`](Self::len).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Linked> Default for Injector<T> {
    fn default() -> Self {
        Self::new()
    }
}
