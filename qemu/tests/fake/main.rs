//! Plays the part of QEMU for the tests of the runner: takes its arguments, speaks QMP, and
//! is a guest that does what the tests ask for.
//!
//! The image's file name chooses the guest: `tests` runs what `FAKE_TESTS` lists, as
//! `name=behaviour` words; `fixtures` is the framework's fixtures; `spindle` and `bench` do what
//! `FAKE_SPINDLE` and `FAKE_BENCH` say.

mod guest;
mod qmp;

use std::process::exit;

/// A function whose address the fake core hangs at. The tests give a copy of this program as the
/// image's ELF, so the runner can find its name.
#[unsafe(no_mangle)]
pub extern "C" fn a_test_that_hangs_with_interrupts_off() {
    std::hint::black_box(0);
}

/// The value of the QEMU option `name`.
fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn main() {
    a_test_that_hangs_with_interrupts_off();
    if std::env::args().nth(1).as_deref() == Some("--version") {
        let version = variable("FAKE_VERSION");
        let version = if version.is_empty() {
            "7.2.22"
        } else {
            &version
        };
        println!("QEMU emulator version {version} (Fake)");
        return;
    }
    if option("-machine").as_deref() == Some("help") {
        println!("q35   Standard PC\nvirt   ARM Virtual Machine\nraspi3b   Raspberry Pi 3B");
        return;
    }
    if variable("FAKE_ERROR") == "yes" {
        eprintln!("qemu-system-fake: -kernel: cannot load it");
        exit(1);
    }
    let pid_file = variable("FAKE_PID_FILE");
    if !pid_file.is_empty() {
        std::fs::write(pid_file, std::process::id().to_string()).expect("the pid file is writable");
    }
    let events = qmp::serve();
    guest::play(&events);
}
