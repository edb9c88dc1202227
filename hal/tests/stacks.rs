//! What stacks of the image are made of, on the host: slots, generations,
//! reserves, each against a plain model of what it should do.
#![cfg(not(loom))]

use hal::{
    reserve::Reserve,
    stack::{
        generations::{Generations, Links},
        slots::Slots,
    },
};
use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
};

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn slots_are_taken_where_a_plain_search_finds_them() {
    const COUNT: usize = Slots::<4>::COUNT;
    for seed in 0..50 {
        let mut random = Random(seed);
        let mut slots = Slots::<4>::new();
        let mut taken = [false; COUNT];
        let mut runs = Vec::new();
        for _ in 0..2_000 {
            if random.below(5) < 3 {
                let count = match random.below(4) {
                    0 => 1 + random.below(COUNT / 2),
                    _ => 1 + random.below(3),
                };
                let is_free = |first: &usize| !taken[*first..first + count].contains(&true);
                let expected = (0..=COUNT - count).find(is_free);
                assert_eq!(slots.take(count), expected);
                if let Some(first) = expected {
                    taken[first..first + count].fill(true);
                    runs.push((first, count));
                }
            } else if !runs.is_empty() {
                let (first, count) = runs.swap_remove(random.below(runs.len()));
                slots.give_back(first, count);
                taken[first..first + count].fill(false);
            }
        }
    }
}

#[test]
fn more_slots_than_there_are_cannot_be_taken() {
    let mut slots = Slots::<2>::new();
    assert_eq!(slots.take(129), None);
    assert_eq!(slots.take(usize::MAX), None);
    assert_eq!(slots.take(128), Some(0));
    assert_eq!(slots.take(1), None);
    slots.give_back(0, 128);
    assert_eq!((0..128).map_while(|_| slots.take(1)).last(), Some(127));
    assert_eq!(slots.take(1), None);
    slots.give_back(70, 1);
    assert_eq!((slots.take(2), slots.take(1)), (None, Some(70)));
}

#[test]
#[should_panic(expected = "given back that is free")]
#[cfg(debug_assertions)]
fn a_slot_is_not_given_back_twice() {
    let mut slots = Slots::<1>::new();
    assert_eq!(slots.take(2), Some(0));
    slots.give_back(1, 1);
    slots.give_back(0, 2);
}

/// Links that are kept aside, and of nodes that are out of use forgotten.
#[derive(Default)]
struct Aside(RefCell<HashMap<u64, u64>>);

impl Links for Aside {
    fn next(&self, node: u64) -> u64 {
        self.0.borrow()[&node]
    }

    fn set_next(&self, node: u64, next: u64) {
        self.0.borrow_mut().insert(node, next);
    }
}

#[test]
fn a_node_comes_back_once_and_after_a_ticket_that_was_drawn_later_than_it_was_added() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let links = Aside::default();
        let mut generations = Generations::<u64>::new();
        // Tickets are numbers, drawn one after the other, and done in that order.
        let (drawn, done) = (Cell::new(0), Cell::new(0));
        let mut waiting: HashMap<u64, u64> = HashMap::new();
        let mut next = 1;
        for _ in 0..1_000 {
            match random.below(5) {
                0 | 1 => {
                    generations.add(&links, next);
                    waiting.insert(next, drawn.get());
                    next += 1;
                }
                2 => done.set(drawn.get().min(done.get() + random.below(2) as u64)),
                _ => {
                    let draw = || {
                        assert_eq!(drawn.get(), done.get(), "one ticket at a time");
                        drawn.set(drawn.get() + 1);
                        drawn.get()
                    };
                    generations.advance(&links, draw, |ticket| ticket <= done.get());
                    if let Some(node) = generations.take(&links) {
                        let before = waiting
                            .remove(&node)
                            .expect("it was added, and is not back");
                        assert!(done.get() > before, "no ticket covers it");
                    }
                }
            }
            assert_eq!(generations.is_empty(), waiting.is_empty());
            let undone = (drawn.get() > done.get()).then_some(drawn.get());
            if let Some(ticket) = undone {
                assert_eq!(generations.ticket(), Some(ticket));
            }
        }
        // With every ticket done, nothing is left behind.
        let draw = || drawn.get();
        generations.advance(&links, draw, |_| true);
        while let Some(node) = generations.take(&links) {
            assert!(waiting.remove(&node).is_some());
        }
        assert!(waiting.is_empty() && generations.is_empty());
    }
}

#[test]
fn nodes_are_counted_from_one_ticket_to_the_next() {
    let links = Aside::default();
    let mut generations = Generations::<()>::new();
    assert_eq!(
        [1, 2, 3].map(|node| generations.add(&links, node)),
        [1, 2, 3]
    );
    generations.advance(&links, || (), |()| false);
    assert_eq!([4, 5].map(|node| generations.add(&links, node)), [1, 2]);
    generations.advance(&links, || (), |()| false);
    assert_eq!(
        generations.add(&links, 6),
        3,
        "the first ticket is not done"
    );
}

#[test]
fn a_reserve_is_filled_up_and_asks_to_be_when_something_was_taken() {
    let reserve = Reserve::<3>::new();
    let (next, mut given) = (Cell::new(0), HashSet::new());
    let source = || {
        next.set(next.get() + 1);
        (next.get() <= 5).then_some(next.get())
    };
    assert!(!reserve.lacks() && reserve.take().is_none());
    reserve.refill(source, |_| panic!("none is too much"));
    assert!(reserve.count() == 3 && !reserve.lacks());
    reserve.refill(source, |_| panic!("it was full"));
    assert_eq!(next.get(), 3, "nothing is asked for in vain");
    for left in [2, 1, 0] {
        given.extend(reserve.take());
        assert!(reserve.count() == left && reserve.lacks());
    }
    assert_eq!(reserve.take(), None);
    reserve.refill(source, |_| panic!("none is too much"));
    assert!(
        reserve.count() == 2 && reserve.lacks(),
        "there were no more"
    );
    given.extend([reserve.take(), reserve.take()].into_iter().flatten());
    assert_eq!(given.len(), 5, "each frame was given once");
}

#[test]
fn what_is_filled_in_the_middle_of_a_refill_is_not_lost() {
    // As when the one that refills is moved to another core, and its old core refills meanwhile.
    let reserve = Reserve::<2>::new();
    let mut surplus = Vec::new();
    let mut next = 10;
    reserve.refill(
        || {
            reserve.refill(|| Some(1), |_| panic!("it was empty"));
            next += 1;
            Some(next)
        },
        |frame| surplus.push(frame),
    );
    assert_eq!(surplus, [11]);
    assert_eq!([reserve.take(), reserve.take()], [Some(1), Some(1)]);
}
