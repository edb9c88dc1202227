//! A network card: honest at first, so that frames arrive as they were sent; then not.

use crate::{
    Outcome,
    fake::{Device, Fake, Random, read_from, write_to},
};
use drivers::{link::Link, virtio::net::NetLink};
use executor::io::OnInterrupt;
use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

const HAS_ADDRESS: u64 = 1 << 5;
const RECEIVE: usize = 0;
const SEND: usize = 1;

pub fn case(seed: u64) -> Outcome {
    let mut random = Random::new(!seed);
    let mut configuration: Vec<u8> = (0..random.below(24)).map(|_| random.next() as u8).collect();
    if let Some(first) = configuration.first_mut().filter(|_| !random.one_in(8)) {
        *first &= !1;
    }
    let own = if random.one_in(2) { HAS_ADDRESS } else { 0 };
    let mut device = Device::new(seed, own, configuration);
    device.changes_all_the_time = random.one_in(64);
    let fake = Fake::new(device);
    let Ok(mut link) = NetLink::new(Box::new(fake.clone()), 7) else {
        let device = fake.device();
        assert!(
            device.status == 0 || device.never_resets,
            "it was left half set up"
        );
        return Outcome::Refused;
    };
    let address = link.address().expect("it is Ethernet");
    assert!(address[0] & 1 == 0 && link.longest() == 1514);
    let half = link.shared();
    let mut context = Context::from_waker(Waker::noop());
    // Frames on their way, as long as the device does not lie.
    let mut expected = Some(VecDeque::new());
    let is_honest = random.one_in(4);
    let mut has_scribbled = false;
    let mut is_gone = false;
    for _ in 0..40 {
        match random.below(8) {
            0 | 1 if !has_scribbled => bring(&fake, &mut random, &mut expected),
            2 => {
                let is_heard = link.receive(&mut |frame| {
                    assert!((14..=1514).contains(&frame.len()), "{}", frame.len());
                    if let Some(expected) = &mut expected {
                        assert_eq!(expected.pop_front().as_deref(), Some(&*frame));
                    }
                    frame.fill(0xee);
                });
                assert!(!(is_gone && is_heard));
                if let Some(expected) = &expected {
                    assert!(is_heard || expected.is_empty(), "a frame is not heard");
                }
            }
            3 => send(&mut link, &fake, &mut random, has_scribbled),
            4 => {
                let ready = link.poll_ready(random.one_in(2), &mut context);
                assert!(!is_gone || ready == Poll::Ready(None));
                is_gone |= ready == Poll::Ready(None);
                assert!(expected.is_none() || !is_gone, "an honest device is gone");
            }
            5 => _ = half.on_interrupt(),
            6 if !is_honest && random.one_in(4) => {
                expected = None;
                let queue = random.below(2) as usize;
                has_scribbled |= fake.device().lie(queue);
            }
            _ => assert!(!(link.has_room() && is_gone)),
        }
    }
    drop(link);
    let device = fake.device();
    let is_quiet = device.status == 0 || device.status & 128 != 0;
    assert!(is_quiet || device.never_resets, "it still has the memory");
    match device.status & 128 != 0 {
        true => Outcome::Broken,
        false => Outcome::Driven,
    }
}

/// A frame comes in.
fn bring(fake: &Fake, random: &mut Random, expected: &mut Option<VecDeque<Vec<u8>>>) {
    let mut device = fake.device();
    let header = if device.is_legacy { 10 } else { 12 };
    let Some((first, pieces)) = device.ring(RECEIVE).take() else {
        return;
    };
    let room: u32 = pieces.iter().map(|piece| piece.1).sum();
    assert_eq!(room, header + 1514);
    let length = match random.below(8) {
        0 => 1514,
        1 => random.below(14) as usize,
        _ => random.below(1515) as usize,
    };
    let mark = random.next() as u8;
    let frame: Vec<u8> = (0..length).map(|at| mark.wrapping_add(at as u8)).collect();
    let mut bytes = vec![0; header as usize];
    bytes.extend(&frame);
    let written = write_to(&pieces, &bytes);
    device.ring(RECEIVE).put(first.into(), written);
    // Shorter ones are no frames, and dropped.
    if let Some(expected) = expected.as_mut().filter(|_| length >= 14) {
        expected.push_back(frame);
    }
}

/// A frame goes out, and the device has it.
fn send(link: &mut NetLink, fake: &Fake, random: &mut Random, has_scribbled: bool) {
    let length = random.below(1600) as usize;
    let byte = random.next() as u8;
    let is_sent = link.send(length, &mut |frame| {
        assert_eq!(frame.len(), length);
        frame.fill(byte);
    });
    assert!(!is_sent || (14..=1514).contains(&length));
    if !is_sent || has_scribbled {
        return;
    }
    let mut device = fake.device();
    let header = if device.is_legacy { 10 } else { 12 };
    let (first, pieces) = device.ring(SEND).take().expect("it was sent");
    assert!(pieces.iter().all(|piece| !piece.2), "none is written to");
    let mut bytes = vec![0; header];
    bytes.resize(header + length, byte);
    assert_eq!(read_from(&pieces), bytes);
    if !random.one_in(4) {
        device.ring(SEND).put(first.into(), 0);
    }
}

/// It says that it has received less than the header that comes before each frame.
pub fn a_frame_without_a_header() {
    let fake = Fake::new(Device::plain(Vec::new()));
    let mut link = NetLink::new(Box::new(fake.clone()), 7).expect("it can be driven");
    let (first, _) = fake.device().ring(RECEIVE).take().expect("it may receive");
    fake.device().ring(RECEIVE).put(first.into(), 11);
    assert!(!link.receive(&mut |_| panic!("it is no frame")));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(link.poll_ready(false, &mut context), Poll::Ready(None));
    assert_ne!(fake.device().status & 128, 0, "it was not told");
}

/// It says at the start what cannot be.
pub fn an_address_of_many() {
    let mut device = Device::plain(vec![3, 0, 0, 0, 0, 1]);
    device.features |= HAS_ADDRESS;
    assert!(NetLink::new(Box::new(Fake::new(device)), 7).is_err());
}
