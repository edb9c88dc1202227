//! One value, from a sender to a receiver: sent, given up and waited for at the same time.

use super::{
    count::Count,
    drops::{Drops, Value},
    items::Steps,
    kept::Kept,
};
use executor::sync::oneshot::{self, Receiver, Sender, error::TryRecvError};
use loom::thread;
use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// A channel, with what a model needs beside it.
struct Model {
    steps: Arc<Steps>,
    drops: Drops,
    sender: Option<Sender<Value>>,
    receiver: Option<Receiver<Value>>,
}

impl Model {
    fn new() -> Self {
        let (sender, receiver) = oneshot::channel();
        Self {
            steps: Arc::new(Steps::new()),
            drops: Drops::default(),
            sender: Some(sender),
            receiver: Some(receiver),
        }
    }

    /// In another thread. Whether it was sent.
    fn send(&mut self) -> thread::JoinHandle<bool> {
        let (steps, drops) = (self.steps.clone(), self.drops.clone());
        let sender = self.sender.take().unwrap();
        thread::spawn(move || {
            steps.step();
            sender.send(drops.value(7)).is_ok()
        })
    }

    /// In another thread.
    fn drop_sender(&mut self) -> thread::JoinHandle<()> {
        let (steps, sender) = (self.steps.clone(), self.sender.take());
        thread::spawn(move || {
            steps.step();
            drop(sender);
        })
    }

    fn receiver(&mut self) -> &mut Receiver<Value> {
        self.receiver.as_mut().unwrap()
    }

    /// Polls the receiver where it is: it may be moved.
    fn poll(&mut self, waker: &Waker) -> Poll<Option<usize>> {
        let receiver = std::pin::Pin::new(self.receiver());
        let polled = receiver.poll(&mut Context::from_waker(waker));
        polled.map(|received| received.ok().map(|value| value.number))
    }

    fn poll_closed(&mut self, waker: &Waker) -> Poll<()> {
        let sender = self.sender.as_mut().unwrap();
        sender.poll_closed(&mut Context::from_waker(waker))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.sender = None;
        self.receiver = None;
        if !std::thread::panicking() {
            self.drops.assert_none();
        }
    }
}

/// It is sent while the receiver comes: that sees it, or is woken.
#[test]
fn send_against_poll() {
    loom::model(|| {
        let mut model = Model::new();
        let (count, waker) = Count::new();
        let other = model.send();
        model.steps.step();
        let early = model.poll(&waker);
        assert!(other.join().unwrap());
        if early.is_pending() {
            assert_eq!(count.get(), 1, "a wake-up was lost");
            assert_eq!(model.poll(&waker), Poll::Ready(Some(7)));
        }
        drop((model, waker));
        assert!(count.is_alone(), "a waker is left");
    });
}

/// It is sent while the receiver, which waits already, is polled by another task.
#[test]
fn send_against_another_waker() {
    loom::model(|| {
        let mut model = Model::new();
        let ((first_count, first), (count, waker)) = (Count::new(), Count::new());
        assert!(model.poll(&first).is_pending());
        let other = model.send();
        model.steps.step();
        let early = model.poll(&waker);
        other.join().unwrap();
        if early.is_pending() {
            assert_eq!(count.get(), 1, "the wrong one was woken");
            assert_eq!(model.poll(&waker), Poll::Ready(Some(7)));
        }
        drop((model, first, waker));
        assert!(
            first_count.is_alone() && count.is_alone(),
            "a waker is left"
        );
    });
}

/// The sender is dropped while the receiver comes, and comes again.
#[test]
fn drop_against_poll() {
    loom::model(|| {
        let mut model = Model::new();
        let (count, waker) = Count::new();
        let other = model.drop_sender();
        model.steps.step();
        let mut early = model.poll(&waker);
        if early.is_pending() {
            early = model.poll(&waker);
        }
        other.join().unwrap();
        if early.is_pending() {
            assert_eq!(count.get(), 1, "a wake-up was lost");
            early = model.poll(&waker);
        }
        assert_eq!(early, Poll::Ready(None));
        drop((model, waker));
        assert!(count.is_alone(), "a waker is left");
    });
}

/// The receiver closes while it is sent: it was before, and is received, or after, and comes back.
#[test]
fn send_against_close() {
    loom::model(|| {
        let mut model = Model::new();
        let other = model.send();
        model.steps.step();
        model.receiver().close();
        let received = model.receiver().try_recv();
        let sent = other.join().unwrap();
        match received {
            Ok(value) => assert!(sent && value.number == 7),
            Err(error) => assert!(!sent && error == TryRecvError::Closed),
        }
    });
}

/// The receiver, which may wait, is dropped while it is sent by one that may wait for that.
#[test]
fn send_against_drop() {
    for waits in 0..4 {
        loom::model(move || {
            let mut model = Model::new();
            let (count, waker) = Count::new();
            if waits & 1 != 0 {
                assert!(model.poll(&waker).is_pending());
            }
            if waits & 2 != 0 {
                assert!(model.poll_closed(&waker).is_pending());
            }
            let other = model.send();
            model.steps.step();
            model.receiver = None;
            other.join().unwrap();
            drop((model, waker));
            assert!(count.is_alone(), "a waker is left");
        });
    }
}

/// It is tried while it is sent; then both leave, whoever is the last.
#[test]
fn send_against_try() {
    loom::model(|| {
        let mut model = Model::new();
        let other = model.send();
        model.steps.step();
        match model.receiver().try_recv() {
            Ok(value) => assert_eq!(value.number, 7),
            Err(error) => assert_eq!(error, TryRecvError::Empty),
        }
        other.join().unwrap();
    });
}

/// The receiver is dropped, or closes, while the sender begins to wait for that, as another task than before.
#[test]
fn closed_against_drop() {
    for stays in [false, true] {
        loom::model(move || {
            let mut model = Model::new();
            let ((first_count, first), (count, waker)) = (Count::new(), Count::new());
            assert!(model.poll_closed(&first).is_pending());
            let other = {
                let (steps, receiver) = (model.steps.clone(), model.receiver.take());
                thread::spawn(move || {
                    steps.step();
                    let mut receiver = receiver.unwrap();
                    receiver.close();
                    stays.then_some(receiver)
                })
            };
            model.steps.step();
            let early = model.poll_closed(&waker);
            let receiver = other.join().unwrap();
            if early.is_pending() {
                assert_eq!(count.get(), 1, "a wake-up was lost");
                assert!(model.poll_closed(&waker).is_ready());
            }
            let sender = model.sender.take().unwrap();
            assert!(sender.send(model.drops.value(7)).is_err());
            drop((model, receiver, first, waker));
            assert!(
                first_count.is_alone() && count.is_alone(),
                "a waker is left"
            );
        });
    }
}

/// A future that waits for the other to close is given up while it does.
#[test]
fn closed_is_given_up() {
    loom::model(|| {
        let mut model = Model::new();
        let (count, waker) = Count::new();
        let mut sender = model.sender.take().unwrap();
        let other = {
            let (steps, receiver) = (model.steps.clone(), model.receiver.take());
            thread::spawn(move || {
                steps.step();
                drop(receiver);
            })
        };
        model.steps.step();
        let mut closed = Kept::new(sender.closed());
        let _ = closed.poll(&waker);
        closed.drop();
        drop(closed);
        drop(sender);
        other.join().unwrap();
        drop(waker);
        assert!(count.is_alone(), "a waker is left");
    });
}
