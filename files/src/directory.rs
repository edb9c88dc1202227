//! Directories: finding what is in one, putting something in, taking it out.

use crate::{
    cache::Class,
    error::{Error, Result},
    layout::{Kind, u16_at, u32_at},
    name::{self, Long, MOST_SLOTS, Short},
    table::{Core, Link},
};
use alloc::{string::String, vec::Vec};
use core::ops::ControlFlow;
use drivers::block::SECTOR;

/// Bytes of an entry.
const SLOT: usize = 32;
/// Most of a directory.
const MOST: u32 = 65536;
/// Marks an entry that is empty.
const DELETED: u8 = 0xe5;

pub(crate) const READ_ONLY: u8 = 0x01;
const LABEL: u8 = 0x08;
pub(crate) const DIRECTORY: u8 = 0x10;
pub(crate) const ARCHIVE: u8 = 0x20;
const LONG_NAME: u8 = 0x0f;

const ENDLESS: &str = "a directory has no end";

/// There is no clock that all boards have: all is of the first day that FAT knows.
const DAY: [u8; 2] = [0x21, 0];

/// A directory, by its first cluster; 0: the root of FAT12 and FAT16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Directory(pub u32);

/// Where an entry is: its sector, and the byte in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(pub u64, pub usize);

/// What was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub name: String,
    pub short: Short,
    pub attributes: u8,
    pub first: u32,
    pub size: u32,
    /// Where its entries are; the last is the short name's.
    pub places: Vec<Place>,
}

impl Found {
    pub(crate) fn is_directory(&self) -> bool {
        self.attributes & DIRECTORY != 0
    }

    pub(crate) fn place(&self) -> Place {
        self.places.last().copied().unwrap_or(Place(0, 0))
    }
}

/// A way through the sectors of a directory.
struct Walk {
    directory: Directory,
    /// The cluster that it is in, and how many sectors of the directory were before this.
    cluster: u32,
    sectors: u32,
    /// One that it came by: to come there again is to go in a circle. It moves on after each power of two.
    mark: u32,
}

impl Core {
    pub(crate) fn root(&self) -> Directory {
        Directory(self.layout.root_cluster)
    }

    /// The next sector; none: that was the last.
    async fn next_sector(&mut self, walk: &mut Walk) -> Result<Option<u64>> {
        let number = walk.sectors;
        if u64::from(number) * (SECTOR / SLOT) as u64 >= u64::from(MOST) {
            return match walk.directory.0 {
                0 => Ok(None),
                _ if self.link(walk.cluster).await? == Link::End => Ok(None),
                _ => Err(Error::Broken(ENDLESS)),
            };
        }
        walk.sectors += 1;
        if walk.directory.0 == 0 {
            let sector = self.layout.root.start + u64::from(number);
            return Ok(Some(sector).filter(|sector| *sector < self.layout.root.end));
        }
        let within = number % self.layout.cluster_sectors;
        if within == 0 && number > 0 {
            match self.link(walk.cluster).await? {
                Link::Next(next) if next == walk.mark || next == walk.directory.0 => {
                    return Err(Error::Broken(ENDLESS));
                }
                Link::Next(next) => {
                    walk.cluster = next;
                    if (number / self.layout.cluster_sectors).is_power_of_two() {
                        walk.mark = next;
                    }
                }
                Link::End => {
                    walk.sectors = number;
                    return Ok(None);
                }
                Link::Free | Link::Bad => {
                    return Err(Error::Broken(
                        "a directory has a cluster that is free or bad",
                    ));
                }
            }
        }
        Ok(Some(
            self.layout.sector_of(walk.cluster)? + u64::from(within),
        ))
    }

    fn walk(&self, directory: Directory) -> Walk {
        Walk {
            directory,
            cluster: directory.0,
            sectors: 0,
            mark: directory.0,
        }
    }

    /// Shows every entry that is no longer than its directory, also empty ones, to `visit`, until that says that it is enough.
    async fn visit(
        &mut self,
        directory: Directory,
        mut visit: impl FnMut(Place, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut walk = self.walk(directory);
        while let Some(sector) = self.next_sector(&mut walk).await? {
            let bytes = self.cache.load(sector).await?;
            for (number, slot) in bytes.chunks_exact(SLOT).enumerate() {
                if visit(Place(sector, number * SLOT), slot).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Shows all that is in a directory to `visit`, until that says that it is enough.
    pub(crate) async fn entries(
        &mut self,
        directory: Directory,
        mut visit: impl FnMut(Found) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut long = Long::default();
        let mut places = Vec::new();
        let kind = self.layout.kind;
        let one = |place, slot: &[u8]| {
            match (slot[0], slot[11]) {
                (0, _) => return ControlFlow::Break(()),
                (DELETED, _) => {
                    long.clear();
                    places.clear();
                }
                (_, attributes) if attributes & 0x3f == LONG_NAME => {
                    if slot[0] & 0x40 != 0 || places.len() >= MOST_SLOTS {
                        places.clear();
                    }
                    places.push(place);
                    long.add(slot);
                }
                (_, attributes) if attributes & LABEL != 0 => {
                    long.clear();
                    places.clear();
                }
                (_, attributes) => {
                    let mut short = [0; 11];
                    short.copy_from_slice(&slot[..11]);
                    let name = long.take(&short);
                    if name.is_none() {
                        places.clear();
                    }
                    places.push(place);
                    let high = match kind {
                        Kind::Fat32 => u32::from(u16_at(slot, 20)) << 16,
                        _ => 0,
                    };
                    let found = Found {
                        name: name.unwrap_or_else(|| name::show_short(&short, slot[12])),
                        short,
                        attributes,
                        first: high | u32::from(u16_at(slot, 26)),
                        size: u32_at(slot, 28),
                        places: core::mem::take(&mut places),
                    };
                    // Itself, and the one above.
                    if short[0] != b'.' {
                        return visit(found);
                    }
                }
            }
            ControlFlow::Continue(())
        };
        self.visit(directory, one).await
    }

    /// What is called so in a directory.
    pub(crate) async fn find(&mut self, directory: Directory, name: &str) -> Result<Option<Found>> {
        let mut result = None;
        let look = |found: Found| {
            let is_it = name::is_same(&found.name, name)
                || name::is_same(&name::show_short(&found.short, 0), name);
            if is_it {
                result = Some(found);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        self.entries(directory, look).await?;
        Ok(result)
    }

    /// The directory that an entry is of.
    pub(crate) fn directory_of(&self, found: &Found) -> Result<Directory> {
        match found.is_directory() {
            false => Err(Error::NotDirectory),
            true if self.layout.has(found.first) => Ok(Directory(found.first)),
            true => Err(Error::Broken("a directory is nowhere")),
        }
    }

    /// The directory that a path is in, and the path's last name; no name: it is the root. `on_the_way` hears of each directory.
    pub(crate) async fn resolve<'p>(
        &mut self,
        path: &'p str,
        mut on_the_way: impl FnMut(Directory),
    ) -> Result<(Directory, Option<&'p str>)> {
        let mut names: Vec<&str> = Vec::new();
        for name in path.split('/') {
            match name {
                "" | "." => {}
                ".." => drop(names.pop()),
                name => {
                    name::check(name)?;
                    names.push(name);
                }
            }
        }
        let Some(last) = names.pop() else {
            return Ok((self.root(), None));
        };
        let mut directory = self.root();
        for name in names {
            let found = self.find(directory, name).await?.ok_or(Error::NotFound)?;
            directory = self.directory_of(&found)?;
            on_the_way(directory);
        }
        Ok((directory, Some(last)))
    }

    /// Whether nothing is in a directory.
    pub(crate) async fn is_empty(&mut self, directory: Directory) -> Result<bool> {
        let mut is_empty = true;
        let look = |_| {
            is_empty = false;
            ControlFlow::Break(())
        };
        self.entries(directory, look).await?;
        Ok(is_empty)
    }

    /// A short name that none in the directory has, for one that needs a long name too.
    async fn free_alias(&mut self, directory: Directory, name: &str) -> Result<Short> {
        for from in (0..128).step_by(32) {
            let mut is_taken = [false; 32];
            let aliases: [Short; 32] =
                core::array::from_fn(|number| name::alias(name, from + number as u32));
            let look = |found: Found| {
                for (is_taken, alias) in is_taken.iter_mut().zip(&aliases) {
                    *is_taken |= *alias == found.short;
                }
                ControlFlow::Continue(())
            };
            self.entries(directory, look).await?;
            if let Some(free) = is_taken.iter().position(|is_taken| !is_taken) {
                return Ok(aliases[free]);
            }
        }
        Err(Error::DirectoryFull)
    }

    /// Puts something into a directory, which has nothing of this name. Where its entries are; the last is the short name's.
    pub(crate) async fn add(
        &mut self,
        directory: Directory,
        name: &str,
        (attributes, first, size): (u8, u32, u32),
    ) -> Result<Vec<Place>> {
        name::check(name)?;
        let (short, flags, mut slots) = match name::exact_short(name) {
            Some((short, flags)) => (short, flags, Vec::new()),
            None => {
                let short = self.free_alias(directory, name).await?;
                (short, 0, name::long_slots(name, &short))
            }
        };
        let mut slot = [0; SLOT];
        slot[..11].copy_from_slice(&short);
        slot[11] = attributes;
        slot[12] = flags;
        slot[16..18].copy_from_slice(&DAY);
        slot[18..20].copy_from_slice(&DAY);
        describe(&mut slot, first, size);
        slots.push(slot);
        let (places, after) = self.free_places(directory, slots.len()).await?;
        for (place, slot) in places.iter().zip(&slots) {
            let bytes = self.cache.change(place.0, Class::Directory).await?;
            bytes[place.1..place.1 + SLOT].copy_from_slice(slot);
        }
        // They were behind the end: that is behind them now, whatever was there.
        if let Some(Place(sector, at)) = after
            && self.cache.load(sector).await?[at] != 0
        {
            self.cache.change(sector, Class::Directory).await?[at] = 0;
        }
        Ok(places)
    }

    /// So many empty entries in a row; and the one after them, if they are behind the end. Makes the directory longer if there are none.
    async fn free_places(
        &mut self,
        directory: Directory,
        count: usize,
    ) -> Result<(Vec<Place>, Option<Place>)> {
        loop {
            let mut places: Vec<Place> = Vec::new();
            let (mut is_behind, mut after) = (false, None);
            let mut last = 0;
            let look = |place: Place, slot: &[u8]| {
                last = place.0;
                if places.len() == count {
                    after = Some(place);
                    return ControlFlow::Break(());
                }
                is_behind |= slot[0] == 0;
                match is_behind || slot[0] == DELETED {
                    true => places.push(place),
                    false => places.clear(),
                }
                match places.len() == count && !is_behind {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            };
            self.visit(directory, look).await?;
            if places.len() == count {
                return Ok((places, after.filter(|_| is_behind)));
            }
            self.extend(directory, last).await?;
        }
    }

    /// Makes a directory longer by a cluster. It is linked when it is there for good, as what links to it tells nobody what is in it.
    async fn extend(&mut self, directory: Directory, last: u64) -> Result<()> {
        if directory.0 == 0 {
            return Err(Error::DirectoryFull);
        }
        let cluster = (last.saturating_sub(self.layout.data)
            / u64::from(self.layout.cluster_sectors)) as u32
            + 2;
        let mut sectors = self.walk(directory);
        while self.next_sector(&mut sectors).await?.is_some() {}
        let per_sector = (SECTOR / SLOT) as u32;
        if (sectors.sectors + self.layout.cluster_sectors) * per_sector > MOST {
            return Err(Error::DirectoryFull);
        }
        let new = self.allocate(1, None).await?;
        let sector = self.layout.sector_of(new)?;
        self.cache
            .clear(sector, self.layout.cluster_sectors.into())
            .await?;
        self.mark(true).await?;
        self.commit_table().await?;
        self.set_next(cluster, new).await
    }

    /// Makes a directory that is in none yet: its first cluster.
    pub(crate) async fn make_directory(&mut self, above: Directory) -> Result<u32> {
        let new = self.allocate(1, None).await?;
        let sector = self.layout.sector_of(new)?;
        self.cache
            .clear(sector, self.layout.cluster_sectors.into())
            .await?;
        let mut bytes = [0; SECTOR];
        let above = if above == self.root() { 0 } else { above.0 };
        for (at, name, first) in [(0, b".          ", new), (SLOT, b"..         ", above)] {
            let slot = &mut bytes[at..at + SLOT];
            slot[..11].copy_from_slice(name);
            slot[11] = DIRECTORY;
            slot[16..18].copy_from_slice(&DAY);
            slot[18..20].copy_from_slice(&DAY);
            describe(slot, first, 0);
        }
        self.cache.write_past(sector, &bytes).await?;
        Ok(new)
    }

    /// A directory has moved: what it says is above it.
    pub(crate) async fn set_above(&mut self, directory: Directory, above: Directory) -> Result<()> {
        let sector = self.layout.sector_of(directory.0)?;
        let above = if above == self.root() { 0 } else { above.0 };
        let bytes = self.cache.change(sector, Class::Directory).await?;
        if bytes[SLOT..SLOT + 11] == *b"..         " {
            let size = u32_at(bytes, SLOT + 28);
            describe(&mut bytes[SLOT..2 * SLOT], above, size);
        }
        Ok(())
    }

    /// Takes something out of its directory.
    pub(crate) async fn delete(&mut self, places: &[Place]) -> Result<()> {
        for Place(sector, at) in places {
            self.cache.change(*sector, Class::Directory).await?[*at] = DELETED;
        }
        Ok(())
    }

    /// A file has become another.
    pub(crate) async fn set_entry(
        &mut self,
        Place(sector, at): Place,
        first: u32,
        size: u32,
    ) -> Result<()> {
        let bytes = self.cache.change(sector, Class::Directory).await?;
        let slot = &mut bytes[at..at + SLOT];
        slot[11] |= ARCHIVE;
        describe(slot, first, size);
        Ok(())
    }
}

/// Writes where something begins and how long it is.
fn describe(slot: &mut [u8], first: u32, size: u32) {
    slot[20..22].copy_from_slice(&((first >> 16) as u16).to_le_bytes());
    slot[22..24].copy_from_slice(&[0, 0]);
    slot[24..26].copy_from_slice(&DAY);
    slot[26..28].copy_from_slice(&(first as u16).to_le_bytes());
    slot[28..32].copy_from_slice(&size.to_le_bytes());
}
