//! Channels: what is sent is received, once and in order, also by those who gave up in between.

use super::{Player, contended, crowd, crowd_size};
use crate::{upcalls, watchdog};
use alloc::{sync::Arc, vec, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use executor::{
    Runtime,
    scheduler::tick::torture,
    select, stats,
    sync::{
        Barrier,
        broadcast::{self, error::RecvError},
        channel::{Receiver, Sender, StaticChannel, bounded, unbounded},
        oneshot, watch,
    },
    task::yield_now,
};
use hal::clock;
use testing::kernel_test;

/// Who sends, and which of his messages it is.
type Message = (usize, usize);

/// A channel, half of the players at each end.
struct Passing {
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    /// Players that still send. The last one closes the channel.
    senders: AtomicUsize,
    /// Messages that were received, by who sent them.
    received: Vec<AtomicUsize>,
    /// It is a rendezvous: who gives up a `send` may have sent.
    by_hand: bool,
}

/// Half of those on cores of their own, and half of the others.
fn is_sender(player: &Player) -> bool {
    player.number % 4 < 2
}

/// Sends. Who gives up a `send` has sent nothing.
async fn send_all(shared: &Passing, player: &mut Player) {
    for turn in 0..player.turns {
        let message = (player.number, turn);
        let sent = match shared.by_hand {
            true => shared.sender.send(message).await,
            false => player.insist(|| shared.sender.send(message)).await,
        };
        assert!(sent.is_ok(), "nobody has closed it yet");
        if player.one_in(8) {
            yield_now().await;
        }
    }
    // AcqRel: what the others have sent is sent before it is closed.
    if shared.senders.fetch_sub(1, AcqRel) == 1 {
        assert!(shared.sender.close());
    }
}

/// Receives until the end.
async fn receive_all(shared: &Passing, player: &mut Player) {
    let mut last = vec![None; player.count];
    while let Ok((sender, turn)) = player.insist(|| shared.receiver.recv()).await {
        assert!(
            last[sender] < Some(turn),
            "{turn} of {sender} after {:?}",
            last[sender]
        );
        last[sender] = Some(turn);
        shared.received[sender].fetch_add(1, Relaxed);
    }
}

async fn pass(
    turns: usize,
    by_hand: bool,
    (sender, receiver): (Sender<Message>, Receiver<Message>),
) {
    let shared = Arc::new(Passing {
        sender,
        receiver,
        senders: AtomicUsize::new(crowd_size() / 2),
        received: (0..crowd_size()).map(|_| AtomicUsize::new(0)).collect(),
        by_hand,
    });
    crowd(turns, shared.clone(), |shared, mut player| async move {
        match is_sender(&player) {
            true => send_all(&shared, &mut player).await,
            false => receive_all(&shared, &mut player).await,
        }
    })
    .await;
    for (number, received) in shared.received.iter().enumerate() {
        let sent = if number % 4 < 2 {
            turns / crowd_size()
        } else {
            0
        };
        assert_eq!(received.load(Relaxed), sent, "messages of {number}");
    }
}

async fn pass_few_at_a_time(turns: usize) {
    pass(turns, false, bounded(3)).await;
}

async fn pass_any_number(turns: usize) {
    pass(turns, false, unbounded()).await;
}

async fn pass_by_hand(turns: usize) {
    pass(turns, true, bounded(0)).await;
}

contended!(
    a_bounded_channel_passes_each_message_once_and_in_order,
    a_bounded_channel_passes_each_message_once_and_in_order_in_a_million,
    pass_few_at_a_time
);
contended!(
    an_unbounded_channel_passes_each_message_once_and_in_order,
    an_unbounded_channel_passes_each_message_once_and_in_order_in_a_million,
    pass_any_number
);
contended!(
    a_rendezvous_passes_each_message_once_and_in_order,
    a_rendezvous_passes_each_message_once_and_in_order_in_a_million,
    pass_by_hand
);

/// Questions with a way back each. Some who ask do not wait for the answer, some who answer do not.
async fn ask(turns: usize) {
    struct Shared {
        ask: Sender<(usize, oneshot::Sender<usize>)>,
        asked: Receiver<(usize, oneshot::Sender<usize>)>,
        asking: AtomicUsize,
    }
    let (ask, asked) = bounded(4);
    let asking = AtomicUsize::new(crowd_size() / 2);
    let shared = Arc::new(Shared { ask, asked, asking });
    crowd(turns, shared, |shared, mut player| async move {
        if !is_sender(&player) {
            while let Ok((question, answer)) = player.insist(|| shared.asked.recv()).await {
                if !player.one_in(4) {
                    // Err: nobody waits for it any more.
                    let _ = answer.send(question + 1);
                }
            }
            return;
        }
        for question in 0..player.turns {
            let (sender, answer) = oneshot::channel();
            let asked = shared.ask.send((question, sender)).await;
            assert!(asked.is_ok(), "nobody has closed it yet");
            if let Some(Ok(answer)) = player.impatient(answer).await {
                assert_eq!(answer, question + 1);
            }
        }
        // AcqRel as in `send_all`.
        if shared.asking.fetch_sub(1, AcqRel) == 1 {
            shared.ask.close();
        }
    })
    .await;
}

contended!(
    an_answer_is_to_the_question,
    an_answer_is_to_the_question_in_a_million,
    ask
);

/// All send, and all receive what all send, or hear how much they have missed.
async fn tell_all(turns: usize) {
    struct Shared {
        sender: broadcast::Sender<Message>,
        all_are_there: Barrier,
    }
    let shared = Arc::new(Shared {
        sender: broadcast::Sender::new(16),
        all_are_there: Barrier::new(crowd_size()),
    });
    // Each is received by all.
    let turns = (turns / crowd_size()).max(crowd_size());
    crowd(turns, shared, |shared, mut player| async move {
        let mut receiver = shared.sender.subscribe();
        shared.all_are_there.wait().await;
        let mut last = vec![None; player.count];
        let (mut sent, mut known) = (0, 0);
        while sent != player.turns || known != player.turns * player.count {
            // Who still has something to send does not wait: all might.
            if sent != player.turns && (player.one_in(3) || receiver.is_empty()) {
                let receivers = shared.sender.send((player.number, sent));
                assert!(receivers.is_ok(), "this one is there");
                sent += 1;
                continue;
            }
            match player.impatient(receiver.recv()).await {
                Some(Ok((sender, turn))) => {
                    assert!(last[sender] < Some(turn), "in order");
                    last[sender] = Some(turn);
                    known += 1;
                }
                Some(Err(RecvError::Lagged(missed))) => known += missed as usize,
                Some(Err(RecvError::Closed)) => panic!("it is not closed"),
                None => {}
            }
        }
    })
    .await;
}

contended!(
    what_is_broadcast_is_received_or_known_to_be_missed,
    what_is_broadcast_is_received_or_known_to_be_missed_in_a_million,
    tell_all
);

/// One changes a value, and all see it grow, and its end.
async fn watch_it_grow(turns: usize) {
    let sender = Arc::new(watch::Sender::new(0));
    let changes = turns / crowd_size();
    crowd(turns, sender, move |sender, mut player| async move {
        if player.number == 0 {
            for value in 1..=changes {
                sender.send_replace(value);
                yield_now().await;
            }
            return;
        }
        let mut receiver = sender.subscribe();
        let mut last = *receiver.borrow_and_update();
        while last != changes {
            if player.impatient(receiver.changed()).await.is_some() {
                let value = *receiver.borrow_and_update();
                assert!(value > last, "{value} after {last}");
                last = value;
            }
        }
    })
    .await;
}

contended!(
    a_value_is_watched_to_its_end,
    a_value_is_watched_to_its_end_in_a_million,
    watch_it_grow
);

/// The arm that is not taken loses nothing.
async fn choose(turns: usize) {
    struct Shared {
        left: (Sender<usize>, Receiver<usize>),
        right: (Sender<usize>, Receiver<usize>),
        senders: AtomicUsize,
        sum: AtomicUsize,
    }
    let shared = Arc::new(Shared {
        left: bounded(2),
        right: unbounded(),
        senders: AtomicUsize::new(crowd_size() / 2),
        sum: AtomicUsize::new(0),
    });
    let all = crowd(turns, shared.clone(), |shared, mut player| async move {
        let (left, right) = (&shared.left, &shared.right);
        if is_sender(&player) {
            for turn in 0..player.turns {
                let to = if player.one_in(2) { &left.0 } else { &right.0 };
                assert!(to.send(turn).await.is_ok(), "nobody has closed it yet");
            }
            // AcqRel as in `send_all`.
            if shared.senders.fetch_sub(1, AcqRel) == 1 {
                left.0.close();
                right.0.close();
            }
            return;
        }
        let mut sum = 0;
        loop {
            select! {
                Ok(value) = left.1.recv() => sum += value,
                Ok(value) = right.1.recv() => sum += value,
                else => break,
            }
        }
        shared.sum.fetch_add(sum, Relaxed);
    })
    .await;
    let turns = all / crowd_size();
    let each = turns * turns.saturating_sub(1) / 2;
    assert_eq!(shared.sum.load(Relaxed), each * crowd_size() / 2);
}

contended!(
    an_arm_that_is_not_taken_loses_no_message,
    an_arm_that_is_not_taken_loses_no_message_in_a_million,
    choose
);

/// How many interrupts send.
const SENDS: usize = 5000;
static FROM_INTERRUPTS: StaticChannel<usize, 8> = StaticChannel::new();
static SENT: AtomicUsize = AtomicUsize::new(SENDS);

/// Sends a few numbers, the next that nobody has sent, and comes again.
fn on_tick() {
    let next = |sent: usize| (sent < SENDS).then_some(sent + 1);
    for _ in 0..4 {
        if FROM_INTERRUPTS.is_full() {
            break;
        }
        let Ok(number) = SENT.fetch_update(Relaxed, Relaxed, next) else {
            return;
        };
        if FROM_INTERRUPTS.try_send(number).is_err() {
            // Another core's was faster. Here it must not be lost: it is counted, and not sent.
            LOST.fetch_add(number + 1, Relaxed);
        }
    }
    clock::arm(clock::now() + 50_000);
}

/// The numbers that found it full, each one larger.
static LOST: AtomicUsize = AtomicUsize::new(0);

#[kernel_test(cores = 4, limit = 300)]
fn tasks_receive_what_interrupts_send() {
    use super::super::{join, on, spawn_on};
    if torture::is_on() {
        return; // it has the timer
    }
    SENT.store(0, Relaxed);
    LOST.store(0, Relaxed);
    let _unwatched = watchdog::leave_timers();
    upcalls::set_timer_hook(Some(on_tick));
    // The tick would set the timer as it likes.
    on(Runtime::builder().quantum(None), async {
        let cores = stats::stats().cores.len();
        join((0..cores).map(|core| spawn_on(core, async { clock::arm(0) }))).await;
        let mut sum = 0;
        let all = (1..=SENDS).sum::<usize>();
        while sum + LOST.load(Relaxed) != all {
            let number = select! {
                number = FROM_INTERRUPTS.recv() => number.expect("nobody closes it"),
                () = yield_now() => continue,
            };
            sum += number + 1;
        }
        assert!(FROM_INTERRUPTS.is_empty());
    });
    upcalls::set_timer_hook(None);
}
