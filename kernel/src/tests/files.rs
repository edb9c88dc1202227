//! A disk, and files on it. The runner has attached one for these tests: FAT on its first half, with a file on it, and nothing on the second.

use crate::{boot_info, devices};
use alloc::{format, string::String, sync::Arc, vec, vec::Vec};
use core::{future::poll_fn, task::Poll};
use drivers::block::{Answer, Disk, DiskError, SECTOR, next_disk};
use executor::{Runtime, io::devices as all, spawn, task::Builder};
use files::{Error, Volume};
use hal::board::{self, Board};
use hal::{irq, sync::Lock};
use testing::kernel_test;

/// The disk, for the test that runs.
static DISK: Lock<Option<Arc<dyn Disk>>> = Lock::new(None);
/// Sectors that each task writes.
const EACH: u64 = 300;
const TASKS: u64 = 8;

/// Runs a test on all cores, with the disk.
fn with_disk<F: Future<Output = ()>>(test: impl FnOnce(Arc<dyn Disk>) -> F + 'static) {
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        devices::start(boot_info()).await;
        let known = DISK.lock().clone();
        let disk = match known {
            Some(disk) => disk,
            None => next_disk().await,
        };
        let before = DISK.lock().replace(disk.clone());
        drop(before);
        test(disk).await;
        // What comes after this in the same image is by hand again.
        all::stop("uart0").await;
    });
    runtime.shutdown();
}

/// What a task writes there, in a round.
fn pattern(task: u64, round: u64, sectors: usize) -> Vec<u8> {
    let mut state = (task << 32 | round << 8) + 0x9e37_79b9;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..sectors * SECTOR).map(|_| next()).collect()
}

#[kernel_test(disk = true, limit = 300)]
fn sectors_come_back_as_they_were_written_by_tasks_side_by_side() {
    with_disk(|disk| async move {
        let half = disk.sectors() / 2;
        assert!(
            disk.sectors() >= half + EACH * TASKS,
            "the disk is too small"
        );
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let disk = disk.clone();
                spawn(async move {
                    let first = half + task * EACH;
                    for round in 0..6 {
                        // One sector, a few, more than one command can; and not always from the same.
                        let count = [1, 2, 7, 128, 129, EACH - 10][round as usize];
                        let at = first + round;
                        let bytes = pattern(task, round, count as usize);
                        disk.write(at, &bytes).await.expect("it can be written");
                        let mut back = vec![0; bytes.len()];
                        disk.read(at, &mut back).await.expect("it can be read");
                        assert!(back == bytes, "task {task}, round {round}");
                    }
                    disk.flush().await.expect("it can be flushed");
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("it does not fail");
        }
        // All at the end, too: nobody wrote where another did.
        for task in 0..TASKS {
            let mut back = vec![0; (EACH as usize - 10) * SECTOR];
            disk.read(half + task * EACH + 5, &mut back)
                .await
                .expect("it can be read");
            assert!(back == pattern(task, 5, EACH as usize - 10), "task {task}");
        }
    });
}

#[kernel_test(disk = true, limit = 120)]
fn what_a_disk_cannot_do_is_an_error() {
    with_disk(|disk| async move {
        let end = disk.sectors();
        assert_eq!(
            disk.read(end, &mut [0; SECTOR]).await,
            Err(DiskError::OutOfRange)
        );
        assert_eq!(
            disk.write(end - 1, &[0; 2 * SECTOR]).await,
            Err(DiskError::OutOfRange)
        );
        assert_eq!(
            disk.read(u64::MAX, &mut [0; SECTOR]).await,
            Err(DiskError::OutOfRange)
        );
        assert_eq!(disk.read(0, &mut [0; 100]).await, Err(DiskError::Unaligned));
        assert_eq!(disk.read(end - 1, &mut [0; SECTOR]).await, Ok(()));
    });
}

/// Where a Pi's lines go: while it lets no interrupt in, a request gets no further than to where it waits for the next.
const CORE: usize = 0;

#[kernel_test(disk = true, limit = 300)]
fn requests_that_are_dropped_midway_harm_no_other() {
    with_disk(|disk| async move {
        let half = disk.sectors() / 2;
        let drops = async move {
            let bytes = pattern(99, 0, 16);
            disk.write(half, &bytes).await.expect("it can be written");
            let mut dropped = 0;
            for round in 0..80 {
                let mut room = vec![0; bytes.len()];
                let mut request = match round % 2 {
                    0 => disk.read(half, &mut room),
                    _ => disk.write(half, &bytes),
                };
                // One step further each time.
                let mut is_done = false;
                for _ in 0..1 + round / 2 {
                    is_done = is_done || poll_masked(&mut request).await;
                }
                drop(request);
                dropped += usize::from(!is_done);
                let mut back = vec![0; bytes.len()];
                disk.read(half, &mut back).await.expect("it goes on");
                assert!(back == bytes, "round {round}");
            }
            dropped
        };
        let dropped = Builder::new().core(CORE).spawn(drops).await;
        let dropped = dropped.expect("it does not fail");
        assert!(dropped >= 10, "only {dropped} were dropped midway");
    });
}

/// Polls it once while this core lets no interrupt in. Whether it is done.
async fn poll_masked(request: &mut Answer<'_>) -> bool {
    poll_fn(|context| {
        let _masked = irq::mask();
        Poll::Ready(request.as_mut().poll(context).is_ready())
    })
    .await
}

#[kernel_test(disk = true, limit = 300)]
fn a_volume_of_mkfs_is_listed_and_written_and_the_runner_looks_at_it() {
    with_disk(|disk| async move {
        let volume = Volume::mount(disk).await.expect("the runner made one");
        let names: Vec<String> = volume
            .list("/")
            .await
            .expect("it has a root")
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert!(
            names.iter().any(|name| name == "From the host.txt"),
            "{names:?}"
        );
        let bytes = volume.read("from the HOST.txt").await;
        assert_eq!(bytes.as_deref(), Ok(&b"written by the runner\n"[..]));
        volume
            .create_dir("from the guest")
            .await
            .expect("there is room");
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let volume = volume.clone();
                spawn(async move {
                    for round in 0..4u64 {
                        let path = format!("from the guest/task {task} file {round}");
                        let bytes = pattern(task, round, 1 + 5 * round as usize);
                        volume.write(&path, &bytes).await.expect("there is room");
                        assert!(
                            volume.read(&path).await.as_deref() == Ok(&bytes[..]),
                            "{path}"
                        );
                    }
                    let path = format!("from the guest/task {task} file 0");
                    volume.remove(&path).await.expect("it is there");
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("it does not fail");
        }
        assert_eq!(
            volume
                .list("from the guest")
                .await
                .map(|entries| entries.len()),
            Ok(24)
        );
        volume
            .write("From the guest.txt", b"written by the guest\n")
            .await
            .expect("there is room");
        volume.unmount().await.expect("it goes well");
    });
}

/// The last: the disk is another after it.
#[kernel_test(disk = true, limit = 300)]
fn when_a_controller_is_stopped_its_disk_is_gone_and_when_it_is_started_there_is_a_new_one() {
    with_disk(|disk| async move {
        let name = match board::platform().board {
            Board::Raspi3 | Board::Raspi4 => "sd0",
            _ => "disk0",
        };
        let volume = Volume::mount(disk.clone()).await.expect("there is one");
        assert!(all::stop(name).await);
        assert_eq!(disk.read(0, &mut [0; SECTOR]).await, Err(DiskError::Gone));
        assert_eq!(
            volume.write("lost", &[1; 5000]).await,
            Err(Error::Disk(DiskError::Gone))
        );
        assert!(all::start(name).await);
        let again = next_disk().await;
        assert_eq!(again.sectors(), disk.sectors());
        let volume = Volume::mount(again.clone())
            .await
            .expect("it is the same card");
        assert!(volume.list("/").await.is_ok());
        let before = DISK.lock().replace(again);
        drop(before);
    });
}
