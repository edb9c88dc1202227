//! Leaving a process.

use crate::board::Power;

/// Ends the process with this status.
pub fn exit(status: u8) {
    std::process::exit(i32::from(status));
}

/// Ends the process.
pub fn off(_: Power) {
    std::process::exit(0);
}

/// A process cannot start itself anew: it ends, as a failure.
pub fn restart(_: Power) {
    std::process::exit(1);
}

/// Ends the process without asking anybody.
pub fn crash() {
    std::process::abort();
}

/// This one has no watchdog that all machines have.
pub fn arm_watchdog(_: Power, _: u32) {}
