//! Plays consoles to a session, line by line.

use super::*;
use crate::verdict::Quiet;

/// Plays `lines`, ends as told, and returns what was reported.
fn play(lines: &[&str], ending: Ending) -> Vec<TestResult> {
    let mut quiet = Quiet::default();
    let now = Instant::now();
    let mut session = Session::new(&mut quiet, now);
    for line in lines {
        session.line(line, now);
    }
    session.end(ending, now);
    quiet.results
}

fn exit(code: u8) -> Ending {
    Ending::Exit(GuestExit::Code(code))
}

fn kind(result: &TestResult) -> Option<Kind> {
    match result.verdict {
        Verdict::Wrong { kind, .. } => Some(kind),
        _ => None,
    }
}

fn message(result: &TestResult) -> &str {
    match &result.verdict {
        Verdict::Wrong { message, .. } => message,
        _ => "",
    }
}

const BEGUN: [&str; 4] = [
    "@@ spindle 1 board=pc cores=4",
    "@@ plan 2",
    "@@ begin 0 first limit=5",
    "hello",
];

#[test]
fn a_run_where_all_is_well_tells_of_nothing_else() {
    let mut lines = BEGUN.to_vec();
    lines.extend([
        "@@ ok 0 first us=20",
        "@@ skip 1 second no disk",
        "@@ end passed=1 failed=0 skipped=1",
    ]);
    let results = play(&lines, exit(0));
    assert_eq!(results.len(), 2);
    assert_eq!(
        (&results[0].verdict, results[0].time),
        (&Verdict::Passed, Duration::from_micros(20))
    );
    assert_eq!(results[1].verdict, Verdict::Skipped("no disk".into()));
}

#[test]
fn a_failed_test_keeps_what_it_printed() {
    let mut lines = BEGUN.to_vec();
    lines.extend([
        "@@ fail 0 first 1 != 2",
        "@@ begin 1 second",
        "@@ ok 1 second us=1",
        "@@ end passed=1 failed=1 skipped=0",
    ]);
    let results = play(&lines, exit(1));
    assert_eq!(results.len(), 2);
    assert_eq!(
        (kind(&results[0]), message(&results[0])),
        (Some(Kind::Failed), "1 != 2")
    );
    assert_eq!(results[0].console, "hello\n");
}

#[test]
fn a_panic_ends_its_test_with_the_report_as_its_console() {
    let mut lines = BEGUN.to_vec();
    lines.extend([
        "@@ panic core=2 index out of bounds",
        "core 2: kernel::first",
        "@@ panic core=1 me too",
        "@@ panic-end",
    ]);
    let results = play(&lines, exit(2));
    assert_eq!(results.len(), 1);
    assert_eq!(
        (kind(&results[0]), message(&results[0])),
        (Some(Kind::Panicked), "index out of bounds")
    );
    assert!(
        results[0]
            .console
            .contains("core 2: kernel::first\n@@ panic core=1 me too"),
        "{}",
        results[0].console
    );
}

#[test]
fn a_report_that_breaks_off_is_told_as_such() {
    let mut lines = BEGUN.to_vec();
    lines.push("@@ overflow core=0 stack of task 7");
    let results = play(&lines, Ending::Exit(GuestExit::Reset));
    assert_eq!(kind(&results[0]), Some(Kind::StackOverflow));
    assert!(
        message(&results[0]).contains("cut short"),
        "{}",
        message(&results[0])
    );
}

#[test]
fn a_reset_an_early_exit_and_a_hang_are_told_apart() {
    let ends = [
        (Ending::Exit(GuestExit::Reset), Kind::Reset),
        (exit(0), Kind::ExitedEarly),
        (Ending::Exit(GuestExit::PoweredOff), Kind::ExitedEarly),
        (Ending::TimeOut("core 0\n   0: spin\n".into()), Kind::Hung),
    ];
    for (ending, expected) in ends {
        let results = play(&BEGUN, ending);
        assert_eq!(results.len(), 1);
        assert_eq!(
            (results[0].index, kind(&results[0])),
            (Some(0), Some(expected))
        );
    }
    let hung = play(&BEGUN, Ending::TimeOut("core 0\n   0: spin\n".into()));
    assert!(hung[0].console.ends_with("spin\n") && message(&hung[0]).contains("5 s"));
}

#[test]
fn before_the_plan_everything_is_no_boot() {
    for (lines, ending) in [
        (vec![], exit(0)),
        (vec!["@@ panic core=0 no memory", "@@ panic-end"], exit(2)),
        (
            vec!["@@ spindle 1 board=pc cores=4"],
            Ending::TimeOut(String::new()),
        ),
        (
            vec!["garbage"],
            Ending::Exit(GuestExit::QemuFailed {
                status: 1,
                said: "no such file".into(),
            }),
        ),
    ] {
        let results = play(&lines, ending);
        assert_eq!(
            (results[0].name.as_str(), kind(&results[0])),
            ("boot", Some(Kind::NoBoot))
        );
    }
}

#[test]
fn an_exit_code_that_does_not_fit_the_results_is_told() {
    let mut lines = BEGUN.to_vec();
    lines.extend(["@@ ok 0 first us=20", "@@ end passed=1 failed=0 skipped=0"]);
    let results = play(&lines, exit(1));
    assert_eq!(
        (results[1].name.as_str(), kind(&results[1])),
        ("end_of_run", Some(Kind::ExitedEarly))
    );
}

#[test]
fn a_guest_that_counts_otherwise_than_it_told_is_told() {
    let mut lines = BEGUN.to_vec();
    lines.extend(["@@ ok 0 first us=20", "@@ end passed=2 failed=0 skipped=0"]);
    let results = play(&lines, exit(0));
    assert_eq!(
        (results[1].name.as_str(), kind(&results[1])),
        ("end_of_run", Some(Kind::Failed))
    );
}

#[test]
fn records_out_of_place_are_only_text() {
    let mut lines = BEGUN.to_vec();
    lines.extend([
        "@@ ok 5 other us=1",
        "@@ plan 9",
        "@@ end passed=0 failed=0 skipped=0",
        "@@ panic-end",
        "@@ fail 0 first x",
    ]);
    let results = play(&lines, Ending::Exit(GuestExit::Reset));
    assert_eq!(results.len(), 2);
    assert_eq!(kind(&results[0]), Some(Kind::Failed));
    assert!(
        results[0]
            .console
            .contains("@@ ok 5 other us=1\n@@ plan 9\n"),
        "{}",
        results[0].console
    );
    assert_eq!(
        (results[1].name.as_str(), kind(&results[1])),
        ("between_tests", Some(Kind::Reset))
    );
}

#[test]
fn a_guest_that_prints_without_end_keeps_its_latest_lines() {
    let mut quiet = Quiet::default();
    let now = Instant::now();
    let mut session = Session::new(&mut quiet, now);
    for line in BEGUN {
        session.line(line, now);
    }
    for number in 0..100_000 {
        session.line(&format!("ü {number}"), now);
    }
    session.end(exit(0), now);
    let console = &quiet.results[0].console;
    assert!(
        console.len() <= MOST_CONSOLE
            && console.starts_with("(what was")
            && console.ends_with("ü 99999\n")
    );
}

#[test]
fn each_phase_has_its_own_limit() {
    let mut quiet = Quiet::default();
    let now = Instant::now();
    let mut session = Session::new(&mut quiet, now);
    assert_eq!(session.deadline(), now + BOOT_LIMIT);
    session.line("@@ plan 1", now);
    assert_eq!(session.deadline(), now + PAUSE_LIMIT);
    session.line("@@ begin 0 a limit=3", now);
    assert_eq!(session.deadline(), now + Duration::from_secs(3));
    session.line("@@ note still going", now + Duration::from_secs(2));
    assert_eq!(
        session.deadline(),
        now + Duration::from_secs(3),
        "talking does not buy time"
    );
    session.line("@@ panic core=0 x", now);
    assert_eq!(session.deadline(), now + REPORT_LIMIT);
}

#[test]
fn a_test_gets_what_it_asks_for_but_no_more_than_the_runner_allows() {
    for (most, seconds) in [(2, 2), (4, 3)] {
        let mut quiet = Quiet::default();
        let now = Instant::now();
        let mut session = Session::new(&mut quiet, now);
        session.limit = Some(Duration::from_secs(most));
        session.line("@@ plan 1", now);
        session.line("@@ begin 0 a limit=3", now);
        assert_eq!(session.deadline(), now + Duration::from_secs(seconds));
    }
}
