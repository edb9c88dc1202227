//! Bytes in a ring: one puts them in, one takes them out, and neither ever waits for the other.
//!
//! Either may be an interrupt, which may come in the middle of what the other does: whatever it finds then is whole, because bytes are
//! shown by one store of `tail` and their room is given back by one store of `head`.
//!
//! The two counts only rise, and wrap; the length of the ring is a power of two, so the wrap is not seen.

use crate::{memory, memory::NoMemory, queue::Padded, shim::ordering};
use alloc::boxed::Box;
use core::cmp::min;
use hal::sync::atomic::{AtomicUsize, Ordering::*};

#[cfg(not(loom))]
use core::cell::UnsafeCell;
#[cfg(loom)]
use loom::cell::UnsafeCell;

/// The bytes, and how far each of the two has come.
pub struct Ring {
    bytes: Box<[UnsafeCell<u8>]>,
    /// Bytes taken so far. Written by who takes.
    head: Padded<AtomicUsize>,
    /// Bytes put so far. Written by who puts.
    tail: Padded<AtomicUsize>,
}

// SAFETY: a byte is written by who puts while it is not between the counts, and read by who takes while it is.
unsafe impl Send for Ring {}
// SAFETY: as above; the methods that touch bytes ask for one caller at a time.
unsafe impl Sync for Ring {}

impl Ring {
    /// With room for `capacity` bytes, or a few more: a power of two.
    pub fn try_new(capacity: usize) -> Result<Self, NoMemory> {
        let capacity = capacity.max(2).checked_next_power_of_two();
        let bytes = memory::try_slice(capacity.ok_or(NoMemory)?, |_| Some(UnsafeCell::new(0)))?;
        Ok(Self {
            bytes,
            head: Padded(AtomicUsize::new(0)),
            tail: Padded(AtomicUsize::new(0)),
        })
    }

    /// How many bytes fit.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// How many bytes are there: for who takes, at least these; for who puts, at most.
    pub fn len(&self) -> usize {
        // The head first, and acquire, so that the tail is no older than it: it never passes the tail.
        let head = self.head.0.load(Acquire);
        self.tail.0.load(Acquire).wrapping_sub(head)
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts as many in as there is room for: how many.
    ///
    /// # Safety
    /// One at a time.
    pub unsafe fn put(&self, bytes: &[u8]) -> usize {
        let tail = self.tail.0.load(Relaxed);
        // Acquire pairs with the release in `take_with`: what is overwritten was read.
        let order = ordering!(Acquire unless seeded = "bytes_room_relaxed");
        let room = self.capacity() - tail.wrapping_sub(self.head.0.load(order));
        let count = min(room, bytes.len());
        let at = tail & (self.capacity() - 1);
        let first = min(count, self.capacity() - at);
        // SAFETY: this is the only one who puts, and these are not between head and tail.
        unsafe {
            self.write(at, &bytes[..first]);
            self.write(0, &bytes[first..count]);
        }
        // Release pairs with the acquire in `take_with`.
        let order = ordering!(Release unless seeded = "bytes_put_relaxed");
        self.tail.0.store(tail.wrapping_add(count), order);
        count
    }

    /// Shows what is there to `use_it`, in one or two pieces, and takes as many of each as that says, until it takes less than it was shown.
    /// How many that were.
    ///
    /// # Safety
    /// One at a time.
    pub unsafe fn take_with(&self, mut use_it: impl FnMut(&[u8]) -> usize) -> usize {
        let mut taken = 0;
        loop {
            let head = self.head.0.load(Relaxed);
            // Acquire pairs with the release in `put`.
            let order = ordering!(Acquire unless seeded = "bytes_take_relaxed");
            let count = self.tail.0.load(order).wrapping_sub(head);
            let at = head & (self.capacity() - 1);
            let piece = min(count, self.capacity() - at);
            if piece == 0 {
                return taken;
            }
            // SAFETY: this is the only one who takes, and these are between head and tail.
            let used = min(unsafe { self.read(at, piece, &mut use_it) }, piece);
            // Release pairs with the acquire in `put`.
            let order = ordering!(Release unless seeded = "bytes_taken_relaxed");
            self.head.0.store(head.wrapping_add(used), order);
            taken += used;
            if used < piece {
                return taken;
            }
        }
    }

    /// Takes as many as there are, and fit: how many.
    ///
    /// # Safety
    /// One at a time.
    pub unsafe fn take(&self, room: &mut [u8]) -> usize {
        let mut taken = 0;
        let copy = |bytes: &[u8]| {
            let count = min(bytes.len(), room.len() - taken);
            room[taken..taken + count].copy_from_slice(&bytes[..count]);
            taken += count;
            count
        };
        // SAFETY: the caller's promise.
        unsafe { self.take_with(copy) }
    }

    /// # Safety
    /// These bytes are the caller's alone.
    #[cfg(not(loom))]
    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        let to = &self.bytes[at..at + bytes.len()];
        // SAFETY: a cell is as its content, and nobody else is at these, the caller says.
        unsafe {
            core::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                to.as_ptr().cast_mut().cast(),
                bytes.len(),
            )
        };
    }

    /// # Safety
    /// Nobody writes these bytes.
    #[cfg(not(loom))]
    unsafe fn read(&self, at: usize, count: usize, use_it: impl FnOnce(&[u8]) -> usize) -> usize {
        let from = &self.bytes[at..at + count];
        // SAFETY: a cell is as its content, and nobody writes these, the caller says.
        use_it(unsafe { core::slice::from_raw_parts(from.as_ptr().cast(), count) })
    }

    /// # Safety
    /// These bytes are the caller's alone.
    #[cfg(loom)]
    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        for (cell, byte) in self.bytes[at..].iter().zip(bytes) {
            // SAFETY: the caller's promise; loom checks it.
            cell.with_mut(|cell| unsafe { *cell = *byte });
        }
    }

    /// # Safety
    /// Nobody writes these bytes.
    #[cfg(loom)]
    unsafe fn read(&self, at: usize, count: usize, use_it: impl FnOnce(&[u8]) -> usize) -> usize {
        let cells = self.bytes[at..at + count].iter();
        // SAFETY: the caller's promise; loom checks it.
        let bytes: alloc::vec::Vec<u8> = cells
            .map(|cell| cell.with(|cell| unsafe { *cell }))
            .collect();
        use_it(&bytes)
    }
}
