//! What can go wrong.

use core::{error, fmt};
use embedded_io_async::ErrorKind;
use executor::{NoMemory, sync::Poisoned};

/// Why something on the network was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetError {
    /// Nobody listens there.
    Refused,
    /// The other side has ended the connection in the middle, or did not answer for too long.
    Reset,
    /// This side has closed it already.
    Closed,
    /// There was no answer in time.
    TimedOut,
    /// An address that nobody can have: of all, of many, or of nobody.
    BadAddress,
    /// There is no interface by which it can be reached; or that has no address yet.
    Unreachable,
    /// There is an interface of that name, or a socket at that port, already.
    InUse,
    /// All ports are in use.
    NoPorts,
    /// The datagram is longer than the socket has room for.
    TooLong,
    /// The name cannot be one, or nobody knows it.
    NoSuchName,
    /// There is no memory for it.
    NoMemory,
    /// A task that was lost held the socket.
    Poisoned,
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused: nobody listens there",
            Self::Reset => "the connection was ended by the other side",
            Self::Closed => "the connection is closed",
            Self::TimedOut => "no answer in time",
            Self::BadAddress => "nobody can have this address",
            Self::Unreachable => {
                "cannot be reached: there is no interface for it, or it has no address yet"
            }
            Self::InUse => "already in use",
            Self::NoPorts => "all ports are in use",
            Self::TooLong => "longer than the socket has room for",
            Self::NoSuchName => "no such name",
            Self::NoMemory => "there is no memory for it",
            Self::Poisoned => "a task that was lost held the socket",
        })
    }
}

impl error::Error for NetError {}

impl embedded_io_async::Error for NetError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused => ErrorKind::ConnectionRefused,
            Self::Reset => ErrorKind::ConnectionReset,
            Self::Closed => ErrorKind::NotConnected,
            Self::TimedOut => ErrorKind::TimedOut,
            Self::BadAddress => ErrorKind::InvalidInput,
            Self::Unreachable => ErrorKind::AddrNotAvailable,
            Self::InUse | Self::NoPorts => ErrorKind::AddrInUse,
            Self::TooLong => ErrorKind::InvalidInput,
            Self::NoSuchName => ErrorKind::NotFound,
            Self::NoMemory => ErrorKind::OutOfMemory,
            Self::Poisoned => ErrorKind::Other,
        }
    }
}

impl From<Poisoned> for NetError {
    fn from(_: Poisoned) -> Self {
        Self::Poisoned
    }
}

impl From<NoMemory> for NetError {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}
