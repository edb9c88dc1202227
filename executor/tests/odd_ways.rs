//! What tasks do at odd moments: waking, cancelling, spawning and letting go in
//! the middle of a poll, in destructors, and after the runtime has gone. Each
//! was a bug somewhere.
#![cfg(not(loom))]

use executor::{
    Runtime,
    task::{self, TaskError, TaskHandle, on_exit, spawn, yield_now},
    time::{Duration, sleep},
};
use std::{
    future::{Future, pending, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::{Context, Poll, Waker},
    thread,
};

fn runtime(cores: usize) -> Runtime {
    Runtime::builder().workers(cores).build().unwrap()
}

/// Waits for ever, or is ready at its second poll; wakes its task when it is dropped.
struct WakesInDrop {
    waker: Option<Waker>,
    is_ready_later: bool,
    dropped: Arc<AtomicUsize>,
}

impl WakesInDrop {
    fn new(is_ready_later: bool, dropped: &Arc<AtomicUsize>) -> Self {
        Self {
            waker: None,
            is_ready_later,
            dropped: dropped.clone(),
        }
    }
}

impl Future for WakesInDrop {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.waker.is_some() && self.is_ready_later {
            return Poll::Ready(());
        }
        self.waker = Some(context.waker().clone());
        if self.is_ready_later {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for WakesInDrop {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Relaxed);
        if let Some(waker) = self.waker.take() {
            waker.wake_by_ref();
            waker.wake();
        }
        // Both as a waker does it and by name.
        if let Some(task) = task::try_current() {
            task.wake();
        }
    }
}

/// async-executor#163: the entry that such a wake makes must not be polled, nor make it be freed twice.
#[test]
fn a_future_that_wakes_its_task_in_drop_is_dropped_once() {
    for cores in [1, 3] {
        let runtime = runtime(cores);
        let dropped = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            for round in 0..100 {
                let (is_done, is_polled) = (round % 2 == 0, round % 4 < 2);
                let handle = spawn(WakesInDrop::new(is_done, &dropped));
                if is_polled {
                    yield_now().await;
                }
                if !is_done {
                    handle.cancel();
                }
                assert_eq!(handle.await.is_ok(), is_done);
            }
        });
        assert_eq!(dropped.load(Relaxed), 100);
        // And where nobody joins.
        for round in 0..100 {
            let future = WakesInDrop::new(round % 2 == 0, &dropped);
            runtime.spawn(future).detach();
        }
        runtime.shutdown_now();
        assert_eq!(dropped.load(Relaxed), 200);
        assert_eq!(Arc::strong_count(&dropped), 1);
    }
}

#[test]
fn such_a_future_may_have_finalizers() {
    for cores in [1, 3] {
        let runtime = runtime(cores);
        let dropped = Arc::new(AtomicUsize::new(0));
        let begun = Arc::new(AtomicUsize::new(0));
        let finalized = Arc::new(AtomicUsize::new(0));
        for round in 0..100 {
            let future = WakesInDrop::new(round % 2 == 0, &dropped);
            let last = WakesInDrop::new(true, &dropped);
            let (begun, finalized) = (begun.clone(), finalized.clone());
            runtime
                .spawn(async move {
                    begun.fetch_add(1, Relaxed);
                    on_exit(async move {
                        yield_now().await;
                        last.await;
                        finalized.fetch_add(1, Relaxed);
                    });
                    future.await;
                })
                .detach();
        }
        // One that never ran has no finalizers.
        runtime.block_on(async {
            while begun.load(Relaxed) < 100 {
                sleep(Duration::from_millis(1)).await;
            }
        });
        runtime.shutdown_now();
        assert_eq!(dropped.load(Relaxed), 200);
        assert_eq!(finalized.load(Relaxed), 100);
    }
}

#[test]
fn a_task_may_wake_itself_at_any_time() {
    runtime(2).block_on(async {
        let handle = spawn(async {
            let mut polls = 0;
            poll_fn(|context| {
                polls += 1;
                context.waker().wake_by_ref();
                task::current().wake();
                let another = context.waker().clone();
                another.wake();
                if polls < 100 {
                    Poll::Pending
                } else {
                    // The last wake is for a task that has ended.
                    Poll::Ready(())
                }
            })
            .await;
            polls
        });
        assert_eq!(handle.await.unwrap(), 100);
    });
}

#[test]
fn a_task_may_cancel_itself() {
    runtime(2).block_on(async {
        let at_await: TaskHandle<()> = spawn(async {
            assert!(task::current().cancel());
            assert!(task::is_cancelled());
            yield_now().await;
            unreachable!("it ends at its next await");
        });
        assert!(matches!(at_await.await, Err(TaskError::Cancelled)));
        let at_check: TaskHandle<()> = spawn(async {
            task::check_cancelled().await;
            task::current().cancel();
            task::check_cancelled().await;
            unreachable!("it ends here");
        });
        assert!(matches!(at_check.await, Err(TaskError::Cancelled)));
        let without_await = spawn(async {
            task::current().cancel();
            5
        });
        assert_eq!(without_await.await.unwrap(), 5, "there was no await");
    });
}

/// Where a task finds its own handle.
type Slot<T> = Arc<Mutex<Option<TaskHandle<T>>>>;

#[test]
fn a_task_may_let_go_of_its_own_handle() {
    let runtime = runtime(2);
    let kept = Arc::new(());
    runtime.block_on(async {
        for way in 0..4 {
            let slot = Slot::default();
            let (inside, output) = (slot.clone(), kept.clone());
            let handle = spawn(async move {
                let own = loop {
                    if let Some(own) = inside.lock().unwrap().take() {
                        break own;
                    }
                    yield_now().await;
                };
                let _dropped_with_the_future = match way {
                    0 => {
                        drop(own);
                        None
                    }
                    1 => {
                        own.cancel();
                        drop(own);
                        None
                    }
                    2 => Some(own),
                    _ => {
                        on_exit(async move {
                            yield_now().await;
                            drop(own);
                        });
                        None
                    }
                };
                yield_now().await;
                output
            });
            let task = handle.task();
            *slot.lock().unwrap() = Some(handle);
            while !task.is_finished() {
                yield_now().await;
            }
        }
    });
    drop(runtime);
    assert_eq!(Arc::strong_count(&kept), 1, "the outputs are dropped");
}

#[test]
fn a_task_that_awaits_itself_waits_until_it_is_cancelled() {
    runtime(1).block_on(async {
        let slot = Slot::<()>::default();
        let inside = slot.clone();
        let handle = spawn(async move {
            let own = inside.lock().unwrap().take().unwrap();
            let _ = own.await;
        });
        let task = handle.task();
        *slot.lock().unwrap() = Some(handle);
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(!task.is_finished());
        task.cancel();
        yield_now().await;
        assert!(task.is_finished());
    });
}

#[test]
fn a_waker_may_outlive_its_runtime() {
    for cores in [1, 3] {
        let runtime = runtime(cores);
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let tasks = Arc::new(Mutex::new(Vec::new()));
        for round in 0..30 {
            let (wakers, tasks) = (wakers.clone(), tasks.clone());
            runtime
                .spawn(async move {
                    tasks.lock().unwrap().push(task::current());
                    poll_fn(|context| {
                        wakers.lock().unwrap().push(context.waker().clone());
                        if round % 2 == 0 {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        }
                    })
                    .await;
                })
                .detach();
        }
        runtime.block_on(async {
            while wakers.lock().unwrap().len() < 30 {
                yield_now().await;
            }
        });
        runtime.shutdown_now();
        let wakers = std::mem::take(&mut *wakers.lock().unwrap());
        thread::scope(|scope| {
            for (number, waker) in wakers.into_iter().enumerate() {
                scope.spawn(move || match number % 3 {
                    0 => waker.wake(),
                    1 => waker.wake_by_ref(),
                    _ => drop(waker.clone()),
                });
            }
        });
        for task in tasks.lock().unwrap().drain(..) {
            assert!(task.is_finished());
            assert!(!task.cancel());
            task.wake();
        }
    }
}

#[test]
fn a_handle_may_outlive_its_runtime() {
    let runtime = runtime(2);
    let kept = Arc::new(());
    let output = kept.clone();
    let mut done = runtime.spawn(async move { output });
    let mut cancelled = runtime.spawn(pending::<()>());
    let dropped = runtime.spawn(pending::<()>());
    runtime.block_on(async {
        while !done.is_finished() {
            yield_now().await;
        }
    });
    drop(runtime);
    drop(dropped);
    assert!(done.try_take().unwrap().is_ok());
    assert!(done.try_take().is_none(), "once");
    assert!(matches!(
        cancelled.try_take(),
        Some(Err(TaskError::Cancelled))
    ));
    drop((done, cancelled));
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn destructors_may_spawn_also_while_the_runtime_is_shut_down() {
    struct SpawnsInDrop(Arc<AtomicUsize>);
    impl Drop for SpawnsInDrop {
        fn drop(&mut self) {
            let count = self.0.clone();
            spawn(async move {
                yield_now().await;
                count.fetch_add(1, Relaxed);
            })
            .detach();
        }
    }
    for now in [false, true] {
        let runtime = runtime(3);
        let count = Arc::new(AtomicUsize::new(0));
        // Within a task: what nobody takes may be dropped by whoever drops the handle.
        runtime.block_on(async {
            for number in 0..50 {
                let of_future = SpawnsInDrop(count.clone());
                let of_output = SpawnsInDrop(count.clone());
                spawn(async move {
                    let _of_future = of_future;
                    if now && number % 2 == 0 {
                        pending::<()>().await;
                    }
                    of_output
                })
                .detach();
            }
        });
        if now {
            runtime.shutdown_now();
        } else {
            runtime.shutdown();
            assert_eq!(count.load(Relaxed), 100);
        }
        assert_eq!(Arc::strong_count(&count), 1, "all are gone");
    }
}

#[test]
fn wakes_cancels_and_ends_race_without_harm() {
    let runtime = runtime(3);
    let dropped = Arc::new(AtomicUsize::new(0));
    let wakers = Arc::new(Mutex::new(Vec::<Waker>::new()));
    let is_over = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        // From outside, while the cores run and end the tasks.
        let (of_thread, until) = (wakers.clone(), is_over.clone());
        scope.spawn(move || {
            while until.load(Relaxed) == 0 {
                let wakers = std::mem::take(&mut *of_thread.lock().unwrap());
                wakers.into_iter().for_each(Waker::wake);
                thread::yield_now();
            }
        });
        runtime.block_on(async {
            for _ in 0..300 {
                let handles: Vec<_> = (0..10)
                    .map(|number| {
                        let wakers = wakers.clone();
                        let counted = WakesInDrop::new(false, &dropped);
                        spawn(async move {
                            let _counted = counted;
                            for _ in 0..number {
                                let mut is_woken = false;
                                poll_fn(|context| {
                                    if is_woken {
                                        return Poll::Ready(());
                                    }
                                    is_woken = true;
                                    wakers.lock().unwrap().push(context.waker().clone());
                                    Poll::Pending
                                })
                                .await;
                            }
                        })
                    })
                    .collect();
                let mut ended = 0;
                for (number, handle) in handles.into_iter().enumerate() {
                    if number % 3 == 0 {
                        yield_now().await;
                        handle.cancel();
                    }
                    match handle.await {
                        Ok(()) => ended += 1,
                        Err(error) => assert!(error.is_cancelled() && number % 3 == 0),
                    }
                }
                assert!(ended >= 6);
            }
        });
        is_over.store(1, Relaxed);
    });
    drop(runtime);
    assert_eq!(dropped.load(Relaxed), 3000);
}

#[test]
fn a_runtime_without_tasks_may_end_within_a_task_of_another() {
    let outer = runtime(2);
    for _ in 0..50 {
        let task = outer.spawn(async {
            for end in [drop, Runtime::shutdown, Runtime::shutdown_now] {
                let inner = runtime(3);
                inner.spawn(yield_now()).await.unwrap();
                end(inner);
            }
        });
        outer.block_on(task).unwrap();
    }
    // Its cores are back.
    drop(runtime(3));
}

#[test]
fn a_runtime_that_cannot_end_within_a_task_says_so() {
    let outer = runtime(1);
    for end in [drop, Runtime::shutdown, Runtime::shutdown_now] {
        let task = outer.spawn(async move {
            let inner = runtime(2);
            inner.spawn(pending::<()>()).detach();
            end(inner);
        });
        let error = outer.block_on(task).unwrap_err().to_string();
        assert!(
            error.contains("within a task while its tasks live"),
            "{error}"
        );
    }
    let own = Arc::new(runtime(2));
    let kept = own.clone();
    let task = own.spawn(async move {
        while Arc::strong_count(&kept) > 1 {
            yield_now().await;
        }
        drop(kept);
    });
    drop(own);
    let error = outer.block_on(task).unwrap_err().to_string();
    assert!(
        error.contains("within a task while its tasks live"),
        "{error}"
    );
}

#[test]
fn a_panic_may_drop_a_runtime_within_a_task() {
    let outer = runtime(1);
    let task: TaskHandle<()> = outer.spawn(async {
        let inner = runtime(2);
        inner.spawn(pending::<()>()).detach();
        panic!("as it was told to");
    });
    let error = outer.block_on(task).unwrap_err();
    assert!(error.to_string().contains("as it was told to"), "{error}");
}
