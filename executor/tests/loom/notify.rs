//! Notifications: none is lost, and none is had twice.

use super::{count::Count, items::Steps, kept::Kept};
use executor::sync::{Event, Notify};
use loom::{cell::UnsafeCell, thread};
use std::{
    sync::Arc,
    task::{Poll, Waker},
};

/// What is to be looked at by who is notified.
#[derive(Default)]
struct Shared {
    notify: Notify,
    event: Event,
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

    /// Does something, and says so, in another thread.
    fn after_touch(self: &Arc<Self>, notify: fn(&Self)) -> thread::JoinHandle<()> {
        let shared = self.clone();
        thread::spawn(move || {
            shared.touch();
            shared.steps.step();
            notify(&shared);
        })
    }
}

/// One is notified while he comes.
#[test]
fn notify_one_against_wait() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (count, waker) = Count::new();
        let mut notified = Kept::new(shared.notify.notified());
        let other = shared.after_touch(|shared| shared.notify.notify_one());
        shared.steps.step();
        let early = notified.poll(&waker);
        if early.is_ready() {
            shared.assert_touched();
        }
        other.join().unwrap();
        if early.is_pending() {
            assert_eq!(count.get(), 1, "a notification was lost");
            assert!(notified.poll(&waker).is_ready());
        }
        notified.drop();
        let mut again = Kept::new(shared.notify.notified());
        assert!(again.poll(&waker).is_pending(), "it was one, not two");
        again.drop();
    });
}

/// All are notified while one comes who was there before: he must not miss it.
#[test]
fn notify_waiters_against_wait() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (count, waker) = Count::new();
        let mut notified = Kept::new(shared.notify.notified());
        let other = shared.after_touch(|shared| shared.notify.notify_waiters());
        shared.steps.step();
        let early = notified.poll(&waker);
        if early.is_ready() {
            shared.assert_touched();
        }
        other.join().unwrap();
        if early.is_pending() {
            assert_eq!(count.get(), 1, "a notification was lost");
            assert!(notified.poll(&waker).is_ready());
        }
        notified.drop();
    });
}

/// The first of two gives up while he is notified: then the second is.
#[test]
fn drop_against_notify_one() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (count, waker) = Count::new();
        let mut first = Kept::new(shared.notify.notified());
        let mut second = Kept::new(shared.notify.notified());
        assert!(first.poll(Waker::noop()).is_pending());
        assert!(second.poll(&waker).is_pending());
        let other = shared.after_touch(|shared| shared.notify.notify_one());
        shared.steps.step();
        first.drop();
        other.join().unwrap();
        assert_eq!(count.get(), 1, "a notification was lost");
        assert!(second.poll(&waker).is_ready());
        second.drop();
    });
}

/// The only one gives up while he is notified: the notification is stored, once.
#[test]
fn drop_of_the_last_against_notify_one() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let mut only = Kept::new(shared.notify.notified());
        assert!(only.poll(Waker::noop()).is_pending());
        let other = shared.after_touch(|shared| shared.notify.notify_one());
        shared.steps.step();
        only.drop();
        other.join().unwrap();
        let mut next = [(); 2].map(|()| Kept::new(shared.notify.notified()));
        let polls = next.each_mut().map(|next| next.poll(Waker::noop()));
        assert_eq!(polls, [Poll::Ready(()), Poll::Pending]);
        next.iter_mut().for_each(Kept::drop);
    });
}

/// One and all are notified at once: of two who wait, both are.
#[test]
fn notify_one_against_notify_waiters() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let mut both = [(); 2].map(|()| Kept::new(shared.notify.notified()));
        for notified in &mut both {
            assert!(notified.poll(Waker::noop()).is_pending());
        }
        let other = shared.after_touch(|shared| shared.notify.notify_waiters());
        shared.steps.step();
        shared.notify.notify_one();
        other.join().unwrap();
        for notified in &mut both {
            assert!(notified.poll(Waker::noop()).is_ready());
            notified.drop();
        }
    });
}

/// An event happens while one comes.
#[test]
fn event_against_wait() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let (count, waker) = Count::new();
        let other = shared.after_touch(|shared| shared.event.set());
        shared.steps.step();
        let mut wait = Kept::new(shared.event.wait());
        shared.steps.step();
        let early = wait.poll(&waker);
        if early.is_ready() {
            shared.assert_touched();
        }
        other.join().unwrap();
        if early.is_pending() {
            assert_eq!(count.get(), 1, "nobody told him");
            assert!(wait.poll(&waker).is_ready());
        }
        wait.drop();
    });
}
