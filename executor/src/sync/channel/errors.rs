//! Why something was not sent or received. What was not sent is in the error.

use core::{error, fmt};

/// The channel is closed; here is what was not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why something could not be sent at once; and what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no place, or others wait for it.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

/// Why something was not sent in time; and what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time was over.
    Timeout(T),
    /// The channel is closed.
    Closed(T),
}

/// The channel is closed, and all that was sent is received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvError;

/// Why nothing could be received at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// There is no message, or others have waited for it.
    Empty,
    /// The channel is closed, and all that was sent is received.
    Closed,
}

/// Why nothing was received in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvTimeoutError {
    /// The time was over.
    Timeout,
    /// The channel is closed, and all that was sent is received.
    Closed,
}

impl<T> SendError<T> {
    /// What was not sent.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    /// What was not sent.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }

    /// Whether there was no place.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Whether the channel is closed.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl<T> SendTimeoutError<T> {
    /// What was not sent.
    pub fn into_inner(self) -> T {
        match self {
            Self::Timeout(value) | Self::Closed(value) => value,
        }
    }
}

impl TryRecvError {
    /// Whether there was no message.
    pub fn is_empty(&self) -> bool {
        *self == Self::Empty
    }

    /// Whether the channel is closed.
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
            TrySendError::Full(value) => Self::Timeout(value),
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
    Self::Closed(_) => "Closed(..)", CLOSED);
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
