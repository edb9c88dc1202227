//! The ACPI power management timer: 3.579545 MHz on every PC, and the clock
//! against which the others are measured.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use x86_64::instructions::port::Port;

/// Ticks a second.
pub const HERTZ: u64 = 3_579_545;

/// Port it is read from; 0: not known yet.
static PORT: AtomicU32 = AtomicU32::new(0);
/// Last value read and the ticks counted up to it. Touched by the boot core only, while it boots.
static LAST: AtomicU32 = AtomicU32::new(0);
static TICKS: AtomicU64 = AtomicU64::new(0);

/// Tells where the timer is.
pub fn init_once(port: u16) {
    PORT.store(u32::from(port), Relaxed);
    LAST.store(read(), Relaxed);
}

/// Its value: 24 bits that every PC has, though some have 32.
pub fn read() -> u32 {
    // SAFETY: the port is the one that the firmware's table names; reading it changes nothing.
    unsafe { Port::<u32>::new(PORT.load(Relaxed) as u16).read() & 0xff_ffff }
}

/// Ticks since `init_once`, if asked at least once every 4 s. For the boot core while it boots.
pub fn ticks() -> u64 {
    let now = read();
    let passed = now.wrapping_sub(LAST.swap(now, Relaxed)) & 0xff_ffff;
    let ticks = TICKS.load(Relaxed) + u64::from(passed);
    TICKS.store(ticks, Relaxed);
    ticks
}

/// Microseconds since `init_once`, before the clock runs. For the boot core while it boots.
pub fn boot_micros() -> u64 {
    ticks() * 1_000_000 / HERTZ
}
