//! A volume that is mounted: what is on it by path.

use crate::{
    cache::{Cache, try_copy},
    directory::{ARCHIVE, DIRECTORY, READ_ONLY},
    error::{Error, Result},
    file::{File, OpenOptions},
    layout::{Kind, Layout, partitions, u32_at},
    open::PIECE,
    table::Core,
};
use alloc::{string::String, sync::Arc, vec::Vec};
use core::{fmt, future::Future, ops::ControlFlow};
use drivers::block::{Disk, SECTOR};
use executor::{
    sync::{Mutex, MutexGuard},
    task::Builder,
};

/// A FAT volume that is mounted. A clone is the same volume; any task on any core may use it, one after the other.
#[derive(Clone)]
pub struct Volume(pub(crate) Arc<Shared>);

pub(crate) struct Shared(Mutex<Core>);

/// Something in a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    /// What it is called.
    pub name: String,
    /// Bytes of a file; 0 of a directory.
    pub size: u32,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether it cannot be written to.
    pub is_read_only: bool,
}

/// What is known of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// Which kind of FAT.
    pub kind: Kind,
    /// Bytes that there is room for.
    pub bytes: u64,
    /// Bytes that are free, if that is known.
    pub free: Option<u64>,
    /// Whether it was not unmounted the last time.
    pub was_dirty: bool,
    /// Whether nothing can be written to it.
    pub is_read_only: bool,
}

impl Shared {
    /// Waits for the volume.
    pub(crate) async fn lock(&self) -> Result<MutexGuard<'_, Core>> {
        let core = self.0.lock().unless_poisoned().await;
        let core = core.map_err(|_| Error::Failed)?;
        match core.is_unmounted {
            true => Err(Error::Unmounted),
            false => Ok(core),
        }
    }

    /// The same, for what changes something.
    pub(crate) async fn lock_to_change(&self) -> Result<MutexGuard<'_, Core>> {
        let core = self.lock().await?;
        core.cache.check_usable()?;
        match core.is_read_only {
            true => Err(Error::ReadOnly),
            false => Ok(core),
        }
    }
}

/// Does this in a task of its own: to its end, also if the caller does not wait for that.
pub(crate) async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let task = Builder::new().name("files").try_spawn(work);
    let task = task.map_err(|_| Error::NoMemory)?;
    task.await.unwrap_or(Err(Error::Failed))
}

impl Volume {
    /// Mounts the FAT volume on a disk: that of the first partition which has one, or of the whole disk.
    pub async fn mount(disk: Arc<dyn Disk>) -> Result<Self> {
        let all = 0..disk.sectors();
        if all.is_empty() {
            return Err(Error::NoVolume("the disk is empty"));
        }
        let mut first = [0; SECTOR];
        disk.read(0, &mut first).await?;
        let mut layout = Layout::parse(&first, all.clone());
        if layout.is_err() {
            for partition in partitions(&first, all.end) {
                let mut boot = [0; SECTOR];
                disk.read(partition.start, &mut boot).await?;
                let found = Layout::parse(&boot, partition);
                if found.is_ok() {
                    layout = found;
                    break;
                }
            }
        }
        let layout = layout?;
        let mut core = Core {
            is_read_only: disk.is_read_only(),
            cache: Cache::new(disk, layout.sectors.clone()),
            next: 2,
            free: None,
            unused: Vec::new(),
            open: Vec::new(),
            was_dirty: false,
            is_marked: false,
            is_unmounted: false,
            layout,
        };
        let flag = core.layout.flag_at();
        core.was_dirty = core.cache.load(core.layout.sectors.start).await?[flag] & 1 != 0;
        core.read_info().await?;
        // The root must be there: else it is no volume that could be used.
        let root = core.root();
        core.entries(root, |_| ControlFlow::Break(())).await?;
        Ok(Self(Arc::new(Shared(Mutex::new(core)))))
    }

    /// Opens a file to read it.
    pub async fn open(&self, path: &str) -> Result<File> {
        OpenOptions::new().read(true).open(self, path).await
    }

    /// Makes a file, or an empty one of the one that there is, to read and write it.
    pub async fn create(&self, path: &str) -> Result<File> {
        let options = OpenOptions::new().read(true).write(true).create(true);
        options.truncate(true).open(self, path).await
    }

    /// All that is in a file.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>> {
        let mut file = self.open(path).await?;
        let mut bytes = Vec::new();
        loop {
            let piece = file.read_piece(usize::MAX).await?;
            if piece.is_empty() {
                return Ok(bytes);
            }
            bytes
                .try_reserve(piece.len())
                .map_err(|_| Error::NoMemory)?;
            bytes.extend_from_slice(&piece);
        }
    }

    /// Makes a file of these bytes; when this is done it outlasts a loss of power. If there was one already, a loss of power before that leaves the
    /// old one or the new one, whole, if they are at most 64 KiB and there is room for both. If there is no room for the new one, the old one stays.
    pub async fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let options = OpenOptions::new().write(true).create(true);
        if bytes.len() > PIECE {
            let mut file = options.open(self, path).await?;
            file.empty_for(bytes.len() as u64).await?;
            file.write_all(bytes).await?;
            return file.close().await;
        }
        let (shared, path, bytes) = (self.0.clone(), String::from(path), try_copy(bytes)?);
        whole(async move {
            let mut core = shared.lock_to_change().await?;
            let claim = options.claim(&mut core, &path).await?;
            core.replace(&claim.node, &bytes).await?;
            core.commit().await
        })
        .await
    }

    /// What is in a directory, in the order in which it is there.
    pub async fn list(&self, path: &str) -> Result<Vec<Entry>> {
        let (shared, path) = (self.0.clone(), String::from(path));
        whole(async move {
            let mut core = shared.lock().await?;
            let directory = match core.resolve(&path, |_| {}).await? {
                (root, None) => root,
                (above, Some(name)) => {
                    let found = core.find(above, name).await?.ok_or(Error::NotFound)?;
                    core.directory_of(&found)?
                }
            };
            let mut entries = Vec::new();
            let mut has_room = true;
            let add = |found: crate::directory::Found| {
                if entries.try_reserve(1).is_err() {
                    has_room = false;
                    return ControlFlow::Break(());
                }
                entries.push(entry_of(found));
                ControlFlow::Continue(())
            };
            core.entries(directory, add).await?;
            match has_room {
                true => Ok(entries),
                false => Err(Error::NoMemory),
            }
        })
        .await
    }

    /// What is at this path.
    pub async fn entry(&self, path: &str) -> Result<Entry> {
        let (shared, path) = (self.0.clone(), String::from(path));
        whole(async move {
            let mut core = shared.lock().await?;
            let root = Entry {
                name: String::new(),
                size: 0,
                is_directory: true,
                is_read_only: core.is_read_only,
            };
            match core.resolve(&path, |_| {}).await? {
                (_, None) => Ok(root),
                (above, Some(name)) => match core.find(above, name).await? {
                    Some(found) => {
                        let place = found.place();
                        let mut entry = entry_of(found);
                        if let Some(node) = core.opened(place) {
                            entry.size = node.size();
                        }
                        Ok(entry)
                    }
                    None => Err(Error::NotFound),
                },
            }
        })
        .await
    }

    /// Makes a directory.
    pub async fn create_dir(&self, path: &str) -> Result<()> {
        let (shared, path) = (self.0.clone(), String::from(path));
        whole(async move {
            let mut core = shared.lock_to_change().await?;
            let (above, name) = core.resolve(&path, |_| {}).await?;
            let name = name.ok_or(Error::Exists)?;
            if core.find(above, name).await?.is_some() {
                return Err(Error::Exists);
            }
            let first = core.make_directory(above).await?;
            if let Err(error) = core.add(above, name, (DIRECTORY, first, 0)).await {
                core.give_up(first, 1).await?;
                return Err(error);
            }
            core.commit_if_much().await
        })
        .await
    }

    /// Removes a file that nobody has open, or an empty directory.
    pub async fn remove(&self, path: &str) -> Result<()> {
        let (shared, path) = (self.0.clone(), String::from(path));
        whole(async move {
            let mut core = shared.lock_to_change().await?;
            let (above, name) = core.resolve(&path, |_| {}).await?;
            let name = name.ok_or(Error::NotEmpty)?;
            let found = core.find(above, name).await?.ok_or(Error::NotFound)?;
            if found.attributes & READ_ONLY != 0 {
                return Err(Error::ReadOnly);
            }
            let clusters = match found.is_directory() {
                false => found.size.div_ceil(core.layout.cluster_bytes()),
                // One that is nowhere has nothing in it.
                true => match core.directory_of(&found) {
                    Ok(directory) if !core.is_empty(directory).await? => {
                        return Err(Error::NotEmpty);
                    }
                    Ok(_) => u32::MAX,
                    Err(_) => 0,
                },
            };
            if core.opened(found.place()).is_some() {
                return Err(Error::Busy);
            }
            core.delete(&found.places).await?;
            core.give_up(found.first, clusters).await?;
            core.commit_if_much().await
        })
        .await
    }

    /// Gives something another name, or another place. Nothing may be there yet. A loss of power in the midst of it may leave both names.
    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (shared, from, to) = (self.0.clone(), String::from(from), String::from(to));
        whole(async move {
            let mut core = shared.lock_to_change().await?;
            let (above, name) = core.resolve(&from, |_| {}).await?;
            let name = name.ok_or(Error::IntoItself)?;
            let found = core.find(above, name).await?.ok_or(Error::NotFound)?;
            let mut way = Vec::new();
            let (new_above, new_name) =
                core.resolve(&to, |directory| way.push(directory.0)).await?;
            let new_name = new_name.ok_or(Error::Exists)?;
            let is_itself = match core.find(new_above, new_name).await? {
                Some(other) if other.place() == found.place() => true,
                Some(_) => return Err(Error::Exists),
                None => false,
            };
            if core.opened(found.place()).is_some() {
                return Err(Error::Busy);
            }
            if found.is_directory() && way.contains(&found.first) {
                return Err(Error::IntoItself);
            }
            if is_itself && found.name == new_name {
                return Ok(());
            }
            let what = (found.attributes, found.first, found.size);
            let places = core.add(new_above, new_name, what).await?;
            if found.is_directory() && above != new_above {
                let moved = core.directory_of(&found)?;
                core.set_above(moved, new_above).await?;
            }
            // In one sector, all of both names, both happen at once; else the new name first, for good: the other way round it could be lost.
            let sector = found.place().0;
            if found.places.iter().chain(&places).any(|at| at.0 != sector) {
                core.commit().await?;
            }
            core.delete(&found.places).await?;
            core.commit_if_much().await
        })
        .await
    }

    /// Asks the disk itself whether it is still there, also if nothing waits to be written: else what is in memory would do as an answer.
    pub async fn probe(&self) -> Result<()> {
        let shared = self.0.clone();
        whole(async move {
            let core = shared.lock().await?;
            core.cache.check_usable()?;
            let mut boot = [0; SECTOR];
            let first = core.layout.sectors.start;
            Ok(core.cache.disk.read(first, &mut boot).await?)
        })
        .await
    }

    /// Waits until all that was done so far outlasts a loss of power. If the disk fails to do that, what was written may be lost: from then on this, and
    /// whatever changes something, gives the same error, until the volume is mounted again.
    pub async fn sync(&self) -> Result<()> {
        let shared = self.0.clone();
        whole(async move { shared.lock().await?.commit().await }).await
    }

    /// The same, and ends it: files that are open cannot be used any more.
    pub async fn unmount(&self) -> Result<()> {
        let shared = self.0.clone();
        whole(async move {
            let mut core = shared.lock().await?;
            core.commit().await?;
            core.mark(false).await?;
            core.is_unmounted = true;
            Ok(())
        })
        .await
    }

    /// What is known of it.
    pub async fn info(&self) -> Result<Info> {
        let core = self.0.lock().await?;
        let cluster = u64::from(core.layout.cluster_bytes());
        Ok(Info {
            kind: core.layout.kind,
            bytes: u64::from(core.layout.clusters) * cluster,
            free: core.free.map(|free| u64::from(free) * cluster),
            was_dirty: core.was_dirty,
            is_read_only: core.is_read_only,
        })
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").finish_non_exhaustive()
    }
}

pub(crate) fn entry_of(found: crate::directory::Found) -> Entry {
    let is_directory = found.is_directory();
    Entry {
        size: if is_directory { 0 } else { found.size },
        is_directory,
        is_read_only: found.attributes & READ_ONLY != 0,
        name: found.name,
    }
}

/// What a new file is, in its directory.
pub(crate) const NEW_FILE: (u8, u32, u32) = (ARCHIVE, 0, 0);

impl Core {
    /// Reads how many clusters are free, where FAT32 notes that, as far as it can be.
    async fn read_info(&mut self) -> Result<()> {
        let Some(sector) = self.layout.info else {
            return Ok(());
        };
        let bytes = self.cache.load(sector).await?;
        let is_one = u32_at(bytes, 0) == 0x4161_5252 && u32_at(bytes, 484) == 0x6141_7272;
        let (free, next) = (u32_at(bytes, 488), u32_at(bytes, 492));
        if !is_one {
            self.layout.info = None;
            return Ok(());
        }
        self.free = Some(free).filter(|free| *free <= self.layout.clusters);
        self.next = if self.layout.has(next) { next } else { 2 };
        Ok(())
    }
}
