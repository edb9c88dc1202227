//! Barriers.

mod common;

use common::{Flag, poll, runtime};
use executor::{block_on_simple, spawn, sync::Barrier, task::yield_now, thread};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::Poll,
};

#[test]
fn for_none_or_one_it_does_not_wait() {
    for size in [0, 1] {
        let barrier = Barrier::new(size);
        for _ in 0..3 {
            assert!(block_on_simple(barrier.wait()).is_leader());
        }
    }
}

#[test]
fn all_go_on_when_the_last_comes_and_it_leads() {
    let barrier = Barrier::new(20);
    for _ in 0..3 {
        let flags: Vec<_> = (0..20).map(|_| Flag::new()).collect();
        let mut waiting: Vec<_> = (0..20).map(|_| Box::pin(barrier.wait())).collect();
        for (wait, flag) in waiting[..19].iter_mut().zip(&flags) {
            assert!(poll(wait.as_mut(), flag).is_pending());
        }
        assert!(flags.iter().all(|flag| !flag.is_set()));
        for (number, (wait, flag)) in waiting.iter_mut().zip(&flags).enumerate().rev() {
            let Poll::Ready(result) = poll(wait.as_mut(), flag) else {
                panic!("all are there");
            };
            assert_eq!(result.is_leader(), number == 19);
            assert_eq!(flag.is_set(), number != 19);
        }
    }
}

#[test]
fn one_that_is_dropped_was_not_there() {
    let barrier = Barrier::new(2);
    let flag = Flag::new();
    let mut dropped = Box::pin(barrier.wait());
    assert!(poll(dropped.as_mut(), &flag).is_pending());
    drop(dropped);
    let mut wait = pin!(barrier.wait());
    assert!(poll(wait.as_mut(), &flag).is_pending());
    assert!(poll(pin!(barrier.wait()), &flag).is_ready());
    assert!(poll(wait.as_mut(), &flag).is_ready());
}

#[test]
fn nobody_is_a_round_ahead_on_many_cores() {
    const TASKS: usize = 7;
    const ROUNDS: usize = 300;
    let runtime = runtime(4);
    let barrier = Arc::new(Barrier::new(TASKS));
    let [came, led] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| {
                let (barrier, came, led) = (barrier.clone(), came.clone(), led.clone());
                spawn(async move {
                    for round in 1..=ROUNDS {
                        came.fetch_add(1, Relaxed);
                        if (number + round) % 3 == 0 {
                            yield_now().await;
                        }
                        let result = barrier.wait().await;
                        led.fetch_add(usize::from(result.is_leader()), Relaxed);
                        let came = came.load(Relaxed);
                        assert!((round * TASKS..(round + 1) * TASKS).contains(&came));
                        // The next round does not begin before all have looked.
                        barrier.wait().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(came.load(Relaxed), ROUNDS * TASKS);
    assert_eq!(led.load(Relaxed), ROUNDS);
}

#[test]
fn threads_and_tasks_meet_at_one() {
    let runtime = runtime(2);
    let barrier = Arc::new(Barrier::new(3));
    runtime.block_on(async {
        let threads = [(); 2].map(|()| {
            let barrier = barrier.clone();
            thread::spawn(move || barrier.wait_blocking().is_leader())
        });
        let mut leaders = usize::from(barrier.wait().await.is_leader());
        for thread in threads {
            leaders += usize::from(thread.await.unwrap());
        }
        assert_eq!(leaders, 1);
    });
}
