//! A moment on the monotonic clock.

use super::{driver, wheel::NEVER};
use core::{
    fmt,
    ops::{Add, AddAssign, Sub, SubAssign},
    time::Duration,
};

/// A moment on the monotonic clock, to the nanosecond. As `std::time::Instant`,
/// and like that one it says nothing about the time of day.
///
/// The clock counts from the start of the machine, in 64 bits: it ends after
/// 584 years. Under an executor with a clock of its own, it is that one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Later than all others. A sleep until then never ends.
    pub const NEVER: Self = Self(NEVER);

    /// This moment.
    pub fn now() -> Self {
        Self(driver::now())
    }

    /// The moment when the clock shows `nanos`.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// What the clock shows at this moment.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago it was; zero if it is still to come.
    pub fn elapsed(self) -> Duration {
        Self::now() - self
    }

    /// How long after `earlier` it was; zero if it was before.
    pub const fn duration_since(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// How long after `earlier` it was; None if it was before.
    pub const fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        match self.0.checked_sub(earlier.0) {
            Some(nanos) => Some(Duration::from_nanos(nanos)),
            None => None,
        }
    }

    /// How long after `earlier` it was; zero if it was before.
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `duration` later; None if the clock does not go that far.
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        self.0.checked_add(nanos(duration)?).map(Self)
    }

    /// The moment `duration` earlier; None if that was before the clock began.
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(nanos(duration)?).map(Self)
    }

    /// The moment `duration` later; [`NEVER`](Self::NEVER) if the clock does not go that far.
    pub fn saturating_add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self::NEVER)
    }

    /// The moment `duration` earlier, or that at which the clock began.
    pub fn saturating_sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).unwrap_or(Self(0))
    }
}

/// A duration in nanoseconds, if they fit.
fn nanos(duration: Duration) -> Option<u64> {
    u64::try_from(duration.as_nanos()).ok()
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Panics if the clock does not go that far; see [`Instant::saturating_add`].
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration)
            .expect("overflow when adding a duration to an instant")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Panics if that was before the clock began; see [`Instant::saturating_sub`].
    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration)
            .expect("overflow when subtracting a duration from an instant")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return f.write_str("Instant(never)");
        }
        write!(f, "Instant({:?})", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn arithmetic_is_that_of_std() {
        let start = Instant::from_nanos(5_000_000_000);
        assert_eq!(start + SECOND - start, SECOND);
        assert_eq!(start - (start + SECOND), Duration::ZERO);
        assert_eq!(start.duration_since(start - SECOND), SECOND);
        assert_eq!(start.checked_duration_since(start + SECOND), None);
        let mut moved = start;
        moved += SECOND;
        moved -= SECOND * 2;
        assert_eq!(moved, start - SECOND);
        assert!(moved < start);
    }

    #[test]
    fn what_does_not_fit_saturates_or_is_none() {
        let start = Instant::from_nanos(7);
        assert_eq!(start.checked_add(Duration::MAX), None);
        assert_eq!(start.checked_add(Duration::from_nanos(u64::MAX)), None);
        assert_eq!(start.saturating_add(Duration::MAX), Instant::NEVER);
        assert_eq!(start.checked_sub(Duration::from_nanos(8)), None);
        assert_eq!(start.saturating_sub(SECOND), Instant::from_nanos(0));
    }

    #[test]
    #[should_panic(expected = "overflow when adding a duration to an instant")]
    fn adding_past_the_end_panics() {
        let _ = Instant::from_nanos(1) + Duration::MAX;
    }

    #[test]
    #[should_panic(expected = "overflow when subtracting a duration from an instant")]
    fn subtracting_past_the_beginning_panics() {
        let _ = Instant::from_nanos(1) - SECOND;
    }

    #[test]
    fn without_an_executor_it_is_the_machines_clock() {
        let before = Instant::now();
        while Instant::now() == before {}
        assert!(before.elapsed() > Duration::ZERO);
    }
}
