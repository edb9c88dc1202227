//! Time: moments, sleeping, time limits, regular ticks.
//!
//! - [`Instant`] and [`Duration`], as in std.
//! - [`sleep`], [`sleep_until`]: wait.
//! - [`timeout`], [`timeout_at`]: give up on a future.
//! - [`interval`], [`interval_at`]: tick.
//!
//! All of them wait by the timers of a [`Runtime`](crate::Runtime), and panic where none runs; only
//! [`Instant`] needs none.
//!
//! Beneath: `wheel` is a timing wheel and knows no clock, `timers` is what each
//! core has of it, `driver` is all that the module knows of the scheduler.
//!
//! Timers are exact to the nanosecond and never early. How late one is depends on
//! how soon its core looks; nothing is rounded or put together. They are right for as
//! long as the clock runs, 584 years, and a deadline beyond that never comes.

mod list;
#[cfg(not(loom))]
pub(crate) mod timers;
#[cfg(loom)]
pub mod timers;
mod wheel;

#[cfg(not(loom))]
mod driver;
#[cfg(all(feature = "embassy-time", not(loom)))]
mod embassy;
#[cfg(not(loom))]
mod instant;
#[cfg(not(loom))]
mod interval;
#[cfg(not(loom))]
mod sleep;
#[cfg(not(loom))]
mod timeout;
#[cfg(all(feature = "embassy-time", not(loom)))]
mod wakes;

#[cfg(all(test, not(loom)))]
mod tests;

pub use core::time::Duration;
#[cfg(not(loom))]
pub use {
    instant::Instant,
    interval::{Interval, MissedTick, interval, interval_at},
    sleep::{Sleep, sleep, sleep_until},
    timeout::{Elapsed, Timeout, timeout, timeout_at},
};
