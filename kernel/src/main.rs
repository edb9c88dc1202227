//! The image that people boot: all cores up, then a shell on the serial line.
//! With `tour` on the command line it shows what works and switches off.

#![no_std]
#![no_main]

use boot::BootInfo;
use kernel::{console, shell, start, tour};

boot::entry!(main);

fn main(info: &'static BootInfo) -> ! {
    let machine = start(info);
    console::listen(info.platform.uart, hal::cores::this_core());
    if machine.options.idle {
        kernel::println!("@@ note idle");
        kernel::cores::idle()
    } else if machine.options.tour {
        tour::run(&machine)
    } else {
        shell::run(&machine)
    }
}
