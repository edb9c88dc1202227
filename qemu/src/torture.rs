//! `torture`: the executor's tests, preempted at random moments that a seed chooses. With time
//! counted in instructions, the same seed is the same run.

use crate::board::Board;
use crate::machine::{Clock, Machine};
use crate::options::Options;
use crate::problem::Result;
use crate::report::Report;
use crate::suite;
use crate::verdict::{Kind, TestResult, Verdict, Watcher};
use std::path::{Path, PathBuf};
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
    seeds: impl Iterator<Item = u64>,
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
    for seed in seeds {
        let name = format!("seed_{seed}");
        report.began(&name);
        let mut watcher = OneSeed::default();
        let began = Instant::now();
        let word = format!("torture={seed}{bounds}");
        let image = machine.image(images, "tests");
        let way = suite::Way {
            word: Some(&word),
            limit,
        };
        let summary = suite::run_with(&way, &machine, &image, filter, &mut watcher);
        if summary.plan == Some(0) {
            report.say(&format!("  no test here has `{filter}` in its name"));
            return;
        }
        let result = match watcher.wrong {
            None => TestResult::passed(&name, began.elapsed()),
            Some((message, console)) => {
                let message = format!("{message}; again: make torture BOARD={board} SEED={seed}");
                TestResult::wrong(&name, Kind::Failed, message, console)
            }
        };
        report.add(&result);
    }
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
