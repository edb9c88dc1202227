//! Reader-writer locks.

mod common;

use common::{Flag, keep_log, logged, poll, runtime};
use executor::{
    block_on_simple, spawn,
    sync::{
        MappedGuard, OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard,
        RwLock, RwLockReadGuard, RwLockWriteGuard,
    },
    task::{Builder, spawn_with, yield_now},
    thread,
    time::{Duration, sleep, timeout},
};
use std::{
    cell::Cell,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::Poll,
};

#[test]
fn what_may_be_sent_and_shared() {
    fn is_send<T: Send>(_: &T) {}
    fn is_sync<T: Sync>(_: &T) {}
    is_send(&RwLock::new(Cell::new(1)));
    let lock = Arc::new(RwLock::new(1));
    is_sync(&lock);
    is_send(&lock.read());
    is_send(&lock.clone().write_owned());
    is_send(&lock.try_read().unwrap());
    is_sync(&lock.try_write().unwrap());
}

#[test]
fn many_read_or_one_writes() {
    let lock = RwLock::new(1);
    let (one, other) = (lock.try_read().unwrap(), block_on_simple(lock.read()));
    assert_eq!(*one + *other, 2);
    assert!(lock.try_write().is_err());
    drop((one, other));
    let mut guard = lock.try_write().unwrap();
    *guard += 1;
    assert!(lock.try_read().is_err() && lock.try_write().is_err());
    assert_eq!(format!("{lock:?}"), "RwLock { data: <locked> }");
    drop(guard);
    assert_eq!(format!("{lock:?}"), "RwLock { data: 2 }");
    assert_eq!(lock.into_inner(), 2);
}

#[test]
fn who_reads_waits_behind_one_who_waits_to_write() {
    let lock = RwLock::new(());
    let [writer, reader] = [(); 2].map(|()| Flag::new());
    let first = lock.try_read().unwrap();
    let mut write = Box::pin(lock.write());
    assert!(poll(write.as_mut(), &writer).is_pending());
    let mut read = Box::pin(lock.read());
    assert!(poll(read.as_mut(), &reader).is_pending());
    assert!(lock.try_read().is_err(), "nobody overtakes");
    drop(first);
    assert!(writer.is_set() && !reader.is_set());
    let Poll::Ready(guard) = poll(write.as_mut(), &writer) else {
        panic!("it was its turn");
    };
    assert!(!reader.is_set());
    drop(guard);
    assert!(poll(read.as_mut(), &reader).is_ready());
}

#[test]
fn a_writer_that_gives_up_lets_readers_in() {
    let lock = RwLock::new(());
    let flag = Flag::new();
    let first = lock.try_read().unwrap();
    let mut write = Box::pin(lock.write());
    assert!(poll(write.as_mut(), &flag).is_pending());
    let mut read = pin!(lock.read());
    assert!(poll(read.as_mut(), &flag).is_pending());
    drop(write);
    assert!(poll(read.as_mut(), &flag).is_ready());
    drop(first);
    assert!(lock.try_write().is_ok());
}

#[test]
fn a_writer_goes_on_reading_and_lets_other_readers_in() {
    let lock = Arc::new(RwLock::new(1));
    let flag = Flag::new();
    let mut guard = lock.try_write().unwrap();
    *guard = 2;
    let mut read = Box::pin(lock.read());
    let mut write = Box::pin(lock.write());
    assert!(poll(read.as_mut(), &flag).is_pending());
    assert!(poll(write.as_mut(), &flag).is_pending());
    let guard = guard.downgrade();
    let Poll::Ready(other) = poll(read.as_mut(), &flag) else {
        panic!("readers go together");
    };
    assert_eq!((*guard, *other), (2, 2));
    assert!(poll(write.as_mut(), &flag).is_pending());
    drop((guard, other));
    assert!(poll(write.as_mut(), &flag).is_ready());
    let owned = lock.clone().try_write_owned().unwrap().downgrade();
    assert_eq!(*owned, *lock.clone().try_read_owned().unwrap());
    drop(owned);
    assert_eq!(Arc::strong_count(&lock), 1);
}

#[test]
fn no_more_read_at_once_than_may() {
    static LOCK: RwLock<u32> = RwLock::with_max_readers(1, 2);
    let flag = Flag::new();
    let (first, second) = (LOCK.try_read().unwrap(), LOCK.try_read().unwrap());
    assert!(LOCK.try_read().is_err());
    let mut third = Box::pin(LOCK.read());
    assert!(poll(third.as_mut(), &flag).is_pending());
    drop(first);
    assert!(poll(third.as_mut(), &flag).is_ready());
    drop(second);
    *LOCK.try_write().unwrap() = 2;
}

#[test]
fn a_lock_that_nobody_could_read_is_refused() {
    for readers in [0, u32::MAX] {
        let new = || RwLock::with_max_readers((), readers);
        assert!(std::panic::catch_unwind(new).is_err());
    }
}

#[test]
fn guards_of_a_part_keep_the_whole_locked() {
    let lock = Arc::new(RwLock::new((1, Some(2))));
    let part = RwLockWriteGuard::map(lock.try_write().unwrap(), |pair| &mut pair.1);
    let Ok(mut number) = MappedGuard::try_map(part, Option::as_mut) else {
        panic!("there is one");
    };
    *number += 1;
    assert!(lock.try_read().is_err());
    drop(number);
    let reads = RwLockReadGuard::map(lock.try_read().unwrap(), |pair| &pair.0);
    let Err(reads) = RwLockReadGuard::try_map(reads, |_| None::<&str>) else {
        panic!("there is none");
    };
    assert_eq!(format!("{reads} {reads:?}"), "1 1");
    assert!(lock.try_write().is_err() && lock.try_read().is_ok());
    drop(reads);
    let whole = lock.clone().try_write_owned().unwrap();
    assert!(Arc::ptr_eq(OwnedRwLockWriteGuard::rwlock(&whole), &lock));
    let Err(whole) = OwnedRwLockWriteGuard::try_map(whole, |_| None::<&mut u8>) else {
        panic!("there is none");
    };
    let part = OwnedRwLockWriteGuard::map(whole, |pair| &mut pair.1);
    assert!(Arc::ptr_eq(
        OwnedRwLockMappedWriteGuard::rwlock(&part),
        &lock
    ));
    assert_eq!(*part, Some(3));
    drop(part);
    let read = lock.clone().try_read_owned().unwrap();
    let read = OwnedRwLockReadGuard::map(read, |pair| &pair.0);
    assert!(Arc::ptr_eq(OwnedRwLockReadGuard::rwlock(&read), &lock));
    drop(read);
    assert!(lock.try_write().is_ok());
    assert_eq!(Arc::strong_count(&lock), 1);
}

#[test]
fn nobody_reads_before_a_writer_has_chosen_the_part_it_goes_on_reading() {
    let lock = RwLock::new((1, 2));
    let flag = Flag::new();
    let guard = lock.try_write().unwrap();
    let mut read = Box::pin(lock.read());
    assert!(poll(read.as_mut(), &flag).is_pending());
    let Err(guard) = RwLockWriteGuard::try_downgrade_map(guard, |_| None::<&u8>) else {
        panic!("there is none");
    };
    assert!(poll(read.as_mut(), &flag).is_pending());
    let part = RwLockWriteGuard::downgrade_map(guard, |pair| {
        assert!(poll(read.as_mut(), &flag).is_pending());
        &pair.1
    });
    assert!(flag.is_set());
    assert!(poll(read.as_mut(), &flag).is_ready());
    assert_eq!(*part, 2);
    assert!(lock.try_write().is_err());
    drop(part);
    assert!(lock.try_write().is_ok());
}

/// A task with this name runs `body`: what was logged of it.
fn log_of(name: &'static str, body: impl Future<Output = ()> + Send + 'static) -> Vec<String> {
    keep_log();
    let builder = Builder::new().name(name);
    let task = async { spawn_with(builder, body).await };
    runtime(1).block_on(task).unwrap();
    logged(&format!("{name:?}"))
}

#[test]
fn a_task_that_waits_to_write_what_it_reads_is_named_with_both_places() {
    let (at, log) = (
        line!() + 5,
        log_of("reads itself", async {
            let lock = RwLock::new(());
            let other = lock.read().await;
            // Only this one is still there.
            let guard = lock.read().await;
            drop(other);
            assert!(lock.write_timeout(Duration::ZERO).await.is_err());
            drop(guard);
            assert!(lock.write_timeout(Duration::ZERO).await.is_ok());
        }),
    );
    if cfg!(debug_assertions) {
        assert_eq!(log.len(), 1, "{log:?}");
        for line in [at, at + 2] {
            let place = format!("sync_rwlock.rs:{line}:");
            assert!(log[0].contains(&place), "{place} {log:?}");
        }
    }
}

#[test]
fn a_task_that_waits_for_what_it_writes_is_named_once_for_each_wait() {
    let log = log_of("writes itself", async {
        let lock = RwLock::new(());
        let guard = lock.write().await;
        assert!(lock.read_timeout(Duration::ZERO).await.is_err());
        // It reads, and a writer waits: it would wait behind that one.
        let guard = guard.downgrade();
        let mut write = Box::pin(lock.write());
        assert!(timeout(Duration::ZERO, write.as_mut()).await.is_err());
        assert!(lock.read_timeout(Duration::ZERO).await.is_err());
        drop(write);
        drop(guard);
        // Another task's does not count.
        let lock = Arc::new(lock);
        let kept = lock.clone();
        let guard = spawn(async move { kept.read_owned().await }).await.unwrap();
        assert!(lock.write_timeout(Duration::ZERO).await.is_err());
        drop(guard);
    });
    if cfg!(debug_assertions) {
        assert_eq!(log.len(), 3, "{log:?}");
    }
}

#[test]
fn time_limits_end_the_wait() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let lock = RwLock::new(());
        let limit = Duration::from_millis(1);
        let guard = lock.read().await;
        assert!(lock.write_timeout(limit).await.is_err());
        assert!(lock.read_timeout(limit).await.is_ok());
        drop(guard);
        let guard = lock.write_timeout(limit).await.unwrap();
        assert!(lock.read_timeout(limit).await.is_err());
        drop(guard);
    });
}

#[test]
fn nobody_reads_what_is_half_written_on_many_cores() {
    let runtime = runtime(4);
    let lock = Arc::new(RwLock::new((0, 0)));
    let readers = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let mut tasks: Vec<_> = (0..8)
            .map(|number| {
                let (lock, readers) = (lock.clone(), readers.clone());
                spawn(async move {
                    for round in 0..300 {
                        if (number + round) % 4 == 0 {
                            let mut guard = lock.write().await;
                            assert_eq!(readers.load(Relaxed), 0);
                            guard.0 += 1;
                            yield_now().await;
                            guard.1 += 1;
                        } else if (number + round) % 4 == 1 {
                            let _ = lock.write_timeout(Duration::ZERO).await;
                        } else {
                            let guard = lock.read().await;
                            readers.fetch_add(1, Relaxed);
                            assert_eq!(guard.0, guard.1);
                            yield_now().await;
                            readers.fetch_sub(1, Relaxed);
                        }
                    }
                })
            })
            .collect();
        let blocking = lock.clone();
        tasks.push(spawn(async move {
            thread::spawn(move || {
                for _ in 0..100 {
                    let mut guard = blocking.write_blocking();
                    guard.0 += 1;
                    guard.1 += 1;
                    drop(guard);
                    let guard = blocking.read_blocking();
                    assert_eq!(guard.0, guard.1);
                }
            })
            .await
            .unwrap();
        }));
        for task in tasks {
            task.await.unwrap();
        }
        sleep(Duration::ZERO).await;
    });
    assert_eq!(lock.try_read().unwrap().0, 8 * 75 + 100);
}
