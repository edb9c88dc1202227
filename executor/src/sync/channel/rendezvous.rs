//! Channels for no messages at all: who sends and who receives meet.
//!
//! Those who wait are in one list, and are all of one kind: who comes while others wait for his kind meets the first of
//! them. The message goes from one future to the other, under the list's lock, through a pointer in
//! the node. All else here is touched under that lock too.
//!
//! A future that was given a message and is dropped passes it on to the next who waits to receive. If there is nobody, it
//! is kept, in the order in which messages were given, for who comes next. So what somebody did not live to take may come after what was
//! sent later, and after others were told of the end: that is to be mended, by leaving messages with who sends until they are taken.

use super::{
    RecvError, SendError, TryRecvError, TrySendError,
    bounded::{ITEM, PLACE},
    futures::{Channel, Value},
};
use crate::{
    shim::UnsafeCell,
    sync::{
        clone_waker,
        wait_list::{Answer, WaitList, Waiter, Waiters, Woken},
    },
};
use alloc::boxed::Box;
use core::{
    pin::Pin,
    ptr,
    task::{Poll, Waker},
};

// What a waiter is told.
/// It has met somebody.
const MET: Answer = 1;
/// The channel is closed.
const REFUSED: Answer = 2;

/// The channel.
pub struct Rendezvous<T> {
    waiters: WaitList,
    /// Under the list's lock.
    state: UnsafeCell<State<T>>,
}

struct State<T> {
    /// If anybody waits, it is to receive.
    are_receivers: bool,
    is_closed: bool,
    /// How many were given to somebody who waited.
    given: usize,
    /// What was given to somebody who did not live to take it, the first first.
    kept: Option<Box<Kept<T>>>,
}

struct Kept<T> {
    /// Always there once it is kept.
    value: Option<T>,
    /// Which of those that were given it is.
    number: usize,
    next: Option<Box<Kept<T>>>,
}

// SAFETY: messages are put in here and taken out there, and never shared.
unsafe impl<T: Send> Send for Rendezvous<T> {}
// SAFETY: as above; the state is guarded by the list's lock.
unsafe impl<T: Send> Sync for Rendezvous<T> {}

impl<T> Rendezvous<T> {
    pub fn new() -> Self {
        Self {
            waiters: WaitList::new(),
            state: UnsafeCell::new(State {
                are_receivers: false,
                is_closed: false,
                given: 0,
                kept: None,
            }),
        }
    }

    fn with<R>(&self, _: &mut Waiters<'_>, change: impl FnOnce(&mut State<T>) -> R) -> R {
        // SAFETY: the lock is held, and no `change` in this file comes back here.
        self.state.with_mut(|state| change(unsafe { &mut *state }))
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.with(&mut self.waiters.lock(), |state| {
            let mut count = 0;
            let mut next = &state.kept;
            while let Some(kept) = next {
                count += 1;
                next = &kept.next;
            }
            count
        })
    }

    pub fn is_closed(&self) -> bool {
        self.with(&mut self.waiters.lock(), |state| state.is_closed)
    }

    /// Whether it was closed and nothing is kept.
    pub fn is_over(&self) -> bool {
        self.with(&mut self.waiters.lock(), |state| {
            state.is_closed && state.kept.is_none()
        })
    }

    /// Closes it. False: it was closed already.
    pub fn close(&self) -> bool {
        let mut waiters = self.waiters.lock();
        let was_closed = self.with(&mut waiters, |state| {
            core::mem::replace(&mut state.is_closed, true)
        });
        self.waiters.answer_all(waiters, REFUSED);
        !was_closed
    }

    /// Drops what is kept: it is closed, and nobody receives any more.
    pub fn drain(&self) {
        loop {
            let kept = self.take_kept(&mut self.waiters.lock());
            if kept.is_none() {
                return;
            }
        }
    }

    fn take_kept(&self, waiters: &mut Waiters<'_>) -> Option<Box<Kept<T>>> {
        self.with(waiters, |state| {
            let mut kept = state.kept.take()?;
            state.kept = kept.next.take();
            Some(kept)
        })
    }

    /// Gives a message to the first who waits to receive, if there is one.
    fn give(&self, waiters: &mut Waiters<'_>, value: T, woken: &mut Woken) -> Result<(), T> {
        if waiters.is_empty() || !self.with(waiters, |state| state.are_receivers) {
            return Err(value);
        }
        let number = self.with(waiters, |state| {
            state.given += 1;
            state.given
        });
        waiters.with_first(|request| {
            // SAFETY: it is in the list, which is locked; so it waits, and this is its own.
            unsafe { (*ptr::with_exposed_provenance::<Value<T>>(*request)).put(value) };
            *request = number;
        });
        waiters.answer_first(MET, woken);
        Ok(())
    }

    /// Takes what is kept, or the message of the first who waits to send.
    fn get(&self, waiters: &mut Waiters<'_>, woken: &mut Woken) -> Result<Got<T>, TryRecvError> {
        if let Some(kept) = self.take_kept(waiters) {
            return Ok(Got::Kept(kept));
        }
        if self.with(waiters, |state| state.is_closed) {
            return Err(TryRecvError::Closed);
        }
        if waiters.is_empty() || self.with(waiters, |state| state.are_receivers) {
            return Err(TryRecvError::Empty);
        }
        let value = waiters.with_first(|request| {
            // SAFETY: it is in the list, which is locked; so it waits, and this is its own.
            unsafe { (*ptr::with_exposed_provenance::<Value<T>>(*request)).take() }
        });
        waiters.answer_first(MET, woken);
        Ok(Got::Sent(value.expect("the list is not empty")))
    }

    /// Goes behind all others.
    ///
    /// # Safety
    /// As for [`Channel::wait_to_send`].
    unsafe fn join(
        &self,
        mut waiters: Waiters<'_>,
        waiter: Pin<&mut Waiter>,
        value: &Value<T>,
        waker: Waker,
        to_receive: bool,
    ) {
        self.with(&mut waiters, |state| state.are_receivers = to_receive);
        let request = ptr::from_ref(value).expose_provenance();
        // SAFETY: the caller's promise.
        unsafe { waiter.join(&mut waiters, request, Some(waker)) };
    }

    /// A message that was given to somebody who is no more.
    #[cold]
    fn pass_on(&self, value: T, number: usize) {
        // Memory is neither allocated nor freed under the lock, so it may be in vain.
        let mut kept = Some(Box::new(Kept {
            value: Some(value),
            number,
            next: None,
        }));
        let mut woken = Woken::new();
        let mut waiters = self.waiters.lock();
        let given = {
            let kept = kept.as_mut().expect("it was just made");
            let value = kept.value.take().expect("it was just put in");
            self.give(&mut waiters, value, &mut woken)
                .map_err(|value| kept.value = Some(value))
        };
        if given.is_err() {
            self.with(&mut waiters, |state| {
                let mut place = &mut state.kept;
                while place.as_ref().is_some_and(|before| before.number < number) {
                    place = &mut place.as_mut().expect("there is one").next;
                }
                let mut kept = kept.take().expect("it was not given");
                kept.next = place.take();
                *place = Some(kept);
            });
        }
        drop(waiters);
        woken.wake();
    }
}

/// A message, with what is to be freed once the list is unlocked.
enum Got<T> {
    Sent(T),
    Kept(Box<Kept<T>>),
}

impl<T> Got<T> {
    fn value(self) -> T {
        match self {
            Self::Sent(value) => value,
            Self::Kept(kept) => kept.value.expect("what is kept is there"),
        }
    }
}

impl<T> Channel<T> for Rendezvous<T> {
    fn send_now(&self, value: T) -> Result<(), T> {
        self.try_send_again(value).map_err(TrySendError::into_inner)
    }

    fn recv_now(&self) -> Option<T> {
        self.try_recv_again().ok()
    }

    fn try_send_again(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut woken = Woken::new();
        let mut waiters = self.waiters.lock();
        let sent = if self.with(&mut waiters, |state| state.is_closed) {
            Err(TrySendError::Closed(value))
        } else {
            self.give(&mut waiters, value, &mut woken)
                .map_err(TrySendError::Full)
        };
        drop(waiters);
        woken.wake();
        sent
    }

    fn try_recv_again(&self) -> Result<T, TryRecvError> {
        let mut woken = Woken::new();
        let mut waiters = self.waiters.lock();
        let got = self.get(&mut waiters, &mut woken);
        drop(waiters);
        woken.wake();
        got.map(Got::value)
    }

    unsafe fn wait_to_send(
        &self,
        waiter: Pin<&mut Waiter>,
        value: &Value<T>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError<T>>> {
        let clone = |waker: &Waker| clone_waker(waker, PLACE);
        if waiter.is_waiting() {
            // SAFETY: it waits here.
            return match unsafe { waiter.poll(&self.waiters, waker, clone) } {
                None => Poll::Pending,
                Some(answered) if answered.answer == Some(MET) => Poll::Ready(Ok(())),
                // SAFETY: it waits no more.
                Some(_) => Poll::Ready(Err(SendError(unsafe { value.take() }))),
            };
        }
        let waker = clone(waker);
        let mut woken = Woken::new();
        let mut waiters = self.waiters.lock();
        // SAFETY: it does not wait.
        let message = unsafe { value.take() };
        let sent = if self.with(&mut waiters, |state| state.is_closed) {
            Err(SendError(message))
        } else if let Err(message) = self.give(&mut waiters, message, &mut woken) {
            // SAFETY: it does not wait; the caller's promise.
            unsafe {
                value.put(message);
                self.join(waiters, waiter, value, waker, false);
            }
            return Poll::Pending;
        } else {
            Ok(())
        };
        drop(waiters);
        woken.wake();
        Poll::Ready(sent)
    }

    unsafe fn leave_senders(&self, waiter: Pin<&mut Waiter>) -> bool {
        // SAFETY: it waits here.
        let left = unsafe { waiter.leave(&self.waiters, |_| {}) };
        left.answer != Some(MET)
    }

    unsafe fn wait_to_recv(
        &self,
        waiter: Pin<&mut Waiter>,
        value: &Value<T>,
        waker: &Waker,
    ) -> Poll<Result<T, RecvError>> {
        let clone = |waker: &Waker| clone_waker(waker, ITEM);
        if waiter.is_waiting() {
            // SAFETY: it waits here.
            return match unsafe { waiter.poll(&self.waiters, waker, clone) } {
                None => Poll::Pending,
                Some(answered) if answered.answer == Some(MET) => {
                    // SAFETY: it waits no more.
                    Poll::Ready(Ok(unsafe { value.take() }))
                }
                Some(_) => Poll::Ready(Err(RecvError)),
            };
        }
        let waker = clone(waker);
        let mut woken = Woken::new();
        let mut waiters = self.waiters.lock();
        let got = self.get(&mut waiters, &mut woken);
        if matches!(got, Err(TryRecvError::Empty)) {
            // SAFETY: the caller's promise.
            unsafe { self.join(waiters, waiter, value, waker, true) };
            return Poll::Pending;
        }
        drop(waiters);
        woken.wake();
        Poll::Ready(got.map(Got::value).map_err(|_| RecvError))
    }

    unsafe fn leave_receivers(&self, waiter: Pin<&mut Waiter>, value: &Value<T>) {
        // SAFETY: it waits here.
        let left = unsafe { waiter.leave(&self.waiters, |_| {}) };
        if left.answer == Some(MET) && !cfg!(seeded = "channel_met_is_lost") {
            // SAFETY: it waits no more.
            self.pass_on(unsafe { value.take() }, left.request);
        }
    }
}
