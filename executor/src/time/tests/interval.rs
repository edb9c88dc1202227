//! Ticks, and what becomes of missed ones.

use super::{super::*, *};

const PERIOD: Duration = Duration::from_millis(10);

/// Takes ticks, staying away for so many milliseconds after each; when each
/// was due and when it was taken, in milliseconds.
fn ticks(missed_tick: MissedTick, stays_away: &[u64]) -> Vec<(u64, u64)> {
    let core = StandIn::new(0);
    block_on(&core, async {
        let mut interval = interval(PERIOD);
        interval.set_missed_tick(missed_tick);
        assert_eq!(
            (interval.missed_tick(), interval.period()),
            (missed_tick, PERIOD)
        );
        let mut ticks = Vec::new();
        for stay_away in stays_away {
            let due = interval.tick().await.as_nanos();
            ticks.push((due / MILLI, core.now() / MILLI));
            core.stall(stay_away * MILLI);
        }
        ticks
    })
}

const ALL: [MissedTick; 3] = [MissedTick::Burst, MissedTick::Delay, MissedTick::Skip];

#[test]
fn the_first_tick_is_at_once_and_the_others_a_period_apart() {
    for missed_tick in ALL {
        let taken = ticks(missed_tick, &[0, 0, 0, 0]);
        assert_eq!(taken, [(0, 0), (10, 10), (20, 20), (30, 30)]);
    }
}

#[test]
fn being_late_by_less_than_a_period_changes_nothing() {
    for missed_tick in ALL {
        let taken = ticks(missed_tick, &[9, 3, 18, 0, 0]);
        assert_eq!(taken, [(0, 0), (10, 10), (20, 20), (30, 38), (40, 40)]);
    }
}

#[test]
fn missed_ticks_are_made_up_for_in_a_burst() {
    let taken = ticks(MissedTick::Burst, &[0, 35, 0, 0, 0, 0]);
    let expected = [(0, 0), (10, 10), (20, 45), (30, 45), (40, 45), (50, 50)];
    assert_eq!(taken, expected);
}

#[test]
fn missed_ticks_delay_the_following_ones() {
    let taken = ticks(MissedTick::Delay, &[0, 35, 0, 0]);
    assert_eq!(taken, [(0, 0), (10, 10), (20, 45), (55, 55)]);
}

#[test]
fn missed_ticks_are_skipped_and_the_rhythm_is_kept() {
    let taken = ticks(MissedTick::Skip, &[0, 35, 0, 0]);
    assert_eq!(taken, [(0, 0), (10, 10), (20, 45), (50, 50)]);
    // Taken just when another is due: that one is missed, too.
    let taken = ticks(MissedTick::Skip, &[0, 30, 0, 0]);
    assert_eq!(taken, [(0, 0), (10, 10), (20, 40), (50, 50)]);
}

#[test]
fn a_tick_taken_when_the_next_is_due_was_missed() {
    let [burst, delay, skip] = ALL.map(|missed_tick| ticks(missed_tick, &[0, 20, 0, 0, 0]));
    let expected = [(0, 0), (10, 10), (20, 30), (40, 40), (50, 50)];
    assert_eq!(delay, expected);
    assert_eq!(skip, expected);
    assert_eq!(burst, [(0, 0), (10, 10), (20, 30), (30, 30), (40, 40)]);
}

#[test]
fn an_interval_can_begin_later_and_be_reset() {
    let core = StandIn::new(0);
    block_on(&core, async {
        let start = Instant::from_nanos(7 * MILLI);
        let mut interval = interval_at(start, PERIOD);
        assert_eq!(interval.tick().await, start);
        core.stall(2 * MILLI);
        interval.reset();
        assert_eq!(interval.tick().await.as_nanos(), 19 * MILLI);
        interval.reset_at(Instant::from_nanos(20 * MILLI));
        assert_eq!(interval.tick().await.as_nanos(), 20 * MILLI);
        assert_eq!(interval.tick().await.as_nanos(), 30 * MILLI);
    });
}

#[test]
fn a_tick_that_nobody_waits_for_any_more_is_still_to_come() {
    let core = StandIn::new(0);
    block_on(&core, async {
        let mut interval = interval_at(Instant::from_nanos(MILLI), PERIOD);
        let limit = Duration::from_micros(10);
        assert!(timeout(limit, interval.tick()).await.is_err());
        assert_eq!(interval.tick().await.as_nanos(), MILLI);
    });
}

#[test]
fn a_period_beyond_the_clock_ticks_once() {
    let core = StandIn::new(5);
    block_on(&core, async {
        for missed_tick in ALL {
            let mut interval = interval(Duration::MAX);
            interval.set_missed_tick(missed_tick);
            assert_eq!(interval.tick().await.as_nanos(), core.now());
            let second = timeout(Duration::from_secs(1 << 32), interval.tick()).await;
            assert!(second.is_err());
        }
    });
}

#[test]
#[should_panic(expected = "an interval needs a period longer than zero")]
fn a_period_of_zero_panics() {
    interval(Duration::ZERO);
}
