//! The image that measures. Under QEMU's icount the figures are instructions,
//! the same on every run.

#![no_std]
#![no_main]

extern crate alloc;

mod contexts;
mod network;
mod sync;
mod tasks;

use boot::BootInfo;
use core::fmt::Display;
use hal::{
    clock,
    power::{self, Status},
};
use kernel::{println, start};

boot::entry!(main);

fn main(info: &'static BootInfo) -> ! {
    let machine = start(info);
    println!("@@ note compiler={}", env!("SPINDLE_COMPILER"));
    report(
        "boot_to_call_of_cores",
        machine.release_cycles,
        "instructions",
    );
    report("boot_to_all_cores_up", machine.boot_cycles, "instructions");
    tasks::run();
    contexts::run();
    sync::run();
    network::run();
    power::exit(Status::Success)
}

fn report(name: &str, value: impl Display, unit: &str) {
    println!("@@ bench {name} {value} {unit}");
}

/// Instructions for one of `count` turns of `what`. What it costs to count them is taken off.
fn measure(name: &str, count: u64, what: impl FnOnce()) {
    let empty = cycles_of(|| {});
    report_each(name, cycles_of(what) - empty, count);
}

/// Instructions for one of `count` turns, to a tenth.
fn report_each(name: &str, cycles: u64, count: u64) {
    let tenths = (cycles * 10 + count / 2) / count;
    report(
        name,
        format_args!("{}.{}", tenths / 10, tenths % 10),
        "instructions",
    );
}

fn cycles_of(what: impl FnOnce()) -> u64 {
    let begin = clock::cycles();
    what();
    clock::cycles() - begin
}

async fn cycles_of_future(what: impl AsyncFnOnce()) -> u64 {
    let begin = clock::cycles();
    what().await;
    clock::cycles() - begin
}
