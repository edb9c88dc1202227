//! Runs all tests of an image on one machine, booting again behind every test that takes the
//! guest down with it, so that the rest still runs.

use crate::guest::{Event, Guest};
use crate::inspect;
use crate::lines::Lines;
use crate::machine::Machine;
use crate::problem::Result;
use crate::session::{Ending, Session};
use crate::symbols::Symbols;
use crate::verdict::{Kind, TestResult, Watcher};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a suite told besides its results.
#[derive(Default)]
pub struct Summary {
    /// What the first boot printed before its plan.
    pub boot_console: String,
    /// How many tests the image said it has.
    pub plan: Option<usize>,
    /// How many cores the image said it runs on.
    pub cores: Option<u32>,
}

/// Runs the tests of `image` whose names contain `filter`; `watcher` hears of each.
pub fn run(machine: &Machine, image: &Path, filter: &str, watcher: &mut dyn Watcher) -> Summary {
    run_with(&Way::default(), machine, image, filter, watcher)
}

/// The same for those of its tests that take long.
pub fn run_long(
    machine: &Machine,
    image: &Path,
    filter: &str,
    watcher: &mut dyn Watcher,
) -> Summary {
    let long = Way {
        word: Some("long"),
        ..Way::default()
    };
    run_with(&long, machine, image, filter, watcher)
}

/// How tests are run, if not as usual.
#[derive(Default)]
pub struct Way<'a> {
    /// One more word on the command line.
    pub word: Option<&'a str>,
    /// The most that a test may take, whatever it asks for.
    pub limit: Option<Duration>,
}

/// The same in another way.
pub fn run_with(
    way: &Way,
    machine: &Machine,
    image: &Path,
    filter: &str,
    watcher: &mut dyn Watcher,
) -> Summary {
    let symbols = Symbols::of_image(image, machine.board);
    let mut summary = Summary::default();
    let mut done = BTreeSet::new();
    let mut from = 0;
    loop {
        let mut words: Vec<String> = way.word.map(str::to_string).into_iter().collect();
        if !filter.is_empty() {
            words.push(format!("test={filter}"));
        }
        if from > 0 {
            words.push(format!("from={from}"));
        }
        let words = words.join(" ");
        let boot = match boot(machine, image, &words, way.limit, &symbols, watcher) {
            Ok(boot) => boot,
            Err(problem) => {
                watcher.ended(&TestResult::wrong(
                    "boot",
                    Kind::NoBoot,
                    problem.to_string(),
                    String::new(),
                ));
                return summary;
            }
        };
        if from == 0 {
            summary = Summary {
                boot_console: boot.console,
                plan: boot.plan,
                cores: boot.cores,
            };
        }
        if watcher.has_enough() {
            return summary;
        }
        done.extend(boot.done);
        let planned = boot.plan.unwrap_or(0);
        if done.len() >= planned && boot.plan.is_some() {
            return summary;
        }
        let next = boot.last.map_or(from, |index| index + 1);
        if boot.complete || next <= from {
            // It says that it is done, or would go down in the same place again.
            if boot.plan.is_some() {
                let message = format!("{} of {planned} tests were never run", planned - done.len());
                watcher.ended(&TestResult::wrong(
                    "end_of_run",
                    Kind::Failed,
                    message,
                    String::new(),
                ));
            }
            return summary;
        }
        from = next;
    }
}

/// What one boot came to.
struct Boot {
    plan: Option<usize>,
    done: Vec<usize>,
    last: Option<usize>,
    complete: bool,
    console: String,
    cores: Option<u32>,
}

fn boot(
    machine: &Machine,
    image: &Path,
    words: &str,
    limit: Option<Duration>,
    symbols: &Symbols,
    watcher: &mut dyn Watcher,
) -> Result<Boot> {
    let mut guest = Guest::boot(machine, image, words)?;
    let mut lines = Lines::default();
    let mut session = Session::new(watcher, Instant::now());
    session.limit = limit;
    let ending = loop {
        match guest.next(session.deadline()) {
            Event::Console(bytes) => {
                for line in lines.push(&bytes) {
                    session.line(&line, Instant::now());
                }
            }
            Event::Gone => break Ending::Exit(guest.exit()?),
            Event::Late => {
                let backtraces = inspect::all_cores(guest.qmp(), machine.board.arch(), symbols);
                // What it had printed by then, but we had not read.
                for line in lines.push(&guest.quit()) {
                    session.line(&line, Instant::now());
                }
                break Ending::TimeOut(backtraces);
            }
        }
    };
    if let Some(rest) = lines.finish() {
        session.line(&rest, Instant::now());
    }
    session.end(ending, Instant::now());
    Ok(Boot {
        plan: session.plan,
        complete: session.is_complete(),
        last: session.last,
        cores: session.cores,
        console: std::mem::take(&mut session.boot_console),
        done: std::mem::take(&mut session.done),
    })
}
