//! Timers: one core fires, others cancel, move and wait.
//!
//! A [`Sleeper`] is what a `Sleep` does with its node. Where that would be
//! dropped, the model writes over all of the node, so loom finds whoever still
//! looks at it; the memory itself stays until the end of the model.

use super::count::Count;
use executor::time::timers::{Moved, Node, Timers};
use loom::{sync::Arc, thread};
use std::{pin::Pin, sync::Arc as StdArc, task::Waker};

/// A node that is registered at the timers, and its owner.
struct Sleeper {
    timers: Arc<Timers>,
    node: Pin<StdArc<Node>>,
}

impl Sleeper {
    fn new(timers: &Arc<Timers>, deadline: u64, waker: Waker) -> Self {
        let node = StdArc::pin(Node::idle());
        // SAFETY: it is registered nowhere, and every model cancels it or sees it fire.
        unsafe { timers.register(node.as_ref(), deadline, waker) }.unwrap();
        Self {
            timers: timers.clone(),
            node,
        }
    }

    /// What a poll does. True: it is over.
    fn poll(&self, waker: &Waker) -> bool {
        // SAFETY: it was registered there.
        self.node.has_fired() || !unsafe { self.timers.update_waker(self.node.as_ref(), waker) }
    }

    /// What a drop does; the memory is somebody else's after it.
    fn drop_node(&self) {
        // SAFETY: it was registered there.
        unsafe { self.timers.cancel(self.node.as_ref()) };
        self.node.overwrite_all();
    }
}

/// The sleep is dropped while the core fires it, or before, or after.
#[test]
fn cancel_against_fire() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (count, waker) = Count::new();
        let sleeper = Sleeper::new(&timers, 10, waker);
        let core = {
            let timers = timers.clone();
            thread::spawn(move || timers.expire(10))
        };
        sleeper.drop_node();
        let fired = core.join().unwrap();
        assert_eq!(count.get(), fired, "woken if and only if it fired");
        assert_eq!(timers.next(), u64::MAX);
    });
}

/// Two sleeps in one list, dropped while the core fires them.
#[test]
fn two_cancels_against_fire() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (count, waker) = Count::new();
        let sleepers = [10, 10].map(|deadline| Sleeper::new(&timers, deadline, waker.clone()));
        drop(waker);
        let core = {
            let timers = timers.clone();
            thread::spawn(move || timers.expire(10))
        };
        sleepers.iter().rev().for_each(Sleeper::drop_node);
        assert_eq!(core.join().unwrap(), count.get());
        assert_eq!(timers.next(), u64::MAX);
        assert!(count.is_alone(), "no waker is left behind");
    });
}

/// Neighbours in a list, dropped by two cores at once.
#[test]
fn cancel_against_cancel() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (count, waker) = Count::new();
        let [first, second, third] =
            [10, 10, 10].map(|deadline| Sleeper::new(&timers, deadline, waker.clone()));
        let other = thread::spawn(move || {
            first.drop_node();
            first
        });
        second.drop_node();
        let first = other.join().unwrap();
        assert_eq!(timers.expire(10), 1);
        assert_eq!(count.get(), 1);
        third.drop_node();
        drop((first, second));
    });
}

/// Two cores fire at once: each timer fires once.
#[test]
fn fire_against_fire() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (count, waker) = Count::new();
        let sleepers = [10, 10, 10].map(|deadline| Sleeper::new(&timers, deadline, waker.clone()));
        let core = {
            let timers = timers.clone();
            thread::spawn(move || timers.expire(10))
        };
        let fired = timers.expire(10);
        assert_eq!(fired + core.join().unwrap(), 3);
        assert_eq!(count.get(), 3);
        sleepers.iter().for_each(Sleeper::drop_node);
    });
}

/// The task that waits has moved: it polls with another waker while the core fires.
#[test]
fn waker_update_against_fire() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let ((first, first_waker), (second, second_waker)) = (Count::new(), Count::new());
        let sleeper = Sleeper::new(&timers, 10, first_waker);
        let core = {
            let timers = timers.clone();
            thread::spawn(move || timers.expire(10))
        };
        let is_over = sleeper.poll(&second_waker);
        core.join().unwrap();
        if is_over {
            assert_eq!((first.get(), second.get()), (1, 0));
        } else {
            assert_eq!((first.get(), second.get()), (0, 1), "a wake-up was lost");
        }
        assert!(sleeper.poll(&second_waker));
        sleeper.drop_node();
    });
}

/// The sleep is moved, which changes the wheel, while the core fires it.
#[test]
fn reset_against_fire() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (count, waker) = Count::new();
        let sleeper = Sleeper::new(&timers, 10, waker);
        let core = {
            let timers = timers.clone();
            thread::spawn(move || timers.expire(10))
        };
        // SAFETY: it was registered there.
        let moved = unsafe { timers.reset(sleeper.node.as_ref(), 20) };
        let fired = core.join().unwrap();
        assert_eq!(moved == Moved::HasFired, fired == 1);
        assert_eq!(timers.next(), if fired == 1 { u64::MAX } else { 20 });
        assert_eq!(timers.expire(20), 1 - fired);
        assert_eq!(count.get(), 1);
        sleeper.drop_node();
    });
}

/// Whoever sees that it fired, without the lock, has the node to himself.
#[test]
fn seen_fired_is_left_alone() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (_, waker) = Count::new();
        let sleeper = Sleeper::new(&timers, 10, waker);
        let core = {
            let timers = timers.clone();
            thread::spawn(move || timers.expire(10))
        };
        if sleeper.node.has_fired() {
            sleeper.node.overwrite_all();
        }
        core.join().unwrap();
    });
}

/// A timer is registered while the core fires another: it must not be forgotten.
#[test]
fn register_against_fire() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (count, waker) = Count::new();
        let first = Sleeper::new(&timers, 10, waker.clone());
        let core = {
            let timers = timers.clone();
            thread::spawn(move || timers.expire(10))
        };
        let second = Sleeper::new(&timers, 20, waker);
        core.join().unwrap();
        assert_eq!(timers.next(), 20, "nobody would look");
        assert_eq!(timers.expire(20), 1);
        assert_eq!(count.get(), 2);
        first.drop_node();
        second.drop_node();
    });
}

/// Two cores register the first timers: there is one wheel, with both in it.
#[test]
fn two_first_ones() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (count, waker) = Count::new();
        let other = {
            let (timers, waker) = (timers.clone(), waker.clone());
            thread::spawn(move || Sleeper::new(&timers, 20, waker))
        };
        let one = Sleeper::new(&timers, 10, waker);
        let other = other.join().unwrap();
        assert_eq!(timers.next(), 10);
        assert_eq!(timers.expire(20), 2);
        assert_eq!(count.get(), 2);
        one.drop_node();
        other.drop_node();
    });
}
