//! Channels with a bound: a ring, and permits for its places and for its messages.
//!
//! Who sends takes a place, puts his message into the ring and gives an item; who receives takes an item, takes a
//! message out of the ring and gives a place. Permits do the waiting: they are had in turn, those of a future
//! that is dropped go to the next, and a message stays in the ring until somebody who has an item is polled.
//!
//! **Closing** marks the ring's tail, in one step: what has a ticket then will be received, and nothing gets one
//! later, so the last ticket is known. Then it closes the places: those who wait for one are refused. Who
//! had been granted one and is polled now finds the mark, and is refused too; so nobody waits for a sender that
//! is not polled. Sends that have their ticket go on, and give their items.
//!
//! Those who wait for messages are refused when the last ticket was claimed to be taken out. Who finds that out?
//! It is claimed before its place is given back, marked before the places are closed, and those two are steps
//! on one word. Either the place comes first: then who closes sees the claim. Or the closing
//! does: then who gives the place back sees the mark. So both look ([`settle`](Bounded::settle)).
//!
//! **When nobody can receive any more** what is in the ring is dropped at once: it may be that somebody waits for an answer to
//! it. Then the items are closed too, early, and a send that is still on its way sees that as it gives its
//! item, and takes a message out again, itself or another such.

use super::{
    RecvError, SendError, TryRecvError, TrySendError,
    futures::{Channel, Value},
    ring::{Claimed, Ring, Slots, Taken, in_handler},
};
use crate::{
    shim::{Panics, const_unless_loom},
    sync::{
        permits::{Closed, Permits, Refusal},
        wait_list::Waiter,
    },
};
use core::{
    pin::Pin,
    task::{Poll, Waker, ready},
};

/// What tasks are shown to wait for.
pub(super) const PLACE: &&str = &"channel to send to";
pub(super) const ITEM: &&str = &"channel to receive from";

/// The channel.
pub struct Bounded<T, S: Slots<T>> {
    /// One for each message that may still be sent.
    places: Permits,
    /// One for each message that is in the ring.
    items: Permits,
    ring: Ring<T, S>,
    capacity: usize,
    /// Held to close it, and to send by force.
    #[cfg(feature = "alloc")]
    closing: crate::shim::Lock<()>,
}

impl<T, S: Slots<T>> Bounded<T, S> {
    const_unless_loom! {
        /// One for so many messages. There are as many slots, or one more if some are sent by force.
        pub const fn new(capacity: usize, slots: S) -> Self {
            Self {
                places: Permits::new(capacity),
                items: Permits::new(0),
                ring: Ring::new(slots),
                capacity,
                #[cfg(feature = "alloc")]
                closing: crate::shim::Lock::new(()),
            }
        }
    }

    /// How many fit.
    #[cfg(feature = "alloc")]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many are in it.
    pub fn len(&self) -> usize {
        self.ring.len().min(self.capacity)
    }

    /// Whether there is no place for anybody who comes now.
    pub fn is_full(&self) -> bool {
        self.places.available() == 0
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.ring.is_closed()
    }

    /// Whether it was closed and all is received.
    #[cfg(feature = "alloc")]
    pub fn is_over(&self) -> bool {
        self.items.is_closed()
    }

    /// Closes it. False: it was closed already.
    pub fn close(&self) -> bool {
        #[cfg(feature = "alloc")]
        let closing = self.closing.lock();
        let is_first = self.ring.close();
        #[cfg(feature = "alloc")]
        drop(closing);
        if is_first {
            self.places.close();
            if !cfg!(seeded = "channel_close_does_not_settle") {
                self.settle();
            }
        }
        is_first
    }

    /// Refuses those who wait for messages, if none will come any more.
    #[cold]
    #[inline(never)]
    fn settle(&self) {
        if self.ring.is_over() {
            self.items.close();
        }
    }

    /// Drops what is in it, now and later: it is closed, and nobody receives any more.
    #[cfg(feature = "alloc")]
    pub fn drain(&self) {
        self.items.close();
        self.drop_up_to(usize::MAX);
    }

    /// A message was sent to nobody.
    #[cold]
    #[inline(never)]
    fn drop_up_to(&self, count: usize) {
        let mut panics = Panics::default();
        for _ in 0..self.items.remove(count) {
            // SAFETY: it has an item.
            panics.hold(|| drop(unsafe { self.get() }));
        }
        panics.go_on();
    }

    /// Puts in a message, for who has a place.
    #[inline(always)]
    fn put(&self, value: T) -> Result<(), TrySendError<T>> {
        if let Err(refused) = self.ring.push(value) {
            return self.put_in_vain(refused);
        }
        // An interrupt drops nothing, and waits for nobody: what is left goes with the channel.
        if self.items.give_one() && !cfg!(seeded = "channel_sent_to_nobody") && !in_handler() {
            self.drop_up_to(1);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn put_in_vain(&self, refused: TrySendError<T>) -> Result<(), TrySendError<T>> {
        self.places.give(1);
        Err(refused)
    }

    /// Takes a message out.
    ///
    /// # Safety
    /// The caller has an item.
    #[inline(always)]
    unsafe fn get(&self) -> T {
        // SAFETY: the caller's promise.
        match unsafe { self.ring.pop() } {
            Ok(value) => {
                if self.places.give_one() && !cfg!(seeded = "channel_last_does_not_settle") {
                    self.settle();
                }
                value
            }
            Err(claimed) => self.get_slowly(claimed),
        }
    }

    /// Takes out a message that is not there yet, or had no place.
    #[cold]
    #[inline(never)]
    fn get_slowly(&self, claimed: Claimed) -> T {
        let Taken { value, had_place } = self.ring.pop_claimed(claimed);
        // One that had no place gives none back, but is a step on the word like all others.
        let is_closed = match had_place {
            true => self.places.give_one(),
            false => self.places.give_none(),
        };
        if is_closed && !cfg!(seeded = "channel_last_does_not_settle") {
            self.settle();
        }
        value
    }

    /// Puts in a message in any case; the one that had to give way, if any.
    #[cfg(feature = "alloc")]
    pub fn force_send(&self, value: T) -> Result<Option<T>, SendError<T>> {
        let value = match self.try_send(value) {
            Ok(()) => return Ok(None),
            Err(refused) => refused.into_inner(),
        };
        let closing = self.closing.lock();
        let replaced = self.ring.replace(value);
        drop(closing);
        match replaced {
            Ok(None) => {
                if self.items.give_one() {
                    self.drop_up_to(1);
                }
                Ok(None)
            }
            Ok(oldest) => Ok(oldest),
            Err(value) => Err(SendError(value)),
        }
    }
}

impl<T, S: Slots<T>> Channel<T> for Bounded<T, S> {
    #[inline(always)]
    fn send_now(&self, value: T) -> Result<(), T> {
        match self.places.try_take_now(1) {
            true => self.put(value).map_err(TrySendError::into_inner),
            false => Err(value),
        }
    }

    #[inline(always)]
    fn recv_now(&self) -> Option<T> {
        // SAFETY: it has an item.
        self.items.try_take_now(1).then(|| unsafe { self.get() })
    }

    #[cold]
    #[inline(never)]
    fn try_send_again(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.places.try_take(1) {
            Ok(()) => self.put(value),
            Err(Refusal::Few) => Err(TrySendError::Full(value)),
            Err(Refusal::Closed) => Err(TrySendError::Closed(value)),
        }
    }

    #[cold]
    #[inline(never)]
    fn try_recv_again(&self) -> Result<T, TryRecvError> {
        match self.items.try_take(1) {
            // SAFETY: it has an item.
            Ok(()) => Ok(unsafe { self.get() }),
            Err(Refusal::Few) => Err(TryRecvError::Empty),
            Err(Refusal::Closed) => Err(TryRecvError::Closed),
        }
    }

    unsafe fn wait_to_send(
        &self,
        waiter: Pin<&mut Waiter>,
        value: &Value<T>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError<T>>> {
        // SAFETY: 1. if it waits, it does so here, for one; 2. the caller's promise.
        let taken = unsafe {
            match waiter.is_waiting() {
                true => self.places.poll_waiting(waiter, 1, waker, PLACE),
                false => self.places.wait(waiter, 1, waker, PLACE),
            }
        };
        let taken = ready!(taken);
        // SAFETY: it waits no more.
        let value = unsafe { value.take() };
        Poll::Ready(match taken {
            Ok(()) => self
                .put(value)
                .map_err(|error| SendError(error.into_inner())),
            Err(Closed) => Err(SendError(value)),
        })
    }

    unsafe fn leave_senders(&self, waiter: Pin<&mut Waiter>) -> bool {
        // SAFETY: it waits here, for one.
        unsafe { self.places.leave(waiter, 1) };
        true
    }

    unsafe fn wait_to_recv(
        &self,
        waiter: Pin<&mut Waiter>,
        waker: &Waker,
    ) -> Poll<Result<T, RecvError>> {
        // SAFETY: 1. if it waits, it does so here, for one; 2. the caller's promise.
        let taken = unsafe {
            match waiter.is_waiting() {
                true => self.items.poll_waiting(waiter, 1, waker, ITEM),
                false => self.items.wait(waiter, 1, waker, ITEM),
            }
        };
        Poll::Ready(match ready!(taken) {
            // SAFETY: it has an item.
            Ok(()) => Ok(unsafe { self.get() }),
            Err(Closed) => Err(RecvError),
        })
    }

    unsafe fn leave_receivers(&self, waiter: Pin<&mut Waiter>) {
        // SAFETY: it waits here, for one.
        unsafe { self.items.leave(waiter, 1) };
    }
}
