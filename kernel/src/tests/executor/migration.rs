//! Polls and loops that go on on another core. What a task runs as it ends may wait,
//! as its polls may, and the loop that called it has then moved with it.

use super::{Table, join, on_all_cores, spawn};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use executor::{
    stats,
    task::{self, yield_now},
    thread,
};
use hal::cores::this_core;
use testing::kernel_test;

/// How many have waited as they ended, and how many of those went on elsewhere.
#[derive(Default)]
struct Ends {
    all: AtomicUsize,
    moved: AtomicUsize,
}

impl Ends {
    /// Sync code that waits: whoever has nothing to do takes it over.
    fn wait(&self) {
        let before = this_core();
        thread::yield_now();
        self.moved
            .fetch_add(usize::from(this_core() != before), Relaxed);
        self.all.fetch_add(1, Relaxed);
    }

    /// Starts tasks, of which nobody wants the outcome, until so many loops have moved.
    async fn until_moved(&self, count: usize, mut start: impl FnMut()) {
        let mut started = 0;
        while self.moved.load(Relaxed) < count {
            start();
            started += 1;
            // They keep a stack each.
            while self.all.load(Relaxed) + 16 < started {
                yield_now().await;
            }
            yield_now().await;
        }
        while self.all.load(Relaxed) < started {
            yield_now().await;
        }
    }
}

/// Waits as it is dropped.
struct WaitsAtLast(Arc<Ends>);

impl Drop for WaitsAtLast {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// Meanwhile tasks on half of the cores wake each other all the time, so that a loop that takes
/// itself for that of another core meets its owner there; the other half looks for work.
async fn while_others_play(main: impl Future<Output = ()>) {
    let is_over = Arc::new(AtomicUsize::new(0));
    let games = (0..stats::stats().cores.len() / 2).map(|_| {
        let is_over = is_over.clone();
        spawn(async move {
            while is_over.load(Relaxed) == 0 {
                let table = Arc::new(Table::new());
                let other = table.clone();
                let other = spawn(async move { other.play(1, 20).await });
                table.play(0, 20).await;
                join([other]).await;
            }
        })
    });
    let games: Vec<_> = games.collect();
    main.await;
    is_over.store(1, Relaxed);
    join(games).await;
}

#[kernel_test(cores = 4, limit = 120)]
fn a_loop_moves_while_the_outcome_of_a_task_is_dropped() {
    on_all_cores(while_others_play(async {
        let ends = Arc::new(Ends::default());
        let start = || {
            let outcome = WaitsAtLast(ends.clone());
            spawn(async move { outcome }).detach();
        };
        ends.until_moved(30, start).await;
    }));
}

#[kernel_test(cores = 4, limit = 120)]
fn a_loop_moves_while_a_finalizer_runs() {
    on_all_cores(while_others_play(async {
        let ends = Arc::new(Ends::default());
        let start = || {
            let ends = ends.clone();
            let ending = async move { task::on_exit(async move { ends.wait() }) };
            spawn(ending).detach();
        };
        ends.until_moved(30, start).await;
    }));
}

#[kernel_test(limit = 120)]
fn threads_that_keep_yielding_pass_from_core_to_core_unharmed() {
    on_all_cores(async {
        let cores = stats::stats().cores.len();
        // So few that cores without work take each as soon as it is offered; and more than there are cores.
        for (count, turns) in [(cores.div_ceil(2), 2_000), (2 * cores, 200)] {
            let threads = (0..count).map(|number| {
                thread::spawn(move || {
                    let on_stack = core::hint::black_box([number; 64]);
                    for _ in 0..turns {
                        thread::yield_now();
                        assert_eq!(on_stack, [number; 64]);
                    }
                })
            });
            for thread in threads.collect::<Vec<_>>() {
                thread.await.unwrap();
            }
        }
    });
}
