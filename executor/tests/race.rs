//! The first of several futures: `race!` and its functions.

use executor::{
    Runtime, block_on_simple, race,
    select::{race, race_all, select_all},
    time::{Duration, Instant, sleep},
};
use std::future::{Ready, pending, ready};

const MILLI: Duration = Duration::from_millis(1);

/// A runtime of one core, whose time passes only while all wait.
fn virtual_runtime() -> Runtime {
    Runtime::builder()
        .workers(1)
        .virtual_clock()
        .build()
        .unwrap()
}

#[test]
fn the_first_of_a_race_wins_and_the_others_are_dropped() {
    virtual_runtime().block_on(async {
        let after = |millis: u64| async move {
            sleep(Duration::from_millis(millis)).await;
            millis
        };
        let began = Instant::now();
        assert_eq!(race(after(20), after(10)).await, 10);
        assert_eq!(race!(after(30), after(5), after(20)), 5);
        assert_eq!(race_all([9, 8, 7].map(after)).await, 7);
        assert_eq!(began.elapsed(), 22 * MILLI);
    });
}

#[test]
fn those_that_are_always_ready_win_alike() {
    let mut won = [[0; 2]; 3];
    block_on_simple(async {
        for _ in 0..400 {
            let winners = [
                race(ready(0), ready(1)).await,
                race!(ready(0), ready(1)),
                race_all([ready(0), ready(1)]).await,
            ];
            for (won, winner) in won.iter_mut().zip(winners) {
                won[winner] += 1;
            }
        }
    });
    // 200 each, and the standard deviation is 10.
    assert!(
        won.as_flattened()
            .iter()
            .all(|times| (100..300).contains(times)),
        "{won:?}"
    );
}

#[test]
fn those_that_lose_a_select_all_go_on() {
    virtual_runtime().block_on(async {
        let after = |millis| {
            Box::pin(async move {
                sleep(Duration::from_millis(millis)).await;
                millis
            })
        };
        let mut left = vec![after(30), after(10), after(20)];
        let mut order = Vec::new();
        while !left.is_empty() {
            let (millis, index, rest) = select_all(left).await;
            order.push((millis, index));
            left = rest;
        }
        assert_eq!(order, [(10, 1), (20, 1), (30, 0)]);
        let waiting = select_all([pending::<()>(), pending()]);
        assert_eq!(waiting.into_inner().len(), 2);
    });
}

#[test]
#[should_panic(expected = "a race of no futures would never end")]
fn a_race_of_none_panics() {
    drop(race_all(Vec::<Ready<()>>::new()));
}

#[test]
#[should_panic(expected = "the first of no futures never comes")]
fn a_select_of_none_panics() {
    drop(select_all(Vec::<Ready<()>>::new()));
}
