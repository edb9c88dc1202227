//! One boot of a test image, as a state machine: lines and the guest's end go in, results come out.
//! It knows no processes and no clock, so its rules can be tested line by line.

use crate::exit::GuestExit;
use crate::protocol::{self, Record};
use crate::verdict::{Kind, TestResult, Verdict, Watcher};
use std::time::{Duration, Instant};

/// From power-on to the plan.
pub const BOOT_LIMIT: Duration = Duration::from_secs(60);
/// From one test's end to the next one's begin.
const PAUSE_LIMIT: Duration = Duration::from_secs(60);
/// From a panic to the guest's exit: its report names every core over a slow serial line.
const REPORT_LIMIT: Duration = Duration::from_secs(60);
/// From the last line to the guest's exit.
const EXIT_LIMIT: Duration = Duration::from_secs(30);
/// Console text kept of one test; more loses its oldest lines.
const MOST_CONSOLE: usize = 256 << 10;

/// How a boot came to its end.
pub enum Ending {
    Exit(GuestExit),
    /// A limit ran out; the backtraces of all cores are given.
    TimeOut(String),
}

enum Phase {
    Booting,
    /// Between two tests.
    Between,
    Testing,
    /// After a panic or stack overflow; the report may not have ended.
    Dying {
        kind: Kind,
        message: String,
        reported: bool,
    },
    /// After `@@ end`.
    Ended,
}

struct Test {
    index: usize,
    name: String,
    limit: Duration,
    began: Instant,
}

/// What a boot has told so far.
pub struct Session<'a> {
    watcher: &'a mut dyn Watcher,
    phase: Phase,
    deadline: Instant,
    test: Option<Test>,
    console: String,
    /// The most that a test may take, whatever it asks for.
    pub limit: Option<Duration>,
    /// How many tests the image has; unknown until it says so.
    pub plan: Option<usize>,
    /// What was printed before the plan.
    pub boot_console: String,
    /// What the guest said of its board.
    pub cores: Option<u32>,
    /// Tests that ended, by their index.
    pub done: Vec<usize>,
    /// Index of the last test that was begun or skipped.
    pub last: Option<usize>,
    passed: usize,
    failed: usize,
}

impl<'a> Session<'a> {
    /// A session that starts now.
    pub fn new(watcher: &'a mut dyn Watcher, now: Instant) -> Session<'a> {
        Session {
            watcher,
            phase: Phase::Booting,
            deadline: now + BOOT_LIMIT,
            test: None,
            console: String::new(),
            limit: None,
            plan: None,
            boot_console: String::new(),
            cores: None,
            done: Vec::new(),
            last: None,
            passed: 0,
            failed: 0,
        }
    }

    /// When to lose patience.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Did the guest run its list to the end?
    pub fn is_complete(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Takes a line of the console.
    pub fn line(&mut self, line: &str, now: Instant) {
        let Some((before, record)) = protocol::read(line) else {
            return self.print(line);
        };
        if !before.trim().is_empty() {
            self.print(before);
        }
        if !self.record(record, now) {
            self.print(line);
        }
    }

    /// Takes a record. False: it makes no sense now, so it was only text.
    fn record(&mut self, record: Record, now: Instant) -> bool {
        match record {
            Record::Note { text } => self.watcher.noted(&text),
            Record::Spindle { version, cores, .. } => {
                self.cores = Some(cores);
                if version != protocol::VERSION {
                    self.print(&format!(
                        "(the image speaks protocol {version}, this runner {})",
                        protocol::VERSION
                    ));
                }
            }
            Record::Panic { core, message } => {
                return self.dies(Kind::Panicked, &core, message, now);
            }
            Record::Overflow { core, message } => {
                return self.dies(Kind::StackOverflow, &core, message, now);
            }
            Record::PanicEnd => match &mut self.phase {
                Phase::Dying { reported, .. } => *reported = true,
                _ => return false,
            },
            Record::Plan { tests } if matches!(self.phase, Phase::Booting) => {
                self.plan = Some(tests);
                self.boot_console = std::mem::take(&mut self.console);
                self.pause(now);
            }
            Record::Begin { index, name, limit } if matches!(self.phase, Phase::Between) => {
                let limit = self.limit.map_or(limit, |most| most.min(limit));
                self.watcher.began(&name);
                self.last = Some(index);
                self.test = Some(Test {
                    index,
                    name,
                    limit,
                    began: now,
                });
                self.console.clear();
                self.phase = Phase::Testing;
                self.deadline = now + limit;
            }
            Record::Skip {
                index,
                name,
                reason,
            } if matches!(self.phase, Phase::Between | Phase::Testing) => {
                // A test may also find out by itself, once begun, that it does not apply.
                self.test = None;
                self.last = Some(index);
                self.finish(Some(index), name, Verdict::Skipped(reason), Duration::ZERO);
                self.pause(now);
            }
            Record::Ok { index, time, .. } if self.is_testing(index) => {
                self.passed += 1;
                self.end_test(Verdict::Passed, time);
                self.pause(now);
            }
            Record::Fail { index, message, .. } if self.is_testing(index) => {
                self.failed += 1;
                let time = self.elapsed(now);
                self.end_test(
                    Verdict::Wrong {
                        kind: Kind::Failed,
                        message,
                    },
                    time,
                );
                self.pause(now);
            }
            Record::End { passed, failed } if matches!(self.phase, Phase::Between) => {
                if (passed, failed) != (self.passed, self.failed) {
                    let message = format!(
                        "the guest counted {passed} passed and {failed} failed, but told of {} and {}",
                        self.passed, self.failed
                    );
                    self.finish(
                        None,
                        "end_of_run".into(),
                        Verdict::Wrong {
                            kind: Kind::Failed,
                            message,
                        },
                        Duration::ZERO,
                    );
                }
                self.phase = Phase::Ended;
                self.deadline = now + EXIT_LIMIT;
            }
            _ => return false,
        }
        true
    }

    /// The guest ended or was given up.
    pub fn end(&mut self, ending: Ending, now: Instant) {
        let time = self.elapsed(now);
        let (wrong, backtraces) = match ending {
            Ending::Exit(exit) => (self.wrong_with_exit(&exit), String::new()),
            Ending::TimeOut(backtraces) => (Some(self.wrong_with_time()), backtraces),
        };
        let Some((kind, message)) = wrong else { return };
        self.console += &backtraces;
        let verdict = Verdict::Wrong { kind, message };
        if self.test.is_some() {
            return self.end_test(verdict, time);
        }
        let name = match (&self.phase, self.plan) {
            (Phase::Ended, _) => "end_of_run",
            (_, None) => "boot",
            _ => "between_tests",
        };
        self.finish(None, name.into(), verdict, time);
    }

    /// What is wrong with exiting this way now, if anything.
    fn wrong_with_exit(&self, exit: &GuestExit) -> Option<(Kind, String)> {
        let unexpected = match exit {
            GuestExit::Reset => Kind::Reset,
            _ => Kind::ExitedEarly,
        };
        match &self.phase {
            Phase::Booting => Some((Kind::NoBoot, exit.to_string())),
            Phase::Between | Phase::Testing => Some((unexpected, exit.to_string())),
            Phase::Dying {
                kind,
                message,
                reported,
            } => {
                let cut = if *reported {
                    String::new()
                } else {
                    format!(" (its report was cut short: {exit})")
                };
                Some(self.death(*kind, format!("{message}{cut}")))
            }
            Phase::Ended => {
                let expected = GuestExit::Code(u8::from(self.failed > 0));
                (*exit != expected).then(|| {
                    (
                        unexpected,
                        format!("after its last test: {exit}; expected: {expected}"),
                    )
                })
            }
        }
    }

    fn wrong_with_time(&self) -> (Kind, String) {
        match &self.phase {
            Phase::Booting => (
                Kind::NoBoot,
                format!("no `@@ plan` within {} s", BOOT_LIMIT.as_secs()),
            ),
            Phase::Testing => {
                let limit = self.test.as_ref().map_or(0, |test| test.limit.as_secs());
                (Kind::Hung, format!("did not end within {limit} s"))
            }
            Phase::Between => (
                Kind::Hung,
                format!("no next test within {} s", PAUSE_LIMIT.as_secs()),
            ),
            Phase::Dying { kind, message, .. } => {
                self.death(*kind, format!("{message} (and then hung)"))
            }
            Phase::Ended => (
                Kind::Hung,
                format!(
                    "did not exit within {} s after its last test",
                    EXIT_LIMIT.as_secs()
                ),
            ),
        }
    }

    /// A panic before the plan is first of all no boot.
    fn death(&self, kind: Kind, message: String) -> (Kind, String) {
        match self.plan {
            None => (Kind::NoBoot, format!("{kind}: {message}")),
            Some(_) => (kind, message),
        }
    }

    fn dies(&mut self, kind: Kind, core: &str, message: String, now: Instant) -> bool {
        if matches!(self.phase, Phase::Dying { .. }) {
            // Another core panics while the first reports: part of the report.
            return false;
        }
        self.print(&format!("core {core}: {kind}: {message}"));
        self.phase = Phase::Dying {
            kind,
            message,
            reported: false,
        };
        self.deadline = now + REPORT_LIMIT;
        true
    }

    fn is_testing(&self, index: usize) -> bool {
        matches!(self.phase, Phase::Testing)
            && self.test.as_ref().is_some_and(|test| test.index == index)
    }

    fn elapsed(&self, now: Instant) -> Duration {
        self.test.as_ref().map_or(Duration::ZERO, |test| {
            now.saturating_duration_since(test.began)
        })
    }

    fn pause(&mut self, now: Instant) {
        self.phase = Phase::Between;
        self.deadline = now + PAUSE_LIMIT;
    }

    fn end_test(&mut self, verdict: Verdict, time: Duration) {
        if let Some(test) = self.test.take() {
            self.finish(Some(test.index), test.name, verdict, time);
        }
    }

    fn finish(&mut self, index: Option<usize>, name: String, verdict: Verdict, time: Duration) {
        self.done.extend(index);
        let console = std::mem::take(&mut self.console);
        self.watcher.ended(&TestResult {
            index,
            name,
            verdict,
            time,
            console,
        });
    }

    fn print(&mut self, line: &str) {
        self.console.push_str(line);
        self.console.push('\n');
        if self.console.len() > MOST_CONSOLE {
            let half = self.console.len() / 2;
            let cut = self.console.as_bytes()[half..]
                .iter()
                .position(|byte| *byte == b'\n');
            self.console
                .drain(..cut.map_or(self.console.len(), |offset| half + offset + 1));
            self.console
                .insert_str(0, "(what was printed before is left out)\n");
        }
    }
}

#[cfg(test)]
mod tests;
