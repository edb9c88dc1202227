//! Tasks that stay on their core, whoever wakes them from wherever. In embassy
//! a wake from the wrong core once made that core poll the task (embassy#1634).

use super::{join, machine_cores, on, spawn_on};
use crate::{upcalls, watchdog};
use alloc::{sync::Arc, vec::Vec};
use core::{
    future::poll_fn,
    sync::atomic::{AtomicUsize, Ordering::*},
    task::Poll,
};
use executor::{Runtime, scheduler::tick::torture, stats, sync::WakerSlot, task::yield_now};
use hal::{
    clock,
    cores::{MAX_CORES, this_core},
};
use testing::kernel_test;

/// How often each task is woken from each core, and by each core's interrupts.
const TIMES: usize = 200;

/// Where the task of each core waits.
static SLOTS: [WakerSlot; MAX_CORES] = [const { WakerSlot::new() }; MAX_CORES];
/// How often it has been polled.
static POLLS: [AtomicUsize; MAX_CORES] = [const { AtomicUsize::new(0) }; MAX_CORES];
/// Interrupts that each core still has to take.
static TICKS: [AtomicUsize; MAX_CORES] = [const { AtomicUsize::new(0) }; MAX_CORES];

/// Wakes the tasks of all cores from an interrupt of this one.
fn on_tick() {
    let ticks = &TICKS[this_core()];
    // Only this core's interrupts count it down.
    let left = ticks.load(Relaxed);
    if left > 0 {
        ticks.store(left - 1, Relaxed);
        SLOTS.iter().for_each(WakerSlot::wake);
        clock::arm(clock::now() + 20_000);
    }
}

#[kernel_test(cores = 4, limit = 120)]
fn a_pinned_task_is_polled_on_its_own_core_only_whoever_wakes_it() {
    if torture::is_on() {
        return; // it has the timer
    }
    let _unwatched = watchdog::leave_timers();
    upcalls::set_timer_hook(Some(on_tick));
    // The tick would set the timer as it likes.
    on(Runtime::builder().quantum(None), async {
        let machine = Arc::new(machine_cores());
        let cores = stats::stats().cores.len();
        let is_over = Arc::new(AtomicUsize::new(0));
        let sleepers = (0..cores).map(|core| {
            POLLS[core].store(0, Relaxed);
            let (machine, is_over) = (machine.clone(), is_over.clone());
            let sleeper = poll_fn(move |context| {
                assert_eq!(this_core(), machine[core], "polled on another core");
                SLOTS[core].register(context.waker());
                // Release pairs with the acquire below.
                POLLS[core].fetch_add(1, Release);
                match is_over.load(Acquire) {
                    0 => Poll::Pending,
                    _ => Poll::Ready(()),
                }
            });
            spawn_on(core, sleeper)
        });
        let sleepers: Vec<_> = sleepers.collect();
        // All are there to be woken: a core may be late.
        for polls in &POLLS[..cores] {
            while polls.load(Acquire) == 0 {
                yield_now().await;
            }
        }
        // From each core, each task, each time after it has answered the last wake.
        for waker in 0..cores {
            let from_here = async move {
                for _ in 0..TIMES {
                    for core in 0..cores {
                        let before = POLLS[core].load(Acquire);
                        SLOTS[core].wake();
                        while POLLS[core].load(Acquire) == before {
                            yield_now().await;
                        }
                    }
                }
            };
            join([spawn_on(waker, from_here)]).await;
        }
        // From interrupts of all cores at once.
        let ticking = (0..cores).map(|core| {
            spawn_on(core, async {
                let ticks = &TICKS[this_core()];
                ticks.store(TIMES, Relaxed);
                clock::arm(0);
                while ticks.load(Relaxed) > 0 {
                    yield_now().await;
                }
            })
        });
        join(ticking.collect::<Vec<_>>()).await;
        // Release pairs with the acquire in the sleepers.
        is_over.store(1, Release);
        SLOTS.iter().for_each(WakerSlot::wake);
        join(sleepers).await;
        assert!((0..cores).all(|core| POLLS[core].load(Relaxed) > cores * TIMES));
        SLOTS.iter().for_each(WakerSlot::clear);
    });
    upcalls::set_timer_hook(None);
}
