//! aarch64 boards: QEMU's virt and Raspberry Pis, told apart by their device
//! tree, or, when a Pi passes none, by the processor's own name.

mod boards;
mod entry;
mod start;

use crate::{
    BootInfo, CoreList, Entered, Firmware, Text,
    command_line::Options,
    devicetree::{self, Start},
    memory::{Kind, MemoryMap},
    space,
};
use core::{
    arch::asm,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use hal::{board, bring_up};

pub use start::start_cores;

/// Frames for the first page tables. They are part of the file: no more than it takes.
pub const POOL_FRAMES: usize = 64;

/// Virtual minus physical address of the image.
static OFFSET: AtomicUsize = AtomicUsize::new(0);

/// Virtual minus physical address of the image.
pub fn image_offset() -> usize {
    OFFSET.load(Relaxed)
}

/// Takes the final tables for the upper half, and gives up the lower one.
///
/// # Safety
/// They map the image as the coarse ones do.
pub unsafe fn activate(root: u64) {
    unsafe extern "C" {
        fn take_tables(root: u64, offset: usize);
    }
    // SAFETY: the caller's promise; the lower half still has the image at its physical address.
    unsafe { take_tables(root, image_offset()) };
}

/// Where the entry assembly ends: with the coarse tables, on the boot stack.
extern "C" fn boot_main(tree_at: usize, image_at: usize, entered: u64, cycle_counter: u64) -> ! {
    unsafe extern "C" {
        static __image_start: u8;
    }
    OFFSET.store(&raw const __image_start as usize - image_at, Relaxed);
    // SAFETY: the first Rust that runs, on the boot core.
    unsafe { bring_up::claim_core(0, space::boot_stack()) };
    bring_up::set_cycle_counter(cycle_counter != 0);
    describe_machine(tree_at, entered)
}

/// The rest, where the core has its block. Never inlined: see `claim_core`.
#[inline(never)]
fn describe_machine(tree_at: usize, entered: u64) -> ! {
    // SAFETY: once, and the core was claimed before.
    unsafe { bring_up::traps_on_boot_core() };
    let mut memory = MemoryMap::new();
    let mut cores = CoreList::new();
    // The core that runs is the first, wherever the tree lists it.
    cores.add(my_id());
    let tree = read_tree(tree_at, &mut memory, &mut cores);
    let length = tree.as_ref().map_or(0, |(_, length)| *length);
    let mut machine = boards::describe(tree.map(|(tree, _)| tree), &mut memory, &mut cores);
    let (start, end) = space::image();
    memory.reserve(start, end - start, Kind::Image);
    memory.reserve(tree_at as u64, length as u64, Kind::Firmware);
    memory.truncate(hal::layout::DIRECT_MAP_SIZE);
    space::enter(&memory).expect("there is room for the first page tables");

    let options = Options::parse(machine.command_line.as_str(), &mut |_| {});
    machine.platform.takes_status = options.exit_to_qemu;
    cores.limit(options.cores);
    let platform = *board::set(machine.platform);
    start::prepare(machine.start, machine.release);

    bring_up::init_once(&platform, entered);
    bring_up::init_each_core();
    crate::hand_over(BootInfo {
        platform,
        memory,
        cores,
        command_line: machine.command_line,
        firmware: match length {
            0 => Firmware::Nothing,
            length => Firmware::DeviceTree(tree_at as u64, length),
        },
        loader: if length == 0 {
            "its built-in table"
        } else {
            "a device tree"
        },
        entered: Entered {
            counter: entered,
            // The counter was set to 0 at entry.
            cycles: 0,
        },
    })
}

/// What `boards` finds out.
struct Description {
    platform: hal::board::Platform,
    command_line: Text,
    start: Start,
    release: [u64; hal::cores::MAX_CORES],
}

/// Hardware number of this core: the affinity fields of its MPIDR.
fn my_id() -> u64 {
    let mpidr: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) mpidr, options(nostack, preserves_flags, nomem)) };
    mpidr & 0xff_00ff_ffff
}

/// Reads the device tree, which the coarse tables map at its physical address.
fn read_tree(
    at: usize,
    memory: &mut MemoryMap,
    cores: &mut CoreList,
) -> Option<(devicetree::Tree, usize)> {
    if at == 0 || !at.is_multiple_of(8) {
        return None;
    }
    // SAFETY: the entry mapped the two blocks of 2 MiB from `at` on, as memory that nobody writes.
    let header = unsafe { &*(at as *const [u8; 8]) };
    let length = devicetree::length(header)?;
    const MOST: usize = 2 << 20;
    if length > MOST {
        return None;
    }
    // SAFETY: as above, and not longer than what is mapped.
    let bytes = unsafe { core::slice::from_raw_parts(at as *const u8, length) };
    Some((devicetree::read(bytes, memory, cores)?, length))
}
