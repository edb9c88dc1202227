//! Channels whose messages are for all, as tasks and polled by hand.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    block_on_simple, spawn,
    sync::broadcast::{
        self, Receiver, Sender,
        error::{Lagged, RecvError, RecvTimeoutError, TryRecvError},
    },
    task::yield_now,
    time::Duration,
};
use futures_core::{FusedStream, Stream};
use proptest::prelude::*;
use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    ops::Range,
    panic::{self, AssertUnwindSafe},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};

fn assert_send_sync<T: Send + Sync>(_: &T) {}
fn assert_unpin<T: Unpin>(_: &T) {}

fn send_all(sender: &Sender<i32>, mut messages: Range<i32>) {
    assert!(messages.all(|number| sender.send(number).is_ok()));
}

#[test]
fn ends_and_futures_may_be_sent_and_shared() {
    let (sender, mut receiver) = broadcast::channel::<u8>(1);
    assert_send_sync(&sender);
    assert_send_sync(&sender.downgrade());
    assert_send_sync(&sender.closed());
    assert_send_sync(&receiver);
    assert_unpin(&receiver);
    assert_send_sync(&receiver.recv());
    assert_send_sync(&receiver.into_stream());
}

#[test]
fn each_receiver_gets_what_is_sent_while_it_is_there() {
    let (sender, mut first) = broadcast::channel(4);
    assert_eq!(sender.send(1), Ok(1));
    let mut second = sender.subscribe();
    let mut third = first.resubscribe();
    assert_eq!(sender.send(2), Ok(3));
    assert_eq!([first.len(), second.len()], [2, 1]);
    assert_eq!([first.try_recv(), first.try_recv()], [Ok(1), Ok(2)]);
    assert_eq!([second.try_recv(), third.try_recv()], [Ok(2), Ok(2)]);
    for receiver in [&mut first, &mut second, &mut third] {
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    }
    assert!(first.same_channel(&second) && sender.same_channel(&sender.clone()));
}

#[test]
fn who_comes_too_late_hears_how_much_it_missed_and_goes_on() {
    let (sender, mut slow) = broadcast::channel(2);
    let mut quick = sender.subscribe();
    for number in 0..7 {
        sender.send(number).unwrap();
        assert_eq!(quick.try_recv(), Ok(number));
    }
    assert_eq!(slow.len(), 7);
    assert_eq!(sender.len(), 2);
    assert_eq!(slow.try_recv(), Err(TryRecvError::Lagged(5)));
    assert_eq!(slow.len(), 2);
    sender.send(7).unwrap();
    assert_eq!(block_on_simple(slow.recv()), Err(RecvError::Lagged(1)));
    drop(sender);
    assert_eq!([slow.try_recv(), slow.try_recv()], [Ok(6), Ok(7)]);
    assert_eq!(slow.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(block_on_simple(slow.recv()), Err(RecvError::Closed));
}

#[test]
fn there_is_room_for_as_many_as_the_next_power_of_two() {
    let (sender, mut receiver) = broadcast::channel(3);
    send_all(&sender, 0..4);
    assert_eq!(receiver.try_recv(), Ok(0));
    send_all(&sender, 4..6);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Lagged(1)));
}

#[test]
fn a_channel_has_room_for_something() {
    for capacity in [0, 1 + (usize::MAX >> 1)] {
        assert!(panic::catch_unwind(|| broadcast::channel::<()>(capacity)).is_err());
    }
}

#[test]
fn who_waits_is_woken_by_a_message_or_the_end() {
    let (sender, mut receiver) = broadcast::channel(1);
    let (flag, last) = (Flag::new(), sender.clone());
    {
        let mut recv = pin!(receiver.recv());
        assert!(poll(recv.as_mut(), &flag).is_pending());
        sender.send(1).unwrap();
        assert_eq!(flag.count(), 1);
        assert_eq!(poll(recv.as_mut(), &flag), Poll::Ready(Ok(1)));
    }
    let mut recv = pin!(receiver.recv());
    assert!(poll(recv.as_mut(), &flag).is_pending());
    drop(sender);
    assert!(poll(recv.as_mut(), &flag).is_pending());
    drop(last);
    assert_eq!(flag.count(), 2);
    assert_eq!(
        poll(recv.as_mut(), &flag),
        Poll::Ready(Err(RecvError::Closed))
    );
}

#[test]
fn a_future_that_is_dropped_has_received_nothing() {
    let (sender, mut receiver) = broadcast::channel(2);
    let flag = Flag::new();
    let mut recv = Box::pin(receiver.recv());
    assert!(poll(recv.as_mut(), &flag).is_pending());
    sender.send(1).unwrap();
    drop(recv);
    assert_eq!(Arc::strong_count(&flag), 1);
    assert_eq!(receiver.try_recv(), Ok(1));
}

#[test]
fn nobody_to_send_to_is_an_error_until_there_is_somebody() {
    let sender = Sender::new(2);
    assert_eq!(sender.send(1).unwrap_err().0, 1);
    assert_eq!(sender.receiver_count(), 0);
    block_on_simple(sender.closed());
    let mut receiver = sender.subscribe();
    assert_eq!(sender.send(2), Ok(1));
    assert_eq!(receiver.try_recv(), Ok(2));
    let flag = Flag::new();
    let mut closed = pin!(sender.closed());
    assert!(poll(closed.as_mut(), &flag).is_pending());
    drop(receiver);
    assert!(flag.is_set());
    // There is one again before it has looked.
    let receiver = sender.subscribe();
    assert!(poll(closed.as_mut(), &flag).is_pending());
    drop(receiver);
    assert!(poll(closed.as_mut(), &flag).is_ready());
}

#[test]
fn weak_senders_do_not_keep_it_open() {
    let (sender, receiver) = broadcast::channel::<u8>(1);
    let weak = sender.downgrade();
    let other = weak.clone();
    let strong = weak.upgrade().unwrap();
    assert_eq!(
        (receiver.sender_strong_count(), receiver.sender_weak_count()),
        (2, 2)
    );
    drop((sender, other));
    assert!(!receiver.is_closed());
    assert_eq!((weak.strong_count(), weak.weak_count()), (1, 1));
    drop(strong);
    assert!(receiver.is_closed());
    assert!(weak.upgrade().is_none());
}

/// Counts itself, and its clones.
struct Counted(Arc<AtomicUsize>, usize);

impl Counted {
    fn new(count: &Arc<AtomicUsize>, number: usize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count.clone(), number)
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(&self.0, self.1)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn a_message_is_dropped_when_all_have_it_or_it_is_overwritten() {
    let count = Arc::new(AtomicUsize::new(0));
    let (sender, mut first) = broadcast::channel(2);
    let second = sender.subscribe();
    let send = |number| drop(sender.send(Counted::new(&count, number)));
    send(0);
    drop(first.try_recv());
    assert_eq!(count.load(Relaxed), 1, "the second has not come yet");
    drop(second);
    assert_eq!(count.load(Relaxed), 0);
    (1..6).for_each(send);
    assert_eq!(count.load(Relaxed), 2);
    drop(first);
    assert_eq!(count.load(Relaxed), 0);
    assert!(sender.is_empty());
}

#[test]
fn a_clone_that_panics_takes_its_message_along_and_no_more() {
    struct Touchy(Counted);
    impl Clone for Touchy {
        fn clone(&self) -> Self {
            assert_ne!(self.0.1, 0);
            Self(self.0.clone())
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let (sender, mut receiver) = broadcast::channel(2);
    for number in 0..2 {
        let _ = sender.send(Touchy(Counted::new(&count, number)));
    }
    let tried = panic::catch_unwind(AssertUnwindSafe(|| drop(receiver.try_recv())));
    assert!(tried.is_err());
    assert_eq!(count.load(Relaxed), 1);
    assert_eq!(receiver.try_recv().ok().unwrap().0.1, 1);
    assert_eq!(count.load(Relaxed), 0);
}

/// A message that is overwritten while it is cloned, by a new receiver's doing as well.
#[derive(Clone, Default)]
struct Again(Arc<Mutex<Option<Sender<Message>>>>);

struct Message(Counted, Again);

impl Clone for Message {
    fn clone(&self) -> Self {
        if let Some(sender) = &*self.1.0.lock().unwrap() {
            let mut receiver = sender.subscribe();
            for number in 1..6 {
                let next = Counted::new(&self.0.0, self.0.1 + number);
                assert!(sender.send(Message(next, Again::default())).is_ok());
            }
            assert!(matches!(receiver.try_recv(), Err(TryRecvError::Lagged(3))));
            assert_eq!(receiver.try_recv().ok().unwrap().0.1, self.0.1 + 4);
        }
        Self(self.0.clone(), self.1.clone())
    }
}

#[test]
fn a_message_that_is_overwritten_while_it_is_cloned_is_whole() {
    let count = Arc::new(AtomicUsize::new(0));
    let (sender, mut receiver) = broadcast::channel(2);
    let again = Again::default();
    for round in 0..5 {
        *again.0.lock().unwrap() = Some(sender.clone());
        let first = Message(Counted::new(&count, round * 10), again.clone());
        assert!(sender.send(first).is_ok());
        assert_eq!(receiver.try_recv().ok().unwrap().0.1, round * 10);
        *again.0.lock().unwrap() = None;
        assert!(matches!(receiver.try_recv(), Err(TryRecvError::Lagged(3))));
        for last in [4, 5] {
            assert_eq!(receiver.try_recv().ok().unwrap().0.1, round * 10 + last);
        }
    }
    assert_eq!(count.load(Relaxed), 0);
}

#[test]
fn a_waker_may_send_while_it_is_dropped_or_woken() {
    struct Sends(Sender<()>);
    impl Wake for Sends {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Sends {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (sender, mut receiver) = broadcast::channel(4);
    let mut recv = Box::pin(receiver.recv());
    for _ in 0..2 {
        let waker = Waker::from(Arc::new(Sends(sender.clone())));
        assert!(
            recv.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        drop(waker);
        // Replaced by this, and then woken.
        let _ = poll(recv.as_mut(), &Flag::new());
        drop(recv);
        while receiver.try_recv().is_ok() {}
        recv = Box::pin(receiver.recv());
    }
    let _ = sender.send(());
}

#[test]
fn a_receiver_becomes_a_stream() {
    let (sender, receiver) = broadcast::channel(2);
    let mut stream = pin!(receiver.into_stream());
    let flag = Flag::new();
    let mut next = || {
        let waker = Waker::from(flag.clone());
        stream.as_mut().poll_next(&mut Context::from_waker(&waker))
    };
    assert!(next().is_pending());
    assert!(next().is_pending());
    send_all(&sender, 0..3);
    assert_eq!(flag.count(), 1);
    assert_eq!(next(), Poll::Ready(Some(Err(Lagged(1)))));
    assert_eq!(next(), Poll::Ready(Some(Ok(1))));
    assert_eq!(next(), Poll::Ready(Some(Ok(2))));
    assert!(next().is_pending());
    drop(sender);
    assert_eq!(flag.count(), 2);
    assert_eq!(next(), Poll::Ready(None));
    assert!(stream.is_terminated());
}

#[test]
fn a_stream_that_waits_may_be_dropped() {
    let (sender, receiver) = broadcast::channel(2);
    let mut stream = Box::pin(receiver.into_stream());
    let flag = Flag::new();
    let waker = Waker::from(flag.clone());
    assert!(
        stream
            .as_mut()
            .poll_next(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop((stream, waker));
    assert_eq!(Arc::strong_count(&flag), 1);
    assert!(sender.send(1).is_err());
}

#[test]
fn it_is_waited_for_in_threads_and_until_the_time_is_over() {
    let (sender, mut receiver) = broadcast::channel(2);
    let thread = thread::spawn(move || (receiver.blocking_recv(), receiver));
    sender.send(1).unwrap();
    let (received, mut receiver) = thread.join().unwrap();
    assert_eq!(received, Ok(1));
    let short = Duration::from_millis(1);
    runtime(1).block_on(async {
        assert_eq!(
            receiver.recv_timeout(short).await,
            Err(RecvTimeoutError::Elapsed)
        );
        send_all(&sender, 0..3);
        assert_eq!(
            receiver.recv_timeout(short).await,
            Err(RecvTimeoutError::Lagged(1))
        );
        assert_eq!(receiver.recv_timeout(Duration::ZERO).await, Ok(1));
    });
}

/// Receives to the end, a third of the time by futures that are given up at the second look: the sum, and what was missed.
async fn receive_all(mut receiver: Receiver<Counted>, number: usize) -> (usize, u64) {
    let (mut sum, mut missed, mut last) = (0, 0, None);
    for round in number.. {
        let received = if round.is_multiple_of(3) {
            let mut recv = pin!(receiver.recv());
            let mut looks = 0;
            poll_fn(|cx| {
                looks += 1;
                match recv.as_mut().poll(cx) {
                    Poll::Ready(received) => Poll::Ready(Some(received)),
                    Poll::Pending if looks == 2 => Poll::Ready(None),
                    Poll::Pending => {
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
            })
            .await
        } else {
            Some(receiver.recv().await)
        };
        match received {
            None => {}
            Some(Ok(message)) => {
                assert!(last < Some(message.1), "in the order they were sent");
                last = Some(message.1);
                sum += 1;
            }
            Some(Err(RecvError::Lagged(count))) => missed += count,
            Some(Err(RecvError::Closed)) => break,
        }
    }
    (sum, missed)
}

#[test]
fn many_send_and_receive_on_many_cores_and_a_third_of_waits_is_given_up() {
    const MESSAGES: usize = 2000;
    let count = Arc::new(AtomicUsize::new(0));
    for capacity in [1, 4, 64] {
        runtime(4).block_on(async {
            let (sender, receiver) = broadcast::channel(capacity);
            let receivers: Vec<_> = (0..6)
                .map(|number| spawn(receive_all(receiver.resubscribe(), number)))
                .collect();
            // Comes and goes, and never keeps up.
            let guest = {
                let sender = sender.downgrade();
                spawn(async move {
                    while let Some(sender) = sender.upgrade() {
                        let mut receiver = sender.subscribe();
                        drop(sender);
                        yield_now().await;
                        drop(receiver.try_recv());
                    }
                })
            };
            drop(receiver);
            for number in 0..MESSAGES {
                assert!(sender.send(Counted::new(&count, number)).is_ok());
                if number % 8 == 1 {
                    yield_now().await;
                }
            }
            drop(sender);
            for receiver in receivers {
                let (sum, missed) = receiver.await.unwrap();
                assert_eq!(sum as u64 + missed, MESSAGES as u64);
            }
            guest.await.unwrap();
        });
        assert_eq!(count.load(Relaxed), 0);
    }
}

#[test]
fn threads_race_over_one_place() {
    let count = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = broadcast::channel(1);
    thread::scope(|scope| {
        for _ in 0..3 {
            let mut receiver = receiver.resubscribe();
            scope.spawn(move || {
                let mut seen = 0u64;
                loop {
                    match receiver.blocking_recv() {
                        Ok(_) => seen += 1,
                        Err(RecvError::Lagged(missed)) => seen += missed,
                        Err(RecvError::Closed) => break,
                    }
                }
                assert_eq!(seen, 6000);
            });
        }
        drop(receiver);
        for first in 0..3 {
            let (sender, count) = (sender.clone(), &count);
            scope.spawn(move || {
                for number in 0..2000 {
                    assert!(sender.send(Counted::new(count, first + number)).is_ok());
                }
            });
        }
        drop(sender);
    });
    assert_eq!(count.load(Relaxed), 0);
}

/// What may be done to a channel.
#[derive(Clone, Debug)]
enum Step {
    Send,
    Receive(usize),
    Subscribe,
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => Just(Step::Send),
        4 => (0..4usize).prop_map(Step::Receive),
        1 => Just(Step::Subscribe),
        1 => (0..4usize).prop_map(Step::Leave),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    /// Against a model in which each receiver has a queue of its own.
    #[test]
    fn it_does_what_a_queue_for_each_does(log in 0..3u32, steps in steps()) {
        let capacity = 1usize << log;
        let count = Arc::new(AtomicUsize::new(0));
        let sender = Sender::<Counted>::new(capacity);
        let mut receivers: Vec<(Receiver<Counted>, VecDeque<usize>)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Send => {
                    let sent = sender.send(Counted::new(&count, number)).map_err(|_| ());
                    let expected = match receivers.len() { 0 => Err(()), len => Ok(len) };
                    prop_assert_eq!(sent, expected);
                    for (_, queue) in &mut receivers {
                        queue.push_back(number);
                    }
                }
                Step::Subscribe => receivers.push((sender.subscribe(), VecDeque::new())),
                Step::Leave(which) if which < receivers.len() => drop(receivers.remove(which)),
                Step::Receive(which) if which < receivers.len() => {
                    let (receiver, queue) = &mut receivers[which];
                    prop_assert_eq!(receiver.len(), queue.len());
                    let missed = queue.len().saturating_sub(capacity);
                    let expected = if missed != 0 {
                        queue.drain(..missed);
                        Err(TryRecvError::Lagged(missed as u64))
                    } else {
                        queue.pop_front().ok_or(TryRecvError::Empty)
                    };
                    prop_assert_eq!(receiver.try_recv().map(|message| message.1), expected);
                }
                _ => {}
            }
            let longest = receivers.iter().map(|(_, queue)| queue.len()).max().unwrap_or(0);
            prop_assert_eq!(sender.len(), longest.min(capacity));
            prop_assert_eq!(sender.is_empty(), longest == 0);
            prop_assert_eq!(count.load(Relaxed), longest.min(capacity), "no more are kept");
        }
    }
}
