//! Tasks on a real runtime, on the host.

use executor::{
    Priority, Runtime, stats,
    task::{self, Builder, TaskError, spawn, yield_now},
    time::{Duration, Instant, sleep, timeout},
};
use std::{
    cell::Cell,
    future::{Future, pending},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
    },
    task::{Context, RawWaker, RawWakerVTable, Wake, Waker},
};

fn runtime(cores: usize) -> Runtime {
    Runtime::builder().workers(cores).build().unwrap()
}

#[test]
fn a_task_runs_and_gives_its_output() {
    for cores in [1, 4] {
        let runtime = runtime(cores);
        assert_eq!(runtime.block_on(async { 1 + 1 }), 2);
        let output = runtime.block_on(async {
            let handle = spawn(async { 6 * 7 });
            handle.await.unwrap()
        });
        assert_eq!(output, 42);
    }
}

#[test]
fn many_tasks_on_many_cores_all_run() {
    let runtime = runtime(4);
    let count = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let handles: Vec<_> = (0..10_000)
            .map(|number| {
                let count = count.clone();
                spawn(async move {
                    for _ in 0..number % 4 {
                        yield_now().await;
                    }
                    count.fetch_add(1, Relaxed);
                    number
                })
            })
            .collect();
        for (number, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.await.unwrap(), number);
        }
    });
    assert_eq!(count.load(Relaxed), 10_000);
    assert_eq!(runtime.stats().total.spawned, 10_002 - 1);
    await_none_live(&runtime);
}

/// Joined ones are counted for a moment longer.
fn await_none_live(runtime: &Runtime) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while runtime.stats().live != 0 {
        assert!(std::time::Instant::now() < end, "some live for ever");
        std::thread::yield_now();
    }
}

#[test]
fn a_yielding_task_goes_behind_all_that_was_runnable() {
    let runtime = runtime(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    runtime.block_on(async {
        let handles: Vec<_> = (0..3)
            .map(|number| {
                let order = order.clone();
                spawn(async move {
                    for turn in 0..3 {
                        order.lock().unwrap().push((turn, number));
                        yield_now().await;
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.await.unwrap();
        }
    });
    let order = order.lock().unwrap();
    let turns: Vec<_> = order.iter().map(|&(turn, _)| turn).collect();
    assert_eq!(turns, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    let first: Vec<_> = order[..3].iter().map(|&(_, number)| number).collect();
    let later: Vec<_> = order[3..6].iter().map(|&(_, number)| number).collect();
    assert_eq!(first, later, "all keep their place");
}

#[test]
fn a_parked_task_is_cancelled_where_it_stands() {
    struct SetOnDrop(Arc<AtomicBool>);
    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let runtime = runtime(2);
    runtime.block_on(async {
        let dropped = Arc::new(AtomicBool::new(false));
        let guard = SetOnDrop(dropped.clone());
        let handle = spawn(async move {
            let _guard = guard;
            core::future::pending::<()>().await;
        });
        yield_now().await;
        assert!(!dropped.load(Relaxed));
        assert!(handle.cancel());
        assert!(matches!(handle.await, Err(TaskError::Cancelled)));
        assert!(dropped.load(Relaxed));
    });
}

#[test]
fn finalizers_run_in_reverse_on_every_exit() {
    let runtime = runtime(2);
    for cancel in [false, true] {
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = order.clone();
        runtime.block_on(async move {
            let handle = spawn(async move {
                for number in 0..3 {
                    let order = order.clone();
                    task::on_exit(async move {
                        yield_now().await;
                        order.lock().unwrap().push(number);
                    });
                }
                if cancel {
                    core::future::pending::<()>().await;
                }
                5
            });
            while cancel && !handle.is_finished() {
                handle.cancel();
                yield_now().await;
            }
            let outcome = handle.await;
            if cancel {
                assert!(outcome.unwrap_err().is_cancelled());
            } else {
                assert_eq!(outcome.unwrap(), 5);
            }
        });
        let order = seen.lock().unwrap();
        // Cancelled, it may never have come to register any.
        assert!(
            *order == [2, 1, 0] || cancel && order.is_empty(),
            "{order:?}"
        );
    }
}

#[test]
fn finalizers_wait_also_in_a_task_that_was_woken_or_cancelled_while_it_ran() {
    // The wake left QUEUED in the word with which the finalizers began, and their first pause took it
    // for a word without: yielding cleared it, and parking kept it, so that nobody could wake the task.
    let runtime = runtime(1);
    runtime.block_on(async {
        for cancel in [false, true] {
            let handle = spawn(async move {
                task::on_exit(async {
                    sleep(Duration::from_millis(1)).await;
                    yield_now().await;
                });
                task::on_exit(async { yield_now().await });
                if cancel {
                    task::current().cancel();
                    core::future::pending::<()>().await;
                }
                task::current().wake();
            });
            assert_eq!(handle.await.is_err(), cancel);
        }
    });
}

/// A waker whose clone panics, after the one before it was withdrawn.
#[test]
fn a_handle_outlives_a_waker_that_panics() {
    fn raw(_: *const ()) -> RawWaker {
        panic!("no more of me")
    }
    static VTABLE: RawWakerVTable = RawWakerVTable::new(raw, |_| {}, |_| {}, |_| {});
    // SAFETY: the functions do nothing.
    let panics = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) };
    let count = Arc::new(());
    struct Counted(#[allow(dead_code, reason = "counts")] Arc<()>);
    impl Wake for Counted {
        fn wake(self: Arc<Self>) {}
    }
    let counts = Waker::from(Arc::new(Counted(count.clone())));
    let runtime = runtime(1);
    let mut handle = runtime.spawn(pending::<()>());
    assert!(
        pin!(&mut handle)
            .poll(&mut Context::from_waker(&counts))
            .is_pending()
    );
    let polled = catch_unwind(AssertUnwindSafe(|| {
        pin!(&mut handle)
            .poll(&mut Context::from_waker(&panics))
            .is_pending()
    }));
    assert!(polled.is_err());
    drop(handle);
    drop(counts);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn local_tasks_share_what_is_not_send() {
    let runtime = runtime(4);
    let sum = runtime.block_on(async {
        let sum = Rc::new(Cell::new(0));
        let handles: Vec<_> = (0..100)
            .map(|number| {
                let sum = sum.clone();
                task::spawn_local(async move {
                    yield_now().await;
                    sum.set(sum.get() + number);
                })
            })
            .collect();
        for handle in handles {
            handle.await.unwrap();
        }
        sum.get()
    });
    assert_eq!(sum, 4950);
}

#[test]
fn a_local_task_can_be_started_on_another_core() {
    let runtime = runtime(3);
    runtime.block_on(async {
        let handle = task::spawn_local_on(2, || async {
            let here = Rc::new(std::thread::current().id());
            yield_now().await;
            sleep(Duration::from_millis(1)).await;
            assert_eq!(*here, std::thread::current().id());
            let child = task::spawn_local({
                let here = here.clone();
                async move { *here == std::thread::current().id() }
            });
            child.await.unwrap()
        });
        assert!(handle.await.unwrap());
    });
}

#[test]
fn a_panic_stays_in_its_task() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let handle = spawn(async { panic!("on purpose") });
        match handle.await {
            Err(TaskError::Panicked(panic)) => assert_eq!(panic.message(), "on purpose"),
            other => panic!("{other:?}"),
        }
        assert_eq!(spawn(async { 1 }).await.unwrap(), 1);
    });
}

#[test]
fn sleeping_takes_as_long_as_asked() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let begin = Instant::now();
        sleep(Duration::from_millis(20)).await;
        assert!(begin.elapsed() >= Duration::from_millis(20));
    });
}

#[test]
fn a_year_goes_by_at_once_on_a_virtual_clock() {
    let runtime = Runtime::builder()
        .workers(1)
        .virtual_clock()
        .build()
        .unwrap();
    runtime.block_on(async {
        let begin = Instant::now();
        let year = Duration::from_secs(365 * 86400);
        let other = spawn(async move { sleep(year / 2).await });
        sleep(year).await;
        assert_eq!(begin.elapsed(), year);
        other.await.unwrap();
    });
}

#[test]
fn higher_priorities_go_first() {
    let runtime = runtime(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    runtime.block_on(async {
        let handles: Vec<_> = Priority::ALL
            .into_iter()
            .map(|priority| {
                let order = order.clone();
                Builder::new()
                    .priority(priority)
                    .spawn(async move { order.lock().unwrap().push(priority) })
            })
            .collect();
        // The highest first: to be joined makes the lowest one no lower than who joins it.
        for handle in handles.into_iter().rev() {
            handle.await.unwrap();
        }
    });
    let mut expected = Priority::ALL;
    expected.reverse();
    assert_eq!(*order.lock().unwrap(), expected);
}

#[test]
fn a_runtime_can_be_built_and_shut_down_many_times() {
    for round in 0..200 {
        let runtime = runtime(1 + round % 3);
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let count = count.clone();
            runtime
                .spawn(async move {
                    yield_now().await;
                    count.fetch_add(1, Relaxed);
                })
                .detach();
        }
        if round % 2 == 0 {
            runtime.shutdown();
            assert_eq!(count.load(Relaxed), 10);
        } else {
            runtime.shutdown_now();
        }
        assert_eq!(Arc::strong_count(&count), 1, "all tasks are gone");
    }
}

#[test]
fn block_on_works_from_any_thread_at_once() {
    let runtime = runtime(2);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let runtime = &runtime;
            scope.spawn(move || {
                let output = runtime.block_on(async move {
                    sleep(Duration::from_millis(5)).await;
                    spawn(async move { number }).await.unwrap()
                });
                assert_eq!(output, number);
            });
        }
    });
}

#[test]
fn local_tasks_end_with_the_thread_that_they_belong_to() {
    struct Here(std::thread::ThreadId, Arc<AtomicUsize>);
    impl Drop for Here {
        fn drop(&mut self) {
            assert_eq!(self.0, std::thread::current().id());
            self.1.fetch_add(1, Relaxed);
        }
    }
    let runtime = runtime(2);
    let dropped = Arc::new(AtomicUsize::new(0));
    for thread in 1..=3 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                runtime.block_on(async {
                    let here = Rc::new(Here(std::thread::current().id(), dropped.clone()));
                    for _ in 0..10 {
                        let here = here.clone();
                        task::spawn_local(async move {
                            task::on_exit(async { sleep(Duration::from_millis(2)).await });
                            core::future::pending::<()>().await;
                            drop(here);
                        })
                        .detach();
                    }
                    yield_now().await;
                });
                assert_eq!(dropped.load(Relaxed), thread);
            });
        });
    }
    await_none_live(&runtime);
}

#[test]
fn polls_are_counted_to_the_last() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    assert_eq!(runtime.stats().total.polls, 0);
    runtime.block_on(async {
        let first = stats::stats().total.polls;
        for more in 0..200 {
            assert_eq!(stats::stats().total.polls, first + more);
            assert_eq!(runtime.stats().total.polls, first + more);
            yield_now().await;
        }
    });
    assert_eq!(runtime.stats().total.polls, 201, "once the loop is left");
}

#[test]
fn a_runtime_has_as_many_cores_as_run_at_once_unless_told() {
    let usual = std::thread::available_parallelism().unwrap().get();
    assert!((1..=usual).contains(&Runtime::new().unwrap().cores()));
}

#[test]
fn errors_show_what_they_are() {
    runtime(1).block_on(async {
        let panicked = spawn(async { panic!("on purpose") }).await;
        let error: Result<(), TaskError> = panicked;
        assert_eq!(
            format!("{:?}", error.unwrap_err()),
            r#"Panicked(Panic("on purpose"))"#
        );
        let elapsed = timeout(Duration::ZERO, pending::<()>()).await;
        assert_eq!(format!("{elapsed:?}"), "Err(Elapsed)");
    });
}

#[test]
fn a_panic_names_the_caller_who_is_not_in_a_task() {
    let places = Arc::new(Mutex::new(Vec::new()));
    let seen = places.clone();
    let before = std::panic::take_hook();
    let me = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == me {
            let place = panic.location().unwrap();
            seen.lock()
                .unwrap()
                .push((String::from(place.file()), place.line()));
        } else {
            before(panic);
        }
    }));
    let calls: [fn(); 6] = [
        || drop(spawn(async {})),
        || drop(task::try_spawn(async {})),
        || drop(task::spawn_local(async {})),
        || task::on_exit(async {}),
        || drop(task::current()),
        || drop(stats::stats()),
    ];
    let first = line!() - 7;
    for call in calls {
        assert!(catch_unwind(call).is_err());
    }
    let _ = std::panic::take_hook();
    let lines = (first..first + 6).map(|line| (String::from(file!()), line));
    assert_eq!(*places.lock().unwrap(), lines.collect::<Vec<_>>());
}

#[test]
fn errors_of_tasks_go_into_boxes_that_may_be_shared() {
    async fn joins() -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
        Ok(spawn(async { 5 }).await?)
    }
    assert_eq!(runtime(1).block_on(joins()).unwrap(), 5);
}
