//! Values that are watched, by tasks and polled by hand.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    block_on_simple, spawn,
    sync::watch::{self, Receiver, Sender, error::ChangedTimeoutError},
    task::yield_now,
    time::Duration,
};
use std::{
    future::{Future, poll_fn},
    panic::{self, AssertUnwindSafe},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
        mpsc,
    },
    task::Poll,
    thread,
};

fn assert_send_sync<T: Send + Sync>(_: &T) {}
fn assert_sync<T: Sync>(_: &T) {}

#[test]
fn ends_and_futures_may_be_sent_and_shared_and_a_look_may_be_shared() {
    let (sender, mut receiver) = watch::channel(1);
    assert_send_sync(&sender);
    assert_send_sync(&receiver);
    assert_send_sync(&sender.closed());
    assert_send_sync(&receiver.changed());
    assert_send_sync(&receiver.wait_for(|_| true));
    assert_sync(&receiver.borrow());
}

#[test]
fn the_first_value_is_seen_and_the_next_is_a_change() {
    let (sender, mut receiver) = watch::channel("one");
    let flag = Flag::new();
    assert_eq!(*receiver.borrow(), "one");
    assert_eq!(receiver.has_changed(), Ok(false));
    {
        let mut changed = pin!(receiver.changed());
        assert!(poll(changed.as_mut(), &flag).is_pending());
        sender.send("two").unwrap();
        assert_eq!(flag.count(), 1);
        assert_eq!(poll(changed.as_mut(), &flag), Poll::Ready(Ok(())));
    }
    assert_eq!(receiver.has_changed(), Ok(false));
    assert!(poll(pin!(receiver.changed()), &flag).is_pending());
    assert_eq!(*receiver.borrow(), "two");
}

#[test]
fn a_look_does_not_count_as_seen_unless_it_is_to() {
    let (sender, mut receiver) = watch::channel(1);
    let other = receiver.clone();
    sender.send(2).unwrap();
    assert!(receiver.borrow().has_changed());
    assert_eq!(receiver.has_changed(), Ok(true));
    assert!(receiver.borrow_and_update().has_changed());
    assert!(!receiver.borrow_and_update().has_changed());
    assert!(!sender.borrow().has_changed());
    assert_eq!(receiver.has_changed(), Ok(false));
    assert_eq!(
        other.has_changed(),
        Ok(true),
        "each has seen what it has seen"
    );
    assert_eq!(other.clone().has_changed(), Ok(true));
    assert_eq!(sender.subscribe().has_changed(), Ok(false));
}

#[test]
fn it_may_be_marked_as_seen_or_not() {
    let (sender, mut receiver) = watch::channel(1);
    receiver.mark_changed();
    receiver.mark_changed();
    assert_eq!(receiver.has_changed(), Ok(true));
    assert!(block_on_simple(receiver.changed()).is_ok());
    assert_eq!(receiver.has_changed(), Ok(false));
    sender.send(2).unwrap();
    receiver.mark_unchanged();
    assert_eq!(receiver.has_changed(), Ok(false));
    // What was marked is not undone by as many changes.
    receiver.mark_changed();
    sender.send(3).unwrap();
    assert_eq!(receiver.has_changed(), Ok(true));
}

#[test]
fn the_last_value_is_seen_before_the_end() {
    let (sender, mut receiver) = watch::channel(1);
    let other = sender.clone();
    assert_eq!(sender.sender_count(), 2);
    sender.send(2).unwrap();
    drop(sender);
    assert_eq!(receiver.has_changed(), Ok(true));
    drop(other);
    assert!(receiver.has_changed().is_err());
    assert!(block_on_simple(receiver.changed()).is_ok());
    assert!(block_on_simple(receiver.changed()).is_err());
    assert_eq!(*receiver.borrow(), 2);
    assert_eq!(
        *block_on_simple(receiver.wait_for(|value| *value == 2)).unwrap(),
        2
    );
    assert!(block_on_simple(receiver.wait_for(|value| *value == 3)).is_err());
}

#[test]
fn who_waits_is_woken_by_the_last_sender() {
    let (sender, mut receiver) = watch::channel(1);
    let (other, flag) = (sender.clone(), Flag::new());
    let mut changed = pin!(receiver.changed());
    assert!(poll(changed.as_mut(), &flag).is_pending());
    drop(sender);
    assert!(!flag.is_set());
    drop(other);
    assert!(flag.is_set());
    assert!(matches!(poll(changed.as_mut(), &flag), Poll::Ready(Err(_))));
}

#[test]
fn nobody_to_see_it_is_an_error_of_send_alone() {
    let (sender, receiver) = watch::channel(1);
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!(sender.send(2).unwrap_err().0, 2);
    assert_eq!(*sender.borrow(), 1);
    assert_eq!(sender.send_replace(3), 1);
    sender.send_modify(|value| *value += 1);
    assert!(!sender.send_if_modified(|value| {
        *value += 1;
        false
    }));
    let receiver = sender.subscribe();
    assert_eq!((*receiver.borrow(), sender.receiver_count()), (5, 1));
    assert!(!sender.is_closed());
    assert!(Sender::<u8>::default().is_closed());
}

#[test]
fn a_sender_waits_until_nobody_watches() {
    let (sender, receiver) = watch::channel(1);
    let (other, flag) = (receiver.clone(), Flag::new());
    assert!(receiver.same_channel(&other) && sender.same_channel(&sender.clone()));
    let mut closed = pin!(sender.closed());
    assert!(poll(closed.as_mut(), &flag).is_pending());
    drop(receiver);
    assert!(!flag.is_set());
    drop(other);
    assert!(flag.is_set());
    let receiver = sender.subscribe();
    assert!(poll(closed.as_mut(), &flag).is_pending());
    drop(receiver);
    assert!(poll(closed.as_mut(), &flag).is_ready());
}

#[test]
fn only_a_change_that_is_one_wakes() {
    let (sender, mut receiver) = watch::channel(1);
    let flag = Flag::new();
    let mut changed = pin!(receiver.changed());
    assert!(poll(changed.as_mut(), &flag).is_pending());
    assert!(!sender.send_if_modified(|_| false));
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
        sender.send_modify(|value| {
            *value = 2;
            panic!("in the middle");
        });
    }));
    assert!(panicked.is_err() && !flag.is_set());
    assert!(poll(changed.as_mut(), &flag).is_pending());
    assert_eq!(*sender.borrow(), 2);
    assert!(sender.send_if_modified(|value| *value == 2));
    assert!(flag.is_set() && poll(changed.as_mut(), &flag).is_ready());
}

#[test]
fn a_future_that_is_dropped_has_seen_nothing() {
    let (sender, mut receiver) = watch::channel(1);
    let flag = Flag::new();
    let mut changed = Box::pin(receiver.changed());
    assert!(poll(changed.as_mut(), &flag).is_pending());
    sender.send(2).unwrap();
    drop(changed);
    assert_eq!(receiver.has_changed(), Ok(true));
    assert_eq!(Arc::strong_count(&flag), 1);
}

#[test]
fn it_waits_for_a_value_and_says_which() {
    let (sender, mut receiver) = watch::channel(0);
    let flag = Flag::new();
    let asked = AtomicUsize::new(0);
    {
        let mut wait = pin!(receiver.wait_for(|value| {
            asked.fetch_add(1, Relaxed);
            *value > 2
        }));
        assert!(poll(wait.as_mut(), &flag).is_pending());
        sender.send(1).unwrap();
        assert!(poll(wait.as_mut(), &flag).is_pending());
        sender.send(2).unwrap();
        sender.send(3).unwrap();
        let Poll::Ready(Ok(found)) = poll(wait.as_mut(), &flag) else {
            panic!("it is there");
        };
        assert_eq!(*found, 3);
        assert!(found.has_changed());
    }
    assert_eq!(asked.load(Relaxed), 3, "it sees the latest only");
    assert_eq!(receiver.has_changed(), Ok(false));
    assert!(
        !block_on_simple(receiver.wait_for(|value| *value == 3))
            .unwrap()
            .has_changed()
    );
}

#[test]
fn a_question_that_panics_locks_nothing() {
    let (sender, mut receiver) = watch::channel(0);
    let asked = panic::catch_unwind(AssertUnwindSafe(|| {
        drop(block_on_simple(receiver.wait_for(|_| panic!("asked"))));
    }));
    assert!(asked.is_err());
    sender.send(1).unwrap();
    assert_eq!(*receiver.borrow(), 1);
}

#[test]
fn a_sender_waits_for_who_looks_and_its_core_goes_on() {
    runtime(1).block_on(async {
        let (sender, mut receiver) = watch::channel(1);
        let look = receiver.borrow();
        let sending = spawn(async move {
            sender.send(2).unwrap();
            sender
        });
        // On the only core; the sender came before it, and waits.
        executor::task::wait(spawn(async { yield_now().await })).unwrap();
        assert_eq!(*look, 1);
        drop(look);
        receiver.changed().await.unwrap();
        assert_eq!(*receiver.borrow(), 2);
        drop(sending.await.unwrap());
    });
}

#[test]
fn threads_wait_for_who_looks() {
    let (sender, receiver) = watch::channel(1);
    let (told, tell) = mpsc::channel();
    let look = receiver.borrow();
    let thread = thread::spawn(move || {
        told.send(()).unwrap();
        sender.send_replace(2)
    });
    tell.recv().unwrap();
    assert_eq!(*look, 1);
    drop(look);
    assert_eq!(thread.join().unwrap(), 1);
    assert_eq!(*receiver.borrow(), 2);
}

#[test]
fn a_change_is_waited_for_until_the_time_is_over() {
    let short = Duration::from_millis(1);
    runtime(1).block_on(async {
        let (sender, mut receiver) = watch::channel(1);
        assert_eq!(
            receiver.changed_timeout(short).await,
            Err(ChangedTimeoutError::Elapsed)
        );
        sender.send(2).unwrap();
        assert_eq!(receiver.changed_timeout(Duration::ZERO).await, Ok(()));
        drop(sender);
        assert_eq!(
            receiver.changed_timeout(short).await,
            Err(ChangedTimeoutError::Closed)
        );
    });
}

/// Two numbers that are equal whenever somebody may look; and how many of these there are.
struct Pair(usize, usize, Arc<AtomicUsize>);

impl Pair {
    fn new(number: usize, count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(number, number, count.clone())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.2.fetch_sub(1, Relaxed);
    }
}

/// Watches to the end, a third of the time by futures that are given up at the second look: the last value.
async fn watch_all(mut receiver: Receiver<Pair>, number: usize) -> usize {
    let mut last = 0;
    for round in number.. {
        let changed = if round.is_multiple_of(3) {
            let mut changed = pin!(receiver.changed());
            let mut looks = 0;
            poll_fn(|cx| {
                looks += 1;
                match changed.as_mut().poll(cx) {
                    Poll::Ready(changed) => Poll::Ready(Some(changed)),
                    Poll::Pending if looks == 2 => Poll::Ready(None),
                    Poll::Pending => {
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
            })
            .await
        } else {
            Some(receiver.changed().await)
        };
        match changed {
            None => {}
            Some(Ok(())) => {
                let value = receiver.borrow_and_update();
                assert_eq!(value.0, value.1);
                last = value.0;
            }
            Some(Err(_)) => break,
        }
    }
    last
}

#[test]
fn many_change_and_watch_on_many_cores_and_a_third_of_waits_is_given_up() {
    const CHANGES: usize = 500;
    let count = Arc::new(AtomicUsize::new(0));
    runtime(4).block_on(async {
        let (sender, receiver) = watch::channel(Pair::new(0, &count));
        let receivers: Vec<_> = (0..6)
            .map(|number| spawn(watch_all(receiver.clone(), number)))
            .collect();
        drop(receiver);
        let senders: Vec<_> = (0..3)
            .map(|number| {
                let (sender, count) = (sender.clone(), count.clone());
                spawn(async move {
                    for round in 0..CHANGES {
                        if (round + number) % 2 == 1 {
                            sender.send_modify(|value| {
                                value.0 += 1;
                                value.1 += 1;
                            });
                        } else {
                            let next = Pair::new(0, &count);
                            sender.send_modify(|value| {
                                let next = Pair(value.0 + 1, value.1 + 1, next.2.clone());
                                count.fetch_add(1, Relaxed);
                                *value = next;
                            });
                        }
                        if round % 8 == 1 {
                            yield_now().await;
                        }
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.await.unwrap();
        }
        assert_eq!(sender.borrow().0, 3 * CHANGES);
        drop(sender);
        for receiver in receivers {
            assert_eq!(receiver.await.unwrap(), 3 * CHANGES, "the last is seen");
        }
    });
    assert_eq!(count.load(Relaxed), 0);
}
