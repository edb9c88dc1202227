//! The sectors of a volume that are in memory: those that were changed, and those that were used last.
//!
//! A changed sector is written when its [`Class`] is written back, never earlier: that is how the order of writes is kept. Whole sectors of a
//! file's bytes go past the cache.

use crate::error::{Error, Result};
use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;
use drivers::block::{Disk, DiskError, SECTOR};

/// So many sectors stay in memory though they are not changed.
const KEPT: usize = 128;

/// What a sector is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// A file.
    Data,
    /// The table, or what is noted beside it.
    Table,
    /// A directory.
    Directory,
}

struct Slot {
    sector: u64,
    bytes: Vec<u8>,
    /// Changed, and not written yet.
    changed: Option<Class>,
    /// When it was used last.
    used: u64,
}

pub(crate) struct Cache {
    pub disk: Arc<dyn Disk>,
    /// Those that are the volume's.
    sectors: Range<u64>,
    /// By sector.
    slots: Vec<Slot>,
    uses: u64,
    /// Something was written, and not flushed.
    is_loose: bool,
    /// A flush failed: what was written before it may be gone, and nobody has it any more. So nothing is written after that, and everyone hears of it.
    failure: Option<Error>,
}

impl Cache {
    pub(crate) fn new(disk: Arc<dyn Disk>, sectors: Range<u64>) -> Self {
        Self {
            disk,
            sectors,
            slots: Vec::new(),
            uses: 0,
            is_loose: false,
            failure: None,
        }
    }

    /// Whether something may still be written.
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.failure.map_or(Ok(()), Err)
    }

    fn check(&self, first: u64, bytes: usize) -> Result<()> {
        let end = first.checked_add((bytes / SECTOR) as u64);
        match end {
            Some(end) if first >= self.sectors.start && end <= self.sectors.end => Ok(()),
            _ => Err(Error::Broken("something is beyond the end of the volume")),
        }
    }

    fn find(&self, sector: u64) -> core::result::Result<usize, usize> {
        self.slots.binary_search_by_key(&sector, |slot| slot.sector)
    }

    /// Makes room for one more, by forgetting half of those that are not changed if they are too many.
    fn make_room(&mut self) -> Result<()> {
        self.slots.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let is_kept = |slot: &&Slot| slot.changed.is_none();
        let kept = self.slots.iter().filter(is_kept).count();
        if kept >= KEPT {
            let since = self.uses.saturating_sub(KEPT as u64 / 2);
            self.slots
                .retain(|slot| slot.changed.is_some() || slot.used > since);
        }
        Ok(())
    }

    /// The slot of a sector; `fresh`: of zeros, if it was not there, instead of what the disk has.
    async fn slot(&mut self, sector: u64, fresh: bool) -> Result<&mut Slot> {
        self.check(sector, SECTOR)?;
        if self.find(sector).is_err() {
            self.make_room()?;
            let mut bytes = try_zeros(SECTOR)?;
            if !fresh {
                self.disk.read(sector, &mut bytes).await?;
            }
            let at = self.find(sector).unwrap_or_else(|at| at);
            let slot = Slot {
                sector,
                bytes,
                changed: None,
                used: 0,
            };
            self.slots.insert(at, slot);
        }
        self.uses += 1;
        let at = self.find(sector).unwrap_or_else(|at| at);
        let slot = &mut self.slots[at];
        slot.used = self.uses;
        Ok(slot)
    }

    /// What is in a sector.
    pub(crate) async fn load(&mut self, sector: u64) -> Result<&[u8]> {
        Ok(&self.slot(sector, false).await?.bytes)
    }

    /// The same, to be changed.
    pub(crate) async fn change(&mut self, sector: u64, class: Class) -> Result<&mut [u8]> {
        let slot = self.slot(sector, false).await?;
        slot.changed = Some(class);
        Ok(&mut slot.bytes)
    }

    /// A sector of a file that has nothing in it yet, to be changed.
    pub(crate) async fn change_fresh(&mut self, sector: u64) -> Result<&mut [u8]> {
        let slot = self.slot(sector, true).await?;
        slot.bytes.fill(0);
        slot.changed = Some(Class::Data);
        Ok(&mut slot.bytes)
    }

    fn slots_in(&self, first: u64, bytes: usize) -> Range<usize> {
        let from = self.find(first).unwrap_or_else(|at| at);
        let to = self.find(first + (bytes / SECTOR) as u64);
        from..to.unwrap_or_else(|at| at)
    }

    /// Whole sectors of a file.
    pub(crate) async fn read_past(&mut self, first: u64, into: &mut [u8]) -> Result<()> {
        self.check(first, into.len())?;
        self.disk.read(first, into).await?;
        for slot in &self.slots[self.slots_in(first, into.len())] {
            let at = (slot.sector - first) as usize * SECTOR;
            into[at..at + SECTOR].copy_from_slice(&slot.bytes);
        }
        Ok(())
    }

    /// The same, written at once.
    pub(crate) async fn write_past(&mut self, first: u64, from: &[u8]) -> Result<()> {
        self.begin_past(first, from.len())?;
        let written = self.disk.write(first, from).await;
        self.forget(first, from.len(), written.is_ok());
        Ok(written?)
    }

    /// Writes zeros.
    pub(crate) async fn clear(&mut self, first: u64, count: u64) -> Result<()> {
        let length = count as usize * SECTOR;
        self.begin_past(first, length)?;
        let written = crate::bytes::clear(&*self.disk, first, count).await;
        self.forget(first, length, written.is_ok());
        Ok(written?)
    }

    fn begin_past(&mut self, first: u64, bytes: usize) -> Result<()> {
        self.check_usable()?;
        self.check(first, bytes)?;
        self.is_loose = true;
        Ok(())
    }

    /// Forgets what was written past the cache. If that failed, what was changed before it is kept: it is nowhere else.
    fn forget(&mut self, first: u64, bytes: usize, is_written: bool) {
        let range = first..first + (bytes / SECTOR) as u64;
        self.slots.retain(|slot| {
            !range.contains(&slot.sector) || (slot.changed.is_some() && !is_written)
        });
    }

    /// How many sectors of such a class wait to be written.
    pub(crate) fn changed(&self, class: Class) -> usize {
        let is_it = |slot: &&Slot| slot.changed == Some(class);
        self.slots.iter().filter(is_it).count()
    }

    pub(crate) fn all_changed(&self) -> usize {
        let is_it = |slot: &&Slot| slot.changed.is_some();
        self.slots.iter().filter(is_it).count()
    }

    /// Writes all of such a class; each also to where `copies` says it has another. One that cannot be written stays changed.
    pub(crate) async fn write_back<C: Iterator<Item = u64>>(
        &mut self,
        class: Class,
        copies: impl Fn(u64) -> C,
    ) -> Result<()> {
        self.check_usable()?;
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            if slot.changed != Some(class) {
                continue;
            }
            self.is_loose = true;
            self.disk.write(slot.sector, &slot.bytes).await?;
            for copy in copies(slot.sector) {
                self.disk.write(copy, &slot.bytes).await?;
            }
            self.slots[at].changed = None;
        }
        Ok(())
    }

    /// Waits until all that was written outlasts a loss of power. If that fails, nothing can be written until the volume is mounted again.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.check_usable()?;
        if self.is_loose {
            match self.disk.flush().await {
                Ok(()) => self.is_loose = false,
                // The disk was not even asked: it can be later.
                Err(DiskError::NoMemory) => return Err(Error::NoMemory),
                Err(error) => {
                    self.failure = Some(error.into());
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }
}

/// These bytes once more.
pub(crate) fn try_copy(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len())
        .map_err(|_| Error::NoMemory)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// So many bytes of zeros.
pub(crate) fn try_zeros(length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| Error::NoMemory)?;
    bytes.resize(length, 0);
    Ok(bytes)
}
