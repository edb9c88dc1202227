//! A context: a poll that is left in the middle, by waiting or by giving way,
//! and goes on wherever it is resumed. What it has on its stack goes with it.

use executor::task::state::{Pause, Place, State, Wake, Word};
use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::*},
    thread,
};
use std::sync::Arc;

/// The state of a task of normal priority that is polled in it.
fn task() -> State {
    let state = State::new(Place {
        level: 1,
        ..Place::default()
    });
    let _ = state.start();
    state
}

struct Context {
    state: State,
    /// Written by whoever runs it: loom finds out if two do.
    stack: UnsafeCell<usize>,
    /// What it waits for.
    has_come: AtomicBool,
    /// It has seen that.
    is_done: AtomicBool,
    /// Entries in queues.
    queued: AtomicUsize,
}

impl Context {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: State::of_context(),
            stack: UnsafeCell::new(0),
            has_come: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
            queued: AtomicUsize::new(0),
        })
    }

    fn push(&self, word: Word) {
        assert!(word.is_context() && word.level() == 1);
        assert_eq!(
            self.queued.fetch_add(1, Relaxed),
            0,
            "in two queues at once"
        );
    }

    /// A core takes it out of a queue and goes on with it, until it is left again.
    fn resume_if_queued(&self) {
        // Relaxed: what orders is the word.
        while self.queued.swap(0, Relaxed) == 1 {
            self.state.start();
            self.run(false);
        }
    }

    /// What the poll does: looks, and waits if it has not come. It may give way between the two.
    fn run(&self, gives_way: bool) {
        // SAFETY: who runs it is alone; loom checks that.
        self.stack.with_mut(|stack| unsafe { *stack += 1 });
        if self.has_come.load(Acquire) {
            return self.is_done.store(true, Relaxed);
        }
        // One that gives way looks again, instead of waiting, when it goes on.
        if let Pause::Again(word) = self.state.suspend(&task(), gives_way) {
            self.push(word);
        }
    }

    /// What it waits for comes.
    fn wake(&self) {
        self.has_come.store(true, Release);
        if let Wake::Queue(word) = self.state.wake() {
            self.push(word);
        }
    }
}

fn a_wake_is_not_lost(gives_way: bool) {
    loom::model(move || {
        let context = Context::new();
        let waker = {
            let context = context.clone();
            thread::spawn(move || {
                context.wake();
                context.resume_if_queued();
            })
        };
        context.run(gives_way);
        context.resume_if_queued();
        waker.join().unwrap();
        context.resume_if_queued();
        assert!(context.is_done.load(Relaxed), "it waits for what has come");
    });
}

#[test]
fn a_poll_that_waits_is_resumed_when_it_is_woken() {
    a_wake_is_not_lost(false);
}

#[test]
fn a_poll_that_gave_way_looks_again_and_is_resumed() {
    a_wake_is_not_lost(true);
}

/// A task is boosted, and then its context, which is being left: when both are done it is of that level, so that it is woken to that.
#[test]
fn a_boost_reaches_a_context_that_is_being_left() {
    loom::model(|| {
        let both = Arc::new((task(), State::of_context()));
        let left = both.clone();
        let leaves = thread::spawn(move || {
            let _ = left.1.suspend(&left.0, false);
        });
        let _ = both.0.set_level(3, None);
        let _ = both.1.set_level(3, None);
        leaves.join().unwrap();
        assert_eq!(both.1.now().level(), 3);
    });
}
