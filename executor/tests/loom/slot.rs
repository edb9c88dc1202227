//! A slot of the list of tasks: one core fills it, one walks the list, one ends the task.

use executor::{
    scheduler::slot::Slot,
    task::state::{End, Place, State},
};
use loom::{cell::UnsafeCell, thread};
use std::sync::Arc;

/// What is known of a task.
struct Item {
    state: State,
    /// Written when it is made, and when it is freed.
    memory: UnsafeCell<bool>,
    /// Written by who finds it, within the count: what clears the slot comes after that.
    found: UnsafeCell<usize>,
}

struct List {
    slot: Slot,
    items: [Item; 2],
}

fn address(item: usize) -> usize {
    (item + 1) * 4
}

impl List {
    fn new() -> Arc<Self> {
        let item = || Item {
            state: State::new(Place::default()),
            memory: UnsafeCell::new(false),
            found: UnsafeCell::new(0),
        };
        Arc::new(Self {
            slot: Slot::new(),
            items: [item(), item()],
        })
    }

    /// Makes a task and gives it the slot, which is free.
    fn spawn(&self, number: usize) {
        // SAFETY: nobody knows of it; loom checks that.
        self.items[number]
            .memory
            .with_mut(|made| unsafe { *made = true });
        self.slot.fill(address(number));
    }

    fn free(&self, number: usize) {
        let item = &self.items[number];
        // SAFETY: the last reference is gone; loom checks that nobody looks any more.
        item.memory.with_mut(|made| unsafe {
            assert!(*made);
            *made = false;
        });
    }

    fn release(&self, number: usize) {
        if self.items[number].state.release() {
            self.free(number);
        }
    }

    /// Ends the task, whose handle is gone already.
    fn end(&self, number: usize) -> usize {
        self.slot.clear(address(number), 0, thread::yield_now);
        let item = &self.items[number];
        // SAFETY: nobody finds it any more, and who did has left; loom checks that.
        let found = item.found.with(|found| unsafe { *found });
        match item.state.end(false).unwrap() {
            End::Free => self.free(number),
            End::Quiet => {}
            End::WakeJoiner => unreachable!("there is no handle"),
        }
        found
    }

    /// Whoever walks the list finds a task, or none, and may keep it for a while.
    fn walk(&self) -> Option<usize> {
        let number = self.slot.look_up(
            || (),
            thread::yield_now,
            |address| {
                let number = address / 4 - 1;
                let item = &self.items[number];
                // SAFETY: found, so it is there; loom checks that it is seen whole, and stays.
                assert!(item.memory.with(|made| unsafe { *made }));
                item.state.retain();
                // SAFETY: the slot is locked; loom checks that.
                item.found.with_mut(|found| unsafe { *found += 1 });
                number
            },
        )?;
        // SAFETY: a reference is counted.
        assert!(self.items[number].memory.with(|made| unsafe { *made }));
        self.release(number);
        Some(number)
    }

    /// A running task without a handle.
    fn start(&self, number: usize) {
        let state = &self.items[number].state;
        let _ = state.start();
        assert!(!state.forget());
        assert!(!state.release());
    }
}

/// A walk against the end of the task that it may find, and against the next
/// task, which gets the slot.
#[test]
fn a_walk_against_the_end_of_a_task_and_the_next() {
    loom::model(|| {
        let list = List::new();
        list.spawn(0);
        list.start(0);
        list.start(1);
        let walker = {
            let list = list.clone();
            thread::spawn(move || list.walk())
        };
        let found = list.end(0);
        list.spawn(1);
        let walked = walker.join().unwrap();
        assert_eq!(found, usize::from(walked == Some(0)));
        let found = list.end(1);
        assert_eq!(found, usize::from(walked == Some(1)));
        assert_eq!(list.walk(), None);
        for item in &list.items {
            // SAFETY: all threads have ended.
            assert!(!item.memory.with(|made| unsafe { *made }), "it is freed");
        }
    });
}

/// Two walk at once.
#[test]
fn two_walks_against_the_end_of_a_task() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(2, |bound| bound.min(2)));
    builder.check(|| {
        let list = List::new();
        list.spawn(0);
        list.start(0);
        let walkers = [0, 1].map(|_| {
            let list = list.clone();
            thread::spawn(move || usize::from(list.walk().is_some()))
        });
        let found = list.end(0);
        let walked: usize = walkers.map(|walker| walker.join().unwrap()).iter().sum();
        assert_eq!(found, walked);
        // SAFETY: all threads have ended.
        assert!(!list.items[0].memory.with(|made| unsafe { *made }));
    });
}
