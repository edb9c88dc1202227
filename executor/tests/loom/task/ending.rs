//! Cancelling, finalizers, and joining, against all else.

use super::*;

/// Before the first poll, within it, or parked after it.
#[test]
fn cancel_against_a_poll() {
    in_both_ways(|with_care| {
        loom::model(move || {
            let task = Task::new(Script {
                awaits: 1,
                with_care,
                ..Script::default()
            });
            let canceller = spawn(&task, |task| {
                assert!(task.cancel());
                task.release();
            });
            task.run();
            canceller.join().unwrap();
            assert!(task.polls() <= 1);
            let mut handle = Handle::new(&task);
            assert!(handle.poll(0));
            handle.drop();
            assert_eq!(task.outcome(), Some(Outcome::Cancelled));
            task.check();
        })
    });
}

#[test]
fn cancel_against_the_end() {
    loom::model(|| {
        let task = Task::new(Script::default());
        let canceller = spawn(&task, |task| {
            task.cancel();
            task.release();
        });
        task.run();
        canceller.join().unwrap();
        detach(&task);
        task.check();
    });
}

#[test]
fn cancel_against_a_wake() {
    loom::model(|| {
        let task = Task::new(Script {
            awaits: 1,
            ..Script::default()
        });
        let here = task.retained();
        task.run();
        let canceller = spawn(&task, |task| {
            task.cancel();
            task.release();
        });
        fire_by_value(0)(&here);
        canceller.join().unwrap();
        detach(&task);
        task.check();
    });
}

#[test]
fn cancel_against_a_wake_and_a_poll() {
    in_both_ways(|with_care| {
        three_threads(move || {
            let task = Task::new(Script {
                awaits: 1,
                with_care,
                ..Script::default()
            });
            let waker = spawn(&task, fire_by_value(0));
            let canceller = spawn(&task, |task| {
                task.cancel();
                task.release();
            });
            task.run();
            waker.join().unwrap();
            canceller.join().unwrap();
            detach(&task);
            task.check();
        })
    });
}

/// Finalizers are not cancelled: whoever cancels comes before them, and they
/// run all the same, or while they run, and nothing happens.
#[test]
fn cancel_against_finalizers() {
    loom::model(|| {
        let task = Task::new(Script {
            finalizer_awaits: Some(1),
            ..Script::default()
        });
        let here = task.retained();
        let canceller = spawn(&task, |task| {
            task.cancel();
            task.release();
        });
        task.run();
        fire(0)(&here);
        canceller.join().unwrap();
        detach(&task);
        task.check();
    });
}

/// The wake that the finalizer waits for comes while the future ends.
#[test]
fn a_wake_against_finalizers() {
    loom::model(|| {
        let task = Task::new(Script {
            finalizer_awaits: Some(1),
            ..Script::default()
        });
        let waker = spawn(&task, fire(0));
        task.run();
        waker.join().unwrap();
        detach(&task);
        task.check();
    });
}

// ---- joining ----

#[test]
fn join_against_the_end() {
    loom::model(|| {
        let task = Task::new(Script::default());
        let mut handle = Handle::new(&task);
        let joiner = thread::spawn(move || {
            handle.wait(0);
            handle.drop();
        });
        task.run();
        joiner.join().unwrap();
        assert_eq!(task.outcome(), Some(Outcome::Output));
        task.check();
    });
}

/// The handle goes to another task, which has another waker, and waits there.
#[test]
fn join_by_another_against_the_end() {
    loom::model(|| {
        let task = Task::new(Script::default());
        let mut handle = Handle::new(&task);
        let joiner = thread::spawn(move || {
            if !handle.poll(0) {
                handle.wait(1);
            }
            handle.drop();
        });
        task.run();
        joiner.join().unwrap();
        assert_eq!(task.outcome(), Some(Outcome::Output));
        task.check();
    });
}

/// The handle waits, and is dropped before it has heard.
#[test]
fn drop_a_waiting_handle_against_the_end() {
    loom::model(|| {
        let task = Task::new(Script::default());
        let mut handle = Handle::new(&task);
        let joiner = thread::spawn(move || {
            handle.poll(0);
            handle.drop();
        });
        task.run();
        joiner.join().unwrap();
        task.check();
    });
}

/// The one who joins cancels first.
#[test]
fn cancel_and_join_against_a_poll() {
    loom::model(|| {
        let task = Task::new(Script {
            awaits: 1,
            ..Script::default()
        });
        let mut handle = Handle::new(&task);
        let joiner = thread::spawn(move || {
            assert!(handle.task.cancel());
            handle.wait(0);
            handle.drop();
        });
        task.run();
        joiner.join().unwrap();
        assert_eq!(task.outcome(), Some(Outcome::Cancelled));
        task.check();
    });
}

/// Handle and last waker go while the task ends: any of three frees it.
#[test]
fn drop_handle_and_waker_against_the_end() {
    loom::model(|| {
        let task = Task::new(Script::default());
        let waker = spawn(&task, Task::release);
        let handle = Handle::new(&task);
        let dropper = thread::spawn(move || handle.drop());
        task.run();
        waker.join().unwrap();
        dropper.join().unwrap();
        task.check();
    });
}
