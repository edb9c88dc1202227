//! What can go wrong with a channel whose messages are for all.

use super::cells::Nothing;
use core::{error, fmt};

/// There is no receiver; here is the message again.
///
/// ```
/// use executor::sync::broadcast::{Sender, error::SendError};
///
/// let sender = Sender::new(4);
/// assert_eq!(sender.send(1), Err(SendError(1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendError<T>(pub T);

/// Why there is no message to be had.
///
/// ```
/// use executor::{block_on_simple, sync::broadcast::{self, error::RecvError}};
///
/// block_on_simple(async {
///     let (sender, mut receiver) = broadcast::channel(1);
///     sender.send(1).unwrap();
///     sender.send(2).unwrap();
///     drop(sender);
///     assert_eq!(receiver.recv().await, Err(RecvError::Lagged(1)));
///     assert_eq!(receiver.recv().await, Ok(2));
///     assert_eq!(receiver.recv().await, Err(RecvError::Closed));
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvError {
    /// All senders were dropped, and all that they sent was received.
    Closed,
    /// So many messages were overwritten before they were received. The next one is the oldest that is still there.
    Lagged(u64),
}

/// Why there is no message to be had at once.
///
/// ```
/// use executor::sync::broadcast::{self, error::TryRecvError};
///
/// let (sender, mut receiver) = broadcast::channel(1);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// sender.send(1).unwrap();
/// sender.send(2).unwrap();
/// drop(sender);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Lagged(1)));
/// assert_eq!(receiver.try_recv(), Ok(2));
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// All that was sent was received.
    Empty,
    /// The same, and all senders were dropped.
    Closed,
    /// So many messages were overwritten before they were received. The next one is the oldest that is still there.
    Lagged(u64),
}

/// Why no message came in time.
///
/// ```
/// use executor::{block_on_simple, sync::broadcast::{self, error::RecvTimeoutError}, time::Duration};
///
/// let (sender, mut receiver) = broadcast::channel::<u8>(4);
/// drop(sender);
/// let received = block_on_simple(receiver.recv_timeout(Duration::from_millis(1)));
/// assert_eq!(received, Err(RecvTimeoutError::Closed));
/// ```
#[cfg(not(loom))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvTimeoutError {
    /// The time was over.
    Elapsed,
    /// All senders were dropped, and all that they sent was received.
    Closed,
    /// So many messages were overwritten before they were received. The next one is the oldest that is still there.
    Lagged(u64),
}

/// So many messages were overwritten before a stream came for them; it goes on with the oldest that is still there.
///
/// ```
/// use executor::{block_on_simple, stream::StreamNext, sync::broadcast::{self, error::Lagged}};
/// use std::pin::pin;
///
/// let (sender, receiver) = broadcast::channel(1);
/// sender.send(1).unwrap();
/// sender.send(2).unwrap();
/// let mut stream = pin!(receiver.into_stream());
/// block_on_simple(async {
///     assert_eq!(stream.next().await, Some(Err(Lagged(1))));
///     assert_eq!(stream.next().await, Some(Ok(2)));
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lagged(pub u64);

impl From<Nothing> for TryRecvError {
    fn from(nothing: Nothing) -> Self {
        match nothing {
            Nothing::Yet => Self::Empty,
            Nothing::Closed => Self::Closed,
            Nothing::Lagged(missed) => Self::Lagged(missed),
        }
    }
}

#[cfg(not(loom))]
impl From<RecvError> for RecvTimeoutError {
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Closed => Self::Closed,
            RecvError::Lagged(missed) => Self::Lagged(missed),
        }
    }
}

#[cfg(not(loom))]
impl From<TryRecvError> for RecvTimeoutError {
    fn from(error: TryRecvError) -> Self {
        match error {
            TryRecvError::Empty => Self::Elapsed,
            TryRecvError::Closed => Self::Closed,
            TryRecvError::Lagged(missed) => Self::Lagged(missed),
        }
    }
}

const CLOSED: &str = "the channel is closed";

fn lagged(f: &mut fmt::Formatter<'_>, missed: u64) -> fmt::Result {
    write!(f, "{missed} messages were missed")
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody receives")
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Closed => f.write_str(CLOSED),
            Self::Lagged(missed) => lagged(f, missed),
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty => f.write_str("the channel is empty"),
            Self::Closed => f.write_str(CLOSED),
            Self::Lagged(missed) => lagged(f, missed),
        }
    }
}

#[cfg(not(loom))]
impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Elapsed => f.write_str("nothing was sent in time"),
            Self::Closed => f.write_str(CLOSED),
            Self::Lagged(missed) => lagged(f, missed),
        }
    }
}

impl fmt::Display for Lagged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lagged(f, self.0)
    }
}

impl<T: fmt::Debug> error::Error for SendError<T> {}
impl error::Error for RecvError {}
impl error::Error for TryRecvError {}
#[cfg(not(loom))]
impl error::Error for RecvTimeoutError {}
impl error::Error for Lagged {}
