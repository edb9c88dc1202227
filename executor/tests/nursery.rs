//! Nurseries: tasks that borrow from the stack of whoever waits for them.
#![cfg(not(loom))]

use executor::{
    Runtime,
    task::{
        self, Builder, ChildError, Scope, TaskError, nursery, nursery_independent, on_exit, spawn,
        spawn_local, try_wait, wait, yield_now,
    },
    time::{Duration, sleep},
};
use std::{
    cell::Cell,
    future::{pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
    },
    task::Poll,
};

#[path = "nursery/cancelled.rs"]
mod cancelled;
#[path = "nursery/ended.rs"]
mod ended;

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Writes into what it borrows when it is dropped, after a while.
struct Writes<'a>(&'a AtomicUsize);

impl Drop for Writes<'_> {
    fn drop(&mut self) {
        wait(sleep(Duration::from_millis(2)));
        self.0.fetch_add(1, Relaxed);
    }
}

/// Lets others run so often.
async fn yields(times: usize) {
    for _ in 0..times {
        yield_now().await;
    }
}

/// A task that is cancelled ends in this error.
fn is_cancelled<E>(error: &ChildError<E>) -> bool {
    matches!(error, ChildError::Task(TaskError::Cancelled))
}

#[test]
fn children_read_and_write_what_is_around_the_nursery() {
    for workers in [1, 4] {
        let sums = runtime(workers).block_on(async {
            let numbers: Vec<u64> = (0..1000).collect();
            let mut squares = vec![0; numbers.len()];
            let sums = nursery(|scope| {
                for (from, to) in numbers.chunks(10).zip(squares.chunks_mut(10)) {
                    scope.spawn(async move {
                        for (from, to) in from.iter().zip(to) {
                            yields(*from as usize % 3).await;
                            *to = from * from;
                        }
                        Ok::<_, ()>(from.iter().sum::<u64>())
                    });
                }
            });
            assert!(
                numbers
                    .iter()
                    .zip(&squares)
                    .all(|(n, square)| n * n == *square)
            );
            sums.unwrap()
        });
        let expected = (0..100).map(|chunk| 100 * chunk + 45);
        assert_eq!(sums, expected.collect::<Vec<_>>(), "in order");
    }
}

#[test]
fn results_may_borrow_what_outlives_the_nursery() {
    runtime(2).block_on(async {
        let text = String::from("a bb ccc");
        let words = nursery(|scope| {
            for word in text.split(' ') {
                scope.spawn(async move { Ok::<&str, ()>(word) });
            }
        });
        assert_eq!(words.unwrap(), ["a", "bb", "ccc"]);
    });
}

#[test]
fn in_an_independent_nursery_an_error_leaves_the_others_alone() {
    runtime(2).block_on(async {
        let results = nursery_independent(|scope| {
            for number in 0..10 {
                scope.spawn(async move {
                    yields(number).await;
                    assert!(number != 5, "on purpose");
                    if number % 2 == 0 {
                        Ok(number)
                    } else {
                        Err(number)
                    }
                });
            }
        });
        for (number, result) in results.into_iter().enumerate() {
            match result {
                Ok(even) => assert_eq!(even, number),
                Err(ChildError::Failed(odd)) => assert_eq!(odd, number),
                Err(ChildError::Task(error)) => {
                    assert!(matches!(error, TaskError::Panicked(_)) && number == 5);
                }
            }
        }
    });
}

#[test]
fn nurseries_nest() {
    fn depth<'a>(left: usize, count: &'a AtomicUsize, path: &'a [usize]) -> usize {
        count.fetch_add(1, Relaxed);
        if left == 0 {
            return path.len();
        }
        let sums = nursery(|scope| {
            for child in 0..3 {
                scope.spawn(async move {
                    // On this child's stack, and borrowed by the next one down.
                    let longer: Vec<usize> = path.iter().copied().chain([child]).collect();
                    yields(child).await;
                    Ok::<_, ()>(depth(left - 1, count, &longer))
                });
            }
        });
        sums.unwrap().iter().sum()
    }
    for workers in [1, 4] {
        let count = AtomicUsize::new(0);
        let total = runtime(workers).block_on(async { depth(5, &count, &[]) });
        assert_eq!(total, 243 * 5);
        assert_eq!(count.load(Relaxed), 1 + 3 + 9 + 27 + 81 + 243);
    }
}

#[test]
fn a_nursery_in_the_function_of_another_shares_what_that_borrows() {
    runtime(2).block_on(async {
        let mut numbers = [1, 2, 3, 4];
        let (left, right) = numbers.split_at_mut(2);
        let outer = nursery(|outer| {
            outer.spawn(async {
                yields(10).await;
                left.iter_mut().for_each(|number| *number *= 10);
                Ok::<_, ()>(())
            });
            let inner = nursery(|inner| {
                for number in &mut *right {
                    inner.spawn(async move {
                        *number *= 100;
                        Ok::<_, ()>(*number)
                    });
                }
            });
            assert_eq!(inner.unwrap(), [300, 400]);
            assert_eq!(right, [300, 400]);
        });
        outer.unwrap();
        assert_eq!(numbers, [10, 20, 300, 400]);
    });
}

#[test]
fn thousands_of_children_and_their_order() {
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            let mut cells = vec![0_usize; 5000];
            let results = nursery(|scope| {
                for (number, cell) in cells.iter_mut().enumerate() {
                    scope.spawn(async move {
                        yields(number % 4).await;
                        *cell = number + 1;
                        Ok::<_, ()>(number)
                    });
                }
                assert!(scope.live() <= 5000);
            });
            assert!(results.unwrap().into_iter().eq(0..5000));
            assert!(cells.into_iter().eq(1..=5000));
        });
    }
}

#[test]
fn children_spawn_siblings() {
    fn tree<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env, usize, ()>,
        count: &'env AtomicUsize,
        left: usize,
    ) {
        scope.spawn(async move {
            count.fetch_add(1, Relaxed);
            yields(left % 3).await;
            if left > 0 {
                tree(scope, count, left - 1);
                tree(scope, count, left - 1);
            }
            Ok(left)
        });
    }
    for workers in [1, 3] {
        let count = AtomicUsize::new(0);
        let results = runtime(workers)
            .block_on(async { nursery(|scope| tree(scope, &count, 8)) })
            .unwrap();
        assert_eq!(results.len(), 511);
        assert_eq!(results[0], 8, "the first that was spawned");
        assert_eq!(count.load(Relaxed), 511);
    }
}

#[test]
fn a_child_knows_its_name_and_whose_it_is() {
    runtime(2).block_on(async {
        let caller = task::id();
        let result = nursery(|scope| {
            scope.spawn_with(Builder::new().name("child").core(1), async {
                assert_eq!(task::current().name(), Some("child"));
                assert_eq!(task::parent(), Some(caller));
                Ok::<_, ()>(1)
            });
            scope.spawn_background(Builder::new(), async { Ok(()) });
        });
        assert_eq!(result.unwrap(), [1]);
    });
}

#[test]
fn local_tasks_have_nurseries_too() {
    runtime(2).block_on(async {
        let local = spawn_local(async {
            let (count, mine) = (AtomicUsize::new(0), Cell::new(1));
            nursery(|scope| {
                for _ in 0..10 {
                    scope.spawn(async {
                        yield_now().await;
                        count.fetch_add(1, Relaxed);
                        Ok::<_, ()>(())
                    });
                }
                mine.set(2);
            })
            .unwrap();
            count.load(Relaxed) + mine.get()
        });
        assert_eq!(local.await.unwrap(), 12);
    });
}

#[test]
fn an_empty_nursery_needs_no_runtime_and_a_child_does() {
    let nothing = nursery(|_: &Scope<'_, '_, (), ()>| {});
    assert!(nothing.unwrap().is_empty());
    let panic = catch_unwind(|| nursery(|scope| _ = scope.spawn(async { Ok::<_, ()>(()) })));
    let message = panic.unwrap_err();
    let message = message.downcast_ref::<&str>().unwrap();
    assert!(message.contains("where no runtime runs"), "{message}");
}

#[test]
fn a_second_block_on_has_nurseries_too() {
    let runtime = Arc::new(runtime(2));
    let seated = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let done = Arc::new(AtomicBool::new(false));
        let (first, seen) = (runtime.clone(), done.clone());
        let seated = &seated;
        threads.spawn(move || {
            first.block_on(async {
                seated.store(true, Relaxed);
                while !seen.load(Relaxed) {
                    sleep(Duration::from_micros(100)).await;
                }
            });
        });
        while !seated.load(Relaxed) {
            std::thread::yield_now();
        }
        let numbers = [1, 2, 3];
        let doubled = runtime.block_on(async {
            nursery(|scope| {
                for number in &numbers {
                    scope.spawn(async move {
                        yield_now().await;
                        Ok::<_, ()>(number * 2)
                    });
                }
            })
        });
        done.store(true, Relaxed);
        assert_eq!(doubled.unwrap(), [2, 4, 6]);
    });
}
