//! Releasing the other cores, by PSCI or by a spin table.

use super::image_offset;
use crate::{devicetree::Start, space};
use core::arch::asm;
use hal::{
    bring_up::{self, Ticks},
    cores::{CoreSet, MAX_CORES},
    layout,
    paging::{Access, Space},
};
use smccc::{Hvc, Smc, psci};
use spin::Once;

unsafe extern "C" {
    static mut secondary_tables: [u64; 2];
    static __image_start: u8;
    static __head_end: u8;
    fn secondary_entry();
}

static METHOD: Once<(Start, [u64; MAX_CORES])> = Once::new();

/// Makes the tables with which the others turn on their MMU: the final ones,
/// and for the lower half one with just the code that does it.
pub fn prepare(start: Start, release: [u64; MAX_CORES]) {
    METHOD.call_once(|| (start, release));
    let root = space::frame().expect("the pool has room for these tables");
    // SAFETY: a fresh zeroed frame of the pool, which the direct map has.
    let mut lower = unsafe { Space::new(root, layout::DIRECT_MAP) };
    let from = &raw const __image_start as usize;
    let length = &raw const __head_end as usize - from;
    let from = from - image_offset();
    lower
        .map(
            from,
            from as u64,
            length,
            Access::ReadExecute,
            &mut space::frame,
        )
        .expect("the pool has room for these tables");
    // SAFETY: no other core runs yet. They read it with their caches off, so it must be in memory.
    unsafe {
        secondary_tables = [root, bring_up::root()];
        asm!("dc civac, {}", "dsb sy", in(reg) &raw const secondary_tables, options(nostack, preserves_flags));
    }
}

/// Sends `cores` on their way.
pub fn start_cores(
    cores: CoreSet,
    hardware_id: &dyn Fn(usize) -> u64,
    _ticks: &Ticks,
    refused: &mut dyn FnMut(usize, i64),
) {
    let (start, release) = METHOD.get().expect("prepare came first");
    let entry = (secondary_entry as *const () as usize - image_offset()) as u64;
    for core in cores.iter() {
        let result = match start {
            Start::PsciHvc => psci::cpu_on::<Hvc>(hardware_id(core), entry, 0),
            Start::PsciSmc => psci::cpu_on::<Smc>(hardware_id(core), entry, 0),
            Start::SpinTable => {
                release_by_table(release[core], entry);
                Ok(())
            }
        };
        if let Err(error) = result {
            refused(core, i64::from(error));
        }
    }
}

/// Writes where to go to the place where the core looks, past the caches, and wakes it.
fn release_by_table(address: u64, entry: u64) {
    if address == 0 {
        return;
    }
    let at = layout::phys_to_virt(address);
    // SAFETY: 1. the page of the table is kept writable in the direct map (`Kind::Trampoline`);
    // 2. the firmware's loop reads the word with its caches off, hence the clean.
    unsafe {
        (at as *mut u64).write_volatile(entry);
        asm!("dc civac, {}", "dsb sy", "sev", in(reg) at, options(nostack, preserves_flags));
    }
}
