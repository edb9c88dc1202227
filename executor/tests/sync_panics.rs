//! Wakers and messages of others that panic as they are dropped: what was granted is still passed on, and who is to be woken is.
#![cfg(not(loom))]

mod common;

use common::{Flag, poll};
use executor::sync::{Mutex, Notify, RwLock, Semaphore, broadcast, channel, oneshot};
use futures_core::Stream;
use futures_sink::Sink;
use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::{Context, Poll, Wake, Waker},
};

/// A waker whose last clone panics as it is dropped.
struct Nasty;

impl Wake for Nasty {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Nasty {
    fn drop(&mut self) {
        panic!("a waker is dropped");
    }
}

/// Polls with a waker of which the future, if it waits, has the last clone.
fn poll_nastily<F: Future + ?Sized>(future: Pin<&mut F>) {
    let waker = Waker::from(Arc::new(Nasty));
    assert!(future.poll(&mut Context::from_waker(&waker)).is_pending());
}

#[test]
fn permits_come_back_from_who_waited_for_more() {
    let lock = RwLock::new(0);
    let reader = lock.try_read().unwrap();
    let mut writer = Box::pin(lock.write());
    poll_nastily(writer.as_mut());
    drop(writer);
    drop(reader);
    assert!(lock.try_write().is_ok());

    let semaphore = Semaphore::new(1);
    let mut two = Box::pin(semaphore.acquire_many(2));
    poll_nastily(two.as_mut());
    drop(two);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn the_other_end_of_a_oneshot_is_woken() {
    let (mut sender, mut receiver) = oneshot::channel();
    poll_nastily(pin!(sender.closed()).as_mut());
    let flag = Flag::new();
    assert!(poll(Pin::new(&mut receiver), &flag).is_pending());
    assert_eq!(sender.send(1), Ok(()));
    assert!(flag.is_set());

    let (mut sender, mut receiver) = oneshot::channel::<u8>();
    poll_nastily(Pin::new(&mut receiver));
    let flag = Flag::new();
    let mut closed = Box::pin(sender.closed());
    assert!(poll(closed.as_mut(), &flag).is_pending());
    drop(receiver);
    assert!(flag.is_set());
}

#[test]
fn channels_close_though_who_waited_in_them_is_dropped_so() {
    let (sender, mut receiver) = channel::bounded::<u8>(1);
    let waker = Waker::from(Arc::new(Nasty));
    let mut context = Context::from_waker(&waker);
    assert!(Pin::new(&mut receiver).poll_next(&mut context).is_pending());
    drop(waker);
    drop(receiver);
    assert_eq!(sender.receiver_count(), 0);
    assert!(sender.is_closed());

    let (mut sender, receiver) = channel::bounded::<u8>(1);
    sender.try_send(1).unwrap();
    Pin::new(&mut sender).start_send(2).unwrap();
    let waker = Waker::from(Arc::new(Nasty));
    let mut context = Context::from_waker(&waker);
    assert!(Pin::new(&mut sender).poll_flush(&mut context).is_pending());
    drop(waker);
    drop(sender);
    assert!(receiver.is_closed());
}

thread_local! {
    /// What the next clone of a [`Meddling`] waker does.
    static ON_CLONE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Polls with a waker that does something as it is cloned, and whose clone panics as it is dropped.
fn poll_meddling<F: Future>(future: Pin<&mut F>, meddle: impl FnOnce() + 'static) -> bool {
    use std::task::{RawWaker, RawWakerVTable};
    static CLONE: RawWakerVTable = RawWakerVTable::new(
        |_| unreachable!("it is not cloned again"),
        |_| {},
        |_| {},
        |_| panic!("a waker is dropped"),
    );
    static MEDDLING: RawWakerVTable = RawWakerVTable::new(
        |data| {
            ON_CLONE.take().expect("it is cloned once")();
            RawWaker::new(data, &CLONE)
        },
        |_| {},
        |_| {},
        |_| {},
    );
    ON_CLONE.set(Some(Box::new(meddle)));
    // SAFETY: there is no data, so all is allowed with it, in any thread.
    let waker = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &MEDDLING)) };
    future.poll(&mut Context::from_waker(&waker)).is_ready()
}

#[test]
fn what_comes_while_a_waker_is_cloned_is_not_lost() {
    static MUTEX: Mutex<u8> = Mutex::new(0);
    let guard = MUTEX.try_lock().unwrap();
    assert!(poll_meddling(pin!(MUTEX.lock()), move || drop(guard)));
    assert!(MUTEX.try_lock().is_ok());

    static NOTIFY: Notify = Notify::new();
    assert!(poll_meddling(pin!(NOTIFY.notified()), || NOTIFY.notify_one()));

    let (sender, receiver) = channel::bounded(1);
    sender.try_send(1).unwrap();
    let other = receiver.clone();
    let take = move || assert_eq!(other.try_recv(), Ok(1));
    assert!(poll_meddling(pin!(sender.send(2)), take));
    assert_eq!(receiver.try_recv(), Ok(2));
    assert_eq!(sender.try_send(3), Ok(()));
}

/// Counts that it is dropped, and may panic then.
#[derive(Debug)]
struct Message(bool, Arc<AtomicUsize>);

impl Clone for Message {
    fn clone(&self) -> Self {
        Self(false, self.1.clone())
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.1.fetch_add(1, Relaxed);
        assert!(!self.0, "a message is dropped");
    }
}

#[test]
fn the_others_are_dropped_too_when_one_message_panics() {
    for (sender, receiver) in [channel::bounded(4), channel::unbounded()] {
        let dropped = Arc::new(AtomicUsize::new(0));
        for number in 0..3 {
            assert!(
                sender
                    .try_send(Message(number == 0, dropped.clone()))
                    .is_ok()
            );
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
        assert_eq!(dropped.load(Relaxed), 3);
        drop(sender);
        assert_eq!(dropped.load(Relaxed), 3);
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = broadcast::channel(4);
    for number in 0..3 {
        assert!(sender.send(Message(number == 0, dropped.clone())).is_ok());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
    assert_eq!(dropped.load(Relaxed), 3);
    assert_eq!(sender.receiver_count(), 0);
}

#[test]
fn a_message_in_a_sink_that_panics_lets_its_sender_go() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (mut sender, receiver) = channel::bounded(1);
    sender.try_send(Message(false, dropped.clone())).unwrap();
    let second = Message(true, dropped.clone());
    Pin::new(&mut sender).start_send(second).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(sender))).is_err());
    assert!(receiver.is_closed());
    assert_eq!(dropped.load(Relaxed), 1);
}

#[test]
fn a_sink_that_was_closed_is_not_counted_when_it_is_cloned() {
    let (mut sender, receiver) = channel::bounded(1);
    let mut context = Context::from_waker(Waker::noop());
    let closed = Pin::new(&mut sender).poll_close(&mut context);
    assert_eq!(closed, Poll::Ready(Ok(())));
    let clone = sender.clone();
    assert_eq!(receiver.sender_count(), 0);
    assert!(clone.try_send(1).is_err());
    drop((clone, sender));
    assert_eq!(receiver.sender_count(), 0);
}
