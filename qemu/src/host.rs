//! The tests that need no board: cargo's, and programs of this tree that end in `N passed, N failed`.
//! Their output is passed on as it comes and counted on the way.

use crate::cargo::{self, Quiet};
use crate::lines::Lines;
use crate::problem::{Problem, Result};
use crate::process::Process;
use crate::report::Report;
use crate::verdict::{Kind, TestResult, Verdict};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Programs of this tree that test something and say how it went.
const TOOLS: [&str; 2] = ["tools/test-setup", "tools/loom"];
/// And such that take long.
const LONG_TOOLS: [&str; 1] = ["tools/sanitize"];

/// Runs them all, or those that `filter` means: the tests of a crate or of a file in `tests/`, or those with it
/// in their names. With `long`, tests take their big counts (`SPINDLE_LONG`). Bugs that are seeded to see whether the models find them take long, and so does the sanitizer.
pub fn run(report: &mut Report, filter: &str, long: bool) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(cargo::arguments(Path::new("."), filter));
    if long {
        command.env("SPINDLE_LONG", "1");
    }
    report.suite("host", "host: cargo test");
    let (mut tests, mut quiet) = (CargoTests::default(), Quiet::default());
    let all_well = stream(&mut command, |line| {
        quiet.pass(line).iter().for_each(|line| report.say(line));
        tests.line(line, report);
    })?;
    quiet.finish().iter().for_each(|line| report.say(line));
    tests.finish(all_well, report);

    let long_tools = if long { &LONG_TOOLS[..] } else { &[] };
    for tool in TOOLS.iter().chain(long_tools).map(Path::new) {
        let name = tool.file_name().unwrap_or_default().to_string_lossy();
        if !is_program(tool) || !name.contains(filter) {
            continue;
        }
        report.suite(format!("host-{name}"), &format!("host: {}", tool.display()));
        let mut command = Command::new(tool);
        if !long {
            command.env("LOOM_BUGS", "none");
        }
        run_tool(&mut command, report)?;
    }
    Ok(())
}

/// Runs a program that ends in `N passed, N failed`, as a part of the current suite.
pub fn run_tool(command: &mut Command, report: &mut Report) -> Result<()> {
    let mut tests = ToolTests::default();
    let all_well = stream(command, |line| {
        report.say(line);
        tests.line(line);
    })?;
    tests.finish(all_well, report);
    Ok(())
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Runs `command` and shows each line that it says to `look`. True: it ended well.
fn stream(command: &mut Command, mut look: impl FnMut(&str)) -> Result<bool> {
    let problem = |error| Problem::new(format!("a pipe: {error}"));
    let (mut reader, writer) = std::io::pipe().map_err(problem)?;
    // One pipe for both, so that cargo's headings stay above the tests they belong to.
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(problem)?)
        .stderr(writer);
    let mut process = Process::start(command)?;
    // The command holds ends of the pipe that would keep it open for ever.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut lines = Lines::default();
    let mut buffer = [0; 8192];
    loop {
        let length = reader.read(&mut buffer).map_err(problem)?;
        let complete = if length == 0 {
            lines.finish().into_iter().collect()
        } else {
            lines.push(&buffer[..length])
        };
        for line in complete {
            look(&line);
        }
        if length == 0 {
            return Ok(process.wait()?.success());
        }
    }
}

/// What has been seen of `cargo test`.
#[derive(Default)]
struct CargoTests {
    /// The test program that is running, until it sums itself up.
    unfinished: Option<String>,
    wrong: usize,
}

impl CargoTests {
    fn line(&mut self, line: &str, report: &mut Report) {
        if let Some(program) = cargo::heading(line) {
            self.died(report);
            self.unfinished = Some(program.to_string());
        } else if line.trim_start().starts_with("test result: ") {
            self.unfinished = None;
        } else if let Some((name, verdict)) = test_line(line) {
            self.wrong += usize::from(matches!(verdict, Verdict::Wrong { .. }));
            report.record(TestResult {
                verdict,
                ..TestResult::passed(name, Duration::ZERO)
            });
        }
    }

    /// A program that does not sum itself up died in the middle.
    fn died(&mut self, report: &mut Report) {
        if let Some(program) = self.unfinished.take() {
            self.wrong += 1;
            report.record(TestResult::wrong(
                program,
                Kind::ExitedEarly,
                "the test program died",
                String::new(),
            ));
        }
    }

    fn finish(mut self, all_well: bool, report: &mut Report) {
        if all_well {
            return;
        }
        self.died(report);
        if self.wrong == 0 {
            let message = "cargo test did not end well; see above".to_string();
            report.record(TestResult::wrong(
                "cargo_test",
                Kind::Failed,
                message,
                String::new(),
            ));
        }
    }
}

/// Reads `test module::name ... ok`.
fn test_line(line: &str) -> Option<(&str, Verdict)> {
    let (name, end) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let verdict = match end.split([' ', ',']).next()? {
        "ok" => Verdict::Passed,
        "FAILED" => Verdict::Wrong {
            kind: Kind::Failed,
            message: "see above".into(),
        },
        "ignored" => Verdict::Skipped("ignored".into()),
        _ => return None,
    };
    Some((name, verdict))
}

/// Reads `3 passed, 1 failed`, which may go on.
fn totals(line: &str) -> Option<(usize, usize)> {
    let (passed, rest) = line.trim().split_once(" passed, ")?;
    let (failed, _) = rest.split_once(" failed")?;
    Some((passed.parse().ok()?, failed.parse().ok()?))
}

/// What has been seen of a program that ends in `N passed, N failed`.
#[derive(Default)]
struct ToolTests {
    /// Tests that it named in lines `ok NAME` and `FAIL NAME`.
    named: Vec<(String, bool)>,
    totals: Option<(usize, usize)>,
}

impl ToolTests {
    fn line(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("ok", name)) => self.named.push((name.trim().into(), true)),
            Some(("FAIL" | "FAILED", name)) => self.named.push((name.trim().into(), false)),
            _ => self.totals = totals(line).or(self.totals),
        }
    }

    fn finish(mut self, all_well: bool, report: &mut Report) {
        let (passed, failed) = self.totals.unwrap_or((0, 0));
        let count = |well| self.named.iter().filter(|(_, ok)| *ok == well).count();
        if (count(true), count(false)) != (passed, failed) {
            // It did not name them all, so its totals are what counts.
            let number = |well| move |number| (format!("test {number}"), well);
            let all = (1..=passed).map(number(true));
            self.named = all.chain((1..=failed).map(number(false))).collect();
        }
        for (name, ok) in self.named {
            report.record(match ok {
                true => TestResult::passed(name, Duration::ZERO),
                false => TestResult::wrong(name, Kind::Failed, "see above", String::new()),
            });
        }
        if failed == 0 && (!all_well || self.totals.is_none()) {
            let message = match all_well {
                true => "did not say how many passed",
                false => "did not end well; see above",
            };
            report.record(TestResult::wrong(
                "as a whole",
                Kind::Failed,
                message,
                String::new(),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(lines: &[&str], all_well: bool) -> Vec<(String, bool)> {
        let mut report = Report::new();
        let mut tests = CargoTests::default();
        for line in lines {
            tests.line(line, &mut report);
        }
        tests.finish(all_well, &mut report);
        let suites = report.suites.iter().flat_map(|suite| &suite.results);
        suites
            .map(|result| (result.name.clone(), result.is_wrong()))
            .collect()
    }

    #[test]
    fn libtest_lines_are_counted() {
        let lines = [
            "     Running unittests src/lib.rs (target/debug/deps/a-1)",
            "running 3 tests",
            "test a::one ... ok",
            "test a::two ... ignored, needs a disk",
            "test src/lib.rs - b (line 3) ... FAILED",
            "test result: FAILED. 1 passed; 1 failed; 1 ignored",
        ];
        let found = verdicts(&lines, false);
        let expected = [
            ("a::one", false),
            ("a::two", false),
            ("src/lib.rs - b (line 3)", true),
        ];
        assert_eq!(
            found,
            expected.map(|(name, wrong)| (name.to_string(), wrong))
        );
    }

    #[test]
    fn a_test_program_that_dies_is_a_failure() {
        let lines = [
            "     Running tests/x.rs (target/x)",
            "test one ... ok",
            "   Doc-tests a",
            "test result: ok. 0 passed",
        ];
        let found = verdicts(&lines, false);
        assert_eq!(found[1], ("tests/x.rs (target/x)".to_string(), true));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn tests_that_do_not_compile_are_a_failure() {
        assert_eq!(
            verdicts(&["error[E0308]: mismatched types"], false),
            [("cargo_test".to_string(), true)]
        );
        assert_eq!(verdicts(&[], true), []);
    }

    #[test]
    fn a_tools_last_line_is_read() {
        assert_eq!(totals("12 passed, 1 failed"), Some((12, 1)));
        assert_eq!(totals("12 passed, 0 failed, 2 skipped"), Some((12, 0)));
        assert_eq!(totals("all 12 passed"), None);
    }

    fn tool(lines: &[&str], all_well: bool) -> Vec<(String, bool)> {
        let mut report = Report::new();
        let mut tests = ToolTests::default();
        lines.iter().for_each(|line| tests.line(line));
        tests.finish(all_well, &mut report);
        let results = report.suites.iter().flat_map(|suite| &suite.results);
        results
            .map(|result| (result.name.clone(), result.is_wrong()))
            .collect()
    }

    #[test]
    fn a_tools_tests_are_called_by_their_names_if_it_names_them() {
        let named = tool(
            &["ok    one way", "FAIL  another: no", "1 passed, 1 failed"],
            false,
        );
        assert_eq!(
            named,
            [("one way".into(), false), ("another: no".into(), true)]
        );
        let unnamed = tool(&["ok    one way", "2 passed, 0 failed"], true);
        assert_eq!(
            unnamed,
            [("test 1".into(), false), ("test 2".into(), false)]
        );
    }

    #[test]
    fn a_tool_that_says_nothing_or_ends_badly_is_a_failure() {
        let wrong = |lines: &[&str], all_well| {
            let results = tool(lines, all_well);
            results.iter().filter(|(_, wrong)| *wrong).count()
        };
        assert_eq!(wrong(&[], true), 1);
        assert_eq!(wrong(&["2 passed, 0 failed"], false), 1);
        assert_eq!(wrong(&["2 passed, 1 failed"], false), 1);
        assert_eq!(wrong(&["2 passed, 0 failed"], true), 0);
    }
}
