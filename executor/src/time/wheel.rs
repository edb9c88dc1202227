//! A hierarchical timing wheel: a data structure, with no lock and no clock.
//!
//! Time is a `u64` of nanoseconds, read as eleven digits of 6 bits. An entry
//! waits at the level of the highest digit in which its deadline differs from
//! where the wheel stands, in the slot that this digit names. So level 0 tells
//! single nanoseconds apart, and the top level reaches the last one, 584 years
//! on: there is no horizon, and no boundary at which a count of days wraps.
//!
//! - *Exact.* An entry is due when the time is its deadline or later, to the
//!   nanosecond; nothing is rounded. Entries come out in the order of their
//!   deadlines, and equal ones in the order of insertion. A deadline that the
//!   wheel has passed counts as the moment where the wheel stands.
//! - *Constant.* Insert and remove touch one list. When the wheel comes to a
//!   slot of a higher level, its entries move down (a *cascade*), each at most
//!   ten times in its life, and usually not at all: each slot knows the earliest
//!   deadline in it, and the wheel stops exactly there, so whatever is first in
//!   its slot goes straight from there to the due ones.
//! - *Interruptible.* [`Wheel::expire`] touches a limited number of entries and
//!   can be called again, so that the lock around a wheel is never held for long,
//!   not even when a million entries share a slot.
//!
//! Entries are pinned by their owners (`list.rs`).

use super::list::{self, Entry, List};
use alloc::{alloc::alloc_zeroed, boxed::Box};
use core::{alloc::Layout, ptr::NonNull};

/// A deadline that is never reached.
pub const NEVER: u64 = u64::MAX;

/// Bits of time that one level tells apart.
const DIGIT: u32 = 6;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT) as usize;
/// The top level has only the 4 bits that are left.
const SLOTS: usize = ((LEVELS - 1) << DIGIT) + (1 << (u64::BITS % DIGIT));
/// Where an entry is that is due; the other places are slots.
const DUE: usize = SLOTS;

/// The wheel. All zeroes is an empty one.
///
/// Invariants, outside of a cascade: an entry in a slot has a deadline later
/// than `elapsed`, which differs from it first in the digit of the slot's level;
/// so slots of a lower level come before those of a higher one, and in a level
/// the lowest comes first.
pub struct Wheel<T> {
    /// Where the wheel stands. Whatever was due up to here is out or in `due`.
    elapsed: u64,
    /// Entries that are due, first to fire first.
    due: List<T>,
    /// The slot whose entries are being moved down, plus one; 0: none. `elapsed`
    /// is then just before its beginning, so that whatever is inserted for it
    /// meanwhile queues up at its end.
    source: usize,
    /// Where the wheel stands once `source` is empty.
    target: u64,
    /// One bit for each slot: whether there is anything in it.
    occupied: [u64; LEVELS],
    slots: [Slot<T>; SLOTS],
}

struct Slot<T> {
    entries: List<T>,
    /// No entry in it is due earlier; means nothing when there are none. Who
    /// was the earliest may have been removed: then the wheel stops here once in vain.
    earliest: u64,
}

// SAFETY: the entries a wheel points to are used through it alone, whatever core it is on.
unsafe impl<T: Send> Send for Wheel<T> {}

/// Number of the slot for `deadline` when the wheel stands at `elapsed`.
#[inline]
fn slot_for(elapsed: u64, deadline: u64) -> usize {
    if deadline <= elapsed {
        return DUE;
    }
    let level = (elapsed ^ deadline).ilog2() / DIGIT;
    let digit = (deadline >> (level * DIGIT)) as usize % (1 << DIGIT);
    ((level as usize) << DIGIT) + digit
}

impl<T> Wheel<T> {
    /// An empty wheel that stands at 0. Its ten KiB are never on the stack. None: there is no memory.
    pub fn try_new() -> Option<Box<Self>> {
        // SAFETY: the layout is not empty.
        let wheel = unsafe { alloc_zeroed(Layout::new::<Self>()) }.cast::<Self>();
        // SAFETY: fresh memory as a box has it; and every field is valid when zero: numbers, and lists, which are
        // then empty.
        (!wheel.is_null()).then(|| unsafe { Box::from_raw(wheel) })
    }

    /// Inserts an entry; one for [`NEVER`] stays outside.
    ///
    /// # Safety
    /// 1. The entry is in no wheel.
    /// 2. It stays alive and where it is until it was removed from this one or `expire` has handed it out.
    pub unsafe fn insert(&mut self, entry: NonNull<Entry<T>>, deadline: u64) {
        // SAFETY: it is in no wheel, so it is the caller's alone.
        unsafe { list::set_deadline(entry, deadline) };
        if deadline != NEVER {
            // SAFETY: the caller's promise.
            unsafe { self.link(entry, deadline, self.elapsed) };
        }
    }

    /// Removes an entry; whether it was in the wheel.
    ///
    /// # Safety
    /// The entry is alive, and in this wheel or in none.
    pub unsafe fn remove(&mut self, entry: NonNull<Entry<T>>) -> bool {
        // SAFETY: alive, and its wheel is `self`.
        let Some(place) = (unsafe { list::place(entry) }) else {
            return false;
        };
        // SAFETY: it is in the list that its place says.
        unsafe { self.list(place).remove(entry) };
        self.note_if_empty(place);
        true
    }

    /// The earliest time at which there is something to do; None: never. It is
    /// the next deadline, unless the entry with that one was removed: then it may be earlier.
    pub fn next_deadline(&self) -> Option<u64> {
        if !self.due.is_empty() || self.source != 0 {
            return Some(self.elapsed);
        }
        self.first_slot().map(|slot| self.slots[slot].earliest)
    }

    /// Hands out what is due at `now`, in order, touching at most `limit`
    /// entries. Whether it should be called again, because that was not enough.
    ///
    /// An entry is in no wheel any more when `fire` gets it. A `now` before an
    /// earlier one counts as that: what was due once stays due.
    pub fn expire(
        &mut self,
        now: u64,
        limit: usize,
        mut fire: impl FnMut(NonNull<Entry<T>>),
    ) -> bool {
        for _ in 0..limit {
            if !self.cascade(now) {
                continue;
            }
            // SAFETY: entries in a list are alive, and `self` is borrowed.
            match unsafe { self.due.pop() } {
                Some(entry) => fire(entry),
                None => return false,
            }
        }
        true
    }

    /// Moves at most one entry down. True: none has to be; what is due is in `due`.
    fn cascade(&mut self, now: u64) -> bool {
        loop {
            if let Some(source) = self.source.checked_sub(1) {
                // SAFETY: entries in a list are alive, and `self` is borrowed.
                if let Some(entry) = unsafe { self.slots[source].entries.pop() } {
                    // SAFETY: it was in the wheel until now, so it may be in it.
                    unsafe { self.link(entry, list::deadline(entry), self.target) };
                    self.note_if_empty(source);
                    return false;
                }
                self.source = 0;
                self.elapsed = self.target;
            }
            if !self.due.is_empty() || now <= self.elapsed {
                return true;
            }
            let Some(slot) = self.first_slot() else {
                self.elapsed = now;
                return true;
            };
            let earliest = self.slots[slot].earliest;
            let width = (slot >> DIGIT) as u32 * DIGIT;
            let start = earliest >> width << width;
            if start > now {
                // No slot begins up to now, so every entry is where it belongs seen from there, too.
                self.elapsed = now;
                return true;
            }
            self.source = slot + 1;
            self.elapsed = start - 1;
            self.target = earliest.min(now);
        }
    }

    /// Puts an entry where it belongs when the wheel stands at `from`.
    ///
    /// # Safety
    /// As for `insert`.
    #[inline]
    unsafe fn link(&mut self, entry: NonNull<Entry<T>>, deadline: u64, from: u64) {
        let place = slot_for(from, deadline);
        if let Some(slot) = self.slots.get_mut(place) {
            if slot.entries.is_empty() || deadline < slot.earliest {
                slot.earliest = deadline;
            }
            self.occupied[place >> DIGIT] |= 1 << (place % (1 << DIGIT));
        }
        // SAFETY: the caller's promise.
        unsafe { self.list(place).push(entry, place) };
    }

    #[inline]
    fn list(&mut self, place: usize) -> &mut List<T> {
        match self.slots.get_mut(place) {
            Some(slot) => &mut slot.entries,
            None => &mut self.due,
        }
    }

    #[inline]
    fn note_if_empty(&mut self, place: usize) {
        if self
            .slots
            .get(place)
            .is_some_and(|slot| slot.entries.is_empty())
        {
            self.occupied[place >> DIGIT] &= !(1 << (place % (1 << DIGIT)));
        }
    }

    /// The slot that begins first, of those with anything in them.
    #[inline]
    fn first_slot(&self) -> Option<usize> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        Some((level << DIGIT) + self.occupied[level].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests;
