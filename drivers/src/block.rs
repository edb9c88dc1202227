//! Disks, whoever drives them: sectors by number, several requests at once.
//!
//! A driver [`offer`]s the disks that it has found, and whoever wants disks takes the [`next_disk`]. A [`Disk`] is shared by who uses it. Requests wait as tasks do, and hold no core; one that is dropped while it waits may still be carried out.

use crate::handout::Handout;
use alloc::{boxed::Box, sync::Arc};
use core::{error, fmt, future::Future, pin::Pin};

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// What a request comes to.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), DiskError>> + Send + 'a>>;

/// A disk.
pub trait Disk: Send + Sync {
    /// How many sectors it has.
    fn sectors(&self) -> u64;

    /// Whether nothing can be written to it.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Reads as many sectors as `into` has room for, from `first` on. Its length is a multiple of [`SECTOR`].
    fn read<'a>(&'a self, first: u64, into: &'a mut [u8]) -> Answer<'a>;

    /// Writes these sectors, from `first` on. The length is a multiple of [`SECTOR`].
    fn write<'a>(&'a self, first: u64, from: &'a [u8]) -> Answer<'a>;

    /// Waits until all that was written, and answered, outlasts a loss of power.
    fn flush(&self) -> Answer<'_>;
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// There are no such sectors.
    OutOfRange,
    /// It is no whole number of sectors.
    Unaligned,
    /// The disk cannot be written to.
    ReadOnly,
    /// The device says that it failed.
    Failed,
    /// The device says what cannot be: what. It is not used any more.
    Wrong(&'static str),
    /// The device was stopped, or is no longer there.
    Gone,
    /// There is no memory for the request.
    NoMemory,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange => f.write_str("the disk has no such sectors"),
            Self::Unaligned => f.write_str("not a whole number of sectors"),
            Self::ReadOnly => f.write_str("the disk cannot be written to"),
            Self::Failed => f.write_str("the disk failed"),
            Self::Wrong(what) => write!(f, "the disk says what cannot be: {what}"),
            Self::Gone => f.write_str("the disk is gone"),
            Self::NoMemory => f.write_str("there is no memory for a request to the disk"),
        }
    }
}

impl error::Error for DiskError {}

/// Disks that nobody has taken, oldest first.
static OFFERED: Handout<Arc<dyn Disk>> = Handout::new();

/// A driver has a disk.
pub fn offer(disk: Arc<dyn Disk>) {
    OFFERED.put(disk);
}

/// A driver has it no more. Who has taken it hears that from his next request.
pub async fn withdraw(disk: &Arc<dyn Disk>) {
    OFFERED.retain(|other| !Arc::ptr_eq(other, disk)).await;
}

/// Waits for a disk that nobody has taken yet.
pub async fn next_disk() -> Arc<dyn Disk> {
    OFFERED.next().await
}
