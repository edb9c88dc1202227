//! `spindle-qemu` runs Spindle images on QEMU's boards: arguments, time limits, exit codes,
//! console scripts, and a report of what happened. It is what `make run`, `make test`,
//! `make bench` and `make gdb` call.
//!
//! From the outside in: `options` reads the command line; `check`, `pack`, `run`, `test`, `torture`,
//! `bench` and `gdb` are the commands. A `machine` (a `board` as configured) is booted as a `guest`, whose
//! console a `session` makes test results of; a `suite` boots again until every test has run, and
//! the `report` tells of them. `qmp` and `inspect` look into a guest that hangs.

mod bench;
mod board;
mod cargo;
mod check;
mod devtree;
mod disk;
mod exit;
mod files;
mod fixtures;
mod gdb;
mod guest;
mod help;
mod host;
mod idle;
mod inspect;
mod iso;
mod junit;
mod lines;
mod long;
mod machine;
mod matrix;
mod network;
mod options;
mod pack;
mod power;
mod problem;
mod process;
mod protocol;
mod qmp;
mod report;
mod run;
mod script;
mod scripted;
mod serial;
mod session;
mod suite;
mod symbols;
mod test;
mod torture;
mod verdict;

use options::{Options, Request};
use problem::Result;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let status = match options::parse(std::env::args_os().skip(1)) {
        Ok(Request::Help(text)) => {
            // A reader that has gone needs no help.
            let _ = write!(std::io::stdout(), "{text}");
            Ok(0)
        }
        Ok(Request::Command(name, options)) => command(name, &options),
        Err(problem) => Err(problem),
    };
    status.map(ExitCode::from).unwrap_or_else(|problem| {
        eprintln!("spindle-qemu: {problem}");
        ExitCode::from(2)
    })
}

fn command(name: &str, options: &Options) -> Result<u8> {
    match name {
        "check" => check::check(options),
        "pack" => pack::pack(&options.files[0], &options.files[1]).map(|()| 0),
        "run" => run::run(options),
        "test" => test::test(options),
        "torture" => torture::torture(options),
        "bench" => bench::bench(options),
        _ => gdb::gdb(options),
    }
}
