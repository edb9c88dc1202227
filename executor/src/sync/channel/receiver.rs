//! The end that receives.

use super::{
    TryRecvError,
    futures::{Channel, Receiving, RecvFrom},
    shared::Shared,
};
use crate::memory::Counted;
use alloc::boxed::Box;
use core::{fmt, pin::Pin};

/// Future of [`Receiver::recv`].
///
/// ```
/// use executor::{block_on_simple, sync::channel::{Receiver, Recv, bounded}};
///
/// fn next(receiver: &Receiver<u8>) -> Recv<'_, u8> {
///     receiver.recv()
/// }
/// let (sender, receiver) = bounded(1);
/// sender.try_send(1).unwrap();
/// assert_eq!(block_on_simple(next(&receiver)), Ok(1));
/// ```
pub type Recv<'a, T> = RecvFrom<'a, T, Counted<Shared<T>>>;

/// The end of a channel that receives. Each message goes to one of its clones. When the last is
/// dropped, the channel is closed, and what is in it is dropped.
///
/// It is a [`Stream`](futures_core::Stream) too. One that is pending has its place in the queue until it is polled again
/// or dropped, like any future that waits: a message that it was given meanwhile is for the next poll.
///
/// ```
/// use executor::{block_on_simple, stream::StreamNext, sync::channel::bounded};
///
/// let (sender, mut receiver) = bounded(1);
/// sender.try_send(1).unwrap();
/// drop(sender);
/// block_on_simple(async {
///     assert_eq!(receiver.next().await, Some(1));
///     assert_eq!(receiver.next().await, None);
/// });
/// ```
pub struct Receiver<T> {
    pub(super) shared: Counted<Shared<T>>,
    /// As a stream: it has had to wait, and may do so now.
    pub(super) stream: Option<Pin<Box<Receiving>>>,
}

impl<T> Receiver<T> {
    pub(super) fn new(shared: Counted<Shared<T>>) -> Self {
        Self {
            shared,
            stream: None,
        }
    }

    /// Receives a message, and waits for one if there is none.
    ///
    /// Messages are had in the order in which they were asked for. A future that is dropped before it is ready has received
    /// nothing: what it was to have goes to the next.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::channel::{RecvError, bounded}};
    ///
    /// let (sender, receiver) = bounded(1);
    /// sender.try_send(1).unwrap();
    /// drop(sender);
    /// assert_eq!(block_on_simple(receiver.recv()), Ok(1));
    /// assert_eq!(block_on_simple(receiver.recv()), Err(RecvError));
    /// ```
    #[inline]
    pub fn recv(&self) -> Recv<'_, T> {
        RecvFrom::new(&self.shared)
    }

    /// Receives a message if there is one that nobody has waited for. Not in interrupts.
    ///
    /// ```
    /// use executor::sync::channel::{TryRecvError, bounded};
    ///
    /// let (sender, receiver) = bounded(1);
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.try_send(1).unwrap();
    /// drop(sender);
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    /// ```
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.shared.try_recv()
    }

    /// Another handle to receive, which does not keep the channel open.
    ///
    /// ```
    /// use executor::sync::channel::bounded;
    ///
    /// let (sender, receiver) = bounded::<u8>(1);
    /// let weak = receiver.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(receiver);
    /// assert!(sender.is_closed());
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn downgrade(&self) -> WeakReceiver<T> {
        WeakReceiver {
            shared: self.shared.clone(),
        }
    }
}

#[cfg(not(loom))]
impl<T> Receiver<T> {
    /// As [`recv`](Self::recv), but gives up after a while.
    ///
    /// # Panics
    /// If it has to wait where no [`Runtime`](crate::Runtime) runs: no timer would wake it.
    ///
    /// ```
    /// use executor::{Runtime, sync::channel::{RecvTimeoutError, bounded}, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (sender, receiver) = bounded(1);
    ///     let limit = Duration::from_millis(1);
    ///     assert_eq!(receiver.recv_timeout(limit).await, Err(RecvTimeoutError::Timeout));
    ///     sender.send(1).await.unwrap();
    ///     assert_eq!(receiver.recv_timeout(limit).await, Ok(1));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub async fn recv_timeout(
        &self,
        limit: core::time::Duration,
    ) -> Result<T, super::RecvTimeoutError> {
        match crate::time::timeout(limit, self.recv()).await {
            Ok(received) => Ok(received?),
            // It may have been pending only to let others run.
            Err(_) => Ok(self.try_recv()?),
        }
    }

    /// As [`recv`](Self::recv), for code that is not async.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::channel::unbounded();
    /// let thread = std::thread::spawn(move || receiver.recv_blocking());
    /// sender.send_blocking(1).unwrap();
    /// assert_eq!(thread.join().unwrap(), Ok(1));
    /// ```
    #[track_caller]
    pub fn recv_blocking(&self) -> Result<T, super::RecvError> {
        crate::sync::block_on(self.recv())
    }
}

super::both_ends!(Receiver);

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receivers().add();
        Self::new(self.shared.clone())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.leave();
        self.shared.drop_receiver();
    }
}

/// A [`Receiver`] that does not keep the channel open.
///
/// ```
/// use executor::sync::channel::{WeakReceiver, bounded};
///
/// let (sender, receiver) = bounded::<u8>(1);
/// let weak: WeakReceiver<u8> = receiver.downgrade();
/// drop(receiver);
/// assert!(sender.is_closed());
/// ```
pub struct WeakReceiver<T> {
    shared: Counted<Shared<T>>,
}

impl<T> WeakReceiver<T> {
    /// A receiver. None: the channel is closed.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::channel::bounded(1);
    /// let weak = receiver.downgrade();
    /// sender.try_send(1).unwrap();
    /// assert_eq!(weak.upgrade().unwrap().try_recv(), Ok(1));
    /// sender.close();
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn upgrade(&self) -> Option<Receiver<T>> {
        let is_one_more = !self.shared.is_closed() && self.shared.receivers().try_add();
        is_one_more.then(|| Receiver::new(self.shared.clone()))
    }
}

impl<T> Clone for WeakReceiver<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T> fmt::Debug for WeakReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakReceiver { .. }")
    }
}
