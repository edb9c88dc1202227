//! Files that are open: who has them, and how their bytes are found, read and written.
//!
//! A file has as many clusters as its size needs. What its chain has beyond those is not the file's: a loss of power may have left it there.

use crate::{
    cache::{Class, try_zeros},
    directory::{Found, Place, READ_ONLY},
    error::{Error, Result},
    table::Core,
};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use drivers::block::SECTOR;

/// Most bytes that are read or written while the volume is locked.
pub(crate) const PIECE: usize = 64 * 1024;

/// A file that is open, however often.
pub(crate) struct Node {
    pub place: Place,
    /// Changed by who has the volume's lock.
    first: AtomicU32,
    size: AtomicU32,
    /// How often clusters were taken from it: what was noted of its chain before does not hold any more.
    cuts: AtomicU32,
    /// Somebody writes.
    has_writer: AtomicBool,
}

/// That a file is open, and perhaps to be written: as long as this lives. What was begun for a file has it too.
pub(crate) struct Claim {
    pub node: Arc<Node>,
    is_writer: bool,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_writer {
            // Pairs with the acquire in `open`.
            self.node.has_writer.store(false, Release);
        }
    }
}

impl Node {
    fn new(place: Place, first: u32, size: u32) -> Self {
        Self {
            place,
            first: AtomicU32::new(if size == 0 { 0 } else { first }),
            size: AtomicU32::new(size),
            cuts: AtomicU32::new(0),
            has_writer: AtomicBool::new(false),
        }
    }

    /// How long it is.
    pub(crate) fn size(&self) -> u32 {
        self.size.load(Acquire)
    }
}

/// A place in a chain that was found before.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cursor {
    cuts: u32,
    index: u32,
    cluster: u32,
}

impl Core {
    /// The node of a file that is open.
    pub(crate) fn opened(&mut self, place: Place) -> Option<Arc<Node>> {
        self.open.retain(|node| node.strong_count() > 0);
        let mut nodes = self.open.iter().filter_map(alloc::sync::Weak::upgrade);
        nodes.find(|node| node.place == place)
    }

    /// Opens what was found.
    pub(crate) fn claim(&mut self, found: &Found, is_writer: bool) -> Result<Claim> {
        if found.is_directory() {
            return Err(Error::IsDirectory);
        }
        if is_writer && (found.attributes & READ_ONLY != 0 || self.is_read_only) {
            return Err(Error::ReadOnly);
        }
        let node = match self.opened(found.place()) {
            Some(node) => node,
            None => {
                self.open.try_reserve(1).map_err(|_| Error::NoMemory)?;
                let node = Arc::new(Node::new(found.place(), found.first, found.size));
                self.open.push(Arc::downgrade(&node));
                node
            }
        };
        if is_writer && node.has_writer.swap(true, Acquire) {
            return Err(Error::Busy);
        }
        Ok(Claim { node, is_writer })
    }

    fn clusters_for(&self, size: u32) -> u32 {
        size.div_ceil(self.layout.cluster_bytes())
    }

    /// The cluster of that number in a file.
    async fn cluster(&mut self, node: &Node, index: u32, cursor: &mut Cursor) -> Result<u32> {
        let cuts = node.cuts.load(Relaxed);
        if cursor.cluster == 0 || cursor.cuts != cuts || index < cursor.index {
            *cursor = Cursor {
                cuts,
                index: 0,
                cluster: node.first.load(Relaxed),
            };
        }
        while cursor.index < index {
            // A step changes both, or neither.
            let next = self.after(cursor.cluster).await?;
            (cursor.index, cursor.cluster) = (cursor.index + 1, next);
        }
        Ok(cursor.cluster)
    }

    /// The sectors of a file from byte `at` on that lie side by side: the first, where in it, and how many bytes, of at most `most`.
    async fn run(
        &mut self,
        node: &Node,
        at: u32,
        most: usize,
        cursor: &mut Cursor,
    ) -> Result<(u64, usize, usize)> {
        let bytes = self.layout.cluster_bytes();
        let mut cluster = self.cluster(node, at / bytes, cursor).await?;
        let within = at % bytes;
        let sector = self.layout.sector_of(cluster)? + u64::from(within) / SECTOR as u64;
        let mut length = (bytes - within) as usize;
        while length < most {
            let next = self.cluster(node, cursor.index + 1, cursor).await?;
            if next != cluster + 1 {
                break;
            }
            (cluster, length) = (next, length + bytes as usize);
        }
        Ok((sector, within as usize % SECTOR, length.min(most)))
    }

    /// Reads from byte `at` on, at most `most`, and not beyond the end.
    pub(crate) async fn read_file(
        &mut self,
        node: &Node,
        at: u32,
        most: usize,
        cursor: &mut Cursor,
    ) -> Result<Vec<u8>> {
        let left = node.size().saturating_sub(at) as usize;
        let mut bytes = try_zeros(left.min(most).min(PIECE))?;
        let mut done = 0;
        while done < bytes.len() {
            let (mut sector, mut offset, length) = self
                .run(node, at + done as u32, bytes.len() - done, cursor)
                .await?;
            let mut left = length;
            while left > 0 {
                let piece = match (offset, left / SECTOR) {
                    (0, 1..) => {
                        let piece = left / SECTOR * SECTOR;
                        self.cache
                            .read_past(sector, &mut bytes[done..done + piece])
                            .await?;
                        piece
                    }
                    _ => {
                        let piece = left.min(SECTOR - offset);
                        let from = self.cache.load(sector).await?;
                        bytes[done..done + piece].copy_from_slice(&from[offset..offset + piece]);
                        piece
                    }
                };
                sector += ((offset + piece) / SECTOR) as u64;
                offset = 0;
                (done, left) = (done + piece, left - piece);
            }
        }
        Ok(bytes)
    }

    /// Writes all of this from byte `at` on. What is between the end and that becomes zeros.
    pub(crate) async fn write_file(
        &mut self,
        node: &Node,
        at: u32,
        bytes: &[u8],
        cursor: &mut Cursor,
    ) -> Result<()> {
        let end = u64::from(at) + bytes.len() as u64;
        let end = u32::try_from(end).map_err(|_| Error::TooLong)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.commit_if_much().await?;
        // A piece at a time, so that little waits in memory.
        let zeros = [0; 4 * SECTOR];
        while node.size() < at {
            let from = node.size();
            let gap = ((at - from) as usize).min(zeros.len());
            self.put(node, from, &zeros[..gap], cursor).await?;
            self.commit_if_much().await?;
        }
        debug_assert_eq!(end, at + bytes.len() as u32);
        self.put(node, at, bytes, cursor).await
    }

    /// The same, from the end on at most.
    async fn put(&mut self, node: &Node, at: u32, bytes: &[u8], cursor: &mut Cursor) -> Result<()> {
        let size = node.size();
        let end = at + bytes.len() as u32;
        let (has, needs) = (self.clusters_for(size), self.clusters_for(end));
        if needs > has {
            let tail = match has {
                0 => None,
                _ => Some(self.cluster(node, has - 1, cursor).await?),
            };
            let first = self.allocate(needs - has, tail).await?;
            if has == 0 {
                node.first.store(first, Relaxed);
                // What was noted of the chain that it had before is no more.
                node.cuts.fetch_add(1, Relaxed);
            }
        }
        let mut done = 0;
        while done < bytes.len() {
            let place = at + done as u32;
            let (mut sector, mut offset, length) =
                self.run(node, place, bytes.len() - done, cursor).await?;
            let mut left = length;
            while left > 0 {
                let piece = match (offset, left / SECTOR) {
                    (0, 1..) => {
                        let piece = left / SECTOR * SECTOR;
                        self.cache
                            .write_past(sector, &bytes[done..done + piece])
                            .await?;
                        piece
                    }
                    _ => {
                        let piece = left.min(SECTOR - offset);
                        let is_new = at + done as u32 - offset as u32 >= size && offset == 0;
                        let into = match is_new {
                            true => self.cache.change_fresh(sector).await?,
                            false => self.cache.change(sector, Class::Data).await?,
                        };
                        into[offset..offset + piece].copy_from_slice(&bytes[done..done + piece]);
                        piece
                    }
                };
                sector += ((offset + piece) / SECTOR) as u64;
                offset = 0;
                (done, left) = (done + piece, left - piece);
            }
        }
        let size = size.max(end);
        self.set_entry(node.place, node.first.load(Relaxed), size)
            .await?;
        // Pairs with the acquire in `size`.
        node.size.store(size, Release);
        Ok(())
    }

    /// Makes these the bytes of a file, instead of those that it has: on the disk at one moment, when its directory is written. If there is no room for
    /// both, the old ones are given up first; if there is none even then, they stay.
    pub(crate) async fn replace(&mut self, node: &Node, bytes: &[u8]) -> Result<()> {
        self.commit_if_much().await?;
        let new = Node::new(node.place, 0, 0);
        match self.put(&new, 0, bytes, &mut Cursor::default()).await {
            Ok(()) => {}
            Err(Error::NoSpace) if node.size() > 0 => {
                self.empty_for(node, bytes.len() as u64).await?;
                return self.put(node, 0, bytes, &mut Cursor::default()).await;
            }
            Err(error) => {
                // What it has got so far is in no directory.
                let clusters = self.clusters_for(bytes.len() as u32);
                self.give_up(new.first.load(Relaxed), clusters).await?;
                return Err(error);
            }
        }
        let old = (node.first.load(Relaxed), self.clusters_for(node.size()));
        node.first.store(new.first.load(Relaxed), Relaxed);
        node.size.store(new.size(), Release);
        node.cuts.fetch_add(1, Relaxed);
        self.give_up(old.0, old.1).await
    }

    /// Makes a file empty, to be written anew, if there is room for so many bytes then. Else it stays as it is.
    pub(crate) async fn empty_for(&mut self, node: &Node, bytes: u64) -> Result<()> {
        let bytes = u32::try_from(bytes).map_err(|_| Error::TooLong)?;
        let (mut has, needs) = (self.clusters_for(node.size()), self.clusters_for(bytes));
        if has > 0 {
            let mut cursor = Cursor::default();
            match self.cluster(node, has - 1, &mut cursor).await {
                Ok(_) => {}
                // A damaged file gives up less than it should have.
                Err(Error::Broken(_)) => has = cursor.index,
                Err(error) => return Err(error),
            }
        }
        self.find_room(needs.saturating_sub(has)).await?;
        self.cut(node, 0).await
    }

    /// Makes a file shorter. What it had more is freed when the directory says on the disk that it is shorter.
    pub(crate) async fn cut(&mut self, node: &Node, size: u32) -> Result<()> {
        let old = node.size();
        if size >= old {
            return Ok(());
        }
        let (had, keeps) = (self.clusters_for(old), self.clusters_for(size));
        let first = node.first.load(Relaxed);
        let mut cursor = Cursor::default();
        let (last, given_up) = match keeps {
            0 => (None, first),
            _ if keeps == had => (None, 0),
            _ => {
                let last = self.cluster(node, keeps - 1, &mut cursor).await?;
                (Some(last), self.after(last).await?)
            }
        };
        let first = if keeps == 0 { 0 } else { first };
        self.set_entry(node.place, first, size).await?;
        node.first.store(first, Relaxed);
        node.size.store(size, Release);
        node.cuts.fetch_add(1, Relaxed);
        if let Some(last) = last {
            // Else the chain could end before the file does.
            self.commit().await?;
            self.set_end(last).await?;
        }
        if had > keeps {
            self.give_up(given_up, had - keeps).await?;
        }
        Ok(())
    }
}
