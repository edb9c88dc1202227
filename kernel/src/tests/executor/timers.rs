//! Many tasks asleep at once, on every core.

use super::{join, on_all_cores, scaled, spawn, spawn_on};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use executor::{
    stats,
    task::yield_now,
    time::{Duration, Instant, sleep_until},
};
use testing::kernel_test;

/// When sleeper `number` is to wake: spread over a second, a hundred each time
/// at the same moment, in an order that is not that of the numbers.
fn deadline(begin: Instant, number: usize) -> Instant {
    begin + Duration::from_millis((number * 7919 % 1000) as u64)
}

/// All sleep until some time after `begin`. Whether there was a moment when all of them slept.
async fn all_sleep(count: usize, begin: Instant) -> bool {
    let asleep = Arc::new(AtomicUsize::new(0));
    let cores = stats::stats().cores.len();
    let nurses = (0..cores).map(|core| {
        let asleep = asleep.clone();
        // Each core spawns its own, so that their timers are on all of them.
        spawn_on(core, async move {
            let sleepers = (core..count).step_by(cores).map(|number| {
                let asleep = asleep.clone();
                spawn(async move {
                    let deadline = deadline(begin, number);
                    asleep.fetch_add(1, Relaxed);
                    sleep_until(deadline).await;
                    let now = Instant::now();
                    assert!(now >= deadline, "woken {:?} early", deadline - now);
                })
            });
            join(sleepers.collect::<Vec<_>>()).await;
        })
    });
    let nurses: Vec<_> = nurses.collect();
    while asleep.load(Relaxed) < count {
        yield_now().await;
    }
    let all_at_once = Instant::now() < begin;
    join(nurses).await;
    all_at_once
}

#[kernel_test(cores = 4, limit = 600)]
fn a_hundred_thousand_tasks_sleep_at_once_and_none_wakes_early() {
    on_all_cores(async {
        // How long it takes until all are asleep nobody knows: where it takes longer, once more.
        let mut lead = Duration::from_secs(2);
        while !all_sleep(scaled(100_000), Instant::now() + lead).await {
            lead *= 2;
        }
    });
}
