//! Channels: by force, weak, as streams and sinks, where two meet, and in statics.

mod common;

use common::{Flag, poll};
use executor::{
    block_on_simple,
    sync::channel::{
        Receiver, RecvError, SendError, Sender, StaticChannel, TryRecvError, TrySendError, bounded,
        unbounded,
    },
};
use futures_core::{FusedStream, Stream};
use futures_sink::Sink;
use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// One of each kind that holds at least two.
fn both_kinds<T>() -> [(Sender<T>, Receiver<T>); 2] {
    [bounded(2), unbounded()]
}

#[test]
fn a_message_by_force_replaces_the_oldest() {
    for capacity in [1, 2, 3, 8] {
        let (sender, receiver) = bounded(capacity);
        for number in 0..capacity {
            assert_eq!(sender.force_send(number), Ok(None));
        }
        for number in 0..20 {
            assert_eq!(sender.force_send(capacity + number), Ok(Some(number)));
            assert_eq!(receiver.len(), capacity);
        }
        for number in 20..20 + capacity {
            assert_eq!(receiver.try_recv(), Ok(number));
        }
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sender.try_send(0), Ok(()));
    }
    let (sender, receiver) = unbounded();
    assert_eq!(sender.force_send(1), Ok(None));
    assert_eq!(sender.force_send(2), Ok(None));
    assert_eq!(receiver.len(), 2);
}

#[test]
fn by_force_also_what_somebody_was_already_given_is_replaced() {
    let (sender, receiver) = bounded(1);
    let flag = Flag::new();
    let mut recv = pin!(receiver.recv());
    assert!(poll(recv.as_mut(), &flag).is_pending());
    sender.try_send(1).unwrap();
    assert!(flag.is_set());
    assert_eq!(sender.force_send(2), Ok(Some(1)));
    assert_eq!(poll(recv.as_mut(), &flag), Poll::Ready(Ok(2)));
}

#[test]
fn by_force_there_may_be_one_more_than_places_while_those_are_promised() {
    for capacity in [1, 2, 3, 4] {
        let (sender, receiver) = bounded(capacity);
        let flag = Flag::new();
        for _ in 0..capacity {
            sender.try_send(0).unwrap();
        }
        let mut sends: Vec<_> = (1..=capacity).map(|n| Box::pin(sender.send(n))).collect();
        for send in &mut sends {
            assert!(poll(send.as_mut(), &flag).is_pending());
        }
        for _ in 0..capacity {
            assert_eq!(receiver.try_recv(), Ok(0));
        }
        // All places are promised, and no message is there.
        assert_eq!(sender.force_send(7), Ok(None));
        assert_eq!(sender.force_send(8), Ok(Some(7)));
        for send in &mut sends {
            assert_eq!(poll(send.as_mut(), &flag), Poll::Ready(Ok(())));
        }
        assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
        assert_eq!(receiver.len(), capacity);
        assert_eq!(sender.force_send(10), Ok(Some(8)));
        for number in (1..=capacity).chain([10]) {
            assert_eq!(receiver.try_recv(), Ok(number));
        }
        // And no place more after that.
        for _ in 0..capacity {
            sender.try_send(0).unwrap();
        }
        assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
    }
}

#[test]
fn the_end_is_heard_of_when_the_last_message_had_no_place() {
    let (sender, receiver) = bounded(1);
    let flag = Flag::new();
    sender.try_send(0).unwrap();
    let mut send = Box::pin(sender.send(1));
    assert!(poll(send.as_mut(), &flag).is_pending());
    assert_eq!(receiver.try_recv(), Ok(0));
    assert_eq!(sender.force_send(2), Ok(None));
    sender.close();
    assert_eq!(receiver.try_recv(), Ok(2));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn weak_ends_do_not_keep_it_open() {
    for (sender, receiver) in both_kinds() {
        let (weak_sender, weak_receiver) = (sender.downgrade(), receiver.downgrade());
        let second = weak_sender.upgrade().unwrap();
        assert!(second.same_channel(&sender));
        assert!(
            weak_receiver
                .clone()
                .upgrade()
                .unwrap()
                .same_channel(&receiver)
        );
        assert_eq!(sender.sender_count(), 2);
        assert_eq!(sender.receiver_count(), 1);
        drop(sender);
        second.try_send(1).unwrap();
        drop(second);
        assert!(weak_sender.clone().upgrade().is_none());
        assert_eq!(receiver.try_recv(), Ok(1));
        assert!(weak_receiver.upgrade().is_none(), "it is closed");
    }
    let [(sender, _), (other, _)] = both_kinds::<u8>();
    assert!(!sender.same_channel(&other));
}

fn next<T>(receiver: &mut Receiver<T>, flag: &Arc<Flag>) -> Poll<Option<T>> {
    let waker = Waker::from(flag.clone());
    Pin::new(receiver).poll_next(&mut Context::from_waker(&waker))
}

#[test]
fn a_receiver_is_a_stream() {
    for (sender, mut receiver) in both_kinds().into_iter().chain([bounded(0)]) {
        let flag = Flag::new();
        assert!(next(&mut receiver, &flag).is_pending());
        assert!(next(&mut receiver, &flag).is_pending());
        sender.try_send(1).unwrap();
        assert!(flag.is_set());
        assert_eq!(next(&mut receiver, &flag), Poll::Ready(Some(1)));
        assert!(!receiver.is_terminated());
        assert!(next(&mut receiver, &flag).is_pending());
        sender.try_send(2).unwrap();
        drop(sender);
        assert!(!receiver.is_terminated() || receiver.capacity() == Some(0));
        assert_eq!(next(&mut receiver, &flag), Poll::Ready(Some(2)));
        assert_eq!(next(&mut receiver, &flag), Poll::Ready(None));
        assert!(receiver.is_terminated());
        assert_eq!(next(&mut receiver, &flag), Poll::Ready(None));
        assert_eq!(receiver.size_hint(), (0, Some(0)));
    }
}

#[test]
fn a_stream_that_is_dropped_while_it_waits_leaves_its_message_to_others() {
    for (sender, receiver) in both_kinds().into_iter().chain([bounded(0)]) {
        let flag = Flag::new();
        let mut second = receiver.clone();
        assert!(next(&mut second, &flag).is_pending());
        sender.try_send(1).unwrap();
        drop(second);
        assert_eq!(receiver.try_recv(), Ok(1));
    }
}

#[test]
fn a_sender_is_a_sink() {
    let (mut sender, receiver) = bounded(1);
    let flag = Flag::new();
    let waker = Waker::from(flag.clone());
    let cx = &mut Context::from_waker(&waker);
    let mut sink = Pin::new(&mut sender);
    assert_eq!(sink.as_mut().poll_ready(cx), Poll::Ready(Ok(())));
    assert_eq!(sink.as_mut().start_send(1), Ok(()));
    assert_eq!(sink.as_mut().poll_flush(cx), Poll::Ready(Ok(())));
    // One more than fits.
    assert_eq!(sink.as_mut().poll_ready(cx), Poll::Ready(Ok(())));
    assert_eq!(sink.as_mut().start_send(2), Ok(()));
    assert!(sink.as_mut().poll_flush(cx).is_pending());
    assert!(sink.as_mut().poll_ready(cx).is_pending());
    assert!(!flag.is_set());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(flag.is_set());
    assert_eq!(sink.as_mut().poll_ready(cx), Poll::Ready(Ok(())));
    assert_eq!(receiver.try_recv(), Ok(2));
    // Closing flushes, and lets this sender go.
    assert_eq!(sink.as_mut().start_send(3), Ok(()));
    assert_eq!(sink.as_mut().start_send(4), Ok(()));
    assert!(sink.as_mut().poll_close(cx).is_pending());
    assert!(!receiver.is_closed());
    assert_eq!(receiver.try_recv(), Ok(3));
    assert_eq!(sink.as_mut().poll_close(cx), Poll::Ready(Ok(())));
    assert_eq!(sink.as_mut().poll_close(cx), Poll::Ready(Ok(())));
    assert!(receiver.is_closed());
    assert_eq!(sink.as_mut().start_send(5), Err(SendError(5)));
    drop(sender);
    assert_eq!(receiver.try_recv(), Ok(4));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn a_sink_gives_its_place_up_when_it_is_dropped() {
    let (sender, receiver) = bounded(1);
    let flag = Flag::new();
    let waker = Waker::from(flag);
    let cx = &mut Context::from_waker(&waker);
    let mut second = sender.clone();
    for number in [1, 2] {
        assert_eq!(Pin::new(&mut second).start_send(number), Ok(()));
    }
    assert!(Pin::new(&mut second).poll_flush(cx).is_pending());
    assert_eq!(receiver.try_recv(), Ok(1));
    drop(second);
    assert_eq!(sender.try_send(3), Ok(()));
    assert_eq!(receiver.try_recv(), Ok(3));
}

#[test]
fn who_sends_and_who_receives_meet() {
    let (sender, receiver) = bounded(0);
    assert_eq!(sender.capacity(), Some(0));
    assert!(sender.is_full() && sender.is_empty());
    assert_eq!(
        sender.try_send(1),
        Err(TrySendError::Full(1)),
        "nobody waits"
    );
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    let [sends, receives] = [(); 2].map(|()| Flag::new());
    let mut send = Box::pin(sender.send(1));
    assert!(poll(send.as_mut(), &sends).is_pending());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(sends.is_set());
    assert_eq!(poll(send.as_mut(), &sends), Poll::Ready(Ok(())));
    let mut recv = Box::pin(receiver.recv());
    assert!(poll(recv.as_mut(), &receives).is_pending());
    assert_eq!(sender.try_send(2), Ok(()));
    assert_eq!(
        sender.try_send(3),
        Err(TrySendError::Full(3)),
        "he has one already"
    );
    assert_eq!(
        sender.force_send(4),
        Ok(Some(4)),
        "there is none to replace"
    );
    assert!(receives.is_set());
    assert_eq!(poll(recv.as_mut(), &receives), Poll::Ready(Ok(2)));
}

#[test]
fn what_met_somebody_who_is_gone_is_received_in_order() {
    let (sender, receiver) = bounded(0);
    let flag = Flag::new();
    let mut waiting = [(); 4].map(|()| Box::pin(receiver.recv()));
    for recv in &mut waiting {
        assert!(poll(recv.as_mut(), &flag).is_pending());
    }
    for number in 0..3 {
        sender.try_send(number).unwrap();
    }
    assert!(
        receiver.is_empty(),
        "they are in the hands of those who wait"
    );
    let [first, second, mut third, mut last] = waiting;
    assert_eq!(
        poll(third.as_mut(), &flag),
        Poll::Ready(Ok(0)),
        "who is polled first has the oldest"
    );
    drop(second);
    assert_eq!(
        poll(last.as_mut(), &flag),
        Poll::Ready(Ok(1)),
        "one was promised to it instead"
    );
    // The sender waits, for the only receiver has one already; and another one is sent before what he waits with.
    let mut late = pin!(sender.send(3));
    assert!(poll(late.as_mut(), &flag).is_pending());
    assert_eq!(receiver.try_recv(), Ok(2), "that was sent before");
    assert_eq!(poll(late.as_mut(), &flag), Poll::Ready(Ok(())));
    assert_eq!(
        receiver.try_recv(),
        Err(TryRecvError::Empty),
        "it is promised"
    );
    drop(first);
    assert_eq!(receiver.try_recv(), Ok(3));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn nobody_who_waits_to_meet_hears_of_the_end_before_the_last_message() {
    let (sender, receiver) = bounded(0);
    let [flag, end] = [(); 2].map(|()| Flag::new());
    let mut first = Box::pin(receiver.recv());
    let mut second = Box::pin(receiver.recv());
    let mut third = Box::pin(receiver.recv());
    for recv in [&mut first, &mut second] {
        assert!(poll(recv.as_mut(), &flag).is_pending());
    }
    assert_eq!(sender.try_send(1), Ok(()));
    assert!(sender.close());
    assert_eq!(sender.try_send(2), Err(TrySendError::Closed(2)));
    assert_eq!(
        receiver.try_recv(),
        Err(TryRecvError::Empty),
        "it is promised"
    );
    assert!(
        poll(third.as_mut(), &end).is_pending(),
        "so one may still come"
    );
    drop(first);
    assert!(!end.is_set());
    assert_eq!(poll(second.as_mut(), &flag), Poll::Ready(Ok(1)));
    assert!(end.is_set(), "that was the last");
    assert_eq!(poll(third.as_mut(), &end), Poll::Ready(Err(RecvError)));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));

    // Given up by all to whom it was promised, it is for who comes next.
    let (sender, receiver) = bounded(0);
    let mut only = Box::pin(receiver.recv());
    assert!(poll(only.as_mut(), &flag).is_pending());
    assert_eq!(sender.try_send(1), Ok(()));
    sender.close();
    drop(only);
    assert_eq!(block_on_simple(receiver.recv()), Ok(1));
    assert_eq!(block_on_simple(receiver.recv()), Err(RecvError));

    // Who waits to send is refused at once, whatever is on its way.
    let (sender, receiver) = bounded(0);
    let mut only = Box::pin(receiver.recv());
    assert!(poll(only.as_mut(), &flag).is_pending());
    assert_eq!(sender.try_send(1), Ok(()));
    let mut late = pin!(sender.send(9));
    assert!(poll(late.as_mut(), &flag).is_pending());
    sender.close();
    assert_eq!(poll(late.as_mut(), &flag), Poll::Ready(Err(SendError(9))));
    assert_eq!(poll(only.as_mut(), &flag), Poll::Ready(Ok(1)));
}

#[test]
fn a_send_that_has_met_somebody_has_sent_though_it_is_dropped() {
    let (sender, receiver) = bounded(0);
    let flag = Flag::new();
    for number in [1, 2] {
        let mut send = Box::pin(sender.send(number));
        assert!(poll(send.as_mut(), &flag).is_pending());
        assert_eq!(receiver.try_recv(), Ok(number));
        if number == 2 {
            assert_eq!(send.as_mut().cancel(), None, "it tells so");
        }
    }
    let mut send = Box::pin(sender.send(3));
    assert!(poll(send.as_mut(), &flag).is_pending());
    drop(send);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn nothing_of_a_rendezvous_is_left_behind() {
    let message = Arc::new(());
    let (sender, receiver) = bounded(0);
    let flag = Flag::new();
    {
        let mut waiting = [(); 3].map(|()| Box::pin(receiver.recv()));
        for recv in &mut waiting {
            assert!(poll(recv.as_mut(), &flag).is_pending());
        }
        for _ in 0..3 {
            sender.try_send(message.clone()).unwrap();
        }
        let [first, second, third] = waiting;
        drop((second, third));
        // One is promised to somebody who never comes back.
        std::mem::forget(first);
    }
    assert_eq!(Arc::strong_count(&message), 4);
    drop(receiver);
    assert_eq!(Arc::strong_count(&message), 2, "the others are free");
    drop(sender);
    assert_eq!(Arc::strong_count(&message), 1);
}

#[test]
fn a_static_channel_needs_no_ends() {
    static CHANNEL: StaticChannel<usize, 3> = StaticChannel::new();
    assert_eq!(CHANNEL.capacity(), 3);
    for round in 0..10 {
        for number in 0..3 {
            assert_eq!(CHANNEL.try_send(round * number), Ok(()));
        }
        assert!(CHANNEL.is_full());
        assert_eq!(CHANNEL.try_send(0), Err(TrySendError::Full(0)));
        for number in 0..3 {
            assert_eq!(block_on_simple(CHANNEL.recv()), Ok(round * number));
        }
        assert!(CHANNEL.is_empty());
    }
    let one = StaticChannel::<_, 1>::new();
    let flag = Flag::new();
    for number in 0..10 {
        assert_eq!(one.try_send(number), Ok(()));
        let mut send = pin!(one.send(number));
        assert!(poll(send.as_mut(), &flag).is_pending());
        assert_eq!(one.try_recv(), Ok(number));
        assert_eq!(poll(send.as_mut(), &flag), Poll::Ready(Ok(())));
        assert_eq!(one.len(), 1);
        assert_eq!(one.try_recv(), Ok(number));
        assert_eq!(one.try_recv(), Err(TryRecvError::Empty));
    }
    assert!(one.close() && !one.close() && one.is_closed());
    assert_eq!(block_on_simple(one.recv()), Err(RecvError));
}

#[test]
fn nothing_of_a_static_channel_is_left_behind() {
    let message = Arc::new(());
    let channel = StaticChannel::<_, 5>::default();
    for _ in 0..3 {
        channel.try_send(message.clone()).unwrap();
    }
    drop(channel.try_recv());
    drop(channel);
    assert_eq!(Arc::strong_count(&message), 1);
}
