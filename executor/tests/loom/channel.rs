//! Channels: messages in the ring, closing with sends on their way, who waits at either end, and those who give up.
//! Loom watches the slots: it finds two at one, and one who does not see what the other wrote.

use super::{
    count::Count,
    items::Steps,
    kept::{Kept, block_on},
};
use executor::sync::channel::{
    Receiver, RecvError, Sender, StaticChannel, TryRecvError, TrySendError, bounded, unbounded,
};
use loom::{sync::Arc, thread};
use std::{
    mem::ManuallyDrop,
    // Not loom's: it counts, and must not order anything.
    sync::Arc as Message,
    task::Poll,
};

/// A channel, and steps for its models to begin with.
struct Shared<const N: usize> {
    /// Not dropped: where a model fails, it may be in any state.
    channel: ManuallyDrop<StaticChannel<usize, N>>,
    steps: Steps,
}

impl<const N: usize> Shared<N> {
    fn new(messages: usize) -> Arc<Self> {
        let channel = StaticChannel::new();
        for number in 0..messages {
            channel.try_send(number).unwrap();
        }
        Arc::new(Self {
            channel: ManuallyDrop::new(channel),
            steps: Steps::new(),
        })
    }

    fn recv(&self) -> Result<usize, RecvError> {
        block_on(&mut Kept::new(self.channel.recv()))
    }

    fn send(&self, number: usize) {
        block_on(&mut Kept::new(self.channel.send(number))).unwrap();
    }
}

/// Does something in another thread.
fn aside<R: 'static, const N: usize>(
    shared: &Arc<Shared<N>>,
    what: impl FnOnce(&StaticChannel<usize, N>) -> R + 'static,
) -> thread::JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || {
        shared.steps.step();
        what(&shared.channel)
    })
}

/// Two send at once: both messages arrive, also while the one that came first is not there yet.
#[test]
fn two_send() {
    loom::model(|| {
        let shared = Shared::<2>::new(0);
        let other = aside(&shared, |channel| channel.try_send(1).unwrap());
        shared.steps.step();
        shared.channel.try_send(2).unwrap();
        let first = shared.recv().unwrap();
        other.join().unwrap();
        assert_eq!(first + shared.channel.try_recv().unwrap(), 3);
    });
}

/// The slot that is sent to was read just now, and is read again later: with one slot, and with two.
#[test]
fn round_after_round() {
    fn model<const N: usize>() {
        loom::model(|| {
            let shared = Shared::<N>::new(N);
            let other = aside(&shared, |channel| {
                block_on(&mut Kept::new(channel.send(N))).unwrap();
            });
            shared.steps.step();
            for number in 0..=N {
                assert_eq!(shared.recv(), Ok(number));
            }
            other.join().unwrap();
            assert!(shared.channel.is_empty() && !shared.channel.is_full());
        });
    }
    model::<1>();
    model::<2>();
}

/// Two receive at once, so that one may be done before the other who came first; and then sends to the slot that
/// the other is still at.
#[test]
fn two_receive_and_one_sends() {
    loom::model(|| {
        let shared = Shared::<2>::new(2);
        let other = aside(&shared, |channel| channel.try_recv().unwrap());
        shared.steps.step();
        let first = shared.channel.try_recv().unwrap();
        shared.channel.try_send(2).unwrap();
        assert_eq!(first + other.join().unwrap(), 1);
        assert_eq!(shared.channel.try_recv(), Ok(2));
    });
}

/// It is closed while one sends: what was sent is received, and only then is it over.
#[test]
fn close_against_send() {
    loom::model(|| {
        let shared = Shared::<1>::new(0);
        let other = aside(&shared, |channel| channel.try_send(1));
        shared.steps.step();
        assert!(shared.channel.close());
        let received = shared.recv();
        match other.join().unwrap() {
            Ok(()) => assert_eq!(received, Ok(1)),
            Err(error) => {
                assert_eq!(error, TrySendError::Closed(1));
                assert_eq!(received, Err(RecvError));
            }
        }
        assert_eq!(shared.channel.try_recv(), Err(TryRecvError::Closed));
    });
}

/// It is closed while the last message is received: who waits for another hears of it.
#[test]
fn close_against_the_last_message() {
    loom::model(|| {
        let shared = Shared::<2>::new(1);
        let (count, waker) = Count::new();
        let mut waits = Kept::new(shared.channel.recv());
        let other = aside(&shared, |channel| channel.try_recv());
        shared.steps.step();
        let first = waits.poll(&waker);
        shared.channel.close();
        let received = other.join().unwrap();
        match first {
            Poll::Ready(message) => {
                assert_eq!(message, Ok(0));
                assert!(received.is_err());
            }
            Poll::Pending => {
                assert_eq!(received, Ok(0));
                assert_eq!(count.get(), 1, "nobody said that it is over");
                assert_eq!(waits.poll(&waker), Poll::Ready(Err(RecvError)));
            }
        }
        waits.drop();
    });
}

/// It is closed by another than the one who receives the last message.
#[test]
fn close_aside() {
    loom::model(|| {
        let shared = Shared::<2>::new(1);
        assert_eq!(shared.channel.try_recv(), Ok(0));
        shared.send(1);
        let (count, waker) = Count::new();
        let mut first = Kept::new(shared.channel.recv());
        let other = aside(&shared, |channel| {
            channel.close();
        });
        shared.steps.step();
        assert_eq!(first.poll(&waker), Poll::Ready(Ok(1)));
        first.drop();
        let mut second = Kept::new(shared.channel.recv());
        let late = second.poll(&waker);
        other.join().unwrap();
        if late.is_pending() {
            assert_eq!(count.get(), 1, "nobody said that it is over");
            assert_eq!(second.poll(&waker), Poll::Ready(Err(RecvError)));
        }
        second.drop();
        assert_eq!(shared.channel.try_recv(), Err(TryRecvError::Closed));
    });
}

/// Who waits first gives up while a message comes: then the second has it.
#[test]
fn leave_against_send() {
    loom::model(|| {
        let shared = Shared::<1>::new(0);
        let ((_, unused), (count, waker)) = (Count::new(), Count::new());
        let mut first = Kept::new(shared.channel.recv());
        let mut second = Kept::new(shared.channel.recv());
        assert!(first.poll(&unused).is_pending());
        assert!(second.poll(&waker).is_pending());
        let other = aside(&shared, |channel| channel.try_send(1).unwrap());
        shared.steps.step();
        first.drop();
        other.join().unwrap();
        assert_eq!(count.get(), 1, "a message was lost");
        assert_eq!(second.poll(&waker), Poll::Ready(Ok(1)));
        second.drop();
    });
}

/// Runs with both ends, the sender in another thread. They live to the end of the model.
fn ends<R: 'static>(
    (sender, receiver): (Sender<Message<()>>, Receiver<Message<()>>),
    send: impl FnOnce(Sender<Message<()>>, Message<()>) -> R + 'static,
    receive: impl FnOnce(Receiver<Message<()>>) -> usize,
) -> R {
    let message = Message::new(());
    let steps = Arc::new(Steps::new());
    // Keeps the memory: loom does not see what orders its end.
    let kept = (sender.downgrade(), receiver.downgrade());
    let other = {
        let (steps, message) = (steps.clone(), message.clone());
        thread::spawn(move || {
            steps.step();
            send(sender, message)
        })
    };
    steps.step();
    let left = receive(receiver);
    let result = other.join().unwrap();
    assert_eq!(
        Message::strong_count(&message),
        1 + left,
        "a message is left"
    );
    drop(kept);
    result
}

/// The last sender goes while somebody comes to wait: he hears of it.
#[test]
fn last_sender_against_wait() {
    for channel in [|| bounded(1), || unbounded(), || bounded(0)] {
        loom::model(move || {
            ends(
                channel(),
                |sender, message| {
                    drop(message);
                    drop(sender);
                },
                |receiver| {
                    let ended = block_on(&mut Kept::new(receiver.recv()));
                    assert_eq!(ended, Err(RecvError));
                    0
                },
            );
        });
    }
}

/// The last receiver goes while one sends: what he has sent is dropped, by one or the other.
#[test]
fn last_receiver_against_send() {
    for channel in [|| bounded(1), || unbounded()] {
        loom::model(move || {
            let sender = ends(
                channel(),
                |sender, message| {
                    let _ = sender.try_send(message);
                    sender
                },
                |receiver| {
                    drop(receiver);
                    0
                },
            );
            assert!(sender.is_closed());
        });
    }
}

/// The last sender goes after he has sent: it is received before the end.
#[test]
fn last_message_of_the_last_sender() {
    for channel in [|| bounded(1), || unbounded()] {
        loom::model(move || {
            ends(
                channel(),
                |sender, message| sender.try_send(message).unwrap(),
                |receiver| {
                    assert!(block_on(&mut Kept::new(receiver.recv())).is_ok());
                    assert!(block_on(&mut Kept::new(receiver.recv())).is_err());
                    0
                },
            );
        });
    }
}

/// One is sent by force while the oldest is received: none is there twice, and none is lost.
#[test]
fn force_against_receive() {
    loom::model(|| {
        let (sender, receiver) = bounded(1);
        sender.try_send(1).unwrap();
        let kept = receiver.clone();
        let other = thread::spawn(move || {
            let replaced = sender.force_send(2).unwrap();
            (sender, replaced)
        });
        let received = block_on(&mut Kept::new(receiver.recv())).unwrap();
        let (sender, replaced) = other.join().unwrap();
        match replaced {
            Some(1) => assert_eq!(received, 2),
            None => {
                assert_eq!(received, 1);
                assert_eq!(kept.try_recv(), Ok(2));
            }
            other => panic!("{other:?} was replaced"),
        }
        assert_eq!(kept.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sender.try_send(3), Ok(()));
        assert_eq!(sender.try_send(4), Err(TrySendError::Full(4)));
    });
}

/// Two meet; the message goes from one to the other.
#[test]
fn meet() {
    loom::model(|| {
        ends(
            bounded(0),
            |sender, message| {
                block_on(&mut Kept::new(sender.send(message))).unwrap();
            },
            |receiver| {
                assert!(block_on(&mut Kept::new(receiver.recv())).is_ok());
                0
            },
        );
    });
}

/// One gives up waiting while somebody comes to meet him: the message is with the one or the other, or kept.
#[test]
fn leave_against_meeting() {
    loom::model(|| {
        ends(
            bounded(0),
            |sender, message| {
                // Keeps it open.
                let sent = sender.try_send(message).is_ok();
                (sender, sent)
            },
            |receiver| {
                let (_, waker) = Count::new();
                let mut recv = Kept::new(receiver.recv());
                let first = recv.poll(&waker);
                recv.drop();
                // It is dropped with the last receiver.
                drop((first, receiver));
                0
            },
        );
    });
}

/// One who was given a message and gives up passes it on to the next.
#[test]
fn leave_after_meeting() {
    loom::model(|| {
        let (sender, receiver) = bounded(0);
        let ((_, unused), (count, waker)) = (Count::new(), Count::new());
        let mut first = Kept::new(receiver.recv());
        let mut second = Kept::new(receiver.recv());
        assert!(first.poll(&unused).is_pending());
        assert!(second.poll(&waker).is_pending());
        let other = thread::spawn(move || {
            sender.try_send(1).unwrap();
            sender
        });
        first.drop();
        let sender = other.join().unwrap();
        assert_eq!(count.get(), 1, "a message was lost");
        assert_eq!(second.poll(&waker), Poll::Ready(Ok(1)));
        second.drop();
        drop(sender);
    });
}

/// It is closed while a message is promised to one who gives up: the other one has it, and only then is it over.
#[test]
fn close_after_meeting() {
    loom::model(|| {
        let (sender, receiver) = bounded(0);
        let ((_, unused), (count, waker)) = (Count::new(), Count::new());
        let mut first = Kept::new(receiver.recv());
        let mut second = Kept::new(receiver.recv());
        assert!(first.poll(&unused).is_pending());
        assert!(second.poll(&waker).is_pending());
        let other = thread::spawn(move || {
            sender.try_send(1).unwrap();
            sender.close();
            sender
        });
        first.drop();
        let sender = other.join().unwrap();
        assert_eq!(count.get(), 1, "a message was lost");
        assert_eq!(second.poll(&waker), Poll::Ready(Ok(1)));
        second.drop();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
        drop(sender);
    });
}

/// Two messages are promised to two; whoever comes first has the older one, and who comes without a promise overtakes nobody.
#[test]
fn meetings_in_order() {
    loom::model(|| {
        let (sender, receiver) = bounded(0);
        let (_, unused) = Count::new();
        let mut waits = Kept::new(receiver.recv());
        assert!(waits.poll(&unused).is_pending());
        sender.try_send(1).unwrap();
        let other = thread::spawn(move || {
            // Waits, if nobody else came to receive.
            block_on(&mut Kept::new(sender.send(2))).unwrap();
            sender
        });
        let early = receiver.try_recv();
        assert!(
            matches!(early, Ok(1) | Err(TryRecvError::Empty)),
            "{early:?} was sent later"
        );
        let Poll::Ready(promised) = waits.poll(&unused) else {
            panic!("a promise was not kept");
        };
        waits.drop();
        match early {
            Ok(_) => assert_eq!(promised, Ok(2)),
            Err(_) => {
                assert_eq!(promised, Ok(1));
                assert_eq!(block_on(&mut Kept::new(receiver.recv())), Ok(2));
            }
        }
        drop(other.join().unwrap());
    });
}
