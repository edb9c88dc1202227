//! Messages for all: read while they are overwritten, dropped by the last, waited for.

use super::{
    count::Count,
    drops::{Drops, Value},
    items::Steps,
    kept::Kept,
};
use executor::sync::broadcast::{
    self, Receiver, Sender,
    error::{RecvError, TryRecvError},
};
use loom::thread;
use std::{
    sync::{Arc, Mutex},
    task::Poll,
};

fn number(received: Result<Value, TryRecvError>) -> Result<usize, TryRecvError> {
    received.map(|value| value.number)
}

/// Receives in another thread: once, or what is there.
fn receive(
    steps: &Arc<Steps>,
    mut receiver: Receiver<Value>,
) -> thread::JoinHandle<(Result<usize, TryRecvError>, Receiver<Value>)> {
    let steps = steps.clone();
    thread::spawn(move || {
        steps.step();
        (number(receiver.try_recv()), receiver)
    })
}

fn channel() -> (Arc<Steps>, Drops, Sender<Value>, Receiver<Value>) {
    let (sender, receiver) = broadcast::channel(1);
    (Arc::new(Steps::new()), Drops::default(), sender, receiver)
}

/// A receiver reads the only message while it is overwritten, twice.
#[test]
fn read_against_overwrite() {
    loom::model(|| {
        let (steps, drops, sender, receiver) = channel();
        sender.send(drops.value(0)).ok().unwrap();
        let other = receive(&steps, receiver);
        steps.step();
        for next in 1..3 {
            sender.send(drops.value(next)).ok().unwrap();
        }
        let (received, mut receiver) = other.join().unwrap();
        let missed = match received {
            Ok(0) => 1,
            Err(TryRecvError::Lagged(missed @ 1..=2)) => 2 - missed,
            _ => panic!("{received:?}"),
        };
        let second = number(receiver.try_recv());
        match missed {
            0 => assert_eq!(second, Ok(2)),
            _ => assert_eq!(second, Err(TryRecvError::Lagged(missed))),
        }
        drop((sender, receiver));
        drops.assert_none();
    });
}

/// Two receivers read the same message: it is dropped by the last, once.
#[test]
fn the_last_reader_drops() {
    loom::model(|| {
        let (steps, drops, sender, mut receiver) = channel();
        sender.subscribe();
        let other = sender.subscribe();
        sender.send(drops.value(0)).ok().unwrap();
        let other = receive(&steps, other);
        steps.step();
        assert_eq!(number(receiver.try_recv()), Ok(0));
        let (received, other) = other.join().unwrap();
        assert_eq!(received, Ok(0));
        drops.assert_none();
        assert!(sender.is_empty());
        drop(other);
        assert_eq!(number(receiver.try_recv()), Err(TryRecvError::Empty));
    });
}

/// A receiver that has not read leaves while another reads, and while it is overwritten.
#[test]
fn leave_against_overwrite() {
    loom::model(|| {
        let (steps, drops, sender, receiver) = channel();
        let mut stays = sender.subscribe();
        sender.send(drops.value(0)).ok().unwrap();
        let other = {
            let steps = steps.clone();
            thread::spawn(move || {
                steps.step();
                drop(receiver);
            })
        };
        steps.step();
        sender.send(drops.value(1)).ok().unwrap();
        other.join().unwrap();
        drops.assert_alive(1);
        assert_eq!(number(stays.try_recv()), Err(TryRecvError::Lagged(1)));
        assert_eq!(number(stays.try_recv()), Ok(1));
        drops.assert_none();
    });
}

/// Something is sent while somebody comes: it is seen, or he is woken.
#[test]
fn send_against_wait() {
    loom::model(|| {
        let (steps, drops, sender, mut receiver) = channel();
        let (count, waker) = Count::new();
        let other = {
            let (steps, sender, value) = (steps.clone(), sender.clone(), drops.value(0));
            thread::spawn(move || {
                steps.step();
                sender.send(value).ok().unwrap();
            })
        };
        let mut recv = Kept::new(receiver.recv());
        steps.step();
        let early = recv.poll(&waker);
        other.join().unwrap();
        match early {
            Poll::Ready(received) => assert_eq!(received.ok().unwrap().number, 0),
            Poll::Pending => {
                assert_eq!(count.get(), 1, "a wake-up was lost");
                assert!(matches!(recv.poll(&waker), Poll::Ready(Ok(_))));
            }
        }
        recv.drop();
        drops.assert_none();
    });
}

/// The last of two senders is dropped while somebody comes, and another receiver leaves.
#[test]
fn end_against_wait() {
    loom::model(|| {
        let (steps, _, sender, mut receiver) = channel();
        let (count, waker) = Count::new();
        let other = {
            let (steps, sender) = (steps.clone(), sender.clone());
            thread::spawn(move || {
                steps.step();
                drop(sender);
            })
        };
        let mut recv = Kept::new(receiver.recv());
        steps.step();
        drop(sender);
        let early = recv.poll(&waker);
        other.join().unwrap();
        if early.is_pending() {
            assert_eq!(count.get(), 1, "a wake-up was lost");
            assert!(matches!(
                recv.poll(&waker),
                Poll::Ready(Err(RecvError::Closed))
            ));
        }
        recv.drop();
    });
}

/// The last receiver leaves while a sender waits for that.
#[test]
fn closed_against_leave() {
    loom::model(|| {
        let (steps, _, sender, receiver) = channel();
        let (count, waker) = Count::new();
        let other = {
            let steps = steps.clone();
            thread::spawn(move || {
                steps.step();
                drop(receiver);
            })
        };
        let mut closed = Kept::new(sender.closed());
        steps.step();
        let early = closed.poll(&waker);
        other.join().unwrap();
        if early.is_pending() {
            assert_eq!(count.get(), 1, "a wake-up was lost");
            assert!(closed.poll(&waker).is_ready());
        }
        closed.drop();
    });
}

/// A message whose clone is made by overwriting it.
struct Overwriting(Arc<Mutex<Option<Sender<Overwriting>>>>, usize);

impl Clone for Overwriting {
    fn clone(&self) -> Self {
        if let Some(sender) = &*self.0.lock().unwrap() {
            for next in 1..4 {
                let next = Overwriting(self.0.clone(), self.1 + next);
                sender.send(next).ok().unwrap();
            }
        }
        Self(self.0.clone(), self.1)
    }
}

/// Cells that were left to who reads them come back: there are as many as before, each time.
#[test]
fn spares_come_back() {
    loom::model(|| {
        let (sender, mut receiver) = broadcast::channel(1);
        let again = Arc::new(Mutex::new(Some(sender.clone())));
        sender.send(Overwriting(again.clone(), 0)).ok().unwrap();
        for round in 0..4 {
            let read = receiver.try_recv().ok().unwrap();
            assert_eq!(read.1, round * 3);
            assert!(matches!(receiver.try_recv(), Err(TryRecvError::Lagged(2))));
        }
        *again.lock().unwrap() = None;
        assert_eq!(receiver.try_recv().ok().unwrap().1, 12);
    });
}
