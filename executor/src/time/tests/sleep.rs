//! Sleeping: when it ends, who is woken, and what dropping and resetting do.

use super::{super::*, *};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

#[test]
fn a_sleep_ends_exactly_at_its_deadline() {
    let core = StandIn::new(12_345);
    block_on(&core, async {
        let start = Instant::now();
        sleep(Duration::from_millis(10)).await;
        assert_eq!(start.elapsed(), Duration::from_millis(10));
        sleep_until(start + Duration::from_millis(25)).await;
        assert_eq!(start.elapsed(), Duration::from_millis(25));
    });
    assert_eq!(core.timers.next(), u64::MAX);
}

#[test]
fn a_sleep_that_is_over_when_first_polled_registers_nothing() {
    let core = StandIn::new(1000);
    let (count, waker) = Count::new();
    core.enter(|| {
        for deadline in [0, 999, 1000] {
            let mut sleep = pin!(sleep_until(at(deadline)));
            assert!(sleep.is_elapsed());
            assert!(poll(sleep.as_mut(), &waker).is_ready());
            assert!(poll(sleep.as_mut(), &waker).is_ready(), "and it stays over");
        }
        assert!(poll(pin!(sleep(Duration::ZERO)), &waker).is_ready());
    });
    // Once over, no executor is needed to see it.
    let mut sleep = pin!(sleep_until(at(1000)));
    assert!(core.enter(|| poll(sleep.as_mut(), &waker)).is_ready());
    assert!(poll(sleep.as_mut(), &waker).is_ready());
    assert_eq!(count.get(), 0);
    assert_eq!(core.timers.next(), u64::MAX);
}

#[test]
fn a_sleep_that_overflows_the_clock_never_ends() {
    let core = StandIn::new(1000);
    let (count, waker) = Count::new();
    core.enter(|| {
        let mut sleep = pin!(sleep(Duration::MAX));
        assert_eq!(sleep.deadline(), Instant::NEVER);
        assert!(poll(sleep.as_mut(), &waker).is_pending());
        assert_eq!(core.timers.next(), u64::MAX);
        core.run_until(u64::MAX - 1);
        core.timers.expire(u64::MAX);
        assert!(poll(sleep.as_mut(), &waker).is_pending());
        assert!(!sleep.is_elapsed());
    });
    assert_eq!(count.get(), 0);
}

#[test]
#[should_panic(expected = "a sleep was polled where no runtime runs")]
fn polling_a_sleep_without_an_executor_panics() {
    let _ = poll(pin!(sleep(Duration::from_secs(1))), Waker::noop());
}

#[test]
fn the_hardware_is_armed_when_there_is_a_new_earliest() {
    let core = StandIn::new(0);
    let armed = || core.armed.load(Relaxed);
    core.enter(|| {
        let (mut a, mut b, mut c) = (
            pin!(sleep_until(at(500))),
            pin!(sleep_until(at(900))),
            pin!(sleep_until(at(100))),
        );
        let _ = poll(a.as_mut(), Waker::noop());
        assert_eq!(armed(), 500);
        let _ = poll(b.as_mut(), Waker::noop());
        assert_eq!(armed(), 500, "a later one does not count");
        let _ = poll(c.as_mut(), Waker::noop());
        assert_eq!(armed(), 100);
        b.as_mut().reset(at(50));
        assert_eq!(armed(), 50);
        assert_eq!(core.timers.next(), 50);
        b.as_mut().reset(at(70));
        assert_eq!(core.timers.next(), 70);
    });
}

#[test]
fn the_waker_of_the_last_poll_is_woken_and_no_other() {
    let core = StandIn::new(0);
    let ((first, first_waker), (second, second_waker)) = (Count::new(), Count::new());
    core.enter(|| {
        let mut sleep = pin!(sleep_until(at(100)));
        assert!(poll(sleep.as_mut(), &first_waker).is_pending());
        assert!(poll(sleep.as_mut(), &first_waker).is_pending());
        assert!(poll(sleep.as_mut(), &second_waker).is_pending());
        core.run_until(99);
        assert_eq!((first.get(), second.get()), (0, 0));
        core.run_until(100);
        assert_eq!((first.get(), second.get()), (0, 1));
        assert!(poll(sleep.as_mut(), &first_waker).is_ready());
    });
    assert_eq!(
        Arc::strong_count(&first),
        2,
        "no clone of its waker is left"
    );
    assert_eq!(Arc::strong_count(&second), 2);
}

#[test]
fn a_dropped_sleep_leaves_nothing_behind() {
    let core = StandIn::new(0);
    let (count, waker) = Count::new();
    core.enter(|| {
        let mut kept = Box::pin(sleep_until(at(200)));
        let mut dropped = Box::pin(sleep_until(at(100)));
        assert!(poll(kept.as_mut(), &waker).is_pending());
        assert!(poll(dropped.as_mut(), &waker).is_pending());
        assert_eq!(core.timers.next(), 100);
        drop(dropped);
        assert_eq!(core.timers.next(), 200);
        core.run_until(150);
        assert_eq!(count.get(), 0);
        drop(kept);
        assert_eq!(core.timers.next(), u64::MAX);
    });
    assert_eq!(Arc::strong_count(&count), 2);
    assert_eq!(Arc::strong_count(&core), 1, "no sleep keeps the core alive");
}

#[test]
fn a_sleep_stays_with_the_core_that_first_polled_it() {
    let (one, other) = (StandIn::new(0), StandIn::new(0));
    let ((first, first_waker), (second, second_waker)) = (Count::new(), Count::new());
    let mut sleep = Box::pin(sleep_until(at(100)));
    assert!(
        one.enter(|| poll(sleep.as_mut(), &first_waker))
            .is_pending()
    );
    assert!(
        other
            .enter(|| poll(sleep.as_mut(), &second_waker))
            .is_pending()
    );
    assert_eq!((one.timers.next(), other.timers.next()), (100, u64::MAX));
    // Reset and polled from anywhere: where no executor runs, too.
    sleep.as_mut().reset(at(80));
    assert!(poll(sleep.as_mut(), &second_waker).is_pending());
    assert_eq!((one.timers.next(), other.timers.next()), (80, u64::MAX));
    assert_eq!(one.armed.load(Relaxed), 80, "the core of the timer is told");
    one.run_until(100);
    assert_eq!((first.get(), second.get()), (0, 1));
    assert!(
        other
            .enter(|| poll(sleep.as_mut(), &second_waker))
            .is_ready()
    );
    // Over, it may start again elsewhere.
    sleep.as_mut().reset(at(300));
    assert!(
        other
            .enter(|| poll(sleep.as_mut(), &second_waker))
            .is_pending()
    );
    assert_eq!((one.timers.next(), other.timers.next()), (u64::MAX, 300));
    one.enter(|| drop(sleep));
    assert_eq!(other.timers.next(), u64::MAX);
}

#[test]
fn a_reset_moves_the_end_without_another_poll() {
    let core = StandIn::new(0);
    let (count, waker) = Count::new();
    core.enter(|| {
        let mut sleep = pin!(sleep_until(at(100)));
        sleep.as_mut().reset(at(110));
        assert!(poll(sleep.as_mut(), &waker).is_pending());
        for deadline in [300, 200, u64::MAX, 250] {
            sleep.as_mut().reset(at(deadline));
            assert_eq!(core.timers.next(), deadline);
            assert_eq!(sleep.deadline(), at(deadline));
        }
        core.run_until(249);
        assert_eq!(count.get(), 0);
        core.run_until(250);
        assert_eq!(count.get(), 1);
        assert!(sleep.is_elapsed());
        // Reset after it fired, before anyone saw that.
        sleep.as_mut().reset(at(400));
        assert!(!sleep.is_elapsed());
        assert!(poll(sleep.as_mut(), &waker).is_pending());
        core.run_until(400);
        assert_eq!(count.get(), 2);
        assert!(poll(sleep.as_mut(), &waker).is_ready());
        // And after someone did; to a moment that is past.
        sleep.as_mut().reset(at(10));
        assert!(poll(sleep.as_mut(), &waker).is_ready());
        assert_eq!(core.timers.next(), u64::MAX);
    });
}

#[test]
fn sleeps_are_woken_in_the_order_of_their_deadlines() {
    let core = StandIn::new(0);
    let order = std::rc::Rc::new(core::cell::RefCell::new(Vec::new()));
    core.enter(|| {
        let mut sleeps: Vec<_> = [30, 10, 20, 10, 30, 5]
            .into_iter()
            .enumerate()
            .map(|(id, millis)| {
                let order = order.clone();
                Box::pin(async move {
                    sleep(Duration::from_millis(millis)).await;
                    order
                        .borrow_mut()
                        .push((id, Instant::now().as_nanos() / MILLI));
                })
            })
            .collect();
        let (count, waker) = Count::new();
        while !sleeps.is_empty() {
            sleeps.retain_mut(|sleep| poll(sleep.as_mut(), &waker).is_pending());
            core.run_until(core.timers.next().min(u64::MAX - 1));
        }
        assert_eq!(count.get(), 6);
    });
    assert_eq!(
        *order.borrow(),
        [(5, 5), (1, 10), (3, 10), (2, 20), (0, 30), (4, 30)]
    );
}

#[test]
fn a_sleep_is_send_and_sync_and_shows_its_deadline() {
    fn is_send_and_sync<T: Send + Sync>(_: &T) {}
    let sleep = sleep_until(at(1_500_000));
    is_send_and_sync(&sleep);
    assert_eq!(
        std::format!("{sleep:?}"),
        "Sleep { deadline: Instant(1.5ms), .. }"
    );
}
