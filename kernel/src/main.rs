//! The image that people boot: all cores up, the executor on all of them, then
//! a shell on the serial line. With `tour` on the command line it shows what
//! works and switches off.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use boot::BootInfo;
use executor::{Runtime, time::Duration};
use kernel::{Machine, devices, files, network, shell, start, tour, watchdog};

boot::entry!(main);

fn main(info: &'static BootInfo) -> ! {
    let machine: &'static Machine = Box::leak(Box::new(start(info)));
    // It looks also while the machine sleeps: what that costs is another question than what sleep costs.
    if !machine.options.idle {
        watchdog::watch(machine.options.watchdog);
    }
    let quantum = machine.options.quantum_ms;
    let runtime = Runtime::builder()
        .track(true)
        .quantum((quantum != 0).then(|| Duration::from_millis(quantum.into())))
        .build();
    let runtime = runtime.expect("the boot core is free, and takes all others that are");
    // The other cores serve the runtime from here on, and this one while it blocks.
    if machine.options.idle {
        kernel::println!("@@ note idle");
        runtime.block_on(kernel::idle())
    } else if machine.options.tour {
        runtime.block_on(async {
            devices::start(info).await;
            tour::run(machine).await
        })
    } else {
        runtime.block_on(async {
            let _goes_on = watchdog::start();
            devices::start(info).await;
            network::start(machine.options.network).await;
            files::start();
            shell::run(machine).await
        })
    }
}
