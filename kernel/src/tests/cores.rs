//! Kicks, jobs, locks, masking.

use crate::{cores::on_all, upcalls::counts};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use hal::{cores, irq, lot, preempt, sync::Lock};
use testing::kernel_test;

fn kicks(core: usize) -> u64 {
    counts(core).kicks.load(Relaxed)
}

/// Sleeps until `done`, which an interrupt on this core makes true.
fn sleep_until(mut done: impl FnMut() -> bool) {
    loop {
        let masked = irq::mask();
        if done() {
            return;
        }
        irq::wait(&masked);
    }
}

#[kernel_test]
fn a_job_runs_once_on_every_core() {
    let runs: [AtomicUsize; cores::MAX_CORES] = [const { AtomicUsize::new(0) }; _];
    for round in 1..=100 {
        on_all(&|core| {
            assert_eq!(core, cores::this_core());
            runs[core].fetch_add(1, Relaxed);
        });
        for (core, runs) in runs.iter().enumerate() {
            let expected = if cores::online().contains(core) {
                round
            } else {
                0
            };
            assert_eq!(runs.load(Relaxed), expected, "core {core}");
        }
    }
}

#[kernel_test(cores = 2, limit = 120)]
fn cores_are_claimed_run_and_come_back_a_thousand_times() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    RUNS.store(0, Relaxed);
    let others = cores::online().without(cores::this_core());
    assert_eq!(lot::free(), others);
    for round in 0..1000 {
        // All of them, or all but one, or ...
        let most = others.len() - round % others.len();
        let claimed = lot::claim(most);
        assert_eq!(claimed.len(), most);
        assert_eq!(lot::free().0, others.0 & !claimed.0);
        let before = RUNS.load(Relaxed);
        let mut runs = [None; cores::MAX_CORES];
        for core in claimed.iter() {
            let job = |core| {
                assert_eq!(core, cores::this_core());
                assert!(irq::are_enabled() && preempt::is_allowed() && !irq::in_handler());
                assert!(cores::local().is_null());
                RUNS.fetch_add(1, Relaxed);
            };
            runs[core] = Some(lot::run(core, job, core));
        }
        runs.into_iter().flatten().for_each(lot::Run::wait);
        assert_eq!(RUNS.load(Relaxed), before + most, "each job runs once");
    }
    assert_eq!(lot::free(), others);
    // Claimed and not run.
    assert_eq!(lot::claim(usize::MAX), others);
    assert_eq!(lot::claim(1), cores::CoreSet::EMPTY);
    lot::give_back(others);
}

#[kernel_test(cores = 2)]
fn a_claimed_core_can_be_kicked_out_of_its_sleep() {
    static STEP: AtomicUsize = AtomicUsize::new(0);
    STEP.store(0, Relaxed);
    let claimed = lot::claim(1);
    let core = claimed.iter().next().expect("there are two cores");
    let run = lot::run(core, |_| sleep_until(|| STEP.load(Acquire) == 1), 0);
    assert!(!run.is_over());
    STEP.store(1, Release);
    cores::kick(core);
    run.wait();
}

#[kernel_test]
fn a_core_can_kick_itself_and_the_kick_waits_while_masked() {
    let me = cores::this_core();
    let before = kicks(me);
    let masked = irq::mask();
    cores::kick(me);
    for _ in 0..10_000 {
        hal::pause();
    }
    assert_eq!(kicks(me), before, "masked");
    drop(masked);
    sleep_until(|| kicks(me) > before);
}

#[kernel_test(cores = 2, limit = 120)]
fn kicks_reach_every_core_from_every_core() {
    // Each core in turn kicks every other, which sleeps until it has been kicked.
    for sender in cores::online().iter() {
        let ready = AtomicUsize::new(0);
        on_all(&|core| {
            if core == sender {
                while ready.load(Acquire) < cores::online().len() - 1 {
                    hal::pause();
                }
                for other in cores::online().without(core).iter() {
                    cores::kick(other);
                }
            } else {
                let before = kicks(core);
                ready.fetch_add(1, Release);
                sleep_until(|| kicks(core) > before);
            }
        });
    }
}

#[kernel_test(cores = 2, limit = 120)]
fn no_kick_is_lost_between_looking_and_sleeping() {
    // Two cores hand a token back and forth; whoever does not have it sleeps. A kick lost in the
    // window between the look and the sleep would stop both for good.
    const TURNS: usize = 2_000;
    let pair: [usize; 2] = {
        let mut online = cores::online().iter();
        [online.next().unwrap(), online.next().unwrap()]
    };
    let turn = AtomicUsize::new(0);
    on_all(&|core| {
        let Some(mine) = pair.iter().position(|&member| member == core) else {
            return;
        };
        for n in (mine..TURNS).step_by(2) {
            sleep_until(|| turn.load(Acquire) == n);
            turn.store(n + 1, Release);
            cores::kick(pair[1 - mine]);
        }
    });
    assert_eq!(turn.load(Relaxed), TURNS);
}

#[kernel_test(limit = 120)]
fn a_lock_lets_in_one_core_at_a_time() {
    const ROUNDS: usize = 5_000;
    static COUNT: Lock<(usize, usize)> = Lock::new((0, 0));
    *COUNT.lock() = (0, 0);
    let inside = AtomicBool::new(false);
    on_all(&|_| {
        for _ in 0..ROUNDS {
            let mut count = COUNT.lock();
            assert!(!inside.swap(true, Relaxed), "two cores are inside");
            assert!(!irq::are_enabled(), "interrupts are masked inside");
            // Two plain writes that only a lock keeps together.
            count.0 += 1;
            count.1 += 1;
            assert_eq!(count.0, count.1);
            inside.store(false, Relaxed);
        }
    });
    let expected = ROUNDS * cores::online().len();
    assert_eq!(*COUNT.lock(), (expected, expected));
    assert!(irq::are_enabled());
}
