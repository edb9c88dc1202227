//! Many tasks at once, and tasks that are cancelled in the middle.

mod common;

use common::{FAT16, FAT32, Image, Random, block_on};
use executor::{Runtime, spawn, task::yield_now};
use files::{RamDisk, Volume};
use std::sync::Arc;

#[test]
fn sixteen_tasks_write_their_own_files_on_four_workers() {
    let image = FAT32.image();
    let runtime = Runtime::builder().workers(4).build().unwrap();
    let disk = image.disk();
    let bytes = runtime.block_on(async {
        let volume = Volume::mount(disk.clone()).await.unwrap();
        let tasks: Vec<_> = (0..16u64)
            .map(|number| {
                let volume = volume.clone();
                spawn(async move {
                    let mut random = Random::new(number + 1);
                    let directory = format!("task {number}");
                    volume.create_dir(&directory).await.unwrap();
                    for round in 0..8 {
                        let path = format!("{directory}/file of round {round}");
                        let bytes = random.bytes(3000 + 1000 * round);
                        let mut file = volume.create(&path).await.unwrap();
                        for piece in bytes.chunks(777) {
                            file.write_all(piece).await.unwrap();
                        }
                        if round % 2 == 0 {
                            file.close().await.unwrap();
                        } else {
                            drop(file);
                        }
                        assert!(volume.read(&path).await.unwrap() == bytes);
                        if round % 3 == 0 {
                            volume.remove(&path).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        for number in 0..16 {
            assert_eq!(
                volume.list(&format!("task {number}")).await.unwrap().len(),
                5
            );
        }
        volume.unmount().await.unwrap();
        disk.bytes().await
    });
    runtime.shutdown();
    Image::of(&bytes).assert_sound();
}

#[test]
fn what_a_cancelled_task_had_begun_is_whole() {
    let image = FAT16.image();
    let bytes = block_on(async {
        let disk: Arc<RamDisk> = image.disk();
        let volume = Volume::mount(disk.clone()).await.unwrap();
        for round in 0..200u64 {
            let own = volume.clone();
            let task = spawn(async move {
                let mut random = Random::new(round + 1);
                own.create_dir("a directory with a long name").await.ok();
                let path = format!("a directory with a long name/file {}", round % 7);
                own.write(&path, &random.bytes(9000)).await.ok();
                own.rename(&path, &format!("{path} moved")).await.ok();
                own.remove(&format!("{path} moved")).await.ok();
            });
            for _ in 0..Random::new(round + 1).below(40) {
                yield_now().await;
            }
            task.cancel();
            let _ = task.await;
        }
        volume.list("a directory with a long name").await.unwrap();
        volume.unmount().await.unwrap();
        disk.bytes().await
    });
    Image::of(&bytes).assert_sound();
}
