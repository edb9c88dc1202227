//! The image that measures. Under QEMU's icount the figures are instructions,
//! the same on every run.

#![no_std]
#![no_main]

use boot::BootInfo;
use hal::power::{self, Status};
use kernel::{println, start};

boot::entry!(main);

fn main(info: &'static BootInfo) -> ! {
    let machine = start(info);
    println!("@@ note compiler={}", env!("SPINDLE_COMPILER"));
    println!(
        "@@ bench boot_to_call_of_cores {} instructions",
        machine.release_cycles
    );
    println!(
        "@@ bench boot_to_all_cores_up {} instructions",
        machine.boot_cycles
    );
    power::exit(Status::Success)
}
