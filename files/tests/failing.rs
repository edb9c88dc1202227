//! Disks that fail now and then: what was said to be on the disk is there, and what failed does no harm to the rest.

mod common;

use common::{ALL, FAT16, FAT32, Image, block_on};
use drivers::block::{Answer, Disk, DiskError, SECTOR};
use files::{Error, OpenOptions, RamDisk, Volume};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

const FAILED: Result<(), Error> = Err(Error::Disk(DiskError::Failed));

/// What is to fail.
#[derive(Clone, Copy, Debug)]
enum What {
    Read,
    Write,
    Flush,
}

/// A disk with a memory of its own, which is lost when a flush fails.
struct Failing {
    disk: RamDisk,
    unflushed: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// So many of each go well, and then none does.
    left: [AtomicUsize; 3],
}

impl Failing {
    fn new(image: &Image) -> Arc<Self> {
        Arc::new(Self {
            disk: RamDisk::from_bytes(image.bytes()),
            unflushed: Mutex::default(),
            left: [const { AtomicUsize::new(usize::MAX) }; 3],
        })
    }

    fn fail_after(&self, what: What, left: usize) {
        self.left[what as usize].store(left, Relaxed);
    }

    fn heal(&self) {
        self.left
            .iter()
            .for_each(|left| left.store(usize::MAX, Relaxed));
    }

    fn count(&self, what: What) -> Result<(), DiskError> {
        let step = |left| match left {
            0 => None,
            usize::MAX => Some(left),
            _ => Some(left - 1),
        };
        match self.left[what as usize].fetch_update(Relaxed, Relaxed, step) {
            Ok(_) => Ok(()),
            Err(_) => Err(DiskError::Failed),
        }
    }
}

impl Disk for Failing {
    fn sectors(&self) -> u64 {
        self.disk.sectors()
    }

    fn read<'a>(&'a self, first: u64, into: &'a mut [u8]) -> Answer<'a> {
        Box::pin(async move {
            self.count(What::Read)?;
            self.disk.read(first, into).await?;
            let unflushed = self.unflushed.lock().unwrap();
            for (number, sector) in into.chunks_mut(SECTOR).enumerate() {
                if let Some(bytes) = unflushed.get(&(first + number as u64)) {
                    sector.copy_from_slice(bytes);
                }
            }
            Ok(())
        })
    }

    fn write<'a>(&'a self, first: u64, from: &'a [u8]) -> Answer<'a> {
        Box::pin(async move {
            self.count(What::Write)?;
            let mut unflushed = self.unflushed.lock().unwrap();
            for (number, sector) in from.chunks(SECTOR).enumerate() {
                unflushed.insert(first + number as u64, sector.into());
            }
            Ok(())
        })
    }

    fn flush(&self) -> Answer<'_> {
        Box::pin(async {
            let unflushed = std::mem::take(&mut *self.unflushed.lock().unwrap());
            self.count(What::Flush)?;
            for (sector, bytes) in unflushed {
                self.disk.write(sector, &bytes).await?;
            }
            Ok(())
        })
    }
}

#[test]
fn clusters_that_were_freed_before_a_failure_are_not_freed_again() {
    // The table must be longer than what stays in memory: else nothing is read while clusters are freed.
    let image = FAT32.image();
    for left in [1, 20, 90] {
        block_on(async {
            let disk = Failing::new(&image);
            let volume = Volume::mount(disk.clone()).await.unwrap();
            let piece = vec![7; 1 << 16];
            let mut file = volume.create("large").await.unwrap();
            for _ in 0..(12 << 20) / piece.len() {
                file.write_all(&piece).await.unwrap();
            }
            file.close().await.unwrap();
            // The rest of the volume is full, so that what is freed is used next.
            let mut rest = volume.create("rest").await.unwrap();
            while rest.write_all(&piece).await.is_ok() {}
            while rest.write_all(&piece[..SECTOR]).await.is_ok() {}
            rest.close().await.unwrap();
            volume.remove("large").await.unwrap();
            disk.fail_after(What::Read, left);
            assert_eq!(volume.sync().await, FAILED, "{left}");
            disk.heal();
            volume.write("one", &[1; 10_000]).await.unwrap();
            volume.sync().await.unwrap();
            volume.write("two", &[2; 60_000]).await.unwrap();
            assert_eq!(volume.read("one").await.unwrap(), [1; 10_000]);
            assert_eq!(volume.read("two").await.unwrap(), [2; 60_000]);
            volume.unmount().await.unwrap();
            Image::of(&disk.disk.bytes().await).assert_sound();
        });
    }
}

#[test]
fn after_a_flush_that_failed_nothing_is_said_to_be_on_the_disk() {
    let image = FAT16.image();
    block_on(async {
        for left in 0..4 {
            let disk = Failing::new(&image);
            let volume = Volume::mount(disk.clone()).await.unwrap();
            volume.write("before", &[1; 3000]).await.unwrap();
            let mut file = volume.create("file").await.unwrap();
            file.write_all(&[2; 3000]).await.unwrap();
            disk.fail_after(What::Flush, left);
            // Each flush of this may be the one; the disk has lost what was not flushed.
            if file.flush().await.is_ok() {
                assert!(left > 0);
                continue;
            }
            disk.heal();
            assert_eq!(volume.sync().await, FAILED, "{left}");
            assert_eq!(file.write_all(&[3]).await, FAILED, "{left}");
            assert_eq!(volume.write("other", &[3]).await, FAILED, "{left}");
            assert_eq!(volume.unmount().await, FAILED, "{left}");
            assert_eq!(volume.read("before").await.unwrap(), [1; 3000]);
            let volume = Volume::mount(disk).await.unwrap();
            assert_eq!(volume.read("before").await.unwrap(), [1; 3000]);
            volume.write("file", &[4; 3000]).await.unwrap();
            assert_eq!(volume.read("file").await.unwrap(), [4; 3000]);
        }
    });
}

#[test]
fn what_waits_to_be_written_is_not_lost_by_a_write_over_it_that_fails() {
    let image = FAT16.image();
    block_on(async {
        let disk = Failing::new(&image);
        let volume = Volume::mount(disk.clone()).await.unwrap();
        let options = OpenOptions::new().read(true).write(true).create(true);
        let mut file = options.open(&volume, "file").await.unwrap();
        file.write_all(&[1; 100]).await.unwrap();
        file.seek(embedded_io_async::SeekFrom::Start(0))
            .await
            .unwrap();
        disk.fail_after(What::Write, 0);
        assert_eq!(file.write_all(&[2; SECTOR]).await, FAILED);
        disk.heal();
        file.close().await.unwrap();
        let volume = Volume::mount(disk).await.unwrap();
        assert_eq!(volume.read("file").await.unwrap(), [1; 100]);
    });
}

#[test]
fn a_disk_that_is_gone_is_noticed_though_nothing_waits_to_be_written() {
    let image = FAT16.image();
    block_on(async {
        let disk = Failing::new(&image);
        let volume = Volume::mount(disk.clone()).await.unwrap();
        assert_eq!(volume.probe().await, Ok(()));
        [What::Read, What::Write, What::Flush]
            .iter()
            .for_each(|what| disk.fail_after(*what, 0));
        assert_eq!(volume.probe().await, FAILED);
    });
}

/// Makes, changes and removes files. What must be there: none: it may be anything.
async fn work(volume: &Volume) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut own = BTreeMap::new();
    for round in 0..12u8 {
        let path = format!("a file with a long name, {}", round % 5);
        let bytes = vec![round; [100, 3000, 9000][usize::from(round) % 3]];
        let result = match round {
            6 => volume.remove(&path).await,
            _ => volume.write(&path, &bytes).await,
        };
        let is_known = result.is_ok() && round != 6;
        own.insert(path, is_known.then_some(bytes));
    }
    own
}

#[test]
fn what_was_said_to_be_on_the_disk_is_there_whatever_failed() {
    for make in ALL {
        let image = make.image();
        block_on(async {
            for what in [What::Read, What::Write, What::Flush] {
                for left in 0..40 {
                    let disk = Failing::new(&image);
                    let volume = Volume::mount(disk.clone()).await.unwrap();
                    disk.fail_after(what, left);
                    let mut own = work(&volume).await;
                    disk.heal();
                    if !matches!(what, What::Flush) {
                        own.extend(work(&volume).await);
                        assert!(own.values().all(Option::is_some));
                    }
                    drop(volume);
                    let volume = Volume::mount(disk).await.unwrap();
                    for (path, bytes) in own {
                        if let Some(bytes) = bytes {
                            let found = volume.read(&path).await;
                            assert!(found == Ok(bytes), "{make:?} {what:?} {left} {path}");
                        }
                    }
                }
            }
        });
    }
}
