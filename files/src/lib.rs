//! Files on disks: FAT volumes, read and written by tasks.
//!
//! | | |
//! |---|---|
//! | [`Volume`] | a volume that is mounted: open, list, make, rename and remove what is on it |
//! | [`File`] | one open file, with `embedded-io-async`'s `Read`, `Write` and `Seek` |
//! | [`bytes`] | any bytes of a disk, not only whole sectors |
//! | [`RamDisk`] | a disk in memory |
//!
//! Nothing here holds a core: who waits for the disk waits as a task does. What a call has begun is done in a task of its own, to its end, also if
//! the caller is cancelled meanwhile; so no half of a change is left behind. `docs/files.md` says in what order things are written,
//! what is there after a loss of power, and what FAT cannot promise.
//!
//! What is on a disk is not trusted: numbers are compared with what there is before they are used, and whatever is followed is followed a bounded way.
//!
//! ```
//! use files::{RamDisk, Volume};
//! # use std::{process::Command, sync::Arc};
//! # let image = std::env::temp_dir().join(format!("spindle-doc-{}", std::process::id()));
//! # Command::new("truncate").arg("-s1M").arg(&image).status()?;
//! # if !Command::new("mkfs.fat").arg(&image).output()?.status.success() { return Ok(()) }
//! # let bytes = std::fs::read(&image)?;
//! # std::fs::remove_file(&image)?;
//! # let disk = RamDisk::from_bytes(bytes);
//! # executor::Runtime::builder().workers(1).build()?.block_on(async {
//! let volume = Volume::mount(Arc::new(disk)).await?;
//! volume.create_dir("notes").await?;
//! let mut file = volume.create("notes/A longer name.txt").await?;
//! file.write_all(b"hello").await?;
//! file.close().await?;
//! assert_eq!(volume.read("notes/a longer NAME.txt").await?, b"hello");
//! volume.unmount().await
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bytes;
mod cache;
mod directory;
mod error;
mod file;
mod layout;
mod name;
mod open;
mod ram;
mod table;
mod volume;

pub use self::{
    error::{Error, Result},
    file::{File, OpenOptions},
    layout::Kind,
    ram::RamDisk,
    volume::{Entry, Info, Volume},
};
