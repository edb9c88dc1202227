//! A channel whose messages are for all: each receiver gets each message that is sent while it is there.
//!
//! ```
//! use executor::{Runtime, sync::broadcast};
//!
//! # let runtime = Runtime::builder().workers(2).build()?;
//! runtime.block_on(async {
//!     let (sender, mut first) = broadcast::channel(16);
//!     let mut second = sender.subscribe();
//!     assert_eq!(sender.send("hello"), Ok(2));
//!     assert_eq!(first.recv().await, Ok("hello"));
//!     assert_eq!(second.recv().await, Ok("hello"));
//! });
//! # Ok::<(), executor::BuildError>(())
//! ```
//!
//! There is room for a number of messages. A message is kept until all have received it, or until the room is needed:
//! senders do not wait. A receiver that comes too late hears how many messages it has missed, and goes on with the
//! oldest that is still there:
//!
//! ```
//! use executor::sync::broadcast::{self, error::TryRecvError};
//!
//! let (sender, mut receiver) = broadcast::channel(2);
//! for number in 0..5 {
//!     sender.send(number).unwrap();
//! }
//! assert_eq!(receiver.try_recv(), Err(TryRecvError::Lagged(3)));
//! assert_eq!(receiver.try_recv(), Ok(3));
//! assert_eq!(receiver.try_recv(), Ok(4));
//! ```
//!
//! When all senders were dropped, and all that they sent was received, receivers hear of it.
//!
//! A message is cloned for each receiver, by several cores at once, and without any lock: so both ends can be sent and
//! shared if messages can, `T: Send + Sync`. `cells` says how that goes together with senders that
//! overwrite it.

mod cells;
pub mod error;
mod stream;

pub use stream::BroadcastStream;

use self::{
    cells::{Nothing, Shared},
    error::{RecvError, SendError, TryRecvError},
};
use super::proceed;
use crate::{NoMemory, memory::Counted};
use core::{fmt, future::poll_fn};

/// How many receivers there can be.
const MOST_RECEIVERS: usize = usize::MAX >> 2;

/// Makes a channel with room for so many messages, or for as many as the next power of two says.
///
/// # Panics
/// If that is none, or more than half of all that can be counted; and if there is no memory for it, [`try_channel`] says so
/// instead.
///
/// ```
/// let (sender, mut receiver) = executor::sync::broadcast::channel(3);
/// for number in 0..4 {
///     sender.send(number).unwrap();
/// }
/// assert_eq!(receiver.try_recv(), Ok(0));
/// ```
#[track_caller]
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    expect(try_channel(capacity))
}

/// As [`channel`], but says so when there is no memory.
///
/// ```
/// use executor::{NoMemory, sync::broadcast};
///
/// let (sender, mut receiver) = broadcast::try_channel(4)?;
/// sender.send(1).unwrap();
/// assert_eq!(receiver.try_recv(), Ok(1));
/// # Ok::<(), NoMemory>(())
/// ```
///
/// # Errors
/// There is no memory for it.
///
/// # Panics
/// If the capacity is 0 or far too large, as [`channel`].
#[track_caller]
pub fn try_channel<T: Clone>(capacity: usize) -> Result<(Sender<T>, Receiver<T>), NoMemory> {
    let sender = Sender::try_new(capacity)?;
    let receiver = sender.try_subscribe()?;
    Ok((sender, receiver))
}

#[track_caller]
fn expect<T>(made: Result<T, NoMemory>) -> T {
    made.unwrap_or_else(|NoMemory| panic!("there is no memory for a channel or its receiver"))
}

/// Sends to all receivers.
///
/// Sending never waits, and allocates nothing; so it works in interrupts too, if messages that are overwritten can be
/// dropped there. Making and dropping senders and receivers does not. A message is moved to its place with
/// interrupts masked: put large ones into a box.
///
/// ```
/// use executor::sync::broadcast::{Receiver, Sender};
///
/// let sender = Sender::new(4);
/// let listeners: Vec<Receiver<u8>> = (0..3).map(|_| sender.subscribe()).collect();
/// assert_eq!(sender.send(1), Ok(3));
/// for mut listener in listeners {
///     assert_eq!(listener.try_recv(), Ok(1));
/// }
/// ```
pub struct Sender<T> {
    shared: Counted<Shared<T>>,
}

impl<T> Sender<T> {
    /// A channel without a receiver; see [`channel`].
    ///
    /// ```
    /// use executor::sync::broadcast::Sender;
    ///
    /// let sender = Sender::new(4);
    /// assert!(sender.send(1).is_err());
    /// let mut receiver = sender.subscribe();
    /// sender.send(2).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(2));
    /// ```
    ///
    /// # Panics
    /// As [`channel`].
    #[track_caller]
    pub fn new(capacity: usize) -> Self {
        expect(Self::try_new(capacity))
    }

    /// As [`new`](Self::new), but says so when there is no memory.
    ///
    /// ```
    /// use executor::{NoMemory, sync::broadcast::Sender};
    ///
    /// let sender = Sender::<u8>::try_new(4)?;
    /// assert_eq!(sender.receiver_count(), 0);
    /// # Ok::<(), NoMemory>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// If the capacity is 0 or far too large, as [`channel`].
    #[track_caller]
    pub fn try_new(capacity: usize) -> Result<Self, NoMemory> {
        assert!(capacity > 0, "a channel must have room for a message");
        assert!(
            capacity <= usize::MAX >> 1,
            "a channel cannot have room for so many messages"
        );
        let shared = Shared::try_new(capacity.next_power_of_two())?;
        let shared = Counted::try_new(shared).map_err(|_| NoMemory)?;
        Ok(Self { shared })
    }

    /// Sends a message to all receivers: how many those are. Err: there is none, and here it is again; there may be
    /// one later.
    ///
    /// That a receiver is counted does not say that it will see the message: it may be dropped before, or come too late.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::broadcast::channel(4);
    /// assert_eq!(sender.send(1), Ok(1));
    /// drop(receiver);
    /// assert_eq!(sender.send(2).unwrap_err().0, 2);
    /// ```
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        self.shared.send(value).map_err(SendError)
    }

    /// A receiver of all that is sent from now on.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::broadcast::channel(4);
    /// sender.send(1).unwrap();
    /// let mut late = sender.subscribe();
    /// sender.send(2).unwrap();
    /// assert_eq!(late.try_recv(), Ok(2));
    /// ```
    ///
    /// # Panics
    /// If there is no memory for it; [`try_subscribe`](Self::try_subscribe) says so instead. And if there are far too many.
    #[track_caller]
    pub fn subscribe(&self) -> Receiver<T> {
        expect(self.try_subscribe())
    }

    /// As [`subscribe`](Self::subscribe), but says so when there is no memory.
    ///
    /// ```
    /// use executor::{NoMemory, sync::broadcast::Sender};
    ///
    /// let sender = Sender::new(4);
    /// let mut receiver = sender.try_subscribe()?;
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// # Ok::<(), NoMemory>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for it.
    #[track_caller]
    pub fn try_subscribe(&self) -> Result<Receiver<T>, NoMemory> {
        Receiver::try_new(&self.shared)
    }

    /// A sender that does not keep the channel open.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// let weak = sender.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(sender);
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[must_use = "it makes another sender, and leaves this one as it is"]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender::new(&self.shared)
    }

    /// How many messages there are that somebody has yet to receive.
    ///
    /// ```
    /// let (sender, mut receiver) = executor::sync::broadcast::channel(4);
    /// sender.send(1).unwrap();
    /// assert_eq!(sender.len(), 1);
    /// receiver.try_recv().unwrap();
    /// assert_eq!(sender.len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.shared.state.lock().len()
    }

    /// Whether all was received by all.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::broadcast::channel(4);
    /// assert!(sender.is_empty());
    /// sender.send(1).unwrap();
    /// assert!(!sender.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.shared.state.lock().is_empty()
    }

    /// How many receivers there are.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// assert_eq!(sender.receiver_count(), 1);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.shared.state.lock().receivers
    }

    /// Whether both send to the same channel.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// assert!(sender.same_channel(&sender.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Counted::ptr_eq(&self.shared, &other.shared)
    }

    /// Waits until there is no receiver.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::broadcast};
    ///
    /// let (sender, receiver) = broadcast::channel::<u8>(4);
    /// drop(receiver);
    /// block_on_simple(sender.closed());
    /// ```
    pub async fn closed(&self) {
        poll_fn(proceed).await;
        loop {
            // Made before the look, so it hears of who leaves after it.
            let notified = self.shared.unheard.notified();
            if self.receiver_count() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// How many senders there are that keep the channel open.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// let other = sender.clone();
    /// assert_eq!(other.strong_count(), 2);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.shared.state.lock().senders
    }

    /// How many senders there are that do not keep the channel open.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// let weak = sender.downgrade();
    /// assert_eq!((sender.weak_count(), weak.strong_count()), (1, 1));
    /// ```
    pub fn weak_count(&self) -> usize {
        self.shared.state.lock().weak_senders
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.state.lock().senders += 1;
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.senders -= 1;
        let is_last = state.senders == 0;
        drop(state);
        if is_last {
            self.shared.sent.notify_waiters();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcast::Sender")
    }
}

/// A sender that does not keep the channel open; see [`Sender::downgrade`].
///
/// ```
/// use executor::sync::broadcast::{self, WeakSender};
///
/// let (sender, receiver) = broadcast::channel::<u8>(4);
/// let weak: WeakSender<u8> = sender.downgrade();
/// drop(sender);
/// assert!(receiver.is_closed());
/// ```
pub struct WeakSender<T> {
    shared: Counted<Shared<T>>,
}

impl<T> WeakSender<T> {
    fn new(shared: &Counted<Shared<T>>) -> Self {
        shared.state.lock().weak_senders += 1;
        Self {
            shared: shared.clone(),
        }
    }

    /// A sender that keeps the channel open. None: it is closed, as there is no such sender any more.
    ///
    /// ```
    /// let (sender, mut receiver) = executor::sync::broadcast::channel(4);
    /// let weak = sender.downgrade();
    /// weak.upgrade().unwrap().send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        let mut state = self.shared.state.lock();
        if state.senders == 0 {
            return None;
        }
        state.senders += 1;
        drop(state);
        Some(Sender {
            shared: self.shared.clone(),
        })
    }

    /// How many senders there are that keep the channel open.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// let weak = sender.downgrade();
    /// drop(sender);
    /// assert_eq!(weak.strong_count(), 0);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.shared.state.lock().senders
    }

    /// How many senders there are that do not keep the channel open.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// let weak = sender.downgrade();
    /// assert_eq!(weak.clone().weak_count(), 2);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.shared.state.lock().weak_senders
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self::new(&self.shared)
    }
}

impl<T> Drop for WeakSender<T> {
    fn drop(&mut self) {
        self.shared.state.lock().weak_senders -= 1;
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcast::WeakSender")
    }
}

/// Receives all that is sent while it is there.
///
/// What it has not received when it is dropped is as if it had.
///
/// ```
/// let (sender, receiver) = executor::sync::broadcast::channel(4);
/// sender.send(1).unwrap();
/// assert_eq!(sender.len(), 1);
/// drop(receiver);
/// assert_eq!(sender.len(), 0);
/// ```
pub struct Receiver<T> {
    shared: Counted<Shared<T>>,
    /// The number of the message that it gets next.
    next: u64,
}

impl<T> Receiver<T> {
    #[track_caller]
    fn try_new(shared: &Counted<Shared<T>>) -> Result<Self, NoMemory> {
        let receivers = shared.state.lock().receivers;
        assert!(
            receivers < MOST_RECEIVERS,
            "a channel cannot have so many receivers"
        );
        Ok(Self {
            next: shared.add_receiver()?,
            shared: shared.clone(),
        })
    }

    /// How many messages were sent that it has not received, also those that were overwritten: if there are more than
    /// the channel has room for, it will hear of that first.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::broadcast::channel(1);
    /// sender.send(1).unwrap();
    /// sender.send(2).unwrap();
    /// assert_eq!(receiver.len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        (self.shared.state.lock().sent - self.next) as usize
    }

    /// Whether it has received all that was sent.
    ///
    /// ```
    /// let (_sender, receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// assert!(receiver.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both receive from the same channel.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// assert!(receiver.same_channel(&sender.subscribe()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Counted::ptr_eq(&self.shared, &other.shared)
    }

    /// How many senders there are that keep the channel open.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// assert_eq!(receiver.sender_strong_count(), 1);
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        self.shared.state.lock().senders
    }

    /// How many senders there are that do not keep the channel open.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// assert_eq!(receiver.sender_weak_count(), 0);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        self.shared.state.lock().weak_senders
    }

    /// Whether all senders were dropped. There may still be messages to receive.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::broadcast::channel::<u8>(4);
    /// drop(sender);
    /// assert!(receiver.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.sender_strong_count() == 0
    }
}

impl<T: Clone> Receiver<T> {
    /// Another receiver of the same channel, of all that is sent from now on; not of what this one has yet to receive.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::broadcast::channel(4);
    /// sender.send(1).unwrap();
    /// let mut other = receiver.resubscribe();
    /// sender.send(2).unwrap();
    /// assert_eq!(other.try_recv(), Ok(2));
    /// ```
    ///
    /// # Panics
    /// As [`Sender::subscribe`].
    #[track_caller]
    pub fn resubscribe(&self) -> Self {
        expect(self.try_resubscribe())
    }

    /// As [`resubscribe`](Self::resubscribe), but says so when there is no memory.
    ///
    /// ```
    /// use executor::{NoMemory, sync::broadcast};
    ///
    /// let (sender, receiver) = broadcast::channel(4);
    /// let mut other = receiver.try_resubscribe()?;
    /// sender.send(1).unwrap();
    /// assert_eq!(other.try_recv(), Ok(1));
    /// # Ok::<(), NoMemory>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for it.
    #[track_caller]
    pub fn try_resubscribe(&self) -> Result<Self, NoMemory> {
        Self::try_new(&self.shared)
    }

    /// Receives the next message, and waits for it. Dropped before it is ready, it has received none.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::broadcast::{self, error::RecvError}};
    ///
    /// block_on_simple(async {
    ///     let (sender, mut receiver) = broadcast::channel(4);
    ///     sender.send(1).unwrap();
    ///     drop(sender);
    ///     assert_eq!(receiver.recv().await, Ok(1));
    ///     assert_eq!(receiver.recv().await, Err(RecvError::Closed));
    /// });
    /// ```
    pub async fn recv(&mut self) -> Result<T, RecvError> {
        poll_fn(proceed).await;
        loop {
            // Made before the look, so it hears of what is sent after it.
            #[cfg_attr(not(loom), allow(unused_mut, reason = "a bug may be seeded"))]
            let mut notified = self.shared.sent.notified();
            match self.shared.receive(&mut self.next) {
                Ok(message) => return Ok(message),
                Err(Nothing::Closed) => return Err(RecvError::Closed),
                Err(Nothing::Lagged(missed)) => return Err(RecvError::Lagged(missed)),
                Err(Nothing::Yet) => {}
            }
            #[cfg(loom)]
            if cfg!(seeded = "broadcast_waits_after_the_look") {
                // Loom would not try this by itself: who notifies looks before, and so hides it.
                loom::thread::yield_now();
                notified = self.shared.sent.notified();
            }
            notified.await;
        }
    }

    /// Receives the next message, if there is one.
    ///
    /// ```
    /// use executor::sync::broadcast::{self, error::TryRecvError};
    ///
    /// let (sender, mut receiver) = broadcast::channel(4);
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        Ok(self.shared.receive(&mut self.next)?)
    }

    /// Makes a stream of it: of messages, and of how many were missed. It ends when the channel is closed.
    ///
    /// A receiver is not a stream itself: what waits must stay where it is, and a receiver may be moved. To wait with both,
    /// [`resubscribe`](Self::resubscribe) before.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::broadcast};
    /// use futures_core::Stream;
    /// use std::{future::poll_fn, pin::pin};
    ///
    /// block_on_simple(async {
    ///     let (sender, receiver) = broadcast::channel(4);
    ///     let mut stream = pin!(receiver.into_stream());
    ///     sender.send(1).unwrap();
    ///     assert_eq!(poll_fn(|cx| stream.as_mut().poll_next(cx)).await, Some(Ok(1)));
    ///     drop(sender);
    ///     assert_eq!(poll_fn(|cx| stream.as_mut().poll_next(cx)).await, None);
    /// });
    /// ```
    pub fn into_stream(self) -> BroadcastStream<T> {
        BroadcastStream::new(self)
    }
}

#[cfg(not(loom))]
impl<T: Clone> Receiver<T> {
    /// Receives the next message in code that is not async; in a task, only its poll waits for it.
    ///
    /// ```
    /// let (sender, mut receiver) = executor::sync::broadcast::channel(4);
    /// let thread = std::thread::spawn(move || receiver.blocking_recv());
    /// sender.send(1).unwrap();
    /// assert_eq!(thread.join().unwrap(), Ok(1));
    /// ```
    ///
    /// # Panics
    /// As [`wait`](crate::task::wait).
    #[track_caller]
    pub fn blocking_recv(&mut self) -> Result<T, RecvError> {
        super::block_on(self.recv())
    }

    /// As [`recv`](Self::recv), but gives up after a while.
    ///
    /// ```
    /// use executor::{Runtime, sync::broadcast::{self, error::RecvTimeoutError}, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (_sender, mut receiver) = broadcast::channel::<u8>(4);
    ///     let received = receiver.recv_timeout(Duration::from_millis(1)).await;
    ///     assert_eq!(received, Err(RecvTimeoutError::Elapsed));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If it has to wait where no [`Runtime`](crate::Runtime) runs: no timer would wake it.
    pub async fn recv_timeout(
        &mut self,
        limit: core::time::Duration,
    ) -> Result<T, error::RecvTimeoutError> {
        match crate::time::timeout(limit, self.recv()).await {
            Ok(received) => Ok(received?),
            // It may have been pending only to let others run.
            Err(_) => Ok(self.try_recv()?),
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.remove_receiver(&mut self.next);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broadcast::Receiver")
    }
}
