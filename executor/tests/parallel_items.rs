//! One function for all items: in order, each once, whatever the pieces.
#![cfg(not(loom))]

use executor::{
    Runtime,
    parallel::{self, par_filter, par_for_each, par_map, par_reduce},
    preempt,
    scheduler::policy::{Fifo, Policy, Reason, Runnable},
    task::{self, spawn, wait, yield_now},
    thread,
    time::{Duration, sleep},
};
use proptest::prelude::*;
use std::{
    hint::black_box,
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
    },
};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Takes as many steps as it is told, and some of them wait.
fn spend(cost: u16) {
    for step in 0..cost {
        black_box(step);
    }
    if cost % 97 == 1 {
        wait(yield_now());
    }
}

/// Counts how many there are, and notices one that is dropped twice.
struct Counted<'a>(usize, &'a [AtomicUsize]);

impl<'a> Counted<'a> {
    fn new(number: usize, live: &'a [AtomicUsize]) -> Self {
        live[number].fetch_add(1, Relaxed);
        Self(number, live)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let before = self.1[self.0].fetch_sub(1, Relaxed);
        assert_eq!(before, 1, "{} was dropped twice", self.0);
    }
}

fn counts(len: usize) -> Vec<AtomicUsize> {
    (0..len).map(|_| AtomicUsize::new(0)).collect()
}

fn all_are(counts: &[AtomicUsize], expected: usize) -> bool {
    counts.iter().all(|count| count.load(Relaxed) == expected)
}

/// Costs of items, most of them small.
fn costs() -> impl Strategy<Value = Vec<u16>> {
    let cost = prop_oneof![8 => 0..10_u16, 2 => 0..2000_u16, 1 => 20_000..60_000_u16];
    prop_oneof![
        prop::collection::vec(cost.clone(), 0..8),
        prop::collection::vec(cost, 0..400)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn results_are_those_of_a_loop(costs in costs(), workers in prop::sample::select(vec![1, 2, 4, 8])) {
        runtime(workers).block_on(async {
            let square = |(at, cost): (usize, u16)| { spend(cost); at * usize::from(cost) };
            let numbered: Vec<(usize, u16)> = costs.iter().copied().enumerate().collect();
            let expected: Vec<usize> = numbered.iter().map(|(at, cost)| at * usize::from(*cost)).collect();
            assert_eq!(par_map(&numbered, |&item| square(item)), expected);
            assert_eq!(par_map(numbered.clone(), square), expected);
            assert_eq!(par_map(0..costs.len(), |at| square((at, costs[at]))), expected);

            let is_odd = |cost: u16| { spend(cost); cost % 2 == 1 };
            let odd: Vec<u16> = costs.iter().copied().filter(|cost| cost % 2 == 1).collect();
            assert_eq!(par_filter(costs.clone(), |&cost| is_odd(cost)), odd);
            assert!(par_filter(&costs, |cost| is_odd(**cost)).into_iter().eq(&odd));

            // Not commutative.
            let text = costs.iter().fold(String::new(), |text, cost| text + &cost.to_string());
            let fold = |text: String, cost: &u16| { spend(*cost); text + &cost.to_string() };
            assert_eq!(par_reduce(&costs, String::new, fold, |a, b| a + &b), text);

            let mut changed = numbered.clone();
            par_for_each(&mut changed, |(at, cost)| { spend(*cost); *at += 1; });
            assert!(changed.into_iter().map(|(at, _)| at).eq(1..=costs.len()));
            let seen = counts(costs.len());
            par_for_each(numbered, |(at, cost)| { spend(cost); seen[at].fetch_add(1, Relaxed); });
            assert!(all_are(&seen, 1));
        });
    }

    #[test]
    fn a_panic_goes_on_and_everything_is_dropped_once(
        costs in costs(), at in any::<prop::sample::Index>(), workers in prop::sample::select(vec![1, 2, 4, 8]),
        both in any::<bool>(),
    ) {
        prop_assume!(!costs.is_empty());
        let (first, second) = (at.index(costs.len()), costs.len() - 1);
        let panics = |number: usize| {
            spend(costs[number]);
            if number == first || both && number == second {
                panic_any(number);
            }
        };
        runtime(workers).block_on(async {
            let (inputs, outputs) = (counts(costs.len()), counts(costs.len()));
            let make = || (0..costs.len()).map(|number| Counted::new(number, &inputs)).collect::<Vec<_>>();
            let begun = AtomicUsize::new(0);
            let at_work = AtomicUsize::new(0);
            let step = |number: usize| {
                begun.fetch_add(1, Relaxed);
                at_work.fetch_add(1, Relaxed);
                let result = catch_unwind(AssertUnwindSafe(|| panics(number)));
                at_work.fetch_sub(1, Relaxed);
                if let Err(panic) = result {
                    std::panic::resume_unwind(panic);
                }
            };
            let check = |what: &str, result: std::thread::Result<()>| {
                let panic = *result.expect_err(what).downcast::<usize>().expect(what);
                assert!(panic == first || both && panic == second, "{what}");
                assert_eq!(at_work.load(Relaxed), 0, "{what}: nothing is at work any more");
                assert!(begun.swap(0, Relaxed) <= costs.len());
                assert!(all_are(&inputs, 0), "{what}: items");
                assert!(all_are(&outputs, 0), "{what}: results");
            };
            check("map", catch_unwind(AssertUnwindSafe(|| {
                par_map(make(), |item| { step(item.0); Counted::new(item.0, &outputs) });
            })));
            check("filter", catch_unwind(AssertUnwindSafe(|| {
                par_filter(make(), |item| { step(item.0); item.0 % 2 == 0 });
            })));
            check("for each", catch_unwind(AssertUnwindSafe(|| {
                par_for_each(make(), |item| step(item.0));
            })));
            check("reduce", catch_unwind(AssertUnwindSafe(|| {
                let one = |item: Counted| { step(item.0); Counted::new(item.0, &outputs) };
                par_reduce(
                    make(),
                    Vec::new,
                    |mut all, item| { all.push(one(item)); all },
                    |mut a, mut b| { a.append(&mut b); a },
                );
            })));
        });
    }
}

#[test]
fn results_of_what_comes_to_its_end_are_dropped_by_whoever_has_them() {
    runtime(4).block_on(async {
        let (inputs, outputs) = (counts(3000), counts(3000));
        let items: Vec<_> = (0..3000)
            .map(|number| Counted::new(number, &inputs))
            .collect();
        let results = par_map(items, |item| Counted::new(item.0, &outputs));
        assert!(all_are(&inputs, 0) && all_are(&outputs, 1));
        assert!(results.iter().map(|result| result.0).eq(0..3000));
        let even = par_filter(results, |item| item.0 % 2 == 0);
        assert!(even.iter().map(|result| result.0).eq((0..3000).step_by(2)));
        let live = outputs
            .iter()
            .map(|count| count.load(Relaxed))
            .sum::<usize>();
        assert_eq!(live, 1500);
        drop(even);
        assert!(all_are(&outputs, 0));
    });
}

#[test]
fn no_items_and_one_and_items_of_no_size() {
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            assert_eq!(par_map(Vec::<u32>::new(), |n| n), []);
            assert_eq!(par_map(&[] as &[u32], |n| *n), []);
            assert_eq!(par_map(5..5, |n| n), [0; 0]);
            let (start, end) = (7, 3);
            assert_eq!(par_map(start..end, |n| n), [0; 0]);
            assert_eq!(par_filter([3], |_| true), [3]);
            assert_eq!(par_filter([3], |_| false), []);
            assert_eq!(par_reduce(0..0, || 7, |a: i32, b| a + b, |a, b| a + b), 7);
            assert_eq!(par_reduce(4..5, || 0, |a: i32, b| a + b, |a, b| a + b), 4);
            par_for_each(&mut [0_u8; 0], |_| unreachable!());
            assert_eq!(par_map(vec![(); 1000], |()| ()).len(), 1000);
            assert_eq!(par_filter(vec![(); 1000], |()| true).len(), 1000);
        });
    }
}

#[test]
fn all_that_can_be_given() {
    runtime(2).block_on(async {
        let mut vector = vec![1_u8, 2, 3];
        let mut boxed: Box<[u8]> = vector.clone().into();
        let mut array = [1_u8, 2, 3];
        let add = |n: &mut u8| *n += 1;
        par_for_each(&mut vector, add);
        par_for_each(&mut boxed, add);
        par_for_each(&mut array, add);
        par_for_each(vector.as_mut_slice(), add);
        assert_eq!(par_map(&vector, |n| *n), [3, 4, 5]);
        assert_eq!(par_map(&boxed, |n| *n), [2, 3, 4]);
        assert_eq!(par_map(&array, |n| *n), [2, 3, 4]);
        assert_eq!(par_map(&array[1..], |n| *n), [3, 4]);
        assert_eq!(par_map(array, u32::from), [2, 3, 4]);
        assert_eq!(par_map(boxed, u32::from), [2, 3, 4]);
        let all: Vec<i8> = (-128..127).collect();
        assert_eq!(par_map(-128..127_i8, |n| n), all);
        assert_eq!(par_map(250..255_u8, |n| n), [250, 251, 252, 253, 254]);
        let high = u64::MAX - 1000..u64::MAX;
        assert!(par_map(high.clone(), |n| n).into_iter().eq(high));
        let around = -500..500_i64;
        assert!(par_map(around.clone(), |n| n).into_iter().eq(around));
    });
}

#[test]
fn calls_nest() {
    for workers in [1, 2, 4, 8] {
        runtime(workers).block_on(async {
            let rows: Vec<Vec<usize>> = par_map(0..60_usize, |row| {
                par_map(0..row * 7, |column| {
                    let (a, b) = parallel::join(|| row, || column);
                    a * 1000 + b
                })
            });
            for (row, columns) in rows.iter().enumerate() {
                assert!(
                    columns
                        .iter()
                        .copied()
                        .eq((0..row * 7).map(|column| row * 1000 + column))
                );
            }
            let sum = par_reduce(
                &rows,
                || 0,
                |sum, row| sum + par_reduce(row, || 0, |sum, n| sum + n, |a, b| a + b),
                |a, b| a + b,
            );
            assert_eq!(sum, rows.iter().flatten().sum::<usize>());
        });
    }
}

#[test]
fn the_first_of_two_may_wait_for_the_second_also_while_every_core_is_busy() {
    for workers in [1, 3] {
        let over = Arc::new(AtomicBool::new(false));
        runtime(workers).block_on(async {
            // They never let a core become idle.
            let hogs: Vec<_> = (0..workers)
                .map(|_| {
                    let over = over.clone();
                    spawn(async move {
                        while !over.load(Relaxed) {
                            yield_now().await;
                        }
                    })
                })
                .collect();
            yield_now().await;
            let notify = executor::sync::Notify::new();
            let answer = parallel::join(|| wait(notify.notified()), || notify.notify_one());
            assert_eq!(answer, ((), ()));
            over.store(true, Relaxed);
            for hog in hogs {
                hog.await.unwrap();
            }
        });
    }
}

#[test]
fn what_is_borrowed_is_the_callers_again_afterwards() {
    runtime(4).block_on(async {
        for round in 0..200_usize {
            let mut cells = vec![0_usize; 500];
            let offset = round;
            par_for_each(&mut cells, |cell| *cell += offset);
            cells.iter_mut().for_each(|cell| *cell += 1);
            let total = par_reduce(&cells, || 0, |sum, cell| sum + *cell, |a, b| a + b);
            assert_eq!(total, (round + 1) * 500);
            drop(cells);
        }
    });
}

#[test]
fn other_tasks_of_the_core_go_on_while_the_caller_waits() {
    runtime(1).block_on(async {
        let beside = spawn(async { 5 });
        // Each waits, so the one core comes round to the other task, without which none goes on.
        let done = Arc::new(AtomicBool::new(false));
        let seen = done.clone();
        let watcher = spawn(async move {
            assert_eq!(beside.await.unwrap(), 5);
            seen.store(true, Relaxed);
        });
        par_for_each(0..10, |_| {
            while !done.load(Relaxed) {
                wait(yield_now());
            }
        });
        watcher.await.unwrap();
    });
}

#[test]
fn a_cancelled_caller_finishes_and_its_functions_can_know() {
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            let begun = Arc::new(AtomicBool::new(false));
            let seen = begun.clone();
            let told = Arc::new(AtomicUsize::new(0));
            let heard = told.clone();
            let caller = spawn(async move {
                let done = par_map(0..50, |number| {
                    seen.store(true, Relaxed);
                    // Cut short when it is cancelled.
                    if task::try_wait(sleep(Duration::from_secs(100))).is_err() {
                        heard.fetch_add(usize::from(task::is_cancelled()), Relaxed);
                    }
                    number
                });
                assert!(done.into_iter().eq(0..50));
                heard.fetch_add(1000, Relaxed);
                yield_now().await;
                unreachable!("it ends at its next await");
            });
            while !begun.load(Relaxed) {
                sleep(Duration::from_micros(50)).await;
            }
            caller.cancel();
            assert!(caller.await.is_err());
            assert_eq!(told.load(Relaxed), 1050);
        });
    }
}

#[test]
fn every_item_is_done_also_under_a_policy_that_drops_tasks() {
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
    let builder = Runtime::builder().workers(3);
    let runtime = builder.policy(|_| Box::<Drops>::default()).build().unwrap();
    runtime.block_on(async {
        let done = par_map(0..300, |number| {
            wait(yield_now());
            number
        });
        assert!(done.into_iter().eq(0..300));
    });
}

#[test]
fn every_item_is_done_also_when_the_runtime_is_shut_down_or_does_not_steal() {
    for round in 0..20 {
        let runtime = Runtime::builder()
            .workers(1 + round % 3)
            .stealing(round % 2 == 0)
            .build()
            .unwrap();
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..5 {
            let (begun, ended) = (begun.clone(), ended.clone());
            let caller = runtime.spawn(async move {
                begun.fetch_add(1, Relaxed);
                let done = par_map(0..100_u16, |number| {
                    spend(number * 30 + 1);
                    number
                });
                assert!(done.into_iter().eq(0..100));
                ended.fetch_add(1, Relaxed);
            });
            caller.detach();
        }
        runtime.block_on(async { yield_now().await });
        runtime.shutdown_now();
        assert_eq!(begun.load(Relaxed), ended.load(Relaxed));
    }
}

#[test]
fn it_works_in_threads_in_a_second_block_on_and_outside() {
    let check = || {
        let sum = par_reduce(0..1000_u64, || 0, |a, b| a + b, |a, b| a + b);
        assert_eq!(sum, 499_500);
        assert_eq!(par_filter(0..10, |n| n % 3 == 0), [0, 3, 6, 9]);
        assert_eq!(parallel::join(|| 1, || 2), (1, 2));
    };
    // No runtime anywhere.
    check();
    let runtime = Arc::new(runtime(2));
    runtime.block_on(async {
        let thread = thread::spawn(check);
        thread.join().unwrap();
        let visitor = runtime.clone();
        let visitor = std::thread::spawn(move || visitor.block_on(async move { check() }));
        while !visitor.is_finished() {
            yield_now().await;
        }
        visitor.join().unwrap();
        // Nobody could be waited for.
        let _guard = preempt::guard();
        check();
    });
}

#[test]
fn outside_a_runtime_a_panic_is_a_panic_and_both_functions_run() {
    let live = counts(10);
    let result = catch_unwind(AssertUnwindSafe(|| {
        par_map(0..10_usize, |number| {
            assert!(number != 5, "on purpose");
            Counted::new(number, &live)
        })
    }));
    assert!(result.is_err());
    assert!(all_are(&live, 0));
    let second = AtomicBool::new(false);
    let both = AssertUnwindSafe(|| {
        parallel::join(|| panic!("on purpose"), || second.store(true, Relaxed));
    });
    assert!(catch_unwind(both).is_err());
    assert!(second.into_inner());
}

#[test]
fn destructors_that_panic_are_panics_too() {
    struct Bad(usize);
    impl Drop for Bad {
        fn drop(&mut self) {
            if self.0 == 7 && !std::thread::panicking() {
                panic_any("in a destructor");
            }
        }
    }
    runtime(3).block_on(async {
        let items = || (0..200).map(Bad).collect::<Vec<_>>();
        let caught = catch_unwind(AssertUnwindSafe(|| par_for_each(items(), drop)));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"in a destructor"));
        // The rest is dropped when one panics.
        let caught = catch_unwind(AssertUnwindSafe(|| {
            par_for_each(items(), |item| {
                let number = item.0;
                std::mem::forget(item);
                if number == 0 {
                    panic_any("in the function");
                }
            });
        }));
        assert!(caught.is_err());
    });
}

#[test]
fn many_callers_at_once_share_the_cores() {
    runtime(4).block_on(async {
        let log = Arc::new(Mutex::new(0_u64));
        let callers: Vec<_> = (0..40_u64)
            .map(|caller| {
                let log = log.clone();
                spawn(async move {
                    for _ in 0..5 {
                        let sum = par_reduce(
                            0..500_u64,
                            || 0,
                            |sum, n| {
                                spend((n * caller % 1000) as u16);
                                sum + n
                            },
                            |a, b| a + b,
                        );
                        *log.lock().unwrap() += sum;
                        yield_now().await;
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        assert_eq!(*log.lock().unwrap(), 40 * 5 * 124_750);
    });
}

// With the address sanitizer, the compiler keeps a byte for each 8 of such a result.
#[cfg(not(asan))]
#[test]
fn items_outlive_results_that_there_is_no_room_for() {
    let runtime = executor::Runtime::builder().workers(1).build().unwrap();
    runtime.block_on(async {
        let items: Vec<String> = (0..1 << 18).map(|number| number.to_string()).collect();
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            executor::parallel::par_map(items, |_| [0u8; 1 << 46]).len()
        }));
        assert!(made.is_err(), "there is no room for them");
    });
}
