//! Tasks that panic or fault: they end, who joins them learns why, and all others go on.

use super::{join, scaled, spawn};
use crate::{
    failure,
    mem::failing::{Failing, Which},
    symbols, watchdog,
};
use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use boot::command_line::Watchdog;
use core::{
    future::{pending, poll_fn},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::*},
    task::Poll,
};
use executor::{
    Runtime, TaskError, stats,
    sync::{Barrier, Mutex, broadcast, channel, oneshot, watch},
    task::{self, Panic, spawn_local_on, task_group, yield_now},
    thread,
};
use hal::{probe, traps::FaultKind};
use testing::kernel_test;

/// All ways to end that are no ends. None: a panic.
pub(super) fn kinds() -> impl Iterator<Item = Option<FaultKind>> {
    core::iter::once(None).chain(probe::faults().iter().copied().map(Some))
}

/// Ends what runs here.
#[inline(never)]
pub(super) fn fail(kind: Option<FaultKind>) {
    match kind {
        None => panic!("on purpose, {}", 5),
        Some(kind) => probe::fault(kind),
    }
}

/// What a task that failed so is said to have panicked with.
fn message(kind: Option<FaultKind>) -> &'static str {
    match kind {
        None => "on purpose, 5",
        Some(FaultKind::Read) => "invalid read of 0x0",
        Some(FaultKind::Write) => "invalid write to 0x8",
        Some(FaultKind::Execute) => "jump to 0x0, which is not code",
        Some(FaultKind::IllegalInstruction) => "illegal instruction",
        Some(FaultKind::Divide) => "divide error",
        Some(FaultKind::Alignment) => "unaligned access to ",
        Some(FaultKind::Breakpoint) => "breakpoint",
        Some(FaultKind::Other(13)) => "trap 0xd",
        Some(_) => unreachable!("it is not in the list"),
    }
}

/// What a task panicked with, that has.
#[track_caller]
pub(super) fn panic_of<T>(outcome: Result<T, TaskError>) -> Panic {
    match outcome {
        Err(TaskError::Panicked(panic)) => panic,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it came to its end"),
    }
}

/// Runs on all cores, and lets tasks fail quietly. What they had is never given back, so nobody looks for it.
pub(super) fn with_failures(main: impl Future<Output = ()>) {
    let _tasks_end = failure::let_tasks_end();
    let level = log::max_level();
    log::set_max_level(log::LevelFilter::Off);
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(main);
    runtime.shutdown();
    log::set_max_level(level);
}

/// Numbers that depend on all before them, with an await in between now and then.
async fn compute(seed: u64, is_over: Arc<AtomicBool>) -> usize {
    let numbers = |seed: u64, count: usize| {
        let next = |number: u64, _| number.wrapping_mul(6364136223846793005).wrapping_add(seed);
        (0..count).fold(seed, next)
    };
    let expected = numbers(seed, 1000);
    let mut rounds = 0;
    while !is_over.load(Relaxed) || rounds == 0 {
        let list: Vec<u64> = (0..10).map(|round| numbers(seed, 100 * round)).collect();
        assert_eq!(list[9], numbers(seed, 900));
        yield_now().await;
        assert_eq!(numbers(seed, 1000), expected);
        rounds += 1;
    }
    rounds
}

#[kernel_test(limit = 300)]
fn each_kind_of_failure_ends_only_its_task_however_often() {
    each_kind_of_failure(scaled(100));
}

#[kernel_test(cores = 4, limit = 7200, long = true)]
fn each_kind_of_failure_ends_only_its_task_a_thousand_times() {
    each_kind_of_failure(1000);
}

fn each_kind_of_failure(count: usize) {
    with_failures(async move {
        let is_over = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..8)
            .map(|seed| spawn(compute(seed + 1, is_over.clone())))
            .collect();
        for kind in kinds() {
            for round in 0..count {
                let failing = spawn(async move {
                    // At the first poll of some, later in others.
                    for _ in 0..round % 3 {
                        yield_now().await;
                    }
                    fail(kind);
                });
                let panic = panic_of(failing.await);
                let told = panic.message();
                assert!(told.starts_with(message(kind)), "{told}");
                assert!(panic.backtrace().len() > 2);
                assert_eq!(panic.registers().is_some(), kind.is_some());
                assert_eq!(panic.location().is_some(), kind.is_none());
            }
        }
        is_over.store(true, Relaxed);
        for other in others {
            assert!(other.await.expect("it goes on") > 0);
        }
        let total = stats::stats().total;
        assert_eq!(total.lost, (kinds().count() * count) as u64);
        assert!(total.lost_bytes >= total.lost * 4096);
    });
}

#[kernel_test(limit = 120)]
fn who_joins_learns_what_happened_and_where() {
    with_failures(async {
        let panic = panic_of(spawn(async { fail(None) }).await);
        let at = panic.location().expect("a panic has a place");
        assert!(at.file.ends_with("failures.rs"), "{at}");
        assert!((10..line!()).contains(&at.line) && at.column > 0, "{at}");
        let names = |panic: &Panic, part: &str| {
            let is_it = |&address: &usize| {
                symbols::lookup(address).is_some_and(|(name, _)| name.contains(part))
            };
            panic.backtrace().iter().any(is_it)
        };
        assert!(names(&panic, "failures::fail"));
        let panic = panic_of(spawn(async { fail(Some(FaultKind::Read)) }).await);
        assert!(names(&panic, "probe::fault"));
        assert!(names(&panic, "who_joins_learns"));
        // What is told is kept up to a length.
        let long = spawn(async { panic!("{:5000}", "") });
        assert_eq!(panic_of(long.await).message().len(), 1024);
        // A message that panics is none; what it panicked with is.
        let nested = spawn(async {
            let again = core::fmt::from_fn(|_| panic!("within"));
            panic!("{again}")
        });
        assert_eq!(panic_of(nested.await).message(), "within");
    });
}

#[kernel_test(limit = 120)]
fn threads_local_tasks_and_children_fail_alone() {
    with_failures(async {
        for kind in kinds() {
            let check = |outcome: Result<(), TaskError>| {
                let panic = panic_of(outcome);
                assert!(panic.message().starts_with(message(kind)));
            };
            check(thread::spawn(move || fail(kind)).await);
            let sized = thread::Builder::new().stack_size(64 << 10);
            check(sized.spawn(move || fail(kind)).expect("memory").await);
            check(spawn_local_on(0, move || async move { fail(kind) }).await);
            assert_eq!(spawn_local_on(0, || async { 5 }).await.unwrap(), 5);
            // A nursery and a group fail with their child, and cancel the others.
            let nursery = task::nursery(|scope| {
                scope.spawn(async move {
                    fail(kind);
                    Ok::<_, ()>(())
                });
                scope.spawn(pending());
            });
            assert!(nursery.is_err());
            let group = task_group(async move |group| {
                group.spawn(async move {
                    fail(kind);
                    Ok::<_, ()>(())
                });
                group.spawn(pending());
            });
            assert!(group.await.is_err());
            // A scope hears of a thread unless somebody joins it.
            thread::scope(|scope| {
                check(scope.spawn(move || fail(kind)).join());
            });
        }
    });
}

#[kernel_test(limit = 120)]
fn finalizers_run_after_a_failure_and_may_fail_themselves() {
    with_failures(async {
        for kind in kinds() {
            let done = Arc::new(AtomicUsize::new(0));
            let (first, last) = (done.clone(), done.clone());
            let task = spawn(async move {
                // Run from the last to the first.
                task::on_exit(async move {
                    yield_now().await;
                    first.fetch_add(1, Relaxed);
                });
                task::on_exit(async move { fail(kind) });
                task::on_exit(async move { _ = last.fetch_add(1, Relaxed) });
                fail(kind);
            });
            panic_of(task.await);
            assert_eq!(done.load(Relaxed), 2);
        }
    });
}

/// Fails when it is dropped.
struct Bomb(Option<FaultKind>);

impl Drop for Bomb {
    fn drop(&mut self) {
        fail(self.0);
    }
}

#[kernel_test(limit = 120)]
fn a_destructor_that_fails_ends_only_its_task() {
    with_failures(async {
        for kind in kinds() {
            // Of a future that is cancelled.
            let bomb = Box::new(Bomb(kind));
            let cancelled = spawn(async move {
                let _bomb = bomb;
                pending::<()>().await;
            });
            yield_now().await;
            cancelled.cancel();
            panic_of(cancelled.await);
            // Of a future that has come to its end.
            let bomb = Bomb(kind);
            let mut polled = Some(bomb);
            let ended = spawn(poll_fn(move |_| {
                let _ = &mut polled;
                Poll::Ready(())
            }));
            panic_of(ended.await);
            // Of an output that nobody asks for, by the task itself: not by who lets go of it too late.
            let lost = stats::stats().total.lost;
            let (let_go, is_let_go) = oneshot::channel();
            let asked_for = spawn(async move {
                is_let_go.await.expect("it is sent");
                Bomb(kind)
            });
            asked_for.detach();
            let_go.send(()).expect("it waits");
            while stats::stats().total.lost == lost {
                yield_now().await;
            }
        }
    });
}

#[kernel_test(limit = 120)]
fn a_channel_is_closed_by_a_finalizer_of_who_fails() {
    with_failures(async {
        for kind in kinds() {
            let (sender, receiver) = channel::bounded::<String>(4);
            let failing = spawn(async move {
                let closes = sender.clone();
                task::on_exit(async move { _ = closes.close() });
                sender.send(String::from("the last")).await.expect("open");
                fail(kind);
            });
            assert_eq!(receiver.recv().await.as_deref(), Ok("the last"));
            assert!(receiver.recv().await.is_err(), "nobody sends any more");
            panic_of(failing.await);
        }
    });
}

#[kernel_test(limit = 120)]
fn a_task_that_is_told_to_fail_does_so_wherever_it_is() {
    with_failures(async {
        for _ in 0..scaled(20) {
            let is_told_to = |outcome| {
                let panic = panic_of::<()>(outcome);
                assert_eq!(panic.message(), "it was told to fail");
            };
            // One that waits, one that waits in the middle of its poll, one that never awaits, one that yields.
            let waits = spawn(pending::<()>());
            let thread = spawn(async { task::wait(pending::<()>()) });
            let runs = Arc::new(AtomicUsize::new(0));
            let running = runs.clone();
            let hogs = spawn(async move {
                running.store(1, Relaxed);
                loop {
                    hal::pause();
                }
            });
            let yields = spawn(async {
                loop {
                    yield_now().await;
                }
            });
            while runs.load(Relaxed) == 0 {
                yield_now().await;
            }
            for task in [&waits, &thread, &hogs, &yields] {
                assert!(task.task().fail());
            }
            for task in [waits, thread, hogs, yields] {
                is_told_to(task.await);
            }
        }
    });
}

#[kernel_test(limit = 120)]
fn a_circle_of_locks_is_broken_by_the_watchdog() {
    with_failures(async {
        let _expected = watchdog::expect_alarms(Watchdog::Kill);
        let alarms = watchdog::alarms();
        let watchdog = watchdog::start().expect("it is not off");
        let locks: Arc<Vec<Mutex<()>>> = Arc::new((0..3).map(|_| Mutex::new(())).collect());
        let ready = Arc::new(Barrier::new(3));
        let tasks: Vec<_> = (0..3)
            .map(|number| {
                let (locks, ready) = (locks.clone(), ready.clone());
                spawn(async move {
                    let _one = locks[number].lock().await;
                    ready.wait().await;
                    let next = &locks[(number + 1) % 3];
                    match number {
                        0 => drop(next.lock_blocking()),
                        _ => drop(next.lock().await),
                    }
                })
            })
            .collect();
        // One fails, and with its lock the one that waits for that, and so on.
        for task in tasks {
            panic_of(task.await);
        }
        assert_eq!(watchdog::alarms().circles, alarms.circles + 1);
        watchdog.cancel();
        assert!(watchdog.await.is_err());
    });
}

#[kernel_test(limit = 120)]
fn who_needs_memory_and_finds_none_fails_by_name() {
    // What has no form that says so, or is called without it.
    const OPERATIONS: [fn(); 8] = [
        || task::spawn(yield_now()).detach(),
        || drop(thread::spawn(|| 5)),
        || drop(channel::bounded::<u64>(4)),
        || {
            let (sender, _receiver) = channel::unbounded();
            for number in 0..100 {
                task::wait(sender.send(number)).expect("there is a receiver");
            }
        },
        || drop(oneshot::channel::<u64>()),
        || drop(broadcast::channel::<u64>(4)),
        || drop(watch::channel(5)),
        || drop(core::hint::black_box(Box::new([5u8; 100]))),
    ];
    with_failures(async {
        for operation in OPERATIONS {
            for which in [Which::One, Which::All] {
                for count in 0.. {
                    let outcome = spawn(async move {
                        let failing = Failing::of_this_task(which(count));
                        operation();
                        assert_eq!(failing.count(), 0, "one failed, and nobody says so");
                    });
                    let Err(error) = outcome.await else {
                        break;
                    };
                    Failing::end();
                    let panic = panic_of::<()>(Err(error));
                    assert!(panic.message().contains("memory"), "{}", panic.message());
                }
            }
        }
        // All goes on.
        assert_eq!(spawn(async { 5 }).await.expect("there is memory"), 5);
    });
}

#[kernel_test(limit = 120)]
fn many_tasks_fail_at_once_on_all_cores() {
    with_failures(async {
        let count = scaled(100);
        let failing: Vec<_> = (0..count)
            .map(|number| {
                spawn(async move { fail(kinds().nth(number % kinds().count()).flatten()) })
            })
            .collect();
        let going_on: Vec<_> = (0..count)
            .map(|number| {
                spawn(async move {
                    for _ in 0..number {
                        yield_now().await;
                    }
                })
            })
            .collect();
        for task in failing {
            panic_of(task.await);
        }
        join(going_on).await;
    });
}
