//! What goes on no more is named, and what only takes long is not.
//!
//! Each of these spins until the watchdog has said what it does. None of them is under torture: there a second is a thousand million
//! instructions.

use super::{join, on, on_all_cores};
use crate::{
    failure, upcalls,
    watchdog::{self, Told},
};
use boot::command_line::Watchdog;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use executor::{
    Runtime, TaskError,
    scheduler::tick::torture,
    task::{Builder, spawn_local_on, yield_now},
    time::{Duration, Instant, sleep},
    watch::{self, Trouble},
};
use hal::{cores::this_core, irq, preempt};
use testing::kernel_test;

/// Whoever is not named after this long, is not.
const GIVE_UP: Duration = Duration::from_secs(120);

/// For a while. QEMU reads some clocks under a lock that its timers need, so who asks for the time at each turn keeps them from coming.
fn pause() {
    (0..1000).for_each(|_| hal::pause());
}

/// Spins until there was an alarm.
#[inline(never)]
fn spin_until_alarm(before: u64) {
    let begin = Instant::now();
    for turn in 1u64.. {
        let is_over = watchdog::alarms().total() != before;
        // Seldom, for the same reason.
        if is_over || turn.is_multiple_of(4096) && begin.elapsed() >= GIVE_UP {
            return;
        }
        pause();
    }
}

/// The same for one that is under a guard nearly all of the time, but never under the same for long: so are most of its ticks.
#[inline(never)]
fn take_guards_until_alarm(before: u64) {
    let begin = Instant::now();
    for turn in 1u64.. {
        let is_over = {
            let _guard = preempt::guard();
            (0..5).for_each(|_| pause());
            watchdog::alarms().total() != before
        };
        if is_over || turn.is_multiple_of(64) && begin.elapsed() >= GIVE_UP {
            return;
        }
    }
}

/// The same. A backtrace may lack who has called the innermost function, if that has just begun; but not who has called this.
#[inline(never)]
fn keep_the_core(before: u64) {
    spin_until_alarm(before);
    core::hint::black_box(before);
}

#[inline(never)]
fn spin_with_interrupts_masked(before: u64) {
    let _masked = irq::mask();
    spin_until_alarm(before);
}

#[inline(never)]
fn spin_under_a_guard(before: u64) {
    let _guard = preempt::guard();
    spin_until_alarm(before);
}

/// Does something that the watchdog names, and says what it was told. Within two seconds: of what ticks have vouched for, or
/// else by not more samples than there are in that time. A host that stops a core makes it later, but these do not go on either.
async fn alarm_of(provoke: impl AsyncFnOnce(u64)) -> Told {
    const IN_TIME: u64 = 2_000 / 50;
    let (before, samples) = (watchdog::alarms().total(), watch::samples());
    provoke(before).await;
    let samples = watch::samples() - samples;
    assert_eq!(watchdog::alarms().total(), before + 1);
    let told = watchdog::take_last().expect("there was an alarm");
    let is_in_time = told.time < Duration::from_secs(2);
    let is_by_samples = told.trouble == Trouble::Masked && samples <= IN_TIME;
    assert!(
        is_in_time || is_by_samples,
        "{:?}, {samples} samples",
        told.time
    );
    told
}

#[kernel_test(cores = 2, limit = 300)]
fn a_core_that_masks_interrupts_is_named() {
    if torture::is_on() {
        return;
    }
    let _expected = watchdog::expect_alarms(Watchdog::Report);
    on_all_cores(async {
        // All others sleep, then all are busy.
        for is_busy in [false, true] {
            let told = alarm_of(async |before| {
                let masks = async move { spin_with_interrupts_masked(before) };
                let masks = Builder::new().name("masks").core(1).spawn(masks);
                while is_busy && !masks.is_finished() {
                    yield_now().await;
                }
                masks.await.expect("nobody cancels it");
            })
            .await;
            assert_eq!((told.trouble, told.core), (Trouble::Masked, 1));
            assert!(told.task.is_some());
            assert!(told.names("spin_with_interrupts_masked"));
            assert!(told.time >= Duration::from_secs(1));
        }
    });
}

/// How many alarms there were when core 1 is to be kept in its next timer interrupt; [`usize::MAX`]: it is not.
static KEPT_AT: AtomicUsize = AtomicUsize::new(usize::MAX);

fn keep_core_1_in_its_interrupt() {
    if this_core() == 1 {
        let before = KEPT_AT.swap(usize::MAX, Relaxed);
        if before != usize::MAX {
            keep_the_core(before as u64);
        }
    }
}

#[kernel_test(cores = 2, limit = 300)]
fn a_core_that_slept_and_is_kept_by_what_woke_it_is_named() {
    if torture::is_on() || !hal::sample::is_possible() {
        return;
    }
    let _expected = watchdog::expect_alarms(Watchdog::Report);
    upcalls::set_timer_hook(Some(keep_core_1_in_its_interrupt));
    // Nothing is for core 1 to do, so it sleeps; only its looks at the others wake it.
    on_all_cores(async {
        let told = alarm_of(async |before| {
            sleep(Duration::from_millis(50)).await;
            KEPT_AT.store(before as usize, Relaxed);
            let begin = Instant::now();
            while watchdog::alarms().total() == before && begin.elapsed() < GIVE_UP {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        assert_eq!((told.trouble, told.core), (Trouble::Masked, 1));
        assert!(told.names("keep_the_core"));
    });
    upcalls::set_timer_hook(None);
}

#[kernel_test(cores = 2, limit = 300)]
fn a_guard_that_is_held_for_long_is_named() {
    if torture::is_on() {
        return;
    }
    let _expected = watchdog::expect_alarms(Watchdog::Report);
    // Also on cores that do not preempt.
    for quantum in [Some(Duration::from_millis(10)), None] {
        on(Runtime::builder().quantum(quantum), async {
            let mut id = None;
            let told = alarm_of(async |before| {
                let holds = async move { spin_under_a_guard(before) };
                let holds = Builder::new().name("holds").core(1).spawn(holds);
                id = Some(holds.task().id());
                holds.await.expect("nobody cancels it");
            })
            .await;
            assert_eq!((told.trouble, told.core), (Trouble::Guarded, 1));
            assert_eq!(told.task, id);
            assert!(told.names("spin_under_a_guard"));
        });
    }
}

#[kernel_test(cores = 2, limit = 300)]
fn a_task_that_waits_for_a_poll_without_end_is_named() {
    if torture::is_on() {
        return;
    }
    let _expected = watchdog::expect_alarms(Watchdog::Report);
    on(Runtime::builder().quantum(None), async {
        let (mut hog, mut waits) = (None, None);
        let told = alarm_of(async |before| {
            let hogs = Builder::new().name("hog").core(1);
            let hogs = hogs.spawn(async move { keep_the_core(before) });
            let waiting = Builder::new().name("waits").core(1).spawn(async {});
            (hog, waits) = (Some(hogs.task().id()), Some(waiting.task().id()));
            join([hogs, waiting]).await;
        })
        .await;
        assert_eq!((told.trouble, told.core), (Trouble::Starved, 1));
        assert_eq!((told.task, told.waiting), (hog, waits));
        assert!(told.names("keep_the_core"));
    });
    // One core, and what it would take from its own queue.
    on(Runtime::builder().quantum(None).workers(1), async {
        let mut waits = None;
        let told = alarm_of(async |before| {
            let waiting = Builder::new().name("waits").spawn(async {});
            waits = Some(waiting.task().id());
            spin_until_alarm(before);
            waiting.await.expect("nobody cancels it");
        })
        .await;
        assert_eq!((told.trouble, told.waiting), (Trouble::Starved, waits));
    });
}

#[kernel_test(cores = 2, limit = 300)]
fn a_poll_without_end_that_takes_guards_all_the_time_is_named() {
    if torture::is_on() {
        return;
    }
    let _expected = watchdog::expect_alarms(Watchdog::Report);
    on(Runtime::builder().quantum(None), async {
        let mut waits = None;
        let told = alarm_of(async |before| {
            let hogs = Builder::new().name("hog").core(1);
            let hogs = hogs.spawn(async move { take_guards_until_alarm(before) });
            let waiting = Builder::new().name("waits").core(1).spawn(async {});
            waits = Some(waiting.task().id());
            join([hogs, waiting]).await;
        })
        .await;
        assert_eq!((told.trouble, told.waiting), (Trouble::Starved, waits));
        assert!(told.names("take_guards_until_alarm"));
    });
}

#[kernel_test(cores = 2, limit = 300)]
fn a_local_task_that_waits_for_another_s_poll_without_end_is_named() {
    if torture::is_on() {
        return;
    }
    let _expected = watchdog::expect_alarms(Watchdog::Report);
    on_all_cores(async {
        let (mut hog, mut waits) = (None, None);
        let told = alarm_of(async |before| {
            let hogs = spawn_local_on(1, move || async move { keep_the_core(before) });
            let waiting = spawn_local_on(1, || async {});
            (hog, waits) = (Some(hogs.task().id()), Some(waiting.task().id()));
            join([hogs, waiting]).await;
        })
        .await;
        assert_eq!((told.trouble, told.core), (Trouble::Starved, 1));
        assert_eq!((told.task, told.waiting), (hog, waits));
        assert!(told.names("keep_the_core"));
    });
}

#[kernel_test(cores = 2, limit = 300)]
fn a_poll_without_end_that_keeps_others_waiting_is_ended() {
    if torture::is_on() {
        return;
    }
    let _expected = watchdog::expect_alarms(Watchdog::Kill);
    let _tasks_end = failure::let_tasks_end();
    let runtime = Runtime::builder().quantum(None).build();
    let runtime = runtime.expect("no other runtime has the cores");
    runtime.block_on(async {
        let hogs = Builder::new().name("hog").core(1).spawn(async {
            loop {
                hal::pause();
            }
        });
        let waiting = Builder::new().core(1).spawn(async { 5 });
        assert!(matches!(hogs.await, Err(TaskError::Panicked(_))));
        assert_eq!(waiting.await.expect("its core is free"), 5);
    });
    runtime.shutdown();
}

/// Three seconds, as ticks count them.
#[kernel_test(cores = 2, limit = 300)]
fn what_only_takes_long_is_not_named() {
    if torture::is_on() {
        return;
    }
    /// Tells how long this core has run, at least: turns of a loop count no more than so long each.
    fn spin_for(time: Duration) {
        let (mut left, mut last) = (time, Instant::now());
        while left > Duration::ZERO {
            pause();
            let now = Instant::now();
            left = left.saturating_sub((now - last).min(Duration::from_micros(100)));
            last = now;
        }
    }
    const TIMES: usize = 12;
    on_all_cores(async {
        // Masks for long, but not for ever.
        let masks = Builder::new().core(1).spawn(async {
            for _ in 0..TIMES {
                let (masked, begin) = (irq::mask(), Instant::now());
                while begin.elapsed() < Duration::from_millis(250) {
                    pause();
                }
                drop(masked);
                // So that its tick comes.
                spin_for(Duration::from_millis(3));
            }
        });
        // Guards nearly all the time, but none of them for long.
        let guards = Builder::new().core(0).spawn(async {
            let begin = Instant::now();
            let mut count = 0;
            while begin.elapsed() < Duration::from_secs(3) {
                let _guard = preempt::guard();
                spin_for(Duration::from_micros(200));
                count += 1;
            }
            assert!(count > 0);
        });
        // Many that wait for one core, on which each takes its whole quantum.
        let hogs = (0..20).map(|_| {
            Builder::new().core(1).spawn(async {
                spin_for(Duration::from_millis(100));
            })
        });
        join(hogs.chain([masks, guards])).await;
    });
}
