//! The queue under channels without a bound: blocks of slots, each linked to the next.
//!
//! ```text
//!   [ taken | taken | being read | c | d ] -> [ e | being written | g | free | free ]
//!                                  ^ head                               ^ tail
//! ```
//!
//! Each end is one word: the address of the slot that is next. A block is aligned to its size, so that says also which block
//! it is in, and whether it is the last one there; and one step claims a slot and says where it is.
//!
//! - **A claim keeps the block.** It is used again only after all of its slots were read, so who has claimed a slot
//!   may touch it until he has published or read that. Before the claim nobody touches a block. So it does not
//!   matter that the block that was looked at may be gone before the claim, and even come back: the
//!   claim is of what the word says then.
//! - **Push** writes its slot and publishes it. Who claims the last slot of a block has the next block ready and makes
//!   it the tail in the same step, so pushes never wait for each other. He links it before he publishes his slot.
//! - **Pop** waits until its slot is published, reads it, clears it, and counts it as read. Who claims the last slot
//!   of a block waits for it at once, and then makes the next block the head; until then other pops wait for him.
//! - **Who reads last** has the block to himself: it is clean, and becomes the spare, or is freed if there is one.
//!
//! All that is waited for is owed by somebody with a [`guard`]: by pushes from claim to publication, and by the
//! pop of a last slot until the head is moved. No memory is allocated or freed under it.

use super::{
    block::{Block, Place, Slot},
    published::{guard, wait_until},
};
use crate::{
    queue::Padded,
    shim::{const_unless_loom, ordering},
};
use alloc::alloc::handle_alloc_error;
use core::{
    marker::PhantomData,
    ptr::{self, NonNull},
};
use hal::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, Ordering::*, fence};

/// An unbounded queue, for many at both ends.
pub struct Blocks<T> {
    new_end: Padded<NewEnd<T>>,
    old_end: Padded<OldEnd<T>>,
}

/// Written by pushes.
struct NewEnd<T> {
    /// The [`Place`] that is to be written next. [`NONE`](Place::NONE): there is no block yet.
    tail: AtomicUsize,
    /// A clean block for later, or null. Put here by pops.
    spare: AtomicPtr<Block<T>>,
}

/// Written by pops.
struct OldEnd<T> {
    /// The [`Place`] that is to be read next. [`NONE`](Place::NONE): the next block is about to be put here.
    head: AtomicUsize,
    _slots: PhantomData<*mut Slot<T>>,
}

// SAFETY: values are put in here and taken out there, and never shared; blocks are the queue's own.
unsafe impl<T: Send> Send for Blocks<T> {}
// SAFETY: as above; what is not atomic is touched by one at a time (loom models `blocks`).
unsafe impl<T: Send> Sync for Blocks<T> {}

#[allow(clippy::new_without_default, reason = "it is a part of something")]
impl<T> Blocks<T> {
    const_unless_loom! {
        /// An empty queue. Nothing is allocated before the first push.
        pub const fn new() -> Self {
            Self {
                new_end: Padded(NewEnd {
                    tail: AtomicUsize::new(Place::<T>::NONE),
                    spare: AtomicPtr::new(ptr::null_mut()),
                }),
                old_end: Padded(OldEnd {
                    head: AtomicUsize::new(Place::<T>::NONE),
                    _slots: PhantomData,
                }),
            }
        }
    }

    /// Puts a value at the end.
    #[cfg(any(test, loom))]
    pub fn push(&self, value: T) {
        if self.try_push(value).is_err() {
            Self::out_of_memory();
        }
    }

    /// There is no memory for another block, and nobody to tell.
    #[cold]
    pub fn out_of_memory() -> ! {
        handle_alloc_error(Block::<T>::LAYOUT)
    }

    /// Puts a value at the end, or gives it back if there is no memory. Allocates at times, so not in interrupts.
    #[inline]
    pub fn try_push(&self, value: T) -> Result<(), T> {
        let tail = self.new_end.tail.load(Relaxed);
        match self.push_within(tail, value) {
            Ok(()) => Ok(()),
            Err(value) => self.push_slowly(value),
        }
    }

    /// Puts a value into this place, if it is the tail, and not the last of its block.
    #[inline]
    fn push_within(&self, tail: usize, value: T) -> Result<(), T> {
        let place = Place::<T>::new(tail);
        let Some(next) = place.next() else {
            return Err(value);
        };
        let claim = guard();
        // Acquire pairs with the release in `push_slowly`: who sees the block sees that it is clean.
        let order = ordering!(Acquire unless seeded = "blocks_push_claim_relaxed");
        if !self.claim_to_write(tail, next, order) {
            return Err(value);
        }
        // SAFETY: the slot was claimed just now.
        unsafe { Slot::publish(place.slot(), value) };
        drop(claim);
        Ok(())
    }

    #[inline]
    fn claim_to_write(&self, tail: usize, next: usize, order: Ordering) -> bool {
        let end = &self.new_end.tail;
        if cfg!(seeded = "blocks_push_claim_in_two") {
            let is_mine = end.load(order) == tail;
            if is_mine {
                end.store(next, Release);
            }
            return is_mine;
        }
        let claimed = end.compare_exchange_weak(tail, next, order, Relaxed);
        claimed.is_ok()
    }

    /// Puts a value at the end where a block ends, or when another one was faster.
    #[cold]
    #[inline(never)]
    fn push_slowly(&self, mut value: T) -> Result<(), T> {
        let mut ready = None;
        loop {
            let tail = self.new_end.tail.load(Relaxed);
            let place = Place::<T>::new(tail);
            if place.next().is_some() {
                value = match self.push_within(tail, value) {
                    Ok(()) => {
                        // What this one has got ready is for later.
                        if let Some(block) = ready {
                            self.keep(block);
                        }
                        return Ok(());
                    }
                    Err(value) => value,
                };
                continue;
            }
            let Some(next) = ready.or_else(|| self.clean_block()) else {
                return Err(value);
            };
            ready = Some(next);
            let claim = guard();
            // Acquire as in `push_within`. Release pairs with both: who sees the new block sees that it is clean.
            let order = if cfg!(seeded = "blocks_last_claim_relaxed") {
                Release
            } else if cfg!(seeded = "blocks_tail_moved_relaxed") {
                Acquire
            } else {
                AcqRel
            };
            if !self.claim_to_write(tail, Block::first(next), order) {
                continue;
            }
            ready = None;
            if tail == Place::<T>::NONE {
                // It was no slot, there was no block. Pops wait for this: release pairs with their acquire.
                let order = ordering!(Release unless seeded = "blocks_begun_relaxed");
                self.old_end.head.store(Block::first(next), order);
                continue;
            }
            let full = place.block();
            // SAFETY: the last slot was claimed just now, which keeps the block until it is published; and
            // who has claimed it to write it writes `next` too.
            unsafe {
                let link = || (*full).next.with_mut(|link| *link = next.as_ptr());
                if !cfg!(seeded = "blocks_linked_late") {
                    link();
                }
                Slot::publish(place.slot(), value);
                if cfg!(seeded = "blocks_linked_late") {
                    link();
                }
            }
            drop(claim);
            return Ok(());
        }
    }

    /// Takes the oldest value, in the order in which slots were claimed by pushes. If the push
    /// that has claimed it is not done yet, spins for the few instructions that are left of it.
    ///
    /// # Safety
    /// The pops that have begun never outnumber the pushes that are done.
    #[inline]
    pub unsafe fn pop(&self) -> T {
        let head = self.old_end.head.load(Relaxed);
        match self.claim_within(head) {
            // SAFETY: the slot was claimed just now, and by the caller's promise a push has claimed it before.
            true => unsafe { self.take(Place::new(head)) },
            // SAFETY: the caller's promise.
            false => unsafe { self.pop_slowly() },
        }
    }

    /// Claims this place to read it, if it is the head, and not the last of its block.
    #[inline]
    fn claim_within(&self, head: usize) -> bool {
        // Acquire pairs with the releases that have put the block there: a slot is published only if it is so in
        // this life of the block.
        let order = ordering!(Acquire unless seeded = "blocks_pop_claim_relaxed");
        let next = Place::<T>::new(head).next();
        next.is_some_and(|next| self.claim_to_read(head, next, order))
    }

    #[inline]
    fn claim_to_read(&self, head: usize, next: usize, order: Ordering) -> bool {
        let end = &self.old_end.head;
        if cfg!(seeded = "blocks_pop_claim_in_two") {
            let is_mine = end.load(order) == head;
            if is_mine {
                end.store(next, Release);
            }
            return is_mine;
        }
        let claimed = end.compare_exchange_weak(head, next, order, Relaxed);
        claimed.is_ok()
    }

    /// Takes the oldest value where a block ends, or when another one was faster.
    ///
    /// # Safety
    /// As for [`pop`](Self::pop).
    #[cold]
    #[inline(never)]
    unsafe fn pop_slowly(&self) -> T {
        loop {
            let head = self.old_end.head.load(Relaxed);
            let place = Place::<T>::new(head);
            if place.next().is_some() {
                if self.claim_within(head) {
                    // SAFETY: as in `pop`.
                    return unsafe { self.take(place) };
                }
                continue;
            }
            if head == Place::<T>::NONE {
                // Who has the last slot, or the first push of all, is about to say where to go on.
                wait_until(|| self.old_end.head.load(Relaxed) != Place::<T>::NONE);
                continue;
            }
            let claim = guard();
            // Acquire as in `claim_within`.
            let order = ordering!(Acquire unless seeded = "blocks_pop_last_claim_relaxed");
            if !self.claim_to_read(head, Place::<T>::NONE, order) {
                continue;
            }
            // SAFETY: the last slot was claimed just now, which keeps the block until it is counted as read. It was
            // linked before it was published.
            unsafe {
                if !cfg!(seeded = "blocks_moved_unpublished") {
                    wait_until(|| Slot::is_published(place.slot()));
                }
                let next = (*place.block()).next.with(|next| *next);
                // Release pairs with the acquires of pops: the acquire in `is_published` has made the new block seen here.
                let order = ordering!(Release unless seeded = "blocks_head_moved_relaxed");
                let next = NonNull::new(next).expect("the last slot is published");
                self.old_end.head.store(Block::first(next), order);
                drop(claim);
                return self.take(place);
            }
        }
    }

    /// Takes the value out of a slot, as soon as it is there.
    ///
    /// # Safety
    /// The caller has claimed it to read it, and somebody has claimed it to write it.
    #[inline]
    unsafe fn take(&self, place: Place<T>) -> T {
        // SAFETY: the caller's promise.
        unsafe {
            match Slot::is_published(place.slot()) {
                true => self.take_published(place),
                false => self.take_late(place),
            }
        }
    }

    /// # Safety
    /// As for [`take`](Self::take).
    #[cold]
    #[inline(never)]
    unsafe fn take_late(&self, place: Place<T>) -> T {
        // SAFETY: the caller's promise.
        unsafe {
            wait_until(|| Slot::is_published(place.slot()));
            self.take_published(place)
        }
    }

    /// # Safety
    /// As for [`take`](Self::take), and the slot is published.
    #[inline]
    unsafe fn take_published(&self, place: Place<T>) -> T {
        let (block, slot) = (place.block(), place.slot());
        // SAFETY: the claim keeps the block until the slot is counted as read, and nobody else reads it.
        let (value, is_last) = unsafe {
            if cfg!(seeded = "blocks_counted_first") {
                let is_last = (*block).unread.fetch_sub(1, Release) == 1;
                (Slot::read(slot), is_last)
            } else {
                let value = Slot::read(slot);
                // Release pairs with the acquire in `recycle`: whoever writes the slot next is behind this.
                let order = ordering!(Release unless seeded = "blocks_counted_relaxed");
                (value, (*block).unread.fetch_sub(1, order) == 1)
            }
        };
        if cfg!(seeded = "blocks_last_slot_is_last") {
            match place.next() {
                None => self.recycle(block, value),
                Some(_) => value,
            }
        } else if is_last {
            self.recycle(block, value)
        } else {
            value
        }
    }

    /// Makes a block ready for its next life. It is the caller's: all of its slots were counted as read. Passes
    /// `value` through, so that the caller need not save it for this rare case.
    #[cold]
    #[inline(never)]
    fn recycle(&self, block: *mut Block<T>, value: T) -> T {
        // Pairs with the releases in `take_published`: all that was done to the slots is over.
        if !cfg!(seeded = "blocks_recycled_unseen") {
            fence(Acquire);
        }
        // SAFETY: it is the caller's, so nobody else touches it.
        unsafe {
            if !cfg!(seeded = "blocks_recycled_uncounted") {
                (*block).unread.store(Block::<T>::SLOTS as u32, Relaxed);
            }
            self.keep(NonNull::new_unchecked(block));
        }
        value
    }

    /// Keeps a clean block for later, or frees it if there is one already.
    fn keep(&self, block: NonNull<Block<T>>) {
        let spare = &self.new_end.spare;
        if cfg!(seeded = "blocks_spare_replaced") {
            spare.store(block.as_ptr(), Release);
            return;
        }
        // Release pairs with the acquire in `clean_block`: who takes it sees that it is clean.
        let order = ordering!(Release unless seeded = "blocks_spare_put_relaxed");
        let kept = spare.compare_exchange(ptr::null_mut(), block.as_ptr(), order, Relaxed);
        if kept.is_err() {
            // SAFETY: it is the caller's, and in no queue.
            unsafe { Block::free(block) };
        }
    }

    /// The spare block, or a new one. None: there is no memory.
    fn clean_block(&self) -> Option<NonNull<Block<T>>> {
        let spare = &self.new_end.spare;
        // Acquire pairs with the release in `keep`.
        let order = ordering!(Acquire unless seeded = "blocks_spare_taken_relaxed");
        let block = if cfg!(seeded = "blocks_spare_taken_in_two") {
            let block = spare.load(order);
            spare.store(ptr::null_mut(), Relaxed);
            block
        } else {
            spare.swap(ptr::null_mut(), order)
        };
        NonNull::new(block).or_else(Block::allocate)
    }
}

impl<T> Drop for Blocks<T> {
    fn drop(&mut self) {
        // Nobody is in the middle of anything, so the two ends meet where the values end. If dropping one
        // panics, the others are leaked.
        let tail = self.new_end.tail.load(Relaxed);
        if tail != Place::<T>::NONE {
            while self.old_end.head.load(Relaxed) != tail {
                // SAFETY: a push is done that no pop has begun for.
                drop(unsafe { self.pop() });
            }
            // SAFETY: both ends are in it, so it is the last, and nobody comes any more.
            unsafe { Block::free(NonNull::new_unchecked(Place::<T>::new(tail).block())) };
        }
        if let Some(spare) = NonNull::new(self.new_end.spare.load(Relaxed)) {
            // SAFETY: nobody comes any more.
            unsafe { Block::free(spare) };
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
