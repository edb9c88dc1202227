//! Volumes that are damaged: whatever is on the disk, there are errors, and never a panic or a way without end.

mod common;

use common::{ALL, Make, Random, block_on, is_our_fault, mount};
use executor::time::{Duration, timeout};
use files::{Error, RamDisk, Volume};
use std::sync::Arc;

/// In `make test`, and in `make test-long`.
fn cases() -> usize {
    match std::env::var_os("SPINDLE_LONG") {
        Some(_) => 1_000_000,
        None => 10_000,
    }
}

/// A small volume with something of everything on it. Not by mtools, which want large ones.
fn small(make: &Make) -> Vec<u8> {
    let image = make.image_with(&["-n", "LABEL"]);
    block_on(async {
        let (disk, volume) = mount(&image).await;
        for directory in ["a directory", "a directory/SUB", "b"] {
            volume.create_dir(directory).await.unwrap();
        }
        volume.write("FILE.TXT", &[1; 5000]).await.unwrap();
        volume
            .write("a file with a long name", &[2; 3000])
            .await
            .unwrap();
        for number in 0..20 {
            let name = format!("a directory/file number {number}");
            volume.write(&name, &[number; 700]).await.unwrap();
        }
        volume
            .write("a directory/SUB/x", &[3; 20_000])
            .await
            .unwrap();
        volume.unmount().await.unwrap();
        disk.bytes().await
    })
}

/// Sectors that say what is where: whatever is not zero before the files, and directories.
fn telling(bytes: &[u8]) -> Vec<usize> {
    let sector = |at: usize| &bytes[at * 512..][..512];
    let is_telling = |at: &usize| {
        let sector = sector(*at);
        let is_used = sector.iter().any(|byte| *byte != 0);
        // Files are of one byte, over and over.
        is_used && sector.iter().any(|byte| *byte != sector[0])
    };
    (0..bytes.len() / 512).filter(is_telling).collect()
}

fn check<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Err(error) if is_our_fault(error) => panic!("{error}"),
        result => result.ok(),
    }
}

/// Uses all that is there, a bounded way down.
async fn use_all(volume: &Volume) {
    let mut directories = vec![(String::new(), 0)];
    let mut budget = 60;
    while let Some((directory, depth)) = directories.pop() {
        let Some(entries) = check(volume.list(&directory).await) else {
            continue;
        };
        for entry in entries {
            if budget == 0 {
                break;
            }
            budget -= 1;
            let path = format!("{directory}/{}", entry.name);
            match entry.is_directory {
                true if depth < 4 => directories.push((path, depth + 1)),
                true => {}
                false => {
                    if let Some(mut file) = check(volume.open(&path).await) {
                        // It may say that it has 4 GiB.
                        let mut room = [0; 4096];
                        for _ in 0..8 {
                            if check(file.read(&mut room).await).is_none_or(|count| count == 0) {
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
    check(
        volume
            .write("a new file with a long name", &[9; 3000])
            .await,
    );
    check(volume.create_dir("a new directory").await);
    check(volume.rename("FILE.TXT", "a directory/moved").await);
    check(volume.remove("a file with a long name").await);
    check(volume.remove("a directory/file number 3").await);
    check(volume.remove("b").await);
    check(volume.sync().await);
}

async fn survives(bytes: Vec<u8>) {
    let disk = Arc::new(RamDisk::from_bytes(bytes));
    if let Some(volume) = check(Volume::mount(disk).await) {
        use_all(&volume).await;
        check(volume.unmount().await);
    }
}

#[test]
fn damaged_volumes_are_errors_and_never_a_panic_or_a_loop() {
    // Small ones: they are copied for each case.
    let makes = [
        Make { kib: 360, ..ALL[0] },
        Make {
            kib: 2200,
            sectors_per_cluster: 1,
            ..ALL[1]
        },
        Make { kib: 600, ..ALL[2] },
    ];
    let volumes: Vec<(Vec<u8>, Vec<usize>)> = makes
        .iter()
        .map(|make| {
            let bytes = small(make);
            let telling = telling(&bytes);
            (bytes, telling)
        })
        .collect();
    block_on(async {
        let mut random = Random::new(1);
        for case in 0..cases() {
            let (bytes, telling) = &volumes[case % 3];
            let mut bytes = bytes.clone();
            for _ in 0..1 + random.below(8) {
                // The boot sector as often as all the others together.
                let sector = match random.below(4) {
                    0 => 0,
                    _ => telling[random.below(telling.len())],
                };
                let at = sector * 512 + random.below(if sector == 0 { 96 } else { 512 });
                bytes[at] = match random.below(3) {
                    0 => random.next() as u8,
                    1 => bytes[at] ^ 1 << random.below(8),
                    _ => [0, 1, 2, 0xe5, 0xff, 0x0f, 0x10][random.below(7)],
                };
            }
            // Generous: it is about ways without end.
            let survived = timeout(Duration::from_secs(120), survives(bytes)).await;
            assert!(survived.is_ok(), "case {case} does not end");
        }
    });
}

#[test]
fn chains_in_a_circle_are_found() {
    let make = Make {
        kib: 2200,
        sectors_per_cluster: 1,
        ..ALL[1]
    };
    let image = make.image();
    image.put("/FILE.TXT", &[1; 5000]);
    image.mtools("mmd", &["::/d"]);
    let mut bytes = image.bytes();
    // FAT16: each entry of the table that is in use leads to itself.
    let table = usize::from(u16::from_le_bytes([bytes[14], bytes[15]])) * 512;
    for cluster in 2..4000u16 {
        let at = table + usize::from(cluster) * 2;
        if bytes[at..at + 2] != [0, 0] {
            bytes[at..at + 2].copy_from_slice(&cluster.to_le_bytes());
        }
    }
    block_on(async {
        let volume = Volume::mount(Arc::new(RamDisk::from_bytes(bytes)))
            .await
            .unwrap();
        // As long as it says, though always the same cluster.
        assert_eq!(volume.read("FILE.TXT").await.unwrap().len(), 5000);
        // What is after the end of a directory is not looked at.
        assert_eq!(volume.list("d").await.unwrap(), []);
        // To fill it, it is followed: to a bound.
        let mut error = None;
        for number in 0..40 {
            if let Err(found) = volume.create(&format!("d/file number {number}")).await {
                error = Some(found);
                break;
            }
        }
        assert_eq!(error, Some(Error::Broken("a directory has no end")));
        volume.remove("FILE.TXT").await.unwrap();
        volume.unmount().await.unwrap();
    });
}
