//! Time limits.

use super::{super::*, *};
use core::{
    cell::Cell,
    future::{pending, poll_fn, ready},
};

#[test]
fn a_future_in_time_gives_its_output_and_leaves_no_timer() {
    let core = StandIn::new(0);
    let output = block_on(&core, async {
        timeout(Duration::from_millis(10), async {
            sleep(Duration::from_millis(3)).await;
            "done"
        })
        .await
    });
    assert_eq!(output, Ok("done"));
    assert_eq!(core.now(), 3 * MILLI);
    assert_eq!(core.timers.next(), u64::MAX);
}

#[test]
fn a_future_that_takes_too_long_is_given_up_on_time_and_dropped() {
    struct Dropped<'a>(&'a Cell<bool>);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let core = StandIn::new(5);
    let is_dropped = Cell::new(false);
    let output = block_on(&core, async {
        let dropped = Dropped(&is_dropped);
        timeout(Duration::from_millis(10), async move {
            sleep(Duration::from_secs(1)).await;
            drop(dropped);
        })
        .await
    });
    let elapsed = output.unwrap_err();
    assert_eq!(elapsed.to_string(), "the time limit is over");
    assert_eq!(core.now(), 5 + 10 * MILLI);
    assert!(is_dropped.get());
    assert_eq!(core.timers.next(), u64::MAX, "its own sleep went with it");
}

#[test]
fn the_future_is_polled_before_the_clock_is_looked_at() {
    let core = StandIn::new(0);
    assert_eq!(
        block_on(&core, async { timeout(Duration::ZERO, ready(1)).await }),
        Ok(1)
    );
    assert!(
        block_on(&core, async {
            timeout(Duration::ZERO, pending::<()>()).await
        })
        .is_err()
    );
    // Both are ready when it is polled late.
    core.enter(|| {
        let both = timeout(Duration::from_nanos(10), sleep(Duration::from_nanos(10)));
        let mut both = pin!(both);
        assert!(poll(both.as_mut(), Waker::noop()).is_pending());
        core.run_until(100);
        assert_eq!(poll(both.as_mut(), Waker::noop()), Poll::Ready(Ok(())));
    });
}

#[test]
fn a_time_limit_at_a_moment_is_kept() {
    let core = StandIn::new(100);
    let at = Instant::from_nanos;
    assert!(block_on(&core, timeout_at(at(1000), pending::<()>())).is_err());
    assert_eq!(core.now(), 1000);
    assert!(block_on(&core, timeout_at(at(50), pending::<()>())).is_err());
    assert_eq!(core.now(), 1000);
}

#[test]
fn a_time_limit_beyond_the_clock_is_none() {
    let core = StandIn::new(0);
    let output = block_on(&core, async {
        timeout(Duration::MAX, sleep(Duration::from_secs(1))).await
    });
    assert_eq!(output, Ok(()));
}

#[test]
fn nested_limits_end_with_the_shorter() {
    let core = StandIn::new(0);
    let (short, long) = (Duration::from_millis(1), Duration::from_millis(5));
    let inner = block_on(&core, async {
        timeout(long, timeout(short, pending::<()>())).await
    });
    assert!(matches!(inner, Ok(Err(_))));
    assert_eq!(core.now(), MILLI);
    let outer = block_on(&core, async {
        timeout(short, timeout(long, pending::<()>())).await
    });
    assert!(outer.is_err());
    assert_eq!(core.now(), 2 * MILLI);
}

#[test]
fn a_future_that_wakes_itself_does_not_hide_the_limit() {
    let core = StandIn::new(0);
    let busy = poll_fn(|cx| {
        core.stall(1000);
        core.timers.expire(core.now());
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    assert!(
        block_on(&core, async {
            timeout(Duration::from_micros(10), busy).await
        })
        .is_err()
    );
    assert_eq!(core.now(), 10_000);
}
