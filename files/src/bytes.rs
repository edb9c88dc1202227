//! Any bytes of a disk, not only whole sectors.
//!
//! Of a sector that is written in part the rest is read first. Two who do that with one sector at the same time may undo each other: that is
//! for them to see to.

use alloc::{vec, vec::Vec};
use drivers::block::{Disk, DiskError, SECTOR};

/// Most sectors that are asked for at once.
const PIECE: usize = 128;

/// Reads as many bytes as `into` has room for, from byte `at` on.
pub async fn read_at(disk: &dyn Disk, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
    check(disk, at, into.len())?;
    let mut done = 0;
    while done < into.len() {
        let (first, offset) = split(at + done as u64);
        let left = into.len() - done;
        if offset == 0 && left >= SECTOR {
            let length = left / SECTOR * SECTOR;
            disk.read(first, &mut into[done..done + length]).await?;
            done += length;
        } else {
            let length = left.min(SECTOR - offset);
            let mut sector = [0; SECTOR];
            disk.read(first, &mut sector).await?;
            into[done..done + length].copy_from_slice(&sector[offset..offset + length]);
            done += length;
        }
    }
    Ok(())
}

/// Writes these bytes, from byte `at` on.
pub async fn write_at(disk: &dyn Disk, at: u64, from: &[u8]) -> Result<(), DiskError> {
    check(disk, at, from.len())?;
    if disk.is_read_only() {
        return Err(DiskError::ReadOnly);
    }
    let mut done = 0;
    while done < from.len() {
        let (first, offset) = split(at + done as u64);
        let left = from.len() - done;
        if offset == 0 && left >= SECTOR {
            let length = left / SECTOR * SECTOR;
            disk.write(first, &from[done..done + length]).await?;
            done += length;
        } else {
            let length = left.min(SECTOR - offset);
            let mut sector = [0; SECTOR];
            disk.read(first, &mut sector).await?;
            sector[offset..offset + length].copy_from_slice(&from[done..done + length]);
            disk.write(first, &sector).await?;
            done += length;
        }
    }
    Ok(())
}

/// Writes `count` sectors of zeros.
pub async fn clear(disk: &dyn Disk, first: u64, count: u64) -> Result<(), DiskError> {
    let zeros: Vec<u8> = vec![0; SECTOR * PIECE.min(count as usize)];
    let mut done = 0;
    while done < count {
        let piece = (PIECE as u64).min(count - done);
        disk.write(first + done, &zeros[..piece as usize * SECTOR])
            .await?;
        done += piece;
    }
    Ok(())
}

/// Waits until all that was written outlasts a loss of power.
pub async fn flush(disk: &dyn Disk) -> Result<(), DiskError> {
    disk.flush().await
}

fn check(disk: &dyn Disk, at: u64, length: usize) -> Result<(), DiskError> {
    let end = at.checked_add(length as u64);
    let size = disk.sectors().saturating_mul(SECTOR as u64);
    match end {
        Some(end) if end <= size => Ok(()),
        _ => Err(DiskError::OutOfRange),
    }
}

/// The sector of a byte, and where in it.
fn split(at: u64) -> (u64, usize) {
    (at / SECTOR as u64, (at % SECTOR as u64) as usize)
}
