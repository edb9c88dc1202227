//! Reader-writer locks.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    block_on_simple, spawn,
    sync::RwLock,
    task::yield_now,
    thread,
    time::{Duration, sleep},
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
    assert_eq!(format!("{lock:?}"), "RwLock { value: <locked> }");
    drop(guard);
    assert_eq!(format!("{lock:?}"), "RwLock { value: 2 }");
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
