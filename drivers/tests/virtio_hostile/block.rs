//! A disk: honest at first, so that what is read is what is there; then not. Whatever it does, each request ends.

use crate::{
    Outcome,
    fake::{Device, Fake, Random, read_from, write_to},
};
use drivers::{
    block::{Disk, DiskError, SECTOR},
    virtio::block::VirtioDisk,
};
use executor::io::OnInterrupt;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

const HAS_MOST: u64 = 1 << 1;
const IS_READ_ONLY: u64 = 1 << 5;
const CAN_FLUSH: u64 = 1 << 9;
/// Sectors of a disk that is honest about them.
const SECTORS: u64 = 256;

/// A request on its way: what was read, and from where; nothing, if it was another.
type Request = Pin<Box<dyn Future<Output = Result<Option<(u64, Vec<u8>)>, DiskError>>>>;

fn byte_of(sector: u64) -> u8 {
    (sector as u8).wrapping_mul(37) ^ 0x5a
}

pub fn case(seed: u64) -> Outcome {
    let mut random = Random::new(!seed);
    let sectors = match random.below(8) {
        0 => u64::MAX - random.below(4),
        1 => random.below(3),
        _ => SECTORS,
    };
    let most = match random.one_in(4) {
        true => random.nasty(512),
        false => 4096,
    };
    let mut configuration = sectors.to_le_bytes().to_vec();
    configuration.extend(most.to_le_bytes());
    configuration.truncate(if random.one_in(32) {
        random.below(12) as usize
    } else {
        12
    });
    let own = random.next() & (HAS_MOST | IS_READ_ONLY | CAN_FLUSH);
    let mut device = Device::new(seed, own, configuration);
    device.changes_all_the_time = random.one_in(64);
    // Most of the time is spent on the memory of slots.
    let is_small = |size: &mut u16| *size = (*size).min(16);
    device
        .sizes
        .iter_mut()
        .filter(|size| size.is_power_of_two())
        .for_each(is_small);
    let fake = Fake::new(device);
    let disk = match VirtioDisk::new(Box::new(fake.clone())) {
        Ok(disk) => Arc::new(disk),
        Err(_) => {
            let device = fake.device();
            assert!(
                device.status == 0 || device.never_resets,
                "it was left half set up"
            );
            return Outcome::Refused;
        }
    };
    assert_eq!(
        disk.sectors() == sectors,
        !fake.device().changes_all_the_time
    );
    let mut waiting: Vec<Request> = Vec::new();
    let is_honest = random.one_in(4);
    let (mut has_lied, mut has_scribbled) = (false, false);
    for _ in 0..40 {
        match random.below(8) {
            0..=2 => waiting.push(request(&disk, &mut random)),
            3 | 4 if !has_scribbled => {
                let fails = !is_honest && random.one_in(8);
                has_lied |= serve(&fake, &mut random, fails) && fails;
            }
            5 if !is_honest && random.one_in(6) => {
                has_lied = true;
                has_scribbled |= fake.device().lie(0);
            }
            // Somebody gives up.
            6 if !waiting.is_empty() && random.one_in(2) => {
                let which = random.below(waiting.len() as u64) as usize;
                drop(waiting.swap_remove(which));
            }
            _ => _ = disk.on_interrupt(),
        }
        poll(&mut waiting, |answer| check(answer, has_lied));
    }
    if is_honest {
        // All of them end, once the device has done them.
        for _ in 0..200 {
            while serve(&fake, &mut random, false) {}
            disk.on_interrupt();
            poll(&mut waiting, |answer| check(answer, false));
        }
        assert!(waiting.is_empty(), "{} requests do not end", waiting.len());
    }
    disk.stop();
    poll(&mut waiting, |answer| {
        check(answer, has_lied || answer.is_err())
    });
    assert!(waiting.is_empty(), "{} requests do not end", waiting.len());
    drop(disk);
    let device = fake.device();
    let is_quiet = device.status == 0 || device.status & 128 != 0;
    assert!(is_quiet || device.never_resets, "it still has the memory");
    match device.status & 128 != 0 {
        true => Outcome::Broken,
        false => Outcome::Driven,
    }
}

/// Asks for something, also for what cannot be.
fn request(disk: &Arc<VirtioDisk>, random: &mut Random) -> Request {
    let disk = disk.clone();
    let first = match random.below(8) {
        0 => random.next(),
        1 => u64::MAX,
        2 => disk.sectors(),
        _ => random.below(SECTORS),
    };
    let length = match random.below(8) {
        0 => random.below(2000) as usize,
        1 => 20 * SECTOR,
        _ => random.below(4) as usize * SECTOR,
    };
    let end = first.checked_add((length / SECTOR) as u64);
    let is_there = end.is_some_and(|end| end <= disk.sectors());
    let expected = match length.is_multiple_of(SECTOR) {
        false => Some(DiskError::Unaligned),
        true if !is_there => Some(DiskError::OutOfRange),
        true => None,
    };
    let wants = random.below(3);
    Box::pin(async move {
        match wants {
            0 => disk.flush().await.map(|()| None),
            1 => {
                let written = disk.write(first, &vec![0x77; length]).await;
                assert!(expected.is_none() || written == Err(expected.unwrap()));
                assert!(!(disk.is_read_only() && written.is_ok()));
                written.map(|()| None).or_else(|error| match error {
                    DiskError::ReadOnly | DiskError::OutOfRange | DiskError::Unaligned => Ok(None),
                    other => Err(other),
                })
            }
            _ => {
                let mut bytes = vec![0; length];
                let read = disk.read(first, &mut bytes).await;
                match expected {
                    Some(expected) => {
                        assert_eq!(read, Err(expected));
                        Ok(None)
                    }
                    None => read.map(|()| Some((first, bytes))),
                }
            }
        }
    })
}

fn poll(
    waiting: &mut Vec<Request>,
    mut done: impl FnMut(&Result<Option<(u64, Vec<u8>)>, DiskError>),
) {
    let mut context = Context::from_waker(Waker::noop());
    waiting.retain_mut(|request| match request.as_mut().poll(&mut context) {
        Poll::Ready(answer) => {
            done(&answer);
            false
        }
        Poll::Pending => true,
    });
}

/// What an honest disk answers is right.
fn check(answer: &Result<Option<(u64, Vec<u8>)>, DiskError>, has_lied: bool) {
    match answer {
        _ if has_lied => {}
        Ok(None) => {}
        Ok(Some((first, bytes))) => {
            for (at, sector) in bytes.chunks(SECTOR).enumerate() {
                let expected = byte_of(first + at as u64);
                assert!(sector.iter().all(|byte| *byte == expected));
            }
        }
        Err(error) => panic!("an honest disk fails: {error}"),
    }
}

/// Does the next request as it should be done, or not so. False: there is none.
fn serve(fake: &Fake, random: &mut Random, fails: bool) -> bool {
    let mut device = fake.device();
    if device.status & 4 == 0 || device.status & 128 != 0 {
        return false;
    }
    let Some((first, pieces)) = device.ring(0).take() else {
        return false;
    };
    let given = read_from(&pieces);
    let number = |at: usize| u64::from_le_bytes(given[at..at + 8].try_into().expect("it is there"));
    let (what, sector) = (number(0) as u32, number(8));
    assert!(what <= 1 || what == 4, "nobody has asked for {what}");
    let room: usize = pieces
        .iter()
        .filter(|piece| piece.2)
        .map(|piece| piece.1 as usize)
        .sum();
    let mut answer = Vec::new();
    if what == 0 {
        assert!(room > 1);
        let sectors = (sector..).take((room - 1) / SECTOR);
        answer.extend(sectors.flat_map(|sector| [byte_of(sector); SECTOR]));
    }
    if what == 1 {
        assert!(given[16..].iter().all(|byte| *byte == 0x77));
    }
    // Sometimes nonsense.
    answer.push(if fails { 1 + random.below(4) as u8 } else { 0 });
    let written = write_to(&pieces, &answer);
    let written = if fails {
        random.nasty(written)
    } else {
        written
    };
    device.ring(0).put(first.into(), written);
    true
}

/// What comes of a read if the device says that all is well, but has written these bytes only, or says so.
pub fn a_read_that_is_short(bytes: &[u8], written: u32) {
    let fake = Fake::new(Device::plain(SECTORS.to_le_bytes().to_vec()));
    let disk = VirtioDisk::new(Box::new(fake.clone())).expect("it can be driven");
    let mut room = [0; SECTOR];
    let mut context = Context::from_waker(Waker::noop());
    let mut request = disk.read(0, &mut room);
    assert!(request.as_mut().poll(&mut context).is_pending());
    let (first, mut pieces) = fake.device().ring(0).take().expect("it was asked");
    if bytes.len() == 1 {
        pieces.remove(1);
    }
    write_to(&pieces, bytes);
    fake.device().ring(0).put(first.into(), written);
    // Not each of them is its own.
    for _ in 0..50 {
        disk.on_interrupt();
    }
    let answer = request.as_mut().poll(&mut context);
    assert!(
        matches!(answer, Poll::Ready(Err(DiskError::Wrong(_)))),
        "{answer:?}"
    );
    assert_ne!(fake.device().status & 128, 0, "it was not told");
    drop(request);
    let late = disk.flush().as_mut().poll(&mut context);
    assert!(
        matches!(late, Poll::Ready(Err(DiskError::Wrong(_)))),
        "{late:?}"
    );
}
