//! The end that sends.

use super::{
    SendError, TrySendError,
    futures::{Channel, SendTo},
    shared::Shared,
    traits::Sinking,
};
use crate::{memory::Counted, shim::Panics, sync::Wait};
use alloc::boxed::Box;
use core::{fmt, pin::Pin};

/// Future of [`Sender::send`].
///
/// ```
/// use executor::{block_on_simple, sync::channel::{Send, Sender, bounded}};
///
/// fn greet<'a>(sender: &'a Sender<String>, name: &str) -> Send<'a, String> {
///     sender.send(format!("hello, {name}"))
/// }
/// let (sender, receiver) = bounded(1);
/// assert_eq!(block_on_simple(greet(&sender, "core")), Ok(()));
/// assert_eq!(receiver.try_recv().unwrap(), "hello, core");
/// ```
pub type Send<'a, T> = SendTo<'a, T, Counted<Shared<T>>>;

/// The end of a channel that sends. Clones of it send to the same; when the last is dropped, the channel is closed.
///
/// It is a [`Sink`](futures_sink::Sink) too. As such it keeps one message for itself while the channel is full.
///
/// ```
/// let (sender, receiver) = executor::sync::channel::bounded(1);
/// let other = sender.clone();
/// drop(sender);
/// assert_eq!(other.try_send(1), Ok(()));
/// drop(other);
/// assert!(receiver.is_closed());
/// assert_eq!(receiver.try_recv(), Ok(1));
/// ```
pub struct Sender<T> {
    pub(super) shared: Counted<Shared<T>>,
    /// As a sink: a message that is not sent yet.
    pub(super) sink: Option<Pin<Box<Sinking<T>>>>,
    /// As a sink: it was closed, and is not counted any more.
    pub(super) is_gone: bool,
}

impl<T> Sender<T> {
    pub(super) fn new(shared: Counted<Shared<T>>) -> Self {
        Self {
            shared,
            sink: None,
            is_gone: false,
        }
    }

    /// Sends a message, and waits for a place if there is none.
    ///
    /// Places are had in the order in which they were asked for. A future that is dropped before it is ready has sent nothing; the
    /// message is dropped with it, unless it is [taken back](SendTo::cancel). Only of a rendezvous the message may have been
    /// received when the future is dropped, before it is polled again: who has to know asks [`cancel`](SendTo::cancel).
    ///
    /// ```
    /// use executor::{block_on_simple, sync::channel::{SendError, bounded}};
    ///
    /// let (sender, receiver) = bounded(1);
    /// assert_eq!(block_on_simple(sender.send(1)), Ok(()));
    /// drop(receiver);
    /// assert_eq!(block_on_simple(sender.send(2)), Err(SendError(2)));
    /// ```
    ///
    /// # Panics
    /// When it is polled: if the channel has no bound, and there is no memory. [`try_send`](Self::try_send) says so instead.
    #[inline]
    pub fn send(&self, value: T) -> Send<'_, T> {
        SendTo::new(&self.shared, value)
    }

    /// Sends a message if there is a place and nobody waits for it. To a bounded channel in interrupts too. To one without a
    /// bound, if there is memory.
    ///
    /// In an interrupt it may find the last place still being emptied by whom it has interrupted: then it is full.
    ///
    /// ```
    /// use executor::sync::channel::{TrySendError, bounded};
    ///
    /// let (sender, receiver) = bounded(1);
    /// assert_eq!(sender.try_send(1), Ok(()));
    /// assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    /// drop(receiver);
    /// assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
    /// ```
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.shared.try_send(value)
    }

    /// Sends a message in any case: if the channel is full, the oldest message gives way, and is returned.
    ///
    /// For a channel of capacity 0 that is this very message, unless somebody waits for it; and for one without a bound, if there is no memory.
    ///
    /// ```
    /// use executor::sync::channel::bounded;
    ///
    /// let (sender, receiver) = bounded(2);
    /// assert_eq!(sender.force_send(1), Ok(None));
    /// assert_eq!(sender.force_send(2), Ok(None));
    /// assert_eq!(sender.force_send(3), Ok(Some(1)));
    /// assert_eq!(receiver.try_recv(), Ok(2));
    /// assert_eq!(receiver.try_recv(), Ok(3));
    /// ```
    pub fn force_send(&self, value: T) -> Result<Option<T>, SendError<T>> {
        self.shared.force_send(value)
    }

    /// Ready when the channel is closed, for whatever reason.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::channel::bounded};
    ///
    /// let (sender, receiver) = bounded::<u8>(1);
    /// drop(receiver);
    /// block_on_simple(sender.closed());
    /// ```
    pub fn closed(&self) -> Wait<'_> {
        self.shared.closed.wait()
    }

    /// Another handle to send, which does not keep the channel open.
    ///
    /// ```
    /// use executor::sync::channel::bounded;
    ///
    /// let (sender, receiver) = bounded::<u8>(1);
    /// let weak = sender.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(sender);
    /// assert!(receiver.is_closed());
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender {
            shared: self.shared.clone(),
        }
    }
}

#[cfg(not(loom))]
impl<T> Sender<T> {
    /// As [`send`](Self::send), but gives up after a while.
    ///
    /// # Panics
    /// If it has to wait where no [`Runtime`](crate::Runtime) runs: no timer would wake it.
    ///
    /// ```
    /// use executor::{Runtime, sync::channel::{SendTimeoutError, bounded}, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (sender, _receiver) = bounded(1);
    ///     let limit = Duration::from_millis(1);
    ///     assert_eq!(sender.send_timeout(1, limit).await, Ok(()));
    ///     assert_eq!(sender.send_timeout(2, limit).await, Err(SendTimeoutError::Timeout(2)));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub async fn send_timeout(
        &self,
        value: T,
        limit: core::time::Duration,
    ) -> Result<(), super::SendTimeoutError<T>> {
        let mut send = core::pin::pin!(self.send(value));
        if let Ok(sent) = crate::time::timeout(limit, send.as_mut()).await {
            return Ok(sent?);
        }
        match send.cancel() {
            // It may have been pending only to let others run.
            Some(value) => Ok(self.try_send(value)?),
            None => Ok(()),
        }
    }

    /// As [`send`](Self::send), for code that is not async.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::channel::bounded(1);
    /// sender.send_blocking(1).unwrap();
    /// assert_eq!(receiver.recv_blocking(), Ok(1));
    /// ```
    #[track_caller]
    pub fn send_blocking(&self, value: T) -> Result<(), SendError<T>> {
        crate::sync::block_on(self.send(value))
    }
}

super::both_ends!(Sender);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // Of one that was closed as a sink there is nothing to count.
        if !self.is_gone {
            self.shared.senders().add();
        }
        let mut clone = Self::new(self.shared.clone());
        clone.is_gone = self.is_gone;
        clone
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        panics.hold(|| self.leave());
        if !self.is_gone {
            self.shared.drop_sender();
        }
        panics.go_on();
    }
}

/// A [`Sender`] that does not keep the channel open.
///
/// ```
/// use executor::sync::channel::{WeakSender, bounded};
///
/// let (sender, receiver) = bounded::<u8>(1);
/// let weak: WeakSender<u8> = sender.downgrade();
/// drop(sender);
/// assert!(receiver.is_closed());
/// ```
pub struct WeakSender<T> {
    shared: Counted<Shared<T>>,
}

impl<T> WeakSender<T> {
    /// A sender. None: the channel is closed.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::channel::bounded(1);
    /// let weak = sender.downgrade();
    /// weak.upgrade().unwrap().try_send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// sender.close();
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn upgrade(&self) -> Option<Sender<T>> {
        let is_one_more = !self.shared.is_closed() && self.shared.senders().try_add();
        is_one_more.then(|| Sender::new(self.shared.clone()))
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakSender { .. }")
    }
}
