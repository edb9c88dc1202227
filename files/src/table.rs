//! The table: which cluster follows which, which are free. And the order in which a volume is written, [`Core::commit`].

use crate::{
    cache::{Cache, Class},
    error::{Error, Result},
    layout::{Kind, Layout, u16_at, u32_at},
    open::Node,
};
use alloc::{sync::Weak, vec::Vec};
use core::{iter, ops::Range};
use drivers::block::SECTOR;

/// A volume, for who has its lock.
pub(crate) struct Core {
    pub cache: Cache,
    pub layout: Layout,
    /// Where to look for a free cluster first.
    pub next: u32,
    /// How many are free, as far as is known.
    pub free: Option<u32>,
    /// Clusters that nothing uses any more. The directories on the disk may still say so until these are written: they are freed after that.
    pub unused: Vec<Range<u32>>,
    /// Files that are open.
    pub open: Vec<Weak<Node>>,
    /// It was not unmounted the last time: that stays noted.
    pub was_dirty: bool,
    /// It is noted on the disk that it is in use.
    pub is_marked: bool,
    pub is_read_only: bool,
    pub is_unmounted: bool,
}

/// What the table says of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    Free,
    Next(u32),
    End,
    Bad,
}

/// In the table: the last of its chain.
const END: u32 = 0x0fff_ffff;
/// More changed sectors than this are not kept waiting.
const MOST_CHANGED: usize = 128;

impl Core {
    /// Where a cluster's entry is: the sector, and the byte in it.
    fn place(&self, cluster: u32) -> Result<(u64, usize)> {
        if !self.layout.has(cluster) {
            return Err(Error::Broken("a cluster that is not there is in use"));
        }
        let byte = match self.layout.kind {
            Kind::Fat12 => u64::from(cluster) + u64::from(cluster / 2),
            Kind::Fat16 => u64::from(cluster) * 2,
            Kind::Fat32 => u64::from(cluster) * 4,
        };
        let sector = self.layout.table + byte / SECTOR as u64;
        Ok((sector, (byte % SECTOR as u64) as usize))
    }

    /// What the table says of a cluster.
    pub(crate) async fn link(&mut self, cluster: u32) -> Result<Link> {
        let (sector, at) = self.place(cluster)?;
        let bytes = self.cache.load(sector).await?;
        let (value, end) = match self.layout.kind {
            Kind::Fat32 => (u32_at(bytes, at) & 0x0fff_ffff, 0x0fff_fff8),
            Kind::Fat16 => (u32::from(u16_at(bytes, at)), 0xfff8),
            Kind::Fat12 => {
                let low = bytes[at];
                let high = match at + 1 < SECTOR {
                    true => bytes[at + 1],
                    false => self.cache.load(sector + 1).await?[0],
                };
                let both = u32::from(u16::from_le_bytes([low, high]));
                (
                    if cluster.is_multiple_of(2) {
                        both & 0xfff
                    } else {
                        both >> 4
                    },
                    0xff8,
                )
            }
        };
        match value {
            0 => Ok(Link::Free),
            _ if self.layout.has(value) => Ok(Link::Next(value)),
            _ if value >= end => Ok(Link::End),
            _ if value == end - 1 => Ok(Link::Bad),
            _ => Err(Error::Broken("the table names a cluster that is not there")),
        }
    }

    /// Says something else of a cluster: 0, which is next, or [`END`].
    async fn set_link(&mut self, cluster: u32, value: u32) -> Result<()> {
        let (sector, at) = self.place(cluster)?;
        let kind = self.layout.kind;
        if kind == Kind::Fat12 && at + 1 == SECTOR {
            // Both halves are in memory before one is changed: else a disk that fails could leave a half.
            self.cache.load(sector + 1).await?;
        }
        let bytes = self.cache.change(sector, Class::Table).await?;
        match kind {
            Kind::Fat32 => {
                let kept = u32_at(bytes, at) & 0xf000_0000;
                bytes[at..at + 4].copy_from_slice(&(kept | value).to_le_bytes());
            }
            Kind::Fat16 => bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes()),
            Kind::Fat12 => {
                let value = value as u16 & 0xfff;
                let (first, second) = match cluster.is_multiple_of(2) {
                    true => (value as u8, (value >> 8) as u8),
                    false => ((value << 4) as u8, (value >> 4) as u8),
                };
                let (keep_first, keep_second) = match cluster.is_multiple_of(2) {
                    true => (0, 0xf0),
                    false => (0x0f, 0),
                };
                bytes[at] = bytes[at] & keep_first | first;
                let other = match at + 1 < SECTOR {
                    true => &mut bytes[at + 1],
                    false => &mut self.cache.change(sector + 1, Class::Table).await?[0],
                };
                *other = *other & keep_second | second;
            }
        }
        Ok(())
    }

    /// The cluster after this one, in a chain that goes on.
    pub(crate) async fn after(&mut self, cluster: u32) -> Result<u32> {
        match self.link(cluster).await? {
            Link::Next(next) => Ok(next),
            Link::End => Err(Error::Broken(
                "a file has fewer clusters than its size needs",
            )),
            Link::Free | Link::Bad => {
                Err(Error::Broken("a file has a cluster that is free or bad"))
            }
        }
    }

    /// Takes so many free clusters and makes a chain of them, which goes on after `tail`, if that is given. They are all there, or none is taken.
    pub(crate) async fn allocate(&mut self, count: u32, tail: Option<u32>) -> Result<u32> {
        let found = self.find_room(count).await?;
        let mut after = None;
        // From the last to the first: what is linked to is there already.
        for cluster in found.iter().rev().flat_map(|run| run.clone().rev()) {
            self.set_link(cluster, after.unwrap_or(END)).await?;
            after = Some(cluster);
        }
        let first = after.ok_or(Error::Broken("nothing was to be allocated"))?;
        if let Some(tail) = tail {
            self.set_link(tail, first).await?;
        }
        self.next = found.last().map_or(2, |run| run.end);
        self.free = self.free.map(|free| free.saturating_sub(count));
        Ok(first)
    }

    /// So many clusters that are free, or can be.
    pub(crate) async fn find_room(&mut self, count: u32) -> Result<Vec<Range<u32>>> {
        match self.find_free(count).await {
            // There may be some that are free in a moment.
            Err(Error::NoSpace) if !self.unused.is_empty() => {
                self.commit().await?;
                self.find_free(count).await
            }
            found => found,
        }
    }

    async fn find_free(&mut self, count: u32) -> Result<Vec<Range<u32>>> {
        let mut found: Vec<Range<u32>> = Vec::new();
        let mut left = count;
        let all = self.layout.clusters;
        let from = if self.layout.has(self.next) {
            self.next - 2
        } else {
            0
        };
        for number in 0..all {
            if left == 0 {
                break;
            }
            let cluster = (from + number) % all + 2;
            // What the table says wrongly of a cluster does not make it free, nor keep others from being used.
            match self.link(cluster).await {
                Ok(Link::Free) => {}
                Ok(_) | Err(Error::Broken(_)) => continue,
                Err(error) => return Err(error),
            }
            left -= 1;
            match found.last_mut() {
                Some(run) if run.end == cluster => run.end += 1,
                _ => {
                    found.try_reserve(1).map_err(|_| Error::NoMemory)?;
                    found.push(cluster..cluster + 1);
                }
            }
        }
        match left {
            0 => Ok(found),
            _ => Err(Error::NoSpace),
        }
    }

    /// Ends a chain here.
    pub(crate) async fn set_end(&mut self, cluster: u32) -> Result<()> {
        self.set_link(cluster, END).await
    }

    /// Lets a chain go on from here.
    pub(crate) async fn set_next(&mut self, cluster: u32, next: u32) -> Result<()> {
        self.set_link(cluster, next).await
    }

    /// At most `most` clusters of a chain, from its first on, are not used any more. A chain that is damaged is followed as far as it goes.
    pub(crate) async fn give_up(&mut self, first: u32, most: u32) -> Result<()> {
        let mut cluster = first;
        for _ in 0..most.min(self.layout.clusters) {
            if !self.layout.has(cluster) {
                return Ok(());
            }
            match self.unused.last_mut() {
                Some(run) if run.end == cluster => run.end += 1,
                _ => {
                    self.unused.try_reserve(1).map_err(|_| Error::NoMemory)?;
                    self.unused.push(cluster..cluster + 1);
                }
            }
            match self.link(cluster).await {
                Ok(Link::Next(next)) => cluster = next,
                Ok(_) | Err(Error::Broken(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Frees what is unused, and forgets each cluster as soon as it is free: if the disk fails in the midst of this, others may use it before this is
    /// tried again.
    async fn free_unused(&mut self) -> Result<()> {
        while let Some(run) = self.unused.last().cloned() {
            for cluster in run.clone() {
                match self.link(cluster).await {
                    Ok(Link::Free) => {}
                    Ok(_) | Err(Error::Broken(_)) => {
                        self.set_link(cluster, 0).await?;
                        self.free = self.free.map(|free| (free + 1).min(self.layout.clusters));
                    }
                    Err(error) => return Err(error),
                }
                if let Some(run) = self.unused.last_mut() {
                    run.start = cluster + 1;
                }
                // About once a sector of the table. Nothing speaks of these clusters any more: they may be written as free in any order.
                let is_time = cluster.is_multiple_of(128) || cluster + 1 == run.end;
                if is_time && self.cache.all_changed() > MOST_CHANGED {
                    self.commit_table().await?;
                }
            }
            self.unused.pop();
        }
        Ok(())
    }

    /// Notes how many clusters are free, where FAT32 does.
    async fn note_free(&mut self) -> Result<()> {
        let Some(sector) = self.layout.info else {
            return Ok(());
        };
        let mut values = [0xff; 8];
        if let Some(free) = self.free {
            values[..4].copy_from_slice(&free.to_le_bytes());
            values[4..].copy_from_slice(&self.next.to_le_bytes());
        }
        if self.cache.load(sector).await?[488..496] != values {
            self.cache.change(sector, Class::Table).await?[488..496].copy_from_slice(&values);
        }
        Ok(())
    }

    /// Notes on the disk whether the volume is in use.
    pub(crate) async fn mark(&mut self, is_in_use: bool) -> Result<()> {
        if self.was_dirty || self.is_marked == is_in_use {
            return Ok(());
        }
        let (sector, at) = (self.layout.sectors.start, self.layout.flag_at());
        let mut boot = [0; SECTOR];
        boot.copy_from_slice(self.cache.load(sector).await?);
        boot[at] = boot[at] & !1 | u8::from(is_in_use);
        self.cache.write_past(sector, &boot).await?;
        self.cache.flush().await?;
        self.is_marked = is_in_use;
        Ok(())
    }

    /// Writes the files and the table, and waits until they outlast a loss of power.
    pub(crate) async fn commit_table(&mut self) -> Result<()> {
        self.note_free().await?;
        let none = |_| iter::empty();
        self.cache.write_back(Class::Data, none).await?;
        let layout = self.layout.clone();
        self.cache
            .write_back(Class::Table, |sector| layout.copies(sector))
            .await?;
        self.cache.flush().await
    }

    /// Writes all that was changed, in an order in which a loss of power at any point does no harm: what a directory says is written when that which
    /// it speaks of is there for good, and what it does not say any more is freed when it is gone for good. When this is done, all of it outlasts a loss of power.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        let is_changed =
            self.cache.changed(Class::Table) + self.cache.changed(Class::Directory) > 0;
        if is_changed || !self.unused.is_empty() {
            self.mark(true).await?;
            self.commit_table().await?;
            self.cache
                .write_back(Class::Directory, |_| iter::empty())
                .await?;
            self.cache.flush().await?;
            self.free_unused().await?;
        }
        self.commit_table().await
    }

    /// Writes all, if much has been changed.
    pub(crate) async fn commit_if_much(&mut self) -> Result<()> {
        match self.cache.all_changed() > MOST_CHANGED {
            true => self.commit().await,
            false => Ok(()),
        }
    }
}

impl Layout {
    /// Where else a sector of the table is.
    fn copies(&self, sector: u64) -> impl Iterator<Item = u64> + use<> {
        let is_table = (self.table..self.table + self.table_sectors).contains(&sector);
        let mirrors = if is_table { self.mirrors.clone() } else { 0..0 };
        let offset = sector.saturating_sub(self.table);
        mirrors
            .step_by(self.table_sectors as usize)
            .map(move |start| start + offset)
    }
}
