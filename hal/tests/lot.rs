//! Tests of the lot on the host, where threads are made to play its cores.
#![cfg(not(loom))]

use hal::{
    bring_up, clock,
    context::{self, Frame},
    cores::{self, CoreSet, MAX_CORES},
    irq::{self, Line},
    lot, preempt,
    traps::{self, Fault, Switch, Upcalls},
};
use std::{
    collections::HashSet,
    process::Command,
    ptr,
    sync::{
        Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicUsize, Ordering::*},
    },
    thread::{self, ThreadId},
};

static KICKS: [AtomicUsize; MAX_CORES] = [const { AtomicUsize::new(0) }; MAX_CORES];
static TIMERS: [AtomicUsize; MAX_CORES] = [const { AtomicUsize::new(0) }; MAX_CORES];

struct Listener;

impl Upcalls for Listener {
    fn on_timer(&self) {
        TIMERS[cores::this_core()].fetch_add(1, Relaxed);
    }
    fn on_kick(&self) {
        KICKS[cores::this_core()].fetch_add(1, Relaxed);
    }
    fn on_line(&self, _: Line) {}
    fn on_fault(&self, fault: &Fault, _: &Frame) -> Switch {
        panic!("{fault}")
    }
}

/// One test at a time: some count the threads, or what is free.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| traps::register(&(&Listener as &dyn Upcalls)));
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `is_so`, asleep between interrupts.
fn sleep_until(is_so: impl Fn() -> bool) {
    let masked = irq::mask();
    while !is_so() {
        irq::wait(&masked);
    }
}

/// Runs `job` on `count` cores of the lot and waits until all are back.
fn on_cores(count: usize, job: fn(usize)) -> CoreSet {
    let claimed = lot::claim(count);
    assert_eq!(claimed.len(), count);
    let runs: Vec<_> = claimed
        .iter()
        .map(|core| lot::run(core, job, core))
        .collect();
    runs.into_iter().for_each(lot::Run::wait);
    claimed
}

#[test]
fn a_claimed_core_runs_its_job_and_comes_back() {
    static ARGUMENTS: AtomicUsize = AtomicUsize::new(0);
    let _alone = alone();
    let me = cores::this_core();
    let claimed = lot::claim(3);
    assert_eq!(claimed.len(), 3);
    assert!(!claimed.contains(me) && lot::free().0 & claimed.0 == 0);
    let runs: Vec<_> = claimed
        .iter()
        .map(|core| {
            let job = |argument| {
                assert!(irq::are_enabled() && preempt::is_allowed() && !irq::in_handler());
                assert_eq!(cores::this_core(), argument);
                assert!(cores::local().is_null() && context::current().task().is_null());
                ARGUMENTS.fetch_add(argument, Relaxed);
            };
            lot::run(core, job, core)
        })
        .collect();
    for run in runs {
        run.wait();
        assert!(run.is_over());
    }
    assert_eq!(ARGUMENTS.load(Relaxed), claimed.iter().sum());
    assert_eq!(
        lot::free().0 & claimed.0,
        claimed.0,
        "who is over is free again"
    );
}

#[test]
fn claimed_cores_can_be_given_back_unused() {
    let _alone = alone();
    let claimed = lot::claim(2);
    lot::give_back(claimed);
    assert_eq!(lot::claim(2), claimed, "the lowest that are free");
    lot::give_back(claimed);
}

#[test]
fn nobody_else_gets_a_core_that_is_claimed() {
    let _alone = alone();
    let first = lot::claim(2);
    let second = lot::claim(2);
    assert_eq!((first.0 & second.0, second.len()), (0, 2));
    lot::give_back(first);
    lot::give_back(second);
}

#[test]
fn threads_that_came_back_are_used_again() {
    static SEEN: Mutex<Option<HashSet<ThreadId>>> = Mutex::new(None);
    let _alone = alone();
    *SEEN.lock().unwrap() = Some(HashSet::new());
    let mut claimed = CoreSet::EMPTY;
    for _ in 0..1000 {
        let cores = on_cores(3, |_| {
            let id = thread::current().id();
            SEEN.lock().unwrap().get_or_insert_default().insert(id);
        });
        claimed.0 |= cores.0;
    }
    assert_eq!(claimed.len(), 3, "always the same cores");
    let seen = SEEN.lock().unwrap().take().expect("it was set");
    assert_eq!(seen.len(), 3, "always the same threads");
}

#[test]
fn a_kick_reaches_a_claimed_core_that_sleeps() {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    const TURNS: usize = 1000;
    let _alone = alone();
    TURN.store(0, Relaxed);
    let core = lot::claim(1).iter().next().expect("there is one");
    let before = KICKS[core].load(Relaxed);
    let run = lot::run(
        core,
        |origin| {
            for turn in (0..TURNS).step_by(2) {
                sleep_until(|| TURN.load(Acquire) == turn + 1);
                TURN.store(turn + 2, Release);
                cores::kick(origin);
            }
        },
        cores::this_core(),
    );
    for turn in (0..TURNS).step_by(2) {
        sleep_until(|| TURN.load(Acquire) == turn);
        TURN.store(turn + 1, Release);
        cores::kick(core);
    }
    run.wait();
    assert!(KICKS[core].load(Relaxed) > before);
}

#[test]
fn a_kick_between_claim_and_job_is_not_lost() {
    let _alone = alone();
    // Some of these have a thread that was only just made.
    let claimed = lot::claim(6);
    for core in claimed.iter() {
        let before = KICKS[core].load(Relaxed);
        cores::kick(core);
        let heard = |argument: usize| {
            let core = cores::this_core();
            sleep_until(|| KICKS[core].load(Relaxed) > argument);
        };
        lot::run(core, heard, before).wait();
    }
}

#[test]
fn timers_work_on_cores_of_the_lot_and_end_with_the_job() {
    let _alone = alone();
    let claimed = on_cores(2, |core| {
        let before = TIMERS[core].load(Relaxed);
        let deadline = clock::now() + 1_000_000;
        clock::arm(deadline);
        sleep_until(|| TIMERS[core].load(Relaxed) > before);
        assert!(clock::now() >= deadline);
        // Left armed: nobody is to hear of it.
        clock::arm(clock::now() + 3_600_000_000_000);
    });
    on_cores(claimed.len(), |core| {
        let before = TIMERS[core].load(Relaxed);
        clock::arm(clock::now() + 1_000_000);
        clock::disarm();
        hal::pause();
        assert_eq!(TIMERS[core].load(Relaxed), before);
    });
}

#[test]
fn what_a_job_kept_is_gone_for_the_next() {
    let _alone = alone();
    for _ in 0..2 {
        on_cores(2, |_| {
            let here = context::current();
            assert!(cores::local().is_null());
            assert!(here.task().is_null() && here.locals().is_null());
            let word = ptr::dangling_mut();
            cores::set_local(word);
            here.set_task(word);
            here.set_locals(word);
            assert!(cores::local() == word && here.task() == word && here.locals() == word);
        });
    }
}

#[test]
fn machines_and_the_lot_do_not_meet() {
    static GO_ON: AtomicUsize = AtomicUsize::new(0);
    let _alone = alone();
    GO_ON.store(0, Relaxed);
    let claimed = lot::claim(2);
    let wait = |_| sleep_until(|| GO_ON.load(Acquire) == 1);
    let runs: Vec<_> = claimed.iter().map(|core| lot::run(core, wait, 0)).collect();
    for count in [1, 3] {
        bring_up::start(count, |core| {
            irq::enable_each_core();
            assert!(!claimed.contains(core));
            assert_eq!(cores::online().len(), count, "the lot is in no machine");
            // A core of a machine may use the lot too.
            if core == 0 {
                let more = on_cores(2, |core| assert_eq!(cores::this_core(), core));
                assert_eq!(more.0 & claimed.0, 0);
            }
        });
    }
    GO_ON.store(1, Release);
    claimed.iter().for_each(cores::kick);
    runs.into_iter().for_each(lot::Run::wait);
}

#[test]
fn a_job_that_panics_ends_the_process_with_a_message() {
    const CHILD: &str = "SPINDLE_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        on_cores(1, |_| panic!("as it was told to"));
        unreachable!("the process is gone");
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_job_that_panics_ends_the_process_with_a_message",
        ])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(!child.status.success());
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(
        said.contains("a job panicked on core 32") && said.contains("as it was told to"),
        "{said}"
    );
}
