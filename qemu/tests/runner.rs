//! Runs `spindle-qemu` as its users do, with a fake QEMU whose guests do what each test needs.

mod stage;

use stage::Stage;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const TEST_PC: &str = "test --no-host --board pc --cores 4 --images images --filter q_";

#[test]
fn every_way_to_go_wrong_is_told_as_what_it_is_and_the_rest_still_runs() {
    let tests = "q_one=ok q_two=fail q_three=panic q_four=overflow q_five=reset q_six=hang q_seven=exit \
                 q_eight=poweroff q_nine=skip other=panic q_last=ok";
    let stage = Stage::new().with("FAKE_TESTS", tests);
    let outcome = stage.run(TEST_PC);
    // Here and below: once on the board, and once more with a disk.
    outcome.ends(1, "4 passed, 14 failed, 2 skipped");
    outcome.says("  ok       q_one (1 ms)");
    outcome.says("q_two").says("failed: left is not right");
    outcome
        .says("panicked: it went wrong")
        .says("    | core 2: q_three+0x12");
    outcome.says("stack overflow: it went wrong");
    outcome.says("  pc-4  q_five: reset: the guest reset the machine");
    outcome
        .says("  pc-4  q_six: hung: did not end within 1 s")
        .says("    | console of q_six");
    outcome.says("  pc-4  q_seven: exited early: the guest exited with code 0");
    outcome.says("  pc-4  q_eight: exited early: the guest powered off");
    outcome.says("  skipped  q_nine (not on this board)");
    outcome.says("  ok       q_last");
    let junit = stage.read("target/junit.xml");
    assert!(
        junit.contains(
            "<testsuite name=\"pc-4\" tests=\"10\" failures=\"7\" errors=\"0\" skipped=\"1\""
        ),
        "{junit}"
    );
    assert!(junit.contains("<failure type=\"hung\""), "{junit}");
}

#[test]
fn the_framework_is_tested_with_its_fixtures() {
    let outcome = Stage::new().run("test --no-host --board pc --images images --filter reported");
    outcome.ends(0, "16 passed, 0 failed");
    outcome.says("a_hang_with_interrupts_off_is_reported_with_a_backtrace_that_names_the_test");
}

#[test]
fn noise_on_the_line_confuses_nobody() {
    let stage = Stage::new().with("FAKE_TESTS", "q_noise=noise q_after=ok");
    stage
        .run(TEST_PC)
        .ends(0, "4 passed, 0 failed")
        .says("note     figure=12");
    assert!(
        stage
            .read("target/junit.xml")
            .contains("<property name=\"figure\" value=\"12\"/>")
    );
}

#[test]
fn a_guest_that_dies_in_its_boot_is_told_once() {
    let outcome = Stage::new()
        .with("FAKE_TESTS", "q_a=ok q_b=noboot")
        .run(TEST_PC);
    outcome
        .ends(1, "0 passed, 2 failed")
        .says("boot: no boot: panicked: no memory");
}

#[test]
fn what_qemu_says_of_itself_is_shown() {
    let outcome = Stage::new().with("FAKE_ERROR", "yes").run(TEST_PC);
    outcome
        .ends(1, "0 passed, 2 failed")
        .says("QEMU ended with status 1: qemu-system-fake: -kernel: cannot load it");
}

#[test]
fn an_image_that_is_missing_is_named() {
    let stage = Stage::new();
    std::fs::remove_file(stage.folder.join("images/x86_64/tests")).unwrap();
    stage
        .run(TEST_PC)
        .ends(1, "0 passed, 2 failed")
        .says("there is no image images/x86_64/tests");
    stage
        .run("run --board virt --images nowhere")
        .fails_in_one_line("nowhere/aarch64/spindle");
}

#[test]
fn a_filter_that_matches_nothing_is_a_failure() {
    let outcome = Stage::new().with("FAKE_TESTS", "x=ok").run(TEST_PC);
    outcome
        .ends(1, "0 passed, 0 failed")
        .says("no test has `q_` in its name");
}

#[test]
fn every_variant_of_a_board_is_run() {
    let stage = Stage::new().with("FAKE_TESTS", "q_a=ok");
    let outcome = stage.run("test --no-host --board virt --images images --filter q_");
    outcome.ends(0, "7 passed, 0 failed");
    for heading in [
        "virt, gic 3, 4 cores",
        "virt, gic 2, EL2, legacy virtio, 4 cores",
        "virt, gic 3, 1 core",
        "virt, gic 3, 8 cores",
    ] {
        outcome.says(&format!("== {heading}\n"));
    }
}

#[test]
fn a_board_that_this_qemu_is_too_old_for_is_left_out_unless_asked_for() {
    let stage = Stage::new().with("FAKE_TESTS", "q_a=ok");
    let all = stage.run("test --no-host --images images --cores 2 --filter q_");
    // Six variants, and each board once more with a disk.
    all.ends(0, "9 passed, 0 failed")
        .says("== a disk, raspi3b, 4 cores")
        .says("raspi4b is left out")
        .says("is version 7.2; board raspi4b needs QEMU 9.0");
    stage
        .run("test --no-host --images images --board raspi4b")
        .fails_in_one_line("needs QEMU 9.0 or newer");
}

#[test]
fn check_says_in_one_line_what_would_work() {
    let stage = Stage::new();
    assert_eq!(stage.run("check --board pc --cores 64").status, Some(0));
    stage
        .run("check --board amiga")
        .fails_in_one_line("the boards are pc, virt, raspi3b and raspi4b");
    stage
        .run("check --board raspi3b --cores 5 --args-only")
        .fails_in_one_line("give 1 to 4");
    stage
        .run("check --board raspi4b")
        .fails_in_one_line("needs QEMU 9.0 or newer");
    assert_eq!(
        stage.run("check --board raspi4b --args-only").status,
        Some(0)
    );
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port();
    stage
        .run(&format!("check --board pc --port {port}"))
        .fails_in_one_line("cannot be used");
    let missing = Stage::new().with("SPINDLE_QEMU_X86_64", "/nowhere/qemu");
    missing
        .run("check --board pc")
        .fails_in_one_line("install qemu-system-x86");
}

#[test]
fn run_without_a_terminal_exits_as_its_guest_does() {
    let run = "run --board pc --images images";
    let spindle = |what: &str| Stage::new().with("FAKE_SPINDLE", what);
    let outcome = spindle("0").run(run);
    assert_eq!((outcome.status, outcome.err.as_str()), (Some(0), ""));
    outcome.says("Spindle on 4 cores");
    assert_eq!(
        spindle("2").run(run).says("code 2 (panicked)").status,
        Some(2)
    );
    assert_eq!(
        spindle("reset").run(run).says("reset the machine").status,
        Some(125)
    );
    let late = spindle("hang").run("run --board pc --images images --limit 5");
    assert_eq!(
        late.says("did not end within 5 s").says("core 0").status,
        Some(124)
    );
}

#[test]
fn a_console_script_waits_and_types() {
    let stage = Stage::new().with("FAKE_SPINDLE", "shell");
    std::fs::write(
        stage.folder.join("good"),
        "expect spindle>\nsend help\nexpect you typed \"help\\r\"\nexit 0\n",
    )
    .unwrap();
    std::fs::write(
        stage.folder.join("bad"),
        "limit 1\nexpect a miracle | another\n",
    )
    .unwrap();
    assert_eq!(
        stage
            .run("run --board virt --images images --script good")
            .status,
        Some(0)
    );
    let bad = stage.run("run --board virt --images images --script bad");
    assert_eq!(
        bad.says("hung: did not print `a miracle` or `another` within 1 s")
            .status,
        Some(1)
    );
}

#[test]
fn a_bench_must_measure_the_same_twice() {
    let stage = Stage::new();
    let same = stage.run("bench --board pc --images images");
    let same = same.says("  spawn ").says(" 120 instructions\n");
    assert_eq!(same.says("  blink_image_bytes ").status, Some(0));
    let json = stage.read("target/bench/pc.json");
    assert!(
        json.contains("\"compiler\": \"rustc 1.96.0\"") && json.contains("\"value\": 120"),
        "{json}"
    );
    let differs = Stage::new()
        .with("FAKE_BENCH", "differs")
        .run("bench --board pc --images images");
    assert_eq!(differs.says("first wake").status, Some(1));
}

#[test]
fn help_is_there_for_everything() {
    let stage = Stage::new();
    assert_eq!(
        stage.run("--help").says("SPINDLE_QEMU_AARCH64").status,
        Some(0)
    );
    for command in ["check", "pack", "run", "test", "torture", "bench", "gdb"] {
        let outcome = stage.run(&format!("{command} --help"));
        assert_eq!(
            outcome
                .says(&format!("usage: spindle-qemu {command}"))
                .status,
            Some(0)
        );
    }
    stage.run("").fails_in_one_line("check, pack, run");
}

#[cfg(target_os = "linux")]
#[test]
fn qemu_dies_with_the_runner_however_that_ends() {
    for signal in ["KILL", "TERM", "INT"] {
        // A shell's `&` hands down an ignored INT, and then it ends nobody.
        if signal == "INT" && ignores_interrupt() {
            continue;
        }
        let pid_file = "qemu.pid";
        let stage = Stage::new()
            .with("FAKE_SPINDLE", "hang")
            .with("FAKE_PID_FILE", pid_file);
        let mut runner = stage.start("run --board pc --images images");
        let pid = wait_for(|| stage.read(pid_file).parse::<u32>().ok());
        // The shell's own: a small machine has no program of that name.
        let killed = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{signal} {}", runner.id()))
            .status();
        assert!(killed.unwrap().success());
        runner.wait().unwrap();
        let path = format!("/proc/{pid}/stat");
        // Gone, or waiting for whoever inherited it to notice.
        wait_for(|| {
            std::fs::read_to_string(Path::new(&path))
                .map_or(true, |stat| stat.contains(") Z "))
                .then_some(())
        });
    }
}

#[cfg(target_os = "linux")]
fn ignores_interrupt() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap() & 0b10 != 0
}

#[track_caller]
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("waited for 30 s");
}
