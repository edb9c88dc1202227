//! Accesses that may fault. A process has no fault handler of ours: reading
//! goes through the kernel, which says no instead of faulting (Linux only);
//! writing and calling always say no, because the kernel's way to write looks
//! past the protection of pages.

use crate::traps::FaultKind;

#[cfg(target_os = "linux")]
pub fn read(address: usize) -> Option<u64> {
    use std::{fs::File, os::unix::fs::FileExt, sync::OnceLock};
    static MEMORY: OnceLock<Option<File>> = OnceLock::new();
    let memory = MEMORY.get_or_init(|| File::open("/proc/self/mem").ok());
    let mut bytes = [0; 8];
    memory
        .as_ref()?
        .read_exact_at(&mut bytes, address as u64)
        .ok()?;
    Some(u64::from_ne_bytes(bytes))
}

#[cfg(not(target_os = "linux"))]
pub fn read(_address: usize) -> Option<u64> {
    None
}

pub unsafe fn write(_address: usize, _value: u64) -> bool {
    false
}

pub unsafe fn call(_address: usize) -> bool {
    false
}

/// There are no traps to test here.
pub fn fault_with_damaged_stack() {
    unreachable!("the host has no traps")
}

/// As above.
pub const FAULTS: &[FaultKind] = &[];

/// As above.
pub fn fault(_kind: FaultKind) {
    unreachable!("the host has no traps")
}
