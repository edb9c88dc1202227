//! Accesses that may fault: see [`crate::probe`].

use super::Frame;
use crate::traps::FaultKind;
use core::arch::{asm, naked_asm};

unsafe extern "C" {
    static probe_read_access: u8;
    static probe_write_access: u8;
    static probe_call_back: u8;
    static probe_failed: u8;
}

/// Reads; returns the value and, in `worked`, whether there was one.
#[unsafe(naked)]
extern "C" fn try_read(_address: usize, _worked: &mut u64) -> u64 {
    naked_asm!(
        ".global probe_read_access",
        "probe_read_access:",
        "ldr x0, [x0]",
        "mov x2, #1",
        "str x2, [x1]",
        "ret",
        ".global probe_failed",
        "probe_failed:",
        "str xzr, [x1]",
        "ret",
    )
}

#[unsafe(naked)]
extern "C" fn try_write(_address: usize, _worked: &mut u64, _value: u64) {
    naked_asm!(
        ".global probe_write_access",
        "probe_write_access:",
        "str x2, [x0]",
        "mov x2, #1",
        "str x2, [x1]",
        "ret",
    )
}

#[unsafe(naked)]
extern "C" fn try_call(_address: usize, _worked: &mut u64) {
    naked_asm!(
        "stp x1, x30, [sp, #-16]!",
        "blr x0",
        ".global probe_call_back",
        "probe_call_back:",
        "ldp x1, x30, [sp], #16",
        "mov x2, #1",
        "str x2, [x1]",
        "ret",
    )
}

pub fn read(address: usize) -> Option<u64> {
    let mut worked = 0;
    let value = try_read(address, &mut worked);
    (worked != 0).then_some(value)
}

pub unsafe fn write(address: usize, value: u64) -> bool {
    let mut worked = 0;
    try_write(address, &mut worked, value);
    worked != 0
}

pub unsafe fn call(address: usize) -> bool {
    let mut worked = 0;
    try_call(address, &mut worked);
    worked != 0
}

/// If the fault came from a probe, makes it go on at the probe's error exit.
pub fn recover(class: u64, frame: &mut Frame) -> bool {
    let failed = &raw const probe_failed as u64;
    // Data abort in EL1.
    if class == 0x25
        && (frame.pc == &raw const probe_read_access as u64
            || frame.pc == &raw const probe_write_access as u64)
    {
        frame.pc = failed;
        return true;
    }
    // Instruction abort in EL1, at the target of a probe's call: the way back is in x30.
    if class == 0x21 && frame.x[30] == &raw const probe_call_back as u64 {
        frame.x[1] = read(frame.sp as usize).unwrap_or(0);
        frame.x[30] = read(frame.sp as usize + 8).unwrap_or(0);
        frame.sp += 16;
        frame.pc = failed;
        return true;
    }
    false
}

/// See [`crate::probe::fault_with_damaged_stack`].
#[unsafe(naked)]
pub extern "C" fn fault_with_damaged_stack() {
    naked_asm!(
        "mov x29, #0x12340000",
        "mov x0, #0",
        "ldr x0, [x0]",
        "brk #1"
    )
}

/// See [`crate::probe::faults`].
pub const FAULTS: &[FaultKind] = &[
    FaultKind::Read,
    FaultKind::Write,
    FaultKind::Execute,
    FaultKind::IllegalInstruction,
    FaultKind::Alignment,
    FaultKind::Breakpoint,
];

/// See [`crate::probe::fault`]. To divide by zero is no fault.
pub fn fault(kind: FaultKind) {
    let aligned = 0u64;
    // SAFETY: none of these comes back.
    unsafe {
        match kind {
            FaultKind::Read => asm!("ldr {0}, [{0}]", inout(reg) 0usize => _),
            FaultKind::Write => asm!("str xzr, [{}]", in(reg) 8usize),
            FaultKind::Execute => asm!("blr {}", in(reg) 0usize, clobber_abi("C")),
            FaultKind::IllegalInstruction => asm!("udf #0"),
            // Ordinary accesses need not be aligned; those of a lock must.
            FaultKind::Alignment => {
                asm!("ldxr {0}, [{0}]", inout(reg) (&raw const aligned).addr() + 1 => _);
            }
            FaultKind::Breakpoint => asm!("brk #1"),
            FaultKind::Divide | FaultKind::Double | FaultKind::NoMemory | FaultKind::Other(_) => {}
        }
    }
}
