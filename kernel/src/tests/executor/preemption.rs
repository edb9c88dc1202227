//! Polls that never await: others go on all the same.
//!
//! Nothing here relies on how fast the machine is: each test goes on until what
//! it waits for has happened, and what must never happen is looked for meanwhile.

use super::{Table, join, on, on_all_cores, scaled, spawn, spawn_on};
use crate::upcalls;
use alloc::{rc::Rc, sync::Arc, vec::Vec};
use core::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*},
};
use executor::{
    Priority, Runtime, TaskHandle, preempt,
    scheduler::tick::torture,
    stats,
    task::{self, Builder, spawn_local_on, yield_now},
    thread,
    time::{Duration, Instant, sleep},
};
use hal::{context::registers_survive, cores};
use testing::kernel_test;

/// What polls that never await are told, and what they tell.
struct Hogs {
    are_over: Vec<AtomicBool>,
    turns: Vec<AtomicU64>,
    /// Cores that each was seen on.
    seen: Vec<AtomicU64>,
}

impl Hogs {
    fn new(count: usize) -> Arc<Self> {
        let zeros = || (0..count).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self {
            are_over: (0..count).map(|_| AtomicBool::new(false)).collect(),
            turns: zeros(),
            seen: zeros(),
        })
    }

    /// Never gives way; sees to it that no register changes behind its back.
    fn run(&self, hog: usize) {
        let on_stack = core::hint::black_box([hog as u64 * 5 + 1; 32]);
        while !self.are_over[hog].load(Relaxed) {
            assert!(
                registers_survive(hog as u64 * 1000 + 1, 500),
                "a register changed across a preemption"
            );
            assert_eq!(on_stack, [hog as u64 * 5 + 1; 32]);
            self.turns[hog].fetch_add(1, Relaxed);
            self.seen[hog].fetch_or(1 << cores::this_core(), Relaxed);
        }
    }

    fn count(&self) -> usize {
        self.turns.len()
    }

    /// Waits until each has had so many turns more.
    async fn progress(&self, more: u64) {
        let before: Vec<u64> = self.turns.iter().map(|turns| turns.load(Relaxed)).collect();
        for (turns, before) in self.turns.iter().zip(before) {
            while turns.load(Relaxed) < before + more {
                sleep(Duration::from_millis(1)).await;
            }
        }
    }

    fn end(&self) {
        (0..self.count()).for_each(|hog| self.end_one(hog));
    }

    fn end_one(&self, hog: usize) {
        self.are_over[hog].store(true, Relaxed);
    }

    /// Cores that one was seen on.
    fn cores_of(&self, hog: usize) -> u64 {
        self.seen[hog].load(Relaxed)
    }
}

/// Twice as many as there are cores, as tasks.
fn hogs() -> (Arc<Hogs>, Vec<TaskHandle<()>>) {
    let hogs = Hogs::new(2 * stats::stats().cores.len());
    let tasks = (0..hogs.count()).map(|hog| {
        let hogs = hogs.clone();
        spawn(async move { hogs.run(hog) })
    });
    (hogs.clone(), tasks.collect())
}

#[kernel_test(limit = 120)]
fn tasks_that_never_await_share_all_cores_and_others_keep_time() {
    on_all_cores(async {
        let (hogs, tasks) = hogs();
        let beats = Arc::new(AtomicUsize::new(0));
        let counted = beats.clone();
        let clock = spawn(async move {
            for _ in 0..10 {
                sleep(Duration::from_millis(2)).await;
                counted.fetch_add(1, Relaxed);
            }
        });
        // A task that yields, one that spawns and joins, and time all go on, and so do the loops.
        for _ in 0..3 {
            yield_now().await;
            assert_eq!(spawn(async { 6 * 7 }).await.unwrap(), 42);
            hogs.progress(10).await;
        }
        join([clock]).await;
        assert_eq!(beats.load(Relaxed), 10);
        assert!(stats::stats().total.preemptions > 0);
        hogs.end();
        join(tasks).await;
    });
}

#[kernel_test(limit = 120)]
fn threads_that_never_wait_share_all_cores_with_tasks() {
    on_all_cores(async {
        let hogs = Hogs::new(2 * stats::stats().cores.len());
        let threads: Vec<_> = (0..hogs.count())
            .map(|hog| {
                let hogs = hogs.clone();
                thread::spawn(move || hogs.run(hog))
            })
            .collect();
        hogs.progress(20).await;
        hogs.end();
        for thread in threads {
            thread.await.unwrap();
        }
    });
}

#[kernel_test(limit = 120)]
fn what_comes_after_a_preempted_poll_has_a_quantum_of_its_own() {
    if torture::is_on() {
        return; // there are no quanta
    }
    on(Runtime::builder().workers(1), async {
        let ticks = || upcalls::counts(cores::this_core()).timers.load(Relaxed);
        let preemptions = || stats::stats().total.preemptions;
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let hog = spawn(async move {
            while !seen.load(Relaxed) {
                hal::pause();
            }
        });
        for _ in 0..5 {
            // Begins when the hog is preempted, and is over before it would be.
            let short = spawn(async move {
                let (begin, before) = (ticks(), preemptions());
                while ticks() < begin + 5 {
                    hal::pause();
                }
                assert_eq!(preemptions(), before, "it had no quantum of its own");
            });
            join([short]).await;
        }
        is_over.store(true, Relaxed);
        join([hog]).await;
    });
}

#[kernel_test(limit = 120)]
fn a_task_of_low_priority_waits_for_few_quanta_of_a_hog() {
    if torture::is_on() {
        return; // there are no quanta
    }
    on(Runtime::builder().workers(1), async {
        let preemptions = || stats::stats().total.preemptions;
        for _ in 0..5 {
            let is_over = Arc::new(AtomicBool::new(false));
            let seen = is_over.clone();
            let hog = spawn(async move {
                while !seen.load(Relaxed) {
                    hal::pause();
                }
            });
            let before = preemptions();
            let low = Builder::new().priority(Priority::Low).spawn(async move {
                is_over.store(true, Relaxed);
                preemptions() - before
            });
            let waited = low.await.expect("nobody cancels it");
            assert!(
                waited <= 16,
                "for {waited} quanta: more than there are queues"
            );
            join([hog]).await;
        }
    });
}

#[kernel_test(limit = 120)]
fn tasks_that_yield_do_not_wait_for_a_quantum_of_a_pinned_hog_each_time() {
    const TASKS: usize = 50;
    const YIELDS: u64 = 20;
    if torture::is_on() {
        return; // there are no quanta
    }
    on(Runtime::builder().workers(1), async {
        let preemptions = || stats::stats().total.preemptions;
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let hog = spawn_on(0, async move {
            while !seen.load(Relaxed) {
                hal::pause();
            }
        });
        let before = preemptions();
        let yielding = || async {
            for _ in 0..YIELDS {
                yield_now().await;
            }
        };
        join((0..TASKS).map(|_| spawn(yielding())).collect::<Vec<_>>()).await;
        let quanta = preemptions() - before;
        is_over.store(true, Relaxed);
        join([hog]).await;
        // In each round, in which all of them have a turn, the hog has one, and maybe a fair one.
        let most = 3 * (YIELDS + 2) + TASKS as u64 * YIELDS / 61;
        assert!(quanta <= most, "{quanta} quanta of the hog, not {most}");
    });
}

#[kernel_test(cores = 4, limit = 120)]
fn a_preempted_poll_can_be_stolen() {
    on_all_cores(async {
        let (hogs, tasks) = hogs();
        let hogs = &*hogs;
        hogs.progress(5).await;
        let all = 0..hogs.count();
        let has_moved = || all.clone().any(|hog| hogs.cores_of(hog).count_ones() > 1);
        // There are more of them than cores, so some core has two; all others are left without work.
        let on = |core: u64| move |hog: &usize| hogs.cores_of(*hog) == core;
        let mut cores = all.clone().map(|hog| hogs.cores_of(hog));
        if let Some(core) = cores.find(|core| all.clone().filter(on(*core)).count() > 1) {
            let elsewhere = all.clone().filter(|hog| !on(core)(hog));
            elsewhere.for_each(|hog| hogs.end_one(hog));
        }
        while !has_moved() {
            sleep(Duration::from_millis(1)).await;
        }
        hogs.end();
        join(tasks).await;
    });
}

#[kernel_test(limit = 120)]
fn a_preempted_task_is_cancelled_at_its_next_await() {
    on_all_cores(async {
        let (hogs, tasks) = hogs();
        let own = Hogs::new(1);
        let (inner, awaited) = (own.clone(), Arc::new(AtomicBool::new(false)));
        let reached = awaited.clone();
        let victim = spawn(async move {
            inner.run(0);
            reached.store(true, Relaxed);
            yield_now().await;
            unreachable!("it was cancelled");
        });
        own.progress(5).await;
        assert!(victim.cancel());
        own.progress(5).await;
        assert!(!victim.is_finished(), "it has not come to an await");
        own.end();
        assert!(victim.await.unwrap_err().is_cancelled());
        assert!(awaited.load(Relaxed));
        hogs.end();
        join(tasks).await;
    });
}

#[kernel_test(limit = 120)]
fn a_guard_keeps_others_from_the_core() {
    on_all_cores(async {
        let inside = Arc::new(AtomicUsize::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        // All on one core, so that whoever finds another inside has interrupted it.
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let (inside, is_over) = (inside.clone(), is_over.clone());
                spawn_on(0, async move {
                    while !is_over.load(Relaxed) {
                        let guard = preempt::guard();
                        assert_eq!(inside.fetch_add(1, Relaxed), 0, "a guard was passed by");
                        registers_survive(1, 2_000);
                        inside.fetch_sub(1, Relaxed);
                        drop(guard);
                    }
                })
            })
            .collect();
        let before = stats::stats().total.suspensions;
        // They give way as they drop their guards, or are preempted between them.
        let gave_way = || {
            let total = stats::stats().total;
            total.suspensions - before + total.preemptions > 20
        };
        while !gave_way() {
            sleep(Duration::from_millis(1)).await;
        }
        is_over.store(true, Relaxed);
        join(tasks).await;
    });
}

#[kernel_test(limit = 120)]
fn dropping_the_last_guard_gives_way_if_that_was_asked_meanwhile() {
    on_all_cores(async {
        let is_over = Arc::new(AtomicBool::new(false));
        let other = {
            let is_over = is_over.clone();
            spawn_on(0, async move {
                while !is_over.load(Relaxed) {
                    yield_now().await;
                }
            })
        };
        let guarded = spawn_on(0, async move {
            let suspensions = || stats::stats().cores[0].suspensions;
            // Longer than a quantum sooner or later, however few ticks a busy host lets through.
            let gave_way = (0..40).any(|round| {
                let (outer, inner) = (preempt::guard(), preempt::guard());
                let before = suspensions();
                let until = Instant::now() + round * round * Duration::from_micros(200);
                while Instant::now() < until {
                    registers_survive(1, 1_000);
                }
                drop(inner);
                assert_eq!(suspensions(), before, "a guard is left");
                drop(outer);
                suspensions() > before
            });
            assert!(gave_way, "it was never asked, or in vain");
            is_over.store(true, Relaxed);
        });
        join([guarded, other]).await;
    });
}

#[kernel_test(limit = 120)]
fn no_other_local_task_runs_while_one_is_preempted() {
    on_all_cores(async {
        let rounds = Arc::new(AtomicUsize::new(0));
        let mine = rounds.clone();
        // On one core, with something else to do there, so that the local ones are preempted.
        let busy = Hogs::new(1);
        let other = {
            let busy = busy.clone();
            spawn_on(0, async move { busy.run(0) })
        };
        let local = spawn_local_on(0, move || async move {
            let shared = Rc::new((RefCell::new(0), Cell::new(0)));
            let children = (0..3).map(|_| {
                let (shared, rounds) = (shared.clone(), mine.clone());
                task::spawn_local(async move {
                    while rounds.load(Relaxed) < 6 {
                        {
                            // Borrowed for longer than a quantum: another that ran meanwhile would find it so.
                            let mut counted = shared.0.borrow_mut();
                            let before = stats::stats().total.preemptions;
                            while stats::stats().total.preemptions < before + 2 {
                                registers_survive(7, 1_000);
                            }
                            *counted += 1;
                        }
                        rounds.fetch_add(1, Relaxed);
                        yield_now().await;
                    }
                })
            });
            for child in children.collect::<Vec<_>>() {
                child.await.unwrap();
            }
            assert!(*shared.0.borrow() >= 6);
        });
        local.await.unwrap();
        busy.end();
        join([other]).await;
    });
}

#[kernel_test(limit = 120)]
fn a_thousand_tasks_wait_on_one_core() {
    on_all_cores(async {
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = scaled(1000);
        let tasks: Vec<_> = (0..count)
            .map(|_| {
                let waiting = waiting.clone();
                spawn_on(0, async move {
                    waiting.fetch_add(1, Relaxed);
                    while waiting.load(Relaxed) < count {
                        thread::yield_now();
                    }
                    task::wait(sleep(Duration::from_millis(1)));
                })
            })
            .collect();
        join(tasks).await;
    });
}

#[kernel_test(cores = 4, limit = 30)]
fn what_a_poll_has_woken_is_run_by_others_if_it_takes_long() {
    // Never preempted, so its own core cannot come to what it has woken.
    let hour = Duration::from_secs(3600);
    on(Runtime::builder().quantum(hour), async {
        for _ in 0..5 {
            let table = Arc::new(Table::new());
            let woken = Arc::new(AtomicBool::new(false));
            let (seen, seat) = (woken.clone(), table.clone());
            let sleeper = spawn(async move {
                seat.turn(1, 1).await;
                seen.store(true, Relaxed);
            });
            let hog = spawn(async move {
                // It goes to the next slot of this core, where others do not look.
                table.pass(0, 0);
                while !woken.load(Relaxed) {
                    hal::pause();
                }
            });
            join([hog, sleeper]).await;
        }
    });
}

#[kernel_test(limit = 120)]
fn children_borrow_from_a_poll_that_waits_and_is_preempted() {
    on_all_cores(async {
        let (hogs, tasks) = hogs();
        let count = scaled(1000);
        let mut squares: Vec<usize> = (0..count).collect();
        let sum = AtomicUsize::new(0);
        let outcome = task::nursery(|scope| {
            for square in &mut squares {
                let sum = &sum;
                scope.spawn(async move {
                    *square *= *square;
                    yield_now().await;
                    sum.fetch_add(*square, Relaxed);
                    Ok::<_, ()>(*square)
                });
            }
        });
        // In order, and also in what was borrowed.
        assert_eq!(outcome.unwrap(), squares);
        assert_eq!(sum.load(Relaxed), squares.iter().sum());
        let halves = executor::parallel::join(|| squares.len(), || squares.iter().max());
        assert_eq!(halves, (count, squares.last()));
        hogs.end();
        join(tasks).await;
    });
}
