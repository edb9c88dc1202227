//! Leaving a PC.

use crate::board::Power;
use x86_64::instructions::port::Port;

/// Ends QEMU through its `isa-debug-exit` device: its status is twice this plus one.
pub fn exit(status: u8) {
    // SAFETY: only called when the command line says that the device is there.
    unsafe { Port::<u32>::new(0xf4).write(u32::from(status)) };
}

/// Enters the ACPI state "soft off".
pub fn off(power: Power) {
    if let Power::Acpi {
        control,
        sleep_type,
    } = power
        && control != 0
    {
        const SLEEP_ENABLE: u16 = 1 << 13;
        // SAFETY: port and value are those that the firmware's tables name.
        unsafe { Port::<u16>::new(control).write(sleep_type << 10 | SLEEP_ENABLE) };
    }
}

/// Pulls the reset line through the chipset, then through the keyboard controller.
pub fn restart(_: Power) {
    // SAFETY: the machine is to go down; these are the fixed ports for that.
    unsafe {
        Port::<u8>::new(0xcf9).write(0x06);
        Port::<u8>::new(0x64).write(0xfe);
    }
}

/// A triple fault: an interrupt when there are no descriptors.
pub fn crash() {
    let nothing = [0u16; 5];
    // SAFETY: the machine is to go down, and does with the next instruction.
    unsafe { core::arch::asm!("lidt [{}]", "int3", in(reg) nothing.as_ptr()) };
}

/// This one has no watchdog that all machines have.
pub fn arm_watchdog(_: Power, _: u32) {}
