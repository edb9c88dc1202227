//! x86_64's I/O ports. Other architectures have none, and no board that
//! names one.

use crate::arch;

/// Reads a byte from an I/O port.
///
/// # Safety
/// Reading it has no effect on memory safety: the port belongs to the caller's device.
pub unsafe fn read_port(port: u16) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { arch::read_port(port) }
}

/// Writes a byte to an I/O port.
///
/// # Safety
/// As for [`read_port`].
pub unsafe fn write_port(port: u16, value: u8) {
    // SAFETY: the caller's promise.
    unsafe { arch::write_port(port, value) }
}
