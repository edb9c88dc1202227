//! Programs that are allowed, and that nobody would write on purpose.
#![cfg(not(loom))]

use executor::{
    Runtime,
    scheduler::policy::{Fifo, Policy, Reason, Runnable},
    task::{self, spawn, yield_now},
    time::{Duration, sleep},
};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Instant,
};

const LONG: std::time::Duration = std::time::Duration::from_secs(10);

fn runtime(cores: usize) -> Runtime {
    Runtime::builder().workers(cores).build().unwrap()
}

/// Fails if `what` takes for ever.
fn in_time<R: Send + 'static>(what: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    let thread = thread::spawn(move || send.send(what()).unwrap());
    let result = receive.recv_timeout(LONG);
    match result {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().unwrap_err())
        }
    }
}

#[test]
fn who_waits_outside_serves_when_the_first_core_is_left() {
    in_time(|| {
        let runtime = &runtime(1);
        let is_served = &AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                runtime.block_on(async {
                    is_served.store(true, Relaxed);
                    sleep(Duration::from_millis(100)).await;
                });
            });
            while !is_served.load(Relaxed) {
                thread::yield_now();
            }
            // Waits for a task that needs the core for longer than the other thread lends it.
            let task = runtime.spawn(async {
                sleep(Duration::from_millis(200)).await;
                7
            });
            assert_eq!(runtime.block_on(task).unwrap(), 7);
        });
    });
}

#[test]
fn a_sleep_ends_when_nobody_is_in_the_first_seat() {
    in_time(|| {
        let runtime = runtime(2);
        let woken = Arc::new(AtomicUsize::new(0));
        // On the first core, as the other is busy.
        let hold = Arc::new(AtomicBool::new(true));
        let held = Arc::new(AtomicBool::new(false));
        runtime.block_on(async {
            let (hold, is_held) = (hold.clone(), held.clone());
            task::Builder::new()
                .core(1)
                .spawn(async move {
                    is_held.store(true, Relaxed);
                    while hold.load(Relaxed) {
                        thread::yield_now();
                    }
                })
                .detach();
            while !held.load(Relaxed) {
                thread::yield_now();
            }
            let woken = woken.clone();
            spawn(async move {
                sleep(Duration::from_millis(50)).await;
                woken.fetch_add(1, Relaxed);
            })
            .detach();
            yield_now().await;
            yield_now().await;
        });
        hold.store(false, Relaxed);
        let end = Instant::now() + std::time::Duration::from_secs(3);
        while woken.load(Relaxed) == 0 {
            assert!(Instant::now() < end, "its timer is looked at by nobody");
            thread::yield_now();
        }
    });
}

#[test]
fn what_block_on_runs_cannot_be_cancelled() {
    in_time(|| {
        let output = runtime(1).block_on(async {
            task::current().cancel();
            yield_now().await;
            5
        });
        assert_eq!(output, 5);
    });
}

#[test]
fn a_block_on_within_one_from_outside_leaves_that_as_it_was() {
    in_time(|| {
        let runtime = &runtime(2);
        let other = &self::runtime(1);
        let is_served = &AtomicBool::new(false);
        let is_over = &AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                runtime.block_on(async {
                    is_served.store(true, Relaxed);
                    while !is_over.load(Relaxed) {
                        sleep(Duration::from_millis(1)).await;
                    }
                });
            });
            while !is_served.load(Relaxed) {
                thread::yield_now();
            }
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                runtime.block_on(async {
                    other.block_on(async { yield_now().await });
                    spawn(async { 3 }).await.unwrap()
                })
            }));
            is_over.store(true, Relaxed);
            assert_eq!(result.expect("a runtime runs here"), 3);
        });
    });
}

/// Forgets every task with a tag.
struct Forgetful(Fifo);

impl Policy for Forgetful {
    fn push(&self, task: Runnable, reason: Reason) {
        if task.tag() == 0 {
            self.0.push(task, reason);
        }
    }
    fn pop(&self) -> Option<Runnable> {
        self.0.pop()
    }
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[test]
fn a_bound_task_that_a_policy_drops_is_cancelled() {
    for cores in [1, 2] {
        in_time(move || {
            let make = |_| Box::new(Forgetful(Fifo::new())) as Box<dyn Policy>;
            let builder = Runtime::builder().workers(cores).policy(make);
            builder.build().unwrap().block_on(async move {
                for core in 0..cores {
                    let builder = task::Builder::new().tag(1).core(core);
                    let forgotten = builder.spawn(async { 1 });
                    assert!(forgotten.await.unwrap_err().is_cancelled());
                }
            });
        });
    }
}

#[test]
fn finalizers_run_to_their_end_whatever_a_policy_drops() {
    /// Forgets every task with a tag, unless it is new.
    struct Tired(Fifo);
    impl Policy for Tired {
        fn push(&self, task: Runnable, reason: Reason) {
            if task.tag() == 0 || reason == Reason::Spawned {
                self.0.push(task, reason);
            }
        }
        fn pop(&self) -> Option<Runnable> {
            self.0.pop()
        }
        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }
    in_time(|| {
        let make = |_| Box::new(Tired(Fifo::new())) as Box<dyn Policy>;
        let builder = Runtime::builder().workers(1).policy(make);
        builder.build().unwrap().block_on(async {
            let ended = Arc::new(AtomicUsize::new(0));
            let counts = ended.clone();
            let forgotten = task::Builder::new().tag(1).spawn(async move {
                task::on_exit(async move {
                    yield_now().await;
                    sleep(Duration::from_millis(1)).await;
                    counts.fetch_add(1, Relaxed);
                });
                yield_now().await;
            });
            assert!(forgotten.await.unwrap_err().is_cancelled());
            assert_eq!(ended.load(Relaxed), 1);
        });
    });
}

/// A waker of somebody who does not know how to do it.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics");
    }
}

#[test]
fn a_join_waker_that_panics_harms_nobody() {
    for cores in [1, 2] {
        in_time(move || {
            let runtime = runtime(cores);
            runtime.block_on(async move {
                let go = Arc::new(AtomicBool::new(false));
                let may_go = go.clone();
                let builder = task::Builder::new().core(cores - 1);
                let mut task = builder.spawn(async move {
                    while !may_go.load(Relaxed) {
                        yield_now().await;
                    }
                });
                let waker = Waker::from(Arc::new(Panics));
                let poll = pin!(&mut task).poll(&mut Context::from_waker(&waker));
                assert!(poll.is_pending());
                go.store(true, Relaxed);
                while !task.is_finished() {
                    yield_now().await;
                }
                assert!(task.await.is_ok());
                assert_eq!(spawn(async { 1 }).await.unwrap(), 1);
            });
            drop(runtime);
        });
    }
}

#[test]
fn a_timer_waker_that_panics_harms_nobody() {
    in_time(|| {
        runtime(1).block_on(async {
            let mut quick = pin!(sleep(Duration::from_millis(5)));
            let waker = Waker::from(Arc::new(Panics));
            let poll = quick.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(poll.is_pending());
            sleep(Duration::from_millis(20)).await;
            assert!(quick.is_elapsed());
        });
    });
}

#[test]
fn a_task_that_yields_to_one_that_hogs_goes_on_elsewhere() {
    in_time(|| {
        let runtime = runtime(2);
        let (longest, is_over) = runtime.block_on(async {
            let is_over = Arc::new(AtomicBool::new(false));
            let hogs = Arc::new(AtomicBool::new(false));
            let waker = Arc::new(std::sync::Mutex::new(None::<Waker>));
            let hog = {
                let (waker, hogs, is_over) = (waker.clone(), hogs.clone(), is_over.clone());
                spawn(poll_fn(move |context| {
                    if !hogs.load(Relaxed) {
                        *waker.lock().unwrap() = Some(context.waker().clone());
                        return Poll::Pending;
                    }
                    let end = Instant::now() + std::time::Duration::from_millis(300);
                    while Instant::now() < end {
                        thread::yield_now();
                    }
                    is_over.store(true, Relaxed);
                    Poll::Ready(())
                }))
            };
            while waker.lock().unwrap().is_none() {
                yield_now().await;
            }
            let other = is_over.clone();
            let task = spawn(async move {
                // All others are asleep.
                thread::sleep(std::time::Duration::from_millis(50));
                hogs.store(true, Relaxed);
                let begin = Instant::now();
                waker.lock().unwrap().take().unwrap().wake();
                yield_now().await;
                (begin.elapsed(), other.load(Relaxed))
            });
            let longest = task.await.unwrap();
            hog.await.unwrap();
            longest
        });
        assert!(!is_over, "it waited {longest:?} next to a core that slept");
    });
}

#[test]
fn a_wake_is_not_lost_to_a_future_within() {
    in_time(|| {
        let is_woken = Arc::new(AtomicBool::new(false));
        let mut polls = 0;
        executor::block_on_simple(poll_fn(|context| {
            polls += 1;
            if is_woken.load(Relaxed) {
                return Poll::Ready(());
            }
            if polls == 1 {
                // Both are woken while the inner one waits, and the outer one has not looked yet.
                let (outer, is_woken) = (context.waker().clone(), is_woken.clone());
                let is_over = Arc::new(AtomicBool::new(false));
                let inner_is_over = is_over.clone();
                executor::block_on_simple(poll_fn(move |context| {
                    if is_over.load(Acquire) {
                        return Poll::Ready(());
                    }
                    let (outer, inner) = (outer.clone(), context.waker().clone());
                    let (is_over, is_woken) = (inner_is_over.clone(), is_woken.clone());
                    thread::spawn(move || {
                        thread::sleep(std::time::Duration::from_millis(20));
                        is_over.store(true, Release);
                        is_woken.store(true, Relaxed);
                        outer.wake();
                        inner.wake();
                    });
                    Poll::Pending
                }));
            }
            Poll::Pending
        }));
    });
}

#[test]
fn spawn_local_says_so_where_another_thread_serves() {
    in_time(|| {
        let runtime = &runtime(1);
        let (is_served, is_over) = (&AtomicBool::new(false), &AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                runtime.block_on(async {
                    is_served.store(true, Relaxed);
                    while !is_over.load(Relaxed) {
                        yield_now().await;
                    }
                });
            });
            while !is_served.load(Relaxed) {
                thread::yield_now();
            }
            let visit =
                scope.spawn(|| runtime.block_on(async { drop(task::spawn_local(async {})) }));
            let panic = visit.join().unwrap_err();
            is_over.store(true, Relaxed);
            let message = panic.downcast_ref::<&str>().unwrap();
            assert!(message.contains("while another thread serves"), "{message}");
        });
    });
}

#[test]
fn two_hundred_threads_may_use_runtimes_at_once() {
    const THREADS: usize = 200;
    /// Ready once another thread has woken it.
    fn woken() -> impl Future<Output = ()> {
        let is_woken = Arc::new(AtomicBool::new(false));
        let mut is_first = true;
        poll_fn(move |context| {
            if is_woken.load(Acquire) {
                return Poll::Ready(());
            }
            if std::mem::take(&mut is_first) {
                let (waker, is_woken) = (context.waker().clone(), is_woken.clone());
                thread::spawn(move || {
                    is_woken.store(true, Release);
                    waker.wake();
                });
            }
            Poll::Pending
        })
    }
    in_time(|| {
        let common = &runtime(2);
        let all_in = &Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let own = runtime(1);
                    // From here on each has its number.
                    own.block_on(yield_now());
                    all_in.wait();
                    for _ in 0..3 {
                        let task = async { sleep(Duration::from_millis(1)).await };
                        common.block_on(async { spawn(task).await.unwrap() });
                        own.block_on(async { spawn(woken()).await.unwrap() });
                        executor::block_on_simple(woken());
                    }
                });
            }
        });
    });
}

#[cfg(feature = "embassy-time")]
#[test]
fn a_timer_without_a_node_does_not_keep_the_runtime() {
    /// There as long as the runtime's memory is.
    struct Counted(Fifo, #[allow(dead_code)] Arc<()>);
    impl Policy for Counted {
        fn push(&self, task: Runnable, reason: Reason) {
            self.0.push(task, reason);
        }
        fn pop(&self) -> Option<Runnable> {
            self.0.pop()
        }
        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }
    in_time(|| {
        let count = Arc::new(());
        let counted = count.clone();
        let make = move |_| Box::new(Counted(Fifo::new(), counted.clone())) as Box<dyn Policy>;
        let runtime = Runtime::builder().workers(1).policy(make).build().unwrap();
        runtime.block_on(async {
            spawn(async {
                let hour = embassy_time::Duration::from_secs(3600);
                let _ = embassy_time::with_timeout(hour, yield_now()).await;
            })
            .await
            .unwrap();
        });
        drop(runtime);
        assert_eq!(Arc::strong_count(&count), 1, "its memory is gone");
    });
}

#[test]
fn a_waker_that_waits_on_a_core_of_a_runtime_panics() {
    /// What waits is the loop of the core, which nobody goes on with meanwhile.
    struct Waits(mpsc::Sender<bool>);
    impl Wake for Waits {
        fn wake(self: Arc<Self>) {
            let waits = || task::wait(std::future::pending::<()>());
            let result = std::panic::catch_unwind(waits);
            self.0.send(result.is_err()).unwrap();
        }
    }
    in_time(|| {
        let (tell, told) = mpsc::channel();
        runtime(1).block_on(async move {
            let waker = Waker::from(Arc::new(Waits(tell)));
            let mut task = pin!(spawn(async {}));
            let first = task.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(first.is_pending());
            yield_now().await;
        });
        assert!(told.recv().unwrap());
    });
}

#[test]
fn who_waits_as_a_visitor_serves_when_the_seat_is_left() {
    let ways: [fn(); 3] = [
        || drop(task::wait(spawn(sleep(Duration::from_millis(200))))),
        || {
            executor::block_on_simple(async {
                spawn(sleep(Duration::from_millis(200))).await.unwrap()
            })
        },
        || {
            let ended = task::nursery(|scope| {
                scope.spawn(async {
                    sleep(Duration::from_millis(200)).await;
                    Ok::<_, ()>(())
                });
            });
            assert!(ended.is_ok());
        },
    ];
    for way in ways {
        in_time(move || {
            let runtime = Arc::new(runtime(1));
            let (tell, told) = mpsc::channel();
            let served = runtime.clone();
            let first = thread::spawn(move || {
                served.block_on(async move {
                    tell.send(()).unwrap();
                    sleep(Duration::from_millis(100)).await;
                });
            });
            told.recv().unwrap();
            // A visitor, as long as the other serves.
            runtime.block_on(async {
                assert!(task::try_current().is_none());
                way();
            });
            first.join().unwrap();
            // The seat is free again.
            runtime.block_on(async { assert!(task::try_current().is_some()) });
        });
    }
}
