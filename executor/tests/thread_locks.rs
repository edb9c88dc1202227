//! Locks of threads, and what happens to who keeps one across an await.

mod common;

use common::{keep_log, logged, runtime};
use executor::{
    Runtime, TaskError, block_on_simple, spawn,
    task::{self, Builder, spawn_local, spawn_with, wait, yield_now},
    thread::{self, Condvar, Mutex, RwLock},
    time::{Duration, Instant, sleep},
};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
};

#[test]
fn what_may_be_sent_and_shared() {
    fn is_send_sync<T: Send + Sync>(_: &T) {}
    fn is_sync<T: Sync>(_: &T) {}
    let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
    is_send_sync(&mutex);
    is_send_sync(&lock);
    is_send_sync(&Condvar::new());
    is_sync(&mutex.lock());
    is_sync(&lock.read());
}

#[test]
fn one_has_it_at_a_time_in_a_static_too() {
    static VALUE: Mutex<[u8; 2]> = Mutex::new([1, 2]);
    let unsized_one: &Mutex<[u8]> = &VALUE;
    let mut guard = unsized_one.lock();
    guard[0] = 7;
    assert!(VALUE.try_lock().is_err());
    assert_eq!(
        format!("{VALUE:?} {guard:?}"),
        "Mutex { data: <locked> } [7, 2]"
    );
    drop(guard);
    let mut mutex = Mutex::from(5);
    *mutex.get_mut() += 1;
    assert_eq!(
        (*VALUE.lock(), format!("{}", mutex.lock())),
        ([7, 2], "6".into())
    );
    assert_eq!(mutex.into_inner() + Mutex::<u8>::default().into_inner(), 6);
}

#[test]
fn many_read_or_one_writes() {
    static LOCK: RwLock<u32> = RwLock::new(1);
    let (one, other) = (LOCK.read(), LOCK.try_read().unwrap());
    assert_eq!(*one + *other, 2);
    assert!(LOCK.try_write().is_err());
    drop((one, other));
    let mut guard = LOCK.write();
    *guard += 1;
    assert!(LOCK.try_read().is_err());
    let guard = guard.downgrade();
    assert_eq!((*guard, *LOCK.read()), (2, 2));
    drop(guard);
    assert_eq!(format!("{LOCK:?}"), "RwLock { data: 2 }");
    let mut lock = RwLock::from(3);
    *lock.get_mut() += 1;
    assert_eq!(lock.into_inner(), 4);
}

#[test]
fn time_limits_end_the_wait() {
    runtime(1).block_on(async {
        let limit = Duration::from_millis(1);
        let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
        let guards = (mutex.lock(), lock.read());
        assert!(mutex.lock_timeout(limit).is_err());
        assert!(lock.write_timeout(limit).is_err() && lock.read_timeout(limit).is_ok());
        drop(guards);
        assert!(mutex.lock_timeout(limit).is_ok() && lock.write_timeout(limit).is_ok());
    });
}

#[test]
fn threads_and_tasks_on_all_cores_count_right() {
    const ROUNDS: usize = 300;
    const OTHERS: usize = 7;
    let counts = Arc::new((Mutex::new(0), RwLock::new(0)));
    let add = |counts: &(Mutex<usize>, RwLock<usize>)| {
        let mut guard = counts.0.lock();
        let before = *guard;
        if before.is_multiple_of(7) {
            thread::yield_now();
        }
        *guard = before + 1;
        drop(guard);
        *counts.1.write() += 1;
        // Each of the others may have counted in the first and not yet in
        // the second.
        assert!(*counts.1.read() + OTHERS > before);
    };
    runtime(4).block_on(async {
        let threads = [(); 4].map(|()| {
            let counts = counts.clone();
            thread::spawn(move || (0..ROUNDS).for_each(|_| add(&counts)))
        });
        let tasks = [(); 4].map(|()| {
            let counts = counts.clone();
            spawn(async move {
                for _ in 0..ROUNDS {
                    add(&counts);
                    yield_now().await;
                }
            })
        });
        for thread in threads {
            thread.await.unwrap();
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(
        (*counts.0.lock(), *counts.1.read()),
        (8 * ROUNDS, 8 * ROUNDS)
    );
}

/// A queue as one would make it of a mutex and two conditions.
struct Bounded {
    items: Mutex<VecDeque<usize>>,
    filled: Condvar,
    emptied: Condvar,
}

#[test]
fn a_bounded_queue_of_conditions_loses_nothing() {
    const ITEMS: usize = 300;
    let queue = Arc::new(Bounded {
        items: Mutex::new(VecDeque::new()),
        filled: Condvar::new(),
        emptied: Condvar::new(),
    });
    runtime(3).block_on(async {
        let givers = [0, 1, 2].map(|giver| {
            let queue = queue.clone();
            thread::spawn(move || {
                for item in 0..ITEMS {
                    let items = queue.items.lock();
                    let mut items = queue.emptied.wait_while(items, |items| items.len() == 2);
                    items.push_back(giver * ITEMS + item);
                    drop(items);
                    queue.filled.notify_one();
                }
            })
        });
        let takers = [(); 2].map(|()| {
            let queue = queue.clone();
            thread::spawn(move || {
                let mut sum = 0;
                // Half of all: each giver's are an even number.
                for _ in 0..3 * ITEMS / 2 {
                    let items = queue.items.lock();
                    let mut items = queue.filled.wait_while(items, |items| items.is_empty());
                    sum += items.pop_front().unwrap();
                    drop(items);
                    queue.emptied.notify_one();
                }
                sum
            })
        });
        for giver in givers {
            giver.await.unwrap();
        }
        let mut sum = 0;
        for taker in takers {
            sum += taker.await.unwrap();
        }
        assert_eq!(sum, (0..3 * ITEMS).sum());
    });
}

/// Lets all threads of a runtime of one core run until they wait.
async fn until_all_wait() {
    for _ in 0..10 {
        yield_now().await;
    }
}

#[test]
fn who_waits_longest_is_notified_first_and_nothing_is_stored() {
    let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    runtime(1).block_on(async {
        let (order, changed) = &*shared;
        // Nobody waits.
        changed.notify_one();
        changed.notify_all();
        let mut threads = Vec::new();
        for number in 0..4 {
            let shared = shared.clone();
            threads.push(thread::spawn(move || {
                let guard = shared.0.lock();
                shared.1.wait(guard).push(number);
            }));
            until_all_wait().await;
        }
        assert!(order.lock().is_empty(), "nothing was stored");
        for number in 0..2 {
            changed.notify_one();
            until_all_wait().await;
            assert_eq!(*order.lock(), (0..=number).collect::<Vec<_>>());
        }
        changed.notify_all();
        for thread in threads {
            thread.await.unwrap();
        }
    });
    // The last two were notified together.
    shared.0.lock()[2..].sort_unstable();
    assert_eq!(*shared.0.lock(), [0, 1, 2, 3]);
}

#[test]
fn a_wait_with_a_limit_says_whether_it_was_notified() {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let (long, short) = (Duration::from_secs(1000), Duration::from_millis(1));
    runtime(1).block_on(async {
        let (value, changed) = &*shared;
        let (guard, result) = changed.wait_timeout(value.lock(), short);
        assert!(result.timed_out());
        let (guard, result) = changed.wait_timeout_while(guard, short, |value| *value == 0);
        assert!(result.timed_out());
        let (guard, result) = changed.wait_timeout_while(guard, Duration::ZERO, |_| false);
        assert!(!result.timed_out());
        drop(guard);
        let waiting = shared.clone();
        let thread = thread::spawn(move || {
            let (value, changed) = &*waiting;
            let (guard, result) =
                changed.wait_timeout_while(value.lock(), long, |value| *value < 2);
            (*guard, result.timed_out())
        });
        for _ in 0..2 {
            until_all_wait().await;
            *value.lock() += 1;
            changed.notify_one();
        }
        assert_eq!(thread.await.unwrap(), (2, false));
    });
}

#[test]
fn one_that_is_notified_when_its_time_is_over_takes_it_from_nobody() {
    // Each notification is for one, who counts it or leaves it to another.
    let shared = Arc::new((Mutex::new((0, 0)), Condvar::new()));
    let threads = 4;
    runtime(2).block_on(async {
        let waiting = [(); 4].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut guard = shared.0.lock();
                while guard.0 < 200 {
                    let limit = Duration::from_micros(50);
                    (guard, _) = shared.1.wait_timeout(guard, limit);
                }
                guard.1 += 1;
            })
        });
        let (value, changed) = &*shared;
        while value.lock().0 < 200 {
            value.lock().0 += 1;
            changed.notify_one();
            sleep(Duration::from_micros(20)).await;
        }
        for thread in waiting {
            thread.await.unwrap();
        }
    });
    assert_eq!(shared.0.lock().1, threads);
}

#[test]
fn one_whose_time_is_over_is_not_notified_while_it_waits_for_the_lock() {
    static OWN: Mutex<()> = Mutex::new(());
    static OTHER: Mutex<bool> = Mutex::new(false);
    static CHANGED: Condvar = Condvar::new();
    let runtime = Runtime::builder().workers(1).virtual_clock().build();
    runtime.unwrap().block_on(async {
        let millis = Duration::from_millis;
        let timed_out = thread::spawn(move || CHANGED.wait_timeout(OWN.lock(), millis(1)).1);
        yield_now().await;
        // It waits now, so the lock is free; and when its time is over it cannot go on.
        let holder = thread::spawn(move || {
            let _own = OWN.lock();
            thread::sleep(millis(5));
            *OTHER.lock() = true;
            CHANGED.notify_one();
            // Only who waits for this can go on.
            let end = Instant::now() + millis(10);
            while *OTHER.lock() {
                assert!(Instant::now() < end, "the notification went to nobody");
                thread::sleep(millis(1));
            }
        });
        let meant = thread::spawn(|| {
            let mut changed = CHANGED.wait_while(OTHER.lock(), |changed| !*changed);
            *changed = false;
        });
        holder.await.unwrap();
        meant.await.unwrap();
        assert!(timed_out.await.unwrap().timed_out());
    });
}

#[test]
fn a_lock_may_be_kept_while_code_waits_that_is_not_async() {
    static VALUE: Mutex<u32> = Mutex::new(0);
    /// The poll waits, and keeps its stack.
    fn keep() {
        let mut guard = VALUE.lock();
        wait(async {
            sleep(Duration::from_millis(1)).await;
            yield_now().await;
        });
        *guard += 1;
        // One that the future itself drops in the middle.
        wait(async move {
            drop(guard);
            yield_now().await;
        });
    }
    runtime(2).block_on(async {
        let task = spawn(async {
            keep();
            yield_now().await;
            keep();
        });
        task.await.unwrap();
    });
    keep_outside();
    fn keep_outside() {
        let guard = VALUE.lock();
        block_on_simple(async { yield_now().await });
        assert_eq!(*guard, 2);
    }
}

/// Where `keeps_across` locks.
const LOCKS_AT: u32 = line!() + 3;

async fn keeps_across(mutex: &Mutex<u32>) {
    let guard = mutex.lock();
    yield_now().await;
    drop(guard);
}

/// What a panic says about who keeps a lock across an await.
fn assert_found(message: &str, who: &str) {
    assert!(message.starts_with(who), "{message}");
    let place = format!("took at {}:{LOCKS_AT}:", file!());
    assert!(message.contains(&place), "{message} has not {place}");
}

/// The message of its panic.
fn message_of<R>(call: impl FnOnce() -> R) -> String {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(_) => panic!("it was to panic"),
        Err(panic) => panic.downcast_ref::<String>().expect("a text").clone(),
    }
}

#[test]
#[cfg(debug_assertions)]
fn a_local_task_that_keeps_one_across_an_await_ends_and_is_named() {
    runtime(2).block_on(async {
        let mutex = Rc::new(Mutex::new(0));
        let kept = mutex.clone();
        let task = spawn_local(async move { keeps_across(&kept).await });
        let id = task.id();
        match task.await {
            Err(TaskError::Panicked(panic)) => {
                assert_found(panic.message(), &format!("task {id} \"\" awaits"));
            }
            other => panic!("{other:?}"),
        }
        // It was dropped with the task, and nothing is left behind.
        assert!(mutex.try_lock().is_ok());
        spawn_local(async { yield_now().await }).await.unwrap();
        yield_now().await;
    });
}

#[test]
#[cfg(debug_assertions)]
fn so_is_whatever_else_polls_a_future() {
    let mutex = Mutex::new(0);
    let message = message_of(|| runtime(1).block_on(keeps_across(&mutex)));
    assert_found(&message, "task ");
    let message = message_of(|| block_on_simple(keeps_across(&mutex)));
    assert_found(&message, "a future awaits");
    runtime(1).block_on(async {
        let message = message_of(|| wait(keeps_across(&mutex)));
        assert_found(&message, "task ");
        yield_now().await;
    });
    assert!(mutex.try_lock().is_ok());
}

#[test]
#[cfg(debug_assertions)]
fn readers_and_who_was_notified_are_found_too() {
    let lock = RwLock::new(0);
    let reads = async {
        let guard = lock.read();
        yield_now().await;
        drop(guard);
    };
    assert!(message_of(|| block_on_simple(reads)).contains("thread lock"));
    runtime(1).block_on(async {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        let notified = async {
            let (guard, _) = condvar.wait_timeout(mutex.lock(), Duration::ZERO);
            yield_now().await;
            drop(guard);
        };
        assert!(message_of(|| wait(notified)).contains("thread lock"));
    });
}

#[test]
fn a_task_that_waits_for_itself_is_named() {
    keep_log();
    static VALUE: Mutex<u32> = Mutex::new(0);
    let builder = Builder::new().name("locks twice");
    let task = async {
        let guard = VALUE.lock();
        assert!(VALUE.lock_timeout(Duration::ZERO).is_err());
        drop(guard);
        task::id()
    };
    let id = runtime(1).block_on(async { spawn_with(builder, task).await.unwrap() });
    if cfg!(debug_assertions) {
        let log = logged("\"locks twice\"");
        assert_eq!(log.len(), 1, "{log:?}");
        assert!(log[0].contains(&format!("task {id} ")), "{log:?}");
    }
}

#[test]
fn a_panic_unlocks_them() {
    let shared = Arc::new((Mutex::new(1), AtomicUsize::new(0)));
    runtime(1).block_on(async {
        let panicking = shared.clone();
        let thread = thread::spawn(move || {
            let _guard = panicking.0.lock();
            panicking.1.fetch_add(1, Relaxed);
            panic!("on purpose");
        });
        assert!(thread.await.is_err());
        assert_eq!((*shared.0.lock(), shared.1.load(Relaxed)), (1, 1));
    });
}
