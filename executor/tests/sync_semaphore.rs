//! Semaphores, as tasks and as futures that are polled by hand.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    block_on_simple, spawn,
    sync::{AcquireTimeoutError, Permit, Semaphore, TryAcquireError},
    task::yield_now,
    time::{Duration, Instant},
};
use proptest::prelude::*;
use std::{
    collections::VecDeque,
    future::Future,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::Poll,
};

/// Compiles where it may be sent and shared.
fn assert_send_sync<T: Send + Sync>(_: &T) {}

#[test]
fn permits_and_futures_may_be_sent() {
    let semaphore = Arc::new(Semaphore::new(3));
    assert_send_sync(&semaphore);
    assert_send_sync(&semaphore.acquire());
    assert_send_sync(&semaphore.clone().acquire_owned());
    assert_send_sync(&semaphore.try_acquire().unwrap());
}

#[test]
fn permits_are_taken_and_given_back() {
    let semaphore = Semaphore::new(2);
    let first = semaphore.try_acquire().unwrap();
    let second = block_on_simple(semaphore.acquire()).unwrap();
    assert_eq!(semaphore.available_permits(), 0);
    assert_eq!(
        semaphore.try_acquire().unwrap_err(),
        TryAcquireError::NoPermits
    );
    drop(first);
    assert_eq!(semaphore.available_permits(), 1);
    second.forget();
    assert_eq!(semaphore.available_permits(), 1);
    semaphore.add_permits(3);
    assert_eq!(semaphore.forget_permits(3), 3);
    assert_eq!(semaphore.forget_permits(3), 1);
    assert_eq!(semaphore.available_permits(), 0);
}

#[test]
fn those_who_wait_are_served_in_the_order_they_came() {
    let semaphore = Semaphore::new(0);
    let flags = [(); 3].map(|()| Flag::new());
    let mut waiting = [(); 3].map(|()| Box::pin(semaphore.acquire()));
    for (acquire, flag) in waiting.iter_mut().zip(&flags) {
        assert!(poll(acquire.as_mut(), flag).is_pending());
    }
    for next in 0..3 {
        semaphore.add_permits(1);
        for (number, flag) in flags.iter().enumerate() {
            assert_eq!(flag.is_set(), number <= next);
        }
        match poll(waiting[next].as_mut(), &flags[next]) {
            Poll::Ready(permit) => permit.unwrap().forget(),
            Poll::Pending => panic!("it was woken for nothing"),
        }
    }
}

#[test]
fn nobody_overtakes_one_who_waits_for_many() {
    let semaphore = Semaphore::new(3);
    let permit = semaphore.try_acquire().unwrap();
    let flag = Flag::new();
    let mut many = pin!(semaphore.acquire_many(3));
    assert!(poll(many.as_mut(), &flag).is_pending());
    assert_eq!(semaphore.available_permits(), 0, "what there was, it has");
    assert_eq!(
        semaphore.try_acquire().unwrap_err(),
        TryAcquireError::NoPermits
    );
    let mut late = pin!(semaphore.acquire());
    assert!(poll(late.as_mut(), &flag).is_pending());
    drop(permit);
    let Poll::Ready(Ok(many)) = poll(many.as_mut(), &flag) else {
        panic!("it has all");
    };
    assert_eq!(many.num_permits(), 3);
    assert!(poll(late.as_mut(), &flag).is_pending());
    drop(many);
    assert!(poll(late.as_mut(), &flag).is_ready());
}

#[test]
fn what_was_granted_to_a_dropped_future_goes_to_the_next() {
    let semaphore = Semaphore::new(0);
    let [first_flag, second_flag] = [(); 2].map(|()| Flag::new());
    let mut first = Box::pin(semaphore.acquire());
    let mut second = Box::pin(semaphore.acquire());
    assert!(poll(first.as_mut(), &first_flag).is_pending());
    assert!(poll(second.as_mut(), &second_flag).is_pending());
    semaphore.add_permits(1);
    assert!(first_flag.is_set() && !second_flag.is_set());
    drop(first);
    assert!(second_flag.is_set());
    assert!(poll(second.as_mut(), &second_flag).is_ready());
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn who_gives_up_with_a_part_of_his_permits_gives_them_back() {
    let semaphore = Semaphore::new(2);
    let flag = Flag::new();
    let mut many = Box::pin(semaphore.acquire_many(5));
    assert!(poll(many.as_mut(), &flag).is_pending());
    let mut few = pin!(semaphore.acquire_many(2));
    assert!(poll(few.as_mut(), &flag).is_pending());
    drop(many);
    assert!(poll(few.as_mut(), &flag).is_ready());
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn none_at_all_are_had_at_once_unless_it_is_closed() {
    let semaphore = Semaphore::new(0);
    let flag = Flag::new();
    let mut waiting = pin!(semaphore.acquire());
    assert!(poll(waiting.as_mut(), &flag).is_pending());
    assert_eq!(semaphore.try_acquire_many(0).unwrap().num_permits(), 0);
    assert!(poll(pin!(semaphore.acquire_many(0)), &flag).is_ready());
    semaphore.close();
    assert_eq!(
        semaphore.try_acquire_many(0).unwrap_err(),
        TryAcquireError::Closed
    );
}

#[test]
fn closing_tells_those_who_wait_and_those_who_come() {
    let semaphore = Semaphore::new(1);
    let permit = semaphore.try_acquire().unwrap();
    // More than are woken at once.
    let flags: Vec<_> = (0..40).map(|_| Flag::new()).collect();
    let mut waiting: Vec<_> = (0..40).map(|_| Box::pin(semaphore.acquire())).collect();
    for (acquire, flag) in waiting.iter_mut().zip(&flags) {
        assert!(poll(acquire.as_mut(), flag).is_pending());
    }
    semaphore.close();
    assert!(semaphore.is_closed());
    for (acquire, flag) in waiting.iter_mut().zip(&flags) {
        assert!(flag.is_set());
        assert!(matches!(poll(acquire.as_mut(), flag), Poll::Ready(Err(_))));
    }
    drop(permit);
    assert_eq!(semaphore.available_permits(), 1);
    assert_eq!(
        semaphore.try_acquire().unwrap_err(),
        TryAcquireError::Closed
    );
    assert!(block_on_simple(semaphore.acquire()).is_err());
    semaphore.add_permits(1);
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn code_that_is_not_async_waits_also_in_a_task_and_hears_of_the_end() {
    let runtime = runtime(1);
    let semaphore = Arc::new(Semaphore::new(0));
    runtime.block_on(async {
        let waiting = semaphore.clone();
        let task = spawn(async move {
            let one = waiting.acquire_blocking().map(|permit| permit.forget());
            let two = waiting.acquire_many_blocking(2).map(Permit::forget);
            (one.is_ok(), two.is_err())
        });
        yield_now().await;
        semaphore.add_permits(1);
        yield_now().await;
        semaphore.close();
        assert_eq!(task.await.unwrap(), (true, true));
    });
}

#[test]
fn permits_are_merged_and_split() {
    fn check<S: Deref<Target = Semaphore> + Clone>(mut permit: Permit<S>, other: Permit<S>) {
        permit.merge(other);
        assert_eq!(permit.num_permits(), 3);
        let split = permit.split(1).unwrap();
        assert_eq!((permit.num_permits(), split.num_permits()), (2, 1));
        assert!(permit.split(3).is_none());
        assert_eq!(permit.semaphore().available_permits(), 2);
    }
    let semaphore = Arc::new(Semaphore::new(5));
    let take = |count| semaphore.try_acquire_many(count).unwrap();
    check(take(1), take(2));
    let take = |count| semaphore.clone().try_acquire_many_owned(count).unwrap();
    check(take(1), take(2));
    assert_eq!(semaphore.available_permits(), 5);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

#[test]
#[should_panic(expected = "permits of two semaphores")]
fn permits_of_two_semaphores_are_not_merged() {
    let [one, other] = [1, 1].map(Semaphore::new);
    let (mut one, other) = (one.try_acquire().unwrap(), other.try_acquire().unwrap());
    one.merge(other);
}

#[test]
fn no_permit_is_lost_when_there_are_too_many_for_one() {
    let semaphore = Semaphore::new(2 * u32::MAX as usize);
    let [mut one, other] = [(); 2].map(|()| semaphore.try_acquire_many(u32::MAX).unwrap());
    let merged = catch_unwind(AssertUnwindSafe(|| one.merge(other)));
    assert!(merged.is_err());
    assert_eq!(one.num_permits(), u32::MAX as usize);
    drop(one);
    assert_eq!(semaphore.available_permits(), 2 * u32::MAX as usize);
}

#[test]
#[should_panic(expected = "so many permits")]
fn there_is_a_limit_to_permits() {
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    semaphore.add_permits(1);
}

#[test]
fn a_time_limit_ends_the_wait_and_leaves_nothing_behind() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let semaphore = Semaphore::new(1);
        let limit = Duration::from_millis(2);
        let permit = semaphore.acquire_timeout(limit).await.unwrap();
        let began = Instant::now();
        assert_eq!(
            semaphore.acquire_timeout(limit).await.unwrap_err(),
            AcquireTimeoutError::Elapsed
        );
        assert!(began.elapsed() >= limit);
        drop(permit);
        assert!(semaphore.acquire_timeout(Duration::ZERO).await.is_ok());
        assert_eq!(semaphore.available_permits(), 1);
        semaphore.close();
        assert_eq!(
            semaphore.acquire_timeout(limit).await.unwrap_err(),
            AcquireTimeoutError::Closed
        );
    });
}

#[test]
fn a_future_is_polled_by_another_task_and_wakes_that() {
    let semaphore = Semaphore::new(0);
    let [before, after] = [(); 2].map(|()| Flag::new());
    let mut acquire = pin!(semaphore.acquire());
    assert!(poll(acquire.as_mut(), &before).is_pending());
    assert!(poll(acquire.as_mut(), &after).is_pending());
    semaphore.add_permits(1);
    assert!(!before.is_set() && after.is_set());
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn a_future_that_was_ready_is_not_polled_again() {
    let semaphore = Semaphore::new(2);
    let flag = Flag::new();
    let mut acquire = pin!(semaphore.acquire());
    assert!(poll(acquire.as_mut(), &flag).is_ready());
    let _ = poll(acquire.as_mut(), &flag);
}

#[test]
fn no_more_than_the_permits_are_inside_and_a_third_gives_up() {
    const PERMITS: usize = 3;
    let runtime = runtime(4);
    let semaphore = Arc::new(Semaphore::new(PERMITS));
    let inside = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..24)
            .map(|number| {
                let (semaphore, inside) = (semaphore.clone(), inside.clone());
                spawn(async move {
                    for round in 0..200 {
                        let count = 1 + (number + round) as u32 % 3;
                        let permit = if (number + round) % 3 == 0 {
                            // Gives up if it is not its turn at the second look.
                            let mut acquire = Box::pin(semaphore.acquire_many(count));
                            let mut looks = 0;
                            std::future::poll_fn(|cx| {
                                looks += 1;
                                match acquire.as_mut().poll(cx) {
                                    Poll::Ready(permit) => Poll::Ready(permit.ok()),
                                    Poll::Pending if looks == 2 => Poll::Ready(None),
                                    Poll::Pending => {
                                        cx.waker().wake_by_ref();
                                        Poll::Pending
                                    }
                                }
                            })
                            .await
                        } else {
                            Some(semaphore.acquire_many(count).await.unwrap())
                        };
                        let Some(permit) = permit else { continue };
                        let before = inside.fetch_add(count as usize, Relaxed);
                        assert!(before + count as usize <= PERMITS);
                        if round % 5 == 0 {
                            yield_now().await;
                        }
                        inside.fetch_sub(count as usize, Relaxed);
                        drop(permit);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(semaphore.available_permits(), PERMITS);
}

/// What may be done to a semaphore.
#[derive(Clone, Debug)]
enum Step {
    Acquire(u32),
    TryAcquire(u32),
    /// Drops one of the futures, whatever it waits for.
    GiveUp(usize),
    /// Drops one of the permits.
    Release(usize),
    Add(usize),
    Forget(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..5u32).prop_map(Step::Acquire),
        1 => (0..5u32).prop_map(Step::TryAcquire),
        2 => (0..8usize).prop_map(Step::GiveUp),
        4 => (0..8usize).prop_map(Step::Release),
        1 => (0..3usize).prop_map(Step::Add),
        1 => (0..3usize).prop_map(Step::Forget),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// Against a model that says of each step who has what: a queue and a number.
    #[test]
    fn it_does_what_a_queue_and_a_number_do(permits in 0..6usize, steps in steps()) {
        type Waiting<'a> = Pin<Box<executor::sync::Acquire<&'a Semaphore>>>;
        let semaphore = Semaphore::new(permits);
        let flag = Flag::new();
        let mut free = permits;
        // Futures with what each asks for and has been given; those that have all wait for their poll.
        let mut queue: VecDeque<(Waiting<'_>, usize)> = VecDeque::new();
        let mut held: Vec<Permit<&Semaphore>> = Vec::new();
        for step in steps {
            match step {
                Step::Acquire(count) => {
                    let mut acquire = Box::pin(semaphore.acquire_many(count));
                    match poll(acquire.as_mut(), &flag) {
                        Poll::Ready(permit) => {
                            prop_assert!(count == 0 || queue.is_empty());
                            free -= count as usize;
                            held.push(permit.unwrap());
                        }
                        Poll::Pending => queue.push_back((acquire, count as usize)),
                    }
                }
                Step::TryAcquire(count) => {
                    let expected = count == 0 || queue.is_empty() && free >= count as usize;
                    let permit = semaphore.try_acquire_many(count);
                    prop_assert_eq!(permit.is_ok(), expected);
                    if let Ok(permit) = permit {
                        free -= count as usize;
                        held.push(permit);
                    }
                }
                Step::GiveUp(which) if which < queue.len() => drop(queue.remove(which)),
                Step::Release(which) if which < held.len() => {
                    free += held[which].num_permits();
                    drop(held.swap_remove(which));
                }
                Step::Add(count) => {
                    free += count;
                    semaphore.add_permits(count);
                }
                Step::Forget(count) => {
                    let expected = if queue.is_empty() { free.min(count) } else { 0 };
                    prop_assert_eq!(semaphore.forget_permits(count), expected);
                    free -= expected;
                }
                _ => {}
            }
            // Whoever is first and can have all has it, and nobody else.
            while let Some((acquire, count)) = queue.front_mut() {
                let expected = free >= *count;
                match poll(acquire.as_mut(), &flag) {
                    Poll::Ready(permit) => {
                        prop_assert!(expected);
                        free -= *count;
                        held.push(permit.unwrap());
                        queue.pop_front();
                    }
                    Poll::Pending => {
                        prop_assert!(!expected);
                        break;
                    }
                }
            }
            for (acquire, _) in queue.iter_mut().skip(1) {
                prop_assert!(poll(acquire.as_mut(), &flag).is_pending());
            }
            let shown = if queue.is_empty() { free } else { 0 };
            prop_assert_eq!(semaphore.available_permits(), shown);
        }
    }
}
