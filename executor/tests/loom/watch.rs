//! A value that is watched: no change is missed, and the last is seen before the end.

use super::{count::Count, items::Steps, kept::Kept};
use executor::sync::watch;
use loom::{cell::UnsafeCell, thread};
use std::{sync::Arc, task::Poll};

/// What is done before a value is sent, and seen by who knows of the change.
#[derive(Default)]
struct Shared {
    value: UnsafeCell<usize>,
    steps: Steps,
}

// SAFETY: loom checks the accesses to the value.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn touch(&self) {
        // SAFETY: loom checks that nobody else does so.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn assert_touched(&self) {
        // SAFETY: as above.
        assert_eq!(self.value.with(|value| unsafe { *value }), 1);
    }

    /// Sends in another thread, and leaves.
    fn send(self: &Arc<Self>, sender: watch::Sender<usize>) -> thread::JoinHandle<()> {
        let shared = self.clone();
        thread::spawn(move || {
            shared.touch();
            shared.steps.step();
            sender.send(1).unwrap();
        })
    }
}

/// It changes while somebody comes to wait for that.
#[test]
fn change_against_wait() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (sender, mut receiver) = watch::channel(0);
        let (count, waker) = Count::new();
        let other = shared.send(sender.clone());
        let mut changed = Kept::new(receiver.changed());
        shared.steps.step();
        let early = changed.poll(&waker);
        if early.is_ready() {
            shared.assert_touched();
        }
        other.join().unwrap();
        if early.is_pending() {
            assert_eq!(count.get(), 1, "a wake-up was lost");
            assert_eq!(changed.poll(&waker), Poll::Ready(Ok(())));
        }
        changed.drop();
        drop(changed);
        assert_eq!(*receiver.borrow(), 1);
        assert_eq!(receiver.has_changed(), Ok(false));
    });
}

/// Who sees that it has changed sees what was done before, without looking at the value.
#[test]
fn change_against_look() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = watch::channel(0);
        let other = shared.send(sender.clone());
        shared.steps.step();
        if receiver.has_changed().unwrap() {
            shared.assert_touched();
        }
        other.join().unwrap();
    });
}

/// Whoever reads a value knows which it is: it is not new a second time.
#[test]
fn change_against_read() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (sender, mut receiver) = watch::channel(0);
        let other = shared.send(sender.clone());
        shared.steps.step();
        let read = *receiver.borrow_and_update();
        other.join().unwrap();
        assert_eq!(receiver.has_changed(), Ok(read == 0));
        assert_eq!(*receiver.borrow(), 1);
    });
}

/// Of two senders one sends and leaves, and the other leaves: the change is seen before the end.
#[test]
fn the_last_change_is_seen() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (sender, mut receiver) = watch::channel(0);
        let other = shared.send(sender.clone());
        let end = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.steps.step();
                drop(sender);
            })
        };
        let (_, waker) = Count::new();
        let mut changed = Kept::new(receiver.changed());
        shared.steps.step();
        if let Poll::Ready(early) = changed.poll(&waker) {
            assert!(early.is_ok(), "the end came before the change");
            changed.drop();
            changed = Kept::new(receiver.changed());
        }
        other.join().unwrap();
        end.join().unwrap();
        changed.drop();
        drop(changed);
        assert_eq!(*receiver.borrow(), 1);
        assert!(receiver.has_changed().is_err());
    });
}

/// All leave while somebody waits.
#[test]
fn end_against_wait() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (sender, mut receiver) = watch::channel(0);
        let (count, waker) = Count::new();
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.steps.step();
                drop(sender);
            })
        };
        let mut changed = Kept::new(receiver.changed());
        shared.steps.step();
        let early = changed.poll(&waker);
        other.join().unwrap();
        if early.is_pending() {
            assert_eq!(count.get(), 1, "a wake-up was lost");
            assert!(matches!(changed.poll(&waker), Poll::Ready(Err(_))));
        }
        changed.drop();
    });
}

/// The last receiver leaves while a sender waits for that.
#[test]
fn closed_against_leave() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = watch::channel(0);
        let (count, waker) = Count::new();
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.steps.step();
                drop(receiver);
            })
        };
        let mut closed = Kept::new(sender.closed());
        shared.steps.step();
        let early = closed.poll(&waker);
        other.join().unwrap();
        if early.is_pending() {
            assert_eq!(count.get(), 1, "a wake-up was lost");
            assert!(closed.poll(&waker).is_ready());
        }
        closed.drop();
    });
}

/// The value that was waited for is sent, and then the sender leaves.
#[test]
fn wait_for_against_change() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (sender, mut receiver) = watch::channel(0);
        let (count, waker) = Count::new();
        let other = shared.send(sender);
        let mut wait = Kept::new(receiver.wait_for(|value| *value == 1));
        shared.steps.step();
        let early = wait.poll(&waker).map(|found| *found.unwrap());
        other.join().unwrap();
        if early.is_pending() {
            assert!(count.get() >= 1, "a wake-up was lost");
            assert!(matches!(wait.poll(&waker), Poll::Ready(Ok(_))));
        }
        wait.drop();
    });
}
