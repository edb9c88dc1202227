//! Who waits lends his priority, and what is less urgent gives way, with real cores and real interrupts.

use super::{join, on, on_all_cores, scaled, watched};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use executor::{
    Priority, Runtime, TaskHandle,
    scheduler::tick::torture,
    sync::{CeilingMutex, Mutex, Notify, RwLock},
    task::{Builder, Task, yield_now},
};
use testing::kernel_test;

fn spawn<F>(priority: Priority, future: F) -> TaskHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Builder::new().priority(priority).spawn(watched(future))
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        yield_now().await;
    }
}

/// How often a poll of normal priority, which never awaits, gets through a piece of work while one of high priority waits
/// for a lock. One of low priority has it, and a few such pieces to do.
fn work_of_third_parties(inheritance: bool) -> u64 {
    let counted = Arc::new(AtomicU64::new(0));
    let result = counted.clone();
    // One core: how fast others are on the host must not count.
    let builder = Runtime::builder().workers(1).inheritance(inheritance);
    on(builder, async move {
        let cores = 1;
        let is_over = Arc::new(AtomicBool::new(false));
        let mutex = Arc::new(Mutex::new(()));
        let has_it = Arc::new(Notify::new());
        let pieces = Arc::new(AtomicU64::new(0));
        fn work(pieces: &AtomicU64) {
            for _ in 0..10_000 {
                core::hint::spin_loop();
            }
            pieces.fetch_add(1, Relaxed);
        }
        let low = {
            let (mutex, has_it) = (mutex.clone(), has_it.clone());
            spawn(Priority::Low, async move {
                let _guard = mutex.lock().await;
                has_it.notify_one();
                let own = AtomicU64::new(0);
                for _ in 0..30 {
                    work(&own);
                    yield_now().await;
                }
            })
        };
        has_it.notified().await;
        let thirds: Vec<_> = (0..cores)
            .map(|core| {
                let (is_over, pieces) = (is_over.clone(), pieces.clone());
                let never_awaits = async move {
                    while !is_over.load(Relaxed) {
                        work(&pieces);
                    }
                };
                Builder::new().core(core).spawn(watched(never_awaits))
            })
            .collect();
        until(|| pieces.load(Relaxed) >= cores as u64).await;
        let (waiting, counted) = (mutex.clone(), pieces.clone());
        let high = spawn(Priority::High, async move {
            // Counted here: who is told of it has to wait for a quantum of the third himself.
            let before = counted.load(Relaxed);
            drop(waiting.lock().await);
            result.store(counted.load(Relaxed) - before, Relaxed);
            is_over.store(true, Relaxed);
        });
        join(thirds).await;
        join([low, high]).await;
    });
    counted.load(Relaxed)
}

#[kernel_test(limit = 240)]
fn three_parties_and_a_lock_with_inheritance_and_without() {
    if torture::is_on() {
        return; // each turn is cut into many
    }
    let (with, without) = (work_of_third_parties(true), work_of_third_parties(false));
    crate::println!(
        "pieces of work of third parties meanwhile: {with} with inheritance, {without} without"
    );
    assert!(without > 3 * with, "{with} with, {without} without");
}

#[kernel_test(limit = 120)]
fn levels_are_lent_along_a_chain_and_given_back() {
    chains(scaled(100));
}

#[kernel_test(cores = 4, limit = 7200, long = true)]
fn levels_are_lent_along_a_chain_a_thousand_times() {
    chains(1000);
}

fn chains(count: usize) {
    on_all_cores(async move {
        for _ in 0..count {
            let (first, second) = (Arc::new(Mutex::new(())), Arc::new(RwLock::new(())));
            let release = Arc::new(Notify::new());
            let (locked, told) = (first.clone(), release.clone());
            let low = spawn(Priority::Low, async move {
                let _guard = locked.lock().await;
                told.notified().await;
            });
            until(|| first.try_lock().is_err()).await;
            let (waits, locked) = (first.clone(), second.clone());
            // Does not await, but waits.
            let normal = spawn(Priority::Normal, async move {
                let _guard = locked.write().await;
                drop(waits.lock_blocking());
            });
            until(|| second.try_read().is_err()).await;
            let waits = second.clone();
            let high = spawn(Priority::Critical, async move { drop(waits.read().await) });
            let joins = spawn(Priority::Low, high);
            let (low_task, normal_task) = (low.task(), normal.task());
            let is_urgent = |task: &Task| task.priority() == Priority::Critical;
            until(|| is_urgent(&low_task) && is_urgent(&normal_task)).await;
            release.notify_one();
            assert!(joins.await.expect("nobody cancels it").is_ok());
            join([low, normal]).await;
        }
    });
}

#[kernel_test(limit = 120)]
fn boosts_that_come_and_go_lose_nobody() {
    boosts(scaled(40));
}

#[kernel_test(cores = 4, limit = 7200, long = true)]
fn a_hundred_thousand_boosts_that_come_and_go_lose_nobody() {
    boosts(2_500);
}

/// Each of 40 tasks does so this often.
fn boosts(rounds: usize) {
    on_all_cores(async move {
        let mutexes: Arc<Vec<Mutex<usize>>> = Arc::new((0..4).map(Mutex::new).collect());
        let ceiling = Arc::new(CeilingMutex::new(Priority::Critical, 0));
        let tasks: Vec<_> = (0..40usize)
            .map(|number| {
                let (mutexes, ceiling) = (mutexes.clone(), ceiling.clone());
                spawn(Priority::ALL[number % 4], async move {
                    for round in 0..rounds {
                        let first = (number + round) % 4;
                        let mut one = mutexes[first].lock().await;
                        *one += 1;
                        if round % 3 == 0 {
                            yield_now().await;
                        }
                        // In order, so that nobody waits in a circle.
                        if first < 3 && number % 2 == 0 {
                            *mutexes[first + 1].lock().await += 1;
                        } else if first < 3 {
                            *mutexes[first + 1].lock_blocking() += 1;
                        }
                        drop(one);
                        *ceiling.lock().await += 1;
                    }
                })
            })
            .collect();
        for (number, task) in tasks.iter().enumerate() {
            task.task().set_priority(Priority::ALL[(number + 1) % 4]);
            yield_now().await;
        }
        join(tasks).await;
        assert_eq!(*ceiling.lock().await, 40 * rounds);
    });
}

#[kernel_test(limit = 120)]
fn a_poll_of_low_priority_gives_way_to_what_is_more_urgent() {
    on_all_cores(async {
        let cores = executor::stats::stats().cores.len();
        let (is_over, running) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let busy: Vec<_> = (0..cores)
            .map(|core| {
                let (is_over, running) = (is_over.clone(), running.clone());
                let never_awaits = async move {
                    running.fetch_add(1, Relaxed);
                    while !is_over.load(Relaxed) {
                        hal::pause();
                    }
                };
                let low = Builder::new().priority(Priority::Low).core(core);
                low.spawn(watched(never_awaits))
            })
            .collect();
        until(|| running.load(Relaxed) == cores).await;
        // Each is on a core that is busy.
        for core in 0..cores {
            for priority in [Priority::Normal, Priority::High, Priority::Critical] {
                let urgent = Builder::new().priority(priority).core(core);
                assert_eq!(urgent.spawn(async { 5 }).await.expect("it runs"), 5);
            }
        }
        is_over.store(true, Relaxed);
        join(busy).await;
    });
}
