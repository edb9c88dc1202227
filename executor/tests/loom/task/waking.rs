//! Wakes against polls.

use super::*;

/// Both events are seen by some poll, also if the second wake finds it queued
/// already, and there are no more polls than wakes ask for.
#[test]
fn two_wakers_and_a_poller() {
    in_both_ways(|with_care| {
        three_threads(move || {
            let task = Task::new(Script {
                awaits: 2,
                with_care,
                ..Script::default()
            });
            let wakers = [0, 1].map(|number| spawn(&task, fire(number)));
            task.run();
            wakers.into_iter().for_each(|waker| waker.join().unwrap());
            assert!(task.polls() <= 3);
            detach(&task);
            task.check();
        })
    });
}

/// A wake by value against the poll that ends the task, or parks it.
#[test]
fn a_wake_by_value_against_a_poll() {
    loom::model(|| {
        let task = Task::new(Script {
            awaits: 1,
            ..Script::default()
        });
        detach(&task);
        let waker = spawn(&task, fire_by_value(0));
        task.run();
        waker.join().unwrap();
        assert!(task.polls() <= 2);
        task.check();
    });
}

/// Two wakes by value of a parked task, which ends when it has seen `awaits`
/// events: the second finds it queued, running or done, and its own reference may be the last.
fn two_wakes_by_value(awaits: usize) {
    loom::model(move || {
        let task = Task::new(Script {
            awaits,
            ..Script::default()
        });
        detach(&task);
        let here = task.retained();
        task.run();
        let there = spawn(&task, fire_by_value(1));
        fire_by_value(0)(&here);
        there.join().unwrap();
        assert!(task.polls() <= 3);
        task.check();
    });
}

#[test]
fn two_wakes_by_value_of_which_the_first_ends_the_task() {
    two_wakes_by_value(1);
}

#[test]
fn two_wakes_by_value_which_end_the_task() {
    two_wakes_by_value(2);
}

/// The task ends at its first poll; a wake may come before, within, or after:
/// it is not polled again, and does not look as if it should be.
#[test]
fn a_wake_against_the_end() {
    loom::model(|| {
        let task = Task::new(Script::default());
        let waker = spawn(&task, fire(0));
        task.run();
        waker.join().unwrap();
        assert_eq!(task.polls(), 1);
        detach(&task);
        task.check();
    });
}

/// A clone of the waker is dropped, so the poll's end finds the state changed and
/// tries again; then the wake comes.
#[test]
fn a_dropped_waker_and_a_wake_against_the_end_of_a_poll() {
    loom::model(|| {
        let task = Task::new(Script {
            awaits: 1,
            ..Script::default()
        });
        let clone = task.retained();
        let waker = spawn(&task, move |task| {
            clone.release();
            fire(0)(task);
        });
        task.run();
        waker.join().unwrap();
        assert!(task.polls() <= 2);
        detach(&task);
        task.check();
    });
}

/// A task that yields is queued by that; a wake meanwhile does not queue it twice.
#[test]
fn a_wake_against_a_yield() {
    in_both_ways(|with_care| {
        loom::model(move || {
            let task = Task::new(Script {
                awaits: 1,
                yields: 1,
                with_care,
                ..Script::default()
            });
            let waker = spawn(&task, fire(0));
            task.run();
            waker.join().unwrap();
            assert!(task.polls() <= 3);
            detach(&task);
            task.check();
        })
    });
}
