//! A channel for one value: from one who makes it to one who waits for it.
//!
//! ```
//! use executor::{Runtime, spawn, sync::oneshot};
//!
//! # let runtime = Runtime::builder().workers(2).build()?;
//! runtime.block_on(async {
//!     let (sender, receiver) = oneshot::channel();
//!     spawn(async move { sender.send(6 * 7).unwrap() });
//!     assert_eq!(receiver.await, Ok(42));
//! });
//! # Ok::<(), executor::BuildError>(())
//! ```
//!
//! Both ends share one allocation, and in it one word (`state`), with no lock: sending never waits.

pub mod error;
#[cfg(not(loom))]
mod left;
mod state;

use self::{
    error::{RecvError, TryRecvError},
    state::{CLOSED, DONE, RECEIVER_WAITS, Shared, VALUE},
};
use super::proceed;
use crate::NoMemory;
use core::{
    fmt,
    future::poll_fn,
    mem::ManuallyDrop,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll},
};
use futures_core::future::FusedFuture;

/// Makes a channel for one value.
///
/// ```
/// let (sender, mut receiver) = executor::sync::oneshot::channel();
/// assert!(receiver.try_recv().is_err());
/// sender.send("hello").unwrap();
/// assert_eq!(receiver.try_recv(), Ok("hello"));
/// ```
///
/// # Panics
/// If there is no memory for it; [`try_channel`] says so instead.
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    try_channel().unwrap_or_else(|NoMemory| panic!("there is no memory for a channel"))
}

/// As [`channel`], but says so when there is no memory.
///
/// ```
/// use executor::{NoMemory, sync::oneshot};
///
/// let (sender, mut receiver) = oneshot::try_channel()?;
/// sender.send("hello").unwrap();
/// assert_eq!(receiver.try_recv(), Ok("hello"));
/// # Ok::<(), NoMemory>(())
/// ```
///
/// # Errors
/// There is no memory for it.
pub fn try_channel<T>() -> Result<(Sender<T>, Receiver<T>), NoMemory> {
    #[cfg(not(loom))]
    left::free();
    let shared = Shared::try_new()?;
    let receiver = Receiver {
        shared: Some(shared),
    };
    Ok((Sender { shared }, receiver))
}

/// Sends the value, once.
///
/// Dropped without that, it lets the receiver know that there will be none.
///
/// ```
/// use executor::{block_on_simple, sync::oneshot};
///
/// fn answer(question: &str, reply: oneshot::Sender<usize>) {
///     if !question.is_empty() {
///         reply.send(question.len()).unwrap();
///     }
/// }
/// let (reply, answered) = oneshot::channel();
/// answer("how long?", reply);
/// assert_eq!(block_on_simple(answered), Ok(9));
/// let (reply, answered) = oneshot::channel();
/// answer("", reply);
/// assert!(block_on_simple(answered).is_err());
/// ```
pub struct Sender<T> {
    shared: NonNull<Shared<T>>,
}

// SAFETY: a value may be written here and read elsewhere.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: what is shared of it looks at the word alone.
unsafe impl<T: Send> Sync for Sender<T> {}

impl<T> Sender<T> {
    #[inline]
    fn shared(&self) -> &Shared<T> {
        // SAFETY: it is there until both ends have left.
        unsafe { self.shared.as_ref() }
    }

    /// Sends the value. Err: the receiver has closed or was dropped before, and here it is again.
    ///
    /// In interrupts too: nothing is allocated or freed there.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::oneshot::channel();
    /// drop(receiver);
    /// assert_eq!(sender.send(1), Err(1));
    /// ```
    #[inline]
    pub fn send(self, value: T) -> Result<(), T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: this is the sender, which is used no more.
        let sent = unsafe { Shared::finish(this.shared, Some(value)) };
        sent.map_err(|value| value.expect("it was sent with one"))
    }

    /// Waits until the receiver closes or is dropped.
    ///
    /// ```
    /// use executor::{Runtime, spawn, sync::oneshot};
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let (mut sender, receiver) = oneshot::channel::<u8>();
    ///     spawn(async move { drop(receiver) });
    ///     sender.closed().await;
    ///     assert!(sender.is_closed());
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub async fn closed(&mut self) {
        poll_fn(|cx| self.poll_closed(cx)).await;
    }

    /// Whether the receiver has closed or was dropped: then sending fails.
    ///
    /// ```
    /// let (sender, mut receiver) = executor::sync::oneshot::channel::<u8>();
    /// assert!(!sender.is_closed());
    /// receiver.close();
    /// assert!(sender.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.shared().word() & CLOSED != 0
    }

    /// One poll of [`closed`](Self::closed). Of several tasks that poll, the last one is woken.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::oneshot};
    ///
    /// let (mut sender, receiver) = oneshot::channel::<u8>();
    /// drop(receiver);
    /// block_on_simple(std::future::poll_fn(|cx| sender.poll_closed(cx)));
    /// ```
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if proceed(cx).is_pending() {
            return Poll::Pending;
        }
        // SAFETY: this is the sender.
        match unsafe { self.shared().wait_for_close(cx.waker()) } {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // SAFETY: this is the sender, which is used no more.
        let _ = unsafe { Shared::finish(self.shared, None) };
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("is_closed", &self.is_closed())
            .finish()
    }
}

/// Receives the value: a future, or [`try_recv`](Self::try_recv).
///
/// As a future it may be given up by reference, `(&mut receiver).await`, and what is sent later is still there.
///
/// ```
/// use executor::{block_on_simple, sync::oneshot};
///
/// let (sender, receiver) = oneshot::channel::<u8>();
/// drop(sender);
/// assert!(block_on_simple(receiver).is_err());
/// ```
///
/// # Panics
/// When it is polled after it was ready; see [`is_terminated`](Self::is_terminated).
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Receiver<T> {
    /// None: it has left, with the value or without.
    shared: Option<NonNull<Shared<T>>>,
}

// SAFETY: a value may be written elsewhere and read here.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: what is shared of it looks at the word alone.
unsafe impl<T: Send> Sync for Receiver<T> {}

impl<T> Receiver<T> {
    /// The word. None: it has left.
    #[inline]
    fn word(&self) -> Option<u8> {
        // SAFETY: it is there until both ends have left.
        self.shared.map(|shared| unsafe { shared.as_ref() }.word())
    }

    /// Leaves, with the value if there is one: the sender is done, or will find it closed.
    #[inline]
    fn leave(&mut self, word: u8) -> Result<T, RecvError> {
        let shared = self.shared.take().expect("it has not left");
        // SAFETY: this is the receiver, which has left from now on.
        unsafe {
            if word & DONE != 0 {
                return Shared::receive(shared, word).ok_or(RecvError(()));
            }
            Shared::close(shared, true);
        }
        Err(RecvError(()))
    }

    /// Lets nothing be sent from now on. What was sent before can still be received.
    ///
    /// ```
    /// let (sender, mut receiver) = executor::sync::oneshot::channel();
    /// sender.send(1).unwrap();
    /// receiver.close();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    pub fn close(&mut self) {
        if let Some(shared) = self.shared {
            // SAFETY: this is the receiver.
            unsafe { Shared::close(shared, false) };
        }
    }

    /// Whether it has yielded the value, or that there is none: then it must not be polled again.
    ///
    /// ```
    /// let (sender, mut receiver) = executor::sync::oneshot::channel();
    /// sender.send(1).unwrap();
    /// assert!(!receiver.is_terminated());
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert!(receiver.is_terminated());
    /// ```
    pub fn is_terminated(&self) -> bool {
        self.shared.is_none()
    }

    /// Whether there is no value in it: not yet, not any more, or never.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::oneshot::channel();
    /// assert!(receiver.is_empty());
    /// sender.send(1).unwrap();
    /// assert!(!receiver.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.word().is_none_or(|word| word & VALUE == 0)
    }

    /// Takes the value if it was sent.
    ///
    /// ```
    /// use executor::sync::oneshot::{self, error::TryRecvError};
    ///
    /// let (sender, mut receiver) = oneshot::channel();
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.word() {
            None => Err(TryRecvError::Closed),
            Some(word) if word & (DONE | CLOSED) == 0 => Err(TryRecvError::Empty),
            Some(word) => self.leave(word).map_err(|_| TryRecvError::Closed),
        }
    }
}

#[cfg(not(loom))]
impl<T> Receiver<T> {
    /// Waits for the value in code that is not async; in a task, only its poll waits.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::oneshot::channel();
    /// let thread = std::thread::spawn(|| receiver.blocking_recv());
    /// sender.send(1).unwrap();
    /// assert_eq!(thread.join().unwrap(), Ok(1));
    /// ```
    ///
    /// # Panics
    /// As [`wait`](crate::task::wait).
    #[track_caller]
    pub fn blocking_recv(self) -> Result<T, RecvError> {
        super::block_on(self)
    }

    /// Waits for the value, but gives up after a while. It can then be tried again.
    ///
    /// ```
    /// use executor::{Runtime, sync::oneshot, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (sender, mut receiver) = oneshot::channel();
    ///     let while_ = Duration::from_millis(1);
    ///     assert_eq!(receiver.recv_timeout(while_).await, Err(oneshot::error::RecvTimeoutError::Elapsed));
    ///     sender.send(1).unwrap();
    ///     assert_eq!(receiver.recv_timeout(while_).await, Ok(1));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If it was ready before; and if it has to wait where no [`Runtime`](crate::Runtime) runs: no timer would wake it.
    pub async fn recv_timeout(
        &mut self,
        limit: core::time::Duration,
    ) -> Result<T, error::RecvTimeoutError> {
        match crate::time::timeout(limit, &mut *self).await {
            Ok(received) => Ok(received?),
            // It may have been pending only to let others run.
            Err(_) => Ok(self.try_recv()?),
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = self.shared.expect("polled after it was ready");
        // SAFETY: it is there until both ends have left.
        let shared = unsafe { shared.as_ref() };
        let mut word = shared.word();
        if word & RECEIVER_WAITS == 0 && proceed(cx).is_pending() {
            return Poll::Pending;
        }
        if word & (DONE | CLOSED) == 0 {
            // SAFETY: this is the receiver.
            if unsafe { shared.wait_to_receive(cx.waker()) } {
                return Poll::Pending;
            }
            word = shared.word();
        }
        Poll::Ready(self.leave(word))
    }
}

impl<T> FusedFuture for Receiver<T> {
    fn is_terminated(&self) -> bool {
        self.is_terminated()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            // SAFETY: this is the receiver, which is used no more.
            unsafe { Shared::close(shared, true) };
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("is_terminated", &self.is_terminated())
            .field("is_empty", &self.is_empty())
            .finish()
    }
}
