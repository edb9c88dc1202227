//! What can go wrong with a channel for one value.

use core::{error, fmt};

/// The sender was dropped without sending, or the receiver had closed before.
///
/// ```
/// use executor::{block_on_simple, sync::oneshot::{self, error::RecvError}};
///
/// let (sender, receiver) = oneshot::channel::<u8>();
/// drop(sender);
/// let error: RecvError = block_on_simple(receiver).unwrap_err();
/// assert_eq!(error.to_string(), "the channel is closed");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvError(pub(super) ());

/// Why there is no value yet, or none at all.
///
/// ```
/// use executor::sync::oneshot::{self, error::TryRecvError};
///
/// let (sender, mut receiver) = oneshot::channel::<u8>();
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// drop(sender);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// Nothing was sent yet.
    Empty,
    /// Nothing will be: the sender was dropped, the receiver closed, or the value was received.
    Closed,
}

/// Why no value came in time.
///
/// ```
/// use executor::{block_on_simple, sync::oneshot::{self, error::RecvTimeoutError}, time::Duration};
///
/// let (sender, mut receiver) = oneshot::channel::<u8>();
/// drop(sender);
/// let received = block_on_simple(receiver.recv_timeout(Duration::from_millis(1)));
/// assert_eq!(received, Err(RecvTimeoutError::Closed));
/// ```
#[cfg(not(loom))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvTimeoutError {
    /// The time was over.
    Elapsed,
    /// Nothing will be sent.
    Closed,
}

const CLOSED: &str = "the channel is closed";

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CLOSED)
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the channel is empty",
            Self::Closed => CLOSED,
        })
    }
}

#[cfg(not(loom))]
impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elapsed => "nothing was sent in time",
            Self::Closed => CLOSED,
        })
    }
}

#[cfg(not(loom))]
impl From<RecvError> for RecvTimeoutError {
    fn from(_: RecvError) -> Self {
        Self::Closed
    }
}

#[cfg(not(loom))]
impl From<TryRecvError> for RecvTimeoutError {
    fn from(error: TryRecvError) -> Self {
        match error {
            TryRecvError::Empty => Self::Elapsed,
            TryRecvError::Closed => Self::Closed,
        }
    }
}

impl error::Error for RecvError {}
impl error::Error for TryRecvError {}
#[cfg(not(loom))]
impl error::Error for RecvTimeoutError {}
