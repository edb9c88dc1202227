//! A bounded deque: its owner pushes and pops at the new end, thieves take half
//! from the old end, all of it in one claim.
//!
//! ```text
//!   copied      head                tail = pushes - pops
//!     |claimed,  | waiting            |
//!     |being read| oldest ... newest  | free
//! ```
//!
//! A Chase-Lev deque keeps `tail` in a word of its own, so that its owner pops
//! without a look at the thieves unless one item is left. A thief that claims
//! several then overlaps with pops that it does not see, and items run twice
//! (CVE-2021-32810 was of this kind). Here the claim word holds both the thieves'
//! `head` and the owner's count of `pops`; each changes by compare-and-exchange
//! of the whole word. A thief's claim thus succeeds only if nothing was popped
//! since it looked; what was pushed since then only adds to what it saw.
//!
//! Slots are read after the claim, not before: until the claim they may be
//! popped and filled anew. After it, the owner could fill them as soon as it has
//! gone around the array, so the thief says in `copied` when it is done, and the
//! owner counts what is not yet copied as in use. One thief copies at a time;
//! others see `copied != head` and go elsewhere, since a later thief that is done
//! first could not say so in one word.
//!
//! Counters are 32 bits wide and wrap. What is compared is always a difference,
//! at most the capacity. A claim by a thief that slept is wrong only if the word
//! came back to what it was: exactly 2^32 pops (or a multiple) and not one steal,
//! while a thief that cannot be preempted runs a handful of instructions. What it
//! would get wrong then is the number of items.

use super::{
    Padded, compare_exchange_bits, distance, ordering, pack,
    slots::{Claimed, Slots},
    unpack,
};
use crate::NoMemory;
use core::ptr::{self, NonNull};
use hal::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// The deque. It does not own what its items point to: dropped, it forgets them.
pub struct Deque<T> {
    new_end: Padded<NewEnd<T>>,
    old_end: Padded<OldEnd>,
}

/// Written by the owner. Whoever reads the one reads the other.
struct NewEnd<T> {
    slots: Slots<T>,
    /// How many were ever pushed.
    pushes: AtomicU32,
}

/// Written by thieves. Apart from `copied`, by the owner's pop too.
struct OldEnd {
    /// How many the owner ever popped, and the position of the oldest item. Pops
    /// are the upper half: when they wrap, they do not carry into the other.
    claim: AtomicU64,
    /// Up to here, slots that thieves have claimed were read.
    copied: AtomicU32,
}

/// The bits of the claim word that a claim compares.
const COMPARED: u64 = if cfg!(seeded = "deque_claim_ignores_pops") {
    pack(0, u32::MAX)
} else if cfg!(seeded = "deque_pops_are_narrow") {
    pack(0b11, u32::MAX)
} else {
    u64::MAX
};

impl<T> Deque<T> {
    /// An empty deque for `capacity` items, a power of two.
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
                pushes: AtomicU32::new(count.wrapping_add(count)),
            }),
            old_end: Padded(OldEnd {
                claim: AtomicU64::new(pack(count, count)),
                copied: AtomicU32::new(count),
            }),
        }
    }

    /// Puts an item at the new end, or gives it back if there is no room.
    /// There may be none with fewer items than the capacity, while a thief copies.
    ///
    /// Owner only.
    #[inline]
    pub fn push(&self, item: NonNull<T>) -> Result<(), NonNull<T>> {
        let pushes = self.new_end.pushes.load(Relaxed);
        let tail = self.tail(pushes);
        if self.is_full(tail) {
            return Err(item);
        }
        self.new_end.slots.put(tail, item);
        self.publish(pushes.wrapping_add(1));
        Ok(())
    }

    /// Takes the newest item.
    ///
    /// Owner only.
    #[inline]
    pub fn pop(&self) -> Option<NonNull<T>> {
        self.pop_noting_last().map(|(newest, _)| newest)
    }

    /// Takes the newest item, and says whether it was the last.
    ///
    /// Owner only.
    #[inline]
    pub fn pop_noting_last(&self) -> Option<(NonNull<T>, bool)> {
        let pushes = self.new_end.pushes.load(Relaxed);
        let mut seen = self.old_end.claim.load(Relaxed);
        loop {
            let (pops, head) = unpack(seen);
            let tail = pushes.wrapping_sub(pops);
            if tail == head {
                return None;
            }
            let popped = seen.wrapping_add(pack(1, 0));
            if cfg!(seeded = "deque_pop_does_not_claim") {
                self.old_end.claim.store(popped, Release);
                return Some((self.new_end.slots.get(tail.wrapping_sub(1)), false));
            }
            // Release pairs with the acquire in `claim` and `len`: who sees the pop also sees the
            // push before it, or it would find a tail that is too far back.
            let order = ordering!(Release unless seeded = "deque_pop_relaxed");
            match self
                .old_end
                .claim
                .compare_exchange_weak(seen, popped, order, Relaxed)
            {
                Ok(_) => {
                    let newest = tail.wrapping_sub(1);
                    return Some((self.new_end.slots.get(newest), newest == head));
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the older half, rounded up, but at most `most` and what `dest` has
    /// room for. Returns the oldest, and how many were taken with it; the others
    /// are in `dest`. `None`: there is nothing, or another thief is at it.
    ///
    /// Anyone, who must own `dest`.
    pub fn steal_into(&self, dest: &Self, most: usize) -> Option<(NonNull<T>, usize)> {
        debug_assert!(!ptr::eq(self, dest), "a deque was to steal from itself");
        let pushes = dest.new_end.pushes.load(Relaxed);
        let tail = dest.tail(pushes);
        // Only the caller could make the room smaller.
        let claimed = self.claim(most.min(dest.room(tail) as usize + 1))?;
        let oldest = self
            .new_end
            .slots
            .move_claimed(&claimed, &dest.new_end.slots, tail);
        self.release(&claimed);
        if claimed.count > 1 {
            dest.publish(pushes.wrapping_add(claimed.count - 1));
        }
        Some((oldest, claimed.count as usize))
    }

    /// Takes the oldest item. `None`: there is nothing, or a thief is at it.
    ///
    /// Anyone.
    pub fn take_oldest(&self) -> Option<NonNull<T>> {
        let mut oldest = None;
        if cfg!(seeded = "deque_reads_before_claim") && !self.is_empty() {
            let (_, head) = unpack(self.old_end.claim.load(Acquire));
            oldest = Some(self.new_end.slots.get(head));
        }
        let claimed = self.claim(1)?;
        let oldest = oldest.unwrap_or_else(|| self.new_end.slots.get(claimed.first));
        self.release(&claimed);
        Some(oldest)
    }

    /// Takes the older half, rounded up, but at most `most`; `take` gets them
    /// oldest first. Returns how many, and 0 also if a thief is at it. Until the
    /// last is taken, others find the deque busy: `take` should be short.
    ///
    /// Anyone; in practice an owner whose deque is full.
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
        // Acquire pairs with the release in `pop`.
        let (pops, head) = unpack(self.old_end.claim.load(Acquire));
        let tail = self.new_end.pushes.load(Relaxed).wrapping_sub(pops);
        distance(head, tail, self.new_end.slots.capacity())
    }

    /// Whether nothing waits; as much of a hint as [`len`](Self::len).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that is another whenever something was taken, at either end.
    pub fn position(&self) -> u64 {
        self.old_end.claim.load(Relaxed)
    }

    /// Where the owner's next item goes. Nobody else changes the pops.
    #[inline]
    fn tail(&self, pushes: u32) -> u32 {
        let (pops, _) = unpack(self.old_end.claim.load(Relaxed));
        pushes.wrapping_sub(pops)
    }

    /// Whether the owner can push no more.
    #[inline]
    fn is_full(&self, tail: u32) -> bool {
        self.room(tail) == 0
    }

    /// How many more the owner can push. Others can only make it more.
    #[inline]
    fn room(&self, tail: u32) -> u32 {
        if cfg!(seeded = "deque_room_up_to_head") {
            let (_, head) = unpack(self.old_end.claim.load(Acquire));
            return self.new_end.slots.room(head, tail);
        }
        // Acquire pairs with `release`: the slots up to here were read before they are filled again.
        let order = ordering!(Acquire unless seeded = "deque_room_relaxed");
        let copied = self.old_end.copied.load(order);
        self.new_end.slots.room(copied, tail)
    }

    /// Shows what the owner put into slots.
    #[inline]
    fn publish(&self, pushes: u32) {
        // Release pairs with the acquire in `claim`: the thief sees the slots and what they point to.
        let order = ordering!(Release unless seeded = "deque_publish_relaxed");
        self.new_end.pushes.store(pushes, order);
    }

    /// Claims half of the items, at most `most`, oldest first.
    fn claim(&self, most: usize) -> Option<Claimed> {
        let OldEnd { claim, copied } = &*self.old_end;
        // Acquire pairs with the release in `pop`: the pushes read below are not older than the pops.
        let order = ordering!(Acquire unless seeded = "deque_claim_looks_relaxed");
        let early = cfg!(seeded = "deque_pushes_before_claim_word")
            .then(|| self.new_end.pushes.load(Acquire));
        let mut seen = claim.load(order);
        loop {
            let (pops, head) = unpack(seen);
            // Acquire pairs with `release`: the pushes read below are not older than the head; and
            // when the owner sees that this thief is done, it sees that earlier ones are, too.
            let order = ordering!(Acquire unless seeded = "deque_copied_relaxed");
            let is_busy = copied.load(order) != head;
            if is_busy && !cfg!(seeded = "deque_two_thieves_copy") {
                return None;
            }
            // Acquire pairs with `publish`. After the claim word: a push that is missed does no
            // harm if the pop is missed too.
            let order = ordering!(Acquire unless seeded = "deque_pushes_relaxed");
            let pushes = early.unwrap_or_else(|| self.new_end.pushes.load(order));
            let tail = pushes.wrapping_sub(pops);
            let waiting = tail.wrapping_sub(head);
            let count = waiting
                .div_ceil(2)
                .min(u32::try_from(most).unwrap_or(u32::MAX));
            if count == 0 {
                return None;
            }
            let first = head;
            let claimed = Claimed { first, count };
            let next = pack(pops, claimed.end());
            // The slots are ordered by `publish` and `release`; this only decides who gets them.
            // Acquire, for another look, as above.
            match compare_exchange_bits::<COMPARED>(claim, seen, next, Relaxed, Acquire) {
                Ok(_) => return Some(claimed),
                Err(now) => seen = now,
            }
        }
    }

    /// Gives the slots of a claim back to the owner.
    fn release(&self, claimed: &Claimed) {
        // Release pairs with the acquire in `room` and, for the next thief, in `claim`.
        let order = ordering!(Release unless seeded = "deque_release_relaxed");
        self.old_end.copied.store(claimed.end(), order);
    }
}
