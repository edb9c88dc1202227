//! Task groups: several tasks that end together.
#![cfg(not(loom))]

use executor::{
    Runtime,
    sync::Notify,
    task::{
        self, Builder, ChildError, SpawnError, TaskError, TaskGroup, spawn, task_group, yield_now,
    },
    time::{Duration, Instant, sleep, timeout},
};
use std::{
    future::{Future, pending},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::*},
    },
};

fn runtime(cores: usize) -> Runtime {
    Runtime::builder().workers(cores).build().unwrap()
}

/// One core, and time that costs none.
fn quick() -> Runtime {
    let builder = Runtime::builder().workers(1);
    builder.virtual_clock().build().unwrap()
}

/// Counts how many of it are left.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn results_come_in_the_order_of_spawning() {
    for cores in [1, 4] {
        runtime(cores).block_on(async {
            let squares = task_group(async |group| {
                for number in 0..1000_usize {
                    group.spawn(async move {
                        for _ in 0..number % 7 {
                            yield_now().await;
                        }
                        Ok::<_, ()>(number * number)
                    });
                }
            });
            let squares = squares.await.unwrap();
            assert_eq!(squares.len(), 1000);
            assert!(
                squares
                    .iter()
                    .enumerate()
                    .all(|(n, &square)| square == n * n)
            );
        });
    }
}

#[test]
fn an_empty_group_is_over_at_once() {
    quick().block_on(async {
        let nothing = task_group(async |_group: task::GroupHandle<(), ()>| {}).await;
        assert!(nothing.unwrap().is_empty());
        assert!(
            TaskGroup::<(), ()>::independent()
                .join_all()
                .await
                .is_empty()
        );
    });
}

#[test]
fn the_first_error_cancels_the_rest_and_is_what_the_group_returns() {
    quick().block_on(async {
        let left = Arc::new(AtomicUsize::new(0));
        let begin = Instant::now();
        let seen = left.clone();
        let result = task_group(async move |group| {
            for number in 1..=10 {
                let counted = Counted::new(&left);
                group.spawn(async move {
                    let _counted = counted;
                    sleep(Duration::from_secs(number)).await;
                    if number < 3 { Ok(number) } else { Err(number) }
                });
            }
            // The function is in the group, too.
            let _counted = Counted::new(&left);
            pending::<()>().await;
        })
        .await;
        assert!(matches!(result, Err(ChildError::Failed(3))), "{result:?}");
        assert_eq!(begin.elapsed(), Duration::from_secs(3));
        assert_eq!(seen.load(Relaxed), 0, "all are done before it ends");
    });
}

#[test]
fn a_panic_and_a_cancelled_child_are_errors() {
    runtime(2).block_on(async {
        for is_panic in [false, true] {
            let group = TaskGroup::<(), ()>::new();
            group.spawn(pending());
            let child = group.spawn(async move {
                if is_panic {
                    panic!("on purpose");
                }
                pending().await
            });
            if !is_panic {
                child.cancel();
            }
            match group.join().await {
                Err(ChildError::Task(TaskError::Panicked(panic))) if is_panic => {
                    assert_eq!(panic.message(), "on purpose");
                }
                Err(ChildError::Task(TaskError::Cancelled)) => assert!(!is_panic),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn a_group_waits_for_the_finalizers_of_its_children() {
    for fails in [false, true] {
        quick().block_on(async {
            let finalized = Arc::new(AtomicUsize::new(0));
            let seen = finalized.clone();
            let result = task_group(async move |group| {
                for number in 0..5 {
                    let finalized = finalized.clone();
                    group.spawn(async move {
                        task::on_exit(async move {
                            sleep(Duration::from_secs(5)).await;
                            finalized.fetch_add(1, Relaxed);
                        });
                        sleep(Duration::from_secs(number)).await;
                        if fails { Err(number) } else { Ok(()) }
                    });
                }
            })
            .await;
            assert_eq!(result.is_err(), fails);
            assert_eq!(seen.load(Relaxed), 5);
        });
    }
}

#[test]
fn children_spawn_into_their_own_group() {
    runtime(4).block_on(async {
        fn node(
            group: task::GroupHandle<u32, ()>,
            depth: u32,
        ) -> Pin<Box<dyn Future<Output = Result<u32, ()>> + Send>> {
            Box::pin(async move {
                yield_now().await;
                for _ in 0..if depth > 0 { 2 } else { 0 } {
                    group.spawn(node(group.clone(), depth - 1));
                }
                Ok(depth)
            })
        }
        let depths = task_group(async |group| {
            group.spawn(node(group.clone(), 9));
        });
        let depths = depths.await.unwrap();
        assert_eq!(depths.len(), (1 << 10) - 1);
        assert_eq!(depths[0], 9);
        assert_eq!(depths.iter().filter(|&&depth| depth == 0).count(), 1 << 9);
    });
}

#[test]
fn cancel_all_cancels_those_to_come_too() {
    quick().block_on(async {
        let group = TaskGroup::<u32, ()>::independent();
        group.spawn(async { Ok(1) });
        group.spawn(pending());
        yield_now().await;
        assert_eq!(group.live(), 1);
        group.cancel_all();
        assert!(group.is_cancelled());
        group.spawn(async { panic!("it never runs") });
        let results = group.join_all().await;
        assert!(matches!(
            results[..],
            [
                Ok(1),
                Err(ChildError::Task(TaskError::Cancelled)),
                Err(ChildError::Task(TaskError::Cancelled))
            ]
        ));
    });
}

#[test]
fn a_handle_that_outlives_its_group_spawns_nothing() {
    quick().block_on(async {
        let group = TaskGroup::<(), ()>::new();
        let handle = group.handle();
        group.join().await.unwrap();
        let child = handle.spawn(async { panic!("it never runs") });
        yield_now().await;
        assert!(child.is_finished() && child.is_cancelled());
    });
}

#[test]
fn an_error_leaves_an_independent_group_alone() {
    quick().block_on(async {
        let group = TaskGroup::independent();
        for number in 0..4 {
            group.spawn(async move {
                sleep(Duration::from_secs(10 - number)).await;
                if number % 2 == 0 {
                    Ok(number)
                } else {
                    Err(number)
                }
            });
        }
        let results = group.join_all().await;
        assert!(matches!(
            results[..],
            [
                Ok(0),
                Err(ChildError::Failed(1)),
                Ok(2),
                Err(ChildError::Failed(3))
            ]
        ));
    });
}

#[test]
fn dropping_a_group_cancels_its_children() {
    for cores in [1, 3] {
        let runtime = runtime(cores);
        let left = Arc::new(AtomicUsize::new(0));
        let finalized = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let group = TaskGroup::<(), ()>::new();
            let begun = Arc::new(AtomicUsize::new(0));
            for _ in 0..50 {
                let (counted, finalized) = (Counted::new(&left), finalized.clone());
                let begun = begun.clone();
                group.spawn(async move {
                    let _counted = counted;
                    task::on_exit(async move {
                        yield_now().await;
                        finalized.fetch_add(1, Relaxed);
                    });
                    begun.fetch_add(1, Relaxed);
                    pending().await
                });
            }
            while begun.load(Relaxed) < 50 {
                yield_now().await;
            }
            drop(group);
            while finalized.load(Relaxed) < 50 {
                yield_now().await;
            }
        });
        assert_eq!(left.load(Relaxed), 0);
    }
}

#[test]
fn cancelling_a_task_goes_down_the_tree() {
    fn tree(
        depth: u32,
        left: Arc<AtomicUsize>,
        leaves: Arc<AtomicUsize>,
    ) -> Pin<Box<dyn Future<Output = Result<(), ()>> + Send>> {
        Box::pin(async move {
            let _counted = Counted::new(&left);
            if depth == 0 {
                leaves.fetch_add(1, Relaxed);
                return pending().await;
            }
            task_group(async |group| {
                for _ in 0..3 {
                    group.spawn(tree(depth - 1, left.clone(), leaves.clone()));
                }
            })
            .await
            .map(drop)
            .map_err(drop)
        })
    }
    for cores in [1, 4] {
        let runtime = runtime(cores);
        let (left, leaves) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        runtime.block_on(async {
            let root = spawn(tree(4, left.clone(), leaves.clone()));
            while leaves.load(Relaxed) < 81 {
                yield_now().await;
            }
            assert_eq!(left.load(Relaxed), 81 + 27 + 9 + 3 + 1);
            root.cancel();
            assert!(root.await.unwrap_err().is_cancelled());
            while left.load(Relaxed) > 0 {
                yield_now().await;
            }
        });
    }
}

#[test]
fn an_error_deep_down_ends_the_whole_tree() {
    fn tree(depth: u32) -> Pin<Box<dyn Future<Output = Result<(), u32>> + Send>> {
        Box::pin(async move {
            let result = task_group(async |group| {
                for number in 0..3 {
                    if depth == 0 {
                        group.spawn(async move {
                            sleep(Duration::from_secs(100 - number)).await;
                            Err::<(), u32>(7)
                        });
                    } else {
                        group.spawn(tree(depth - 1));
                    }
                }
            });
            match result.await {
                Ok(_) => Ok(()),
                Err(ChildError::Failed(error)) => Err(error),
                Err(ChildError::Task(error)) => panic!("{error}"),
            }
        })
    }
    quick().block_on(async {
        let begin = Instant::now();
        assert_eq!(tree(3).await, Err(7));
        assert_eq!(begin.elapsed(), Duration::from_secs(98));
    });
}

#[test]
fn children_know_their_parent() {
    runtime(2).block_on(async {
        let parents = task_group(async |group| {
            let inner = group.clone();
            group.spawn(async move {
                inner.spawn(async { Ok::<_, ()>(task::parent()) });
                Ok(task::parent())
            });
        });
        let me = task::id();
        assert_eq!(parents.await.unwrap(), [Some(me), Some(me)]);
    });
}

#[test]
fn waiting_can_be_given_up_and_taken_up_again() {
    quick().block_on(async {
        let mut group = TaskGroup::<_, ()>::new();
        for number in 0..5 {
            group.spawn(async move {
                sleep(Duration::from_secs(number)).await;
                Ok(number)
            });
        }
        for _ in 0..3 {
            assert!(timeout(Duration::from_secs(1), group.wait()).await.is_err());
        }
        group.wait().await;
        group.spawn(async { Ok(5) });
        assert_eq!(group.join().await.unwrap(), [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn the_owner_is_woken_for_the_last_end_only() {
    let runtime = quick();
    runtime.block_on(async {
        let group = TaskGroup::<_, ()>::new();
        for number in 0..1000 {
            group.spawn(async move {
                sleep(Duration::from_secs(number)).await;
                Ok(())
            });
        }
        let polls = Arc::new(AtomicUsize::new(0));
        let mut join = Box::pin(group.join());
        let counted = std::future::poll_fn(|context| {
            polls.fetch_add(1, Relaxed);
            join.as_mut().poll(context)
        });
        assert_eq!(counted.await.unwrap().len(), 1000);
        assert_eq!(polls.load(Relaxed), 2);
    });
}

#[test]
fn nothing_is_kept_of_background_tasks() {
    runtime(2).block_on(async {
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = order.clone();
        let results = task_group(async move |group| {
            group.spawn(async { Ok(1) });
            for _ in 0..100 {
                let order = order.clone();
                group.spawn_background(Builder::new().name("quiet"), async move {
                    order.lock().unwrap().push(());
                    Ok::<_, ()>(())
                });
                yield_now().await;
            }
            group.spawn(async { Ok(2) });
        });
        assert_eq!(results.await.unwrap(), [1, 2]);
        assert_eq!(seen.lock().unwrap().len(), 100);
        let failed = task_group(async |group| {
            group.spawn(pending::<Result<(), _>>());
            group.spawn_background(Builder::new(), async { Err("no") });
        });
        assert!(matches!(failed.await, Err(ChildError::Failed("no"))));
    });
}

/// A child that takes more than a thousand bytes, until it may end.
async fn large(gate: Arc<Notify>) -> Result<u8, ()> {
    let room = [1; 1000];
    gate.notified().await;
    Ok(room[999])
}

#[test]
fn a_group_takes_no_more_memory_than_its_quota() {
    runtime(2).block_on(async {
        let gate = Arc::new(Notify::new());
        let group = TaskGroup::new().quota(10_000);
        let mut count = 0;
        while group.try_spawn(large(gate.clone())).is_ok() {
            count += 1;
        }
        assert!((4..10).contains(&count));
        assert!((count * 1000..=10_000).contains(&group.used()));
        let refused = group.try_spawn_background(Builder::new(), async {
            let room = [1u8; 5000];
            yield_now().await;
            drop(Vec::from(room));
            Ok(())
        });
        assert_eq!(refused.unwrap_err(), SpawnError::Quota);
        // When one has ended there is room for another.
        while group.live() == count {
            gate.notify_one();
            yield_now().await;
        }
        while group.live() < count {
            group.try_spawn(large(gate.clone())).unwrap();
        }
        while group.live() > 0 {
            gate.notify_one();
            yield_now().await;
        }
        assert_eq!(group.used(), 0);
        assert!(group.join().await.unwrap().len() > count);
    });
}

#[test]
fn a_child_that_is_refused_does_not_count() {
    runtime(1).block_on(async {
        let group = TaskGroup::<(), ()>::new().quota(0);
        for _ in 0..3 {
            assert_eq!(
                group.try_spawn(async { Ok(()) }).unwrap_err(),
                SpawnError::Quota
            );
        }
        assert_eq!((group.live(), group.used()), (0, 0));
        // Nor does one that comes too late: it is cancelled before it begins.
        let handle = group.handle();
        assert_eq!(group.join().await.unwrap(), []);
        assert_eq!(
            handle.try_spawn(async { Ok(()) }).unwrap_err(),
            SpawnError::Quota
        );
    });
    runtime(1).block_on(async {
        let group = TaskGroup::<(), ()>::new().quota(10_000);
        let handle = group.handle();
        assert_eq!(group.join().await.unwrap(), []);
        assert!(handle.try_spawn(async { Ok(()) }).unwrap().is_cancelled());
        assert_eq!((handle.live(), handle.used()), (0, 0));
    });
}
