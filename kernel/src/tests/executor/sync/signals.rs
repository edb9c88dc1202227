//! Signals: each reaches somebody, and those for all reach all.

use super::{contended, crowd};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use executor::{
    sync::{Barrier, Event, Notify, OnceCell},
    task::yield_now,
};

/// Half of the players lay down tokens and say so, the other half take them.
/// Each token is said once: if one call reaches nobody, somebody waits for ever.
async fn pass_tokens(turns: usize) {
    struct Shared {
        notify: Notify,
        tokens: AtomicUsize,
    }
    let shared = Arc::new(Shared {
        notify: Notify::new(),
        tokens: AtomicUsize::new(0),
    });
    crowd(turns, shared.clone(), |shared, mut player| async move {
        if player.number % 4 < 2 {
            for _ in 0..player.turns {
                // Release pairs with the acquire below.
                shared.tokens.fetch_add(1, Release);
                shared.notify.notify_one();
                yield_now().await;
            }
            return;
        }
        for _ in 0..player.turns {
            loop {
                let less = |tokens: usize| tokens.checked_sub(1);
                if let Ok(before) = shared.tokens.fetch_update(Acquire, Relaxed, less) {
                    if before > 1 {
                        // Of several calls that nobody waited for, one was stored.
                        shared.notify.notify_one();
                    }
                    break;
                }
                player.impatient(shared.notify.notified()).await;
            }
        }
    })
    .await;
    assert_eq!(shared.tokens.load(Relaxed), 0);
}

contended!(
    no_notification_is_lost,
    no_notification_is_lost_in_a_million,
    pass_tokens
);

/// All meet, again and again: one leads each time, and nobody is a round ahead. Nobody gives up: who
/// does so just as the round is over has been there, and would be again.
async fn meet(turns: usize) {
    struct Shared {
        barrier: Barrier,
        came: AtomicUsize,
        led: AtomicUsize,
    }
    let shared = Arc::new(Shared {
        barrier: Barrier::new(super::crowd_size()),
        came: AtomicUsize::new(0),
        led: AtomicUsize::new(0),
    });
    let turns = crowd(turns, shared.clone(), |shared, player| async move {
        for round in 1..=player.turns {
            shared.came.fetch_add(1, Relaxed);
            if shared.barrier.wait().await.is_leader() {
                shared.led.fetch_add(1, Relaxed);
            }
            let came = shared.came.load(Relaxed);
            assert!(came >= round * player.count, "some have not come yet");
            assert!(came < (round + 1) * player.count, "some are a round ahead");
        }
    })
    .await;
    assert_eq!(shared.led.load(Relaxed), turns / super::crowd_size());
}

contended!(
    at_a_barrier_all_meet_and_one_leads,
    at_a_barrier_all_meet_and_one_leads_in_a_million,
    meet
);

/// All want the same value: one makes it, also if who began to gave up.
async fn make_once(turns: usize) {
    struct Shared {
        cells: Vec<OnceCell<usize>>,
        made: AtomicUsize,
    }
    let cells = turns / super::crowd_size();
    let shared = Arc::new(Shared {
        cells: (0..cells).map(|_| OnceCell::new()).collect(),
        made: AtomicUsize::new(0),
    });
    crowd(turns, shared.clone(), |shared, mut player| async move {
        for (number, cell) in shared.cells.iter().enumerate() {
            let make = async || {
                yield_now().await;
                shared.made.fetch_add(1, Relaxed);
                number
            };
            assert_eq!(*player.insist(|| cell.get_or_init(make)).await, number);
        }
    })
    .await;
    assert_eq!(shared.made.load(Relaxed), cells, "values that were made");
}

contended!(
    a_value_is_made_once,
    a_value_is_made_once_in_a_million,
    make_once
);

/// One says that a round has begun, and all wait for it; the last to hear of it begins the next.
async fn tell_all(turns: usize) {
    struct Shared {
        events: Vec<Event>,
        heard: AtomicUsize,
    }
    let rounds = turns / super::crowd_size();
    let shared = Arc::new(Shared {
        events: (0..rounds).map(|_| Event::new()).collect(),
        heard: AtomicUsize::new(0),
    });
    shared.events[0].set();
    crowd(turns, shared.clone(), |shared, mut player| async move {
        for (round, event) in shared.events.iter().enumerate() {
            player.insist(|| event.wait()).await;
            // AcqRel: the last one has heard all others.
            let heard = 1 + shared.heard.fetch_add(1, AcqRel);
            if heard == (round + 1) * player.count
                && let Some(next) = shared.events.get(round + 1)
            {
                next.set();
            }
        }
    })
    .await;
    assert_eq!(shared.heard.load(Relaxed), rounds * super::crowd_size());
}

contended!(
    an_event_reaches_all,
    an_event_reaches_all_in_a_million,
    tell_all
);
