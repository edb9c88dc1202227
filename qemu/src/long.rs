//! What `test --long` adds: the big counts, many boots on a loaded host, boot paths that are rarely taken, bugs that the tests must catch, the debugger.

use crate::board::Board;
use crate::machine::Machine;
use crate::report::Report;
use crate::verdict::{Kind, TestResult, Watcher};
use crate::{gdb, host, iso, scripted, suite};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

const BOOTS: usize = 20;

pub fn run(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    big_counts(machine, images, filter, report);
    many_boots(machine, images, filter, report);
    loaded(machine, images, filter, report);
    if !machine.board.is_pi() {
        most_cores(machine, images, filter, report);
    }
    if machine.board == Board::Pc {
        iso::run(machine, images, filter, report);
        broken(filter, report);
    }
    debugger(machine, images, filter, report);
}

/// The tests of the image that take long.
fn big_counts(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let title = format!("the big counts, {}", machine.title());
    report.suite(format!("long-{}", machine.board.name()), &title);
    suite::run_long(machine, &machine.image(images, "tests"), filter, report);
}

/// Boots through the tour again and again while two threads keep both host cores busy.
fn many_boots(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let name = |number| format!("boot_{number:02}_on_a_loaded_host");
    let chosen: Vec<String> = (1..=BOOTS)
        .map(name)
        .filter(|name| name.contains(filter))
        .collect();
    if chosen.is_empty() {
        return;
    }
    let title = format!(
        "{} boots on a loaded host, {}",
        chosen.len(),
        machine.title()
    );
    report.suite(format!("boots-{}", machine.board.name()), &title);
    let _load = Load::start(2);
    for name in chosen {
        report.began(&name);
        let script = include_str!("../scripts/tour.script");
        let (result, _) = scripted::boot(
            &name,
            machine,
            &machine.image(images, "spindle"),
            "tour",
            script,
        );
        report.add(&without_alarm(result));
    }
}

/// A boot in which the watchdog had something to say has failed: nothing was wrong, the host was only busy.
fn without_alarm(result: TestResult) -> TestResult {
    let alarm = result
        .console
        .lines()
        .find(|line| line.contains("watchdog: "));
    match alarm {
        Some(alarm) if !result.is_wrong() => {
            let message = format!("a false alarm: {alarm}");
            TestResult::wrong(&result.name, Kind::Failed, message, result.console.clone())
        }
        _ => result,
    }
}

/// The executor's tests while two threads keep both host cores busy. In a test image any alarm of the watchdog is a failure.
fn loaded(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    if !"executor_on_a_loaded_host".contains(filter) {
        return;
    }
    let title = format!("the executor's tests on a loaded host, {}", machine.title());
    report.suite(format!("loaded-{}", machine.board.name()), &title);
    let _load = Load::start(2);
    let image = machine.image(images, "tests");
    suite::run(machine, &image, "tests::executor::", report);
}

/// Images with bugs in them, which the tests must catch.
fn broken(filter: &str, report: &mut Report) {
    if !"broken".contains(filter) {
        return;
    }
    report.suite("broken", "images with bugs: tools/broken");
    if let Err(problem) = host::run_tool(&mut Command::new("tools/broken"), report) {
        let message = problem.to_string();
        report.add(&TestResult::wrong(
            "broken",
            Kind::Failed,
            message,
            String::new(),
        ));
    }
}

/// As many cores as the design is for.
fn most_cores(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let name = "sixty_four_cores_come_up";
    if !name.contains(filter) {
        return;
    }
    let machine = Machine::new(machine.board, 64);
    report.suite(machine.id(), &machine.title());
    report.began(name);
    let script = include_str!("../scripts/tour.script");
    let image = machine.image(images, "spindle");
    let (result, _) = scripted::boot(name, &machine, &image, "tour", script);
    report.add(&result);
}

/// Threads that do nothing, as fast as they can.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(threads: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |stop: Arc<AtomicBool>| {
            move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        };
        let threads = (0..threads)
            .map(|_| thread::spawn(spin(Arc::clone(&stop))))
            .collect();
        Load { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot have panicked.
            let _ = thread.join();
        }
    }
}

/// gdb must find every core.
fn debugger(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let name = "gdb_shows_what_every_core_is_doing";
    if !name.contains(filter) {
        return;
    }
    report.suite(
        format!("gdb-{}", machine.board.name()),
        &format!("gdb, {}", machine.title()),
    );
    if gdb::debugger(machine.board.arch()).is_none() {
        return report
            .say("  left out: there is no gdb for this board here (install gdb-multiarch)");
    }
    report.began(name);
    let began = Instant::now();
    let result = match gdb::batch(machine, &machine.image(images, "spindle"), "") {
        Err(problem) => TestResult::wrong(name, Kind::Failed, problem.to_string(), String::new()),
        Ok(said) => match missing(&said, machine.cores) {
            Some(message) => TestResult::wrong(name, Kind::Failed, message, said),
            None => TestResult::passed(name, began.elapsed()),
        },
    };
    report.add(&result.after(began.elapsed()));
}

/// What gdb should have shown, but did not.
fn missing(said: &str, cores: u32) -> Option<String> {
    if !said.contains("kernel_main") {
        return Some("gdb did not stop at kernel_main".into());
    }
    let missing = (1..=cores).find(|core| {
        !said.contains(&format!("Thread 1.{core} ")) && !said.contains(&format!("Thread {core} "))
    });
    missing.map(|core| format!("gdb shows no thread {core} of {cores}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_with_an_alarm_has_failed() {
        let boot = |console: &str| TestResult {
            console: console.into(),
            ..TestResult::passed("boot", std::time::Duration::ZERO)
        };
        assert!(!without_alarm(boot("all is well\n")).is_wrong());
        assert!(without_alarm(boot("watchdog: core 1 lets no interrupt in\n")).is_wrong());
    }

    #[test]
    fn gdb_must_show_every_core() {
        let said = "Breakpoint 1, kernel_main ()\nThread 2 (Thread 1.2 (CPU#1 [halted ])):\nThread 1 (Thread 1.1 (CPU#0 [running])):\n";
        assert_eq!(missing(said, 2), None);
        assert_eq!(missing(said, 3).unwrap(), "gdb shows no thread 3 of 3");
        assert!(missing("", 1).unwrap().contains("kernel_main"));
    }
}
