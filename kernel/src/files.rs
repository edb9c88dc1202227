//! The files of the machine: the first disk with a FAT volume on it is mounted, whenever it is found.

use drivers::block;
use executor::{
    sync::Mutex,
    task::Builder,
    time::{Duration, timeout},
};
use files::{Error, Volume};
use log::{info, warn};

static MOUNTED: Mutex<Option<Volume>> = Mutex::new(None);
/// How long the end of the machine waits for a disk.
const END: Duration = Duration::from_secs(20);

/// From here on disks are looked at as they are found.
pub fn start() {
    Builder::new().name("files").spawn(look()).detach();
}

async fn look() {
    loop {
        let disk = block::next_disk().await;
        if has_one().await {
            continue;
        }
        match Volume::mount(disk).await {
            Ok(volume) => {
                if let Ok(about) = volume.info().await {
                    let mebibytes = about.bytes >> 20;
                    info!("a volume of {:?} is mounted, {mebibytes} MiB", about.kind);
                    if about.was_dirty {
                        warn!(
                            "it was not unmounted the last time: fsck.fat may find clusters to free"
                        );
                    }
                }
                *MOUNTED.lock().await = Some(volume);
            }
            Err(Error::NoVolume(why)) => info!("there is no FAT volume on the disk: {why}"),
            Err(error) => warn!("the disk was not mounted: {error}"),
        }
    }
}

/// Whether there is a volume, on a disk that is there.
async fn has_one() -> bool {
    match volume().await {
        Some(volume) => volume.probe().await.is_ok(),
        None => false,
    }
}

/// The volume, if one is mounted.
pub async fn volume() -> Option<Volume> {
    MOUNTED.lock().await.clone()
}

/// Unmounts it, if the disk lets that happen: the machine is about to be switched off.
pub async fn end() {
    let Some(volume) = volume().await else {
        return;
    };
    match timeout(END, volume.unmount()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!("the volume was not unmounted: {error}"),
        Err(_) => warn!("the volume was not unmounted: the disk does not answer"),
    }
}
