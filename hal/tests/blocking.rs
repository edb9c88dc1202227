//! Threads beside the cores.

use hal::blocking::Threads;
use std::{
    sync::{Arc, Barrier, Mutex, mpsc},
    time::Duration,
};

const STACK: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Runs a job on a thread that stays for good when it is idle.
fn run(threads: &Threads, job: impl FnOnce() + Send + 'static) {
    let job: Job = Box::new(job);
    let result = threads.run(job, |job| job(), STACK, Duration::MAX);
    assert!(result.is_ok(), "the OS has threads");
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

#[test]
fn there_are_as_many_as_have_something_to_do_and_no_more_than_may_be() {
    let threads = Threads::new(4);
    assert_eq!(threads.count(), 0);
    let all = Arc::new(Barrier::new(5));
    for _ in 0..4 {
        let all = all.clone();
        run(&threads, move || {
            all.wait();
        });
    }
    // They are all in it at once.
    all.wait();
    assert_eq!(threads.count(), 4);
    let (tell, told) = mpsc::channel();
    for number in 0..100 {
        let tell = tell.clone();
        run(&threads, move || tell.send(number).unwrap());
    }
    let mut numbers: Vec<_> = told.iter().take(100).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    assert_eq!(threads.count(), 4);
    threads.end();
    until(|| threads.count() == 0);
}

#[test]
fn one_thread_takes_jobs_in_the_order_they_came_and_survives_their_panics() {
    let threads = Threads::new(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let (tell, told) = mpsc::channel();
    for number in 0..100 {
        let order = order.clone();
        run(&threads, move || order.lock().unwrap().push(number));
    }
    run(&threads, || panic!("on purpose"));
    run(&threads, move || tell.send(()).unwrap());
    told.recv().unwrap();
    assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
    // What is queued is done before the end.
    let (lets_go, let_go) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    run(&threads, move || {
        let _ = let_go.recv();
    });
    run(&threads, move || tell.send(()).unwrap());
    threads.end();
    drop(lets_go);
    told.recv().unwrap();
    until(|| threads.count() == 0);
}

#[test]
fn a_thread_that_was_idle_for_long_enough_ends() {
    let threads = Threads::new(8);
    for _ in 0..3 {
        let all = Arc::new(Barrier::new(8));
        for _ in 0..8 {
            let idle = Duration::from_millis(1);
            let run = threads.run(all.clone(), |all| _ = all.wait(), STACK, idle);
            assert!(run.is_ok(), "the OS has threads");
        }
        until(|| threads.count() == 0);
    }
}
