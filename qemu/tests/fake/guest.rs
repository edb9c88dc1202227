//! The fake's guests.

use crate::qmp::Events;
use crate::{option, variable};
use std::io::Write;
use std::process::exit;
use std::time::Duration;

const FIXTURES: &str = "fixtures::a_test_that_fails=fail fixtures::a_test_that_panics=panic \
    fixtures::a_test_that_panics_while_it_prints=panic \
    fixtures::a_test_in_which_all_cores_panic_at_once=panic \
    fixtures::a_test_that_reads_null=panic \
    fixtures::a_test_that_allocates_in_an_interrupt=panic \
    fixtures::a_test_that_panics_while_a_timer_ticks=panic \
    fixtures::a_test_that_faults_in_an_interrupt_with_a_damaged_stack=panic \
    fixtures::a_test_that_overflows_its_stack=overflow \
    fixtures::a_test_that_overflows_the_stack_of_another_core=overflow \
    fixtures::a_test_that_overflows_a_stack_that_grows=overflow \
    fixtures::a_test_whose_stack_grows_too_far_under_a_guard=panic \
    fixtures::a_test_whose_stack_finds_no_memory=panic \
    fixtures::a_test_that_triple_faults=reset \
    fixtures::a_test_that_hangs_with_interrupts_off=hang fixtures::a_test_that_exits_early=exit \
    fixtures::a_test_in_which_all_cores_print=print \
    fixtures::a_test_that_passes=ok";

pub fn play(events: &Events) {
    let image = option("-kernel").unwrap_or_default();
    match image.rsplit('/').next().unwrap_or_default() {
        "tests" => tests(&variable("FAKE_TESTS"), events),
        "fixtures" => tests(FIXTURES, events),
        "bench" => bench(),
        "blink" => {
            say("this blinks: *");
            say("that was all");
            leave(0)
        }
        _ => spindle(events),
    }
}

fn say(bytes: impl AsRef<[u8]>) {
    let mut out = std::io::stdout();
    let _ = out
        .write_all(bytes.as_ref())
        .and_then(|()| out.write_all(b"\r\n"))
        .and_then(|()| out.flush());
}

/// Exits with a code, the way of the machine that we are.
fn leave(code: i32) -> ! {
    match option("-machine").as_deref() {
        Some("q35") => exit(((0x10 + code) << 1) | 1),
        _ => exit(0x10 + code),
    }
}

fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// The value of `key=value` on the kernel's command line.
fn word(key: &str) -> Option<String> {
    let line = option("-append")?;
    let found = line
        .split(' ')
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    found.map(str::to_string)
}

fn tests(list: &str, events: &Events) {
    let filter = word("test").unwrap_or_default();
    let from: usize = word("from").map_or(0, |from| from.parse().expect("from= takes a number"));
    let chosen = || {
        list.split_whitespace()
            .filter_map(|entry| entry.split_once('='))
            .filter(|(name, _)| name.contains(&filter))
    };
    say(b"firmware \xff\xfe\x1b[2J noise");
    if chosen().any(|(_, behaviour)| behaviour == "noboot") {
        say("@@ panic core=0 no memory");
        say("@@ panic-end");
        leave(2);
    }
    say(format!(
        "@@ spindle 1 board=fake cores={}",
        word("cores").or(option("-smp")).unwrap_or_default()
    ));
    say(format!("@@ plan {}", chosen().count()));
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (index, (name, behaviour)) in chosen().enumerate().skip(from) {
        if behaviour == "skip" {
            skipped += 1;
            say(format!("@@ skip {index} {name} not on this board"));
            continue;
        }
        let limit = if behaviour == "hang" { 1 } else { 30 };
        say(format!("@@ begin {index} {name} limit={limit}"));
        say(format!("console of {name}"));
        match behaviour {
            "fail" => {
                failed += 1;
                say(format!("@@ fail {index} {name} left is not right"));
                continue;
            }
            "panic" | "overflow" => {
                // All that is asked of any of them.
                say(format!(
                    "@@ {behaviour} core=2 it went wrong: out of memory for the stack under a guard, \
                     below the stack of 1004 KiB"
                ));
                say(format!("core 2: {name}+0x12"));
                for core in [0, 1, 3] {
                    say(format!("core {core}: asleep"));
                }
                say("@@ panic-end");
                leave(2);
            }
            "reset" => events.shutdown("guest-reset"),
            "poweroff" => events.shutdown("guest-shutdown"),
            "exit" => leave(0),
            "hang" => hang(),
            "print" => {
                for line in 0..400 {
                    let (core, line) = (line % 4, line / 4);
                    say(format!(
                        "core {core} line {line}: the quick brown fox jumps over the lazy dog"
                    ));
                }
            }
            "noise" => {
                // Half a line, split in the middle; bytes that are no text; a record behind a prompt.
                say(b"\xc3\x28\0\x07 @@ ok 77 nobody us=1");
                print!("@@ no");
                let _ = std::io::stdout().flush();
                std::thread::sleep(Duration::from_millis(50));
                say("te figure=12");
                print!("prompt> ");
            }
            _ => {}
        }
        passed += 1;
        say(format!("@@ ok {index} {name} us=1234"));
    }
    say(format!(
        "@@ end passed={passed} failed={failed} skipped={skipped}"
    ));
    leave(i32::from(failed > 0));
}

fn spindle(events: &Events) {
    say("Spindle on 4 cores");
    match variable("FAKE_SPINDLE").as_str() {
        "hang" => hang(),
        "reset" => events.shutdown("guest-reset"),
        "shell" => {
            print!("spindle> ");
            let _ = std::io::stdout().flush();
            let mut line = [0; 5];
            std::io::Read::read_exact(&mut std::io::stdin(), &mut line).expect("somebody types");
            say(format!("you typed {:?}", String::from_utf8_lossy(&line)));
            leave(0)
        }
        code => leave(code.parse().unwrap_or(0)),
    }
}

fn bench() {
    say("@@ note compiler=rustc 1.96.0");
    say("@@ bench spawn 120 instructions");
    let value = if variable("FAKE_BENCH") == "differs" {
        std::process::id()
    } else {
        7
    };
    say(format!("@@ bench wake {value} instructions"));
    leave(0);
}
