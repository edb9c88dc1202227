//! What can go wrong with a value that is watched.

use core::{error, fmt};

/// Nobody watches; here is the value again.
///
/// ```
/// use executor::sync::watch::{Sender, error::SendError};
///
/// let sender = Sender::new(1);
/// assert_eq!(sender.send(2), Err(SendError(2)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// All senders were dropped: the value will not change any more.
///
/// ```
/// use executor::{block_on_simple, sync::watch::{self, error::RecvError}};
///
/// let (sender, mut receiver) = watch::channel(1);
/// drop(sender);
/// let error: RecvError = block_on_simple(receiver.changed()).unwrap_err();
/// assert_eq!(error.to_string(), "the channel is closed");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvError(pub(super) ());

/// Why no change was seen in time.
///
/// ```
/// use executor::{block_on_simple, sync::watch::{self, error::ChangedTimeoutError}, time::Duration};
///
/// let (sender, mut receiver) = watch::channel(1);
/// drop(sender);
/// let changed = block_on_simple(receiver.changed_timeout(Duration::from_millis(1)));
/// assert_eq!(changed, Err(ChangedTimeoutError::Closed));
/// ```
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
