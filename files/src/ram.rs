//! A disk in memory: for tests, and for what need not outlast the machine.

use alloc::{boxed::Box, vec, vec::Vec};
use drivers::block::{Answer, Disk, DiskError, SECTOR};
use executor::sync::Mutex;

/// A disk in memory.
pub struct RamDisk {
    sectors: u64,
    bytes: Mutex<Vec<u8>>,
}

impl RamDisk {
    /// One of zeros.
    pub fn new(sectors: usize) -> Self {
        Self::from_bytes(vec![0; sectors * SECTOR])
    }

    /// One with this on it; what does not fill a sector is left out.
    pub fn from_bytes(mut bytes: Vec<u8>) -> Self {
        bytes.truncate(bytes.len() / SECTOR * SECTOR);
        Self {
            sectors: (bytes.len() / SECTOR) as u64,
            bytes: Mutex::new(bytes),
        }
    }

    /// All that is on it.
    pub async fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().await.clone()
    }

    /// Where these sectors are.
    fn place(&self, first: u64, length: usize) -> Result<core::ops::Range<usize>, DiskError> {
        if !length.is_multiple_of(SECTOR) {
            return Err(DiskError::Unaligned);
        }
        let last = first.checked_add((length / SECTOR) as u64);
        if last.is_none_or(|last| last > self.sectors) {
            return Err(DiskError::OutOfRange);
        }
        let start = first as usize * SECTOR;
        Ok(start..start + length)
    }
}

impl Disk for RamDisk {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn read<'a>(&'a self, first: u64, into: &'a mut [u8]) -> Answer<'a> {
        Box::pin(async move {
            let place = self.place(first, into.len())?;
            into.copy_from_slice(&self.bytes.lock().await[place]);
            Ok(())
        })
    }

    fn write<'a>(&'a self, first: u64, from: &'a [u8]) -> Answer<'a> {
        Box::pin(async move {
            let place = self.place(first, from.len())?;
            self.bytes.lock().await[place].copy_from_slice(from);
            Ok(())
        })
    }

    fn flush(&self) -> Answer<'_> {
        Box::pin(async { Ok(()) })
    }
}
