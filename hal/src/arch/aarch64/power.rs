//! Leaving an aarch64 machine.

use crate::{board::Power, paging};
use core::{
    arch::asm,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use smccc::{Hvc, Smc, psci};

/// Ends QEMU through semihosting, with this as its status.
pub fn exit(status: u8) {
    // ADP_Stopped_ApplicationExit, and the status.
    let block = [0x2_0026u64, u64::from(status)];
    // SAFETY: only called when the command line says that the machine below takes it.
    unsafe { asm!("hlt #0xf000", in("x0") 0x18u64, in("x1") block.as_ptr(), options(nostack)) };
}

/// Switches off.
pub fn off(power: Power) {
    match power {
        // The calls return only to say that they failed; the caller then stands still.
        Power::PsciHvc => drop(psci::system_off::<Hvc>()),
        Power::PsciSmc => drop(psci::system_off::<Smc>()),
        Power::BcmWatchdog(registers) => bite(registers, true),
        _ => {}
    }
}

/// Restarts.
pub fn restart(power: Power) {
    match power {
        Power::PsciHvc => drop(psci::system_reset::<Hvc>()),
        Power::PsciSmc => drop(psci::system_reset::<Smc>()),
        Power::BcmWatchdog(registers) => bite(registers, false),
        _ => {}
    }
}

/// Lets the watchdog of a Pi bite now. Again and again: another core may feed it in between.
fn bite(registers: u64, halt: bool) -> ! {
    loop {
        watchdog(registers, 10, halt);
        super::pause();
    }
}

/// Lets the watchdog of a Pi bite after so many seconds, if nobody says so again.
pub fn arm_watchdog(power: Power, seconds: u32) {
    // Its counter has 20 bits.
    const TICKS_A_SECOND: u32 = 1 << 16;
    if let Power::BcmWatchdog(registers) = power {
        watchdog(registers, (seconds * TICKS_A_SECOND).min(0xf_ffff), false);
    }
}

/// Lets the watchdog of a Pi bite after a few ticks. It restarts the machine;
/// "partition 63" tells the firmware to halt instead.
fn watchdog(registers: u64, ticks: u32, halt: bool) {
    const PASSWORD: u32 = 0x5a00_0000;
    const CONTROL: usize = 0x1c;
    const STATUS: usize = 0x20;
    const TIMEOUT: usize = 0x24;
    const HALT: u32 = 0x555;
    // Mapped once: the watchdog may be fed from interrupts, for years.
    static MAPPED: AtomicUsize = AtomicUsize::new(0);
    let at = match MAPPED.load(Relaxed) {
        0 => match paging::map_device(registers, 0x100) {
            Ok(at) => at,
            Err(_) => return,
        },
        at => at,
    };
    MAPPED.store(at, Relaxed);
    let register = |offset: usize| (at + offset) as *mut u32;
    // SAFETY: the registers were just mapped, and the board's table says what they are.
    unsafe {
        if halt {
            let status = register(STATUS).read_volatile();
            register(STATUS).write_volatile(PASSWORD | status | HALT);
        }
        register(TIMEOUT).write_volatile(PASSWORD | ticks);
        let control = register(CONTROL).read_volatile();
        register(CONTROL).write_volatile(PASSWORD | control & !0x30 | 0x20);
    }
}

/// Nothing takes this architecture down at once; the caller restarts it.
pub fn crash() {}
