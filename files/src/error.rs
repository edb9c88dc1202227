//! Why something with a file or a volume did not work, and what to do about it.

use core::{error, fmt};
use drivers::block::DiskError;
use embedded_io_async::ErrorKind;

/// Why it did not work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Nothing has this name.
    NotFound,
    /// Something has this name already.
    Exists,
    /// A file is wanted, and this is a directory.
    IsDirectory,
    /// A directory is wanted, and this, or a part of the path, is a file.
    NotDirectory,
    /// The directory has something in it.
    NotEmpty,
    /// Somebody has the file open.
    Busy,
    /// The file was opened for something else.
    NotOpenForThat,
    /// No file can have such a name: why.
    Name(&'static str),
    /// A directory would be moved into itself.
    IntoItself,
    /// The volume is full.
    NoSpace,
    /// A file would be longer than FAT can have it.
    TooLong,
    /// A place before the first byte.
    BeforeStart,
    /// The directory has as many entries as it can have.
    DirectoryFull,
    /// The file, the volume or the disk cannot be written to.
    ReadOnly,
    /// There is no FAT volume on the disk: why it is none.
    NoVolume(&'static str),
    /// What the volume says cannot be: what.
    Broken(&'static str),
    /// The volume was unmounted.
    Unmounted,
    /// What was done with the volume last did not come to its end.
    Failed,
    /// There is no memory for it.
    NoMemory,
    /// The disk.
    Disk(DiskError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => {
                "there is nothing of this name; list the directory to see what there is"
            }
            Self::Exists => {
                "something has this name already; remove it first, or take another name"
            }
            Self::IsDirectory => "that is a directory, not a file; name a file in it",
            Self::NotDirectory => "that is a file, not a directory; nothing is below it",
            Self::NotEmpty => "the directory is not empty; remove what is in it first",
            Self::Busy => "somebody has it open; close it there first",
            Self::NotOpenForThat => "the file was not opened for that; open it with read or write",
            Self::Name(why) => return write!(f, "no file can be called so: {why}"),
            Self::IntoItself => "a directory cannot be moved into itself",
            Self::NoSpace => "the volume is full; remove something",
            Self::TooLong => "a file on FAT has at most 4 GiB less one byte; use several",
            Self::BeforeStart => "that is before the first byte of the file",
            Self::DirectoryFull => "the directory can have no more entries; use another",
            Self::ReadOnly => "it is read-only; nothing was written",
            Self::NoVolume(why) => {
                return write!(
                    f,
                    "there is no FAT volume on the disk: {why}; make one with mkfs.fat"
                );
            }
            Self::Broken(what) => {
                return write!(f, "the volume is damaged: {what}; repair it with fsck.fat");
            }
            Self::Unmounted => "the volume was unmounted; mount it again",
            Self::Failed => "a task of the file system has failed; mount the volume again",
            Self::NoMemory => "there is no memory for it",
            Self::Disk(error) => return fmt::Display::fmt(error, f),
        })
    }
}

impl error::Error for Error {}

impl From<DiskError> for Error {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::ReadOnly => Self::ReadOnly,
            DiskError::NoMemory => Self::NoMemory,
            error => Self::Disk(error),
        }
    }
}

impl embedded_io_async::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound => ErrorKind::NotFound,
            Self::Exists => ErrorKind::AlreadyExists,
            Self::Busy | Self::NotOpenForThat | Self::ReadOnly => ErrorKind::PermissionDenied,
            Self::Name(_) | Self::BeforeStart | Self::IntoItself => ErrorKind::InvalidInput,
            Self::Broken(_) | Self::NoVolume(_) => ErrorKind::InvalidData,
            Self::NoMemory => ErrorKind::OutOfMemory,
            Self::Unmounted => ErrorKind::NotConnected,
            _ => ErrorKind::Other,
        }
    }
}

/// What most calls come to.
pub type Result<T> = core::result::Result<T, Error>;
