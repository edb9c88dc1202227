//! Wakes and spawns across cores: none is lost, however many there are.

use super::{Table, join, on_all_cores, scaled, spawn, spawn_on};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use executor::{
    stats,
    sync::oneshot,
    task::{self, yield_now},
};
use testing::kernel_test;

/// Pairs on different cores, and pairs that go wherever they are taken: `wakes`
/// of them all together, one after the other within each pair.
async fn wake_across_cores(wakes: usize) {
    const PAIRS: usize = 8;
    let cores = stats::stats().cores.len();
    let turns = wakes / PAIRS;
    let players = (0..PAIRS).flat_map(|pair| {
        let table = Arc::new(Table::new());
        [0, 1].map(|player| {
            let table = table.clone();
            let game = async move { table.play(player, turns).await };
            match pair % 2 {
                0 => spawn_on((pair / 2 + player) % cores, game),
                _ => spawn(game),
            }
        })
    });
    join(players.collect::<Vec<_>>()).await;
}

/// Every core spawns at the same time, `spawns` of them all together; each
/// task is run once.
async fn spawn_from_all_cores(spawns: usize) {
    let at_once = scaled(1000);
    let cores = stats::stats().cores.len();
    let runs = Arc::new(AtomicUsize::new(0));
    let rounds = spawns / cores / at_once;
    let spawners = (0..cores).map(|core| {
        let runs = runs.clone();
        spawn_on(core, async move {
            for _ in 0..rounds {
                let children = (0..at_once).map(|number| {
                    let runs = runs.clone();
                    spawn(async move {
                        if number % 4 == 0 {
                            task::yield_now().await;
                        }
                        runs.fetch_add(1, Relaxed);
                    })
                });
                join(children.collect::<Vec<_>>()).await;
            }
        })
    });
    join(spawners.collect::<Vec<_>>()).await;
    assert_eq!(runs.load(Relaxed), rounds * cores * at_once);
}

#[kernel_test(cores = 4, limit = 300)]
fn a_hundred_thousand_wakes_across_cores_do_not_stall() {
    on_all_cores(wake_across_cores(scaled(100_000)));
}

#[kernel_test(cores = 4, limit = 7200, long = true)]
fn ten_million_wakes_across_cores_do_not_stall() {
    on_all_cores(wake_across_cores(10_000_000));
}

#[kernel_test(cores = 4, limit = 300)]
fn a_hundred_thousand_tasks_spawned_by_all_cores_at_once_run_once_each() {
    on_all_cores(spawn_from_all_cores(scaled(100_000)));
}

#[kernel_test(cores = 4, limit = 7200, long = true)]
fn ten_million_tasks_spawned_by_all_cores_at_once_run_once_each() {
    on_all_cores(spawn_from_all_cores(10_000_000));
}

#[kernel_test(limit = 120)]
fn a_wake_is_not_lost_if_who_waits_for_it_gives_way_before() {
    on_all_cores(async {
        let cores = stats::stats().cores.len();
        // On two cores, so that a wake often comes between the look and the wait.
        let players = (0..cores).step_by(2).flat_map(|core| {
            let table = Arc::new(Table::new());
            [0, 1].map(|player| {
                let table = table.clone();
                spawn_on((core + player) % cores, async move {
                    for turn in (player..scaled(1_000).max(400)).step_by(2) {
                        task::wait(table.turn(player, turn));
                        table.pass(player, turn);
                    }
                })
            })
        });
        join(players.collect::<Vec<_>>()).await;
    });
}

#[kernel_test(limit = 120)]
fn a_wake_for_a_wait_is_not_lost_to_a_wait_within_it() {
    on_all_cores(async {
        for _ in 0..scaled(1_000) {
            let (first, first_receiver) = oneshot::channel();
            let (second, second_receiver) = oneshot::channel();
            let waits = Arc::new(AtomicUsize::new(0));
            let begun = waits.clone();
            let waiter = spawn(async move {
                task::wait(async {
                    let inner = async {
                        // Within the poll of the other, as sync code does.
                        begun.store(1, Relaxed);
                        task::wait(second_receiver).expect("it is sent");
                    };
                    executor::join!(biased; first_receiver, inner)
                        .0
                        .expect("it is sent");
                });
            });
            while waits.load(Relaxed) == 0 {
                yield_now().await;
            }
            // It goes on for the first, if it waits already, and then waits for the second again.
            first.send(()).expect("somebody waits for it");
            for _ in 0..4 {
                yield_now().await;
            }
            second.send(()).expect("somebody waits for it");
            join([waiter]).await;
        }
    });
}
