//! An open file, and how to open one.

use crate::{
    cache::try_copy,
    directory::Found,
    error::{Error, Result},
    open::{Claim, Cursor, PIECE},
    table::Core,
    volume::{NEW_FILE, Volume, whole},
};
use alloc::{string::String, sync::Arc, vec::Vec};
use core::fmt;
use embedded_io_async::{ErrorType, Read, Seek, SeekFrom, Write};

/// How a file is to be opened.
#[derive(Clone, Copy, Default, Debug)]
#[must_use]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
}

impl OpenOptions {
    /// For nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// To read it.
    pub fn read(mut self, read: bool) -> Self {
        self.read = read;
        self
    }

    /// To write it. One at a time can; others may read meanwhile.
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// To write it, always at its end.
    pub fn append(mut self, append: bool) -> Self {
        self.append = append;
        self
    }

    /// Make it if it is not there.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Make it, and fail if it is there.
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Begin with an empty one.
    pub fn truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// Finds or makes the file.
    pub(crate) async fn claim(self, core: &mut Core, path: &str) -> Result<Claim> {
        let (above, name) = core.resolve(path, |_| {}).await?;
        let name = name.ok_or(Error::IsDirectory)?;
        let found = match core.find(above, name).await? {
            Some(_) if self.create_new => return Err(Error::Exists),
            Some(found) => found,
            None if self.create || self.create_new => {
                let places = core.add(above, name, NEW_FILE).await?;
                Found {
                    name: String::new(),
                    short: [0; 11],
                    attributes: NEW_FILE.0,
                    first: 0,
                    size: 0,
                    places,
                }
            }
            None => return Err(Error::NotFound),
        };
        core.claim(&found, self.write || self.append)
    }

    /// Opens it.
    pub async fn open(self, volume: &Volume, path: &str) -> Result<File> {
        let writes = self.write || self.append;
        let is_for_writing = self.truncate || self.create || self.create_new;
        if !writes && (is_for_writing || !self.read) {
            return Err(Error::NotOpenForThat);
        }
        let (shared, path) = (volume.0.clone(), String::from(path));
        let claim = whole(async move {
            let mut core = match writes {
                true => shared.lock_to_change().await?,
                false => shared.lock().await?,
            };
            let claim = self.claim(&mut core, &path).await?;
            if self.truncate {
                core.cut(&claim.node, 0).await?;
            }
            core.commit_if_much().await?;
            Ok(claim)
        })
        .await?;
        Ok(File {
            volume: volume.clone(),
            claim: Arc::new(claim),
            at: 0,
            cursor: Cursor::default(),
            how: self,
        })
    }
}

/// An open file. What is written is on the disk for good after [`flush`](Self::flush) or [`close`](Self::close); a file that is only dropped is
/// written with the next flush of any file of its volume.
///
/// A call that is cancelled may still be carried out; where the file is then read and written next is where it was before the call.
pub struct File {
    volume: Volume,
    claim: Arc<Claim>,
    at: u32,
    cursor: Cursor,
    how: OpenOptions,
}

impl File {
    /// Opens a file to read it.
    pub async fn open(volume: &Volume, path: &str) -> Result<Self> {
        volume.open(path).await
    }

    /// Makes a file, or an empty one of the one that there is, to read and write it.
    pub async fn create(volume: &Volume, path: &str) -> Result<Self> {
        volume.create(path).await
    }

    /// How long it is.
    pub fn size(&self) -> u32 {
        self.claim.node.size()
    }

    /// Where it is read and written next.
    pub fn position(&self) -> u32 {
        self.at
    }

    /// Reads at most so many bytes from here on; none: that was all.
    pub(crate) async fn read_piece(&mut self, most: usize) -> Result<Vec<u8>> {
        if !self.how.read {
            return Err(Error::NotOpenForThat);
        }
        let (volume, claim, at, mut cursor) = (
            self.volume.0.clone(),
            self.claim.clone(),
            self.at,
            self.cursor,
        );
        let (bytes, cursor) = whole(async move {
            let mut core = volume.lock().await?;
            let bytes = core.read_file(&claim.node, at, most, &mut cursor).await?;
            Ok((bytes, cursor))
        })
        .await?;
        self.cursor = cursor;
        self.at += bytes.len() as u32;
        Ok(bytes)
    }

    /// Reads as much as there is, and fits, at most 64 KiB: how much. 0: that was all, or there is no room.
    pub async fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let bytes = self.read_piece(into.len()).await?;
        into[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Writes as much of this as is done at once, at most 64 KiB: how much.
    pub async fn write(&mut self, from: &[u8]) -> Result<usize> {
        if !(self.how.write || self.how.append) {
            return Err(Error::NotOpenForThat);
        }
        let length = from.len().min(PIECE);
        let bytes = try_copy(&from[..length])?;
        let (volume, claim, mut cursor) = (self.volume.0.clone(), self.claim.clone(), self.cursor);
        let at = (!self.how.append).then_some(self.at);
        let (end, cursor) = whole(async move {
            let mut core = volume.lock_to_change().await?;
            let at = at.unwrap_or_else(|| claim.node.size());
            core.write_file(&claim.node, at, &bytes, &mut cursor)
                .await?;
            Ok((at + bytes.len() as u32, cursor))
        })
        .await?;
        (self.at, self.cursor) = (end, cursor);
        Ok(length)
    }

    /// Writes all of this.
    pub async fn write_all(&mut self, mut from: &[u8]) -> Result<()> {
        while !from.is_empty() {
            from = &from[self.write(from).await?..];
        }
        Ok(())
    }

    /// Moves to where it is read and written next; also beyond the end: what is written there has zeros before it.
    pub async fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (0, i64::try_from(at).map_err(|_| Error::TooLong)?),
            SeekFrom::End(by) => (i64::from(self.size()), by),
            SeekFrom::Current(by) => (i64::from(self.at), by),
        };
        let at = from.checked_add(by).ok_or(Error::TooLong)?;
        if at < 0 {
            return Err(Error::BeforeStart);
        }
        self.at = u32::try_from(at).map_err(|_| Error::TooLong)?;
        Ok(self.at.into())
    }

    /// Makes it so long: cut off, or with zeros at its end.
    pub async fn set_size(&mut self, size: u32) -> Result<()> {
        if !(self.how.write || self.how.append) {
            return Err(Error::NotOpenForThat);
        }
        let (volume, claim) = (self.volume.0.clone(), self.claim.clone());
        whole(async move {
            let mut core = volume.lock_to_change().await?;
            let node = &claim.node;
            if size > node.size() {
                return core
                    .write_file(node, size - 1, &[0], &mut Cursor::default())
                    .await;
            }
            core.cut(node, size).await
        })
        .await
    }

    /// Makes it empty, if there is room for so many bytes then.
    pub(crate) async fn empty_for(&mut self, bytes: u64) -> Result<()> {
        let (volume, claim) = (self.volume.0.clone(), self.claim.clone());
        whole(async move {
            let mut core = volume.lock_to_change().await?;
            core.empty_for(&claim.node, bytes).await
        })
        .await
    }

    /// Waits until all that was written, to any file of the volume, outlasts a loss of power.
    pub async fn flush(&mut self) -> Result<()> {
        self.volume.sync().await
    }

    /// Flushes it, if it was opened to be written, and closes it.
    pub async fn close(mut self) -> Result<()> {
        match self.how.write || self.how.append {
            true => self.flush().await,
            false => Ok(()),
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("size", &self.size())
            .field("position", &self.at)
            .finish_non_exhaustive()
    }
}

impl ErrorType for File {
    type Error = Error;
}

impl Read for File {
    async fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.read(into).await
    }
}

impl Write for File {
    async fn write(&mut self, from: &[u8]) -> Result<usize> {
        self.write(from).await
    }

    async fn flush(&mut self) -> Result<()> {
        self.flush().await
    }
}

impl Seek for File {
    async fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.seek(to).await
    }
}
