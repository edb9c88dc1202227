//! Touching memory that may not be there, without dying of it.
//!
//! The access is one instruction with a known address; the trap handler sees
//! that address and goes on at the error exit instead of reporting a fault.

use crate::{arch, traps::FaultKind};

/// The access faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faulted;

/// Reads the 8 bytes at `address`.
pub fn read(address: usize) -> Result<u64, Faulted> {
    arch::probe::read(address).ok_or(Faulted)
}

/// Writes 8 bytes to `address`.
///
/// # Safety
/// If the address can be written, writing `value` there breaks nothing.
pub unsafe fn write(address: usize, value: u64) -> Result<(), Faulted> {
    // SAFETY: the caller's promise.
    unsafe { arch::probe::write(address, value) }
        .then_some(())
        .ok_or(Faulted)
}

/// Calls the code at `address`.
///
/// # Safety
/// If it is executable, it is a function without arguments that returns.
pub unsafe fn call(address: usize) -> Result<(), Faulted> {
    // SAFETY: the caller's promise.
    unsafe { arch::probe::call(address) }
        .then_some(())
        .ok_or(Faulted)
}

/// Reads null with a frame pointer that leads nowhere. For tests of reports.
pub fn fault_with_damaged_stack() {
    arch::probe::fault_with_damaged_stack();
}

/// The kinds of fault that [`fault`] can make.
pub fn faults() -> &'static [FaultKind] {
    arch::probe::FAULTS
}

/// Makes this core meet a fault of this kind, here. Comes back if it is none of [`faults`]. For tests.
pub fn fault(kind: FaultKind) {
    arch::probe::fault(kind);
}
