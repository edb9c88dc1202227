//! Regular ticks.

use super::{
    instant::Instant,
    sleep::{Sleep, sleep_until},
};
use alloc::boxed::Box;
use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use futures_core::Stream;

/// Ticks now, and then each `period`.
///
/// # Panics
/// If the period is zero.
///
/// ```no_run
/// use executor::time::{Duration, interval};
///
/// async fn blink(mut toggle: impl FnMut()) {
///     let mut interval = interval(Duration::from_millis(500));
///     loop {
///         interval.tick().await;
///         toggle();
///     }
/// }
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Ticks at `start`, and then each `period`.
///
/// # Panics
/// If the period is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(
        !period.is_zero(),
        "an interval needs a period longer than zero"
    );
    Interval {
        next: start,
        period,
        missed_tick: MissedTick::default(),
        sleep: None,
    }
}

/// What happens to ticks for which nobody came. A tick is missed when the next
/// is due before it was taken; being late by less than a period changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTick {
    /// Each is made up for, one right after the other: their number is kept.
    #[default]
    Burst,
    /// They are left out, and the next is one period from now: the distance is kept.
    Delay,
    /// They are left out, and the next is where it would have been: the rhythm is kept.
    Skip,
}

/// Made by [`interval`] and [`interval_at`].
///
/// It is a [`Stream`] of ticks, too, which never ends:
///
/// ```
/// use executor::{Runtime, stream::StreamNext, time::{Duration, interval}};
///
/// # let runtime = Runtime::builder().workers(1).virtual_clock().build()?;
/// runtime.block_on(async {
///     let mut ticks = interval(Duration::from_millis(5));
///     let first = ticks.next().await.unwrap();
///     let second = ticks.next().await.unwrap();
///     assert_eq!(second - first, Duration::from_millis(5));
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Interval {
    /// When the next tick is due.
    next: Instant,
    period: Duration,
    missed_tick: MissedTick,
    /// What it waits for as a stream. In a box, as an interval may be moved; made when first polled.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Interval {
    /// Waits for the next tick; the moment it was due, which may be past.
    ///
    /// The future may be dropped: the tick is then still to come.
    ///
    /// # Panics
    /// Where no runtime runs, as [`sleep`](super::sleep) does.
    pub async fn tick(&mut self) -> Instant {
        sleep_until(self.next).await;
        self.take_tick()
    }

    /// Waits for the next tick, as [`tick`](Self::tick) does; for futures that are written by hand.
    /// It allocates when first called, and wakes whoever called last.
    ///
    /// ```
    /// use executor::{Runtime, time::{Duration, interval}};
    /// use std::future::poll_fn;
    ///
    /// # let runtime = Runtime::builder().workers(1).virtual_clock().build()?;
    /// runtime.block_on(async {
    ///     let mut interval = interval(Duration::from_millis(5));
    ///     let first = interval.tick().await;
    ///     let second = poll_fn(|cx| interval.poll_tick(cx)).await;
    ///     assert_eq!(second - first, Duration::from_millis(5));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let next = self.next;
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(sleep_until(next)));
        if sleep.deadline() != next {
            sleep.as_mut().reset(next);
        }
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(self.take_tick())
    }

    fn take_tick(&mut self) -> Instant {
        let tick = self.next;
        self.next = self.after(tick, Instant::now());
        tick
    }

    /// When the next tick is due, if this one is taken `now`.
    fn after(&self, tick: Instant, now: Instant) -> Instant {
        let next = tick.saturating_add(self.period);
        if now < next {
            return next;
        }
        match self.missed_tick {
            MissedTick::Burst => next,
            MissedTick::Delay => now.saturating_add(self.period),
            MissedTick::Skip => {
                // It fits: a period was added to a moment before now.
                let period = self.period.as_nanos() as u64;
                let since_last = (now.as_nanos() - tick.as_nanos()) % period;
                now.saturating_sub(Duration::from_nanos(since_last))
                    .saturating_add(self.period)
            }
        }
    }

    /// Makes the next tick due one period from now.
    pub fn reset(&mut self) {
        self.reset_at(Instant::now().saturating_add(self.period));
    }

    /// Makes the next tick due at `next`.
    pub fn reset_at(&mut self, next: Instant) {
        self.next = next;
    }

    /// Time between ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// What happens to ticks for which nobody came.
    pub fn missed_tick(&self) -> MissedTick {
        self.missed_tick
    }

    /// Says what happens to ticks for which nobody came.
    pub fn set_missed_tick(&mut self, missed_tick: MissedTick) {
        self.missed_tick = missed_tick;
    }
}

impl Stream for Interval {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.get_mut().poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}
