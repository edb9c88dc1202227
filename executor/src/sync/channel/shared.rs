//! What both ends of a channel share: one of three channels, and how many of each end there are.
//!
//! Who meets somebody never does that at once, so the quick ways know two: where people meet, there is also a ring, which has
//! no places and never a message.

use super::{
    RecvError, SendError, TryRecvError, TrySendError,
    bounded::Bounded,
    futures::{Channel, Value},
    rendezvous::Rendezvous,
    ring::Boxed,
    unbounded::Unbounded,
};
use crate::{
    NoMemory,
    memory::try_box,
    sync::{Event, permits, wait_list::Waiter},
};
use alloc::boxed::Box;
use core::{
    pin::Pin,
    task::{Poll, Waker},
};
use hal::sync::atomic::{AtomicUsize, Ordering::*};

/// A channel, as both ends see it.
pub struct Shared<T> {
    flavour: Flavour<T>,
    /// With a capacity of 0: the channel.
    rendezvous: Option<Box<Rendezvous<T>>>,
    senders: Count,
    receivers: Count,
    /// It was closed.
    pub(super) closed: Event,
}

// Else it would be told apart by some lock's rank, in which not all values are used; and that takes longer.
#[repr(u8)]
enum Flavour<T> {
    Bounded(Bounded<T, Boxed<T>>),
    Unbounded(Unbounded<T>),
}
use Flavour::*;

/// The same, whatever it is.
macro_rules! each {
    ($shared:expr, $channel:ident => $do:expr) => {
        match (&$shared.rendezvous, &$shared.flavour) {
            (Some($channel), _) => $do,
            (None, Bounded($channel)) => $do,
            (None, Unbounded($channel)) => $do,
        }
    };
}

impl<T> Shared<T> {
    pub fn bounded(capacity: usize) -> Result<Self, NoMemory> {
        assert!(
            capacity < permits::MAX,
            "a channel cannot have so many places"
        );
        // One slot more for what is sent by force.
        let ring = Bounded::new(capacity, Boxed::try_new(capacity + 1)?);
        let rendezvous = match capacity {
            0 => Some(try_box(Rendezvous::new()).map_err(|_| NoMemory)?),
            _ => None,
        };
        Ok(Self::new(Bounded(ring), rendezvous))
    }

    pub fn unbounded() -> Self {
        Self::new(Unbounded(Unbounded::new()), None)
    }

    fn new(flavour: Flavour<T>, rendezvous: Option<Box<Rendezvous<T>>>) -> Self {
        Self {
            flavour,
            rendezvous,
            senders: Count::new(),
            receivers: Count::new(),
            closed: Event::new(),
        }
    }

    pub fn close(&self) -> bool {
        let is_first = each!(self, channel => channel.close());
        if is_first {
            self.closed.set();
        }
        is_first
    }

    pub fn is_closed(&self) -> bool {
        each!(self, channel => channel.is_closed())
    }

    /// Whether it is closed and all is received.
    pub fn is_over(&self) -> bool {
        each!(self, channel => channel.is_over())
    }

    pub fn len(&self) -> usize {
        each!(self, channel => channel.len())
    }

    pub fn is_full(&self) -> bool {
        match &self.flavour {
            Bounded(channel) => channel.is_full(),
            Unbounded(_) => false,
        }
    }

    pub fn capacity(&self) -> Option<usize> {
        match &self.flavour {
            Bounded(channel) => Some(channel.capacity()),
            Unbounded(_) => None,
        }
    }

    pub fn force_send(&self, value: T) -> Result<Option<T>, SendError<T>> {
        match (&self.rendezvous, &self.flavour) {
            (None, Bounded(channel)) => channel.force_send(value),
            _ => match self.try_send(value) {
                Ok(()) => Ok(None),
                Err(TrySendError::Full(value) | TrySendError::NoMemory(value)) => Ok(Some(value)),
                Err(TrySendError::Closed(value)) => Err(SendError(value)),
            },
        }
    }

    pub fn senders(&self) -> &Count {
        &self.senders
    }

    pub fn receivers(&self) -> &Count {
        &self.receivers
    }

    /// A sender is gone.
    pub fn drop_sender(&self) {
        if self.senders.drop_one() {
            self.close();
        }
    }

    /// A receiver is gone.
    pub fn drop_receiver(&self) {
        if self.receivers.drop_one() {
            self.close();
            each!(self, channel => channel.drain());
        }
    }
}

impl<T> Channel<T> for Shared<T> {
    #[inline(always)]
    fn send_now(&self, value: T) -> Result<(), T> {
        match &self.flavour {
            Bounded(channel) => channel.send_now(value),
            Unbounded(channel) => channel.send_now(value),
        }
    }

    #[inline(always)]
    fn recv_now(&self) -> Option<T> {
        match &self.flavour {
            Bounded(channel) => channel.recv_now(),
            Unbounded(channel) => channel.recv_now(),
        }
    }

    #[cold]
    #[inline(never)]
    fn try_send_again(&self, value: T) -> Result<(), TrySendError<T>> {
        each!(self, channel => channel.try_send_again(value))
    }

    #[cold]
    #[inline(never)]
    fn try_recv_again(&self) -> Result<T, TryRecvError> {
        each!(self, channel => channel.try_recv_again())
    }

    unsafe fn wait_to_send(
        &self,
        waiter: Pin<&mut Waiter>,
        value: &Value<T>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError<T>>> {
        // SAFETY: the caller's promise.
        each!(self, channel => unsafe { channel.wait_to_send(waiter, value, waker) })
    }

    unsafe fn leave_senders(&self, waiter: Pin<&mut Waiter>) -> bool {
        // SAFETY: the caller's promise.
        each!(self, channel => unsafe { channel.leave_senders(waiter) })
    }

    unsafe fn wait_to_recv(
        &self,
        waiter: Pin<&mut Waiter>,
        waker: &Waker,
    ) -> Poll<Result<T, RecvError>> {
        // SAFETY: the caller's promise.
        each!(self, channel => unsafe { channel.wait_to_recv(waiter, waker) })
    }

    unsafe fn leave_receivers(&self, waiter: Pin<&mut Waiter>) {
        // SAFETY: the caller's promise.
        each!(self, channel => unsafe { channel.leave_receivers(waiter) });
    }
}

/// How many ends of one kind there are. It does not come back from 0. It cannot overflow: each has an
/// `Arc`, which is counted too.
pub struct Count(AtomicUsize);

impl Count {
    fn new() -> Self {
        Self(AtomicUsize::new(1))
    }

    pub fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// One more, of one that is there.
    pub fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// One more, unless there is none.
    pub fn try_add(&self) -> bool {
        let more = |count| (count != 0).then(|| count + 1);
        self.0.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// One less. Whether it was the last: then all that the others have done is seen.
    fn drop_one(&self) -> bool {
        // Release and acquire pair with each other.
        self.0.fetch_sub(1, AcqRel) == 1
    }
}
