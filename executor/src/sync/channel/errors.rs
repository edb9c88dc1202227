//! Why something was not sent or received. What was not sent is in the error.

use core::{error, fmt};

/// The channel is closed; here is what was not sent.
///
/// ```
/// use executor::sync::channel::{SendError, bounded};
///
/// let (sender, receiver) = bounded(1);
/// drop(receiver);
/// assert_eq!(sender.send_blocking("hello"), Err(SendError("hello")));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why something could not be sent at once; and what.
///
/// ```
/// use executor::sync::channel::{TrySendError, bounded};
///
/// let (sender, _receiver) = bounded(1);
/// sender.try_send(1).unwrap();
/// let error = sender.try_send(2).unwrap_err();
/// assert_eq!(error, TrySendError::Full(2));
/// assert_eq!(error.to_string(), "the channel is full");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no place, or others wait for it.
    Full(T),
    /// The channel is closed.
    Closed(T),
    /// The channel has no bound, and there is no memory for one more.
    NoMemory(T),
}

/// Why something was not sent in time; and what.
///
/// ```
/// use executor::{block_on_simple, sync::channel::{SendTimeoutError, bounded}, time::Duration};
///
/// let (sender, receiver) = bounded(1);
/// drop(receiver);
/// let sent = block_on_simple(sender.send_timeout(1, Duration::from_millis(1)));
/// assert_eq!(sent, Err(SendTimeoutError::Closed(1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time was over.
    Timeout(T),
    /// The channel is closed.
    Closed(T),
}

/// The channel is closed, and all that was sent is received.
///
/// ```
/// use executor::sync::channel::{RecvError, bounded};
///
/// let (sender, receiver) = bounded::<u8>(1);
/// drop(sender);
/// assert_eq!(receiver.recv_blocking(), Err(RecvError));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvError;

/// Why nothing could be received at once.
///
/// ```
/// use executor::sync::channel::{TryRecvError, bounded};
///
/// let (sender, receiver) = bounded::<u8>(1);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// drop(sender);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// There is no message, or others have waited for it.
    Empty,
    /// The channel is closed, and all that was sent is received.
    Closed,
}

/// Why nothing was received in time.
///
/// ```
/// use executor::{block_on_simple, sync::channel::{RecvTimeoutError, bounded}, time::Duration};
///
/// let (sender, receiver) = bounded::<u8>(1);
/// drop(sender);
/// let received = block_on_simple(receiver.recv_timeout(Duration::from_millis(1)));
/// assert_eq!(received, Err(RecvTimeoutError::Closed));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvTimeoutError {
    /// The time was over.
    Timeout,
    /// The channel is closed, and all that was sent is received.
    Closed,
}

impl<T> SendError<T> {
    /// What was not sent.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::channel::bounded(1);
    /// drop(receiver);
    /// assert_eq!(sender.send_blocking("hello").unwrap_err().into_inner(), "hello");
    /// ```
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    /// What was not sent.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::channel::bounded(1);
    /// sender.try_send(1).unwrap();
    /// assert_eq!(sender.try_send(2).unwrap_err().into_inner(), 2);
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) | Self::NoMemory(value) => value,
        }
    }

    /// Whether there was no place.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::channel::bounded(1);
    /// sender.try_send(1).unwrap();
    /// assert!(sender.try_send(2).unwrap_err().is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Whether the channel is closed.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::channel::bounded(1);
    /// drop(receiver);
    /// assert!(sender.try_send(1).unwrap_err().is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl<T> SendTimeoutError<T> {
    /// What was not sent.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::channel::bounded, time::Duration};
    ///
    /// let (sender, receiver) = bounded(1);
    /// drop(receiver);
    /// let sent = block_on_simple(sender.send_timeout(1, Duration::from_millis(1)));
    /// assert_eq!(sent.unwrap_err().into_inner(), 1);
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Timeout(value) | Self::Closed(value) => value,
        }
    }
}

impl TryRecvError {
    /// Whether there was no message.
    ///
    /// ```
    /// let (_sender, receiver) = executor::sync::channel::bounded::<u8>(1);
    /// assert!(receiver.try_recv().unwrap_err().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        *self == Self::Empty
    }

    /// Whether the channel is closed.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::channel::bounded::<u8>(1);
    /// drop(sender);
    /// assert!(receiver.try_recv().unwrap_err().is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        *self == Self::Closed
    }
}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(SendError(value): SendError<T>) -> Self {
        Self::Closed(value)
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(SendError(value): SendError<T>) -> Self {
        Self::Closed(value)
    }
}

impl<T> From<TrySendError<T>> for SendTimeoutError<T> {
    fn from(error: TrySendError<T>) -> Self {
        match error {
            TrySendError::Full(value) | TrySendError::NoMemory(value) => Self::Timeout(value),
            TrySendError::Closed(value) => Self::Closed(value),
        }
    }
}

impl From<RecvError> for TryRecvError {
    fn from(_: RecvError) -> Self {
        Self::Closed
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(_: RecvError) -> Self {
        Self::Closed
    }
}

impl From<TryRecvError> for RecvTimeoutError {
    fn from(error: TryRecvError) -> Self {
        match error {
            TryRecvError::Empty => Self::Timeout,
            TryRecvError::Closed => Self::Closed,
        }
    }
}

const CLOSED: &str = "the channel is closed";
const LATE: &str = "the channel was full for too long";
const DRAINED: &str = "the channel is closed and empty";

/// `Debug` for all messages, and `Display` in words.
macro_rules! said {
    ($error:ident: $($variant:pat => $name:literal, $words:expr);+) => {
        impl<T> fmt::Debug for $error<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($variant => $name),+ })
            }
        }

        impl<T> fmt::Display for $error<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($variant => $words),+ })
            }
        }

        impl<T> error::Error for $error<T> {}
    };
}

said!(SendError: Self(_) => "SendError(..)", CLOSED);
said!(TrySendError:
    Self::Full(_) => "Full(..)", "the channel is full";
    Self::Closed(_) => "Closed(..)", CLOSED;
    Self::NoMemory(_) => "NoMemory(..)", "there is no memory for the message");
said!(SendTimeoutError:
    Self::Timeout(_) => "Timeout(..)", LATE;
    Self::Closed(_) => "Closed(..)", CLOSED);

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DRAINED)
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the channel is empty",
            Self::Closed => DRAINED,
        })
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => "the channel was empty for too long",
            Self::Closed => DRAINED,
        })
    }
}

impl error::Error for RecvError {}
impl error::Error for TryRecvError {}
impl error::Error for RecvTimeoutError {}
