//! Conditions: who begins to wait before he unlocks misses no change that is made under the lock and notified.

use super::{
    count::Count,
    items::Steps,
    kept::{Kept, block_on},
};
use executor::sync::{Mutex, MutexGuard, condvar::Queue};
use loom::thread;
use std::{sync::Arc, task::Waker};

/// A number under a lock, and who waits for it.
struct Shared {
    value: Mutex<usize>,
    queue: Queue,
    steps: Steps,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            value: Mutex::new(0),
            queue: Queue::new(),
            steps: Steps::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        block_on(&mut Kept::new(self.value.lock()))
    }

    /// As `Condvar::wait`.
    fn wait<'a>(&'a self, guard: MutexGuard<'a, usize>) -> MutexGuard<'a, usize> {
        let mut waiting = Kept::new(self.queue.waiting());
        waiting.as_mut().begin();
        drop(guard);
        self.steps.step();
        block_on(&mut waiting);
        self.lock()
    }

    /// Waits until the number is so large.
    fn wait_for(&self, least: usize) {
        let mut guard = self.lock();
        while *guard < least {
            guard = self.wait(guard);
        }
    }

    /// Changes the number, then notifies.
    fn change(&self, notify: fn(&Queue)) {
        *self.lock() += 1;
        self.steps.step();
        notify(&self.queue);
    }
}

/// One waits, another changes it.
#[test]
fn wait_against_change() {
    for notify in [Queue::notify_one, Queue::notify_all] {
        loom::model(move || {
            let shared = Shared::new();
            let other = {
                let shared = shared.clone();
                thread::spawn(move || shared.change(notify))
            };
            shared.wait_for(1);
            other.join().unwrap();
        });
    }
}

/// One is notified, and so the queue is empty, while another comes: he hears of the next change.
#[test]
fn emptying_against_begin() {
    loom::model(|| {
        let shared = Shared::new();
        let mut first = Kept::new(shared.queue.waiting());
        first.as_mut().begin();
        let (count, waker) = Count::new();
        assert!(first.poll(&waker).is_pending());
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.steps.step();
                shared.queue.notify_one();
            })
        };
        shared.steps.step();
        let mut second = Kept::new(shared.queue.waiting());
        second.as_mut().begin();
        other.join().unwrap();
        assert_eq!(count.get(), 1, "the first is before it");
        assert!(first.poll(&waker).is_ready());
        first.drop();
        assert!(second.poll(Waker::noop()).is_pending());
        shared.queue.notify_one();
        assert!(second.poll(Waker::noop()).is_ready());
        second.drop();
    });
}

/// One who waits gives up while it is notified: the next is, or it was too late for both.
#[test]
fn giving_up_against_notification() {
    loom::model(|| {
        let shared = Shared::new();
        let [mut first, mut second] = [(); 2].map(|()| Kept::new(shared.queue.waiting()));
        for waiting in [&mut first, &mut second] {
            waiting.as_mut().begin();
            assert!(waiting.poll(Waker::noop()).is_pending());
        }
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.steps.step();
                shared.queue.notify_one();
            })
        };
        shared.steps.step();
        let is_notified = first.as_mut().end();
        shared.steps.step();
        first.drop();
        other.join().unwrap();
        // One was notified, who has seen it, or the other.
        assert_eq!(second.poll(Waker::noop()).is_ready(), !is_notified);
        second.drop();
    });
}
