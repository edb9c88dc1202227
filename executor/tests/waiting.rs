//! Waiting in code that is not async: only the poll that waits is left, never the core.

use executor::{
    Runtime, TaskError,
    sync::oneshot,
    task::{self, Builder, nursery, on_exit, spawn, spawn_local, try_wait, wait, yield_now},
    thread,
    time::{Duration, sleep, timeout},
};
use std::{
    cell::{Cell, RefCell},
    future::{pending, poll_fn},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
    },
    task::Poll,
};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

#[test]
fn a_thousand_tasks_wait_on_one_core_and_all_go_on() {
    let runtime = runtime(1);
    let waiting = Arc::new(AtomicUsize::new(0));
    let total: usize = runtime.block_on(async {
        let tasks: Vec<_> = (0..1000)
            .map(|number| {
                let waiting = waiting.clone();
                spawn(async move {
                    waiting.fetch_add(1, Relaxed);
                    // All are in the middle of a poll at once before any goes on.
                    wait(poll_fn(|context| {
                        if waiting.load(Relaxed) == 1000 {
                            return Poll::Ready(());
                        }
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }));
                    number
                })
            })
            .collect();
        let mut total = 0;
        for task in tasks {
            total += task.await.unwrap();
        }
        total
    });
    assert_eq!(total, 499_500);
    assert!(runtime.stats().total.suspensions >= 999);
}

#[test]
fn waits_nest_and_each_goes_on_when_its_own_future_is_ready() {
    fn depth(left: u32) -> u32 {
        let inner = spawn(async move { if left == 0 { 0 } else { depth(left - 1) } });
        wait(sleep(Duration::from_micros(100)));
        1 + wait(async { wait(inner).unwrap() })
    }
    for workers in [1, 3] {
        assert_eq!(runtime(workers).block_on(async { depth(20) }), 21);
    }
}

#[test]
fn others_run_while_one_waits_and_what_it_has_on_its_stack_stays() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let ran = Arc::new(AtomicUsize::new(0));
        let other = {
            let ran = ran.clone();
            spawn(async move {
                for _ in 0..10 {
                    ran.fetch_add(1, Relaxed);
                    yield_now().await;
                }
            })
        };
        let on_stack: [u64; 64] = std::array::from_fn(|i| i as u64 * 3);
        wait(other).unwrap();
        assert_eq!(ran.load(Relaxed), 10);
        assert!(on_stack.iter().enumerate().all(|(i, n)| *n == i as u64 * 3));
    });
}

#[test]
fn a_destructor_may_wait_wherever_it_runs() {
    struct Waits(Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            let helper = spawn(async { yield_now().await });
            wait(helper).unwrap();
            self.0.fetch_add(1, Relaxed);
        }
    }
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let dropped = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            // Within a poll.
            let on_stack = Waits(dropped.clone());
            spawn(async move { drop(on_stack) }).await.unwrap();
            // Of a future that is cancelled where it stands.
            let held = Waits(dropped.clone());
            let parked = spawn(async move {
                let _held = held;
                pending::<()>().await;
            });
            yield_now().await;
            parked.cancel();
            assert!(parked.await.unwrap_err().is_cancelled());
            // Of an outcome that nobody takes.
            let held = Waits(dropped.clone());
            spawn(async move { held }).detach();
            while dropped.load(Relaxed) < 3 {
                sleep(Duration::from_micros(50)).await;
            }
        });
        assert_eq!(dropped.load(Relaxed), 3);
    }
}

#[test]
fn a_task_that_waits_is_cancelled_at_its_next_await() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let (let_go, reached) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let task = {
            let (let_go, reached) = (let_go.clone(), reached.clone());
            spawn(async move {
                wait(poll_fn(|context| {
                    context.waker().wake_by_ref();
                    if let_go.load(Relaxed) {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                }));
                reached.store(true, Relaxed);
                yield_now().await;
                unreachable!("it was cancelled");
            })
        };
        yield_now().await;
        assert!(task.cancel());
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(!task.is_finished(), "it still waits");
        let_go.store(true, Relaxed);
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(reached.load(Relaxed));
    });
}

#[test]
fn try_wait_ends_when_the_task_is_cancelled_before_it_during_it_or_never() {
    for workers in [1, 2] {
        runtime(workers).block_on(async {
            let seen = Arc::new(AtomicUsize::new(0));
            let started = Arc::new(AtomicBool::new(false));
            let task = {
                let (seen, started) = (seen.clone(), started.clone());
                spawn(async move {
                    assert_eq!(try_wait(async { 7 }).unwrap(), 7);
                    started.store(true, Release);
                    let cancelled = try_wait(pending::<()>());
                    assert!(matches!(cancelled, Err(TaskError::Cancelled)));
                    // A second time it is at once.
                    assert!(try_wait(pending::<()>()).is_err());
                    seen.fetch_add(1, Relaxed);
                })
            };
            while !started.load(Acquire) {
                sleep(Duration::from_micros(50)).await;
            }
            task.cancel();
            // It had no await to be cancelled at: it came to its end.
            task.await.unwrap();
            assert_eq!(seen.load(Relaxed), 1);
        });
    }
}

#[test]
fn cancel_races_with_try_wait_and_never_hangs() {
    let runtime = runtime(3);
    runtime.block_on(async {
        for _ in 0..2000 {
            let task = spawn(async { try_wait(pending::<()>()).is_err() });
            let other = task.task();
            let canceller = spawn(async move { other.cancel() });
            // Cancelled before it ran, or within.
            assert!(task.await.unwrap_or(true));
            canceller.await.unwrap();
        }
    });
}

#[test]
fn no_other_local_task_runs_while_one_waits() {
    runtime(2).block_on(async {
        let inside = Rc::new(RefCell::new(0));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let inside = inside.clone();
                spawn_local(async move {
                    for _ in 0..5 {
                        {
                            // Held while it waits: another local task that ran meanwhile would find it so.
                            let mut counted = inside.borrow_mut();
                            wait(sleep(Duration::from_micros(20)));
                            *counted += 1;
                        }
                        yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*inside.borrow(), 100);
    });
}

#[test]
fn a_local_task_waits_on_its_own_core_only() {
    let runtime = runtime(3);
    runtime.block_on(async {
        let main = hal::cores::this_core();
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                spawn_local(async move {
                    for _ in 0..20 {
                        let helper = spawn(async { yield_now().await });
                        wait(helper).unwrap();
                        assert_eq!(hal::cores::this_core(), main);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_pinned_task_goes_on_on_its_core_and_any_other_anywhere() {
    let runtime = runtime(3);
    runtime.block_on(async {
        let pinned = Builder::new().core(1).spawn(async {
            let core = hal::cores::this_core();
            for _ in 0..100 {
                wait(spawn(async { yield_now().await })).unwrap();
                assert_eq!(hal::cores::this_core(), core);
            }
        });
        let free: Vec<_> = (0..8)
            .map(|_| {
                spawn(async {
                    for _ in 0..100 {
                        wait(spawn(async { yield_now().await })).unwrap();
                    }
                })
            })
            .collect();
        pinned.await.unwrap();
        for task in free {
            task.await.unwrap();
        }
    });
}

#[test]
fn block_on_within_a_task_waits() {
    let runtime = Arc::new(runtime(1));
    let inner = runtime.clone();
    let answer = runtime
        .block_on(async move { inner.block_on(async { spawn(async { 42 }).await.unwrap() }) });
    assert_eq!(answer, 42);
}

#[test]
fn block_on_simple_within_a_task_waits_too() {
    runtime(1).block_on(async {
        let other = spawn(async { yield_now().await });
        executor::block_on_simple(other).unwrap();
    });
}

#[test]
fn wait_outside_a_task_sleeps_until_it_is_ready() {
    let runtime = runtime(2);
    let task = runtime.spawn(async { 5 });
    assert_eq!(wait(task).unwrap(), 5);
}

#[test]
fn the_current_task_and_its_locals_are_the_same_after_a_wait() {
    executor::task_local! { static NUMBER: Cell<u32>; }
    runtime(3).block_on(async {
        let tasks: Vec<_> = (0..30)
            .map(|number| {
                spawn(NUMBER.scope(Cell::new(number), async move {
                    let id = task::id();
                    for _ in 0..20 {
                        wait(spawn(async { yield_now().await })).unwrap();
                        assert_eq!(task::id(), id);
                        assert_eq!(NUMBER.with(Cell::get), number);
                    }
                }))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn finalizers_may_wait() {
    let done = Arc::new(AtomicBool::new(false));
    let runtime = runtime(1);
    let seen = done.clone();
    runtime.block_on(async move {
        let task = spawn(async move {
            on_exit(async move {
                wait(sleep(Duration::from_micros(100)));
                seen.store(true, Relaxed);
            });
            pending::<()>().await;
        });
        yield_now().await;
        task.cancel();
        let _ = task.await;
    });
    assert!(done.load(Relaxed));
}

#[test]
#[should_panic(expected = "under a guard")]
fn wait_under_a_guard_says_so() {
    runtime(1).block_on(async {
        let _guard = hal::preempt::guard();
        wait(async {});
    });
}

#[test]
fn a_wait_that_times_out_goes_on() {
    runtime(1).block_on(async {
        let result = wait(timeout(Duration::from_millis(1), pending::<()>()));
        assert!(result.is_err());
    });
}

#[test]
fn a_panic_in_a_wait_ends_the_task_and_its_context_is_used_again() {
    let runtime = runtime(1);
    runtime.block_on(async {
        for _ in 0..50 {
            let task = spawn(async {
                wait(async {
                    yield_now().await;
                    panic!("inside");
                })
            });
            assert!(matches!(task.await, Err(TaskError::Panicked(_))));
        }
    });
}

#[test]
fn runtimes_with_waiting_tasks_are_shut_down_and_nothing_is_left() {
    for round in 0..20 {
        struct Ends(Arc<AtomicUsize>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let runtime = runtime(1 + round % 3);
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let ends = Ends(ended.clone());
            let task = runtime.spawn(async move {
                let _ends = ends;
                let _ = try_wait(pending::<()>());
                pending::<()>().await;
            });
            task.detach();
        }
        // Some are in the middle of a poll by now, some have not begun.
        runtime.block_on(async { yield_now().await });
        runtime.shutdown_now();
        assert_eq!(ended.load(Relaxed), 20);
    }
}

#[test]
fn polls_that_were_left_do_not_put_an_end_to_fair_turns() {
    runtime(1).block_on(async {
        // Each counts as two turns of the core, one right behind the other, of which any may be the
        // one before a fair turn.
        for round in 0..500 {
            let rest = round % 7;
            spawn(async move {
                thread::yield_now();
                (0..rest).for_each(|_| thread::yield_now());
            })
            .await
            .unwrap();
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let busy: Vec<_> = (0..2)
            .map(|_| {
                let is_over = is_over.clone();
                spawn(async move {
                    for _ in 0..100_000 {
                        if is_over.load(Relaxed) {
                            return true;
                        }
                        yield_now().await;
                    }
                    false
                })
            })
            .collect();
        let low = task::Builder::new().priority(executor::Priority::Low);
        low.spawn(async move { is_over.store(true, Relaxed) })
            .detach();
        for busy in busy {
            assert!(busy.await.unwrap(), "a task of low priority had no turn");
        }
    });
}

/// Waits for `first` and, within the same poll, as sync code does, for `second`.
fn wait_within_a_wait(first: oneshot::Receiver<()>, second: impl FnOnce()) {
    let mut second = Some(second);
    wait(async {
        executor::join!(biased; async { first.await.unwrap() }, async move {
            (second.take().unwrap())();
        });
    });
}

#[test]
fn a_wake_for_a_wait_is_not_lost_to_a_wait_within_it() {
    // The first is sent while the inner one waits: it goes on for that, finds nothing, and waits again.
    let runtime = Runtime::builder().workers(1).virtual_clock().build();
    runtime.unwrap().block_on(async {
        let pause = || sleep(Duration::from_millis(1));
        for in_nursery in [false, true] {
            let (first, first_receiver) = oneshot::channel();
            let (second, second_receiver) = oneshot::channel::<()>();
            let waiter = thread::spawn(move || {
                wait_within_a_wait(first_receiver, move || {
                    if in_nursery {
                        let children = nursery(|scope| {
                            scope.spawn(async { second_receiver.await.map_err(drop) });
                        });
                        children.unwrap();
                    } else {
                        wait(second_receiver).unwrap();
                    }
                });
            });
            pause().await;
            first.send(()).unwrap();
            pause().await;
            assert!(!waiter.is_finished());
            second.send(()).unwrap();
            let ended = timeout(Duration::from_secs(1), waiter).await;
            ended.expect("the outer wait was never woken").unwrap();
        }
    });
}

#[test]
#[cfg(debug_assertions)]
fn who_awaits_with_a_guard_is_told() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let local = spawn_local(async {
            let _guard = hal::preempt::guard();
            yield_now().await;
        });
        let told = local.await.unwrap_err().to_string();
        assert!(told.contains("awaits with a guard"), "{told}");
        let in_wait = thread::spawn(|| {
            wait(async {
                let _masked = hal::irq::mask();
                yield_now().await;
            });
        });
        let told = in_wait.await.unwrap_err().to_string();
        assert!(told.contains("with interrupts masked"), "{told}");
        assert!(hal::preempt::is_allowed());
    });
}
