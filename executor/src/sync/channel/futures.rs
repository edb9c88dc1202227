//! The futures of all channels: try at once, or wait.

use super::{RecvError, SendError, TryRecvError, TrySendError};
#[cfg(feature = "alloc")]
use crate::memory::Counted;
use crate::{
    shim::UnsafeCell,
    sync::{proceed, wait_list::Waiter},
};
use core::{
    fmt, hint,
    marker::PhantomData,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// What the futures of a channel ask of it.
pub trait Channel<T> {
    /// Sends, if that is simple; else gives the message back, for whatever reason.
    fn send_now(&self, value: T) -> Result<(), T>;

    /// Receives, if that is simple.
    fn recv_now(&self) -> Option<T>;

    /// Sends, or not. After [`send_now`](Self::send_now) was in vain.
    fn try_send_again(&self, value: T) -> Result<(), TrySendError<T>>;

    /// Receives, or not. After [`recv_now`](Self::recv_now) was in vain.
    fn try_recv_again(&self) -> Result<T, TryRecvError>;

    /// Sends, or not.
    #[inline]
    fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.send_now(value) {
            Ok(()) => Ok(()),
            Err(value) => self.try_send_again(value),
        }
    }

    /// Receives, or not.
    #[inline]
    fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.recv_now() {
            Some(value) => Ok(value),
            None => self.try_recv_again(),
        }
    }

    /// Sends what is in `value`, or waits, or waits on. Ready: it waits no more, and `value` is empty.
    ///
    /// # Safety
    /// 1. If it waits, it does so here, to send; else there is a message in `value`.
    /// 2. Until it does not wait any more, by this or [`leave_senders`](Self::leave_senders), neither `waiter` nor
    ///    `value` nor the channel is dropped, and nobody touches them.
    unsafe fn wait_to_send(
        &self,
        waiter: Pin<&mut Waiter>,
        value: &Value<T>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError<T>>>;

    /// Waits no more. Whether the message is still in its `value`; else it was sent.
    ///
    /// # Safety
    /// It waits here, to send.
    unsafe fn leave_senders(&self, waiter: Pin<&mut Waiter>) -> bool;

    /// Receives, or waits, or waits on.
    ///
    /// # Safety
    /// As for [`wait_to_send`](Self::wait_to_send), only to receive.
    unsafe fn wait_to_recv(
        &self,
        waiter: Pin<&mut Waiter>,
        waker: &Waker,
    ) -> Poll<Result<T, RecvError>>;

    /// Waits no more.
    ///
    /// # Safety
    /// It waits here, to receive.
    unsafe fn leave_receivers(&self, waiter: Pin<&mut Waiter>);
}

/// A place for a message in a future, which knows whether there is one. While that waits, others may take it; then only
/// through the waiter's list.
pub struct Value<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: it is a message. Sharing it shares nothing: all that touches it is unsafe.
unsafe impl<T: Send> Send for Value<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Value<T> {}

impl<T> Value<T> {
    /// With nothing in it.
    #[inline]
    pub fn empty() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// With this in it.
    #[inline]
    pub fn new(value: T) -> Self {
        Self(UnsafeCell::new(MaybeUninit::new(value)))
    }

    /// Takes out what is in it.
    ///
    /// # Safety
    /// 1. There is something.
    /// 2. Nobody else touches it: its future does not wait, or the caller holds the lock of the list in which it does.
    #[inline]
    pub unsafe fn take(&self) -> T {
        // SAFETY: the caller's promise.
        self.0
            .with_mut(|value| unsafe { (*value).assume_init_read() })
    }

    /// Puts something in.
    ///
    /// # Safety
    /// 1. There is nothing.
    /// 2. As for [`take`](Self::take).
    pub unsafe fn put(&self, new: T) {
        // SAFETY: the caller's promise.
        self.0.with_mut(|value| unsafe { (*value).write(new) });
    }
}

/// Future that sends a message to a channel `C`. Dropped before it is ready, it drops the message.
///
/// ```
/// use std::sync::Arc;
///
/// let (sender, receiver) = executor::sync::channel::bounded(1);
/// let message = Arc::new(1);
/// drop(sender.send(message.clone()));
/// assert!(receiver.is_empty());
/// assert_eq!(Arc::strong_count(&message), 1);
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct SendTo<'a, T, C: Channel<T>> {
    /// None: it is done, and `value` is empty.
    channel: Option<&'a C>,
    value: Value<T>,
    waiter: Waiter,
}

impl<'a, T, C: Channel<T>> SendTo<'a, T, C> {
    #[inline]
    pub(super) fn new(channel: &'a C, value: T) -> Self {
        Self {
            channel: Some(channel),
            value: Value::new(value),
            waiter: Waiter::new(),
        }
    }

    /// Gives up waiting, and gives the message back. None: it was sent already.
    ///
    /// ```
    /// use executor::{noop_waker, sync::channel::bounded};
    /// use std::{pin::pin, task::Context};
    ///
    /// let (sender, _receiver) = bounded(1);
    /// sender.try_send(1).unwrap();
    /// let mut second = pin!(sender.send(2));
    /// assert!(second.as_mut().poll(&mut Context::from_waker(&noop_waker())).is_pending());
    /// assert_eq!(second.cancel(), Some(2));
    /// ```
    pub fn cancel(self: Pin<&mut Self>) -> Option<T> {
        // SAFETY: nothing that is pinned is moved out of it: the message is not while it waits.
        unsafe { self.get_unchecked_mut() }.give_up()
    }

    /// Waits no more; the message, if it was not sent.
    #[cold]
    #[inline(never)]
    fn give_up(&mut self) -> Option<T> {
        let channel = self.channel.take()?;
        let is_there = !self.waiter.is_waiting() || {
            // SAFETY: it waits, so it is pinned, and it does so here.
            unsafe { channel.leave_senders(Pin::new_unchecked(&mut self.waiter)) }
        };
        // SAFETY: 1. asked; 2. it does not wait.
        is_there.then(|| unsafe { self.value.take() })
    }

    /// There is no place.
    #[cold]
    #[inline(never)]
    fn wait(&mut self, channel: &'a C, value: T, waker: &Waker) -> Poll<Result<(), SendError<T>>> {
        self.channel = Some(channel);
        // SAFETY: 1. it was taken out; 2. it does not wait yet.
        unsafe { self.value.put(value) };
        self.wait_on(channel, waker)
    }

    /// It waits already, or is about to.
    #[cold]
    #[inline(never)]
    fn wait_on(&mut self, channel: &C, waker: &Waker) -> Poll<Result<(), SendError<T>>> {
        let this = DoneUnlessItWaits(self);
        // SAFETY: 1. it waits nowhere else; 2. pinned, as only `poll` calls this, it borrows the channel,
        // `drop` and `cancel` make it leave, and while it waits they do nothing before that.
        unsafe {
            let waiter = Pin::new_unchecked(&mut this.0.waiter);
            channel.wait_to_send(waiter, &this.0.value, waker)
        }
    }
}

/// A send that is done when this is dropped, if it does not wait then. Also if there was a panic, of a message that was dropped
/// because nobody is left to receive it, say: the message may have been taken, so it is not taken again.
struct DoneUnlessItWaits<'s, 'a, T, C: Channel<T>>(&'s mut SendTo<'a, T, C>);

impl<T, C: Channel<T>> Drop for DoneUnlessItWaits<'_, '_, T, C> {
    fn drop(&mut self) {
        if !self.0.waiter.is_waiting() {
            self.0.channel = None;
        }
    }
}

impl<T, C: Channel<T>> Future for SendTo<'_, T, C> {
    type Output = Result<(), SendError<T>>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing that is pinned is moved out of it: the message is not while it waits.
        let this = unsafe { self.get_unchecked_mut() };
        let channel = this.channel.expect("polled after it was ready");
        if this.waiter.is_waiting() {
            return this.wait_on(channel, cx.waker());
        }
        if proceed(cx).is_pending() {
            return Poll::Pending;
        }
        this.channel = None;
        // SAFETY: 1. it was not done; 2. it does not wait.
        let value = unsafe { this.value.take() };
        match channel.send_now(value) {
            Ok(()) => {
                // SAFETY: written above. Said again, so that nobody need ask when it is dropped at once.
                unsafe { hint::assert_unchecked(this.channel.is_none()) };
                Poll::Ready(Ok(()))
            }
            Err(value) => this.wait(channel, value, cx.waker()),
        }
    }
}

impl<T, C: Channel<T>> Drop for SendTo<'_, T, C> {
    #[inline]
    fn drop(&mut self) {
        if self.channel.is_some() {
            drop(self.give_up());
        }
    }
}

impl<T, C: Channel<T>> fmt::Debug for SendTo<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Send")
            .field("is_done", &self.channel.is_none())
            .field("is_waiting", &self.waiter.is_waiting())
            .finish_non_exhaustive()
    }
}

/// Future that receives a message from a channel `C`. Dropped before it is ready, it leaves the message to others.
///
/// ```
/// use executor::{noop_waker, sync::channel::{TryRecvError, bounded}};
/// use std::task::Context;
///
/// let (sender, receiver) = bounded(1);
/// let mut first = Box::pin(receiver.recv());
/// assert!(first.as_mut().poll(&mut Context::from_waker(noop_waker())).is_pending());
/// sender.try_send(1).unwrap();
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// drop(first);
/// assert_eq!(receiver.try_recv(), Ok(1));
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct RecvFrom<'a, T, C: Channel<T>> {
    channel: &'a C,
    wait: Receiving,
    _message: PhantomData<fn() -> T>,
}

impl<'a, T, C: Channel<T>> RecvFrom<'a, T, C> {
    #[inline]
    pub(super) fn new(channel: &'a C) -> Self {
        Self {
            channel,
            wait: Receiving::new(),
            _message: PhantomData,
        }
    }
}

impl<T, C: Channel<T>> Future for RecvFrom<'_, T, C> {
    type Output = Result<T, RecvError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing that is pinned is moved out of it; that is `wait` alone.
        let this = unsafe { self.get_unchecked_mut() };
        if this.wait.is_waiting() {
            return this.wait.poll(this.channel, cx.waker());
        }
        if proceed(cx).is_pending() {
            return Poll::Pending;
        }
        match this.channel.recv_now() {
            Some(value) => {
                // SAFETY: asked above. Said again, so that nobody need ask when it is dropped at once.
                unsafe { hint::assert_unchecked(!this.wait.is_waiting()) };
                Poll::Ready(Ok(value))
            }
            None => this.wait.poll(this.channel, cx.waker()),
        }
    }
}

impl<T, C: Channel<T>> Drop for RecvFrom<'_, T, C> {
    #[inline]
    fn drop(&mut self) {
        if self.wait.is_waiting() {
            self.wait.leave(self.channel);
        }
    }
}

impl<T, C: Channel<T>> fmt::Debug for RecvFrom<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recv")
            .field("is_waiting", &self.wait.is_waiting())
            .finish_non_exhaustive()
    }
}

/// What waits to receive: a part of a future, or on the heap. Pinned while it waits, and made to leave before it is dropped.
pub(super) struct Receiving {
    waiter: Waiter,
}

impl Receiving {
    #[inline]
    pub fn new() -> Self {
        Self {
            waiter: Waiter::new(),
        }
    }

    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.waiter.is_waiting()
    }

    /// Waits, or looks for what it waits for. Only for who is pinned, and always with the same channel.
    #[cold]
    #[inline(never)]
    pub fn poll<T, C: Channel<T>>(
        &mut self,
        channel: &C,
        waker: &Waker,
    ) -> Poll<Result<T, RecvError>> {
        // SAFETY: 1. always with this channel; 2. pinned, and its owner keeps the channel and makes it leave.
        unsafe {
            let waiter = Pin::new_unchecked(&mut self.waiter);
            channel.wait_to_recv(waiter, waker)
        }
    }

    /// Waits no more. Only if it does.
    #[cold]
    #[inline(never)]
    pub fn leave<T, C: Channel<T>>(&mut self, channel: &C) {
        // SAFETY: it waits, so it is pinned, and it does so there.
        unsafe {
            let waiter = Pin::new_unchecked(&mut self.waiter);
            channel.leave_receivers(waiter);
        }
    }
}

/// What both ends share, as they refer to it.
#[cfg(feature = "alloc")]
impl<T, C: Channel<T>> Channel<T> for Counted<C> {
    #[inline(always)]
    fn send_now(&self, value: T) -> Result<(), T> {
        C::send_now(self, value)
    }

    #[inline(always)]
    fn recv_now(&self) -> Option<T> {
        C::recv_now(self)
    }

    fn try_send_again(&self, value: T) -> Result<(), TrySendError<T>> {
        C::try_send_again(self, value)
    }

    fn try_recv_again(&self) -> Result<T, TryRecvError> {
        C::try_recv_again(self)
    }

    unsafe fn wait_to_send(
        &self,
        waiter: Pin<&mut Waiter>,
        value: &Value<T>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError<T>>> {
        // SAFETY: the caller's promise.
        unsafe { C::wait_to_send(self, waiter, value, waker) }
    }

    unsafe fn leave_senders(&self, waiter: Pin<&mut Waiter>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { C::leave_senders(self, waiter) }
    }

    unsafe fn wait_to_recv(
        &self,
        waiter: Pin<&mut Waiter>,
        waker: &Waker,
    ) -> Poll<Result<T, RecvError>> {
        // SAFETY: the caller's promise.
        unsafe { C::wait_to_recv(self, waiter, waker) }
    }

    unsafe fn leave_receivers(&self, waiter: Pin<&mut Waiter>) {
        // SAFETY: the caller's promise.
        unsafe { C::leave_receivers(self, waiter) };
    }
}
