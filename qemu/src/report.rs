//! Tells of results while they come and sums them up at the end.

use crate::problem::Result;
use crate::verdict::{TestResult, Verdict, Watcher};
use crate::{files, junit};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Console lines shown of a test that went wrong; the JUnit file has them all.
const MOST_SHOWN: usize = 200;

/// A group of tests: a board's variant, a host test program.
pub struct Suite {
    pub id: String,
    pub results: Vec<TestResult>,
    pub notes: Vec<String>,
    pub time: Duration,
}

/// Everything that was run.
pub struct Report {
    pub suites: Vec<Suite>,
    began: Instant,
    terminal: bool,
    /// Something is written on the terminal's last line that is to be written over.
    transient: bool,
}

impl Report {
    pub fn new() -> Report {
        Report {
            suites: Vec::new(),
            began: Instant::now(),
            terminal: std::io::stdout().is_terminal(),
            transient: false,
        }
    }

    /// Starts a suite and prints its heading.
    pub fn suite(&mut self, id: impl Into<String>, title: &str) {
        self.open(id);
        self.say(&format!("\n== {title}"));
    }

    /// Starts a suite that has been announced already.
    pub fn open(&mut self, id: impl Into<String>) {
        self.close();
        self.suites.push(Suite {
            id: id.into(),
            results: Vec::new(),
            notes: Vec::new(),
            time: Duration::ZERO,
        });
        self.began = Instant::now();
    }

    fn close(&mut self) {
        if let Some(suite) = self.suites.last_mut()
            && suite.time.is_zero()
        {
            suite.time = self.began.elapsed();
        }
    }

    /// Adds a result without a word: it has been shown already.
    pub fn record(&mut self, result: TestResult) {
        if self.suites.is_empty() {
            self.open("runner");
        }
        if let Some(suite) = self.suites.last_mut() {
            suite.results.push(result);
        }
    }

    /// Prints a line.
    pub fn say(&mut self, line: &str) {
        let clear = if std::mem::take(&mut self.transient) {
            "\r\x1b[K"
        } else {
            ""
        };
        // With nobody reading, there is still the exit status and the JUnit file.
        let _ = writeln!(std::io::stdout(), "{clear}{line}");
    }

    /// Adds a result and prints it, with its console if it went wrong.
    pub fn add(&mut self, result: &TestResult) {
        let time = seconds(result.time);
        match &result.verdict {
            Verdict::Passed => self.say(&format!("  ok       {} ({time})", result.name)),
            Verdict::Skipped(reason) => self.say(&format!("  skipped  {} ({reason})", result.name)),
            Verdict::Wrong { kind, message } => {
                self.say(&format!(
                    "  FAILED   {} ({time}): {kind}: {message}",
                    result.name
                ));
                let lines: Vec<&str> = result.console.lines().collect();
                let hidden = lines.len().saturating_sub(MOST_SHOWN);
                if hidden > 0 {
                    self.say(&format!(
                        "    | ({hidden} earlier lines are in the JUnit file)"
                    ));
                }
                for line in &lines[hidden..] {
                    self.say(&format!("    | {line}"));
                }
            }
        }
        self.record(result.clone());
    }

    /// Shows and keeps a measurement.
    pub fn note(&mut self, text: &str) {
        self.say(&format!("  note     {text}"));
        if let Some(suite) = self.suites.last_mut() {
            suite.notes.push(text.to_string());
        }
    }

    fn count(&self, what: impl Fn(&Verdict) -> bool) -> usize {
        self.suites
            .iter()
            .flat_map(|suite| &suite.results)
            .filter(|result| what(&result.verdict))
            .count()
    }

    /// Writes the JUnit file, lists what went wrong and ends in one line. Returns the exit status.
    pub fn finish(mut self, junit: &Path, filter: &str) -> Result<u8> {
        self.close();
        self.suites
            .retain(|suite| !suite.results.is_empty() || !suite.notes.is_empty());
        files::write(junit, junit::xml(&self.suites).as_bytes())?;
        let passed = self.count(|verdict| *verdict == Verdict::Passed);
        let skipped = self.count(|verdict| matches!(verdict, Verdict::Skipped(_)));
        let failed = self.count(|verdict| matches!(verdict, Verdict::Wrong { .. }));
        if failed > 0 {
            self.say("\nwhat went wrong:");
            let mut list = Vec::new();
            for suite in &self.suites {
                for result in &suite.results {
                    if let Verdict::Wrong { kind, message } = &result.verdict {
                        list.push(format!(
                            "  {}  {}: {kind}: {message}",
                            suite.id, result.name
                        ));
                    }
                }
            }
            for line in list {
                self.say(&line);
            }
        }
        if passed + failed == 0 {
            self.say(&match filter {
                "" => "\nno test was run".to_string(),
                _ => format!("\nno test has `{filter}` in its name"),
            });
        }
        let skipped = if skipped > 0 {
            format!(", {skipped} skipped")
        } else {
            String::new()
        };
        self.say(&format!("\n{passed} passed, {failed} failed{skipped}"));
        Ok(u8::from(failed > 0 || passed == 0))
    }
}

impl Watcher for Report {
    fn began(&mut self, name: &str) {
        if self.terminal {
            self.transient = true;
            let mut out = std::io::stdout();
            // As in `say`.
            let _ = write!(out, "\r\x1b[K  ...      {name}").and_then(|()| out.flush());
        }
    }

    fn ended(&mut self, result: &TestResult) {
        self.add(result);
    }

    fn noted(&mut self, text: &str) {
        self.note(text);
    }
}

/// A time for people.
fn seconds(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..=999 => format!("{us} us"),
        us @ 1000..=999_999 => format!("{} ms", us / 1000),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        assert_eq!(seconds(Duration::from_micros(7)), "7 us");
        assert_eq!(seconds(Duration::from_micros(7500)), "7 ms");
        assert_eq!(seconds(Duration::from_millis(7512)), "7.5 s");
    }
}
