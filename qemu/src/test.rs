//! `test`: the host's tests, then every variant of every board, the framework's own tests, the
//! shell, disks, the smallest image, what an idle machine costs, and a few seeds of torture.

use crate::board::Board;
use crate::machine::{Machine, Tree};
use crate::matrix::Extent;
use crate::options::Options;
use crate::problem::Result;
use crate::report::Report;
use crate::verdict::{Kind, TestResult, Watcher};
use crate::{
    disk, fixtures, host, idle, long, matrix, network, power, scripted, serial, suite, torture,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What runs on the machine with a ghost: enough to see that the other cores work.
const GHOST_FILTER: &str = "cores";

pub fn test(options: &Options) -> Result<u8> {
    let mut report = Report::new();
    let junit = options
        .junit
        .clone()
        .unwrap_or_else(|| PathBuf::from("target/junit.xml"));
    let boards = boards(options)?;
    if !options.no_host {
        host::run(&mut report, &options.filter, options.long)?;
    }
    if !options.host_only {
        let images = options.images()?;
        for board in boards {
            match board.check_qemu() {
                Ok(()) => on_board(board, &images, options, &mut report),
                Err(problem) if board == Board::Raspi4b && options.board.is_none() => {
                    report.say(&format!("\n== {} is left out: {problem}", board.name()));
                }
                Err(problem) => return Err(problem),
            }
        }
    }
    report.finish(&junit, &options.filter)
}

/// The boards that are asked for, all unless told.
fn boards(options: &Options) -> Result<Vec<Board>> {
    if options.board.is_none() {
        return Ok(Board::ALL.to_vec());
    }
    let board = options.board()?;
    if let Some(cores) = options.cores {
        // Some variants may have fewer; that all have is what we insist on.
        board.check_cores(cores, Machine::new(board, cores).gic)?;
    }
    Ok(vec![board])
}

fn on_board(board: Board, images: &Path, options: &Options, report: &mut Report) {
    let extent = match options.long || options.board.is_some() {
        true => Extent::All,
        false => Extent::Usual,
    };
    let (variants, left_out) = match options.cores {
        Some(cores) => matrix::variants_with(board, cores),
        None => (matrix::variants(board, extent), Vec::new()),
    };
    for machine in left_out {
        report.say(&format!(
            "\n== {} is left out: it cannot have so many",
            machine.title()
        ));
    }
    for machine in variants {
        match machine.tree {
            Tree::True => drop(image_tests(&machine, images, &options.filter, report)),
            Tree::Ghost => ghost(&machine, images, &options.filter, report),
            Tree::None => no_tree(&machine, images, &options.filter, report),
        }
    }
    let usual = Machine::new(board, 4);
    fixtures::run(
        &usual,
        &usual.image(images, "fixtures"),
        &options.filter,
        report,
    );
    shell(&usual, images, &options.filter, report);
    serial::run(&usual, images, &options.filter, report);
    network::run(&usual, images, (&options.filter, options.long), report);
    disk::run(&usual, images, &options.filter, report);
    power::run(&usual, images, &options.filter, options.long, report);
    blink(&usual, images, &options.filter, report);
    idle_cost(&usual, images, &options.filter, report);
    tortured(&usual, images, &options.filter, report);
    if options.long {
        long::run(&usual, images, &options.filter, report);
    }
}

fn image_tests(
    machine: &Machine,
    images: &Path,
    filter: &str,
    report: &mut Report,
) -> suite::Summary {
    report.suite(machine.id(), &machine.title());
    report.began("booting");
    let summary = suite::run(machine, &machine.image(images, "tests"), filter, report);
    match (summary.plan, filter) {
        // Dropped by the linker, most likely; without this, no tests would look like no failures.
        (Some(0), "") => {
            let message = "the image has no tests";
            report.add(&TestResult::wrong(
                "boot",
                Kind::Failed,
                message,
                String::new(),
            ));
        }
        (Some(0), _) => report.say(&format!("  no test here has `{filter}` in its name")),
        _ => {}
    }
    if let Some(cores) = summary.cores.filter(|cores| *cores != machine.cores) {
        let message = format!("the image runs on {cores} cores, not on {}", machine.cores);
        report.add(&TestResult::wrong(
            "boot",
            Kind::Failed,
            message,
            summary.boot_console.clone(),
        ));
    }
    summary
}

fn ghost(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let name = "a_core_that_does_not_come_up_is_named";
    let chosen = if filter.is_empty() || name.contains(filter) {
        GHOST_FILTER
    } else {
        filter
    };
    let summary = image_tests(machine, images, chosen, report);
    if !name.contains(filter) {
        return;
    }
    let console = summary.boot_console;
    let named = |line: &str| line.contains("core 4 ") && line.contains("did not come up");
    report.add(&match console.lines().any(named) {
        true => TestResult::passed(name, Duration::ZERO),
        false => {
            let message = "no line before the plan says that core 4 did not come up";
            TestResult::wrong(name, Kind::Failed, message, console)
        }
    });
}

fn no_tree(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let name = "it_finds_its_cores_without_a_device_tree";
    if !name.contains(filter) {
        return;
    }
    report.suite(machine.id(), &machine.title());
    report.began(name);
    let script = include_str!("../scripts/no-tree.script");
    let (result, _) = scripted::boot(name, machine, &machine.image(images, "spindle"), "", script);
    report.add(&result);
}

/// The shell, as a person types at it.
fn shell(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let scripts = [
        (
            "the_shell_answers_every_command",
            "",
            include_str!("../scripts/shell.script"),
        ),
        (
            "a_panic_in_the_shell_shows_every_core",
            // Or a core might just see to a frame.
            "net=off",
            include_str!("../scripts/panic.script"),
        ),
    ];
    let chosen = scripts.iter().filter(|(name, ..)| name.contains(filter));
    if chosen.clone().next().is_some() {
        let title = format!("the shell, {}", machine.title());
        report.suite(format!("shell-{}", machine.board.name()), &title);
    }
    for (name, words, script) in chosen {
        report.began(name);
        let image = machine.image(images, "spindle");
        let (result, _) = scripted::boot(name, machine, &image, words, script);
        report.add(&result);
    }
}

/// The image without heap and runtime.
fn blink(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let name = "an_image_without_heap_and_runtime_blinks";
    if !name.contains(filter) {
        return;
    }
    report.suite(
        format!("blink-{}", machine.board.name()),
        &format!("blink, {}", machine.title()),
    );
    report.began(name);
    let script = include_str!("../scripts/blink.script");
    let image = machine.image(images, "blink");
    let (result, _) = scripted::boot(name, machine, &image, "tour", script);
    report.add(&result);
}

/// The executor's tests, preempted at random moments.
fn tortured(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let is_chosen = filter.is_empty() || filter == "torture";
    if is_chosen && torture::BOARDS.contains(&machine.board) {
        let manner = torture::Manner::default();
        torture::run(machine, images, torture::FILTER, 1..6, manner, report);
    }
}

fn idle_cost(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let name = "an_idle_machine_stays_idle";
    if !name.contains(filter) {
        return;
    }
    report.suite(
        format!("idle-{}", machine.board.name()),
        &format!("idle, {}", machine.title()),
    );
    report.began(name);
    let image = machine.image(images, "spindle");
    let (mut result, guest) = scripted::boot(
        name,
        machine,
        &image,
        "idle",
        include_str!("../scripts/idle.script"),
    );
    let mut note = None;
    if let Some(mut guest) = guest {
        match idle::measure(&mut guest) {
            Ok(figure) => {
                note = figure.map(|figure| format!("idle: {figure:.1} % of one host core"))
            }
            Err(problem) => {
                result =
                    TestResult::wrong(name, Kind::ExitedEarly, problem.to_string(), result.console);
            }
        }
        guest.quit();
    }
    report.add(&result);
    if let Some(note) = note {
        report.note(&note);
    }
}
