//! Channels for no messages at all: who sends and who receives meet.
//!
//! Those who wait are in one list, and are all of one kind: who comes while others wait for his kind meets the first of
//! them. All else here is touched under that list's lock.
//!
//! Who comes to receive takes the message of the first who waits to send, out of his future. Who comes to send does not put
//! his into the future of who waits to receive, for that may be dropped, and others would have received later
//! ones meanwhile. He puts it behind those that are on their way and promises *one* to the first who waits. Whoever is
//! polled first takes the oldest; a promise to somebody who is dropped goes to the next, or to who comes next. So messages are
//! received in the order in which they were sent. And when it is closed, those who wait are refused only when
//! nothing is on its way any more.
//!
//! A message on its way needs memory, a [`Parcel`], and there is none to be had under a lock or in an interrupt. So who waits to receive
//! brings it along.

use super::{
    RecvError, SendError, TryRecvError, TrySendError,
    bounded::{ITEM, PLACE},
    futures::{Channel, Value},
    parcels::{Parcel, Parcels},
};
use crate::{
    shim::{Panics, UnsafeCell},
    sync::{
        clone_waker,
        wait_list::{Answer, Answered, WaitList, Waiter, Waiters, Woken},
    },
};
use alloc::boxed::Box;
use core::{
    mem,
    pin::Pin,
    ptr,
    task::{Poll, Waker},
};

// What a waiter is told.
/// It has met somebody. Who waits to receive: one of those that are on their way is promised to it.
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
    /// What was sent and not received, the oldest first.
    on_the_way: Parcels<T>,
    /// How many of these are promised to nobody. If there are any, nobody waits to receive.
    free: usize,
    /// For the next who waits to receive.
    empty: Option<Box<Parcel<T>>>,
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
                on_the_way: Parcels::new(),
                free: 0,
                empty: None,
            }),
        }
    }

    fn with<R>(&self, _: &mut Waiters<'_>, change: impl FnOnce(&mut State<T>) -> R) -> R {
        // SAFETY: the lock is held, and no `change` in this file comes back here.
        self.state.with_mut(|state| change(unsafe { &mut *state }))
    }

    /// None: what is on its way is in the hands of those who wait.
    pub fn len(&self) -> usize {
        0
    }

    pub fn is_closed(&self) -> bool {
        self.with(&mut self.waiters.lock(), |state| state.is_closed)
    }

    /// Whether it was closed and all is received.
    pub fn is_over(&self) -> bool {
        self.with(&mut self.waiters.lock(), |state| state.is_over())
    }

    /// Closes it. False: it was closed already.
    pub fn close(&self) -> bool {
        let mut waiters = self.waiters.lock();
        let (was_closed, is_over) = self.with(&mut waiters, |state| {
            let was_closed = mem::replace(&mut state.is_closed, true);
            // Who waits to send is refused in any case.
            let is_over = state.is_over() || !state.are_receivers;
            (was_closed, is_over)
        });
        if is_over || cfg!(seeded = "channel_met_after_the_end") {
            self.waiters.answer_all(waiters, REFUSED);
        }
        !was_closed
    }

    /// Drops what is on its way: it is closed, and nobody receives any more.
    pub fn drain(&self) {
        let mut panics = Panics::default();
        while let Ok(value) = self.try_recv_again() {
            panics.hold(|| drop(value));
        }
        panics.go_on();
    }

    /// Promises a message to the first who waits to receive, if there is one.
    fn give(&self, waiters: &mut Waiters<'_>, value: T, woken: &mut Woken) -> Result<(), T> {
        if waiters.is_empty() || !self.with(waiters, |state| state.are_receivers) {
            return Err(value);
        }
        let parcel = waiters.with_first(mem::take).expect("somebody waits");
        // SAFETY: he has brought it along, and nobody else takes it: it is no longer in his request.
        let parcel = unsafe { brought(parcel) }.expect("he has not met anybody");
        self.with(waiters, |state| state.on_the_way.push(parcel, value));
        waiters.answer_first(MET, woken);
        Ok(())
    }

    /// Takes the oldest message, if one is promised to nobody or somebody waits to send.
    fn get(&self, waiters: &mut Waiters<'_>, woken: &mut Woken) -> Result<Taken<T>, TryRecvError> {
        let (free, is_over, are_receivers) = self.with(waiters, |state| {
            (state.free, state.is_over(), state.are_receivers)
        });
        if free != 0 {
            return Ok(self.with(waiters, |state| {
                state.free -= 1;
                state.take()
            }));
        }
        if is_over {
            return Err(TryRecvError::Closed);
        }
        if waiters.is_empty() || are_receivers {
            return Err(TryRecvError::Empty);
        }
        let value = waiters.with_first(|request| {
            // SAFETY: it is in the list, which is locked; so it waits, and this is its own.
            unsafe { (*ptr::with_exposed_provenance::<Value<T>>(*request)).take() }
        });
        let value = value.expect("the list is not empty");
        waiters.answer_first(MET, woken);
        if cfg!(seeded = "channel_met_out_of_turn") {
            return Ok((value, None));
        }
        // Those that are on their way were sent before.
        let oldest = self.with(waiters, |state| state.on_the_way.exchange(value));
        Ok((oldest, None))
    }

    /// Takes what was promised.
    fn take_promised(&self) -> T {
        let mut waiters = self.waiters.lock();
        let ((value, _parcel), is_over) =
            self.with(&mut waiters, |state| (state.take(), state.is_over()));
        match is_over {
            // Those who wait in case the promise is passed on.
            true => self.waiters.answer_all(waiters, REFUSED),
            false => drop(waiters),
        }
        value
    }

    /// Somebody to whom one was promised is no more.
    #[cold]
    fn pass_on(&self) {
        let mut woken = Woken::new();
        let mut waiters = self.waiters.lock();
        let parcel = if !waiters.is_empty() && self.with(&mut waiters, |state| state.are_receivers)
        {
            let parcel = waiters.with_first(mem::take);
            waiters.answer_first(MET, &mut woken);
            parcel
        } else {
            self.with(&mut waiters, |state| state.free += 1);
            None
        };
        drop(waiters);
        woken.wake();
        // SAFETY: as in `give`.
        drop(unsafe { brought::<T>(parcel.unwrap_or(0)) });
    }

    /// Goes behind all others who wait to send.
    ///
    /// # Safety
    /// As for [`Channel::wait_to_send`].
    unsafe fn wait_behind_senders(
        &self,
        mut waiters: Waiters<'_>,
        waiter: Pin<&mut Waiter>,
        value: &Value<T>,
        waker: Waker,
    ) {
        self.with(&mut waiters, |state| state.are_receivers = false);
        let request = ptr::from_ref(value).expose_provenance();
        // SAFETY: the caller's promise.
        unsafe { waiter.join(&mut waiters, request, Some(waker)) };
    }

    /// What became of who waited to receive: whether one was promised to him.
    fn was_promised(&self, answered: &Answered) -> bool {
        // SAFETY: it is his, as he has it still.
        drop(unsafe { brought::<T>(answered.request) });
        answered.answer == Some(MET)
    }
}

impl<T> State<T> {
    /// Nothing will be received any more.
    fn is_over(&self) -> bool {
        self.is_closed && self.on_the_way.len() == 0
    }

    /// Takes the oldest that is on its way. What it was in is left for the next who waits, if he has none yet.
    fn take(&mut self) -> Taken<T> {
        let (value, parcel) = self.on_the_way.pop().expect("one is on its way");
        let surplus = self.empty.replace(parcel);
        (value, surplus)
    }
}

/// A message, and what is to be freed once the list is unlocked.
type Taken<T> = (T, Option<Box<Parcel<T>>>);

/// What somebody has brought along who waits to receive, if he has not used it: the request of his node.
///
/// # Safety
/// It is one, and nobody else uses it.
unsafe fn brought<T>(request: usize) -> Option<Box<Parcel<T>>> {
    let parcel = ptr::with_exposed_provenance_mut::<Parcel<T>>(request);
    // SAFETY: the caller's promise: it was a box's.
    (!parcel.is_null()).then(|| unsafe { Box::from_raw(parcel) })
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
        got.map(|(value, _parcel)| value)
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
                self.wait_behind_senders(waiters, waiter, value, waker);
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
        waker: &Waker,
    ) -> Poll<Result<T, RecvError>> {
        let clone = |waker: &Waker| clone_waker(waker, ITEM);
        if waiter.is_waiting() {
            // SAFETY: it waits here.
            return match unsafe { waiter.poll(&self.waiters, waker, clone) } {
                None => Poll::Pending,
                Some(answered) => Poll::Ready(match self.was_promised(&answered) {
                    true => Ok(self.take_promised()),
                    false => Err(RecvError),
                }),
            };
        }
        let waker = clone(waker);
        let mut parcel = None;
        loop {
            let mut woken = Woken::new();
            let mut waiters = self.waiters.lock();
            let got = self.get(&mut waiters, &mut woken);
            if !matches!(got, Err(TryRecvError::Empty)) {
                drop(waiters);
                woken.wake();
                let received = got.map(|(value, _parcel)| value);
                return Poll::Ready(received.map_err(|_| RecvError));
            }
            parcel = parcel.or_else(|| self.with(&mut waiters, |state| state.empty.take()));
            if let Some(parcel) = parcel {
                self.with(&mut waiters, |state| state.are_receivers = true);
                let request = Box::into_raw(parcel).expose_provenance();
                // SAFETY: the caller's promise.
                unsafe { waiter.join(&mut waiters, request, Some(waker)) };
                return Poll::Pending;
            }
            drop(waiters);
            parcel = Some(Box::new(Parcel::new()));
        }
    }

    unsafe fn leave_receivers(&self, waiter: Pin<&mut Waiter>) {
        // SAFETY: it waits here.
        let left = unsafe { waiter.leave(&self.waiters, |_| {}) };
        if self.was_promised(&left) && !cfg!(seeded = "channel_met_is_lost") {
            self.pass_on();
        }
    }
}
