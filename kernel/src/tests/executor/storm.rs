//! Interrupts that wake tasks, on all cores at once and as fast as they come.

use super::{join, on, spawn, spawn_on};
use crate::{upcalls, watchdog};
use alloc::vec::Vec;
use core::{
    future::poll_fn,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::*},
    task::Poll,
};
use executor::{Runtime, scheduler::tick::torture, stats, sync::WakerSlot};
use hal::{clock, cores};
use testing::kernel_test;

/// Tasks that wait for interrupts.
const SLEEPERS: usize = 32;
/// How often each is woken.
const WAKES: usize = 1000;
/// How many an interrupt looks at.
const LOOKS: usize = 8;
/// Nanoseconds from one interrupt of a core to the next.
const PERIOD: u64 = 50_000;

/// Where a task waits. An interrupt wakes it only if it has waited since the
/// last one did, so each wake has one poll that answers it; one that is lost
/// is never made up for by the next.
struct Bed {
    is_asleep: AtomicBool,
    waker: WakerSlot,
}

static BEDS: [Bed; SLEEPERS] = [const {
    Bed {
        is_asleep: AtomicBool::new(false),
        waker: WakerSlot::new(),
    }
}; SLEEPERS];
/// Wakes by all interrupts.
static SENT: AtomicUsize = AtomicUsize::new(0);
/// Which bed is looked at next.
static NEXT: AtomicUsize = AtomicUsize::new(0);
static IS_OVER: AtomicBool = AtomicBool::new(true);

/// Wakes a few, kicks a core that may be asleep or may not, and comes again.
fn on_tick() {
    if IS_OVER.load(Relaxed) {
        return;
    }
    for _ in 0..LOOKS {
        let bed = &BEDS[NEXT.fetch_add(1, Relaxed) % SLEEPERS];
        // Acquire pairs with the release in `sleep`: the waker is there.
        if bed.is_asleep.swap(false, Acquire) {
            SENT.fetch_add(1, Relaxed);
            bed.waker.wake();
        }
    }
    let others = cores::online().without(cores::this_core());
    let turn = NEXT.load(Relaxed) / LOOKS;
    if let Some(core) = others.iter().nth(turn % others.len().max(1)) {
        cores::kick(core);
    }
    clock::arm(clock::now() + PERIOD);
}

/// Sleeps until an interrupt comes, `WAKES` times; how often it was polled.
async fn sleep(bed: &'static Bed) -> usize {
    let mut polls = 0;
    let mut woken = 0;
    let mut lies_down = true;
    poll_fn(|context| {
        polls += 1;
        if !lies_down && bed.is_asleep.load(Relaxed) {
            // Polled without having been woken: counted, and found out in the end.
            return Poll::Pending;
        }
        woken += usize::from(!lies_down);
        lies_down = false;
        if woken == WAKES {
            return Poll::Ready(());
        }
        bed.waker.register(context.waker());
        // Release pairs with the acquire in `on_tick`.
        bed.is_asleep.store(true, Release);
        Poll::Pending
    })
    .await;
    polls
}

#[kernel_test(cores = 4, limit = 300)]
fn every_wake_of_a_storm_of_interrupts_is_answered_by_one_poll() {
    if torture::is_on() {
        return; // it has the timer
    }
    SENT.store(0, Relaxed);
    IS_OVER.store(false, Relaxed);
    let _unwatched = watchdog::leave_timers();
    upcalls::set_timer_hook(Some(on_tick));
    // The tick would set the timer as it likes.
    on(Runtime::builder().quantum(None), async {
        let cores = stats::stats().cores.len();
        let sleepers = BEDS
            .iter()
            .enumerate()
            .map(|(number, bed)| match number % 2 {
                0 => spawn(sleep(bed)),
                _ => spawn_on(number / 2 % cores, sleep(bed)),
            });
        let sleepers: Vec<_> = sleepers.collect();
        join((0..cores).map(|core| spawn_on(core, async { clock::arm(0) }))).await;
        let mut polls = 0;
        for sleeper in sleepers {
            polls += sleeper.await.expect("nobody cancels it");
        }
        IS_OVER.store(true, Relaxed);
        assert_eq!(SENT.load(Relaxed), SLEEPERS * WAKES);
        assert_eq!(polls, SLEEPERS * (WAKES + 1), "polls for all wakes");
    });
    upcalls::set_timer_hook(None);
}
