//! Scheduling policies: the built-in one, one of a user's own, one that cores
//! share, and one program under all of them.
#![cfg(not(loom))]

#[path = "../examples/edf.rs"]
mod edf;

use edf::{EarliestDeadlineFirst, JOBS, Job, late_jobs};
use executor::{
    Priority, Runtime, block_on_simple,
    runtime::Builder,
    scheduler::policy::{Fifo, Policy, Reason, Runnable},
    task::{self, TaskGroup, spawn, spawn_local, yield_now},
    time::{Duration, sleep},
};
use std::{
    collections::HashSet,
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
    },
    task::Poll,
    thread::{self, ThreadId},
};

fn fifo(cores: usize) -> Runtime {
    let builder = Runtime::builder().workers(cores);
    builder.policy(|_| Box::new(Fifo::new())).build().unwrap()
}

fn edf(cores: usize) -> Runtime {
    let builder = Runtime::builder().workers(cores);
    let make = |_| Box::new(EarliestDeadlineFirst::default()) as Box<dyn Policy>;
    builder.policy(make).build().unwrap()
}

/// One queue for all cores.
#[derive(Clone, Default)]
struct Shared(Arc<Fifo>);

impl Policy for Shared {
    fn push(&self, task: Runnable, reason: Reason) {
        self.0.push(task, reason);
    }

    fn pop(&self) -> Option<Runnable> {
        self.0.pop()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn is_shared(&self) -> bool {
        true
    }
}

fn shared(cores: usize) -> Runtime {
    let queue = Shared::default();
    let builder = Runtime::builder().workers(cores);
    let make = move |_| Box::new(queue.clone()) as Box<dyn Policy>;
    builder.policy(make).build().unwrap()
}

#[test]
fn earliest_deadline_first_keeps_what_the_order_of_arrival_misses() {
    let [one, two, three, four] = JOBS;
    let fifo = late_jobs(&fifo(1), &JOBS);
    assert_eq!(fifo, [two, three, four], "only the last deadline is kept");
    assert_eq!(late_jobs(&edf(1), &JOBS), []);
    // Whatever the order in which they come.
    assert_eq!(late_jobs(&edf(1), &[four, three, two, one]), []);
    assert_eq!(late_jobs(&edf(1), &[two, four, one, three]), []);
    // And what nobody could keep is late.
    let more = Job {
        cost: 1,
        deadline: 10,
    };
    assert_eq!(late_jobs(&edf(1), &[four, more]), [four]);
}

#[test]
fn what_comes_from_outside_goes_through_the_policy() {
    let runtime = edf(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    for deadline in [30, 10, 20, 40] {
        let order = order.clone();
        let builder = task::Builder::new().tag(deadline);
        let work = async move { order.lock().unwrap().push(deadline) };
        runtime.spawn_with(builder, work).detach();
    }
    let seen = order.clone();
    runtime.block_on(async move {
        while seen.lock().unwrap().len() < 4 {
            yield_now().await;
        }
    });
    assert_eq!(*order.lock().unwrap(), [10, 20, 30, 40]);
}

#[test]
fn fifo_is_in_the_order_of_becoming_runnable_and_knows_no_priority() {
    let runtime = fifo(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    runtime.block_on(async {
        let mut handles = Vec::new();
        for (number, priority) in Priority::ALL.into_iter().enumerate() {
            let order = order.clone();
            let work = async move {
                for turn in 0..3 {
                    order.lock().unwrap().push((turn, number));
                    yield_now().await;
                }
            };
            handles.push(task::Builder::new().priority(priority).spawn(work));
        }
        for handle in handles {
            handle.await.unwrap();
        }
    });
    let expected: Vec<_> = (0..3)
        .flat_map(|turn| (0..4).map(move |number| (turn, number)))
        .collect();
    assert_eq!(*order.lock().unwrap(), expected);
}

#[test]
fn cores_that_share_a_policy_share_the_work() {
    let runtime = shared(4);
    let threads = Arc::new(Mutex::new(HashSet::<ThreadId>::new()));
    runtime.block_on(async {
        // Each waits, without giving its core away, until another core has come to the other.
        let arrived = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..2)
            .map(|_| {
                let (arrived, threads) = (arrived.clone(), threads.clone());
                spawn(async move {
                    threads.lock().unwrap().insert(thread::current().id());
                    arrived.fetch_add(1, Relaxed);
                    while arrived.load(Relaxed) < 2 {
                        thread::yield_now();
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.await.unwrap();
        }
    });
    assert!(threads.lock().unwrap().len() > 1);
}

#[test]
fn local_tasks_stay_on_their_core_when_cores_share_a_policy() {
    let runtime = shared(4);
    runtime.block_on(async {
        let here = thread::current().id();
        let count = Rc::new(AtomicUsize::new(0));
        let mut handles = Vec::new();
        for _ in 0..50 {
            let count = count.clone();
            handles.push(spawn_local(async move {
                for _ in 0..20 {
                    assert_eq!(thread::current().id(), here);
                    yield_now().await;
                }
                count.fetch_add(1, Relaxed);
            }));
            // Others, so that all cores look at the policy.
            spawn(yield_now()).detach();
        }
        for handle in handles {
            handle.await.unwrap();
        }
        assert_eq!(count.load(Relaxed), 50);
        let pinned = task::Builder::new().core(2).spawn(async {
            let here = thread::current().id();
            for _ in 0..50 {
                yield_now().await;
                assert_eq!(thread::current().id(), here);
            }
        });
        pinned.await.unwrap();
    });
}

#[test]
fn a_policy_that_hands_tasks_to_the_wrong_core_does_no_harm() {
    /// Shares its queue without saying so.
    #[derive(Clone, Default)]
    struct Liar(Arc<Fifo>);
    impl Policy for Liar {
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
    let queue = Liar::default();
    let builder = Runtime::builder().workers(3);
    let make = move |_| Box::new(queue.clone()) as Box<dyn Policy>;
    let runtime = builder.policy(make).build().unwrap();
    runtime.block_on(async {
        let here = thread::current().id();
        let handles: Vec<_> = (0..20)
            .map(|_| {
                spawn_local(async move {
                    for _ in 0..50 {
                        yield_now().await;
                        assert_eq!(thread::current().id(), here);
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.await.unwrap();
        }
    });
}

#[test]
fn a_task_that_a_policy_drops_is_cancelled() {
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
    for cores in [1, 3] {
        let builder = Runtime::builder().workers(cores);
        let make = |_| Box::new(Forgetful(Fifo::new())) as Box<dyn Policy>;
        let runtime = builder.policy(make).build().unwrap();
        runtime.block_on(async {
            assert_eq!(spawn(async { 1 }).await.unwrap(), 1);
            for _ in 0..20 {
                let forgotten = task::Builder::new().tag(1).spawn(async { 1 });
                assert!(forgotten.await.unwrap_err().is_cancelled());
            }
        });
    }
}

#[test]
fn a_thread_on_a_stack_of_its_own_may_yield_as_it_ends() {
    let runtime = Runtime::builder()
        .workers(1)
        .policy(|_| Box::new(Fifo::new()))
        .build()
        .unwrap();
    runtime.block_on(async {
        let thread = executor::thread::Builder::new().stack_size(256 << 10);
        let thread = thread.spawn(|| task::on_exit(async { yield_now().await }));
        thread.unwrap().await.unwrap();
    });
}

#[test]
fn a_poll_that_a_policy_drops_goes_on_and_its_task_is_cancelled() {
    /// Forgets what is pushed first after it was told to.
    struct Forgetful {
        tasks: Fifo,
        forgets: Arc<AtomicBool>,
        pushes: Arc<AtomicUsize>,
    }
    impl Policy for Forgetful {
        fn push(&self, task: Runnable, reason: Reason) {
            self.pushes.fetch_add(1, Relaxed);
            if !self.forgets.swap(false, Relaxed) {
                self.tasks.push(task, reason);
            }
        }
        fn pop(&self) -> Option<Runnable> {
            self.tasks.pop()
        }
        fn is_empty(&self) -> bool {
            self.tasks.is_empty()
        }
    }
    let forgets = Arc::new(AtomicBool::new(false));
    let pushes = Arc::new(AtomicUsize::new(0));
    let (flag, count) = (forgets.clone(), pushes.clone());
    let make = move |_| {
        Box::new(Forgetful {
            tasks: Fifo::new(),
            forgets: flag.clone(),
            pushes: count.clone(),
        }) as Box<dyn Policy>
    };
    let runtime = Runtime::builder().workers(1).policy(make).build().unwrap();
    runtime.block_on(async {
        let went_on = Arc::new(AtomicBool::new(false));
        let saw = went_on.clone();
        let forgotten = spawn(async move {
            forgets.store(true, Relaxed);
            executor::thread::yield_now();
            saw.store(task::is_cancelled(), Relaxed);
            yield_now().await;
            unreachable!("it was cancelled");
        });
        assert!(forgotten.await.unwrap_err().is_cancelled());
        assert!(went_on.load(Relaxed));
        // The stack it was on is another task's now, and goes through the policy again.
        for _ in 0..3 {
            let before = pushes.load(Relaxed);
            let yields = || (0..10).for_each(|_| executor::thread::yield_now());
            spawn(async move { yields() }).await.unwrap();
            assert!(pushes.load(Relaxed) >= before + 10);
        }
    });
}

/// What runs unchanged under every mode.
async fn program(number: u32) -> u32 {
    let step = async |value: u32| {
        yield_now().await;
        value + 1
    };
    let mut sum = 0;
    for value in 0..number {
        // Two at once, without a runtime's help.
        let (mut one, mut other) = (pin!(step(value)), pin!(step(value)));
        let (mut first, mut second) = (None, None);
        poll_fn(|context| {
            for (future, output) in [(one.as_mut(), &mut first), (other.as_mut(), &mut second)] {
                if output.is_none()
                    && let Poll::Ready(value) = future.poll(context)
                {
                    *output = Some(value);
                }
            }
            if first.is_some() && second.is_some() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        sum += first.unwrap() + second.unwrap();
    }
    sum
}

#[test]
fn one_async_function_runs_unchanged_under_every_mode() {
    let expected = 110;
    assert_eq!(block_on_simple(program(10)), expected);
    let usual = |configure: fn(Builder) -> Builder| configure(Runtime::builder()).build().unwrap();
    let modes = [
        ("multi-core", usual(|builder| builder.workers(4))),
        ("single-core", usual(|builder| builder.workers(1))),
        (
            "stealing off",
            usual(|builder| builder.workers(3).stealing(false)),
        ),
        (
            "small queues",
            usual(|builder| builder.workers(2).queue(2).steal_batch(1)),
        ),
        ("tracked", usual(|builder| builder.workers(2).track(true))),
        (
            "virtual time",
            usual(|builder| builder.workers(1).virtual_clock()),
        ),
        ("first come, first served", fifo(1)),
        ("first come, first served, on each core", fifo(3)),
        ("earliest deadline first", edf(1)),
        ("earliest deadline first, on each core", edf(3)),
        ("shared between cores", shared(3)),
    ];
    for (mode, runtime) in modes {
        let output = runtime.block_on(async {
            assert_eq!(program(10).await, expected, "{mode}");
            let group = TaskGroup::<_, ()>::new();
            for _ in 0..50 {
                group.spawn(async {
                    sleep(Duration::from_micros(10)).await;
                    Ok(program(10).await)
                });
            }
            let local = spawn_local(program(10)).await.unwrap();
            (local, group.join().await.unwrap())
        });
        assert_eq!(output, (expected, vec![expected; 50]), "{mode}");
        let outside = runtime.spawn(program(10));
        assert_eq!(runtime.block_on(outside).unwrap(), expected, "{mode}");
        runtime.shutdown();
    }
}
