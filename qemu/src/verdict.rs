//! What became of one test: [`TestResult`], and the words for each way to go wrong.

use std::fmt;
use std::time::Duration;

/// The ways a test can go wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It returned an error.
    Failed,
    Panicked,
    StackOverflow,
    /// The machine was reset, on purpose or by a triple fault.
    Reset,
    /// It did not end within its limit.
    Hung,
    /// The guest ended in the middle of it.
    ExitedEarly,
    /// The guest never said what it would run.
    NoBoot,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Failed => "failed",
            Kind::Panicked => "panicked",
            Kind::StackOverflow => "stack overflow",
            Kind::Reset => "reset",
            Kind::Hung => "hung",
            Kind::ExitedEarly => "exited early",
            Kind::NoBoot => "no boot",
        })
    }
}

/// How a test ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Passed,
    Skipped(String),
    Wrong { kind: Kind, message: String },
}

/// One test's end.
#[derive(Clone, Debug)]
pub struct TestResult {
    /// Its place in the image's list; none for what the runner itself found.
    pub index: Option<usize>,
    pub name: String,
    pub verdict: Verdict,
    pub time: Duration,
    /// What it printed, with backtraces.
    pub console: String,
}

impl TestResult {
    /// Something that the runner checks passed.
    pub fn passed(name: impl Into<String>, time: Duration) -> TestResult {
        TestResult {
            index: None,
            name: name.into(),
            verdict: Verdict::Passed,
            time,
            console: String::new(),
        }
    }

    /// Something that the runner checks went wrong.
    pub fn wrong(
        name: impl Into<String>,
        kind: Kind,
        message: impl Into<String>,
        console: String,
    ) -> TestResult {
        let verdict = Verdict::Wrong {
            kind,
            message: message.into(),
        };
        TestResult {
            index: None,
            name: name.into(),
            verdict,
            time: Duration::ZERO,
            console,
        }
    }

    pub fn is_wrong(&self) -> bool {
        matches!(self.verdict, Verdict::Wrong { .. })
    }

    /// The same, having taken `time`.
    pub fn after(mut self, time: Duration) -> TestResult {
        self.time = time;
        self
    }
}

/// Hears of tests as they happen.
pub trait Watcher {
    fn began(&mut self, _name: &str) {}
    fn ended(&mut self, _result: &TestResult) {}
    fn noted(&mut self, _text: &str) {}
    /// What comes after a test that took the guest down is of no interest.
    fn has_enough(&self) -> bool {
        false
    }
}

/// A watcher that only remembers.
#[derive(Default)]
pub struct Quiet {
    pub results: Vec<TestResult>,
}

impl Watcher for Quiet {
    fn ended(&mut self, result: &TestResult) {
        self.results.push(result.clone());
    }
}
