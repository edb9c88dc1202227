//! Virtio's devices, as QEMU plays them: a network card, and a disk of 16 MiB.

use crate::{boot_info, devices};
use alloc::{boxed::Box, string::String, sync::Arc, vec, vec::Vec};
use core::{future::poll_fn, sync::atomic::Ordering::Relaxed, task::Poll};
use drivers::{
    block::{self, Disk, DiskError, SECTOR},
    dma::Dma,
    link::Link,
    pci::Function,
    virtio::{block::VirtioDisk, net, transport},
};
use executor::{
    Runtime,
    io::{Device, devices as all, lines},
    spawn,
};
use hal::{
    board::{self, Board},
    cores,
    layout::DIRECT_MAP_SIZE,
    mmio::{Window, WindowError},
};
use testing::kernel_test;

/// QEMU's own network: who routes, and who we say we are.
const ROUTER: [u8; 4] = [10, 0, 2, 2];
const OURS: [u8; 4] = [10, 0, 2, 15];
const ARP: [u8; 2] = [0x08, 0x06];

fn has_virtio() -> bool {
    matches!(board::platform().board, Board::Pc | Board::Virt)
}

fn on_all_cores(future: impl Future<Output = ()> + 'static) {
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(future);
    runtime.shutdown();
}

async fn state_of(name: &str) -> String {
    let devices = all::devices().await;
    let named = devices
        .into_iter()
        .find(|info| info.name.as_deref() == Some(name));
    named.map_or_else(String::new, |info| info.state)
}

/// Sees to it that a device runs, whatever other tests have done with it.
async fn run(name: &str) {
    devices::start(boot_info()).await;
    let state = state_of(name).await;
    let runs = state.starts_with("running") || all::start(name).await;
    assert!(runs, "{name} does not run: {state}");
}

/// Who has the router's address?
fn question(from: [u8; 6]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend([0xff; 6]);
    frame.extend(from);
    frame.extend(ARP);
    // Ethernet, IPv4, their lengths, a question.
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(from);
    frame.extend(OURS);
    frame.extend([0; 6]);
    frame.extend(ROUTER);
    frame
}

/// Whether this is the answer to that.
fn is_answer(frame: &[u8], to: [u8; 6]) -> bool {
    frame.len() >= 42
        && frame[..6] == to
        && frame[12..14] == ARP
        && frame[20..22] == [0, 2]
        && frame[28..32] == ROUTER
        && frame[38..42] == OURS
}

async fn ask(link: &mut Box<dyn Link>) {
    let address = link.address().expect("it is Ethernet");
    let frame = question(address);
    while !link.has_room() {
        let ready = poll_fn(|context| link.poll_ready(true, context)).await;
        ready.expect("the card is there");
    }
    assert!(link.send(frame.len(), &mut |room| room.copy_from_slice(&frame)));
    loop {
        let mut is_heard = false;
        while link.receive(&mut |frame| is_heard |= is_answer(frame, address)) {}
        if is_heard {
            return;
        }
        let ready = poll_fn(|context| link.poll_ready(false, context)).await;
        ready.expect("the card is there");
    }
}

#[kernel_test(limit = 240)]
fn a_network_card_asks_who_has_an_address_and_is_told() {
    if !has_virtio() {
        return;
    }
    on_all_cores(async {
        run("net0").await;
        for _ in 0..3 {
            let mut link = net::next_link().await;
            // Both rings go round more than once.
            for _ in 0..300 {
                ask(&mut link).await;
            }
            assert!(!link.send(link.longest() + 1, &mut |_| panic!("it is too long")));
            let state = state_of("net0").await;
            crate::println!("note: net0 {state}");
            assert!(
                !state.contains(" 0 interrupts"),
                "it was not by interrupts: {state}"
            );
            assert!(all::stop("net0").await);
            let gone = poll_fn(|context| link.poll_ready(true, context)).await;
            assert_eq!(gone, None);
            assert!(!link.has_room() && !link.receive(&mut |_| panic!("there is nothing")));
            drop(link);
            assert!(all::start("net0").await);
        }
        // One that nobody has taken.
        assert!(all::stop("net0").await);
        all::stop("uart0").await;
    });
}

/// Sectors of the disk that is for tests, tasks that share it, and what each has of it.
const SECTORS: u64 = 16 << 11;
const TASKS: u64 = 64;
const SHARE: u64 = SECTORS / TASKS;

/// A number like any other.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005);
    *seed = seed.wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// What is in a sector after it was written for the `version`th time.
fn fill(sector: u64, version: u64, bytes: &mut [u8]) {
    let mut seed = sector << 32 | version;
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&random(&mut seed).to_le_bytes());
    }
}

/// Writes and reads back sectors of its own share, and in the end all of that.
async fn use_share(disk: Arc<dyn Disk>, task: u64) {
    let mut seed = task;
    let mut versions = vec![0; SHARE as usize];
    let mut bytes = vec![0; 80 * SECTOR];
    let mut expected = vec![0; SECTOR];
    for version in 1..=30 {
        let first = random(&mut seed) % SHARE;
        let count = (1 + random(&mut seed) % 80).min(SHARE - first);
        let bytes = &mut bytes[..count as usize * SECTOR];
        let sector = task * SHARE + first;
        for (at, bytes) in bytes.chunks_exact_mut(SECTOR).enumerate() {
            fill(sector + at as u64, version, bytes);
            versions[first as usize + at] = version;
        }
        disk.write(sector, bytes).await.expect("it is written");
        bytes.fill(0);
        disk.read(sector, bytes).await.expect("it is read");
        for (at, bytes) in bytes.chunks_exact(SECTOR).enumerate() {
            fill(sector + at as u64, version, &mut expected);
            assert_eq!(bytes, expected, "sector {} after it", sector + at as u64);
        }
    }
    disk.flush().await.expect("it is flushed");
    let mut bytes = vec![0; SHARE as usize * SECTOR];
    disk.read(task * SHARE, &mut bytes)
        .await
        .expect("it is read");
    for (at, bytes) in bytes.chunks_exact(SECTOR).enumerate() {
        let sector = task * SHARE + at as u64;
        match versions[at] {
            0 => continue,
            version => fill(sector, version, &mut expected),
        }
        assert_eq!(bytes, expected, "sector {sector} in the end");
    }
}

#[kernel_test(limit = 300)]
fn sixty_four_tasks_write_to_a_disk_and_read_that_back() {
    if !has_virtio() {
        return;
    }
    on_all_cores(async {
        run("disk0").await;
        let disk = block::next_disk().await;
        assert_eq!((disk.sectors(), disk.is_read_only()), (SECTORS, false));
        let share = |task| spawn(use_share(disk.clone(), task));
        let tasks: Vec<_> = (0..TASKS).map(share).collect();
        for task in tasks {
            task.await.expect("it has found what it wrote");
        }
        let state = state_of("disk0").await;
        crate::println!("note: disk0 {state}");
        assert!(!state.contains(" 0 interrupts") && state.contains(" 0 failed"));
        assert!(all::stop("disk0").await);
        all::stop("uart0").await;
    });
}

#[kernel_test(limit = 300)]
fn what_a_disk_cannot_do_is_an_error_and_who_gives_up_does_no_harm() {
    if !has_virtio() {
        return;
    }
    on_all_cores(async {
        run("disk0").await;
        let disk = block::next_disk().await;
        let mut sector = vec![0; SECTOR];
        let past = disk.read(SECTORS, &mut sector).await;
        assert_eq!(past, Err(DiskError::OutOfRange));
        let past = disk.write(SECTORS - 1, &[0; 2 * SECTOR]).await;
        assert_eq!(past, Err(DiskError::OutOfRange));
        let past = disk.read(u64::MAX, &mut sector).await;
        assert_eq!(past, Err(DiskError::OutOfRange));
        let part = disk.read(0, &mut sector[..100]).await;
        assert_eq!(part, Err(DiskError::Unaligned));
        // Given up while they wait: for the device, or, as these are more than it takes, for others.
        fill(7, 1, &mut sector);
        disk.write(7, &sector).await.expect("it is written");
        for _ in 0..5 {
            let mut rooms = vec![vec![0u8; SECTOR]; 200];
            let mut waiting: Vec<_> = rooms.iter_mut().map(|room| disk.read(7, room)).collect();
            poll_fn(|context| {
                for request in &mut waiting {
                    let _ = request.as_mut().poll(context);
                }
                Poll::Ready(())
            })
            .await;
            drop(waiting);
        }
        let mut again = vec![0; SECTOR];
        for _ in 0..200 {
            again.fill(0);
            disk.read(7, &mut again).await.expect("it is read");
            assert_eq!(again, sector);
        }
        // Stopped while some wait.
        let waiter = |_| {
            let disk = disk.clone();
            spawn(async move {
                let mut room = vec![0; 64 * SECTOR];
                loop {
                    if let Err(error) = disk.read(0, &mut room).await {
                        return error;
                    }
                }
            })
        };
        let waiters: Vec<_> = (0..100).map(waiter).collect();
        disk.read(0, &mut again).await.expect("it is read");
        assert!(all::stop("disk0").await);
        for waiter in waiters {
            assert_eq!(waiter.await.ok(), Some(DiskError::Gone));
        }
        assert_eq!(disk.flush().await, Err(DiskError::Gone));
        all::stop("uart0").await;
    });
}

/// What was found, by the name that its driver gave it.
async fn device_of(name: &str) -> Device {
    let devices = all::devices().await;
    let is_it = |info: &all::DeviceInfo| info.name.as_deref() == Some(name);
    devices.into_iter().find(is_it).expect("it is there").device
}

#[kernel_test(limit = 120, cores = 2)]
fn a_device_s_interrupts_go_where_they_are_sent() {
    if !has_virtio() {
        return;
    }
    on_all_cores(async {
        run("disk0").await;
        let device = device_of("disk0").await;
        assert!(all::stop("disk0").await);
        // The same device, by hand.
        let opened = transport::open(&device).expect("it is there");
        let disk = VirtioDisk::new(opened.transport).expect("it can be driven");
        let disk = Arc::new(disk);
        let line = lines::attach(opened.line, Some(0), disk.clone()).expect("there is room");
        let mut sector = vec![0; SECTOR];
        let taken = |core| crate::upcalls::counts(core).lines.load(Relaxed);
        for core in (0..5).flat_map(|_| cores::online().iter()) {
            line.steer(core).expect("it is up");
            assert_eq!(line.core(), core);
            let (before, taken_before) = (line.count(), taken(core));
            while line.count() < before + 20 {
                disk.read(3, &mut sector).await.expect("it is read");
            }
            // One or two may have been on their way elsewhere.
            assert!(taken(core) >= taken_before + 15, "they came elsewhere");
        }
        disk.stop();
        drop((line, opened.message));
        assert!(all::start("disk0").await);
        assert!(all::stop("disk0").await);
        all::stop("uart0").await;
    });
}

#[kernel_test(limit = 120)]
fn lines_of_messages_are_given_back() {
    if board::platform().board != Board::Pc {
        return;
    }
    on_all_cores(async {
        run("disk0").await;
        let device = device_of("disk0").await;
        assert!(all::stop("disk0").await);
        let function = Function::of(&device).expect("it is on PCI");
        for _ in 0..3 {
            let all: Vec<_> = core::iter::from_fn(|| function.message()).collect();
            assert!((20..100).contains(&all.len()), "{} lines", all.len());
            let mut lines: Vec<u32> = all.iter().map(|message| message.line().0).collect();
            lines.sort();
            lines.dedup();
            assert_eq!(lines.len(), all.len(), "a line was given twice");
        }
        assert!(all::start("disk0").await);
        assert!(all::stop("disk0").await);
        all::stop("uart0").await;
    });
}

#[kernel_test]
fn no_window_opens_onto_memory() {
    let memory = Dma::new(SECTOR).expect("there is memory");
    let open = |physical, length| Window::map(physical, length).err();
    assert_eq!(open(memory.physical(0), 16), Some(WindowError::Memory));
    // One that only ends there.
    assert_eq!(open(memory.physical(0) - 16, 17), Some(WindowError::Memory));
    for (physical, length) in [(0, 16), (0x1000, 0), (u64::MAX, 16), (DIRECT_MAP_SIZE, 1)] {
        assert_eq!(open(physical, length), Some(WindowError::Range));
    }
}
