//! PCs: PVH (QEMU's `-kernel`) and multiboot2 (GRUB).

mod acpi;
mod entry;
mod loader;
mod trampoline;

use crate::{BootInfo, CoreList, Entered, Firmware, Text, memory::Kind, space};
use hal::{board, bring_up, layout};

pub use bring_up::activate;
pub use trampoline::start_cores;

/// Frames for the first page tables: PCs have memory in many pieces.
pub const POOL_FRAMES: usize = 320;

/// Virtual minus physical address of the image.
pub fn image_offset() -> usize {
    layout::IMAGE
}

/// Where the entry assembly ends: with the coarse tables, on the boot stack.
extern "C" fn boot_main(protocol: usize, block: usize, entered: u64) -> ! {
    // SAFETY: the first Rust that runs, on the boot core.
    unsafe { bring_up::claim_core(0, space::boot_stack()) };
    describe_machine(protocol, block, entered)
}

/// The rest, where the core has its block. Never inlined: see `claim_core`.
#[inline(never)]
fn describe_machine(protocol: usize, block: usize, entered: u64) -> ! {
    // SAFETY: once, and the core was claimed before.
    unsafe { bring_up::traps_on_boot_core() };
    let mut left = loader::read(protocol, block);
    let (start, end) = space::image();
    left.memory.reserve(start, end - start, Kind::Image);
    // The first page stays free of use: address 0 in it would look like null in the tables of real mode.
    left.memory.reserve(0, layout::PAGE as u64, Kind::Firmware);
    let page = trampoline::choose_page(&mut left.memory);
    left.memory.truncate(layout::DIRECT_MAP_SIZE);
    space::enter(&left.memory).expect("there is room for the first page tables");

    let mut cores = CoreList::new();
    let command_line = Text::new(left.command_line);
    let mut platform = acpi::read(left.rsdp, &mut cores);
    let options = crate::command_line::Options::parse(command_line.as_str(), &mut |_| {});
    platform.takes_status = options.exit_to_qemu;
    cores.limit(options.cores);
    let platform = *board::set(platform);
    trampoline::prepare(page);

    bring_up::init_once(&platform);
    bring_up::init_each_core();
    bring_up::calibrate_begin();
    crate::hand_over(BootInfo {
        platform,
        memory: left.memory,
        cores,
        command_line,
        firmware: Firmware::Acpi(left.rsdp),
        loader: left.loader,
        entered: Entered {
            counter: entered,
            cycles: entered,
        },
    })
}
