//! Crates on `embassy-time` on our timers.

use super::{super::wakes::Wakes, *};
use embassy_time::{Duration, Instant, Ticker, TimeoutError, Timer, with_timeout};
use std::{sync::Mutex, vec::Vec};

const MICRO: u64 = 1000;

#[test]
fn an_embassy_timer_ends_on_time() {
    let core = StandIn::new(5 * MICRO + 999);
    block_on(&core, async {
        let start = Instant::now();
        assert_eq!(start.as_ticks(), 5);
        Timer::after(Duration::from_millis(10)).await;
        assert_eq!(start.elapsed(), Duration::from_millis(10));
        assert_eq!(core.now(), 5 * MICRO + 10 * MILLI);
        Timer::at(start).await;
    });
    assert_eq!(core.timers.next(), u64::MAX);
    assert!(!core.timers.has_wheel(), "it needs none");
}

#[test]
fn an_embassy_timeout_gives_up_on_time_or_not_at_all() {
    let core = StandIn::new(0);
    block_on(&core, async {
        let (short, long) = (Duration::from_millis(3), Duration::from_millis(10));
        let output = with_timeout(short, Timer::after(long)).await;
        assert_eq!(output, Err(TimeoutError));
        assert_eq!(core.now(), 3 * MILLI);
        let output = with_timeout(long, Timer::after(short)).await;
        assert_eq!(output, Ok(()));
        assert_eq!(core.now(), 6 * MILLI);
    });
}

#[test]
fn embassys_timers_and_ours_are_awaited_together() {
    let core = StandIn::new(0);
    block_on(&core, async {
        let ours = super::super::sleep(core::time::Duration::from_millis(2));
        with_timeout(Duration::from_millis(5), ours).await.unwrap();
        assert_eq!(core.now(), 2 * MILLI);
        let limit = core::time::Duration::from_millis(1);
        let theirs = Timer::after_secs(1);
        assert!(super::super::timeout(limit, theirs).await.is_err());
        assert_eq!(core.now(), 3 * MILLI);
        let mut ticker = Ticker::every(Duration::from_millis(7));
        ticker.next().await;
        ticker.next().await;
        assert_eq!(core.now(), 17 * MILLI);
    });
}

#[test]
fn the_hardware_is_armed_for_whichever_is_first() {
    let core = StandIn::new(0);
    let armed = || core.armed.load(Relaxed);
    core.enter(|| {
        let mut ours = pin!(super::super::sleep(core::time::Duration::from_millis(5)));
        assert!(poll(ours.as_mut(), Waker::noop()).is_pending());
        assert_eq!(armed(), 5 * MILLI);
        let (_, waker) = Count::new();
        assert!(poll(pin!(Timer::after_millis(9)), &waker).is_pending());
        assert_eq!((armed(), core.timers.next()), (5 * MILLI, 5 * MILLI));
        assert!(poll(pin!(Timer::after_millis(4)), &waker).is_pending());
        assert_eq!((armed(), core.timers.next()), (4 * MILLI, 4 * MILLI));
        assert_eq!(
            core.timers.expire(20 * MILLI),
            2,
            "one wake-up for each task"
        );
    });
}

#[test]
fn a_moment_beyond_the_clock_never_comes() {
    let core = StandIn::new(0);
    core.enter(|| {
        assert!(poll(pin!(Timer::at(Instant::MAX)), Waker::noop()).is_pending());
    });
    assert_eq!(core.timers.next(), u64::MAX);
    assert_eq!(core.timers.expire(u64::MAX), 0);
}

#[test]
#[should_panic(expected = "embassy-time needs a running executor")]
fn polling_an_embassy_timer_without_an_executor_panics() {
    let _ = poll(pin!(Timer::after_secs(1)), Waker::noop());
}

/// Writes down who was woken.
struct Named(usize, Arc<Mutex<Vec<usize>>>);

impl Wake for Named {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[test]
fn wakes_come_in_the_order_of_their_moments_once_for_each_waker() {
    let wakes = Wakes::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    let wakers: Vec<_> = (0..100)
        .map(|id| Waker::from(Arc::new(Named(id, order.clone()))))
        .collect();
    // Later moments first, each twice; then a later one for each, which changes nothing.
    for (id, waker) in wakers.iter().enumerate() {
        assert_eq!(wakes.schedule(1000 - id as u64 / 2, waker), id % 2 == 0);
    }
    for (id, waker) in wakers.iter().enumerate() {
        assert!(!wakes.schedule(2000, waker));
        if id % 2 == 0 {
            assert!(
                !wakes.schedule(1000 - id as u64 / 2, waker),
                "it keeps its place"
            );
        }
        if id % 10 == 0 {
            wakes.schedule(500 + id as u64, waker);
        }
    }
    assert_eq!(wakes.next(), 500);
    assert_eq!(wakes.expire(499), 0);
    assert_eq!(wakes.expire(u64::MAX), 100);
    let mut expected: Vec<_> = (0..100).step_by(10).collect();
    let rest = (0..50).rev().flat_map(|pair| [2 * pair, 2 * pair + 1]);
    expected.extend(rest.filter(|id| id % 10 != 0));
    assert_eq!(*order.lock().unwrap(), expected);
    assert_eq!(wakes.next(), u64::MAX);
}

/// The lock's debug assertion finds a waker that is cloned, woken or dropped under it.
#[test]
fn foreign_code_runs_outside_the_lock() {
    static WAKES: Wakes = Wakes::new();
    struct Schedules;
    impl Wake for Schedules {
        fn wake(self: Arc<Self>) {
            WAKES.schedule(700, Waker::noop());
        }
    }
    impl Drop for Schedules {
        fn drop(&mut self) {
            WAKES.schedule(600, Waker::noop());
        }
    }
    WAKES.schedule(100, &Waker::from(Arc::new(Schedules)));
    assert_eq!(WAKES.expire(100), 1);
    assert_eq!(WAKES.next(), 600);
}
