//! One piece of work on many cores: what is offered is taken, taken back, or waited for, while others
//! go on and polls are preempted.

use super::{deeper, join, on_all_cores, scaled, spawn};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use executor::{
    Runtime, TaskHandle,
    parallel::{self, par_filter, par_for_each, par_map, par_reduce},
    stats,
    task::{self, wait, yield_now},
    time::{Duration, sleep},
};
use hal::cores::this_core;
use testing::kernel_test;

/// Tasks that are at work on all cores until they are told: some yield, some sleep.
struct Others {
    is_over: Arc<AtomicBool>,
    steps: Arc<AtomicUsize>,
    tasks: Vec<TaskHandle<()>>,
}

impl Others {
    fn begin() -> Self {
        let (is_over, steps) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
        let task = |number: usize| {
            let (is_over, steps) = (is_over.clone(), steps.clone());
            spawn(async move {
                while !is_over.load(Relaxed) {
                    steps.fetch_add(1, Relaxed);
                    if number.is_multiple_of(2) {
                        yield_now().await;
                    }
                    sleep(Duration::from_micros(100)).await;
                }
            })
        };
        Self {
            tasks: (0..8).map(task).collect(),
            is_over,
            steps,
        }
    }

    /// Waits until they have done something.
    fn go_on(&self) {
        let before = self.steps.load(Relaxed);
        while self.steps.load(Relaxed) == before {
            wait(yield_now());
        }
    }

    async fn end(self) {
        self.is_over.store(true, Relaxed);
        join(self.tasks).await;
    }
}

#[kernel_test(limit = 120)]
fn numbers_are_summed_on_all_cores_while_other_tasks_go_on() {
    on_all_cores(async {
        let others = Others::begin();
        let numbers: Vec<u32> = (0..scaled(100_000) as u32).collect();
        let expected = numbers
            .iter()
            .fold(0, |sum: u32, n| sum.wrapping_add(n.wrapping_mul(*n)));
        let helped = AtomicU64::new(0);
        // Each core gets some of it in the end.
        while helped.load(Relaxed).count_ones() < stats::stats().cores.len() as u32 {
            let fold = |sum: u32, n: &u32| {
                helped.fetch_or(1 << this_core(), Relaxed);
                sum.wrapping_add(n.wrapping_mul(*n))
            };
            let sum = par_reduce(&numbers, || 0, fold, u32::wrapping_add);
            assert_eq!(sum, expected);
            others.go_on();
        }
        others.end().await;
    });
}

#[kernel_test(limit = 120)]
fn maps_within_maps_keep_their_order_while_other_tasks_go_on() {
    on_all_cores(async {
        let others = Others::begin();
        let rows = scaled(40);
        for _ in 0..3 {
            let table = par_map(0..rows, |row| {
                par_map(0..row * 5, |column| {
                    if column % 50 == 7 {
                        others.go_on();
                    }
                    row * 1000 + column
                })
            });
            for (row, columns) in table.iter().enumerate() {
                let expected = (0..row * 5).map(|column| row * 1000 + column);
                assert!(columns.iter().copied().eq(expected));
            }
            let flat: Vec<usize> = table.into_iter().flatten().collect();
            let odd = par_filter(&flat, |number| *number % 2 == 1);
            assert!(
                odd.into_iter()
                    .eq(flat.iter().filter(|number| *number % 2 == 1))
            );
        }
        others.end().await;
    });
}

#[kernel_test(limit = 120)]
fn many_callers_share_the_cores_and_join_goes_down() {
    fn count(numbers: &mut [u32]) -> usize {
        if let [number] = numbers {
            *number += 1;
            return 1;
        }
        let (left, right) = numbers.split_at_mut(numbers.len() / 2);
        let (left, right) = parallel::join(|| count(left), || count(right));
        left + right
    }
    on_all_cores(async {
        let callers = (0..8).map(|_| {
            spawn(async {
                let len = scaled(4000);
                let mut numbers: Vec<u32> = (0..len as u32).collect();
                for round in 1..=3 {
                    assert_eq!(count(&mut numbers), len);
                    par_for_each(&mut numbers, |number| *number += 1);
                    yield_now().await;
                    assert!(
                        numbers
                            .iter()
                            .copied()
                            .eq((0..len as u32).map(|n| n + 2 * round))
                    );
                }
            })
        });
        let callers: Vec<_> = callers.collect();
        join(callers).await;
    });
}

#[kernel_test(limit = 120)]
fn a_caller_that_is_lost_ends_after_what_others_took_of_its_work_in_parallel() {
    // What they had is never given back: the test does not look for it.
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        for round in 0..6 {
            let is_over = AtomicBool::new(false);
            let (borrowed, too_late) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let outcome = task::nursery(|outer| {
                let (borrowed, too_late, is_over) = (&borrowed, &too_late, &is_over);
                outer.spawn(async move {
                    // It borrows what is not its caller's, whose end must therefore wait for it.
                    let taken = || {
                        while !task::is_cancelled() {
                            borrowed.fetch_add(1, Relaxed);
                            too_late.fetch_add(usize::from(is_over.load(Relaxed)), Relaxed);
                            wait(yield_now());
                        }
                    };
                    let lost = || {
                        while round % 2 == 0 && borrowed.load(Relaxed) == 0 {
                            wait(yield_now());
                        }
                        // With another that is offered, and may be taken or not.
                        parallel::join(|| deeper(0), || borrowed.fetch_add(1, Relaxed))
                    };
                    parallel::join(lost, taken);
                    Ok::<_, ()>(())
                });
            });
            is_over.store(true, Relaxed);
            assert!(outcome.is_err());
            // Nothing is left in the lists of cores.
            let sum = par_reduce(0..1000_u32, || 0, |a, b| a + b, |a, b| a + b);
            assert_eq!(sum, 499_500);
            sleep(Duration::from_millis(5)).await;
            assert_eq!(too_late.load(Relaxed), 0, "it is used after its loan");
        }
        assert_eq!(stats::stats().total.lost, 6);
    });
    runtime.shutdown();
}
