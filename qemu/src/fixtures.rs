//! Tests of the test framework: image `fixtures` goes wrong on purpose, in every way there is,
//! and each must be reported as exactly what it is.

use crate::machine::Machine;
use crate::report::Report;
use crate::suite;
use crate::verdict::{Kind, Quiet, TestResult, Verdict, Watcher};
use std::path::Path;

/// A fixture and what its report must be.
struct Check {
    name: &'static str,
    fixture: &'static str,
    /// None: it passes.
    kind: Option<Kind>,
    /// Its console must have a backtrace that names it.
    named: bool,
}

const CHECKS: [Check; 7] = [
    Check {
        name: "a_failing_test_is_reported_as_failed",
        fixture: "a_test_that_fails",
        kind: Some(Kind::Failed),
        named: false,
    },
    Check {
        name: "a_panic_is_reported_with_a_backtrace_that_names_the_test",
        fixture: "a_test_that_panics",
        kind: Some(Kind::Panicked),
        named: true,
    },
    Check {
        name: "a_stack_overflow_is_reported_as_one",
        fixture: "a_test_that_overflows_its_stack",
        kind: Some(Kind::StackOverflow),
        named: false,
    },
    Check {
        name: "a_triple_fault_is_reported_as_a_reset",
        fixture: "a_test_that_triple_faults",
        kind: Some(Kind::Reset),
        named: false,
    },
    Check {
        name: "a_hang_with_interrupts_off_is_reported_with_a_backtrace_that_names_the_test",
        fixture: "a_test_that_hangs_with_interrupts_off",
        kind: Some(Kind::Hung),
        named: true,
    },
    Check {
        name: "an_early_exit_is_reported_as_one",
        fixture: "a_test_that_exits_early",
        kind: Some(Kind::ExitedEarly),
        named: false,
    },
    Check {
        name: "a_test_behind_all_that_still_runs_and_passes",
        fixture: "a_test_that_passes",
        kind: None,
        named: false,
    },
];

/// Boots the fixtures and adds one test for each check whose name contains `filter`.
pub fn run(machine: &Machine, image: &Path, filter: &str, report: &mut Report) {
    let checks: Vec<&Check> = CHECKS
        .iter()
        .filter(|check| check.name.contains(filter))
        .collect();
    if checks.is_empty() {
        return;
    }
    let title = format!("the framework itself, on {}", machine.title());
    report.suite(format!("framework-{}", machine.board.name()), &title);
    report.began("booting the fixtures");
    let mut quiet = Quiet::default();
    suite::run(machine, image, "", &mut quiet);
    if quiet.results.iter().all(|result| result.index.is_none()) {
        // It did not even boot: that is one thing gone wrong, not all of them.
        quiet.results.iter().for_each(|result| report.add(result));
        return;
    }
    for check in checks {
        report.add(&check.judge(&quiet.results));
    }
    if let Some(extra) = unexpected(&quiet.results) {
        report.add(&extra);
    }
}

impl Check {
    fn judge(&self, results: &[TestResult]) -> TestResult {
        let found: Vec<&TestResult> = results
            .iter()
            .filter(|result| is(result, self.fixture))
            .collect();
        let [found] = found[..] else {
            let message = format!(
                "`{}` was reported {} times, not once",
                self.fixture,
                found.len()
            );
            let others: Vec<String> = results
                .iter()
                .map(|result| format!("{}: {:?}\n", result.name, result.verdict))
                .collect();
            let consoles: String = results
                .iter()
                .filter(|r| r.index.is_none())
                .map(|r| r.console.as_str())
                .collect();
            return TestResult::wrong(
                self.name,
                Kind::Failed,
                message,
                others.concat() + &consoles,
            );
        };
        let told = match &found.verdict {
            Verdict::Passed => "passed".to_string(),
            Verdict::Skipped(reason) => format!("skipped ({reason})"),
            Verdict::Wrong { kind, message } => format!("{kind} ({message})"),
        };
        let as_expected = match (&found.verdict, self.kind) {
            (Verdict::Passed, None) => true,
            (Verdict::Wrong { kind, .. }, Some(expected)) => *kind == expected,
            _ => false,
        };
        if !as_expected {
            let expected = self
                .kind
                .map_or("passed".to_string(), |kind| kind.to_string());
            let message = format!(
                "`{}` was reported as {told}, not as {expected}",
                self.fixture
            );
            return TestResult::wrong(self.name, Kind::Failed, message, found.console.clone());
        }
        if self.named && !found.console.contains(self.fixture) {
            let message = format!("the backtrace does not name `{}`", self.fixture);
            return TestResult::wrong(self.name, Kind::Failed, message, found.console.clone());
        }
        TestResult::passed(self.name, found.time)
    }
}

/// Something went wrong that no fixture was meant to do.
fn unexpected(results: &[TestResult]) -> Option<TestResult> {
    let known = |result: &&TestResult| CHECKS.iter().any(|check| is(result, check.fixture));
    let wrong = results
        .iter()
        .find(|result| result.is_wrong() && !known(result))?;
    let Verdict::Wrong { kind, message } = &wrong.verdict else {
        return None;
    };
    let message = format!("{}: {kind}: {message}", wrong.name);
    Some(TestResult::wrong(
        "nothing_else_goes_wrong",
        Kind::Failed,
        message,
        wrong.console.clone(),
    ))
}

fn is(result: &TestResult, fixture: &str) -> bool {
    result.name.rsplit("::").next() == Some(fixture)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn judge(fixture: &str, results: &[TestResult]) -> TestResult {
        CHECKS
            .iter()
            .find(|check| check.fixture == fixture)
            .unwrap()
            .judge(results)
    }

    #[test]
    fn a_fixture_must_be_reported_once_and_as_what_it_is() {
        let name = "fixtures::a_test_that_fails";
        let right = TestResult::wrong(name, Kind::Failed, "no", String::new());
        let other = TestResult::wrong(name, Kind::Hung, "no", String::new());
        assert!(!judge("a_test_that_fails", std::slice::from_ref(&right)).is_wrong());
        assert!(judge("a_test_that_fails", &[other]).is_wrong());
        assert!(judge("a_test_that_fails", &[right.clone(), right]).is_wrong());
        assert!(judge("a_test_that_fails", &[]).is_wrong());
        assert!(
            judge(
                "a_test_that_fails",
                &[TestResult::passed(name, Duration::ZERO)]
            )
            .is_wrong()
        );
        assert!(
            !judge(
                "a_test_that_passes",
                &[TestResult::passed("a_test_that_passes", Duration::ZERO)]
            )
            .is_wrong()
        );
    }

    #[test]
    fn a_backtrace_must_name_the_test() {
        let panicked = |console: &str| {
            TestResult::wrong("a_test_that_panics", Kind::Panicked, "oh", console.into())
        };
        assert!(judge("a_test_that_panics", &[panicked("core 0: ?")]).is_wrong());
        assert!(
            !judge(
                "a_test_that_panics",
                &[panicked("core 0: x::a_test_that_panics+0x3")]
            )
            .is_wrong()
        );
    }

    #[test]
    fn what_nobody_asked_for_is_not_overlooked() {
        let meant = TestResult::wrong("a_test_that_panics", Kind::Panicked, "oh", String::new());
        assert!(unexpected(std::slice::from_ref(&meant)).is_none());
        let boot = TestResult::wrong("end_of_run", Kind::ExitedEarly, "code 7", String::new());
        assert!(unexpected(&[meant, boot]).is_some());
    }
}
