//! Second entries in queues against the first, wakes, cancellations and the end.
//!
//! The first entry is what `Task::new` begins with; who calls `run` takes it out of its queue. A proxy has a reference.

use super::*;

fn proxy(task: &Task) {
    task.run_by_proxy();
    task.release();
}

/// The two entries of a task that ends in its first poll.
#[test]
fn two_entries_and_one_poll() {
    in_both_ways(|with_care| {
        loom::model(move || {
            let task = Task::new(Script {
                with_care,
                ..Script::default()
            });
            detach(&task);
            let second = spawn(&task, proxy);
            task.run();
            second.join().unwrap();
            assert_eq!(task.polls(), 1);
            task.check();
        })
    });
}

/// Whoever polls it first, it waits, and is woken: also if its first entry is still in a queue, or just comes out.
#[test]
fn two_entries_and_a_wake() {
    in_both_ways(|with_care| {
        three_threads(move || {
            let task = Task::new(Script {
                awaits: 1,
                with_care,
                ..Script::default()
            });
            detach(&task);
            let second = spawn(&task, proxy);
            let waker = spawn(&task, fire(0));
            task.run();
            second.join().unwrap();
            waker.join().unwrap();
            assert!(task.polls() <= 2);
            task.check();
        })
    });
}

/// The second entry has polled it, and it waits; then it is woken while the first comes out.
#[test]
fn a_wake_against_an_entry_that_does_not_count() {
    loom::model(|| {
        let task = Task::new(Script {
            awaits: 1,
            with_care: true,
            ..Script::default()
        });
        detach(&task);
        task.state().retain();
        proxy(&task);
        let waker = spawn(&task, fire(0));
        task.run();
        waker.join().unwrap();
        assert_eq!(task.polls(), 2);
        task.check();
    });
}

/// It yields in the poll of its second entry: then the first counts again.
#[test]
fn an_entry_counts_again() {
    loom::model(|| {
        let task = Task::new(Script {
            yields: 1,
            with_care: true,
            ..Script::default()
        });
        detach(&task);
        let second = spawn(&task, proxy);
        task.run();
        second.join().unwrap();
        assert_eq!(task.polls(), 2);
        task.check();
    });
}

/// Two second entries, as one who is boosted twice has.
#[test]
fn three_entries_and_two_polls() {
    three_threads(|| {
        let task = Task::new(Script {
            yields: 1,
            with_care: true,
            ..Script::default()
        });
        detach(&task);
        let others = [spawn(&task, proxy), spawn(&task, proxy)];
        task.run();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(task.polls(), 2);
        task.check();
    });
}

/// It is cancelled at any moment.
#[test]
fn two_entries_and_a_cancellation() {
    three_threads(|| {
        let task = Task::new(Script {
            awaits: 1,
            with_care: true,
            ..Script::default()
        });
        detach(&task);
        let second = spawn(&task, proxy);
        let canceller = spawn(&task, |task| {
            task.cancel();
            task.release();
        });
        task.run();
        second.join().unwrap();
        canceller.join().unwrap();
        task.check();
    });
}

/// It is boosted while it is taken out of its queue, polled, parked or ended; and let go of again.
#[test]
fn a_boost_against_a_dequeue_and_a_release() {
    in_both_ways(|with_care| {
        three_threads(move || {
            let task = Task::new(Script {
                awaits: 1,
                with_care,
                ..Script::default()
            });
            detach(&task);
            let booster = spawn(&task, |task| {
                if let Change::Queued(word) = task.state().set_level(3, None) {
                    assert!(word.is_boosted());
                    task.run_by_proxy();
                }
                let _ = task.state().set_level(task.state().now().base(), None);
                task.release();
            });
            let waker = spawn(&task, fire(0));
            task.run();
            booster.join().unwrap();
            waker.join().unwrap();
            assert!(task.polls() <= 2);
            task.check();
        })
    });
}

/// The handle awaits it: the outcome comes to it, and the last reference may be that of an entry that does not count.
#[test]
fn two_entries_and_a_handle() {
    three_threads(|| {
        let task = Task::new(Script {
            with_care: true,
            ..Script::default()
        });
        let mut handle = Handle::new(&task);
        let second = spawn(&task, proxy);
        let joiner = thread::spawn(move || {
            handle.wait(0);
            handle.drop();
        });
        task.run();
        second.join().unwrap();
        joiner.join().unwrap();
        assert_eq!(task.outcome(), Some(Outcome::Output));
        task.check();
    });
}
