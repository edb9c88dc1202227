//! `torture`: the executor's tests, preempted at random moments that a seed chooses. With time
//! counted in instructions, the same seed is the same run.

use crate::board::Board;
use crate::machine::{Clock, Machine};
use crate::options::Options;
use crate::problem::Result;
use crate::report::Report;
use crate::suite;
use crate::verdict::{Kind, TestResult, Verdict, Watcher};
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What is run unless told otherwise.
pub const FILTER: &str = "tests::executor";
/// Where it is run unless told otherwise.
pub const BOARDS: [Board; 2] = [Board::Pc, Board::Virt];
const USUAL_SEEDS: u64 = 20;
/// Nanoseconds between two preemptions where time is the wall clock's: each costs some.
const WALL_BOUNDS: &str = ":20000:200000";

pub fn torture(options: &Options) -> Result<u8> {
    let mut report = Report::new();
    let images = options.images()?;
    let seeds = match options.seed {
        Some(seed) => seed..seed + 1,
        None => 1..options.seeds.unwrap_or(USUAL_SEEDS) + 1,
    };
    let boards = match options.board {
        Some(_) => vec![options.board()?],
        None => BOARDS.to_vec(),
    };
    for board in boards {
        board.check_qemu()?;
        let machine = Machine::new(board, options.cores.unwrap_or(4));
        machine.check()?;
        let filter = match options.filter.as_str() {
            "" => FILTER,
            filter => filter,
        };
        run(
            &machine,
            &images,
            filter,
            seeds.clone(),
            Manner {
                wall: options.wall,
                limit: options.limit.map(Duration::from_secs),
            },
            &mut report,
        );
    }
    report.finish(&PathBuf::from("target/torture.xml"), "")
}

/// How it is done.
#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// By the wall clock.
    pub wall: bool,
    /// The most that a test may take, whatever it asks for.
    pub limit: Option<Duration>,
}

/// Runs the tests once for each seed, and tells of each seed as of one test.
pub fn run(
    machine: &Machine,
    images: &Path,
    filter: &str,
    seeds: Range<u64>,
    Manner { wall, limit }: Manner,
    report: &mut Report,
) {
    let board = machine.board.name();
    let (kind, bounds) = if wall {
        ("by the wall clock", WALL_BOUNDS)
    } else {
        ("by the instruction", "")
    };
    let machine = Machine {
        clock: if wall {
            Clock::Wall
        } else {
            Clock::Instructions
        },
        ..machine.clone()
    };
    report.suite(
        format!("torture-{}", machine.id()),
        &format!("torture {kind}, {}", machine.title()),
    );
    let image = machine.image(images, "tests");
    let one = |seed| {
        let name = format!("seed_{seed}");
        let mut watcher = OneSeed::default();
        let began = Instant::now();
        let word = format!("torture={seed}{bounds}");
        let way = suite::Way {
            word: Some(&word),
            limit,
        };
        let summary = suite::run_with(&way, &machine, &image, filter, &mut watcher);
        let result = match watcher.wrong {
            None => TestResult::passed(&name, began.elapsed()),
            Some((message, console)) => {
                let message = format!("{message}; again: make torture BOARD={board} SEED={seed}");
                TestResult::wrong(&name, Kind::Failed, message, console)
            }
        };
        (summary.plan != Some(0)).then_some(result)
    };
    // A guest that counts its instructions runs on one host thread: as many fit as there are cores.
    let at_once = match wall {
        true => 1,
        false => thread::available_parallelism().map_or(1, NonZero::get),
    };
    let count = seeds.end.saturating_sub(seeds.start);
    let mut done = 0;
    report.began(&format!("{count} seeds"));
    each(seeds, at_once, one, |result| {
        match &result {
            Some(result) => report.add(result),
            None => report.say(&format!("  no test here has `{filter}` in its name")),
        }
        done += 1;
        if done < count && result.is_some() {
            report.began(&format!("{done} of {count} seeds are done"));
        }
        result.is_some()
    });
}

/// Does `work` for each seed, `at_once` of them at a time, and shows to `look` what comes of it as it comes, until that says `false`.
fn each<T: Send>(
    seeds: Range<u64>,
    at_once: usize,
    work: impl Fn(u64) -> T + Sync,
    mut look: impl FnMut(T) -> bool,
) {
    let next = AtomicU64::new(seeds.start);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..at_once {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || sender.send(work(seed)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        // Dropped at the end of this closure, before its threads are waited for: so they hear of it.
        let receiver = receiver;
        while let Ok(result) = receiver.recv() {
            if !look(result) {
                return;
            }
        }
    });
}

/// What came of one seed: the first test that went wrong.
#[derive(Default)]
struct OneSeed {
    wrong: Option<(String, String)>,
}

impl Watcher for OneSeed {
    fn ended(&mut self, result: &TestResult) {
        if let Verdict::Wrong { kind, message } = &result.verdict
            && self.wrong.is_none()
        {
            self.wrong = Some((
                format!("{}: {kind}: {message}", result.name),
                result.console.clone(),
            ));
        }
    }

    fn has_enough(&self) -> bool {
        self.wrong.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seed_is_done_once_however_many_at_a_time() {
        for at_once in [1, 2, 7] {
            let mut seen = Vec::new();
            each(
                3..23,
                at_once,
                |seed| seed,
                |seed| {
                    seen.push(seed);
                    true
                },
            );
            seen.sort();
            assert!(seen.into_iter().eq(3..23));
        }
    }

    #[test]
    fn no_more_are_begun_when_somebody_has_seen_enough() {
        let began = AtomicU64::new(0);
        let mut seen = 0;
        let one = |_| began.fetch_add(1, Ordering::Relaxed);
        each(0..u64::MAX, 2, one, |_| {
            seen += 1;
            seen < 3
        });
        assert_eq!(seen, 3);
    }
}
