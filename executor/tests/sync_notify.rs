//! Notifications and events.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    block_on_simple, spawn,
    sync::{Event, Notify},
    time::{Duration, sleep, timeout},
};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::{Context, Wake, Waker},
};

#[test]
fn one_call_is_stored_and_no_more() {
    let notify = Notify::new();
    let flag = Flag::new();
    notify.notify_one();
    notify.notify_one();
    assert!(poll(pin!(notify.notified()), &flag).is_ready());
    assert!(poll(pin!(notify.notified()), &flag).is_pending());
}

#[test]
fn those_who_wait_are_notified_in_the_order_they_came() {
    let notify = Notify::new();
    let flags = [(); 4].map(|()| Flag::new());
    let mut waiting = [(); 4].map(|()| Box::pin(notify.notified()));
    for (notified, flag) in waiting.iter_mut().zip(&flags) {
        assert!(poll(notified.as_mut(), flag).is_pending());
    }
    let counts = || flags.each_ref().map(|flag| flag.count());
    notify.notify_one();
    assert_eq!(counts(), [1, 0, 0, 0]);
    notify.notify_one();
    assert_eq!(counts(), [1, 1, 0, 0]);
    notify.notify_last();
    assert_eq!(counts(), [1, 1, 0, 1]);
    for (notified, flag) in waiting.iter_mut().zip(&flags) {
        assert_eq!(poll(notified.as_mut(), flag).is_ready(), flag.is_set());
    }
    assert!(
        poll(pin!(notify.notified()), &flags[0]).is_pending(),
        "nothing was stored"
    );
}

#[test]
fn who_was_ready_stays_so() {
    let notify = Notify::new();
    let flag = Flag::new();
    notify.notify_one();
    let mut notified = pin!(notify.notified());
    for _ in 0..3 {
        assert!(poll(notified.as_mut(), &flag).is_ready());
    }
}

#[test]
fn all_who_wait_are_notified_and_nothing_is_stored() {
    let notify = Notify::new();
    // More than are woken at once.
    let flags: Vec<_> = (0..40).map(|_| Flag::new()).collect();
    let mut waiting: Vec<_> = (0..40).map(|_| Box::pin(notify.notified())).collect();
    for (notified, flag) in waiting.iter_mut().zip(&flags) {
        assert!(poll(notified.as_mut(), flag).is_pending());
    }
    notify.notify_waiters();
    for (notified, flag) in waiting.iter_mut().zip(&flags) {
        assert_eq!(flag.count(), 1);
        assert!(poll(notified.as_mut(), flag).is_ready());
    }
    assert!(poll(pin!(notify.notified()), &flags[0]).is_pending());
}

#[test]
fn all_who_wait_are_those_who_were_made_before_though_never_polled() {
    let notify = Notify::new();
    let flag = Flag::new();
    let before = notify.notified();
    notify.notify_waiters();
    let after = notify.notified();
    assert!(poll(pin!(before), &flag).is_ready());
    assert!(poll(pin!(after), &flag).is_pending());
}

#[test]
fn what_is_stored_outlives_a_call_to_all() {
    let notify = Notify::new();
    let flag = Flag::new();
    notify.notify_one();
    notify.notify_waiters();
    assert!(poll(pin!(notify.notified()), &flag).is_ready());
    assert!(poll(pin!(notify.notified()), &flag).is_pending());
}

#[test]
fn who_was_meant_by_a_call_to_all_leaves_what_is_stored_to_the_next() {
    let notify = Notify::new();
    let flag = Flag::new();
    // Made before both, polled after.
    let mut first = pin!(notify.notified());
    notify.notify_waiters();
    notify.notify_one();
    assert!(poll(first.as_mut(), &flag).is_ready());
    let mut second = pin!(notify.notified());
    assert!(poll(second.as_mut(), &flag).is_ready());
    let mut third = pin!(notify.notified());
    assert!(poll(third.as_mut(), &flag).is_pending());
}

#[test]
fn a_future_that_keeps_it_borrows_nothing() {
    let notify = Arc::new(Notify::new());
    let flag = Flag::new();
    let mut first = Box::pin(notify.clone().notified_owned());
    let mut second = Box::pin(notify.clone().notified_owned());
    assert!(!first.as_mut().enable());
    assert!(poll(second.as_mut(), &flag).is_pending());
    notify.notify_one();
    drop(notify);
    // It was for the first, which passes it on.
    drop(first);
    assert!(flag.is_set());
    assert!(poll(second.as_mut(), &flag).is_ready());
}

#[test]
fn a_notified_future_that_is_dropped_passes_it_on_or_stores_it() {
    let notify = Notify::new();
    let [first_flag, second_flag] = [(); 2].map(|()| Flag::new());
    let mut first = Box::pin(notify.notified());
    let mut second = Box::pin(notify.notified());
    assert!(poll(first.as_mut(), &first_flag).is_pending());
    assert!(poll(second.as_mut(), &second_flag).is_pending());
    notify.notify_one();
    drop(first);
    assert!(second_flag.is_set());
    drop(second);
    assert!(poll(pin!(notify.notified()), &first_flag).is_ready());
    assert!(poll(pin!(notify.notified()), &first_flag).is_pending());
}

#[test]
fn one_of_all_who_were_notified_passes_nothing_on() {
    let notify = Notify::new();
    let flag = Flag::new();
    let mut waiting = Box::pin(notify.notified());
    assert!(poll(waiting.as_mut(), &flag).is_pending());
    notify.notify_waiters();
    drop(waiting);
    assert!(poll(pin!(notify.notified()), &flag).is_pending());
}

#[test]
fn an_enabled_future_is_in_the_queue_without_a_poll() {
    let notify = Notify::new();
    let flag = Flag::new();
    let mut first = Box::pin(notify.notified());
    assert!(!first.as_mut().enable());
    assert!(!first.as_mut().enable());
    let mut second = Box::pin(notify.notified());
    assert!(poll(second.as_mut(), &flag).is_pending());
    notify.notify_one();
    assert!(!flag.is_set(), "the first was chosen");
    assert!(first.as_mut().enable());
    assert!(poll(first.as_mut(), &flag).is_ready());
    // Enabled first and polled later, it is woken.
    let mut third = Box::pin(notify.notified());
    assert!(!third.as_mut().enable());
    let third_flag = Flag::new();
    assert!(poll(third.as_mut(), &third_flag).is_pending());
    notify.notify_waiters();
    assert!(third_flag.is_set() && flag.is_set());
}

#[test]
fn a_waker_may_come_back_while_others_are_woken() {
    struct Nosy(Arc<Notify>, AtomicUsize);
    impl Wake for Nosy {
        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1, Relaxed);
            self.0.notify_one();
            self.0.notify_waiters();
        }
    }
    let notify = Arc::new(Notify::new());
    let nosy = Arc::new(Nosy(notify.clone(), AtomicUsize::new(0)));
    let waker = Waker::from(nosy.clone());
    let mut waiting: Vec<_> = (0..20).map(|_| Box::pin(notify.notified())).collect();
    for notified in &mut waiting {
        let poll = notified.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(poll.is_pending());
    }
    notify.notify_waiters();
    assert_eq!(nosy.1.load(Relaxed), 20);
    block_on_simple(notify.notified());
}

#[test]
fn messages_are_never_missed_on_many_cores() {
    const COUNT: usize = 20_000;
    let runtime = runtime(4);
    let (sent, notify) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    runtime.block_on(async {
        let receiver = {
            let (sent, notify) = (sent.clone(), notify.clone());
            spawn(async move {
                let mut received = 0;
                while received < COUNT {
                    match sent.swap(0, Acquire) {
                        // Now and then it gives up, and must not lose what it was told.
                        0 if received % 3 == 0 => {
                            let _ = timeout(Duration::from_nanos(1), notify.notified()).await;
                        }
                        0 => notify.notified().await,
                        some => received += some,
                    }
                }
                received
            })
        };
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let (sent, notify) = (sent.clone(), notify.clone());
                spawn(async move {
                    for _ in 0..COUNT / 4 {
                        sent.fetch_add(1, Release);
                        notify.notify_one();
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.await.unwrap();
        }
        assert_eq!(receiver.await.unwrap(), COUNT);
    });
}

#[test]
fn an_event_is_waited_for_until_it_is_set() {
    let event = Event::new();
    let flags = [(); 3].map(|()| Flag::new());
    let mut waiting = [(); 3].map(|()| Box::pin(event.wait()));
    for (wait, flag) in waiting.iter_mut().zip(&flags) {
        assert!(poll(wait.as_mut(), flag).is_pending());
    }
    assert!(!event.is_set());
    event.set();
    event.set();
    assert!(event.is_set());
    assert!(poll(pin!(event.wait()), &flags[0]).is_ready());
    event.clear();
    for (wait, flag) in waiting.iter_mut().zip(&flags) {
        assert_eq!(flag.count(), 1);
        assert!(poll(wait.as_mut(), flag).is_ready(), "it was set meanwhile");
    }
    assert!(poll(pin!(event.wait()), &flags[0]).is_pending());
}

#[test]
fn an_event_wakes_tasks_on_all_cores() {
    let runtime = runtime(4);
    let event = Arc::new(Event::new());
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let event = event.clone();
                spawn(async move { event.wait().await })
            })
            .collect();
        sleep(Duration::from_millis(1)).await;
        event.set();
        for task in tasks {
            task.await.unwrap();
        }
    });
}
