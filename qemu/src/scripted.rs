//! Boots the `spindle` image, plays a console script to it and makes a test result of how it went.

use crate::guest::Guest;
use crate::machine::Machine;
use crate::script::{Played, Script};
use crate::symbols::Symbols;
use crate::verdict::{Kind, TestResult};
use std::path::Path;
use std::time::Instant;

/// The test called `name`: boots `image` with `words` and plays `script`. A script that does not
/// wait for the guest's exit leaves it running, for the caller to go on with.
pub fn boot(
    name: &str,
    machine: &Machine,
    image: &Path,
    words: &str,
    script: &str,
) -> (TestResult, Option<Box<Guest>>) {
    play(name, machine, image, script, || {
        Guest::boot(machine, image, words)
    })
}

/// The same with a guest that `start` starts some other way.
pub fn play(
    name: &str,
    machine: &Machine,
    image: &Path,
    script: &str,
    start: impl FnOnce() -> crate::problem::Result<Guest>,
) -> (TestResult, Option<Box<Guest>>) {
    let began = Instant::now();
    let symbols = Symbols::of_image(image, machine.board);
    let mut console = Vec::new();
    let played =
        Script::parse(&script.replace("{cores}", &machine.cores.to_string())).and_then(|script| {
            let guest = start()?;
            Ok(script.play(
                guest,
                (machine.board.arch(), &symbols),
                &mut console,
                &mut |_| {},
            ))
        });
    let (result, guest) = match played {
        Ok(Played::Running(guest)) => (TestResult::passed(name, began.elapsed()), Some(guest)),
        Ok(Played::Exited) => (TestResult::passed(name, began.elapsed()), None),
        Ok(Played::Wrong { kind, message }) => {
            (TestResult::wrong(name, kind, message, String::new()), None)
        }
        Err(problem) => (
            TestResult::wrong(name, Kind::NoBoot, problem.to_string(), String::new()),
            None,
        ),
    };
    let console = String::from_utf8_lossy(&console).replace('\r', "");
    (
        TestResult { console, ..result }.after(began.elapsed()),
        guest,
    )
}
