//! A disk that is shared by threads, and a device that is honest and in a hurry: each request ends, and is its own.

#[path = "virtio_hostile/fake.rs"]
#[allow(dead_code, reason = "it can lie, too")]
mod fake;

use drivers::{
    block::{Disk, SECTOR},
    virtio::block::VirtioDisk,
};
use executor::{block_on_simple, io::OnInterrupt};
use fake::{Device, Fake, read_from, write_to};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

const SECTORS: u64 = 64;
const THREADS: u64 = 4;
const ROUNDS: u64 = 20_000;
/// A thread that has not ended by then waits for ever.
const LONG: Duration = Duration::from_secs(300);

/// Does what is asked for, and interrupts.
fn serve(fake: &Fake, disk: &VirtioDisk) {
    loop {
        let mut device = fake.device();
        let Some((first, pieces)) = device.ring(0).take() else {
            break;
        };
        let asked = read_from(&pieces);
        let sector = u64::from_le_bytes(asked[8..16].try_into().expect("it is there"));
        let mut answer = vec![sector as u8; SECTOR];
        answer.push(0);
        let written = write_to(&pieces, &answer);
        device.ring(0).put(first.into(), written);
    }
    disk.on_interrupt();
}

#[test]
fn a_slot_that_goes_from_one_to_the_next_wakes_the_next() {
    let mut device = Device::plain(SECTORS.to_le_bytes().to_vec());
    // Fewer slots than threads: they go from hand to hand.
    device.sizes = [8; 2];
    let fake = Fake::new(device);
    let disk = Arc::new(VirtioDisk::new(Box::new(fake.clone())).expect("it can be driven"));
    let is_over = Arc::new(AtomicBool::new(false));
    let server = thread::spawn({
        let (fake, disk, is_over) = (fake.clone(), disk.clone(), is_over.clone());
        move || {
            while !is_over.load(Relaxed) {
                serve(&fake, &disk);
                thread::yield_now();
            }
        }
    });
    let (sender, ended) = mpsc::channel();
    for number in 0..THREADS {
        let (disk, sender) = (disk.clone(), sender.clone());
        thread::spawn(move || {
            let mut room = [0; SECTOR];
            for round in 0..ROUNDS {
                let sector = (number + round * THREADS) % SECTORS;
                block_on_simple(disk.read(sector, &mut room)).expect("it is read");
                assert!(room.iter().all(|byte| *byte == sector as u8));
            }
            let _ = sender.send(());
        });
    }
    let has_ended = (0..THREADS).all(|_| ended.recv_timeout(LONG).is_ok());
    is_over.store(true, Relaxed);
    server.join().expect("it goes on");
    assert!(has_ended, "a request was done, and who waits was not woken");
}
