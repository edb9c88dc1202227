//! Monotonic time and the one-shot timer of each core.
//!
//! The raw counter (TSC, CNTPCT) is turned into nanoseconds by one multiply.
//! Its rate is told by the hardware or found by comparing how far two clocks
//! went over the same stretch, never by counting turns of a loop.

use crate::arch;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Nanoseconds per tick, as a fixed-point number with 32 bits behind the point. 0: not known yet.
static NANOS_PER_TICK: AtomicU64 = AtomicU64::new(0);
/// Raw counter when the clock was started.
static START: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds since the clock was started at boot; 0 before that.
#[inline]
pub fn now() -> u64 {
    // Acquire pairs with the release in `start`: who sees the rate sees the start too.
    let scale = NANOS_PER_TICK.load(Acquire);
    scaled(arch::counter().wrapping_sub(START.load(Relaxed)), scale)
}

/// What `ticks` of the raw counter are in nanoseconds; 0 before the clock was started.
#[inline]
pub fn ticks_to_nanos(ticks: u64) -> u64 {
    scaled(ticks, NANOS_PER_TICK.load(Relaxed))
}

#[inline]
fn scaled(ticks: u64, scale: u64) -> u64 {
    ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
}

/// The raw counter's value when [`now`] will be `nanos`.
pub fn nanos_to_counter(nanos: u64) -> u64 {
    let ticks = (u128::from(nanos) << 32).div_ceil(u128::from(NANOS_PER_TICK.load(Relaxed).max(1)));
    START
        .load(Relaxed)
        .saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX))
}

/// Starts the clock at the raw counter's value `start`, with `hertz` ticks a second.
pub fn start(start: u64, hertz: u64) {
    START.store(start, Relaxed);
    let scale = (1_000_000_000u128 << 32) / u128::from(hertz);
    // Release pairs with the acquire in `now`. Other cores may be up already.
    NANOS_PER_TICK.store(scale as u64, Release);
}

/// Whether [`now`] tells time yet.
pub fn is_running() -> bool {
    NANOS_PER_TICK.load(Relaxed) != 0
}

/// Makes this core's timer fire at `deadline` (nanoseconds, as [`now`] counts);
/// at once if that is past. Replaces an earlier one.
pub fn arm(deadline: u64) {
    arch::timer_arm(deadline);
}

/// This core's timer does not fire.
pub fn disarm() {
    arch::timer_disarm();
}

/// Instructions executed since some point before the image was entered, if the
/// machine counts them (QEMU with icount does); a cycle count elsewhere.
#[inline]
pub fn cycles() -> u64 {
    arch::cycles()
}
