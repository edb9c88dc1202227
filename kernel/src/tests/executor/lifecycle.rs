//! Building and shutting down.

use super::{join, live_bytes, scaled, spawn, spawn_on};
use alloc::{sync::Arc, vec::Vec};
use core::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use executor::{
    Runtime,
    task::{self, yield_now},
    time::{Duration, sleep},
};
use hal::{cores, lot};
use testing::kernel_test;

fn runtime() -> Runtime {
    Runtime::new().expect("no other runtime has the cores")
}

#[kernel_test(cores = 4, limit = 300)]
fn a_runtime_is_built_and_shut_down_a_thousand_times_without_losing_a_byte() {
    let others = cores::online().without(cores::this_core());
    let mut before = 0;
    for round in 0..=scaled(1000) {
        if round == 1 {
            before = live_bytes();
        }
        let runtime = runtime();
        assert_eq!(runtime.cores(), cores::online().len());
        if round % 4 != 0 {
            runtime.block_on(async {
                join([spawn_on(round % cores::online().len(), async {})]).await;
                drop(spawn(sleep(Duration::from_micros(10))));
                drop(spawn(async { yield_now().await }));
            });
        }
        match round % 3 {
            0 => runtime.shutdown(),
            1 => runtime.shutdown_now(),
            _ => drop(runtime),
        }
        assert_eq!(lot::free(), others, "all cores are back");
    }
    assert_eq!(live_bytes(), before);
}

/// Counts when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[kernel_test(cores = 4)]
fn a_shutdown_lets_all_tasks_finish() {
    let tasks = scaled(1000);
    let before = live_bytes();
    let finished = Arc::new(AtomicUsize::new(0));
    let runtime = runtime();
    for number in 0..tasks {
        let finished = finished.clone();
        let task = runtime.spawn(async move {
            for _ in 0..number % 5 {
                yield_now().await;
            }
            sleep(Duration::from_micros(number as u64)).await;
            // Those that its tasks spawn are waited for, too.
            drop(task::spawn(async move { finished.fetch_add(1, Relaxed) }));
        });
        task.detach();
    }
    runtime.shutdown();
    assert_eq!(finished.load(Relaxed), tasks);
    assert_eq!(Arc::strong_count(&finished), 1);
    drop(finished);
    assert_eq!(live_bytes(), before);
}

#[kernel_test(cores = 4)]
fn a_shutdown_now_cancels_all_tasks_and_runs_their_finalizers() {
    let tasks = scaled(1000);
    let before = live_bytes();
    let (dropped, finalized) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
    let runtime = runtime();
    let started = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..tasks)
        .map(|number| {
            let dropped = Dropped(Arc::clone(&dropped));
            let (finalized, started) = (finalized.clone(), started.clone());
            runtime.spawn(async move {
                let _dropped = dropped;
                task::on_exit(async move {
                    yield_now().await;
                    finalized.fetch_add(1, Relaxed);
                });
                started.fetch_add(1, Relaxed);
                match number % 3 {
                    0 => pending::<()>().await,
                    1 => sleep(Duration::from_secs(1_000_000)).await,
                    _ => loop {
                        yield_now().await;
                    },
                }
            })
        })
        .collect();
    runtime.block_on(async {
        while started.load(Relaxed) < tasks {
            yield_now().await;
        }
    });
    runtime.shutdown_now();
    for mut handle in handles {
        let outcome = handle.try_take().expect("it has ended");
        assert!(outcome.is_err_and(|error| error.is_cancelled()));
    }
    assert_eq!(dropped.load(Relaxed), tasks);
    assert_eq!(finalized.load(Relaxed), tasks);
    drop((dropped, finalized, started));
    assert_eq!(live_bytes(), before);
}
