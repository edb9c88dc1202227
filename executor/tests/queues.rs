//! The queues against a model, one thread at a time, and against each other's
//! threads, as fast as these can.
#![cfg(not(loom))]

#[path = "queues/model.rs"]
mod model;
#[path = "queues/threads.rs"]
mod threads;

use executor::queue::Linked;
use hal::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use std::ptr::{self, NonNull};

/// What waits in the queues: a number, and how often it was taken.
struct Item {
    number: usize,
    taken: AtomicUsize,
    link: AtomicPtr<Item>,
}

// SAFETY: always the same field, which nothing else uses, and which is atomic.
unsafe impl Linked for Item {
    fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }
}

/// Items, which outlive the queues in every test.
fn items(count: usize) -> Vec<Item> {
    (0..count)
        .map(|number| Item {
            number,
            taken: AtomicUsize::new(0),
            link: AtomicPtr::new(ptr::null_mut()),
        })
        .collect()
}

/// What an item is called.
fn number(item: NonNull<Item>) -> usize {
    // SAFETY: it points into the test's `items`.
    unsafe { item.as_ref() }.number
}

/// Counts that an item was taken. Does not judge: a thread that panics would
/// leave the others waiting.
fn take(item: NonNull<Item>) -> usize {
    // SAFETY: it points into the test's `items`.
    unsafe { item.as_ref() }.taken.fetch_add(1, Relaxed);
    number(item)
}

fn all_taken_once(items: &[Item]) {
    for item in items {
        let times = item.taken.load(Relaxed);
        assert_eq!(times, 1, "item {} was taken {times} times", item.number);
    }
}
