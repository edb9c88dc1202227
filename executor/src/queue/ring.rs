//! A bounded FIFO: its owner pushes at the new end and pops at the old one,
//! thieves take half from the old end, all of it in one claim.
//!
//! Owner and thieves meet at the old end, so one word holds both where the next
//! item is (`head`) and up to where slots are free again (`copied`). While the
//! two differ, a thief reads what it has claimed; other thieves go elsewhere, but
//! the owner goes on popping and moves `head` alone. The thief, when it is done,
//! moves `copied` up to wherever `head` is then. (Tokio's local queue is known
//! for this.)
//!
//! Slots are read after the claim only, and filled again only when `copied` has
//! passed them. Counters are 32 bits wide and wrap; a claim by a thief that slept
//! is wrong only if `head` moved by exactly 2^32 meanwhile (with 16 bits, Tokio
//! did see that). What it would get wrong then is the number of items.

use super::{
    Padded, compare_exchange_bits, distance, ordering, pack,
    slots::{Claimed, Slots},
    unpack,
};
use crate::NoMemory;
use core::ptr::{self, NonNull};
use hal::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// The ring. It does not own what its items point to: dropped, it forgets them.
pub struct Ring<T> {
    new_end: Padded<NewEnd<T>>,
    /// Up to where slots were read, and the position of the oldest item. Written
    /// by the owner's pop and by thieves.
    heads: Padded<AtomicU64>,
}

/// Written by the owner. Whoever reads the one reads the other.
struct NewEnd<T> {
    slots: Slots<T>,
    /// The position of the next item to come.
    tail: AtomicU32,
}

/// The bits of both heads that a claim compares.
const COMPARED: u64 = if cfg!(seeded = "ring_heads_are_narrow") {
    pack(0b11, 0b11)
} else {
    u64::MAX
};

impl<T> Ring<T> {
    /// An empty ring for `capacity` items, a power of two.
    pub fn new(capacity: usize) -> Self {
        Self::starting_at(capacity, 0)
    }

    /// The same; Err: there is no memory.
    pub fn try_new(capacity: usize) -> Result<Self, NoMemory> {
        Ok(Self::with(Slots::try_new(capacity)?, 0))
    }

    /// As if it had been used for a while, so that tests see its counters wrap.
    #[doc(hidden)]
    pub fn starting_at(capacity: usize, count: u32) -> Self {
        Self::with(Slots::new(capacity), count)
    }

    fn with(slots: Slots<T>, count: u32) -> Self {
        Self {
            new_end: Padded(NewEnd {
                slots,
                tail: AtomicU32::new(count),
            }),
            heads: Padded(AtomicU64::new(pack(count, count))),
        }
    }

    /// Puts an item at the new end, or gives it back if there is no room.
    /// There may be none with fewer items than the capacity, while a thief copies.
    ///
    /// Owner only.
    #[inline]
    pub fn push(&self, item: NonNull<T>) -> Result<(), NonNull<T>> {
        let tail = self.new_end.tail.load(Relaxed);
        if self.room_at(tail) == 0 {
            return Err(item);
        }
        self.new_end.slots.put(tail, item);
        self.publish(tail.wrapping_add(1));
        Ok(())
    }

    /// Takes the oldest item. Waits for nobody.
    ///
    /// Owner only.
    #[inline]
    pub fn pop(&self) -> Option<NonNull<T>> {
        let tail = self.new_end.tail.load(Relaxed);
        let mut seen = self.heads.load(Relaxed);
        loop {
            let (copied, head) = unpack(seen);
            if head == tail {
                return None;
            }
            let next = head.wrapping_add(1);
            let is_copying = copied != head && !cfg!(seeded = "ring_pop_frees_claimed_slots");
            let popped = pack(if is_copying { copied } else { next }, next);
            if cfg!(seeded = "ring_pop_does_not_claim") {
                self.heads.store(popped, Release);
                return Some(self.new_end.slots.get(head));
            }
            // Release pairs with the acquire in `claim`: who sees the pop also sees the push
            // before it, or it would find a tail behind the head.
            let order = ordering!(Release unless seeded = "ring_pop_relaxed");
            match self
                .heads
                .compare_exchange_weak(seen, popped, order, Relaxed)
            {
                Ok(_) => return Some(self.new_end.slots.get(head)),
                Err(now) => seen = now,
            }
        }
    }

    /// Puts `item` at the new end and takes the oldest, which is `item` itself
    /// if there is no other: as a push and a pop, but with room for sure.
    /// `None`: a thief is copying, or came between; nothing was done.
    ///
    /// Owner only.
    #[inline]
    pub fn rotate(&self, item: NonNull<T>) -> Option<NonNull<T>> {
        let tail = self.new_end.tail.load(Relaxed);
        let seen = self.heads.load(Relaxed);
        let (copied, head) = unpack(seen);
        if head == tail {
            return Some(item);
        }
        if copied != head {
            return None;
        }
        let next = head.wrapping_add(1);
        // Acquire, as the slot at the tail may be one that a thief has read: pairs with `release`.
        // Release, as in `pop`.
        let order = ordering!(AcqRel unless seeded = "ring_rotate_relaxed");
        self.heads
            .compare_exchange(seen, pack(next, next), order, Relaxed)
            .ok()?;
        let oldest = self.new_end.slots.get(head);
        self.new_end.slots.put(tail, item);
        self.publish(tail.wrapping_add(1));
        Some(oldest)
    }

    /// Takes the older half, rounded up, but at most `most` and what `dest` has
    /// room for. Returns the oldest, and how many were taken with it; the others
    /// are in `dest`. `None`: there is nothing, or another thief is at it.
    ///
    /// Anyone, who must own `dest`.
    pub fn steal_into(&self, dest: &Self, most: usize) -> Option<(NonNull<T>, usize)> {
        debug_assert!(!ptr::eq(self, dest), "a ring was to steal from itself");
        let tail = dest.new_end.tail.load(Relaxed);
        // Only the caller could make the room smaller.
        let claimed = self.claim(most.min(dest.room_at(tail) as usize + 1))?;
        let oldest = self
            .new_end
            .slots
            .move_claimed(&claimed, &dest.new_end.slots, tail);
        self.release(&claimed);
        if claimed.count > 1 {
            dest.publish(tail.wrapping_add(claimed.count - 1));
        }
        Some((oldest, claimed.count as usize))
    }

    /// Takes the older half, rounded up, but at most `most`; `take` gets them
    /// oldest first. Returns how many, and 0 also if a thief is at it. Until the
    /// last is taken, thieves find the ring busy: `take` should be short.
    ///
    /// Anyone; in practice an owner whose ring is full.
    pub fn take_half(&self, most: usize, mut take: impl FnMut(NonNull<T>)) -> usize {
        let Some(claimed) = self.claim(most) else {
            return 0;
        };
        self.new_end.slots.claimed(&claimed).for_each(&mut take);
        self.release(&claimed);
        claimed.count as usize
    }

    /// How many items wait. A hint, except that what was pushed and not taken is
    /// seen if a `SeqCst` fence after the push came before one ahead of this.
    #[inline]
    pub fn len(&self) -> usize {
        let (_, head) = unpack(self.heads.load(Relaxed));
        let tail = self.new_end.tail.load(Relaxed);
        distance(head, tail, self.new_end.slots.capacity())
    }

    /// Whether nothing waits; as much of a hint as [`len`](Self::len).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that is another whenever something was taken.
    pub fn position(&self) -> u64 {
        u64::from(unpack(self.heads.load(Relaxed)).1)
    }

    /// How many more can be pushed. Others can only make it more.
    ///
    /// Owner only.
    #[inline]
    pub fn room(&self) -> usize {
        self.room_at(self.new_end.tail.load(Relaxed)) as usize
    }

    #[inline]
    fn room_at(&self, tail: u32) -> u32 {
        // Acquire pairs with `release`: the slots up to here were read before they are filled again.
        let order = ordering!(Acquire unless seeded = "ring_room_relaxed");
        let (copied, head) = unpack(self.heads.load(order));
        let oldest = if cfg!(seeded = "ring_room_up_to_head") {
            head
        } else {
            copied
        };
        self.new_end.slots.room(oldest, tail)
    }

    /// Shows what the owner put into slots.
    #[inline]
    fn publish(&self, tail: u32) {
        // Release pairs with the acquire in `claim`: the thief sees the slots and what they point to.
        let order = ordering!(Release unless seeded = "ring_publish_relaxed");
        self.new_end.tail.store(tail, order);
    }

    /// Claims half of the items, at most `most`, oldest first.
    fn claim(&self, most: usize) -> Option<Claimed> {
        // Acquire pairs with the release in `pop` and `release`: the tail read below is not behind
        // the head.
        let order = ordering!(Acquire unless seeded = "ring_claim_looks_relaxed");
        let mut seen = self.heads.load(order);
        loop {
            let (copied, head) = unpack(seen);
            if copied != head && !cfg!(seeded = "ring_two_thieves_copy") {
                return None;
            }
            // Acquire pairs with `publish`.
            let order = ordering!(Acquire unless seeded = "ring_tail_relaxed");
            let tail = self.new_end.tail.load(order);
            let waiting = tail.wrapping_sub(head);
            let count = waiting
                .div_ceil(2)
                .min(u32::try_from(most).unwrap_or(u32::MAX));
            if count == 0 {
                return None;
            }
            let first = head;
            let claimed = Claimed { first, count };
            let next = pack(copied, claimed.end());
            // The slots are ordered by `publish` and `release`; this only decides who gets them.
            // Acquire, for another look, as above.
            match compare_exchange_bits::<COMPARED>(&self.heads, seen, next, Relaxed, Acquire) {
                Ok(_) => return Some(claimed),
                Err(now) => seen = now,
            }
        }
    }

    /// Gives the slots of a claim back to the owner, and those that the owner
    /// emptied meanwhile.
    fn release(&self, claimed: &Claimed) {
        let mut seen = self.heads.load(Relaxed);
        if cfg!(seeded = "ring_release_forgets_pops") {
            let freed = pack(claimed.end(), claimed.end());
            return self.heads.store(freed, Release);
        }
        loop {
            let (copied, head) = unpack(seen);
            debug_assert_eq!(copied, claimed.first, "two thieves copied");
            // Release pairs with the acquire in `room_at` and `claim`.
            let order = ordering!(Release unless seeded = "ring_release_relaxed");
            match self
                .heads
                .compare_exchange_weak(seen, pack(head, head), order, Relaxed)
            {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}
