//! What can go wrong with a value that is watched.

use core::{error, fmt};

/// Nobody watches; here is the value again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// All senders were dropped: the value will not change any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvError(pub(super) ());

/// Why no change was seen in time.
#[cfg(not(loom))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangedTimeoutError {
    /// The time was over.
    Elapsed,
    /// All senders were dropped: the value will not change any more.
    Closed,
}

const CLOSED: &str = "the channel is closed";

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody watches")
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CLOSED)
    }
}

#[cfg(not(loom))]
impl fmt::Display for ChangedTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elapsed => "nothing changed in time",
            Self::Closed => CLOSED,
        })
    }
}

#[cfg(not(loom))]
impl From<RecvError> for ChangedTimeoutError {
    fn from(_: RecvError) -> Self {
        Self::Closed
    }
}

impl<T> error::Error for SendError<T> {}
impl error::Error for RecvError {}
#[cfg(not(loom))]
impl error::Error for ChangedTimeoutError {}
