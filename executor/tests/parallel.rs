//! Functions side by side, that borrow from whoever waits for them.
#![cfg(not(loom))]

use executor::{
    Runtime, parallel,
    scheduler::policy::{Fifo, Policy, Reason, Runnable},
    task::{self, spawn, wait, yield_now},
    time::{Duration, sleep},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
    },
};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

#[test]
fn functions_borrow_disjoint_parts_and_all_have_run() {
    for workers in [1, 4] {
        runtime(workers).block_on(async {
            let mut cells = vec![0_usize; 2000];
            let answer = parallel::scope(|scope| {
                for (number, cell) in cells.iter_mut().enumerate() {
                    scope.spawn(move || *cell = number + 1);
                }
                42
            });
            assert_eq!(answer, 42);
            assert!(cells.into_iter().eq(1..=2000));
        });
    }
}

#[test]
fn functions_spawn_more_and_wait() {
    fn tree<'scope, 'env>(
        scope: &'scope parallel::Scope<'scope, 'env>,
        count: &'env AtomicUsize,
        left: usize,
    ) {
        scope.spawn(move || {
            wait(yield_now());
            count.fetch_add(1, Relaxed);
            if left > 0 {
                tree(scope, count, left - 1);
                tree(scope, count, left - 1);
            }
        });
    }
    for workers in [1, 3] {
        let count = AtomicUsize::new(0);
        runtime(workers).block_on(async { parallel::scope(|scope| tree(scope, &count, 8)) });
        assert_eq!(count.load(Relaxed), 511);
    }
}

#[test]
fn join_goes_down_and_gives_both_results() {
    fn count(numbers: &mut [u32]) -> usize {
        if let [number] = numbers {
            *number += 1;
            return 1;
        }
        let (left, right) = numbers.split_at_mut(numbers.len() / 2);
        let (left, right) = parallel::join(|| count(left), || count(right));
        left + right
    }
    for workers in [1, 4] {
        let mut numbers: Vec<u32> = (0..1000).collect();
        assert_eq!(
            runtime(workers).block_on(async { count(&mut numbers) }),
            1000
        );
        assert!(numbers.into_iter().eq(1..=1000));
    }
}

#[test]
fn the_first_of_two_need_not_be_send() {
    runtime(2).block_on(async {
        let shared = std::rc::Rc::new(5);
        let own = shared.clone();
        assert_eq!(parallel::join(move || own, || 6), (shared, 6));
    });
}

#[test]
fn a_panic_goes_on_when_all_have_run() {
    runtime(3).block_on(async {
        let run = AtomicUsize::new(0);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            parallel::scope(|scope| {
                for number in 0..20 {
                    let run = &run;
                    scope.spawn(move || {
                        wait(sleep(Duration::from_micros(100)));
                        run.fetch_add(1, Relaxed);
                        assert!(number != 3, "on purpose");
                    });
                }
            });
        }));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"on purpose"));
        assert_eq!(run.load(Relaxed), 20);
        for second_panics in [false, true] {
            let run = AtomicUsize::new(0);
            let part = |panics: bool| {
                run.fetch_add(1, Relaxed);
                assert!(!panics, "on purpose");
            };
            let both = AssertUnwindSafe(|| {
                parallel::join(|| part(!second_panics), || part(second_panics));
            });
            assert!(catch_unwind(both).is_err());
            assert_eq!(run.load(Relaxed), 2);
        }
    });
}

#[test]
fn every_function_runs_also_when_the_caller_was_cancelled() {
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            let begun = Arc::new(AtomicBool::new(false));
            let seen = begun.clone();
            let (run, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (counted, heard) = (run.clone(), told.clone());
            let caller = spawn(async move {
                let (run, told) = (&*counted, &*heard);
                parallel::scope(|scope| {
                    for _ in 0..100 {
                        scope.spawn(|| {
                            seen.store(true, Relaxed);
                            // Cut short when it is cancelled.
                            if task::try_wait(sleep(Duration::from_secs(100))).is_err() {
                                told.fetch_add(usize::from(task::is_cancelled()), Relaxed);
                            }
                            run.fetch_add(1, Relaxed);
                        });
                    }
                });
                assert_eq!(run.load(Relaxed), 100);
            });
            while !begun.load(Relaxed) {
                sleep(Duration::from_micros(50)).await;
            }
            caller.cancel();
            caller.await.unwrap();
            assert_eq!((run.load(Relaxed), told.load(Relaxed)), (100, 100));
        });
    }
}

#[test]
fn a_function_that_has_not_begun_when_the_caller_is_cancelled_still_runs() {
    runtime(1).block_on(async {
        let caller = spawn(async {
            let (run, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
            parallel::scope(|scope| {
                for _ in 0..100 {
                    scope.spawn(|| {
                        run.fetch_add(1, Relaxed);
                        told.fetch_add(usize::from(task::is_cancelled()), Relaxed);
                    });
                }
                task::current().cancel();
            });
            (run.into_inner(), told.into_inner())
        });
        assert_eq!(caller.await.unwrap(), (100, 100));
    });
}

#[test]
fn every_function_runs_also_under_a_policy_that_drops_it() {
    #[derive(Default)]
    struct Drops(Fifo, AtomicUsize);
    impl Policy for Drops {
        fn push(&self, task: Runnable, reason: Reason) {
            if reason == Reason::Spawned && self.1.fetch_add(1, Relaxed).is_multiple_of(3) {
                return drop(task);
            }
            self.0.push(task, reason);
        }
        fn pop(&self) -> Option<Runnable> {
            self.0.pop()
        }
        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }
    let builder = Runtime::builder().workers(2);
    let runtime = builder.policy(|_| Box::<Drops>::default()).build().unwrap();
    runtime.block_on(async {
        let mut cells = [0; 100];
        parallel::scope(|scope| {
            for cell in &mut cells {
                scope.spawn(|| *cell = 1);
            }
        });
        assert_eq!(cells.iter().sum::<i32>(), 100);
        // Tasks are cancelled by it, and waited for.
        let results = task::nursery_independent(|scope| {
            for cell in &mut cells {
                scope.spawn(async {
                    yield_now().await;
                    *cell = 2;
                    Ok::<_, ()>(())
                });
            }
        });
        let done = cells.iter().filter(|cell| **cell == 2).count();
        assert_eq!(results.iter().flatten().count(), done);
        assert!((60..70).contains(&done), "{done}");
    });
}

#[test]
fn every_function_runs_also_when_the_runtime_is_shut_down() {
    for round in 0..20 {
        let runtime = runtime(1 + round % 3);
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..5 {
            let (begun, ended) = (begun.clone(), ended.clone());
            let caller = runtime.spawn(async move {
                begun.fetch_add(1, Relaxed);
                let mut cells = [0; 20];
                parallel::scope(|scope| {
                    for cell in &mut cells {
                        scope.spawn(|| *cell = 1);
                    }
                });
                assert_eq!(cells.iter().sum::<i32>(), 20);
                ended.fetch_add(1, Relaxed);
            });
            caller.detach();
        }
        runtime.block_on(async { yield_now().await });
        runtime.shutdown_now();
        assert_eq!(begun.load(Relaxed), ended.load(Relaxed));
    }
}
