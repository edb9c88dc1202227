//! What happens without memory. Each allocation of an operation fails in turn: it says so, nothing of it stays, and
//! all goes on. The same on the host, with more kinds of them: `executor/tests/out_of_memory.rs`.

use super::{deeper, machine_cores, on, on_all_cores, scaled, spawn, spawn_on};
use crate::mem::failing::{Failing, Which};
use alloc::{sync::Arc, vec::Vec};
use core::{
    fmt::Debug,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::*},
};
use executor::{
    BuildError, NoMemory, Runtime, TaskError, parallel, stats,
    sync::{
        broadcast,
        channel::{self, TrySendError, try_bounded, try_unbounded},
        oneshot, watch,
    },
    task::{
        Builder, SpawnError, TaskGroup, nursery, try_on_exit, try_spawn, try_spawn_local, yield_now,
    },
    thread,
    time::{Duration, sleep},
};
use testing::kernel_test;

/// Does something with its first allocation failing, its second, and so on, and then with all from there on, until
/// none fails any more: how many it needs. Each time it must say so.
fn sweep<T, E: Debug + PartialEq>(error: E, mut operation: impl FnMut() -> Result<T, E>) -> usize {
    let mut needed = 0;
    for which in [Which::One, Which::All] {
        for count in 0.. {
            let failing = Failing::of_this_task(which(count));
            let result = operation();
            let failed = failing.count();
            drop(failing);
            match result {
                Err(told) => {
                    assert_ne!(failed, 0, "it failed without cause");
                    assert_eq!(told, error);
                }
                Ok(_) => {
                    assert_eq!(failed, 0, "{count} were let through, and nobody says so");
                    needed = needed.max(count);
                    break;
                }
            }
        }
    }
    assert_ne!(needed, 0, "it needs no memory");
    needed
}

async fn sweep_tasks() {
    let error = SpawnError::NoMemory;
    sweep(error, || try_spawn(yield_now()));
    sweep(error, || {
        Builder::new().name("named").try_spawn(yield_now())
    });
    sweep(error, || try_spawn_local(yield_now()));
    sweep(error, || Builder::new().core(0).try_spawn_local(yield_now));
    let registered = spawn(async {
        let ended = Arc::new(AtomicUsize::new(0));
        let register = || {
            let ended = ended.clone();
            let last = async move {
                yield_now().await;
                ended.fetch_add(1, Relaxed);
            };
            try_on_exit(last).map_err(drop)
        };
        sweep((), register)
    });
    assert!(registered.await.expect("nobody cancels it") >= 2);
}

async fn sweep_threads() {
    let error = SpawnError::NoMemory;
    sweep(error, || thread::Builder::new().spawn(|| 1));
    sweep(error, || {
        let builder = thread::Builder::new().name("named").stack_size(64 << 10);
        builder.spawn(|| 1)
    });
    let number = AtomicUsize::new(0);
    let count = || number.fetch_add(1, Relaxed);
    thread::scope(|scope| {
        sweep(error, || thread::Builder::new().spawn_scoped(scope, count));
    });
    parallel::scope(|scope| {
        sweep(error, || {
            scope.try_spawn(|| {
                count();
            })
        });
    });
    let ended = nursery(|scope| {
        sweep(error, || {
            scope.try_spawn_with(Builder::new(), async { Ok::<_, ()>(count()) })
        });
    });
    assert_eq!(ended.expect("nobody cancels them").len(), 2);
    assert_eq!(number.into_inner(), 6);
}

async fn sweep_groups() {
    sweep(NoMemory, TaskGroup::<(), ()>::try_new);
    let group = TaskGroup::<(), ()>::new();
    for _ in 0..10 {
        // Now and then slots for more of them are needed, too.
        sweep(SpawnError::NoMemory, || group.try_spawn(async { Ok(()) }));
    }
    assert_eq!(group.join().await.expect("nobody cancels them").len(), 20);
}

async fn sweep_channels() {
    sweep(NoMemory, || try_bounded::<u64>(10));
    sweep(NoMemory, || try_bounded::<u64>(0));
    sweep(NoMemory, try_unbounded::<u64>);
    sweep(NoMemory, oneshot::try_channel::<u64>);
    sweep(NoMemory, || broadcast::try_channel::<u64>(10));
    sweep(42, || watch::try_channel(42));
    let (sender, receiver) = channel::unbounded();
    for number in 0..100 {
        let failing = Failing::of_this_task(Which::All(0));
        let sent = sender.try_send(number);
        drop(failing);
        if let Err(error) = sent {
            assert!(matches!(error, TrySendError::NoMemory(_)));
            sender.send(error.into_inner()).await.expect("it is open");
        }
    }
    for number in 0..100 {
        assert_eq!(receiver.try_recv(), Ok(number));
    }
}

async fn sweep_all() {
    sweep_tasks().await;
    sweep_threads().await;
    sweep_groups().await;
    sweep_channels().await;
    // One within another: it has no cores of its own but this one, which it never uses.
    sweep(BuildError::NoMemory, || {
        Runtime::builder().workers(1).build()
    });
}

#[kernel_test(limit = 120)]
fn each_allocation_fails_in_turn_and_whoever_needs_it_says_so() {
    on(Runtime::builder().workers(1), sweep_all());
    on(Runtime::builder().workers(1).track(true), sweep_all());
    on_all_cores(async {
        sweep_all().await;
        let other = spawn(sweep_threads());
        other.await.expect("nobody cancels it");
    });
}

/// What a task can do whether or not there is memory: all goes on, or says why not.
async fn live(rounds: usize) -> usize {
    let (mut made, mut refused) = (0, 0);
    let mut count = |is_made: bool| match is_made {
        true => made += 1,
        false => refused += 1,
    };
    for _ in 0..rounds {
        let task = try_spawn(async {
            yield_now().await;
            1
        });
        count(task.is_ok());
        if let Ok(task) = task {
            assert_eq!(task.await.expect("nobody cancels it"), 1);
        }
        let thread = thread::Builder::new().spawn(|| {
            thread::yield_now();
            2
        });
        count(thread.is_ok());
        if let Ok(thread) = thread {
            assert_eq!(thread.await.expect("nobody cancels it"), 2);
        }
        if let Ok((sender, receiver)) = try_unbounded() {
            let sent = sender.try_send(3);
            count(sent.is_ok());
            assert_eq!(receiver.try_recv().is_ok(), sent.is_ok());
        }
        count(oneshot::try_channel::<u64>().is_ok());
        sleep(Duration::from_micros(50)).await;
    }
    assert!(made + refused >= 3 * rounds);
    refused
}

#[kernel_test(limit = 120)]
fn a_machine_without_memory_goes_on_with_what_it_has() {
    on_all_cores(async {
        let cores = machine_cores().len();
        for let_through in [0, 1, 2, 3, 5, 8, 13] {
            let may_begin = Arc::new(AtomicBool::new(false));
            let live_on = |core| {
                let may_begin = may_begin.clone();
                spawn_on(core, async move {
                    while !may_begin.load(Relaxed) {
                        yield_now().await;
                    }
                    live(scaled(20)).await
                })
            };
            let tasks: Vec<_> = (0..cores).map(live_on).collect();
            let failing = Failing::of_the_machine(Which::All(let_through));
            may_begin.store(true, Relaxed);
            let mut refused = 0;
            for task in tasks {
                refused += task.await.expect("nobody cancels it");
            }
            assert!(failing.count() >= refused && refused > 0);
            drop(failing);
            // From here on there is memory again.
            assert_eq!(live(3).await, 0);
        }
    });
}

#[kernel_test(limit = 120)]
fn a_stack_overflow_without_memory_ends_only_its_task() {
    // What they had is never given back: the test does not look for it.
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        let core = machine_cores().len() - 1;
        for round in 1..=4 {
            let may_begin = Arc::new(AtomicBool::new(false));
            let turns = Arc::new(AtomicUsize::new(0));
            // As many as a core has contexts for: a spare one, and the last.
            let tasks = [(); 2].map(|()| {
                let (may_begin, turns) = (may_begin.clone(), turns.clone());
                spawn_on(core, async move {
                    while !may_begin.load(Relaxed) {
                        turns.fetch_add(1, Relaxed);
                        yield_now().await;
                    }
                    deeper(0)
                })
            });
            // By then it has opened its mail, and has both.
            while turns.load(Relaxed) < 20 {
                yield_now().await;
            }
            let failing = Failing::of_the_machine(Which::All(0));
            may_begin.store(true, Relaxed);
            for task in tasks {
                assert!(matches!(task.await, Err(TaskError::StackOverflow)));
            }
            assert_ne!(failing.count(), 0, "an outcome needs memory");
            drop(failing);
            assert_eq!(stats::stats().total.lost, 2 * round);
            // It finds new ones.
            let after = spawn_on(core, async {
                sleep(Duration::from_millis(3)).await;
                5
            });
            assert_eq!(after.await.expect("nobody cancels it"), 5);
        }
    });
    runtime.shutdown();
}
