//! Lets crates that use `embassy-time` run here: its clock and its timers are ours.
//!
//! Its ticks are microseconds. Any number of executors' cores may serve it at
//! once: whoever polls one of its timers waits on the core that polled.

use super::driver::{self, Here};
use core::task::Waker;
use embassy_time_driver::{Driver, TICK_HZ};

const NANOS_PER_TICK: u64 = 1_000_000_000 / TICK_HZ;
const _: () = assert!(NANOS_PER_TICK * TICK_HZ == 1_000_000_000);

struct Clock;

embassy_time_driver::time_driver_impl!(static CLOCK: Clock = Clock);

impl Driver for Clock {
    fn now(&self) -> u64 {
        driver::now() / NANOS_PER_TICK
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        let here = Here::current().expect(
            "embassy-time needs a running executor: a timer was polled where none runs, so nothing would wake it",
        );
        // What does not fit is beyond the end of the clock.
        let at = at.saturating_mul(NANOS_PER_TICK);
        if here.timers().wake_at(at, waker) {
            here.arm(at);
        }
    }
}
