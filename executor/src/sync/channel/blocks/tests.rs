//! The queue, natively: with blocks of their real size, and many threads.

use super::*;
use std::{
    cell::Cell,
    collections::BTreeSet,
    fmt::Debug,
    string::String,
    sync::Arc,
    thread::{self, yield_now},
    vec::Vec,
};

/// Of numbers.
const SLOTS: usize = Block::<usize>::SLOTS;
/// How many fit before the last.
const LAST: usize = SLOTS - 1;

std::thread_local! {
    /// On this thread there is no memory for blocks.
    static NO_MEMORY: Cell<bool> = const { Cell::new(false) };
}

pub(in super::super) fn is_out_of_memory() -> bool {
    NO_MEMORY.get()
}

/// A queue with its permits.
struct Counted<T> {
    queue: Blocks<T>,
    permits: AtomicUsize,
}

impl<T> Counted<T> {
    fn new() -> Self {
        Self {
            queue: Blocks::new(),
            permits: AtomicUsize::new(0),
        }
    }

    fn push(&self, value: T) {
        self.queue.push(value);
        self.permits.fetch_add(1, Release);
    }

    fn try_pop(&self) -> Option<T> {
        let less = |permits: usize| permits.checked_sub(1);
        self.permits.fetch_update(Acquire, Relaxed, less).ok()?;
        // SAFETY: each permit is for a push that is done.
        Some(unsafe { self.queue.pop() })
    }

    fn pop(&self) -> T {
        loop {
            match self.try_pop() {
                Some(value) => return value,
                None => yield_now(),
            }
        }
    }

    /// Addresses of the blocks that it has, if all values are in one.
    fn blocks(&self) -> Vec<usize> {
        let [head, tail] = [&self.queue.old_end.head, &self.queue.new_end.tail]
            .map(|end| end.load(Relaxed))
            .map(|place| (place != Place::<T>::NONE).then(|| Place::<T>::new(place).block()));
        assert_eq!(head, tail);
        let spare = NonNull::new(self.queue.new_end.spare.load(Relaxed));
        let blocks = [tail, spare.map(NonNull::as_ptr)];
        blocks
            .into_iter()
            .flatten()
            .map(|block| block.addr())
            .collect()
    }
}

/// Counts how many were dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn values_come_out_in_the_order_they_went_in() {
    let queue = Counted::new();
    let (mut pushed, mut popped) = (0, 0);
    // The queue grows and shrinks, over the ends of blocks at both of its ends.
    for step in (0..200).chain((0..200).rev()) {
        for _ in 0..step % 17 {
            queue.push(pushed);
            pushed += 1;
        }
        for _ in 0..step % 13 {
            if let Some(value) = queue.try_pop() {
                assert_eq!(value, popped);
                popped += 1;
            }
        }
    }
    while let Some(value) = queue.try_pop() {
        assert_eq!(value, popped);
        popped += 1;
    }
    assert_eq!(pushed, popped);
    assert!(pushed > 50 * SLOTS);
}

#[test]
fn an_empty_queue_has_no_memory_and_can_be_static() {
    static QUEUE: Counted<String> = Counted {
        queue: Blocks::new(),
        permits: AtomicUsize::new(0),
    };
    assert!(QUEUE.blocks().is_empty());
    QUEUE.push("first".into());
    assert_eq!(QUEUE.blocks().len(), 1);
    assert_eq!(QUEUE.try_pop().as_deref(), Some("first"));
    drop(Blocks::<String>::new());
}

#[test]
fn a_queue_that_stays_short_needs_two_blocks_in_all() {
    let queue = Counted::new();
    let mut blocks = BTreeSet::new();
    for number in 0..20 * SLOTS {
        queue.push(number);
        assert_eq!(queue.try_pop(), Some(number));
        blocks.extend(queue.blocks());
        let expected = if number < LAST { 1 } else { 2 };
        assert_eq!(queue.blocks().len(), expected, "one is used, one is spare");
    }
    assert_eq!(blocks.len(), 2);
}

#[test]
fn what_is_left_is_dropped_with_the_queue() {
    assert_eq!(Block::<Dropped>::SLOTS, SLOTS);
    let ends = [0, 1, LAST, SLOTS, SLOTS + 1, 3 * SLOTS - 1, 3 * SLOTS];
    for pushes in ends {
        for pops in ends.into_iter().filter(|pops| *pops <= pushes) {
            let dropped = Arc::new(AtomicUsize::new(0));
            let queue = Counted::new();
            (0..pushes).for_each(|_| queue.push(Dropped(dropped.clone())));
            (0..pops).for_each(|_| drop(queue.try_pop()));
            assert_eq!(dropped.load(Relaxed), pops);
            drop(queue);
            assert_eq!(dropped.load(Relaxed), pushes);
        }
    }
}

#[test]
fn values_may_be_of_any_size_and_alignment() {
    #[derive(Clone, PartialEq, Debug)]
    #[repr(align(256))]
    struct Aligned(u8);

    fn pass<T: Clone + PartialEq + Debug>(value: T) {
        let queue = Counted::new();
        let slots = Block::<T>::SLOTS;
        assert!(slots >= 3 && Block::<T>::SIZE.is_power_of_two());
        for _ in 0..3 * slots {
            queue.push(value.clone());
        }
        for _ in 0..2 * slots {
            assert_eq!(queue.try_pop().as_ref(), Some(&value));
        }
    }
    pass(());
    pass(7u8);
    pass([7u64; 100]);
    pass([7u64; 2000]);
    pass(Aligned(7));
    pass(String::from("seven"));
}

#[test]
fn without_memory_the_value_comes_back() {
    let queue = Counted::new();
    NO_MEMORY.set(true);
    assert_eq!(queue.queue.try_push(1), Err(1));
    NO_MEMORY.set(false);
    (0..LAST).for_each(|number| queue.push(number));
    NO_MEMORY.set(true);
    assert_eq!(queue.queue.try_push(1), Err(1), "the next would be needed");
    NO_MEMORY.set(false);
    queue.push(LAST);
    (0..SLOTS).for_each(|number| assert_eq!(queue.try_pop(), Some(number)));
    NO_MEMORY.set(true);
    (0..SLOTS).for_each(|number| queue.push(number));
    assert_eq!(queue.try_pop(), Some(0), "the spare was enough");
}

#[test]
fn one_of_many_threads_gets_each_value_once_and_sees_each_senders_order() {
    let (senders, receivers, each) = (4, 4, 250_000);
    let queue = Counted::new();
    // Some are left for later.
    let left = 1000;
    let sum = AtomicUsize::new(0);
    let dropped = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for sender in 0..senders {
            let (queue, dropped) = (&queue, &dropped);
            scope.spawn(move || {
                for number in 0..each {
                    queue.push((sender, number, Dropped(dropped.clone())));
                }
            });
        }
        for _ in 0..receivers {
            scope.spawn(|| {
                let mut next = [0; 4];
                for _ in 0..(senders * each - left) / receivers {
                    let (sender, number, _dropped) = queue.pop();
                    assert!(number >= next[sender], "an earlier one came later");
                    next[sender] = number + 1;
                    sum.fetch_add(number, Relaxed);
                }
            });
        }
    });
    assert_eq!(dropped.load(Relaxed), senders * each - left);
    let rest: usize = (0..left).map(|_| queue.pop().1).sum();
    assert_eq!(sum.load(Relaxed) + rest, senders * (each * (each - 1) / 2));
    assert_eq!(dropped.load(Relaxed), senders * each);
}

#[test]
fn what_many_threads_have_left_is_dropped() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let queue = Counted::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| queue.push(Dropped(dropped.clone()))));
        }
        for _ in 0..2 {
            scope.spawn(|| (0..700).for_each(|_| drop(queue.pop())));
        }
    });
    assert_eq!(dropped.load(Relaxed), 1400);
    drop(queue);
    assert_eq!(dropped.load(Relaxed), 4000);
}
