//! Channels for one value, as tasks and polled by hand.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    block_on_simple, spawn,
    sync::oneshot::{
        self, Receiver, Sender,
        error::{RecvTimeoutError, TryRecvError},
    },
    task::yield_now,
    time::Duration,
};
use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::{Context, Poll, Waker},
    thread,
};

fn assert_send_sync_unpin<T: Send + Sync + Unpin>(_: &T) {}

#[test]
fn both_ends_may_be_sent_shared_and_moved() {
    let (sender, receiver) = oneshot::channel::<Cell<u8>>();
    assert_send_sync_unpin(&sender);
    assert_send_sync_unpin(&receiver);
}

#[test]
fn a_value_that_was_sent_before_is_there_at_once() {
    let (sender, mut receiver) = oneshot::channel();
    assert_eq!(sender.send("hello"), Ok(()));
    assert!(!receiver.is_terminated() && !receiver.is_empty());
    assert_eq!(
        poll(Pin::new(&mut receiver), &Flag::new()),
        Poll::Ready(Ok("hello"))
    );
    assert!(receiver.is_terminated() && receiver.is_empty());
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    receiver.close();
}

#[test]
fn who_waits_is_woken_once_by_the_value_or_its_end() {
    for sends in [true, false] {
        let (sender, receiver) = oneshot::channel();
        let (flag, mut receiver) = (Flag::new(), pin!(receiver));
        assert!(poll(receiver.as_mut(), &flag).is_pending());
        assert!(poll(receiver.as_mut(), &flag).is_pending());
        match sends {
            true => sender.send(1).unwrap(),
            false => drop(sender),
        }
        assert_eq!(flag.count(), 1);
        assert_eq!(Arc::strong_count(&flag), 1, "its waker is gone");
        let Poll::Ready(received) = poll(receiver.as_mut(), &flag) else {
            panic!("it was woken for nothing");
        };
        assert_eq!(received.is_ok(), sends);
    }
}

#[test]
fn the_task_that_polled_last_is_woken() {
    let (mut sender, mut receiver) = oneshot::channel::<u8>();
    let flags = [(); 4].map(|()| Flag::new());
    assert!(poll(Pin::new(&mut receiver), &flags[0]).is_pending());
    assert!(poll(Pin::new(&mut receiver), &flags[1]).is_pending());
    for flag in &flags[2..] {
        let waker = Waker::from(flag.clone());
        assert!(
            sender
                .poll_closed(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    let counts = || [0, 1, 2, 3].map(|flag| Arc::strong_count(&flags[flag]));
    assert_eq!(
        counts(),
        [1, 2, 1, 2],
        "what is not needed is dropped at once"
    );
    receiver.close();
    assert!(!flags[1].is_set() && !flags[2].is_set() && flags[3].is_set());
    assert_eq!(counts(), [1, 2, 1, 1]);
    drop(receiver);
    assert_eq!(counts(), [1; 4]);
    drop(sender);
}

#[test]
fn a_closed_channel_takes_nothing_and_gives_what_it_has() {
    let (sender, mut receiver) = oneshot::channel();
    receiver.close();
    assert!(sender.is_closed());
    assert_eq!(sender.send(1), Err(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));

    let (sender, mut receiver) = oneshot::channel();
    sender.send(1).unwrap();
    receiver.close();
    receiver.close();
    assert_eq!(receiver.try_recv(), Ok(1));

    // With the sender still there.
    let (sender, mut receiver) = oneshot::channel::<u8>();
    receiver.close();
    assert!(poll(Pin::new(&mut receiver), &Flag::new()).is_ready());
    assert!(receiver.is_terminated());
    drop(sender);
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn polling_it_after_it_was_ready_panics() {
    let (_sender, mut receiver) = oneshot::channel::<u8>();
    receiver.close();
    assert!(receiver.try_recv().is_err());
    let _ = poll(Pin::new(&mut receiver), &Flag::new());
}

#[test]
fn a_sender_waits_for_the_receiver_to_leave() {
    let (mut sender, receiver) = oneshot::channel::<u8>();
    let flag = Flag::new();
    {
        let mut closed = pin!(sender.closed());
        assert!(poll(closed.as_mut(), &flag).is_pending());
        drop(receiver);
        assert_eq!(flag.count(), 1);
        assert!(poll(closed.as_mut(), &flag).is_ready());
    }
    block_on_simple(sender.closed());
    assert_eq!(sender.send(1), Err(1));
    assert_eq!(Arc::strong_count(&flag), 1);
}

/// Counts itself.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn a_value_that_nobody_takes_is_dropped_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let value = || Counted::new(&count);
    let (sender, receiver) = oneshot::channel();
    assert!(sender.send(value()).is_ok());
    assert_eq!(count.load(Relaxed), 1);
    drop(receiver);
    assert_eq!(count.load(Relaxed), 0);

    let (sender, receiver) = oneshot::channel();
    drop(receiver);
    let back = sender.send(value());
    assert_eq!(count.load(Relaxed), 1);
    drop(back);
    assert_eq!(count.load(Relaxed), 0);

    let (sender, mut receiver) = oneshot::channel();
    assert!(sender.send(value()).is_ok());
    drop(receiver.try_recv());
    assert_eq!(count.load(Relaxed), 0);
}

#[test]
fn a_waker_may_use_the_channel_while_it_is_dropped() {
    struct Nosy(Receiver<u8>);
    impl std::task::Wake for Nosy {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Nosy {
        fn drop(&mut self) {
            assert!(self.0.try_recv().is_ok());
        }
    }
    let (sender, mut other) = oneshot::channel::<u8>();
    let (late, receiver) = oneshot::channel::<u8>();
    late.send(1).unwrap();
    let waker = Waker::from(Arc::new(Nosy(receiver)));
    let _ = Pin::new(&mut other).poll(&mut Context::from_waker(&waker));
    drop(waker);
    assert!(poll(Pin::new(&mut other), &Flag::new()).is_pending());
    sender.send(2).unwrap();
}

#[test]
fn threads_wait_for_it() {
    let (sender, receiver) = oneshot::channel();
    let thread = thread::spawn(|| receiver.blocking_recv());
    sender.send(1).unwrap();
    assert_eq!(thread.join().unwrap(), Ok(1));
    let (sender, receiver) = oneshot::channel::<u8>();
    let thread = thread::spawn(|| receiver.blocking_recv());
    drop(sender);
    assert!(thread.join().unwrap().is_err());
}

#[test]
fn a_task_waits_for_it_in_code_that_is_not_async() {
    let runtime = runtime(1);
    let received = runtime.block_on(async {
        let (sender, receiver) = oneshot::channel();
        let waiting = spawn(async { receiver.blocking_recv() });
        let sending = spawn(async { sender.send(1) });
        sending.await.unwrap().unwrap();
        waiting.await.unwrap()
    });
    assert_eq!(received, Ok(1));
}

#[test]
fn it_is_waited_for_until_the_time_is_over() {
    let short = Duration::from_millis(1);
    runtime(1).block_on(async {
        let (sender, mut receiver) = oneshot::channel();
        assert_eq!(
            receiver.recv_timeout(short).await,
            Err(RecvTimeoutError::Elapsed)
        );
        sender.send(1).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::ZERO).await, Ok(1));
        let (sender, mut receiver) = oneshot::channel::<u8>();
        drop(sender);
        assert_eq!(
            receiver.recv_timeout(short).await,
            Err(RecvTimeoutError::Closed)
        );
    });
}

/// Sends or leaves, some later than others, and says whether it was sent.
async fn send(sender: Sender<Counted>, value: Counted, number: usize) -> bool {
    for _ in 0..number % 3 {
        yield_now().await;
    }
    match number % 7 {
        0 => false,
        _ => sender.send(value).is_ok(),
    }
}

/// Receives, or gives up at the second look, and says what it was.
async fn receive(mut receiver: Receiver<Counted>, number: usize) -> bool {
    let (gives_up, mut looks) = (number.is_multiple_of(3), 0);
    let received = poll_fn(|cx| {
        looks += 1;
        match Pin::new(&mut receiver).poll(cx) {
            Poll::Ready(received) => Poll::Ready(received.ok()),
            Poll::Pending if gives_up && looks == 2 => Poll::Ready(None),
            Poll::Pending => {
                if gives_up {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    })
    .await;
    received.is_some()
}

#[test]
fn many_are_sent_on_many_cores_and_a_third_gives_up() {
    let count = Arc::new(AtomicUsize::new(0));
    runtime(4).block_on(async {
        for round in 0..20 {
            let pairs: Vec<_> = (0..100)
                .map(|number| {
                    let (sender, receiver) = oneshot::channel();
                    let number = number + round;
                    let value = Counted::new(&count);
                    (
                        spawn(send(sender, value, number)),
                        spawn(receive(receiver, number)),
                        number,
                    )
                })
                .collect();
            for (send, receive, number) in pairs {
                let (sent, received) = (send.await.unwrap(), receive.await.unwrap());
                assert!(sent || !received);
                if !number.is_multiple_of(3) {
                    assert_eq!(sent, received, "who waits to the end has it");
                }
            }
        }
    });
    assert_eq!(count.load(Relaxed), 0);
}
