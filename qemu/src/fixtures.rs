//! Tests of the test framework: image `fixtures` goes wrong on purpose, in every way there is,
//! and each must be reported as exactly what it is.

use crate::machine::Machine;
use crate::report::Report;
use crate::suite;
use crate::verdict::{Kind, Quiet, TestResult, Verdict, Watcher};
use std::path::Path;

/// What a fixture's report must be.
struct Check {
    name: &'static str,
    fixture: &'static str,
    expected: Expected,
}

#[derive(Clone, Copy)]
enum Expected {
    Passed,
    /// It prints from every core: every line must come whole.
    WholeLines,
    Wrong(Kind),
    /// And its console must have a backtrace that names it.
    Named(Kind),
    /// And this must be in its message.
    Saying(Kind, &'static str),
    /// And its console must show every core: the report came to its end.
    EveryCore(Kind),
    /// And its console must show these.
    Showing(Kind, &'static [&'static str]),
}

/// What each core of `a_test_in_which_all_cores_print` prints, this many times.
const PRINTED: &str = "the quick brown fox jumps over the lazy dog";
const TIMES: usize = 100;

const CHECKS: [Check; 27] = [
    check(
        "a_failing_test_is_reported_as_failed",
        "a_test_that_fails",
        Expected::Wrong(Kind::Failed),
    ),
    check(
        "a_panic_is_reported_with_a_backtrace_that_names_the_test",
        "a_test_that_panics",
        Expected::Named(Kind::Panicked),
    ),
    check(
        "a_panic_in_the_middle_of_a_line_is_reported",
        "a_test_that_panics_while_it_prints",
        Expected::Named(Kind::Panicked),
    ),
    check(
        "panics_of_all_cores_at_once_are_reported_as_one",
        "a_test_in_which_all_cores_panic_at_once",
        Expected::Named(Kind::Panicked),
    ),
    check(
        "a_bad_access_is_reported_with_a_backtrace_that_names_the_test",
        "a_test_that_reads_null",
        Expected::Named(Kind::Panicked),
    ),
    check(
        "an_allocation_in_an_interrupt_is_reported_as_a_panic",
        "a_test_that_allocates_in_an_interrupt",
        Expected::Wrong(Kind::Panicked),
    ),
    check(
        "a_panic_while_a_timer_ticks_is_reported_to_the_end",
        "a_test_that_panics_while_a_timer_ticks",
        Expected::EveryCore(Kind::Panicked),
    ),
    check(
        "a_fault_in_an_interrupt_with_a_damaged_stack_is_reported_to_the_end",
        "a_test_that_faults_in_an_interrupt_with_a_damaged_stack",
        Expected::EveryCore(Kind::Panicked),
    ),
    check(
        "a_panic_shows_a_core_that_masks_interrupts",
        "a_test_that_panics_while_another_core_masks_interrupts",
        Expected::Showing(
            Kind::Panicked,
            &["core 1:\n", "spin_with_interrupts_masked"],
        ),
    ),
    check(
        "the_watchdog_panics_and_shows_the_core_that_is_stuck",
        "a_test_that_the_watchdog_ends_by_a_panic",
        Expected::Showing(
            Kind::Panicked,
            &[
                "core 1 lets no interrupt in",
                " masks) runs there",
                "spin_with_interrupts_masked",
                "the watchdog was told to",
            ],
        ),
    ),
    check(
        "the_watchdog_panics_for_a_circle_of_locks",
        "a_test_with_a_circle_of_locks_that_the_watchdog_ends_by_a_panic",
        Expected::Showing(
            Kind::Panicked,
            &[
                "tasks wait for each other's locks, in a circle",
                "*** machine panic",
                "the watchdog was told to: a circle of locks",
            ],
        ),
    ),
    check(
        "the_watchdog_restarts_the_machine",
        "a_test_that_the_watchdog_ends_by_a_restart",
        Expected::Wrong(Kind::Reset),
    ),
    check(
        "an_alarm_of_the_watchdog_that_nobody_expects_fails_the_test",
        "a_test_with_an_alarm_that_nobody_expects",
        Expected::Saying(Kind::Panicked, "that the test does not expect"),
    ),
    check(
        "a_panic_of_a_task_under_a_guard_stops_the_machine",
        "a_test_whose_task_panics_under_a_guard",
        Expected::EveryCore(Kind::Panicked),
    ),
    check(
        "a_fault_of_a_task_with_interrupts_masked_stops_the_machine",
        "a_test_whose_task_faults_with_interrupts_masked",
        Expected::EveryCore(Kind::Panicked),
    ),
    check(
        "a_panic_in_an_interrupt_of_a_task_stops_the_machine",
        "a_test_whose_task_is_interrupted_by_a_panic",
        Expected::EveryCore(Kind::Panicked),
    ),
    check(
        "a_panic_of_what_block_on_runs_stops_the_machine",
        "a_test_whose_block_on_panics",
        Expected::EveryCore(Kind::Panicked),
    ),
    check(
        "a_stack_overflow_is_reported_as_one",
        "a_test_that_overflows_its_stack",
        Expected::Wrong(Kind::StackOverflow),
    ),
    check(
        "a_stack_overflow_of_another_core_is_reported_as_one",
        "a_test_that_overflows_the_stack_of_another_core",
        Expected::EveryCore(Kind::StackOverflow),
    ),
    check(
        "an_overflow_of_a_stack_that_grows_is_reported_as_one",
        "a_test_that_overflows_a_stack_that_grows",
        Expected::Saying(Kind::StackOverflow, "below the stack of 1004 KiB"),
    ),
    check(
        "a_stack_that_grows_too_far_under_a_guard_is_reported_as_that",
        "a_test_whose_stack_grows_too_far_under_a_guard",
        Expected::Saying(Kind::Panicked, "under a guard"),
    ),
    check(
        "a_stack_that_finds_no_memory_is_reported_as_that",
        "a_test_whose_stack_finds_no_memory",
        Expected::Saying(Kind::Panicked, "out of memory for the stack"),
    ),
    check(
        "a_triple_fault_is_reported_as_a_reset",
        "a_test_that_triple_faults",
        Expected::Wrong(Kind::Reset),
    ),
    check(
        "a_hang_with_interrupts_off_is_reported_with_a_backtrace_that_names_the_test",
        "a_test_that_hangs_with_interrupts_off",
        Expected::Named(Kind::Hung),
    ),
    check(
        "an_early_exit_is_reported_as_one",
        "a_test_that_exits_early",
        Expected::Wrong(Kind::ExitedEarly),
    ),
    check(
        "lines_that_all_cores_print_come_whole",
        "a_test_in_which_all_cores_print",
        Expected::WholeLines,
    ),
    check(
        "a_test_behind_all_that_still_runs_and_passes",
        "a_test_that_passes",
        Expected::Passed,
    ),
];

const fn check(name: &'static str, fixture: &'static str, expected: Expected) -> Check {
    Check {
        name,
        fixture,
        expected,
    }
}

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
        report.add(&check.judge(&quiet.results, machine.cores));
    }
    if let Some(extra) = unexpected(&quiet.results) {
        report.add(&extra);
    }
}

impl Check {
    fn judge(&self, results: &[TestResult], cores: u32) -> TestResult {
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
            let all: String = results
                .iter()
                .map(|result| format!("{}: {}\n", result.name, told(result)))
                .collect();
            return TestResult::wrong(self.name, Kind::Failed, message, all);
        };
        let complaint = match (self.expected, &found.verdict) {
            (Expected::Passed, Verdict::Passed) => None,
            (Expected::WholeLines, Verdict::Passed) => broken_lines(&found.console, cores),
            (Expected::Wrong(expected), Verdict::Wrong { kind, .. }) if *kind == expected => None,
            (Expected::Named(expected), Verdict::Wrong { kind, .. }) if *kind == expected => {
                let named = found.console.contains(self.fixture);
                (!named).then(|| format!("the backtrace does not name `{}`", self.fixture))
            }
            (Expected::Saying(expected, part), Verdict::Wrong { kind, message })
                if *kind == expected =>
            {
                let said = message.contains(part);
                (!said).then(|| format!("`{message}` does not say `{part}`"))
            }
            (Expected::EveryCore(expected), Verdict::Wrong { kind, .. }) if *kind == expected => {
                let shown = |core: &u32| {
                    let start = format!("core {core}");
                    found.console.lines().any(|line| line.starts_with(&start))
                };
                let missing = (0..cores).find(|core| !shown(core));
                missing.map(|core| format!("the report does not show core {core}"))
            }
            (Expected::Showing(expected, parts), Verdict::Wrong { kind, .. })
                if *kind == expected =>
            {
                let missing = parts.iter().find(|part| !found.console.contains(**part));
                missing.map(|part| format!("the console does not show `{part}`"))
            }
            _ => Some(format!(
                "`{}` was reported as {}",
                self.fixture,
                told(found)
            )),
        };
        match complaint {
            None => TestResult::passed(self.name, found.time),
            Some(message) => {
                TestResult::wrong(self.name, Kind::Failed, message, found.console.clone())
            }
        }
    }
}

/// What a result was told as.
fn told(result: &TestResult) -> String {
    match &result.verdict {
        Verdict::Passed => "passed".to_string(),
        Verdict::Skipped(reason) => format!("skipped ({reason})"),
        Verdict::Wrong { kind, message } => format!("{kind} ({message})"),
    }
}

/// What is wrong with a console on which every core printed the same line many times.
fn broken_lines(console: &str, cores: u32) -> Option<String> {
    let whole = |line: &&str| {
        let number = |text: &str| text.parse::<usize>().is_ok();
        let rest = line
            .strip_prefix("core ")
            .and_then(|rest| rest.split_once(" line "));
        let rest = rest
            .filter(|(core, _)| number(core))
            .and_then(|(_, rest)| rest.split_once(": "));
        rest.is_some_and(|(line, text)| number(line) && text == PRINTED)
    };
    let (expected, found) = (
        cores as usize * TIMES,
        console.lines().filter(whole).count(),
    );
    (found != expected).then(|| format!("{found} of {expected} lines came whole"))
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
        let check = CHECKS.iter().find(|check| check.fixture == fixture);
        check.unwrap().judge(results, 2)
    }

    #[test]
    fn every_line_of_every_core_must_come_whole() {
        let name = "a_test_in_which_all_cores_print";
        let line = |core, number| format!("core {core} line {number}: {PRINTED}\n");
        let lines: String = (0..TIMES)
            .map(|number| line(0, number) + &line(1, number))
            .collect();
        let judged = |console: String| {
            let result = TestResult {
                console,
                ..TestResult::passed(name, Duration::ZERO)
            };
            judge(name, &[result])
        };
        assert!(!judged(lines.clone()).is_wrong());
        assert!(judged(lines.replacen("core 1", "co core 0 re 1", 1)).is_wrong());
        assert!(judged(lines.replacen("dog\n", "dog", 1)).is_wrong());
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
