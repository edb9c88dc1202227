//! Mutexes, as tasks and threads use them, and as futures that are polled by hand.

mod common;

use common::{Flag, keep_log, logged, poll, runtime};
use executor::{
    block_on_simple, spawn,
    sync::{MappedGuard, Mutex, MutexGuard, OwnedMutexGuard},
    task::{self, Builder, spawn_with, yield_now},
    thread,
    time::{Duration, sleep, timeout},
};
use std::{cell::Cell, future::poll_fn, pin::pin, sync::Arc, task::Poll};

#[test]
fn what_may_be_sent_and_shared() {
    fn is_send_sync<T: Send + Sync>(_: &T) {}
    fn is_send<T: Send>(_: &T) {}
    // A cell may be sent, but not shared: that is what the mutex is for.
    let mutex = Arc::new(Mutex::new(Cell::new(1)));
    is_send_sync(&mutex);
    is_send(&mutex.lock());
    is_send(&mutex.clone().lock_owned());
    is_send(&mutex.try_lock().unwrap());
    let mutex = Arc::new(Mutex::new(1));
    is_send_sync(&mutex.try_lock().unwrap());
    is_send_sync(&mutex.clone().try_lock_owned().unwrap());
    let part = OwnedMutexGuard::map(mutex.clone().try_lock_owned().unwrap(), |value| value);
    is_send_sync(&part);
    drop(part);
    is_send_sync(&MutexGuard::map(mutex.try_lock().unwrap(), |value| value));
}

#[test]
fn one_has_it_at_a_time() {
    let mutex = Mutex::new(1);
    let mut guard = mutex.try_lock().unwrap();
    *guard += 1;
    assert!(mutex.try_lock().is_err());
    assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked> }");
    assert!(std::ptr::eq(MutexGuard::mutex(&guard), &mutex));
    drop(guard);
    assert_eq!(format!("{mutex:?}"), "Mutex { data: 2 }");
    assert_eq!(*block_on_simple(mutex.lock()), 2);
    let mut mutex = mutex;
    *mutex.get_mut() += 1;
    assert_eq!(mutex.into_inner(), 3);
}

#[test]
fn it_can_be_a_static_and_hold_what_has_no_size() {
    static VALUE: Mutex<[u8; 3]> = Mutex::new([1, 2, 3]);
    let unsized_one: &Mutex<[u8]> = &VALUE;
    unsized_one.try_lock().unwrap()[0] = 7;
    assert_eq!(*VALUE.try_lock().unwrap(), [7, 2, 3]);
    let owned: Arc<Mutex<dyn Fn() -> u32 + Send>> = Arc::new(Mutex::new(|| 5));
    let guard = owned.try_lock_owned().unwrap();
    assert_eq!(guard(), 5);
}

#[test]
fn an_owned_guard_keeps_the_mutex() {
    let mutex = Arc::new(Mutex::new(5));
    let guard = block_on_simple(mutex.clone().lock_owned());
    assert!(mutex.clone().try_lock_owned().is_err());
    assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &mutex));
    drop(mutex);
    assert_eq!(*guard, 5);
}

#[test]
fn a_guard_of_a_part_keeps_the_whole_locked() {
    let mutex = Arc::new(Mutex::new((1, Some("two"))));
    let part = MutexGuard::map(mutex.try_lock().unwrap(), |pair| &mut pair.1);
    assert_eq!(format!("{part:?}"), "Some(\"two\")");
    let Ok(mut text) = MappedGuard::try_map(part, Option::as_mut) else {
        panic!("there is one");
    };
    assert_eq!(format!("{text} {}", text.len()), "two 3");
    *text = "zwei";
    assert!(mutex.try_lock().is_err());
    drop(text);
    let guard = mutex.clone().try_lock_owned().unwrap();
    let Err(guard) = OwnedMutexGuard::try_map(guard, |_| None::<&mut u8>) else {
        panic!("there is none");
    };
    let first = OwnedMutexGuard::map(guard, |pair| pair.1.as_mut().unwrap());
    let mutex = {
        let weak = Arc::downgrade(&mutex);
        drop(mutex);
        assert_eq!(*first, "zwei");
        let mutex = weak.upgrade().expect("the guard keeps it");
        assert!(mutex.try_lock().is_err());
        drop(MappedGuard::map(first, |text| text));
        mutex
    };
    assert_eq!(*mutex.try_lock().unwrap(), (1, Some("zwei")));
    let Err(guard) = MutexGuard::try_map(mutex.try_lock().unwrap(), |_| None::<&mut u8>) else {
        panic!("there is none");
    };
    assert_eq!(guard.0, 1);
}

#[test]
fn a_part_that_cannot_be_had_for_a_panic_leaves_it_unlocked() {
    let mutex = Mutex::new(1);
    let guard = mutex.try_lock().unwrap();
    let map = || MutexGuard::map(guard, |_| -> &mut u8 { panic!("on purpose") });
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(map())));
    assert!(panicked.is_err() && mutex.try_lock().is_ok());
}

#[test]
fn it_is_handed_on_in_turn_and_nobody_overtakes() {
    let mutex = Mutex::new(());
    let guard = mutex.try_lock().unwrap();
    let flags = [(); 3].map(|()| Flag::new());
    let mut waiting = [(); 3].map(|()| Box::pin(mutex.lock()));
    for (lock, flag) in waiting.iter_mut().zip(&flags) {
        assert!(poll(lock.as_mut(), flag).is_pending());
    }
    drop(guard);
    for next in 0..3 {
        assert!(mutex.try_lock().is_err(), "it has been given to somebody");
        let woken = flags.iter().map(|flag| flag.count()).collect::<Vec<_>>();
        assert_eq!(woken.iter().sum::<usize>(), next + 1, "one at a time");
        match poll(waiting[next].as_mut(), &flags[next]) {
            Poll::Ready(guard) => drop(guard),
            Poll::Pending => panic!("it was its turn"),
        }
    }
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_future_that_is_dropped_in_the_middle_of_its_wait_passes_it_on() {
    let mutex = Mutex::new(());
    let flags = [(); 3].map(|()| Flag::new());
    let guard = mutex.try_lock().unwrap();
    let mut waiting = flags
        .each_ref()
        .map(|flag| (Some(Box::pin(mutex.lock())), flag));
    for (lock, flag) in &mut waiting {
        assert!(poll(lock.as_mut().unwrap().as_mut(), flag).is_pending());
    }
    // The second gives up before it is its turn, the first when it has it.
    waiting[1].0 = None;
    drop(guard);
    assert!(flags[0].is_set());
    waiting[0].0 = None;
    assert!(flags[2].is_set() && !flags[1].is_set());
    assert!(poll(waiting[2].0.as_mut().unwrap().as_mut(), &flags[2]).is_ready());
    drop(waiting);
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_panic_unlocks_it() {
    let runtime = runtime(1);
    let mutex = Arc::new(Mutex::new(1));
    runtime.block_on(async {
        let owner = mutex.clone();
        let error = spawn(async move {
            let mut guard = owner.lock().await;
            *guard = 2;
            panic!("on purpose");
        })
        .await;
        assert!(error.is_err());
        assert_eq!(*mutex.lock().await, 2);
    });
}

#[test]
fn a_cancelled_task_leaves_it_to_others() {
    let runtime = runtime(2);
    let mutex = Arc::new(Mutex::new(()));
    runtime.block_on(async {
        let guard = mutex.lock().await;
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let mutex = mutex.clone();
                spawn(async move { drop(mutex.lock().await) })
            })
            .collect();
        sleep(Duration::from_millis(2)).await;
        waiting[0].cancel();
        waiting[2].cancel();
        drop(guard);
        for (number, task) in waiting.into_iter().enumerate() {
            assert_eq!(task.await.is_ok(), number % 2 == 1);
        }
    });
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn a_time_limit_ends_the_wait() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let mutex = Mutex::new(());
        let guard = mutex.lock().await;
        assert!(mutex.lock_timeout(Duration::from_millis(2)).await.is_err());
        drop(guard);
        assert!(mutex.lock_timeout(Duration::ZERO).await.is_ok());
        assert!(mutex.try_lock().is_ok());
    });
}

#[test]
fn tasks_and_threads_on_all_cores_count_right() {
    const ROUNDS: usize = 500;
    let runtime = runtime(4);
    let mutex = Arc::new(Mutex::new(0));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let mutex = mutex.clone();
                spawn(async move {
                    for round in 0..ROUNDS {
                        let mut guard = mutex.lock().await;
                        let before = *guard;
                        if (number + round) % 7 == 0 {
                            yield_now().await;
                        }
                        *guard = before + 1;
                    }
                })
            })
            .collect();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let mutex = mutex.clone();
                thread::spawn(move || (0..ROUNDS).for_each(|_| *mutex.lock_blocking() += 1))
            })
            .collect();
        // A third of the waits is given up.
        let fickle = {
            let mutex = mutex.clone();
            spawn(async move {
                let mut had = 0;
                for _ in 0..ROUNDS {
                    let mut lock = Box::pin(mutex.lock());
                    let mut looks = 0;
                    let guard = poll_fn(|cx| {
                        looks += 1;
                        match lock.as_mut().poll(cx) {
                            Poll::Ready(guard) => Poll::Ready(Some(guard)),
                            Poll::Pending if looks == 2 => Poll::Ready(None),
                            Poll::Pending => {
                                cx.waker().wake_by_ref();
                                Poll::Pending
                            }
                        }
                    })
                    .await;
                    if let Some(mut guard) = guard {
                        *guard += 1;
                        had += 1;
                    }
                }
                had
            })
        };
        for task in tasks {
            task.await.unwrap();
        }
        for thread in threads {
            thread.await.unwrap();
        }
        let had = fickle.await.unwrap();
        assert_eq!(*mutex.lock().await, 10 * ROUNDS + had);
    });
}

#[test]
fn equal_tasks_have_it_equally_often() {
    // One core: the host may leave a thread anywhere, and then its task does not ask.
    let runtime = runtime(1);
    let turns = Arc::new(Mutex::new([0usize; 8]));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let turns = turns.clone();
                spawn(async move {
                    loop {
                        let mut guard = turns.lock().await;
                        if guard.iter().sum::<usize>() >= 8_000 {
                            return;
                        }
                        guard[number] += 1;
                        // All others come and wait meanwhile.
                        yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let turns = *turns.try_lock().unwrap();
    let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
    assert!(most - least <= 1, "{turns:?}");
}

#[test]
fn a_task_that_waits_for_itself_is_named_with_both_places() {
    keep_log();
    let runtime = runtime(1);
    runtime.block_on(async {
        let builder = Builder {
            name: Some("selfish".into()),
            ..Builder::default()
        };
        spawn_with(builder, async {
            let mutex = Mutex::new(());
            let (first, guard) = (line!(), mutex.lock().await);
            // Two parts of one task: the one unlocks while the other waits.
            let (second, mut waiting) = (line!(), pin!(mutex.lock()));
            assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
            drop(guard);
            drop(waiting.await);
            if cfg!(debug_assertions) {
                let log = logged("\"selfish\"");
                let line = &log[0];
                for number in [first, second] {
                    assert!(line.contains(&format!("sync_mutex.rs:{number}:")), "{line}");
                }
                assert!(line.contains(&task::id().to_string()));
            }
        })
        .await
        .unwrap();
    });
}
