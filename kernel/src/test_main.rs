//! The `main` of test images.

use crate::{console, failure, start, watchdog};
use boot::BootInfo;
use executor::scheduler::tick::torture;
use hal::power::{self, Status};
use testing::Environment;

/// Brings the machine up, runs the tests, ends with their status.
pub fn main(info: &'static BootInfo) -> ! {
    failure::report_to_runner();
    let machine = start(info);
    watchdog::be_strict();
    watchdog::watch(machine.options.watchdog);
    if let Some(torture) = machine.options.torture {
        torture::start(torture.seed, torture.shortest, torture.longest);
    }
    let summary = testing::run(&Environment {
        board: info.platform.board.name(),
        cores: hal::cores::online().len(),
        filter: machine.options.test,
        long: machine.options.long,
        disk: machine.options.disk,
        from: machine.options.from,
        now: hal::clock::now,
        print_line: console::print_line,
    });
    power::exit(if summary.failed == 0 {
        Status::Success
    } else {
        Status::Failure
    })
}
