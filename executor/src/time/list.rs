//! Entries of a timing wheel, and the lists they are linked into.
//!
//! An [`Entry`] lives wherever its owner pinned it, usually in a future. Its
//! links belong to the wheel that it is in, and so to whoever has that wheel by
//! `&mut`: no entry has a lock of its own.

use crate::shim::UnsafeCell;
use core::{marker::PhantomPinned, ptr::NonNull};

/// Something that waits in a wheel.
pub struct Entry<T> {
    /// Touched by whoever holds the wheel by `&mut`.
    links: UnsafeCell<Links<T>>,
    /// What it carries; how that is guarded is its own matter.
    pub value: T,
    /// Others point to it.
    _pinned: PhantomPinned,
}

struct Links<T> {
    /// None: in no list.
    next: Option<NonNull<Entry<T>>>,
    previous: Option<NonNull<Entry<T>>>,
    /// When it is due. Kept after it has left the wheel.
    deadline: u64,
    /// Which of the wheel's lists it is in.
    place: u16,
}

// SAFETY: an entry in no list is just its value; one in a list is pinned and does not move.
unsafe impl<T: Send> Send for Entry<T> {}
// SAFETY: the links are touched only through `unsafe` functions, whose callers hold the wheel.
unsafe impl<T: Sync> Sync for Entry<T> {}

impl<T> Entry<T> {
    /// An entry that is in no wheel.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self {
            links: UnsafeCell::new(Links::NONE),
            value,
            _pinned: PhantomPinned,
        }
    }

    /// An entry that is in no wheel.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self {
            links: UnsafeCell::new(Links::NONE),
            value,
            _pinned: PhantomPinned,
        }
    }

    /// Writes to every part of the links, as whoever uses the memory for
    /// something else would: loom finds out if anybody still looks.
    #[cfg(loom)]
    pub fn overwrite(&self) {
        // SAFETY: the caller says that the entry is in no wheel; loom checks it.
        self.links.with_mut(|links| unsafe { *links = Links::NONE });
    }
}

impl<T> Links<T> {
    const NONE: Self = Self {
        next: None,
        previous: None,
        deadline: 0,
        place: 0,
    };
}

/// Reads or changes the links of an entry.
///
/// # Safety
/// The entry is alive, and the caller has the wheel it is in, if any, to itself.
#[inline]
unsafe fn with_links<T, R>(entry: NonNull<Entry<T>>, change: impl FnOnce(&mut Links<T>) -> R) -> R {
    // SAFETY: 1. the caller says it is alive and nobody else touches its links;
    // 2. no `change` in this file touches a second entry, so there is one `&mut` at a time.
    unsafe { entry.as_ref().links.with_mut(|links| change(&mut *links)) }
}

/// When the entry is or was due.
///
/// # Safety
/// As for [`with_links`].
#[inline]
pub unsafe fn deadline<T>(entry: NonNull<Entry<T>>) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { with_links(entry, |links| links.deadline) }
}

/// Sets when the entry is due, which is in no list.
///
/// # Safety
/// As for [`with_links`].
#[inline]
pub unsafe fn set_deadline<T>(entry: NonNull<Entry<T>>, deadline: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        with_links(entry, |links| {
            debug_assert!(links.next.is_none(), "a timer was inserted twice");
            links.deadline = deadline;
        });
    }
}

/// Which list the entry is in; None: in none.
///
/// # Safety
/// As for [`with_links`].
#[inline]
pub unsafe fn place<T>(entry: NonNull<Entry<T>>) -> Option<usize> {
    // SAFETY: the caller's promise.
    unsafe { with_links(entry, |links| links.next.map(|_| usize::from(links.place))) }
}

/// A circular list, first in first out. All zeroes is an empty one.
///
/// Its methods are `unsafe` for one reason: every entry in it is alive, and the
/// caller has the wheel to itself.
pub struct List<T> {
    first: Option<NonNull<Entry<T>>>,
}

impl<T> List<T> {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Appends an entry that is in no list; this one is known as `place`.
    ///
    /// # Safety
    /// See [`List`]; and the entry stays where it is until it is taken out.
    #[inline]
    pub unsafe fn push(&mut self, entry: NonNull<Entry<T>>, place: usize) {
        // SAFETY: the entry by the caller's promise, the others because they are in the list.
        unsafe {
            let (next, previous) = match self.first {
                None => (entry, entry),
                Some(first) => (first, previous(first)),
            };
            with_links(entry, |links| {
                links.next = Some(next);
                links.previous = Some(previous);
                links.place = place as u16;
            });
            if self.first.is_none() {
                self.first = Some(entry);
            } else {
                with_links(previous, |links| links.next = Some(entry));
                with_links(next, |links| links.previous = Some(entry));
            }
        }
    }

    /// Takes an entry out that is in this list.
    ///
    /// # Safety
    /// See [`List`].
    #[inline]
    pub unsafe fn remove(&mut self, entry: NonNull<Entry<T>>) {
        // SAFETY: the entry and its neighbours are in the list.
        unsafe {
            let previous = previous(entry);
            let next = with_links(entry, |links| links.next.take()).expect("it is in the list");
            if next == entry {
                self.first = None;
                return;
            }
            with_links(previous, |links| links.next = Some(next));
            with_links(next, |links| links.previous = Some(previous));
            if self.first == Some(entry) {
                self.first = Some(next);
            }
        }
    }

    /// Takes the oldest entry out.
    ///
    /// # Safety
    /// See [`List`].
    #[inline]
    pub unsafe fn pop(&mut self) -> Option<NonNull<Entry<T>>> {
        let first = self.first?;
        // SAFETY: it is in the list.
        unsafe { self.remove(first) };
        Some(first)
    }
}

/// The entry before this one, which is in a list.
///
/// # Safety
/// As for [`with_links`].
#[inline]
unsafe fn previous<T>(entry: NonNull<Entry<T>>) -> NonNull<Entry<T>> {
    // SAFETY: the caller's promise.
    unsafe { with_links(entry, |links| links.previous) }.expect("it is in a list")
}
