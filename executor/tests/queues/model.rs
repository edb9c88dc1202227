//! One thread: every queue does what a `VecDeque` does.

use crate::{Item, all_taken_once, items, number, take};
use executor::queue::{Deque, Inbox, Injector, List, Ring};
use proptest::prelude::*;
use std::{collections::VecDeque, ptr::NonNull, slice::Iter};

const CAPACITY: usize = 8;
const SMALLER: usize = 4;

/// What can happen to a deque or a ring.
#[derive(Clone, Debug)]
enum Step {
    Push,
    Pop,
    TakeOldest,
    TakeHalf(usize),
    StealInto(usize),
    PopOther,
}

/// Steps, and what the counters start with: often, they soon wrap.
fn steps() -> impl Strategy<Value = (u32, Vec<Step>)> {
    let step = prop_oneof![
        4 => Just(Step::Push),
        2 => Just(Step::Pop),
        1 => Just(Step::TakeOldest),
        1 => (0..10usize).prop_map(Step::TakeHalf),
        1 => prop_oneof![0..10usize, Just(usize::MAX)].prop_map(Step::StealInto),
        1 => Just(Step::PopOther),
    ];
    let start = prop_oneof![0..3u32, (u32::MAX - 30)..=u32::MAX, any::<u32>()];
    (start, prop::collection::vec(step, 0..200))
}

/// Takes the older half, rounded up, within the bound.
fn half(queue: &mut VecDeque<usize>, most: usize) -> Vec<usize> {
    let count = queue.len().div_ceil(2).min(most);
    queue.drain(..count).collect()
}

/// The deque and the ring have the same methods, but for the end at which the
/// owner pops.
macro_rules! agrees_with_model {
    ($queue:ident, $start:expr, $steps:expr, $pop:ident, $take_oldest:expr) => {{
        let items = items($steps.len());
        let (queue, other) = (
            $queue::starting_at(CAPACITY, $start),
            $queue::starting_at(SMALLER, $start.wrapping_add(3)),
        );
        let (mut model, mut other_model) = (VecDeque::new(), VecDeque::new());
        for (step, item) in $steps.into_iter().zip(&items) {
            match step {
                Step::Push => {
                    let pushed = queue.push(NonNull::from(item));
                    prop_assert_eq!(pushed.is_ok(), model.len() < CAPACITY);
                    match pushed {
                        Ok(()) => model.push_back(item.number),
                        Err(back) => prop_assert_eq!(number(back), item.number),
                    }
                }
                Step::Pop => prop_assert_eq!(queue.pop().map(take), model.$pop()),
                Step::TakeOldest => {
                    prop_assert_eq!($take_oldest(&queue).map(take), model.pop_front())
                }
                Step::TakeHalf(most) => {
                    let mut taken = vec![];
                    let count = queue.take_half(most, |item| taken.push(take(item)));
                    prop_assert_eq!(count, taken.len());
                    prop_assert_eq!(taken, half(&mut model, most));
                }
                Step::StealInto(most) => {
                    let room = SMALLER - other_model.len() + 1;
                    let mut expected = half(&mut model, most.min(room)).into_iter();
                    let stolen = queue.steal_into(&other, most);
                    let count = expected.len();
                    let oldest = expected.next().map(|oldest| (oldest, count));
                    prop_assert_eq!(stolen.map(|(item, count)| (take(item), count)), oldest);
                    other_model.extend(expected);
                }
                Step::PopOther => prop_assert_eq!(other.pop().map(take), other_model.$pop()),
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.is_empty(), model.is_empty());
            prop_assert_eq!(other.len(), other_model.len());
        }
        while let Some(item) = queue.pop() {
            prop_assert_eq!(Some(take(item)), model.$pop());
        }
        prop_assert!(model.is_empty());
    }};
}

/// A list of the next items, which are noted in the model.
fn list_of(fresh: &mut Iter<'_, Item>, count: usize, model: &mut VecDeque<usize>) -> List<Item> {
    let mut list = List::new();
    for item in fresh.take(count) {
        // SAFETY: items outlive their lists, and each comes once.
        unsafe { list.push_back(NonNull::from(item)) };
        model.push_back(item.number);
    }
    list
}

/// Takes all of a list.
fn numbers(list: List<Item>) -> Vec<usize> {
    let len = list.len();
    let numbers: Vec<_> = list.map(take).collect();
    assert_eq!(numbers.len(), len);
    numbers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_deque_is_newest_first_for_its_owner_and_oldest_first_for_thieves(
        (start, steps) in steps()
    ) {
        agrees_with_model!(Deque, start, steps, pop_back, Deque::take_oldest);
    }

    #[test]
    fn a_ring_is_oldest_first_for_all((start, steps) in steps()) {
        agrees_with_model!(Ring, start, steps, pop_front, Ring::pop);
    }

    #[test]
    fn an_inbox_hands_out_in_order_of_arrival(
        batches in prop::collection::vec(0..5usize, 0..20)
    ) {
        let items = items(batches.iter().sum());
        let inbox = Inbox::new();
        let mut next = 0;
        for count in batches {
            for nth in 0..count {
                // SAFETY: `items` outlive the inbox, and each is pushed once.
                let was_empty = unsafe { inbox.push(NonNull::from(&items[next + nth])) };
                prop_assert_eq!(was_empty, nth == 0);
                prop_assert!(!inbox.is_empty());
            }
            let arrived = inbox.take_all();
            prop_assert!(inbox.is_empty());
            let expected: Vec<_> = (next..next + count).collect();
            prop_assert_eq!(numbers(arrived), expected);
            next += count;
        }
        all_taken_once(&items);
    }

    #[test]
    fn a_list_is_a_vec_deque(steps in prop::collection::vec((0..5u8, 0..6usize), 0..60)) {
        let items = items(steps.iter().map(|step| step.1).sum());
        let mut fresh = items.iter();
        let (mut list, mut model) = (List::new(), VecDeque::new());
        for (step, count) in steps {
            match step {
                0 => list.append(list_of(&mut fresh, count, &mut model)),
                1 => {
                    for item in fresh.by_ref().take(count) {
                        // SAFETY: `items` outlive the list, and each is pushed once.
                        unsafe { list.push_front(NonNull::from(item)) };
                        model.push_front(item.number);
                    }
                }
                2 => prop_assert_eq!(list.pop_front().map(take), model.pop_front()),
                3 => {
                    let expected: Vec<_> = model.drain(..count.min(model.len())).collect();
                    prop_assert_eq!(numbers(list.split_front(count)), expected);
                }
                _ => {
                    let front = list.split_front(count);
                    list.append(front);
                    model.rotate_left(count.min(model.len()));
                }
            }
            prop_assert_eq!(list.len(), model.len());
            prop_assert_eq!(list.is_empty(), model.is_empty());
        }
        prop_assert_eq!(model, numbers(list));
    }

    #[test]
    fn an_injector_is_oldest_first(steps in prop::collection::vec((0..4u8, 0..6usize), 0..60)) {
        let items = items(steps.iter().map(|step| step.1).sum());
        let mut fresh = items.iter();
        let (injector, ring) = (Injector::new(), Ring::new(SMALLER));
        let (mut model, mut ring_model) = (VecDeque::new(), VecDeque::new());
        for (step, count) in steps {
            match step {
                0 => injector.push_all(list_of(&mut fresh, count, &mut model)),
                1 => if let Some(item) = fresh.next() {
                    // SAFETY: `items` outlive the injector, and each is pushed once.
                    unsafe { injector.push(NonNull::from(item)) };
                    model.push_back(item.number);
                }
                2 => prop_assert_eq!(injector.pop().map(take), model.pop_front()),
                _ => {
                    let room = SMALLER - ring_model.len() + 1;
                    let most = count.min(room).min(model.len());
                    let mut expected = model.drain(..most);
                    let popped = injector.pop_into(&ring, count);
                    let popped = popped.map(|(item, count)| (take(item), count));
                    prop_assert_eq!(popped, expected.next().map(|oldest| (oldest, most)));
                    ring_model.extend(expected);
                    prop_assert_eq!(ring.pop().map(take), ring_model.pop_front());
                }
            }
            prop_assert_eq!(injector.len(), model.len());
            prop_assert_eq!(ring.len(), ring_model.len());
        }
        prop_assert_eq!(model, numbers(injector.take(usize::MAX)));
        prop_assert!(injector.is_empty());
    }
}
