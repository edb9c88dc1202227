//! Priorities: who is waited for is of the priority of who waits, as long as he waits.

use executor::{
    Priority, Runtime,
    runtime::Builder,
    sync::{CeilingMutex, Mutex, Notify, RwLock},
    task::{self, Task, TaskHandle, yield_now},
    thread,
    time::{Duration, timeout},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

fn run<F: Future>(main: impl FnOnce() -> F) -> F::Output {
    run_on(Runtime::builder().workers(1), main)
}

fn run_on<F: Future>(builder: Builder, main: impl FnOnce() -> F) -> F::Output {
    let runtime = builder.build().unwrap();
    let output = runtime.block_on(async { main().await });
    runtime.shutdown();
    output
}

fn spawn<T: Send + 'static>(
    priority: Priority,
    future: impl Future<Output = T> + Send + 'static,
) -> TaskHandle<T> {
    task::Builder::new().priority(priority).spawn(future)
}

/// Until something is so.
async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        yield_now().await;
    }
}

/// Turns of a task of normal priority while one of high priority waits for a lock that one of low priority has, and
/// needs fifty turns for.
fn turns_of_a_third(inheritance: bool) -> usize {
    let builder = Runtime::builder().workers(1).inheritance(inheritance);
    run_on(builder, || async {
        let mutex = Arc::new(Mutex::new(()));
        let (turns, is_over) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let has_it = Arc::new(Notify::new());
        let low = {
            let (mutex, has_it) = (mutex.clone(), has_it.clone());
            spawn(Priority::Low, async move {
                let _guard = mutex.lock().await;
                has_it.notify_one();
                for _ in 0..50 {
                    yield_now().await;
                }
            })
        };
        has_it.notified().await;
        let third = {
            let (turns, is_over) = (turns.clone(), is_over.clone());
            spawn(Priority::Normal, async move {
                while !is_over.load(SeqCst) {
                    turns.fetch_add(1, SeqCst);
                    yield_now().await;
                }
            })
        };
        yield_now().await;
        let high = {
            let (mutex, turns) = (mutex.clone(), turns.clone());
            spawn(Priority::High, async move {
                let before = turns.load(SeqCst);
                drop(mutex.lock().await);
                turns.load(SeqCst) - before
            })
        };
        // Not joined: that would lend something, too.
        let counted = Arc::new(AtomicUsize::new(usize::MAX));
        let result = counted.clone();
        spawn(Priority::High, async move {
            result.store(high.await.unwrap(), SeqCst);
        })
        .detach();
        until(|| counted.load(SeqCst) != usize::MAX).await;
        is_over.store(true, SeqCst);
        third.await.unwrap();
        low.await.unwrap();
        counted.load(SeqCst)
    })
}

#[test]
fn an_owner_of_low_priority_is_not_held_up_by_a_third() {
    let (with, without) = (turns_of_a_third(true), turns_of_a_third(false));
    println!("turns of the third: {with} with inheritance, {without} without");
    assert!(with <= 10, "{with}");
    assert!(without >= 20 * with.max(10), "{with} and {without}");
}

/// A task that has locked a mutex until it is told.
fn holder(priority: Priority, mutex: &Arc<Mutex<()>>) -> (TaskHandle<()>, Arc<Notify>) {
    let (mutex, release) = (mutex.clone(), Arc::new(Notify::new()));
    let told = release.clone();
    let holds = spawn(priority, async move {
        let _guard = mutex.lock().await;
        told.notified().await;
    });
    (holds, release)
}

#[test]
fn it_is_lent_on_and_given_back() {
    run(|| async {
        let (first, second) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let (low, release) = holder(Priority::Low, &first);
        until(|| first.try_lock().is_err()).await;
        let normal = {
            let (first, second) = (first.clone(), second.clone());
            spawn(Priority::Normal, async move {
                let _second = second.lock().await;
                drop(first.lock().await);
            })
        };
        until(|| second.try_lock().is_err()).await;
        let (low_task, normal_task) = (low.task(), normal.task());
        let is = |task: &Task, priority| task.priority() == priority;
        // It waits for the first, and lends what it has.
        until(|| is(&low_task, Priority::Normal)).await;
        let waiting = second.clone();
        let high = spawn(
            Priority::Critical,
            async move { drop(waiting.lock().await) },
        );
        until(|| is(&low_task, Priority::Critical)).await;
        assert!(is(&normal_task, Priority::Critical));
        // Given up.
        high.cancel();
        assert!(high.await.is_err());
        assert!(is(&normal_task, Priority::Normal));
        assert!(is(&low_task, Priority::Normal));
        // And by a time limit.
        let waiting = second.clone();
        let limited = spawn(Priority::High, async move {
            let short = Duration::from_millis(1);
            assert!(timeout(short, waiting.lock()).await.is_err());
        });
        until(|| is(&low_task, Priority::High)).await;
        limited.await.unwrap();
        assert!(is(&low_task, Priority::Normal));
        // Released.
        release.notify_one();
        normal.await.unwrap();
        until(|| is(&low_task, Priority::Low)).await;
        low.await.unwrap();
    });
}

#[test]
fn who_is_joined_is_of_the_priority_of_who_joins() {
    run(|| async {
        let release = Arc::new(Notify::new());
        let told = release.clone();
        let low = spawn(Priority::Low, async move { told.notified().await });
        let task = low.task();
        let high = spawn(Priority::High, low);
        until(|| task.priority() == Priority::High).await;
        high.cancel();
        assert!(high.await.is_err());
        assert_eq!(task.priority(), Priority::Low);
        release.notify_one();
        until(|| task.is_finished()).await;
    });
}

#[test]
fn a_chain_of_joins_and_locks_is_followed_to_its_end() {
    run(|| async {
        let mutex = Arc::new(Mutex::new(()));
        let (low, release) = holder(Priority::Low, &mutex);
        until(|| mutex.try_lock().is_err()).await;
        let waiting = mutex.clone();
        // Of the same level as the one it joins, when it begins to.
        let inner = spawn(Priority::Low, async move { drop(waiting.lock().await) });
        let inner_task = inner.task();
        let outer = spawn(Priority::Low, async { inner.await.unwrap() });
        for _ in 0..500 {
            yield_now().await;
        }
        let task = low.task();
        assert_eq!(task.priority(), Priority::Low);
        let high = spawn(Priority::High, async { outer.await.unwrap() });
        until(|| task.priority() == Priority::High).await;
        assert_eq!(inner_task.priority(), Priority::High);
        release.notify_one();
        high.await.unwrap();
        low.await.unwrap();
    });
}

#[test]
fn readers_and_writers_are_boosted() {
    run(|| async {
        let lock = Arc::new(RwLock::new(0));
        let release = Arc::new(Notify::new());
        let reads = |lock: &Arc<RwLock<i32>>| {
            let (lock, release) = (lock.clone(), release.clone());
            spawn(Priority::Low, async move {
                let _reads = lock.read().await;
                release.notified().await;
            })
        };
        let readers = [reads(&lock), reads(&lock)];
        until(|| lock.try_write().is_err()).await;
        for _ in 0..200 {
            yield_now().await;
        }
        let writes = lock.clone();
        let writer = spawn(Priority::High, async move { *writes.write().await += 1 });
        let tasks = readers.each_ref().map(TaskHandle::task);
        until(|| tasks.iter().all(|task| task.priority() == Priority::High)).await;
        release.notify_waiters();
        writer.await.unwrap();
        for reader in readers {
            reader.await.unwrap();
        }
        assert_eq!(*lock.read().await, 1);
    });
}

#[test]
fn who_waits_without_awaiting_lends_as_well() {
    run_on(Runtime::builder().workers(2), || async {
        let mutex = Arc::new(thread::Mutex::new(()));
        let (is_told, locked) = (Arc::new(AtomicBool::new(false)), mutex.clone());
        let told = is_told.clone();
        let low = thread::Builder::new().priority(Priority::Low);
        let low = low
            .spawn(move || {
                let _guard = locked.lock();
                while !told.load(SeqCst) {
                    thread::yield_now();
                }
                task::current().priority()
            })
            .unwrap();
        until(|| mutex.try_lock().is_err()).await;
        let waits = mutex.clone();
        let high = thread::Builder::new().priority(Priority::High);
        let high = high.spawn(move || drop(waits.lock())).unwrap();
        let is_high = || low.thread().task().priority() == Priority::High;
        until(is_high).await;
        is_told.store(true, SeqCst);
        assert_eq!(low.await.unwrap(), Priority::High);
        high.await.unwrap();
    });
}

#[test]
fn who_gets_a_lock_is_boosted_before_he_knows() {
    run(|| async {
        let mutex = Arc::new(Mutex::new(()));
        let (first, release) = holder(Priority::Normal, &mutex);
        until(|| mutex.try_lock().is_err()).await;
        // In this order: the one of low priority gets it first.
        let (second, release_second) = holder(Priority::Low, &mutex);
        for _ in 0..200 {
            yield_now().await;
        }
        let waiting = mutex.clone();
        let high = spawn(Priority::High, async move { drop(waiting.lock().await) });
        until(|| first.task().priority() == Priority::High).await;
        release.notify_one();
        first.await.unwrap();
        let second_task = second.task();
        until(|| second_task.priority() == Priority::High).await;
        release_second.notify_one();
        high.await.unwrap();
        second.await.unwrap();
    });
}

#[test]
fn a_boost_of_a_queued_task_takes_effect_at_once() {
    run(|| async {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut tasks: Vec<_> = (0..300)
            .map(|number| {
                let order = order.clone();
                spawn(
                    Priority::Low,
                    async move { order.lock().unwrap().push(number) },
                )
            })
            .collect();
        let last = tasks.swap_remove(150);
        last.task().set_priority(Priority::High);
        yield_now().await;
        assert_eq!(*order.lock().unwrap(), [150]);
        last.await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(order.lock().unwrap().len(), 300);
    });
}

#[test]
fn a_ceiling_holds_while_it_is_locked_and_no_longer() {
    run(|| async {
        let mutex = Arc::new(CeilingMutex::new(Priority::High, 0));
        let adders = (0..10).map(|_| {
            let mutex = mutex.clone();
            spawn(Priority::Low, async move {
                for _ in 0..10 {
                    let mut number = mutex.lock().await;
                    assert_eq!(task::current().priority(), Priority::High);
                    yield_now().await;
                    *number += 1;
                    drop(number);
                    assert_eq!(task::current().priority(), Priority::Low);
                }
            })
        });
        let adders: Vec<_> = adders.collect();
        // Not joined, which would lend something: looked at.
        for adder in adders {
            until(|| adder.is_finished()).await;
            adder.await.unwrap();
        }
        assert_eq!(*mutex.try_lock().unwrap(), 100);
    });
}

#[test]
fn priorities_that_come_and_go_lose_nobody() {
    for workers in [1, 2, 4] {
        run_on(Runtime::builder().workers(workers), || async {
            let mutexes: Arc<Vec<Mutex<usize>>> = Arc::new((0..4).map(Mutex::new).collect());
            let tasks: Vec<_> = (0..40usize)
                .map(|number| {
                    let mutexes = mutexes.clone();
                    spawn(Priority::ALL[number % 4], async move {
                        for round in 0..50 {
                            let first = (number + round) % 4;
                            let mut one = mutexes[first].lock().await;
                            *one += 1;
                            if round % 3 == 0 {
                                yield_now().await;
                            }
                            // In order, so that nobody waits in a circle.
                            if first < 3 {
                                *mutexes[first + 1].lock().await += 1;
                            }
                        }
                    })
                })
                .collect();
            for (number, task) in tasks.iter().enumerate() {
                task.task().set_priority(Priority::ALL[(number + 1) % 4]);
                yield_now().await;
            }
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}

#[test]
fn tasks_that_wait_for_each_other_are_named() {
    run(|| async {
        let (first, second) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let takes = |one: &Arc<Mutex<()>>, other: &Arc<Mutex<()>>, awaits: bool| {
            let (one, other) = (one.clone(), other.clone());
            task::spawn(async move {
                let _one = one.lock().await;
                yield_now().await;
                match awaits {
                    true => drop(other.lock().await),
                    false => drop(other.lock_blocking()),
                }
            })
        };
        assert_eq!(executor::stats::lock_cycle(), None);
        let tasks = [takes(&first, &second, true), takes(&second, &first, false)];
        let mut ids = tasks.each_ref().map(TaskHandle::id);
        ids.sort();
        until(|| executor::stats::lock_cycle().is_some()).await;
        assert_eq!(executor::stats::lock_cycle().as_deref(), Some(&ids[..]));
        // One of them waits in the middle of its poll.
        if cfg!(target_os = "linux") {
            assert!(tasks.iter().any(|task| !task.task().backtrace().is_empty()));
        }
        tasks[0].cancel();
        let [first, second] = tasks;
        assert!(first.await.is_err());
        second.await.unwrap();
        assert_eq!(executor::stats::lock_cycle(), None);
    });
}

#[test]
fn a_future_that_is_forgotten_leads_to_no_lock() {
    run(|| async {
        for _ in 0..10 {
            let mutex = Box::new(Mutex::new(5));
            let guard = mutex.try_lock().unwrap();
            let mut forgotten = Box::pin(mutex.lock());
            assert!(futures_poll(forgotten.as_mut()).await.is_pending());
            std::mem::forget(forgotten);
            drop(guard);
            drop(mutex);
        }
        // All who wait are looked at, several times.
        assert_eq!(executor::stats::lock_cycle(), None);
        let mutex = Arc::new(Mutex::new(()));
        let (low, release) = holder(Priority::Low, &mutex);
        until(|| mutex.try_lock().is_err()).await;
        let waiting = mutex.clone();
        let high = spawn(Priority::High, async move { drop(waiting.lock().await) });
        until(|| low.task().priority() == Priority::High).await;
        release.notify_one();
        high.await.unwrap();
        low.await.unwrap();
    });
}

/// Polls it once, with the waker of who awaits this.
async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx))).await
}

#[test]
fn a_local_poll_is_lent_what_those_have_whom_it_holds_back() {
    run_on(Runtime::builder().workers(2), || async {
        // Main is local as well: on its core nothing is held back for long.
        let release = Arc::new(Notify::new());
        let is_in = Arc::new(AtomicBool::new(false));
        let (told, in_it) = (release.clone(), is_in.clone());
        let low = task::Builder::new().priority(Priority::Low).core(1);
        let low = low.spawn_local(move || async move {
            in_it.store(true, SeqCst);
            task::wait(told.notified());
        });
        until(|| is_in.load(SeqCst)).await;
        let high = task::Builder::new().priority(Priority::High).core(1);
        let high = high.spawn_local(|| async {});
        let task = low.task();
        until(|| task.priority() == Priority::High).await;
        release.notify_one();
        // Not joined: that would lend something, too.
        until(|| high.is_finished()).await;
        low.await.unwrap();
    });
}
