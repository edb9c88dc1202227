//! Threads: functions that run by themselves, on the same cores as tasks.

use executor::{
    Priority, Runtime, TaskError,
    task::{self, spawn, wait, yield_now},
    thread::{self, Builder},
    time::{Duration, Instant},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::*},
};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

#[test]
fn threads_are_joined_by_threads_and_by_tasks() {
    for workers in [1, 3] {
        let total = runtime(workers).block_on(async {
            let outer = thread::spawn(|| {
                let inner: Vec<_> = (0..10).map(|n| thread::spawn(move || n * n)).collect();
                inner
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .sum::<u32>()
            });
            let task = spawn(async { thread::spawn(|| 15).await.unwrap() });
            outer.await.unwrap() + wait(task).unwrap()
        });
        assert_eq!(total, 300);
    }
}

#[test]
fn threads_on_one_core_take_turns_when_they_yield() {
    runtime(1).block_on(async {
        let turns = Arc::new(std::sync::Mutex::new(Vec::new()));
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let turns = turns.clone();
                thread::spawn(move || {
                    for _ in 0..4 {
                        turns.lock().unwrap().push(number);
                        thread::yield_now();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.await.unwrap();
        }
        let turns = turns.lock().unwrap().clone();
        // All have had their first turn before any has its second, and so on.
        for round in turns.chunks(3) {
            let mut sorted = round.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2], "{turns:?}");
        }
    });
}

/// Takes 4 KiB of stack, and as much again for each that is left.
#[inline(never)]
fn deep(left: usize) -> usize {
    let room = std::hint::black_box([left as u8; 4096]);
    if left == 0 {
        0
    } else {
        1 + deep(left - 1) + usize::from(room[0] != left as u8)
    }
}

#[test]
fn a_thread_has_a_name_an_id_and_its_own_stack_size() {
    let usual = || Builder::new().name("deep").stack_size(64 << 20);
    for builder in [usual(), usual().priority(Priority::High).core(1)] {
        runtime(2).block_on(async {
            let thread = builder.spawn(|| {
                assert_eq!(thread::current().name(), Some("deep"));
                assert_eq!(thread::current().id(), thread::id());
                // More than any other context has room for.
                let reached = deep(4000);
                thread::yield_now();
                (reached, thread::id())
            });
            let thread = thread.unwrap();
            let id = thread.thread().id();
            assert_eq!(thread.await.unwrap(), (4000, id));
        });
    }
    runtime(2).block_on(async {
        let mut reached = 0;
        thread::scope(|scope| {
            let thread = usual().spawn_scoped(scope, || reached = deep(4000));
            thread.unwrap();
        });
        assert_eq!(reached, 4000);
    });
}

#[test]
fn park_waits_for_unpark_and_remembers_one_that_came_before() {
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            let rounds = Arc::new(AtomicUsize::new(0));
            let parked = {
                let rounds = rounds.clone();
                thread::spawn(move || {
                    thread::current().unpark();
                    thread::park();
                    for round in 1..=100 {
                        rounds.store(round, Release);
                        thread::park();
                    }
                })
            };
            let handle = parked.thread();
            for round in 1..=100 {
                while rounds.load(Acquire) < round {
                    yield_now().await;
                }
                handle.unpark();
            }
            parked.await.unwrap();
        });
    }
}

#[test]
fn sleep_takes_its_time() {
    runtime(1).block_on(async {
        let start = Instant::now();
        thread::spawn(|| thread::sleep(Duration::from_millis(3)))
            .await
            .unwrap();
        assert!(start.elapsed() >= Duration::from_millis(3));
    });
}

#[test]
fn a_cancelled_thread_comes_back_from_park_and_sleep() {
    runtime(2).block_on(async {
        let begun = Arc::new(AtomicBool::new(false));
        let seen = begun.clone();
        let thread = thread::spawn(move || {
            seen.store(true, Release);
            while !task::is_cancelled() {
                thread::park();
            }
            thread::sleep(Duration::from_secs(1_000_000));
            17
        });
        while !begun.load(Acquire) {
            yield_now().await;
        }
        assert!(thread.cancel());
        assert_eq!(thread.await.unwrap(), 17);
        // One that has not begun does not.
        let thread = Builder::new()
            .core(0)
            .spawn(|| unreachable!("cancelled"))
            .unwrap();
        thread.cancel();
        assert!(matches!(thread.join(), Err(TaskError::Cancelled)));
    });
}

#[test]
fn a_thread_of_another_stack_size_that_never_runs_gives_its_stack_back() {
    runtime(1).block_on(async {
        for _ in 0..200 {
            let thread = Builder::new().stack_size(1 << 30).spawn(|| ()).unwrap();
            thread.cancel();
            assert!(thread.await.is_err());
        }
        for _ in 0..200 {
            Builder::new()
                .stack_size(1 << 30)
                .spawn(|| ())
                .unwrap()
                .await
                .unwrap();
        }
    });
}

#[test]
fn ten_thousand_threads_live_at_once() {
    runtime(2).block_on(async {
        let gate = Arc::new(AtomicBool::new(false));
        let waiting = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..10_000)
            .map(|number: usize| {
                let (gate, waiting) = (gate.clone(), waiting.clone());
                thread::spawn(move || {
                    waiting.fetch_add(1, Relaxed);
                    while !gate.load(Acquire) {
                        thread::park();
                    }
                    number
                })
            })
            .collect();
        while waiting.load(Relaxed) < 10_000 {
            yield_now().await;
        }
        gate.store(true, Release);
        for thread in &threads {
            thread.thread().unpark();
        }
        for (number, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.await.unwrap(), number);
        }
    });
}

#[test]
fn a_panicking_thread_is_an_error_for_who_joins_it() {
    runtime(1).block_on(async {
        let thread = thread::spawn(|| panic!("on purpose"));
        let joined: Result<(), _> = thread.join();
        assert!(
            matches!(joined, Err(TaskError::Panicked(panic)) if panic.message() == "on purpose")
        );
    });
}

#[test]
fn scoped_threads_borrow_and_are_joined_or_waited_for() {
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            let mut cells = [0; 10];
            let counted = AtomicUsize::new(0);
            let sum = thread::scope(|scope| {
                let threads: Vec<_> = cells
                    .iter_mut()
                    .enumerate()
                    .map(|(number, cell)| {
                        scope.spawn(move || {
                            thread::yield_now();
                            *cell = number;
                            number
                        })
                    })
                    .collect();
                for _ in 0..10 {
                    // Not joined, and one of them forgotten.
                    std::mem::forget(scope.spawn(|| {
                        thread::sleep(Duration::from_millis(1));
                        // From within another.
                        scope.spawn(|| counted.fetch_add(1, Relaxed));
                    }));
                }
                let ends = threads.into_iter().map(|thread| thread.join().unwrap());
                ends.sum::<usize>()
            });
            assert_eq!(sum, 45);
            assert!(cells.into_iter().eq(0..10));
            assert_eq!(counted.load(Relaxed), 10);
        });
    }
}

#[test]
fn a_panic_of_a_scoped_thread_is_its_joiners_or_else_the_scopes() {
    runtime(2).block_on(async {
        let kept = AtomicUsize::new(0);
        let joined = thread::scope(|scope| scope.spawn(|| panic!("on purpose")).join());
        assert!(matches!(joined, Err(TaskError::Panicked(_))));
        let scope = std::panic::AssertUnwindSafe(|| {
            thread::scope(|scope| {
                scope.spawn(|| panic!("on purpose"));
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(2));
                    kept.fetch_add(1, Relaxed);
                });
            });
        });
        assert!(std::panic::catch_unwind(scope).is_err());
        assert_eq!(kept.load(Relaxed), 1);
    });
}

#[test]
fn scoped_threads_have_names_and_stacks_and_are_cancelled_with_the_caller() {
    runtime(2).block_on(async {
        let parked = Arc::new(AtomicUsize::new(0));
        let seen = parked.clone();
        let caller = spawn(async move {
            let seen = &*seen;
            thread::scope(|scope| {
                let builder = || Builder::new().name("scoped").stack_size(1 << 20);
                let spawn = |_| {
                    builder().spawn_scoped(scope, || {
                        assert_eq!(thread::current().name(), Some("scoped"));
                        seen.fetch_add(1, Relaxed);
                        while !task::is_cancelled() {
                            thread::park();
                        }
                    })
                };
                let threads: Vec<_> = (0..4).map(spawn).collect();
                // The function waits for a thread, and not yet for the scope.
                threads
                    .into_iter()
                    .for_each(|thread| thread.unwrap().join().unwrap());
            });
        });
        while parked.load(Relaxed) < 4 {
            thread::sleep(Duration::from_micros(100));
        }
        caller.cancel();
        caller.await.unwrap();
    });
}

#[test]
fn what_an_unjoined_thread_returned_is_dropped_before_the_scope_ends() {
    struct Writes<'a>(&'a AtomicUsize);
    impl Drop for Writes<'_> {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(2));
            self.0.fetch_add(1, Relaxed);
        }
    }
    runtime(3).block_on(async {
        let dropped = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| Writes(&dropped));
            }
        });
        assert_eq!(dropped.load(Relaxed), 20);
    });
}

#[test]
fn yielding_under_a_guard_or_a_lock_says_so() {
    static LOCK: hal::sync::Lock<u32> = hal::sync::Lock::new(0);
    let runtime = runtime(1);
    runtime.block_on(async {
        let under_a_guard = thread::spawn(|| {
            let _guard = hal::preempt::guard();
            thread::yield_now();
        });
        let under_a_lock = thread::spawn(|| {
            let _locked = LOCK.lock();
            thread::yield_now();
        });
        // Would find it taken, for ever.
        let other = thread::spawn(|| *LOCK.lock() += 1);
        for thread in [under_a_guard, under_a_lock] {
            let error = thread.await.unwrap_err();
            assert!(
                format!("{error:?}").contains("under a guard or a lock"),
                "{error:?}"
            );
        }
        other.await.unwrap();
    });
}

#[test]
fn one_of_a_scope_that_could_not_be_spawned_does_not_run() {
    for workers in [1, 2] {
        let has_run = AtomicUsize::new(0);
        let runtime = runtime(workers);
        let scope = || {
            thread::scope(|scope| {
                let spawn = |builder: Builder| {
                    let spawned = builder.spawn_scoped(scope, || has_run.fetch_add(1, Relaxed));
                    spawned.map(drop)
                };
                assert!(spawn(Builder::new()).is_ok());
                for size in [1 << 60, usize::MAX] {
                    assert!(spawn(Builder::new().stack_size(size)).is_err());
                }
                // Cancelled before it begins, it runs all the same.
                let cancelled = scope.spawn(|| has_run.fetch_add(10, Relaxed));
                cancelled.cancel();
            });
        };
        runtime.block_on(async { scope() });
        assert_eq!(has_run.swap(0, Relaxed), 11);
    }
}
