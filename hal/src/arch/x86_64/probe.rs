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

/// Reads; returns the value and whether it worked.
#[unsafe(naked)]
extern "C" fn try_read(_address: usize, _worked: &mut u64) -> u64 {
    naked_asm!(
        ".global probe_read_access",
        "probe_read_access:",
        "mov rax, [rdi]",
        "mov qword ptr [rsi], 1",
        "ret",
        ".global probe_failed",
        "probe_failed:",
        "mov qword ptr [rsi], 0",
        "ret",
    )
}

#[unsafe(naked)]
extern "C" fn try_write(_address: usize, _worked: &mut u64, _value: u64) {
    naked_asm!(
        ".global probe_write_access",
        "probe_write_access:",
        "mov [rdi], rdx",
        "mov qword ptr [rsi], 1",
        "ret",
    )
}

#[unsafe(naked)]
extern "C" fn try_call(_address: usize, _worked: &mut u64) {
    naked_asm!(
        "push rsi",
        "call rdi",
        ".global probe_call_back",
        "probe_call_back:",
        "pop rsi",
        "mov qword ptr [rsi], 1",
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
pub fn recover(vector: u64, frame: &mut Frame) -> bool {
    // Page fault, or general protection for an address that is not canonical.
    if vector != 14 && vector != 13 {
        return false;
    }
    let rip = frame.rip;
    let failed = &raw const probe_failed as u64;
    if rip == &raw const probe_read_access as u64 || rip == &raw const probe_write_access as u64 {
        frame.rip = failed;
        return true;
    }
    // A call to a page that is not executable faults at its target, with the way back on the stack.
    let back = &raw const probe_call_back as u64;
    if vector == 14 && rip == frame.rdi && read(frame.rsp as usize) == Some(back) {
        frame.rsi = read(frame.rsp as usize + 8).unwrap_or(0);
        frame.rsp += 16;
        frame.rip = failed;
        return true;
    }
    false
}

/// See [`crate::probe::fault_with_damaged_stack`].
#[unsafe(naked)]
pub extern "C" fn fault_with_damaged_stack() {
    naked_asm!(
        "mov ebp, 0x12345670",
        "xor eax, eax",
        "mov rax, [rax]",
        "ud2"
    )
}

/// See [`crate::probe::faults`].
pub const FAULTS: &[FaultKind] = &[
    FaultKind::Read,
    FaultKind::Write,
    FaultKind::Execute,
    FaultKind::IllegalInstruction,
    FaultKind::Divide,
    FaultKind::Breakpoint,
    FaultKind::Other(13),
];

/// See [`crate::probe::fault`]. Code of the kernel may access any address, aligned or not.
pub fn fault(kind: FaultKind) {
    // SAFETY: none of these comes back.
    unsafe {
        match kind {
            FaultKind::Read => asm!("mov {0}, [{0}]", inout(reg) 0usize => _),
            FaultKind::Write => asm!("mov qword ptr [{}], 1", in(reg) 8usize),
            FaultKind::Execute => asm!("call {}", in(reg) 0usize, clobber_abi("C")),
            FaultKind::IllegalInstruction => asm!("ud2"),
            FaultKind::Divide => {
                asm!("div {}", in(reg) 0usize, inout("rax") 1usize => _, inout("rdx") 0usize => _);
            }
            FaultKind::Breakpoint => asm!("int3"),
            // An address that is none: general protection.
            FaultKind::Other(_) => asm!("mov {0}, [{0}]", inout(reg) 1usize << 63 => _),
            FaultKind::Alignment | FaultKind::Double | FaultKind::NoMemory => {}
        }
    }
}
