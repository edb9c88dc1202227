//! The queue by itself, against a model that knows what it must say: of what the device wrote, and of nothing else.

use crate::{
    Outcome,
    fake::{Random, Ring},
};
use drivers::virtio::{
    Wrong,
    queue::{Piece, Queue},
};
use std::collections::BTreeMap;

/// A chain that the driver has given to the device.
struct Given {
    token: u32,
    /// How many bytes may be written.
    room: u32,
    descriptors: usize,
    /// The device has put it into its ring.
    is_back: bool,
}

struct Model {
    /// By the first descriptor.
    given: BTreeMap<u32, Given>,
    next_used: u16,
    is_broken: bool,
}

impl Model {
    /// What must come of a look at the ring.
    fn pop(&mut self, ring: &Ring) -> Result<Option<(u32, u32)>, ()> {
        if self.is_broken {
            return Err(());
        }
        let pending = ring.used_index().wrapping_sub(self.next_used);
        if usize::from(pending) > self.given.len() {
            self.is_broken = true;
            return Err(());
        }
        if pending == 0 {
            return Ok(None);
        }
        let (first, written) = ring.used_entry(self.next_used);
        match self.given.get(&first) {
            Some(given) if written <= given.room => {
                let token = given.token;
                self.given.remove(&first);
                self.next_used = self.next_used.wrapping_add(1);
                Ok(Some((token, written)))
            }
            _ => {
                self.is_broken = true;
                Err(())
            }
        }
    }
}

pub fn case(seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let size = 1 << random.below(6);
    let mut queue: Queue<u32> = Queue::new(0, size, random.one_in(2)).expect("there is memory");
    let mut ring = Ring::new(size, queue.places());
    let mut model = Model {
        given: BTreeMap::new(),
        next_used: 0,
        is_broken: false,
    };
    let is_honest = random.one_in(4);
    for token in 0..60 {
        match random.below(8) {
            0..=2 => add(&mut queue, &ring, &mut model, &mut random, token),
            // What an honest device does, with any of those that it has.
            3 | 4 if !model.given.is_empty() => {
                let which = random.below(model.given.len() as u64) as usize;
                let (first, given) = model.given.iter_mut().nth(which).expect("it has so many");
                if !is_honest || !given.is_back {
                    let written = random.below(u64::from(given.room) + 1) as u32;
                    ring.put(*first, written);
                    given.is_back = true;
                }
            }
            5 if !is_honest && random.one_in(3) => {
                let room = model.given.values().next().map_or(0, |given| given.room);
                let first = match random.one_in(2) {
                    true => model.given.keys().next().copied().unwrap_or(0),
                    false => random.nasty(size.into()),
                };
                ring.put(first, random.nasty(room));
            }
            6 if !is_honest && random.one_in(4) => {
                let by = random.below(2 * u64::from(size) + 2) as u16;
                let index = match random.one_in(2) {
                    true => model.next_used.wrapping_add(by),
                    false => random.next() as u16,
                };
                ring.move_to(index);
            }
            6 if !is_honest && random.one_in(3) => ring.scribble(&mut random),
            _ => pop(&mut queue, &ring, &mut model),
        }
        match random.below(8) {
            0 => queue.enable_interrupts(),
            1 => queue.disable_interrupts(),
            2 => _ = queue.needs_notify(),
            3 => {
                let pending = ring.used_index().wrapping_sub(model.next_used);
                let is_wrong = model.is_broken || usize::from(pending) > model.given.len();
                model.is_broken = is_wrong;
                assert_eq!(queue.has_used().ok(), (!is_wrong).then_some(pending != 0));
            }
            _ => {}
        }
        assert_eq!(usize::from(queue.in_flight()), model.given.len());
    }
    assert!(
        !(is_honest && model.is_broken),
        "an honest device is broken"
    );
    match model.is_broken {
        true => Outcome::Broken,
        false => Outcome::Driven,
    }
}

fn add(queue: &mut Queue<u32>, ring: &Ring, model: &mut Model, random: &mut Random, token: u32) {
    let count = 1 + random.below(3) as usize;
    let mut piece = || Piece {
        physical: random.next(),
        length: random.below(5000) as u32,
        is_written: random.one_in(2),
    };
    let pieces: Vec<Piece> = (0..count).map(|_| piece()).collect();
    let taken: usize = model.given.values().map(|given| given.descriptors).sum();
    let has_room = taken + count <= usize::from(ring.size);
    assert_eq!(queue.has_room(count), has_room);
    assert_eq!(queue.add(&pieces, token).is_ok(), has_room);
    if !has_room {
        return;
    }
    let first = ring.last_added();
    let written = pieces.iter().filter(|piece| piece.is_written);
    let room = written.map(|piece| piece.length).sum();
    let given = Given {
        token,
        room,
        descriptors: count,
        is_back: false,
    };
    let before = model.given.insert(first.into(), given);
    assert!(before.is_none(), "a descriptor was given twice");
    let expected: Vec<_> = pieces
        .iter()
        .map(|piece| (piece.physical, piece.length, piece.is_written))
        .collect();
    assert_eq!(ring.chain(first), expected);
}

fn pop(queue: &mut Queue<u32>, ring: &Ring, model: &mut Model) {
    let found = queue.pop().map_err(|Wrong(_)| ());
    assert_eq!(found, model.pop(ring));
}
