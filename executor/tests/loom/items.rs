//! What the models put into queues.

use executor::queue::{Linked, List};
use loom::{cell::UnsafeCell, sync::atomic::AtomicPtr};
use std::{
    ptr::{self, NonNull},
    // Not loom's: it counts, and must not order anything.
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// An item whose content is written before it is put into a queue, and read by
/// who takes it: loom finds out if the one does not see what the other wrote.
pub struct Item {
    pub number: usize,
    content: UnsafeCell<usize>,
    taken: AtomicUsize,
    link: AtomicPtr<Item>,
}

// SAFETY: always the same field, which nothing else uses, and which is atomic.
unsafe impl Linked for Item {
    fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }
}

// SAFETY: loom checks the accesses to the content; the rest is `Sync`.
unsafe impl Sync for Item {}

/// The items of a model. They live as long as it does.
pub struct Items(Vec<Item>);

impl Items {
    pub fn new(count: usize) -> Self {
        let item = |number| Item {
            number,
            content: UnsafeCell::new(usize::MAX),
            taken: AtomicUsize::new(0),
            link: AtomicPtr::new(ptr::null_mut()),
        };
        Self((0..count).map(item).collect())
    }

    /// An item, ready to be put into a queue.
    pub fn fill(&self, number: usize) -> NonNull<Item> {
        let item = &self.0[number];
        // SAFETY: it is in no queue yet; loom checks that nobody else is at it.
        item.content
            .with_mut(|content| unsafe { *content = number });
        NonNull::from(item)
    }

    /// Each was taken, exactly once.
    pub fn were_taken_once(&self) {
        for item in &self.0 {
            let times = item.taken.load(Relaxed);
            assert_eq!(times, 1, "item {} was taken {times} times", item.number);
        }
    }
}

/// Where a step of a model begins: loom then tries all orders of steps.
///
/// It tries another order only for accesses that depend on each other, and for a
/// store it considers the last access to that word alone. A thread that loads a
/// word and then stores to it, as every compare-and-exchange loop does, so hides
/// the loads that others did before, and may be tried in one order only
/// (tokio-rs/loom#166, #392). An increment without a load before it hides
/// nothing; and since a load does find the last store, the orders inside of steps
/// follow from those of whole steps.
#[derive(Default)]
pub struct Steps(loom::sync::atomic::AtomicUsize);

impl Steps {
    pub fn new() -> Self {
        Self(loom::sync::atomic::AtomicUsize::new(0))
    }

    /// Begins a step. Relaxed: nothing is ordered by it.
    pub fn step(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Takes an item that came out of a queue, and says which.
pub fn take(item: NonNull<Item>) -> usize {
    // SAFETY: the items live as long as the model.
    let item = unsafe { item.as_ref() };
    // SAFETY: whoever takes it is alone with it; loom checks that.
    item.content.with_mut(|content| unsafe {
        assert_eq!(*content, item.number);
        *content = usize::MAX;
    });
    item.taken.fetch_add(1, Relaxed);
    item.number
}

/// Takes all of a list.
pub fn take_all(list: List<Item>) -> Vec<usize> {
    let len = list.len();
    let numbers: Vec<_> = list.map(take).collect();
    assert_eq!(numbers.len(), len);
    numbers
}
