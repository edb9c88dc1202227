//! What can go wrong with a channel whose messages are for all.

use super::cells::Nothing;
use core::{error, fmt};

/// There is no receiver; here is the message again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendError<T>(pub T);

/// Why there is no message to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvError {
    /// All senders were dropped, and all that they sent was received.
    Closed,
    /// So many messages were overwritten before they were received. The next one is the oldest that is still there.
    Lagged(u64),
}

/// Why there is no message to be had at once.
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
