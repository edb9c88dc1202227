//! A FIFO for one: items linked to each other, no locks, no bound. What an
//! [`Inbox`](super::Inbox) hands out, what an `Injector` guards, and where a
//! core keeps what no other core may take.

use super::Linked;
use core::ptr::{self, NonNull};
use hal::sync::atomic::Ordering::Relaxed;

/// The list; as an iterator, it takes from its front. It does not own what its
/// items point to: dropped, it forgets them.
#[must_use]
pub struct List<T: Linked> {
    /// The oldest and the newest, `None` in an empty list. The newest links to null.
    ends: Option<(NonNull<T>, NonNull<T>)>,
    len: usize,
}

// SAFETY: 1. the list touches nothing of its items but their links, and these from any core
// (`Linked`). 2. Who takes an item out gets a pointer, and may do with it what it may anyway.
unsafe impl<T: Linked> Send for List<T> {}

impl<T: Linked> List<T> {
    /// An empty list.
    pub const fn new() -> Self {
        Self { ends: None, len: 0 }
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The oldest.
    pub fn front(&self) -> Option<NonNull<T>> {
        self.ends.map(|(oldest, _)| oldest)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts an item behind the others.
    ///
    /// # Safety
    ///
    /// The item stays where it is until it is taken out, and its link is in no
    /// other queue until then.
    pub unsafe fn push_back(&mut self, item: NonNull<T>) {
        self.append(Self {
            // SAFETY: the caller keeps the item alive.
            ends: Some((unsafe { set_link(item, ptr::null_mut()) }, item)),
            len: 1,
        });
    }

    /// Puts an item before the others.
    ///
    /// # Safety
    ///
    /// As for [`push_back`](Self::push_back).
    pub unsafe fn push_front(&mut self, item: NonNull<T>) {
        let (next, last) = match self.ends {
            None => (ptr::null_mut(), item),
            Some((first, last)) => (first.as_ptr(), last),
        };
        // SAFETY: the caller keeps the item alive.
        self.ends = Some((unsafe { set_link(item, next) }, last));
        self.len += 1;
    }

    /// Takes the oldest item out.
    pub fn pop_front(&mut self) -> Option<NonNull<T>> {
        let (first, last) = self.ends?;
        // SAFETY: it is in the list, and so is alive.
        let next = unsafe { next(first) };
        self.ends = next.map(|next| (next, last));
        self.len -= 1;
        Some(first)
    }

    /// Puts all of another list behind the others.
    pub fn append(&mut self, other: Self) {
        let Some((other_first, other_last)) = other.ends else {
            return;
        };
        let first = match self.ends {
            None => other_first,
            Some((first, last)) => {
                // SAFETY: it is in the list, and so is alive.
                unsafe { set_link(last, other_first.as_ptr()) };
                first
            }
        };
        self.ends = Some((first, other_last));
        self.len += other.len;
    }

    /// Takes the `most` oldest items out; walks over them.
    pub fn split_front(&mut self, most: usize) -> Self {
        let Some((first, last)) = self.ends else {
            return Self::new();
        };
        if most == 0 {
            return Self::new();
        }
        let mut cut = first;
        for _ in 1..most.min(self.len) {
            // SAFETY: it is in the list, and so is alive.
            cut = unsafe { next(cut) }.expect("as many links as items");
        }
        // SAFETY: as above.
        self.ends = unsafe { next(cut) }.map(|rest| (rest, last));
        // SAFETY: it is in the list, and so is alive.
        unsafe { set_link(cut, ptr::null_mut()) };
        let len = most.min(self.len);
        self.len -= len;
        Self {
            ends: Some((first, cut)),
            len,
        }
    }
}

/// The item after this one.
///
/// # Safety
///
/// The item is alive.
unsafe fn next<T: Linked>(item: NonNull<T>) -> Option<NonNull<T>> {
    // SAFETY: as the caller says.
    NonNull::new(unsafe { item.as_ref() }.link().load(Relaxed))
}

/// Links an item to the next, and returns it.
///
/// # Safety
///
/// The item is alive.
unsafe fn set_link<T: Linked>(item: NonNull<T>, next: *mut T) -> NonNull<T> {
    // SAFETY: as the caller says.
    unsafe { item.as_ref() }.link().store(next, Relaxed);
    item
}

impl<T: Linked> Default for List<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> Iterator for List<T> {
    type Item = NonNull<T>;

    fn next(&mut self) -> Option<NonNull<T>> {
        self.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}
