//! A channel without memory of its own: for statics, and for interrupts.

use super::{
    RecvError, SendError, TryRecvError, TrySendError,
    bounded::Bounded,
    futures::{Channel, RecvFrom, SendTo, Value},
    ring::Slot,
};
use crate::sync::wait_list::Waiter;
use core::{
    fmt,
    pin::Pin,
    task::{Poll, Waker},
};

/// A channel for at most `N` messages that needs no memory but its own, and has no ends: whoever sees it sends and
/// receives. It is closed by [`close`](Self::close) only.
///
/// An interrupt that tells a task something:
///
/// ```
/// use executor::{block_on_simple, sync::channel::StaticChannel};
///
/// static KEYS: StaticChannel<u8, 16> = StaticChannel::new();
///
/// fn on_interrupt(key: u8) {
///     if KEYS.try_send(key).is_err() {
///         // Nobody keeps up: the key is lost.
///     }
/// }
///
/// on_interrupt(b'a');
/// assert_eq!(block_on_simple(KEYS.recv()), Ok(b'a'));
/// ```
pub struct StaticChannel<T, const N: usize> {
    inner: Bounded<T, [Slot<T>; N]>,
}

/// Future of [`StaticChannel::send`].
///
/// ```
/// use executor::{block_on_simple, sync::channel::{StaticChannel, StaticSend}};
///
/// static KEYS: StaticChannel<u8, 16> = StaticChannel::new();
///
/// fn press(key: u8) -> StaticSend<'static, u8, 16> {
///     KEYS.send(key)
/// }
/// assert_eq!(block_on_simple(press(b'a')), Ok(()));
/// assert_eq!(KEYS.try_recv(), Ok(b'a'));
/// ```
pub type StaticSend<'a, T, const N: usize> = SendTo<'a, T, StaticChannel<T, N>>;
/// Future of [`StaticChannel::recv`].
///
/// ```
/// use executor::{block_on_simple, sync::channel::{StaticChannel, StaticRecv}};
///
/// static KEYS: StaticChannel<u8, 16> = StaticChannel::new();
///
/// fn key() -> StaticRecv<'static, u8, 16> {
///     KEYS.recv()
/// }
/// KEYS.try_send(b'a').unwrap();
/// assert_eq!(block_on_simple(key()), Ok(b'a'));
/// ```
pub type StaticRecv<'a, T, const N: usize> = RecvFrom<'a, T, StaticChannel<T, N>>;

impl<T, const N: usize> StaticChannel<T, N> {
    /// An empty channel.
    ///
    /// ```
    /// use executor::sync::channel::StaticChannel;
    ///
    /// static KEYS: StaticChannel<u8, 16> = StaticChannel::new();
    /// assert!(KEYS.is_empty());
    /// ```
    ///
    /// One for nothing does not compile:
    ///
    /// ```compile_fail,E0080
    /// static NOTHING: executor::sync::channel::StaticChannel<u8, 0> = executor::sync::channel::StaticChannel::new();
    /// ```
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(N > 0, "a static channel has places for messages") }
        let mut slots = [const { Slot::new(0) }; N];
        let mut number = 0;
        while number < N {
            slots[number] = Slot::new(number);
            number += 1;
        }
        Self {
            inner: Bounded::new(N, slots),
        }
    }

    /// An empty channel.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            inner: Bounded::new(N, core::array::from_fn(Slot::new)),
        }
    }

    /// Sends a message, and waits for a place if there is none. See [`Sender::send`](super::Sender::send).
    ///
    /// ```
    /// use executor::{block_on_simple, sync::channel::StaticChannel};
    ///
    /// let channel = StaticChannel::<_, 1>::new();
    /// assert_eq!(block_on_simple(channel.send(1)), Ok(()));
    /// assert_eq!(channel.try_recv(), Ok(1));
    /// ```
    #[inline]
    pub fn send(&self, value: T) -> StaticSend<'_, T, N> {
        SendTo::new(self, value)
    }

    /// Sends a message if there is a place and nobody waits for it. In interrupts too.
    ///
    /// In an interrupt it may find the last place still being emptied by whom it has interrupted: then it is full.
    ///
    /// ```
    /// use executor::sync::channel::{StaticChannel, TrySendError};
    ///
    /// let channel = StaticChannel::<_, 1>::new();
    /// assert_eq!(channel.try_send(1), Ok(()));
    /// assert_eq!(channel.try_send(2), Err(TrySendError::Full(2)));
    /// ```
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.inner.try_send(value)
    }

    /// Receives a message, and waits for one if there is none. See [`Receiver::recv`](super::Receiver::recv).
    ///
    /// ```
    /// use executor::{block_on_simple, sync::channel::{RecvError, StaticChannel}};
    ///
    /// let channel = StaticChannel::<_, 1>::new();
    /// channel.try_send(1).unwrap();
    /// channel.close();
    /// assert_eq!(block_on_simple(channel.recv()), Ok(1));
    /// assert_eq!(block_on_simple(channel.recv()), Err(RecvError));
    /// ```
    #[inline]
    pub fn recv(&self) -> StaticRecv<'_, T, N> {
        RecvFrom::new(self)
    }

    /// Receives a message if there is one that nobody has waited for. Not in interrupts.
    ///
    /// ```
    /// use executor::sync::channel::{StaticChannel, TryRecvError};
    ///
    /// let channel = StaticChannel::<_, 1>::new();
    /// assert_eq!(channel.try_recv(), Err(TryRecvError::Empty));
    /// channel.try_send(1).unwrap();
    /// assert_eq!(channel.try_recv(), Ok(1));
    /// ```
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.inner.try_recv()
    }

    /// Lets nobody send any more; what was sent can still be received. False: it was closed already.
    ///
    /// ```
    /// use executor::sync::channel::{RecvError, StaticChannel, TryRecvError};
    ///
    /// let channel = StaticChannel::<_, 3>::new();
    /// channel.try_send("last").unwrap();
    /// assert!(channel.close());
    /// assert!(channel.try_send("later").is_err());
    /// assert_eq!(channel.try_recv(), Ok("last"));
    /// assert_eq!(channel.try_recv(), Err(TryRecvError::Closed));
    /// ```
    pub fn close(&self) -> bool {
        self.inner.close()
    }

    /// Whether it was closed.
    ///
    /// ```
    /// let channel = executor::sync::channel::StaticChannel::<u8, 1>::new();
    /// assert!(!channel.is_closed());
    /// channel.close();
    /// assert!(channel.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// How many messages are in it.
    ///
    /// ```
    /// let channel = executor::sync::channel::StaticChannel::<_, 2>::new();
    /// channel.try_send(1).unwrap();
    /// assert_eq!(channel.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Whether no message is in it.
    ///
    /// ```
    /// let channel = executor::sync::channel::StaticChannel::<_, 2>::new();
    /// assert!(channel.is_empty());
    /// channel.try_send(1).unwrap();
    /// assert!(!channel.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is no place for anybody who comes now.
    ///
    /// ```
    /// let channel = executor::sync::channel::StaticChannel::<_, 1>::new();
    /// assert!(!channel.is_full());
    /// channel.try_send(1).unwrap();
    /// assert!(channel.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        self.inner.is_full()
    }

    /// How many messages fit: `N`.
    ///
    /// ```
    /// let channel = executor::sync::channel::StaticChannel::<u8, 3>::new();
    /// assert_eq!(channel.capacity(), 3);
    /// ```
    pub fn capacity(&self) -> usize {
        N
    }
}

impl<T, const N: usize> Default for StaticChannel<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> fmt::Debug for StaticChannel<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticChannel")
            .field("len", &self.len())
            .field("capacity", &N)
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl<T, const N: usize> Channel<T> for StaticChannel<T, N> {
    #[inline]
    fn send_now(&self, value: T) -> Result<(), T> {
        self.inner.send_now(value)
    }

    #[inline]
    fn recv_now(&self) -> Option<T> {
        self.inner.recv_now()
    }

    fn try_send_again(&self, value: T) -> Result<(), TrySendError<T>> {
        self.inner.try_send_again(value)
    }

    fn try_recv_again(&self) -> Result<T, TryRecvError> {
        self.inner.try_recv_again()
    }

    unsafe fn wait_to_send(
        &self,
        waiter: Pin<&mut Waiter>,
        value: &Value<T>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError<T>>> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.wait_to_send(waiter, value, waker) }
    }

    unsafe fn leave_senders(&self, waiter: Pin<&mut Waiter>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.inner.leave_senders(waiter) }
    }

    unsafe fn wait_to_recv(
        &self,
        waiter: Pin<&mut Waiter>,
        waker: &Waker,
    ) -> Poll<Result<T, RecvError>> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.wait_to_recv(waiter, waker) }
    }

    unsafe fn leave_receivers(&self, waiter: Pin<&mut Waiter>) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.leave_receivers(waiter) };
    }
}
