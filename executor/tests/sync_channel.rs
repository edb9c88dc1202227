//! Channels: sending, receiving, waiting and closing, polled by hand and in tasks.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    block_on_simple, spawn,
    sync::channel::{
        Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, StaticChannel,
        TryRecvError, TrySendError, bounded, unbounded,
    },
    task::yield_now,
    time::Duration,
};
use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Barrier},
    task::Poll,
    thread,
};

/// Compiles where it may be sent and shared.
fn assert_send_sync<T: Send + Sync>(_: &T) {}

/// A message that is `Send` but not `Sync`.
type Message = std::cell::Cell<u8>;

#[test]
fn ends_and_futures_may_be_sent() {
    let (sender, receiver) = bounded::<Message>(1);
    assert_send_sync(&sender);
    assert_send_sync(&receiver);
    assert_send_sync(&sender.send(Message::new(1)));
    assert_send_sync(&receiver.recv());
    assert_send_sync(&sender.downgrade());
    assert_send_sync(&receiver.downgrade());
    static CHANNEL: StaticChannel<Message, 1> = StaticChannel::new();
    assert_send_sync(&CHANNEL.send(Message::new(1)));
    assert_send_sync(&CHANNEL.recv());
}

/// One of each kind that holds at least two.
fn both_kinds<T>() -> [(Sender<T>, Receiver<T>); 2] {
    [bounded(2), unbounded()]
}

#[test]
fn messages_arrive_in_order() {
    for (sender, receiver) in both_kinds() {
        for round in 0..100 {
            sender.try_send(round).unwrap();
            block_on_simple(sender.send(round + 1)).unwrap();
            assert_eq!(block_on_simple(receiver.recv()), Ok(round));
            assert_eq!(receiver.try_recv(), Ok(round + 1));
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        }
    }
}

#[test]
fn any_capacity_is_kept_to() {
    for capacity in [1, 2, 3, 4, 5, 7, 8, 100, 127, 128, 129] {
        let (sender, receiver) = bounded(capacity);
        assert_eq!(sender.capacity(), Some(capacity));
        assert_eq!(receiver.capacity(), Some(capacity));
        for round in 0..3 {
            for number in 0..capacity {
                assert!(!sender.is_full());
                assert_eq!(sender.try_send((round, number)), Ok(()));
                assert_eq!(receiver.len(), number + 1);
            }
            assert!(sender.is_full() && receiver.is_full());
            let more = (round, capacity);
            assert_eq!(sender.try_send(more), Err(TrySendError::Full(more)));
            for number in 0..capacity {
                assert!(!receiver.is_empty());
                assert_eq!(receiver.try_recv(), Ok((round, number)));
            }
            assert!(receiver.is_empty() && sender.is_empty());
        }
    }
    let (sender, receiver) = unbounded::<u8>();
    assert_eq!((sender.capacity(), receiver.capacity()), (None, None));
    assert!(!sender.is_full());
}

#[test]
fn errors_give_the_message_back() {
    let (sender, receiver) = bounded(1);
    let message = || String::from("message");
    sender.try_send(message()).unwrap();
    let full = sender.try_send(message()).unwrap_err();
    assert!(full.is_full() && !full.is_closed());
    assert_eq!(full.into_inner(), message());
    receiver.close();
    let closed = sender.try_send(message()).unwrap_err();
    assert!(closed.is_closed() && !closed.is_full());
    assert_eq!(closed.into_inner(), message());
    let error = block_on_simple(sender.send(message())).unwrap_err();
    assert_eq!(error, SendError(message()));
    assert_eq!(format!("{error:?}"), "SendError(..)");
    assert_eq!(error.to_string(), "the channel is closed");
    assert_eq!(sender.force_send(message()), Err(SendError(message())));
    assert!(TryRecvError::Empty.is_empty() && TryRecvError::Closed.is_closed());
}

#[test]
fn what_was_sent_before_it_was_closed_is_received_after() {
    for (sender, receiver) in both_kinds() {
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        assert!(!sender.is_closed());
        assert!(sender.close(), "it was open");
        assert!(!receiver.close(), "it is closed already");
        assert!(sender.is_closed() && receiver.is_closed());
        assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
        assert_eq!(block_on_simple(sender.send(4)), Err(SendError(4)));
        assert_eq!(receiver.len(), 2);
        assert_eq!(receiver.try_recv(), Ok(1));
        assert_eq!(block_on_simple(receiver.recv()), Ok(2));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(block_on_simple(receiver.recv()), Err(RecvError));
    }
}

#[test]
fn the_last_sender_dropped_closes_it() {
    for (sender, receiver) in both_kinds() {
        let second = sender.clone();
        assert_eq!((receiver.sender_count(), receiver.receiver_count()), (2, 1));
        drop(sender);
        assert!(!receiver.is_closed());
        second.try_send(1).unwrap();
        drop(second);
        assert_eq!(receiver.sender_count(), 0);
        assert!(receiver.is_closed());
        assert_eq!(receiver.try_recv(), Ok(1));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    }
}

#[test]
fn the_last_receiver_dropped_closes_it_and_drops_what_is_in_it() {
    for (sender, receiver) in both_kinds() {
        let message = Arc::new(());
        let second = receiver.clone();
        assert_eq!((sender.sender_count(), sender.receiver_count()), (1, 2));
        drop(receiver);
        assert!(!sender.is_closed());
        sender.try_send(message.clone()).unwrap();
        assert_eq!(Arc::strong_count(&message), 2);
        drop(second);
        assert!(sender.is_closed());
        assert_eq!(Arc::strong_count(&message), 1);
        assert!(sender.try_send(message.clone()).is_err());
        assert_eq!(Arc::strong_count(&message), 1);
    }
}

#[test]
fn what_is_left_is_dropped_with_the_channel() {
    for (sender, receiver) in both_kinds() {
        let message = Arc::new(());
        for _ in 0..2 {
            sender.try_send(message.clone()).unwrap();
        }
        drop(receiver.try_recv());
        sender.try_send(message.clone()).unwrap();
        let weak = receiver.downgrade();
        drop(sender);
        drop(receiver);
        drop(weak);
        assert_eq!(Arc::strong_count(&message), 1);
    }
}

#[test]
fn closing_wakes_all_who_wait() {
    let (sender, receiver) = bounded::<u8>(1);
    let flags = [(); 3].map(|()| Flag::new());
    let mut waiting = [(); 3].map(|()| Box::pin(receiver.recv()));
    for (recv, flag) in waiting.iter_mut().zip(&flags) {
        assert!(poll(recv.as_mut(), flag).is_pending());
    }
    sender.close();
    for (recv, flag) in waiting.iter_mut().zip(&flags) {
        assert!(flag.is_set());
        assert_eq!(poll(recv.as_mut(), flag), Poll::Ready(Err(RecvError)));
    }

    let (sender, receiver) = bounded(1);
    sender.try_send(0).unwrap();
    let mut waiting = [1, 2, 3].map(|number| Box::pin(sender.send(number)));
    let flags = [(); 3].map(|()| Flag::new());
    for (send, flag) in waiting.iter_mut().zip(&flags) {
        assert!(poll(send.as_mut(), flag).is_pending());
    }
    receiver.close();
    for (number, (send, flag)) in (1..).zip(waiting.iter_mut().zip(&flags)) {
        assert!(flag.is_set());
        assert_eq!(
            poll(send.as_mut(), flag),
            Poll::Ready(Err(SendError(number)))
        );
    }
    assert_eq!(receiver.try_recv(), Ok(0));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn those_who_wait_to_receive_hear_of_the_end_when_all_is_received() {
    let (sender, receiver) = bounded(2);
    let flag = Flag::new();
    let mut first = pin!(receiver.recv());
    let mut second = pin!(receiver.recv());
    assert!(poll(first.as_mut(), &flag).is_pending());
    assert!(poll(second.as_mut(), &flag).is_pending());
    sender.try_send(1).unwrap();
    sender.close();
    assert!(
        poll(second.as_mut(), &flag).is_pending(),
        "the first may give its message up"
    );
    assert_eq!(poll(first.as_mut(), &flag), Poll::Ready(Ok(1)));
    assert_eq!(poll(second.as_mut(), &flag), Poll::Ready(Err(RecvError)));
}

#[test]
fn senders_wait_for_a_place_in_the_order_they_came() {
    let (sender, receiver) = bounded(1);
    sender.try_send(0).unwrap();
    let flags = [(); 3].map(|()| Flag::new());
    let mut waiting = [1, 2, 3].map(|number| Box::pin(sender.send(number)));
    for (send, flag) in waiting.iter_mut().zip(&flags) {
        assert!(poll(send.as_mut(), flag).is_pending());
    }
    for next in 0..3 {
        assert_eq!(receiver.try_recv(), Ok(next));
        for (number, flag) in flags.iter().enumerate() {
            assert_eq!(flag.is_set(), number <= next as usize);
        }
        assert_eq!(
            sender.try_send(9),
            Err(TrySendError::Full(9)),
            "nobody overtakes"
        );
        assert!(sender.is_full());
        let send = waiting[next as usize].as_mut();
        assert_eq!(poll(send, &flags[next as usize]), Poll::Ready(Ok(())));
    }
}

#[test]
fn receivers_wait_for_a_message_in_the_order_they_came() {
    let (sender, receiver) = unbounded();
    let flags = [(); 3].map(|()| Flag::new());
    let mut waiting = [(); 3].map(|()| Box::pin(receiver.recv()));
    for (recv, flag) in waiting.iter_mut().zip(&flags) {
        assert!(poll(recv.as_mut(), flag).is_pending());
    }
    for next in 0..3 {
        sender.try_send(next).unwrap();
        for (number, flag) in flags.iter().enumerate() {
            assert_eq!(flag.is_set(), number <= next);
        }
        assert_eq!(
            receiver.try_recv(),
            Err(TryRecvError::Empty),
            "nobody overtakes"
        );
        assert_eq!(
            poll(waiting[next].as_mut(), &flags[next]),
            Poll::Ready(Ok(next))
        );
    }
}

#[test]
fn a_receiver_dropped_after_it_was_chosen_leaves_its_message_to_the_next() {
    for (sender, receiver) in both_kinds() {
        let [first_flag, second_flag] = [(); 2].map(|()| Flag::new());
        let mut first = Box::pin(receiver.recv());
        let mut second = Box::pin(receiver.recv());
        assert!(poll(first.as_mut(), &first_flag).is_pending());
        assert!(poll(second.as_mut(), &second_flag).is_pending());
        sender.try_send(1).unwrap();
        assert!(first_flag.is_set() && !second_flag.is_set());
        drop(first);
        assert!(second_flag.is_set());
        drop(second);
        assert_eq!(receiver.try_recv(), Ok(1));
    }
}

#[test]
fn a_sender_dropped_after_it_was_chosen_leaves_its_place_to_the_next() {
    let (sender, receiver) = bounded(1);
    sender.try_send(0).unwrap();
    let [first_flag, second_flag] = [(); 2].map(|()| Flag::new());
    let message = Arc::new(1);
    let mut first = Box::pin(sender.send(1));
    let mut second = Box::pin(sender.send(2));
    assert!(poll(first.as_mut(), &first_flag).is_pending());
    assert!(poll(second.as_mut(), &second_flag).is_pending());
    assert_eq!(receiver.try_recv(), Ok(0));
    assert!(first_flag.is_set() && !second_flag.is_set());
    drop(first);
    assert!(second_flag.is_set());
    assert_eq!(poll(second.as_mut(), &second_flag), Poll::Ready(Ok(())));
    assert_eq!(receiver.try_recv(), Ok(2));
    assert_eq!(Arc::strong_count(&message), 1);
}

#[test]
fn a_send_that_is_dropped_drops_its_message_and_one_that_is_cancelled_gives_it_back() {
    let (sender, receiver) = bounded(1);
    let message = Arc::new(());
    sender.try_send(message.clone()).unwrap();
    let flag = Flag::new();
    let mut send = Box::pin(sender.send(message.clone()));
    assert!(poll(send.as_mut(), &flag).is_pending());
    assert_eq!(Arc::strong_count(&message), 3);
    drop(send);
    assert_eq!(Arc::strong_count(&message), 2);
    let mut send = Box::pin(sender.send(message.clone()));
    assert!(poll(send.as_mut(), &flag).is_pending());
    assert!(send.as_mut().cancel().is_some());
    assert!(send.as_mut().cancel().is_none());
    assert_eq!(receiver.len(), 1);
    drop(receiver.try_recv());
    assert_eq!(sender.try_send(message.clone()), Ok(()));
}

#[test]
fn one_that_was_promised_a_place_and_is_not_polled_does_not_keep_receivers_waiting_for_the_end() {
    let (sender, receiver) = bounded(1);
    sender.try_send(0).unwrap();
    let flag = Flag::new();
    let mut send = Box::pin(sender.send(1));
    assert!(poll(send.as_mut(), &flag).is_pending());
    assert_eq!(receiver.try_recv(), Ok(0));
    sender.close();
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(block_on_simple(receiver.recv()), Err(RecvError));
    assert_eq!(
        poll(send.as_mut(), &flag),
        Poll::Ready(Err(SendError(1))),
        "it is closed"
    );
}

#[test]
fn it_is_told_when_it_is_closed() {
    let (sender, receiver) = bounded::<u8>(1);
    let flag = Flag::new();
    let mut closed = pin!(sender.closed());
    assert!(poll(closed.as_mut(), &flag).is_pending());
    drop(receiver);
    assert!(flag.is_set());
    assert!(poll(closed, &flag).is_ready());
    assert!(poll(pin!(sender.closed()), &flag).is_ready());
}

#[test]
fn what_is_not_done_in_time_is_given_up() {
    let limit = Duration::from_millis(1);
    runtime(1).block_on(async {
        let (sender, receiver) = bounded(1);
        assert_eq!(
            receiver.recv_timeout(limit).await,
            Err(RecvTimeoutError::Timeout)
        );
        assert_eq!(sender.send_timeout(1, limit).await, Ok(()));
        assert_eq!(
            sender.send_timeout(2, limit).await,
            Err(SendTimeoutError::Timeout(2))
        );
        assert_eq!(receiver.recv_timeout(limit).await, Ok(1));
        assert_eq!(sender.send_timeout(3, Duration::ZERO).await, Ok(()));
        sender.close();
        assert_eq!(
            sender.send_timeout(4, limit).await,
            Err(SendTimeoutError::Closed(4))
        );
        assert_eq!(receiver.recv_timeout(limit).await, Ok(3));
        assert_eq!(
            receiver.recv_timeout(limit).await,
            Err(RecvTimeoutError::Closed)
        );
        let (sender, _receiver) = bounded(0);
        let late = sender.send_timeout(5, limit).await;
        assert_eq!(late, Err(SendTimeoutError::Timeout(5)));
    });
}

#[test]
fn threads_send_and_receive_without_a_runtime() {
    for (sender, receiver) in both_kinds().into_iter().chain([bounded(0)]) {
        let thread = thread::spawn(move || {
            for number in 0..1000 {
                sender.send_blocking(number).unwrap();
            }
        });
        for number in 0..1000 {
            assert_eq!(receiver.recv_blocking(), Ok(number));
        }
        assert_eq!(receiver.recv_blocking(), Err(RecvError));
        thread.join().unwrap();
    }
}

#[test]
fn messages_without_size_and_large_ones() {
    for (sender, receiver) in both_kinds().into_iter().chain([bounded(5)]) {
        sender.try_send(()).unwrap();
        assert_eq!(receiver.try_recv(), Ok(()));
    }
    for (sender, receiver) in both_kinds() {
        sender.try_send([7u8; 5000]).unwrap();
        assert_eq!(receiver.try_recv(), Ok([7; 5000]));
    }
}

#[test]
fn a_task_that_always_finds_messages_gives_way() {
    // Where ticks are; here only that nothing is lost if it is pending in between.
    runtime(2).block_on(async {
        let (sender, receiver) = bounded(64);
        let feed = spawn(async move {
            for number in 0..10_000 {
                sender.send(number).await.unwrap();
            }
        });
        for number in 0..10_000 {
            assert_eq!(receiver.recv().await, Ok(number));
        }
        feed.await.unwrap();
    });
}

#[test]
fn an_answer_is_not_waited_for_when_the_one_who_was_asked_is_gone() {
    let (sender, receiver) = bounded(1);
    let (answers, answer) = bounded::<u8>(1);
    sender.try_send(answers).unwrap();
    drop(receiver);
    assert_eq!(block_on_simple(answer.recv()), Err(RecvError));
}

#[test]
fn the_last_receiver_may_go_while_others_send() {
    for _ in 0..200 {
        for (sender, receiver) in [bounded(4), unbounded(), bounded(0)] {
            let message = Arc::new(());
            let start = Arc::new(Barrier::new(2));
            let thread = thread::spawn({
                let (message, start) = (message.clone(), start.clone());
                move || {
                    start.wait();
                    while sender.try_send(message.clone()).is_ok() {}
                    sender
                }
            });
            start.wait();
            drop(receiver);
            let sender = thread.join().unwrap();
            assert_eq!(
                Arc::strong_count(&message),
                1,
                "what is sent to nobody is dropped"
            );
            drop(sender);
        }
    }
}

#[test]
fn a_future_may_be_polled_by_others_each_time() {
    let (sender, receiver) = bounded(1);
    let flags = [(); 3].map(|()| Flag::new());
    let mut recv = pin!(receiver.recv());
    for flag in &flags {
        assert!(poll(recv.as_mut(), flag).is_pending());
    }
    sender.try_send(1).unwrap();
    assert_eq!(flags.map(|flag| flag.is_set()), [false, false, true]);
}

#[test]
fn a_message_may_be_waited_for_and_sent_by_one_task() {
    runtime(1).block_on(async {
        let (sender, receiver) = bounded(1);
        let mut recv = Box::pin(receiver.recv());
        poll_fn(|cx| {
            assert!(recv.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        sender.send(1).await.unwrap();
        yield_now().await;
        assert_eq!(recv.await, Ok(1));
    });
}

#[test]
#[should_panic = "cannot have so many places"]
fn a_channel_with_more_places_than_can_be_is_refused() {
    bounded::<u8>((usize::MAX >> 1) + 6);
}

#[test]
#[should_panic = "cannot have so many places"]
fn so_is_one_with_as_many_places_as_there_are_numbers() {
    bounded::<u8>(usize::MAX);
}
