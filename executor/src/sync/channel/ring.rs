//! The ring under channels with a bound.
//!
//! Tickets count messages: those that were put in (`tail`) and those that were taken out (`head`). The slot of
//! a ticket is the one with that number, round and round, and its stamp says whose turn it is there:
//!
//! | stamp | |
//! |---|---|
//! | `ticket` | free, for who puts this one in |
//! | `ticket + 1` | full, for who takes this one out |
//! | `ticket + slots` | free, for who puts in the one a round later |
//!
//! Whoever comes has a permit, so there is a place, or a message. But others may be slower: the message
//! may not be written yet, or the slot not be read yet. Then he spins, for a few instructions, as
//! in [`published`](super::published): claimed is only under a guard, and not before the slot is free.
//!
//! With one slot, full and free a round later are the same number. Then there is one permit at a time, and it
//! says which: who has the place comes after the message was taken, who has the message after it was put in.
//!
//! Closing marks the tail. A marked tail is no slot's stamp, so nobody claims a ticket any more, and how many
//! there are is settled in that step.

use super::{
    TrySendError,
    published::{Guard, guard, relax, wait_until},
};
#[cfg(feature = "alloc")]
use crate::memory::{NoMemory, try_slice};
use crate::shim::{UnsafeCell, const_unless_loom, ordering};
use core::{marker::PhantomData, mem::MaybeUninit};
use hal::sync::atomic::{AtomicUsize, Ordering::*};

/// In the tail: no more are put in.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// In the stamp of a full slot: nobody had a place for this one, see [`Ring::replace`].
const OVER: usize = CLOSED >> 1;

/// A cache line of its own.
#[repr(align(64))]
struct Line<T>(T);

/// A place for a message.
pub struct Slot<T> {
    stamp: AtomicUsize,
    /// Of who has claimed the ticket that the stamp says.
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Slot<T> {
    const_unless_loom! {
        /// The slot with this number, free.
        pub const fn new(number: usize) -> Self {
            Self {
                stamp: AtomicUsize::new(number),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            }
        }
    }
}

/// Where the slots are.
///
/// # Safety
/// A ticket is always of the same slot, and as many tickets one after the other as there are slots are of
/// different ones: the first is that with number 0.
pub unsafe trait Slots<T> {
    /// How many there are.
    fn count(&self) -> usize;

    /// That of a ticket. Of what is no ticket, as the tail that is marked: any.
    fn of(&self, ticket: usize) -> &Slot<T>;
}

// SAFETY: a remainder. Tickets do not wrap around in the life of a machine; on smaller ones, a power of two divides.
unsafe impl<T, const COUNT: usize> Slots<T> for [Slot<T>; COUNT] {
    #[inline]
    fn count(&self) -> usize {
        const { assert!(usize::BITS >= 64 || COUNT.is_power_of_two()) }
        COUNT
    }

    #[inline]
    fn of(&self, ticket: usize) -> &Slot<T> {
        &self[ticket % COUNT]
    }
}

/// A power of two of them, on the heap.
#[cfg(feature = "alloc")]
pub struct Boxed<T> {
    mask: usize,
    slots: alloc::boxed::Box<[Slot<T>]>,
}

#[cfg(feature = "alloc")]
impl<T> Boxed<T> {
    /// At least so many.
    pub fn try_new(least: usize) -> Result<Self, NoMemory> {
        let count = least.checked_next_power_of_two();
        let count = count.expect("a channel cannot have so many places");
        Ok(Self {
            mask: count - 1,
            slots: try_slice(count, |number| Some(Slot::new(number)))?,
        })
    }
}

// SAFETY: the remainder by a power of two.
#[cfg(feature = "alloc")]
unsafe impl<T> Slots<T> for Boxed<T> {
    #[inline]
    fn count(&self) -> usize {
        self.mask + 1
    }

    #[inline]
    fn of(&self, ticket: usize) -> &Slot<T> {
        // SAFETY: there are `mask + 1`.
        unsafe { self.slots.get_unchecked(ticket & self.mask) }
    }
}

/// The ring.
pub struct Ring<T, S: Slots<T>> {
    /// The next ticket for a message that is put in, and whether it is closed. By who has a place.
    tail: Line<AtomicUsize>,
    /// The next ticket for a message that is taken out. By who has a message.
    head: Line<AtomicUsize>,
    slots: S,
    _owns: PhantomData<T>,
}

// SAFETY: messages are put in here and taken out there, and never shared.
unsafe impl<T: Send, S: Slots<T>> Send for Ring<T, S> {}
// SAFETY: as above; what is not atomic is touched by who has claimed it (loom models `channel`).
unsafe impl<T: Send, S: Slots<T>> Sync for Ring<T, S> {}

/// The ticket of a message that is to be taken out.
pub struct Claimed {
    head: usize,
    claim: Guard,
}

/// A message that was taken out.
pub struct Taken<T> {
    pub value: T,
    /// Its place is to be given back; else it had none.
    pub had_place: bool,
}

impl<T, S: Slots<T>> Ring<T, S> {
    const_unless_loom! {
        /// An empty one.
        pub const fn new(slots: S) -> Self {
            Self {
                tail: Line(AtomicUsize::new(0)),
                head: Line(AtomicUsize::new(0)),
                slots,
                _owns: PhantomData,
            }
        }
    }

    /// Puts a message in, for who has a place. Full: in an interrupt only, see [`push_slowly`](Self::push_slowly).
    #[inline(always)]
    pub fn push(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.try_push(value, 0) {
            Ok(()) => Ok(()),
            Err(value) => self.push_slowly(value, 0),
        }
    }

    /// Puts it in, if nobody is in the way. `over` is 0 or [`OVER`].
    #[inline(always)]
    fn try_push(&self, value: T, over: usize) -> Result<(), T> {
        let claim = guard();
        let tail = self.tail.0.load(Relaxed);
        let slot = self.slots.of(tail);
        // Acquire pairs with the release in `empty`: the slot was read. Relaxed is enough for the claim: what
        // counts is the stamp, and the permits.
        let order = ordering!(Acquire unless seeded = "channel_free_seen_relaxed");
        if slot.stamp.load(order) != tail || !self.claim(&self.tail.0, tail) {
            return Err(value);
        }
        // SAFETY: claimed, and free.
        slot.value
            .with_mut(|place| unsafe { (*place).write(value) });
        // Release pairs with the acquires in `pop` and after it.
        let order = ordering!(Release unless seeded = "channel_published_relaxed");
        slot.stamp.store((tail + 1) | over, order);
        drop(claim);
        Ok(())
    }

    #[inline]
    fn claim(&self, end: &AtomicUsize, ticket: usize) -> bool {
        if cfg!(seeded = "channel_claim_in_two") {
            let is_mine = end.load(Relaxed) == ticket;
            if is_mine {
                end.store(ticket + 1, Relaxed);
            }
            return is_mine;
        }
        end.compare_exchange_weak(ticket, ticket + 1, Relaxed, Relaxed)
            .is_ok()
    }

    /// Puts it in when others are in the way; or it is closed.
    ///
    /// Who is still reading the slot is not waited for in an interrupt, as that may have interrupted him: then
    /// it is full.
    #[cold]
    #[inline(never)]
    fn push_slowly(&self, mut value: T, over: usize) -> Result<(), TrySendError<T>> {
        for looks in 0.. {
            value = match self.try_push(value, over) {
                Ok(()) => return Ok(()),
                Err(value) => value,
            };
            let tail = self.tail.0.load(Relaxed);
            if tail & CLOSED != 0 {
                return Err(TrySendError::Closed(value));
            }
            if looks > LOOKS && in_handler() {
                break;
            }
            relax();
        }
        Err(TrySendError::Full(value))
    }

    /// Takes a message out. Error: it is claimed, but not there yet, or it had no place.
    ///
    /// # Safety
    /// The caller has a permit for one: so those that were ever begun to be taken out are no more than those that were
    /// put in, or, for a moment, one more, see [`replace`](Self::replace).
    #[inline(always)]
    pub unsafe fn pop(&self) -> Result<T, Claimed> {
        let claim = guard();
        let head = self.head.0.fetch_add(1, Relaxed);
        let slot = self.slots.of(head);
        // Acquire pairs with the release in `try_push`.
        let order = ordering!(Acquire unless seeded = "channel_published_seen_relaxed");
        if slot.stamp.load(order) != head + 1 {
            return Err(Claimed { head, claim });
        }
        // SAFETY: claimed, and full.
        let value = unsafe { self.empty(slot, head) };
        drop(claim);
        Ok(value)
    }

    /// Takes out the message that was claimed, as soon as it is there.
    pub fn pop_claimed(&self, Claimed { head, claim }: Claimed) -> Taken<T> {
        let slot = self.slots.of(head);
        let mut stamp = 0;
        wait_until(|| {
            // Acquire as above.
            stamp = slot.stamp.load(Acquire);
            cfg!(seeded = "channel_taken_unpublished") || stamp & !OVER == head + 1
        });
        // SAFETY: claimed, and full.
        let value = unsafe { self.empty(slot, head) };
        drop(claim);
        Taken {
            value,
            had_place: stamp & OVER == 0,
        }
    }

    /// Takes the message out of its slot, and leaves that to who comes a round later.
    ///
    /// # Safety
    /// The caller has claimed this ticket, and it was put in.
    #[inline(always)]
    unsafe fn empty(&self, slot: &Slot<T>, head: usize) -> T {
        // SAFETY: it was written, and nobody else reads it.
        let value = slot
            .value
            .with(|value| unsafe { (*value).assume_init_read() });
        // Release pairs with the acquire in `try_push`.
        let order = ordering!(Release unless seeded = "channel_freed_relaxed");
        slot.stamp.store(head + self.slots.count(), order);
        value
    }

    /// Marks it closed. False: it was so already. Not while somebody [replaces](Self::replace).
    pub fn close(&self) -> bool {
        self.tail.0.fetch_or(CLOSED, Relaxed) & CLOSED == 0
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.tail.0.load(Relaxed) & CLOSED != 0
    }

    /// Whether it was closed, and all that was put in is taken, or about to be. Then that stays so.
    pub fn is_over(&self) -> bool {
        self.tail.0.load(Relaxed) == self.head.0.load(Relaxed) | CLOSED
    }

    /// How many messages are in it.
    pub fn len(&self) -> usize {
        loop {
            // Acquire: the second look at the tail is not before the look at the head.
            let tail = self.tail.0.load(Acquire);
            let head = self.head.0.load(Acquire);
            if self.tail.0.load(Relaxed) == tail {
                // One may be replaced just now.
                return (tail & !CLOSED).saturating_sub(head);
            }
        }
    }
}

/// How often an interrupt looks whether somebody on another core has read a slot at last.
const LOOKS: u32 = 100;

/// Whether this is an interrupt.
pub fn in_handler() -> bool {
    #[cfg(loom)]
    return false;
    #[cfg(not(loom))]
    hal::irq::in_handler()
}

#[cfg(feature = "alloc")]
impl<T, S: Slots<T>> Ring<T, S> {
    /// Puts a message in that nobody has a place for: the oldest gives its own up and is returned. If there is none, all
    /// places are those of others who are about to do something; then there is one message more than
    /// places, so there must be as many slots.
    ///
    /// Its permit is that of the message it replaces: in between those who take out may outnumber what is in, and
    /// spin for this one. So one at a time does this, and it is not closed meanwhile.
    ///
    /// Error: it is closed.
    pub fn replace(&self, value: T) -> Result<Option<T>, T> {
        if self.is_closed() {
            return Err(value);
        }
        let claim = guard();
        let oldest = self.claim_oldest();
        let (oldest, over) = match oldest {
            Some(head) => {
                let slot = self.slots.of(head);
                let over = slot.stamp.load(Relaxed) & OVER;
                // SAFETY: claimed, and full.
                (Some(unsafe { self.empty(slot, head) }), over)
            }
            None => (None, OVER),
        };
        let pushed = self.push_slowly(value, over);
        drop(claim);
        match pushed {
            Ok(()) => Ok(oldest),
            Err(_) => unreachable!("it is not closed meanwhile, and this is no interrupt"),
        }
    }

    /// Claims the oldest message that is in it. None: there is none.
    fn claim_oldest(&self) -> Option<usize> {
        loop {
            let head = self.head.0.load(Relaxed);
            // A step that changes nothing, and so sees what is there now.
            let tail = self.tail.0.fetch_or(0, Relaxed);
            // Acquire as in `pop`.
            let stamp = self.slots.of(head).stamp.load(Acquire);
            if stamp & !OVER == head + 1 && tail > head {
                if self.claim(&self.head.0, head) {
                    return Some(head);
                }
            } else if tail <= head {
                return None;
            } else {
                relax();
            }
        }
    }
}

impl<T, S: Slots<T>> Drop for Ring<T, S> {
    fn drop(&mut self) {
        let head = self.head.0.load(Relaxed);
        for ticket in head..head + self.len() {
            let slot = self.slots.of(ticket);
            // Nobody else is here, so all that was put in is there; unless that was never done.
            if slot.stamp.load(Relaxed) & !OVER == ticket + 1 {
                // SAFETY: full, and not taken out.
                slot.value
                    .with_mut(|value| unsafe { (*value).assume_init_drop() });
            }
        }
    }
}
