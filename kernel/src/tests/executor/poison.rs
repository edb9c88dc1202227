//! What a lost task had locked, or waited for, or was just handed.

use super::{
    failures::{fail, kinds, panic_of, with_failures},
    scaled, spawn,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
};
use executor::{
    TaskHandle,
    sync::{Mutex, Notify, OwnedMutexGuard, RwLock, Semaphore, oneshot},
    task::{self, yield_now},
    thread,
};
use hal::preempt;
use testing::kernel_test;

#[kernel_test(limit = 120)]
fn a_mutex_of_who_fails_is_poisoned_for_who_waits_and_who_comes() {
    with_failures(async {
        for kind in kinds() {
            let mutex = Arc::new(Mutex::new(5));
            let fails = Arc::new(Notify::new());
            let (locked, now) = (mutex.clone(), fails.clone());
            let failing = spawn(async move {
                let mut number = locked.lock().await;
                *number += 1;
                now.notified().await;
                fail(kind);
            });
            while mutex.try_lock().is_ok() {
                yield_now().await;
            }
            assert!(!mutex.is_poisoned());
            // In turn: some that panic, some that ask, some that do not await.
            let waiting: Vec<_> = (0..24)
                .map(|number| {
                    let mutex = mutex.clone();
                    match number % 3 {
                        0 => spawn(async move { drop(mutex.lock().await) }),
                        1 => spawn(async move {
                            let poisoned = mutex.lock().unless_poisoned().await;
                            assert!(poisoned.is_err());
                        }),
                        _ => spawn(async move { drop(mutex.lock_blocking()) }),
                    }
                })
                .collect();
            yield_now().await;
            fails.notify_one();
            panic_of(failing.await);
            for (number, waiting) in waiting.into_iter().enumerate() {
                let outcome = waiting.await;
                match number % 3 {
                    1 => outcome.expect("it has asked"),
                    _ => {
                        let panic = panic_of(outcome);
                        let told = panic.message();
                        assert!(told.contains("mutex is poisoned"), "{told}");
                    }
                }
            }
            // Who comes now.
            assert!(mutex.is_poisoned());
            assert!(mutex.try_lock().unwrap_err().is_poisoned());
            assert!(mutex.lock().unless_poisoned().await.is_err());
            let late = mutex.clone();
            panic_of(spawn(async move { drop(late.lock().await) }).await);
            // SAFETY: the guard was a local variable of the lost task.
            unsafe { mutex.clear_poison() };
            assert!(!mutex.is_poisoned());
            assert_eq!(*mutex.lock().await, 6);
        }
    });
}

#[kernel_test(limit = 120)]
fn a_lock_that_is_first_wanted_after_its_owner_was_lost_is_poisoned_too() {
    with_failures(async {
        for kind in kinds() {
            let lock = Arc::new(RwLock::new(5));
            let written = lock.clone();
            let failing = spawn(async move {
                *written.write().await += 1;
                let _writes = written.write().await;
                fail(kind);
            });
            panic_of(failing.await);
            assert!(lock.read().unless_poisoned().await.is_err());
            assert!(lock.is_poisoned());
            // SAFETY: the guard was a local variable of the lost task.
            unsafe { lock.clear_poison() };
            assert_eq!(*lock.read().await, 6);
            // A reader that is lost does not let anybody write.
            let read = lock.clone();
            let failing = spawn(async move {
                let _reads = read.read().await;
                fail(kind);
            });
            panic_of(failing.await);
            assert!(lock.write().unless_poisoned().await.is_err());
            // SAFETY: as above, and nobody else reads.
            unsafe { lock.clear_poison() };
            *lock.write().await += 1;
        }
    });
}

#[kernel_test(limit = 120)]
fn a_thread_lock_of_who_fails_is_poisoned() {
    with_failures(async {
        for kind in kinds() {
            let mutex = Arc::new(thread::Mutex::new(5));
            let locked = mutex.clone();
            let failing = thread::spawn(move || {
                let _number = locked.lock();
                fail(kind);
            });
            panic_of(failing.await);
            let late = mutex.clone();
            let late = thread::spawn(move || late.lock_unless_poisoned().is_err());
            assert!(late.await.expect("it has asked"));
            assert!(mutex.is_poisoned());
        }
    });
}

#[kernel_test(limit = 120)]
fn a_lock_that_was_given_back_is_not_poisoned() {
    with_failures(async {
        let mutex = Arc::new(Mutex::new(0));
        for round in 0..scaled(100) {
            let locked = mutex.clone();
            let failing = spawn(async move {
                *locked.lock().await += 1;
                fail(None);
            });
            panic_of(failing.await);
            assert_eq!(*mutex.lock().await, round + 1);
        }
        assert!(!mutex.is_poisoned());
    });
}

/// A task that waits for something, and is lost when it is told, before it looks whether it got it. It has begun to wait when this returns.
async fn waits_and_fails<F>(
    wait: impl FnOnce() -> F + Send + 'static,
) -> (TaskHandle<()>, Arc<Notify>)
where
    F: Future + Send,
{
    let fails = Arc::new(Notify::new());
    let told = fails.clone();
    let (waits, begun) = oneshot::channel();
    let mut waits = Some(waits);
    let task = spawn(async move {
        let (mut told, mut wait) = (pin!(told.notified()), pin!(wait()));
        poll_fn(|cx| {
            // None of the two is pending only to give way: then it would not wait yet, or not know that it was told.
            let _hold = preempt::hold_soft(true);
            if told.as_mut().poll(cx).is_ready() {
                fail(None);
            }
            let polled = wait.as_mut().poll(cx);
            if let Some(waits) = waits.take() {
                assert!(polled.is_pending());
                _ = waits.send(());
            }
            polled.map(drop)
        })
        .await;
    });
    begun.await.expect("it waits");
    (task, fails)
}

/// Until all tasks have done what they can.
async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

#[kernel_test(limit = 120)]
fn what_a_lost_task_waited_for_goes_to_the_next() {
    losing_who_waits(scaled(20));
}

#[kernel_test(cores = 4, limit = 7200, long = true)]
fn what_a_lost_task_waited_for_goes_to_the_next_a_thousand_times() {
    losing_who_waits(1000);
}

fn losing_who_waits(count: usize) {
    with_failures(async move {
        for _ in 0..count {
            // One permit; several, of which it has got some; a notification.
            let semaphore = Arc::new(Semaphore::new(2));
            let (first, second) = (semaphore.clone(), semaphore.clone());
            let (lost, fails) =
                waits_and_fails(|| async move { first.acquire_many(3).await.is_ok() }).await;
            assert_eq!(semaphore.available_permits(), 0);
            let next = spawn(async move { drop(second.acquire_many(3).await) });
            settle().await;
            fails.notify_one();
            panic_of(lost.await);
            semaphore.add_permits(1);
            next.await.expect("it goes on");
            assert_eq!(semaphore.available_permits(), 3);

            let notify = Arc::new(Notify::new());
            let (first, second) = (notify.clone(), notify.clone());
            let (lost, fails) = waits_and_fails(|| async move { first.notified().await }).await;
            fails.notify_one();
            panic_of(lost.await);
            // Nobody is left: so it is kept for who comes.
            notify.notify_one();
            spawn(async move { second.notified().await })
                .await
                .expect("it goes on");

            let lock = Arc::new(RwLock::new(5));
            let (first, second) = (lock.clone(), lock.clone());
            let reads = lock.read().await;
            let (lost, fails) = waits_and_fails(|| async move { *first.write().await += 1 }).await;
            let next = spawn(async move { *second.write().await += 1 });
            settle().await;
            fails.notify_one();
            panic_of(lost.await);
            drop(reads);
            next.await.expect("it goes on");
            assert_eq!(*lock.read().await, 6);

            let mutex = Arc::new(Mutex::new(5));
            let (first, second) = (mutex.clone(), mutex.clone());
            let locked = mutex.lock().await;
            let (lost, fails) = waits_and_fails(|| async move { *first.lock().await += 1 }).await;
            let next = spawn(async move { *second.lock().await += 1 });
            settle().await;
            fails.notify_one();
            panic_of(lost.await);
            drop(locked);
            next.await.expect("it goes on");
            assert_eq!(*mutex.lock().await, 6);
        }
    });
}

#[kernel_test(limit = 120)]
fn a_lock_that_was_handed_to_a_task_before_it_was_lost_is_poisoned() {
    with_failures(async {
        for _ in 0..scaled(20) {
            let mutex = Arc::new(Mutex::new(5));
            let (first, second) = (mutex.clone(), mutex.clone());
            let locked = mutex.lock().await;
            let (lost, fails) = waits_and_fails(|| async move { *first.lock().await += 1 }).await;
            let next = spawn(async move { second.lock().unless_poisoned().await.is_err() });
            settle().await;
            // Told first: whenever it is polled after that it does not look at the lock.
            fails.notify_one();
            drop(locked);
            panic_of(lost.await);
            // Handed on before it was lost, or after that.
            if next.await.expect("it goes on") {
                assert!(mutex.is_poisoned());
                // SAFETY: nobody has a guard: it never looked.
                unsafe { mutex.clear_poison() };
            }
            assert!(!mutex.is_poisoned());
            assert_eq!(*mutex.lock().await, 5);
        }
    });
}

#[kernel_test(limit = 120)]
fn a_future_that_a_lost_task_has_sent_goes_on_elsewhere() {
    type Sent = Pin<Box<dyn Future<Output = OwnedMutexGuard<i32>> + Send>>;
    with_failures(async {
        for round in 0..scaled(20) {
            let mutex = Arc::new(Mutex::new(5));
            let locked = mutex.lock().await;
            let (sender, receiver) = oneshot::channel::<Sent>();
            let owned = mutex.clone();
            let lost = spawn(async move {
                let mut lock: Sent = Box::pin(owned.lock_owned());
                poll_fn(|cx| {
                    assert!(lock.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                _ = sender.send(lock);
                fail(None);
            });
            let sent = receiver.await.expect("it was sent");
            // Handed over before it is lost, perhaps, or after that; polled before that, or after it.
            match round % 2 {
                0 => {
                    drop(locked);
                    panic_of(lost.await);
                }
                _ => {
                    panic_of(lost.await);
                    drop(locked);
                }
            }
            let next = spawn(async move {
                let mut number = sent.await;
                *number += 1;
            });
            next.await.expect("it goes on");
            if mutex.is_poisoned() {
                // SAFETY: the only guard is gone.
                unsafe { mutex.clear_poison() };
            }
            assert_eq!(*mutex.lock().await, 6);
        }
    });
}

#[kernel_test(limit = 120)]
fn a_finalizer_of_a_lost_task_may_lock_and_wait() {
    with_failures(async {
        for kind in kinds() {
            let (mutex, semaphore) = (Arc::new(Mutex::new(5)), Arc::new(Semaphore::new(0)));
            let (has_it, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let told = (
                mutex.clone(),
                semaphore.clone(),
                has_it.clone(),
                release.clone(),
            );
            let lost = spawn(async move {
                let (mutex, semaphore, has_it, release) = told;
                task::on_exit(async move {
                    let mut number = mutex.lock().await;
                    has_it.notify_one();
                    release.notified().await;
                    *number += 1;
                    // It waits as a lost task, and is not passed over.
                    drop(semaphore.acquire().await);
                });
                fail(kind);
            });
            has_it.notified().await;
            let late = mutex.clone();
            let next = spawn(async move { *late.lock().await });
            settle().await;
            assert!(!mutex.is_poisoned());
            release.notify_one();
            settle().await;
            semaphore.add_permits(1);
            assert_eq!(next.await.expect("it is not poisoned"), 6);
            panic_of(lost.await);
        }
    });
}
