//! Channels without a bound: blocks of slots, and permits for messages.
//!
//! One word counts what is being sent or was sent and is not received yet, and says whether it is closed. It is
//! counted before it is put in, so what is counted when it is closed will be received, and what comes after that is
//! refused. Whoever counts the last one down after that refuses those who wait: all are steps on one word, so somebody
//! does. As in [`bounded`](super::bounded), when nobody can receive any more, what is in it is dropped.

use super::{
    RecvError, SendError, TryRecvError, TrySendError,
    blocks::Blocks,
    bounded::ITEM,
    futures::{Channel, Value},
};
use crate::{
    shim::Panics,
    sync::{
        permits::{Closed, Permits, Refusal},
        wait_list::Waiter,
    },
};
use core::{
    pin::Pin,
    task::{Poll, Waker, ready},
};
use hal::sync::atomic::{AtomicUsize, Ordering::*};

/// In the count: no more are sent. The sign, so that counting learns it from the sum.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The channel.
pub struct Unbounded<T> {
    /// Messages that are counted, and whether it is closed. Relaxed throughout: all that depends on it is in this one word.
    count: AtomicUsize,
    /// One for each message that is in `blocks`.
    items: Permits,
    blocks: Blocks<T>,
}

impl<T> Unbounded<T> {
    pub fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            items: Permits::new(0),
            blocks: Blocks::new(),
        }
    }

    /// How many are in it, or about to be.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed) & !CLOSED
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.count.load(Relaxed) & CLOSED != 0
    }

    /// Whether it was closed and all is received.
    pub fn is_over(&self) -> bool {
        self.items.is_closed()
    }

    /// Closes it. False: it was closed already.
    pub fn close(&self) -> bool {
        let before = self.count.fetch_or(CLOSED, Relaxed);
        if before == 0 {
            self.items.close();
        }
        before & CLOSED == 0
    }

    /// Counts one down that is received, or was not sent.
    #[inline(always)]
    fn uncount(&self) {
        // Nothing but the sign is used: so the sum need not be fetched. Compilers see that if -1 is added.
        const LESS: usize = usize::MAX;
        let left = self.count.fetch_add(LESS, Relaxed).wrapping_add(LESS);
        if (left as isize) < 0 {
            self.uncounted();
        }
    }

    /// It is closed. Whoever counts down last sees that he does: the word is no older than what he has left there, and nobody
    /// changes it after him.
    #[cold]
    #[inline(never)]
    fn uncounted(&self) {
        if self.count.load(Relaxed) == CLOSED {
            self.items.close();
        }
    }

    /// It is closed, or there is no memory.
    #[cold]
    #[inline(never)]
    fn refuse(&self, value: T) -> Result<(), T> {
        self.uncount();
        Err(value)
    }

    /// Takes a message out.
    ///
    /// # Safety
    /// The caller has an item.
    #[inline(always)]
    unsafe fn get(&self) -> T {
        // SAFETY: an item is given after a push is done, and the caller has one.
        let value = unsafe { self.blocks.pop() };
        self.uncount();
        value
    }

    /// Drops what is in it, now and later: it is closed, and nobody receives any more.
    pub fn drain(&self) {
        self.items.close();
        self.drop_up_to(usize::MAX);
    }

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
}

impl<T> Channel<T> for Unbounded<T> {
    #[inline(always)]
    fn send_now(&self, value: T) -> Result<(), T> {
        let sum = self.count.fetch_add(1, Relaxed) + 1;
        if (sum as isize) < 0 {
            return self.refuse(value);
        }
        if let Err(value) = self.blocks.try_push(value) {
            return self.refuse(value);
        }
        if self.items.give_one() {
            self.drop_up_to(1);
        }
        Ok(())
    }

    #[inline(always)]
    fn recv_now(&self) -> Option<T> {
        // SAFETY: it has an item.
        self.items.try_take_now(1).then(|| unsafe { self.get() })
    }

    fn try_send_again(&self, value: T) -> Result<(), TrySendError<T>> {
        // It was not sent just now.
        Err(match self.is_closed() {
            true => TrySendError::Closed(value),
            false => TrySendError::NoMemory(value),
        })
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
        _: Pin<&mut Waiter>,
        value: &Value<T>,
        _: &Waker,
    ) -> Poll<Result<(), SendError<T>>> {
        // It was not sent at once.
        if !self.is_closed() {
            Blocks::<T>::out_of_memory();
        }
        // SAFETY: nobody waits to send.
        Poll::Ready(Err(SendError(unsafe { value.take() })))
    }

    unsafe fn leave_senders(&self, _: Pin<&mut Waiter>) -> bool {
        unreachable!("nobody waits to send")
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
