//! Leaving: exit with a status, switch off, restart.

use crate::{arch, board};

/// How the image ended, for whoever started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All is well.
    Success = 0,
    /// A test failed.
    Failure = 1,
    /// A machine panic.
    Panic = 2,
}

/// Ends the machine. Under QEMU with `exit=qemu` its process ends with the
/// status; elsewhere success switches off, and after a panic the machine
/// stands still so that the report stays on the screen.
pub fn exit(status: Status) -> ! {
    let takes_status = board::try_platform().is_some_and(|platform| platform.takes_status);
    if takes_status {
        // QEMU's own errors are 1, and a plain power-off is 0: ours begin at 0x10.
        arch::power::exit(0x10 + status as u8);
    }
    if status == Status::Success {
        off();
    }
    arch::halt()
}

/// Switches the machine off; stands still where that is not possible.
pub fn off() -> ! {
    if let Some(platform) = board::try_platform() {
        arch::power::off(platform.power);
    }
    arch::halt()
}

/// Restarts the machine; stands still where that is not possible.
pub fn restart() -> ! {
    if let Some(platform) = board::try_platform() {
        arch::power::restart(platform.power);
    }
    arch::halt()
}

/// Lets the hardware restart the machine in so many seconds, unless this is called again before; where it can. Not under QEMU, whose
/// model of it bites as soon as it is armed.
pub fn arm_watchdog(seconds: u32) {
    if let Some(platform) = board::try_platform()
        && !platform.takes_status
    {
        arch::power::arm_watchdog(platform.power, seconds);
    }
}

/// Takes the machine down without asking anybody: a triple fault on a PC, a
/// restart elsewhere. For the test framework's own tests.
pub fn restart_by_force() -> ! {
    arch::power::crash();
    restart()
}
