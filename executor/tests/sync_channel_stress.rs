//! Channels under many who send, receive and give up; and step by step against a queue.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    spawn,
    sync::channel::{
        Receiver, Recv, RecvError, Send, SendError, Sender, TryRecvError, TrySendError, bounded,
        unbounded,
    },
};
use proptest::prelude::*;
use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::Poll,
    thread,
};

/// How many there are, of all that were ever made.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn message(&self, sender: usize, number: usize) -> Message {
        self.0.fetch_add(1, Relaxed);
        Message {
            sender,
            number,
            alive: self.clone(),
        }
    }
}

/// A message that counts itself.
struct Message {
    sender: usize,
    number: usize,
    alive: Alive,
}

impl Drop for Message {
    fn drop(&mut self) {
        let before = self.alive.0.fetch_sub(1, Relaxed);
        assert_ne!(before, 0, "dropped twice");
    }
}

/// Polls a future at most twice; None: it was not ready, and is dropped.
async fn twice<F: Future>(future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut looks = 0;
    poll_fn(|cx| {
        looks += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if looks == 2 => Poll::Ready(None),
            Poll::Pending => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await
}

const SENDERS: usize = 6;
const RECEIVERS: usize = 6;
const MESSAGES: usize = 600;

/// Sends all of its messages; a third of the tries are given up, and made again. Returns the sum.
async fn send_all(sender: Sender<Message>, number: usize, alive: Alive) -> usize {
    let mut sum = 0;
    for message in 0..MESSAGES {
        let mut tries = number + message;
        loop {
            let next = alive.message(number, message);
            tries += 1;
            let sent = match tries % 3 {
                0 => {
                    let mut send = Box::pin(sender.send(next));
                    match twice(send.as_mut()).await {
                        Some(sent) => Some(sent),
                        // Of a rendezvous, it may have been received since.
                        None => send.as_mut().cancel().is_none().then_some(Ok(())),
                    }
                }
                1 => match sender.try_send(next) {
                    Ok(()) => Some(Ok(())),
                    Err(TrySendError::Full(_)) => None,
                    Err(error) => Some(Err(SendError(error.into_inner()))),
                },
                _ => Some(sender.send(next).await),
            };
            if let Some(sent) = sent {
                sent.unwrap();
                break;
            }
        }
        sum += number * MESSAGES + message;
    }
    sum
}

/// Receives until the end; a third of the tries are given up. Returns the sum.
async fn receive_all(receiver: Receiver<Message>) -> usize {
    let mut sum = 0;
    let mut last = [None; SENDERS];
    for tries in 0.. {
        let received = match tries % 3 {
            0 => match twice(receiver.recv()).await {
                Some(received) => received,
                None => continue,
            },
            _ => receiver.recv().await,
        };
        let Ok(message) = received else {
            break;
        };
        assert!(
            last[message.sender] < Some(message.number),
            "messages of one sender come in order"
        );
        last[message.sender] = Some(message.number);
        sum += message.sender * MESSAGES + message.number;
    }
    sum
}

#[test]
fn all_arrive_once_and_in_order_though_a_third_gives_up() {
    let runtime = runtime(4);
    for (sender, receiver) in [
        bounded(1),
        bounded(2),
        bounded(3),
        bounded(64),
        unbounded(),
        bounded(0),
    ] {
        let alive = Alive::default();
        let (sent, received) = runtime.block_on(async {
            let senders: Vec<_> = (0..SENDERS)
                .map(|number| spawn(send_all(sender.clone(), number, alive.clone())))
                .collect();
            drop(sender);
            let receivers: Vec<_> = (0..RECEIVERS)
                .map(|_| spawn(receive_all(receiver.clone())))
                .collect();
            drop(receiver);
            let (mut sent, mut received) = (0, 0);
            for task in senders {
                sent += task.await.unwrap();
            }
            for task in receivers {
                received += task.await.unwrap();
            }
            (sent, received)
        });
        assert_eq!(sent, received);
        assert_eq!(alive.0.load(Relaxed), 0, "all were dropped");
    }
}

#[test]
fn threads_lose_nothing_when_it_is_closed_in_between() {
    for round in 0..8 {
        for (sender, receiver) in [bounded(1), bounded(4), unbounded(), bounded(0)] {
            let alive = Alive::default();
            let senders: Vec<_> = (0..2)
                .map(|number| {
                    let (sender, alive) = (sender.clone(), alive.clone());
                    thread::spawn(move || {
                        let mut sent = 0;
                        while sender.send_blocking(alive.message(number, sent)).is_ok() {
                            sent += 1;
                        }
                        sent
                    })
                })
                .collect();
            let receivers: Vec<_> = (0..2)
                .map(|_| {
                    let receiver = receiver.clone();
                    thread::spawn(move || {
                        let mut received = 0;
                        while receiver.recv_blocking().is_ok() {
                            received += 1;
                        }
                        received
                    })
                })
                .collect();
            for _ in 0..round {
                thread::yield_now();
            }
            assert!(receiver.close());
            let sent: usize = senders.into_iter().map(|t| t.join().unwrap()).sum();
            let received: usize = receivers.into_iter().map(|t| t.join().unwrap()).sum();
            assert_eq!(sent, received);
            assert_eq!(alive.0.load(Relaxed), 0, "all were dropped");
        }
    }
}

#[test]
fn threads_lose_nothing_by_force() {
    const COUNT: usize = 2_000;
    for capacity in [1, 2, 5] {
        let (sender, receiver) = bounded(capacity);
        let alive = Alive::default();
        let senders: Vec<_> = (0..3)
            .map(|number| {
                let (sender, alive) = (sender.clone(), alive.clone());
                thread::spawn(move || {
                    let mut replaced = 0;
                    for message in 0..COUNT {
                        let message = alive.message(number, message);
                        // One of them waits for its place.
                        if number == 0 {
                            sender.send_blocking(message).unwrap();
                        } else if sender.force_send(message).unwrap().is_some() {
                            replaced += 1;
                        }
                    }
                    replaced
                })
            })
            .collect();
        drop(sender);
        let receivers: Vec<_> = (0..2)
            .map(|_| {
                let receiver = receiver.clone();
                thread::spawn(move || {
                    let mut received = 0;
                    while receiver.recv_blocking().is_ok() {
                        received += 1;
                    }
                    received
                })
            })
            .collect();
        let replaced: usize = senders.into_iter().map(|t| t.join().unwrap()).sum();
        let received: usize = receivers.into_iter().map(|t| t.join().unwrap()).sum();
        assert_eq!(replaced + received, 3 * COUNT);
        assert_eq!(alive.0.load(Relaxed), 0, "all were dropped");
    }
}

/// What may be done to a channel.
#[derive(Clone, Debug)]
enum Step {
    Send,
    TrySend,
    ForceSend,
    Recv,
    TryRecv,
    /// Drops one of the futures that send.
    GiveUpSend(usize),
    /// Drops one of the futures that receive.
    GiveUpRecv(usize),
    /// Polls one of the futures that send.
    PollSend(usize),
    /// Polls one of the futures that receive.
    PollRecv(usize),
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Send),
        3 => Just(Step::TrySend),
        1 => Just(Step::ForceSend),
        6 => Just(Step::Recv),
        3 => Just(Step::TryRecv),
        2 => (0..6usize).prop_map(Step::GiveUpSend),
        2 => (0..6usize).prop_map(Step::GiveUpRecv),
        4 => (0..6usize).prop_map(Step::PollSend),
        4 => (0..6usize).prop_map(Step::PollRecv),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 0..80)
}

/// A future in the model: whether it was granted what it waits for.
struct Waiting<F> {
    future: Pin<Box<F>>,
    number: usize,
    is_granted: bool,
    flag: Arc<Flag>,
}

/// What the channel should be like: messages, and who waits, the first first.
struct Model<'a> {
    capacity: usize,
    /// Places that nobody has. Below 0 for one that was sent by force without any.
    places: isize,
    /// Messages; and whether each has a place.
    queue: VecDeque<(usize, bool)>,
    /// Messages that nobody was granted.
    free: usize,
    senders: Vec<Waiting<Send<'a, usize>>>,
    receivers: Vec<Waiting<Recv<'a, usize>>>,
    is_closed: bool,
}

impl Model<'_> {
    /// Whoever is first gets what there is. Who is granted something was woken.
    fn hand_out(&mut self) {
        for waiting in &mut self.senders {
            if !waiting.is_granted && self.places > 0 && !self.is_closed {
                (self.places, waiting.is_granted) = (self.places - 1, true);
            }
        }
        for waiting in &mut self.receivers {
            if !waiting.is_granted && self.free > 0 {
                (self.free, waiting.is_granted) = (self.free - 1, true);
            }
        }
    }

    fn push(&mut self, number: usize, has_place: bool) {
        self.queue.push_back((number, has_place));
        self.free += 1;
        self.hand_out();
    }

    fn pop(&mut self) -> usize {
        let (number, has_place) = self.queue.pop_front().unwrap();
        self.places += isize::from(has_place);
        self.hand_out();
        number
    }

    fn is_over(&self) -> bool {
        self.is_closed && self.queue.is_empty()
    }

    fn senders_wait(&self) -> bool {
        self.senders.iter().any(|waiting| !waiting.is_granted)
    }

    fn receivers_wait(&self) -> bool {
        self.receivers.iter().any(|waiting| !waiting.is_granted)
    }
}

proptest! {
    /// Against a model that says of each step who has what.
    #[test]
    fn it_does_what_a_queue_does(capacity in 1..5usize, steps in steps()) {
        let (sender, receiver) = bounded(capacity);
        let mut model = Model {
            capacity,
            places: capacity as isize,
            queue: VecDeque::new(),
            free: 0,
            senders: Vec::new(),
            receivers: Vec::new(),
            is_closed: false,
        };
        for (number, step) in steps.into_iter().enumerate() {
            let can_send = model.places > 0 && !model.is_closed && !model.senders_wait();
            let can_receive = model.free > 0 && !model.receivers_wait();
            match step {
                Step::Send => {
                    let (mut future, flag) = (Box::pin(sender.send(number)), Flag::new());
                    match poll(future.as_mut(), &flag) {
                        Poll::Ready(Ok(())) => {
                            prop_assert!(can_send);
                            model.places -= 1;
                            model.push(number, true);
                        }
                        Poll::Ready(Err(error)) => {
                            prop_assert!(model.is_closed);
                            prop_assert_eq!(error, SendError(number));
                        }
                        Poll::Pending => {
                            prop_assert!(!can_send && !model.is_closed);
                            model.senders.push(Waiting { future, number, is_granted: false, flag });
                        }
                    }
                }
                Step::TrySend => match sender.try_send(number) {
                    Ok(()) => {
                        prop_assert!(can_send);
                        model.places -= 1;
                        model.push(number, true);
                    }
                    Err(TrySendError::Full(_)) => prop_assert!(!can_send && !model.is_closed),
                    Err(error) => prop_assert!(error.is_closed() && model.is_closed),
                },
                Step::ForceSend => match sender.force_send(number) {
                    Ok(None) => {
                        prop_assert!(!model.is_closed);
                        prop_assert!(can_send || model.queue.is_empty());
                        model.places -= isize::from(can_send);
                        model.push(number, can_send);
                    }
                    Ok(Some(replaced)) => {
                        prop_assert!(!can_send && !model.is_closed);
                        let (oldest, has_place) = model.queue.pop_front().unwrap();
                        prop_assert_eq!(oldest, replaced);
                        model.queue.push_back((number, has_place));
                    }
                    Err(_) => prop_assert!(model.is_closed),
                },
                Step::Recv => {
                    let (mut future, flag) = (Box::pin(receiver.recv()), Flag::new());
                    match poll(future.as_mut(), &flag) {
                        Poll::Ready(Ok(message)) => {
                            prop_assert!(can_receive);
                            model.free -= 1;
                            prop_assert_eq!(message, model.pop());
                        }
                        Poll::Ready(Err(RecvError)) => prop_assert!(model.is_over()),
                        Poll::Pending => {
                            prop_assert!(!can_receive && !model.is_over());
                            model.receivers.push(Waiting { future, number, is_granted: false, flag });
                        }
                    }
                }
                Step::TryRecv => match receiver.try_recv() {
                    Ok(message) => {
                        prop_assert!(can_receive);
                        model.free -= 1;
                        prop_assert_eq!(message, model.pop());
                    }
                    Err(TryRecvError::Empty) => prop_assert!(!can_receive && !model.is_over()),
                    Err(TryRecvError::Closed) => prop_assert!(model.is_over()),
                },
                Step::GiveUpSend(which) if which < model.senders.len() => {
                    let gone = model.senders.remove(which);
                    model.places += isize::from(gone.is_granted);
                    drop(gone);
                    model.hand_out();
                }
                Step::GiveUpRecv(which) if which < model.receivers.len() => {
                    let gone = model.receivers.remove(which);
                    model.free += usize::from(gone.is_granted);
                    drop(gone);
                    model.hand_out();
                }
                Step::PollSend(which) if which < model.senders.len() => {
                    let waiting = &mut model.senders[which];
                    match poll(waiting.future.as_mut(), &waiting.flag) {
                        Poll::Pending => prop_assert!(!waiting.is_granted && !model.is_closed),
                        Poll::Ready(sent) => {
                            let Waiting { number, is_granted, .. } = model.senders.remove(which);
                            if model.is_closed {
                                prop_assert_eq!(sent, Err(SendError(number)));
                                model.places += isize::from(is_granted);
                            } else {
                                prop_assert_eq!(sent, Ok(()));
                                prop_assert!(is_granted);
                                model.push(number, true);
                            }
                        }
                    }
                }
                Step::PollRecv(which) if which < model.receivers.len() => {
                    let waiting = &mut model.receivers[which];
                    match poll(waiting.future.as_mut(), &waiting.flag) {
                        Poll::Pending => prop_assert!(!waiting.is_granted && !model.is_over()),
                        Poll::Ready(received) => {
                            let is_granted = model.receivers.remove(which).is_granted;
                            if is_granted {
                                prop_assert_eq!(received, Ok(model.pop()));
                            } else {
                                prop_assert_eq!(received, Err(RecvError));
                                prop_assert!(model.is_over());
                            }
                        }
                    }
                }
                Step::Close => {
                    prop_assert_eq!(sender.close(), !model.is_closed);
                    model.is_closed = true;
                }
                _ => {}
            }
            let most = model.queue.len().min(model.capacity);
            prop_assert_eq!(receiver.len(), most);
            prop_assert_eq!(sender.is_closed(), model.is_closed);
            for waiting in &model.senders {
                prop_assert_eq!(waiting.flag.is_set(), waiting.is_granted || model.is_closed);
            }
            for waiting in &model.receivers {
                prop_assert_eq!(waiting.flag.is_set(), waiting.is_granted || model.is_over());
            }
        }
    }
}
