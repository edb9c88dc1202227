//! Functions that block, and the threads that run them beside the cores.

use executor::{
    BuildError, Runtime, TaskError, TaskHandle,
    runtime::Builder,
    sync::{channel, oneshot},
    task::{self, on_exit, spawn, spawn_blocking, try_spawn_blocking, try_wait, wait, yield_now},
    thread,
    time::{Duration, Instant, sleep, timeout},
};
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
        mpsc,
    },
};

#[path = "blocking/ended.rs"]
mod ended;

fn builder(workers: usize) -> Builder {
    Runtime::builder().workers(workers)
}

fn runtime(workers: usize) -> Runtime {
    builder(workers).build().unwrap()
}

/// A function that says when it has begun, and blocks its thread of the OS until it is let go.
fn held() -> (impl FnOnce() + Send, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (begins, has_begun) = mpsc::channel();
    let (lets_go, let_go) = mpsc::channel::<()>();
    let function = move || {
        begins.send(()).unwrap();
        let _ = let_go.recv();
    };
    (function, has_begun, lets_go)
}

/// Waits for a thread that has nothing to do with the runtime.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn it_returns_what_the_function_returns_wherever_it_is_called() {
    for workers in [1, 3] {
        let runtime = runtime(workers);
        let outside = runtime.spawn_blocking(|| 1);
        let sum = runtime.block_on(async {
            let in_main = executor::spawn_blocking(|| 2).await.unwrap();
            let in_task = spawn(async { spawn_blocking(|| 3).await.unwrap() });
            let in_thread = thread::spawn(|| wait(spawn_blocking(|| 4)).unwrap());
            let in_itself = spawn_blocking(|| wait(spawn_blocking(|| 5)).unwrap());
            let tried = try_spawn_blocking(|| 6).unwrap();
            let visiting = spawn_blocking(|| 7);
            in_main
                + in_task.await.unwrap()
                + in_thread.await.unwrap()
                + in_itself.await.unwrap()
                + tried.await.unwrap()
                + visiting.await.unwrap()
                + outside.await.unwrap()
        });
        assert_eq!(sum, 28);
    }
}

#[test]
#[should_panic(expected = "no runtime runs here")]
fn it_needs_a_runtime() {
    spawn_blocking(|| {});
}

#[test]
fn a_runtime_for_no_blocking_function_is_refused() {
    let error = builder(1).blocking_threads(0).build().err();
    assert_eq!(error, Some(BuildError::NoBlockingThreads));
    assert!(error.unwrap().to_string().contains("at least one"));
}

#[test]
fn functions_that_block_the_thread_leave_the_cores_to_tasks() {
    runtime(1).block_on(async {
        let (functions, lets_go): (Vec<_>, Vec<_>) = (0..20)
            .map(|_| {
                let (function, has_begun, lets_go) = held();
                (spawn_blocking(function), (has_begun, lets_go))
            })
            .unzip();
        for (has_begun, _) in &lets_go {
            until(|| has_begun.try_recv().is_ok()).await;
        }
        // All block at once, and the only core goes on.
        assert_eq!(spawn(async { 6 * 7 }).await.unwrap(), 42);
        drop(lets_go);
        for function in functions {
            function.await.unwrap();
        }
    });
}

#[test]
fn no_more_run_at_once_than_are_allowed() {
    const MOST: usize = 3;
    let runtime = builder(2).blocking_threads(MOST).build().unwrap();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    runtime.block_on(async {
        let functions: Vec<_> = (0..40)
            .map(|_| {
                let (now, most) = (now.clone(), most.clone());
                spawn_blocking(move || {
                    most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                    std::thread::sleep(Duration::from_millis(1));
                    now.fetch_sub(1, SeqCst);
                })
            })
            .collect();
        for function in functions {
            function.await.unwrap();
        }
    });
    assert!(most.load(SeqCst) <= MOST);
    assert!(runtime.stats().blocking_threads <= MOST);
    assert_eq!(runtime.stats().blocking, 0, "all turns were given back");
}

#[test]
fn as_many_run_at_once_as_are_allowed() {
    // More than there are numbers of cores, and each waits until all are there.
    const ALL: usize = 100;
    let runtime = builder(2).blocking_threads(ALL).build().unwrap();
    let barrier = Arc::new(std::sync::Barrier::new(ALL));
    runtime.block_on(async {
        let functions: Vec<_> = (0..ALL)
            .map(|number| {
                let barrier = barrier.clone();
                spawn_blocking(move || {
                    barrier.wait();
                    // Each can wait for a task, too.
                    wait(spawn(async move { number })).unwrap()
                })
            })
            .collect();
        for (number, function) in functions.into_iter().enumerate() {
            assert_eq!(function.await.unwrap(), number);
        }
    });
}

#[test]
fn with_one_turn_they_run_in_the_order_they_were_spawned() {
    for workers in [1, 4] {
        let runtime = builder(workers).blocking_threads(1).build().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        runtime.block_on(async {
            let functions: Vec<_> = (0..200)
                .map(|number| {
                    let order = order.clone();
                    spawn_blocking(move || order.lock().unwrap().push(number))
                })
                .collect();
            for function in functions {
                function.await.unwrap();
            }
        });
        assert_eq!(*order.lock().unwrap(), (0..200).collect::<Vec<_>>());
    }
}

#[test]
fn one_that_is_cancelled_before_its_turn_is_never_called() {
    for workers in [1, 3] {
        let runtime = builder(workers).blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (function, has_begun, lets_go) = held();
            let first = spawn_blocking(function);
            until(|| has_begun.try_recv().is_ok()).await;
            let dropped = Arc::new(());
            let kept = dropped.clone();
            let second = spawn_blocking(move || panic!("{kept:?} is not to be called"));
            let third = spawn_blocking(|| 3);
            yield_now().await;
            assert!(second.cancel());
            // It ends at once, though no turn is free; and what it had is dropped.
            assert!(second.await.unwrap_err().is_cancelled());
            assert_eq!(Arc::strong_count(&dropped), 1);
            assert!(!third.is_finished());
            lets_go.send(()).unwrap();
            first.await.unwrap();
            assert_eq!(third.await.unwrap(), 3);
        });
    }
}

#[test]
fn one_that_is_cancelled_as_soon_as_it_is_spawned_is_called_or_not() {
    let runtime = builder(2).blocking_threads(2).build().unwrap();
    runtime.block_on(async {
        for _ in 0..500 {
            let was_called = Arc::new(AtomicBool::new(false));
            let called = was_called.clone();
            let function = spawn_blocking(move || called.store(true, SeqCst));
            function.cancel();
            match function.await {
                Ok(()) => assert!(was_called.load(SeqCst)),
                Err(error) => assert!(error.is_cancelled() && !was_called.load(SeqCst)),
            }
        }
    });
    assert_eq!(runtime.stats().blocking, 0);
}

#[test]
fn one_that_has_begun_comes_to_its_end_and_can_see_that_it_was_cancelled() {
    runtime(2).block_on(async {
        let (function, has_begun, lets_go) = held();
        let blocked = spawn_blocking(move || {
            let before = task::is_cancelled();
            function();
            (before, task::is_cancelled())
        });
        until(|| has_begun.try_recv().is_ok()).await;
        assert!(blocked.cancel());
        lets_go.send(()).unwrap();
        assert_eq!(blocked.await.unwrap(), (false, true));
    });
}

#[test]
fn one_that_is_cancelled_comes_back_from_a_wait_that_may_be_given_up() {
    runtime(2).block_on(async {
        let (begins, has_begun) = oneshot::channel();
        let waits = spawn_blocking(move || {
            begins.send(()).unwrap();
            let error = try_wait(std::future::pending::<()>()).unwrap_err();
            thread::park();
            error
        });
        has_begun.await.unwrap();
        waits.cancel();
        assert!(waits.await.unwrap().is_cancelled());
        // So do the children of a nursery that it is in.
        let (begins, has_begun) = oneshot::channel();
        let nursery = spawn_blocking(move || {
            task::nursery(|scope| {
                scope.spawn(async {
                    begins.send(()).unwrap();
                    std::future::pending::<Result<(), ()>>().await
                });
            })
        });
        has_begun.await.unwrap();
        nursery.cancel();
        assert!(nursery.await.unwrap().is_err());
    });
}

#[test]
fn a_panic_is_the_outcome_and_the_next_one_runs() {
    let runtime = builder(1).blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let panics = spawn_blocking(|| panic!("on purpose"));
        match panics.await {
            Err(TaskError::Panicked(panic)) => assert_eq!(panic.message(), "on purpose"),
            other => panic!("{other:?}"),
        }
        assert_eq!(spawn_blocking(|| 1).await.unwrap(), 1);
    });
    assert_eq!(runtime.stats().blocking, 0);
}

#[test]
fn threads_are_used_again_and_end_when_they_were_idle_for_long_enough() {
    let runtime = builder(1).blocking_idle(Duration::MAX).build().unwrap();
    let ids = Arc::new(Mutex::new(HashSet::new()));
    runtime.block_on(async {
        for _ in 0..50 {
            let ids = ids.clone();
            let name = spawn_blocking(move || {
                ids.lock().unwrap().insert(std::thread::current().id());
                std::thread::current().name().map(String::from)
            });
            assert_eq!(name.await.unwrap().as_deref(), Some("blocking"));
        }
    });
    // One, or a second because the first was not idle again yet.
    assert!(ids.lock().unwrap().len() <= runtime.stats().blocking_threads);
    drop(runtime);

    let idle = Duration::from_millis(5);
    let runtime = builder(1).blocking_idle(idle).build().unwrap();
    let barrier = Arc::new(std::sync::Barrier::new(8));
    for _ in 0..2 {
        runtime.block_on(async {
            let functions: Vec<_> = (0..8)
                .map(|_| {
                    let barrier = barrier.clone();
                    spawn_blocking(move || barrier.wait().is_leader())
                })
                .collect();
            let mut leaders = 0;
            for function in functions {
                leaders += usize::from(function.await.unwrap());
            }
            assert_eq!(leaders, 1);
        });
        // None stays, however long that takes; and more are made when they are needed again.
        while runtime.stats().blocking_threads != 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn it_may_do_what_a_thread_may() {
    for workers in [1, 2] {
        let runtime = Arc::new(runtime(workers));
        let inner = runtime.clone();
        runtime.block_on(async {
            let (sender, receiver) = channel::bounded(1);
            let function = spawn_blocking(move || {
                let current = task::current();
                assert_eq!(
                    (task::id(), current.name()),
                    (current.id(), Some("blocking"))
                );
                assert_eq!(thread::id(), current.id());
                // Tasks, and waiting for them in all ways there are.
                assert_eq!(wait(spawn(async { 1 })).unwrap(), 1);
                assert_eq!(
                    inner.block_on(async { spawn(async { 2 }).await.unwrap() }),
                    2
                );
                let simple = executor::block_on_simple(async { spawn(async { 3 }).await });
                assert_eq!(simple.unwrap(), 3);
                for number in 0..10 {
                    sender.send_blocking(number).unwrap();
                }
                // Time.
                let began = Instant::now();
                thread::sleep(Duration::from_millis(2));
                assert!(began.elapsed() >= Duration::from_millis(2));
                assert!(wait(timeout(Duration::from_millis(1), sleep(Duration::MAX))).is_err());
                thread::yield_now();
                // Scopes, threads, and work for many cores.
                let (mut a, mut b) = (0, 0);
                thread::scope(|scope| {
                    scope.spawn(|| a = 4);
                    scope.spawn(|| b = 5);
                });
                let squares = executor::parallel::par_map(0..100_u32, |n| n * n);
                assert_eq!((a, b, squares[9]), (4, 5, 81));
                let me = thread::current();
                let other = thread::spawn(move || me.unpark());
                thread::park();
                other.join().unwrap();
                task::parent()
            });
            for number in 0..10 {
                assert_eq!(receiver.recv().await, Ok(number));
            }
            assert_eq!(function.await.unwrap(), Some(task::id()));
        });
    }
}

#[test]
fn finalizers_that_it_registers_run_when_it_has_ended() {
    runtime(2).block_on(async {
        let ends = Arc::new(Mutex::new(Vec::new()));
        let noted = ends.clone();
        let function = spawn_blocking(move || {
            let late = noted.clone();
            on_exit(async move { late.lock().unwrap().push("finalizer") });
            noted.lock().unwrap().push("function");
        });
        function.await.unwrap();
        assert_eq!(*ends.lock().unwrap(), ["function", "finalizer"]);
    });
}

#[test]
fn many_come_from_many_places_at_once() {
    let runtime = Arc::new(builder(3).blocking_threads(4).build().unwrap());
    let sum = Arc::new(AtomicUsize::new(0));
    let add = |handles: &mut Vec<TaskHandle<()>>, runtime: &Runtime, sum: &Arc<AtomicUsize>| {
        let sum = sum.clone();
        handles.push(runtime.spawn_blocking(move || {
            sum.fetch_add(1, SeqCst);
        }));
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut handles = Vec::new();
                for _ in 0..250 {
                    add(&mut handles, &runtime, &sum);
                }
                runtime.block_on(async {
                    for handle in handles {
                        handle.await.unwrap();
                    }
                });
            });
        }
    });
    assert_eq!(sum.load(SeqCst), 1000);
    assert_eq!(runtime.stats().blocking, 0);
}

#[test]
fn virtual_time_stands_still_while_one_is_at_work_and_jumps_when_it_waits() {
    const HOUR: Duration = Duration::from_secs(3600);
    let runtime = builder(1).virtual_clock().build().unwrap();
    runtime.block_on(async {
        for _ in 0..20 {
            let began = Instant::now();
            let works = spawn_blocking(|| std::thread::sleep(Duration::from_millis(2)));
            timeout(HOUR, works).await.expect("no time passes").unwrap();
            assert_eq!(began.elapsed(), Duration::ZERO);
            let rests = spawn_blocking(|| {
                thread::sleep(HOUR);
                // What it waits for takes no time, though it is on another thread.
                wait(spawn(yield_now())).unwrap();
                wait(spawn_blocking(|| ())).unwrap();
                Instant::now()
            });
            let late = rests.await.unwrap() - began;
            assert!(late >= HOUR && late < 2 * HOUR, "{late:?}");
        }
    });
}
