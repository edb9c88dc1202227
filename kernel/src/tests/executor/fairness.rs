//! Nothing runnable waits longer than the bound that the scheduler states.

use super::{Table, join, on, spawn_on, watched};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use executor::{
    Priority, Runtime, TaskHandle,
    scheduler::{
        fair::{BOUND, LOWER_BOUND},
        tick::torture,
    },
    stats,
    task::{Builder, yield_now},
};
use hal::cores::this_core;
use testing::kernel_test;

/// Turns that a task waits for, this often.
const ROUNDS: usize = 30;

/// Turns of core `core` so far, the polls it made, and ticks.
fn turns(core: usize) -> (u64, u64) {
    let core = stats::stats().cores.swap_remove(core);
    (core.polls, core.ticks)
}

/// Is runnable again and again; the most turns of its core that it ever had to wait, and the most if none counts that took no
/// longer than the bound in ticks.
async fn longest_wait(core: usize) -> (u64, u64) {
    let here = this_core();
    let (mut longest, mut longest_late) = (0, 0);
    for _ in 0..ROUNDS {
        let before = turns(core);
        yield_now().await;
        assert_eq!(this_core(), here, "nothing is stolen in this runtime");
        let after = turns(core);
        longest = longest.max(after.0 - before.0);
        if after.1 - before.1 > LOWER_BOUND {
            longest_late = longest_late.max(after.0 - before.0);
        }
    }
    (longest, longest_late)
}

/// On each core at once, with no core helping another: `hog` keeps the core
/// busy until the flag is set, with tasks of up to the `highest` priority, and a task that `builder` makes waits meanwhile.
fn waits_no_longer_than_the_bound(
    hog: fn(Arc<AtomicBool>) -> Vec<TaskHandle<()>>,
    highest: Priority,
    builder: Builder,
) {
    if torture::is_on() {
        return; // each turn is cut into many
    }
    let is_lower = builder.priority < highest;
    // Who joins it would lend it his own priority.
    let runtime = Runtime::builder().stealing(false).inheritance(false);
    on(runtime, async move {
        let cores = stats::stats().cores.len();
        let judges = (0..cores).map(|core| {
            let builder = builder.clone();
            spawn_on(core, async move {
                let is_over = Arc::new(AtomicBool::new(false));
                let hogs = hog(is_over.clone());
                // Its child begins here, and stays, as nobody steals.
                let longest = builder.spawn(watched(longest_wait(core))).await;
                is_over.store(true, Relaxed);
                join(hogs).await;
                let (longest, longest_late) = longest.expect("nobody cancels it");
                let counts = if is_lower { longest_late } else { longest };
                assert!(
                    counts <= u64::from(BOUND),
                    "core {core}: waited for {counts} turns, the bound is {BOUND}, or {LOWER_BOUND} ticks for lower levels"
                );
                assert!(longest > 1, "core {core}: the core was not kept busy");
            })
        });
        join(judges.collect::<Vec<_>>()).await;
    });
}

/// Two tasks that wake each other, through the next slot, until the end.
fn ping_pong(is_over: Arc<AtomicBool>) -> Vec<TaskHandle<()>> {
    let table = Arc::new(Table::new());
    let players = [0, 1].map(|player| {
        let (table, is_over) = (table.clone(), is_over.clone());
        Builder::new().spawn(watched(async move {
            for turn in (player..).step_by(2) {
                table.turn(player, turn).await;
                // The last turn is passed on too: so the other one sees that it is over. Looked at before
                // that: after it, the other may have played on and wait for us.
                let ends = is_over.load(Relaxed);
                table.pass(player, turn);
                if ends {
                    return;
                }
            }
        }))
    });
    players.into()
}

/// Tasks of this priority that are always runnable, until the end.
fn runnable(priority: Priority, is_over: &Arc<AtomicBool>) -> Vec<TaskHandle<()>> {
    let tasks = (0..3).map(|_| {
        let is_over = is_over.clone();
        let busy = async move {
            while !is_over.load(Relaxed) {
                yield_now().await;
            }
        };
        Builder::new().priority(priority).spawn(watched(busy))
    });
    tasks.collect()
}

fn urgent(is_over: Arc<AtomicBool>) -> Vec<TaskHandle<()>> {
    runnable(Priority::High, &is_over)
}

fn urgent_and_idle(is_over: Arc<AtomicBool>) -> Vec<TaskHandle<()>> {
    let mut tasks = runnable(Priority::High, &is_over);
    tasks.extend(runnable(Priority::Low, &is_over));
    tasks
}

#[kernel_test(cores = 4, limit = 120)]
fn a_third_task_is_polled_within_the_bound_while_two_wake_each_other() {
    waits_no_longer_than_the_bound(ping_pong, Priority::Normal, Builder::new());
}

#[kernel_test(cores = 4, limit = 120)]
fn a_task_of_low_priority_is_polled_within_the_bound_while_two_wake_each_other() {
    let low = Builder::new().priority(Priority::Low);
    waits_no_longer_than_the_bound(ping_pong, Priority::Normal, low);
}

#[kernel_test(cores = 4, limit = 120)]
fn a_task_of_low_priority_is_polled_within_the_bound_while_high_ones_are_runnable() {
    let low = Builder::new().priority(Priority::Low);
    waits_no_longer_than_the_bound(urgent, Priority::High, low);
}

#[kernel_test(cores = 4, limit = 120)]
fn a_task_is_polled_within_the_bound_while_others_above_and_below_it_are_runnable() {
    waits_no_longer_than_the_bound(urgent_and_idle, Priority::High, Builder::new());
}
