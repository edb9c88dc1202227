//! The serial line at full rate: a mebibyte each way, both at once, through the shell's `loopback`. What comes back must be what was sent.

use crate::guest::{Event, Guest};
use crate::machine::Machine;
use crate::problem::{Problem, Result, stop};
use crate::report::Report;
use crate::scripted;
use crate::verdict::{Kind, TestResult, Watcher};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const BYTES: usize = 1 << 20;
/// Generous: a starved host takes a while.
const LIMIT: Duration = Duration::from_secs(300);
/// What is sent begins so: the guest's own words before it do not.
const FIRST: u8 = 0xaa;

pub fn run(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let name = "a_mebibyte_each_way_loses_no_byte";
    if !name.contains(filter) {
        return;
    }
    report.suite(
        format!("serial-{}", machine.board.name()),
        &format!("the serial line, {}", machine.title()),
    );
    report.began(name);
    let began = Instant::now();
    let script =
        format!("expect spindle>\nsend loopback {BYTES}\nexpect ready for {BYTES} bytes\n");
    let image = machine.image(images, "spindle");
    let (mut result, guest) = scripted::boot(name, machine, &image, "log=warn", &script);
    if let Some(guest) = guest
        && let Err(problem) = exchange(*guest)
    {
        result = TestResult::wrong(name, Kind::Failed, problem.to_string(), result.console);
    }
    report.add(&result.after(began.elapsed()));
}

/// Sends, and looks at what comes back.
fn exchange(mut guest: Guest) -> Result<()> {
    let bytes = noise(BYTES);
    let Some(mut input) = guest.take_input() else {
        stop!("the guest has no console to type at");
    };
    let to_send = bytes.clone();
    // Ends when all is sent, or when the guest is gone.
    let sender = thread::spawn(move || input.write_all(&to_send).and_then(|()| input.flush()));
    let until = Instant::now() + LIMIT;
    let mut said = Vec::new();
    let end = format!("{BYTES} bytes, their sum is {:#018x}", sum(&bytes));
    let mut good = 0;
    let found = loop {
        let first = said.iter().position(|byte| *byte == FIRST);
        let back = first.map_or(&[][..], |first| &said[first..]);
        let compared = back.len().min(BYTES);
        if let Some(at) = (good..compared).find(|at| back[*at] != bytes[*at]) {
            break Err(Problem::new(format!(
                "byte {at} came back as {:#x}, and was sent as {:#x}",
                back[at], bytes[at]
            )));
        }
        good = compared;
        let rest = String::from_utf8_lossy(&back[compared..]);
        if compared == BYTES && rest.contains("spindle>") {
            break match rest.contains(&end) {
                true => Ok(()),
                false => Err(Problem::new(format!("the guest says {rest:?}"))),
            };
        }
        match guest.next(until) {
            Event::Console(more) => said.extend(more),
            Event::Gone => break Err(Problem::new("the guest ended")),
            Event::Late => {
                let seconds = LIMIT.as_secs();
                let message = format!("{compared} of {BYTES} bytes came back within {seconds} s");
                break Err(Problem::new(message));
            }
        }
    };
    // Before the sender is waited for: a guest that takes no more would keep it for ever.
    guest.quit();
    match sender.join() {
        Ok(sent) if found.is_ok() => {
            sent.map_err(|error| Problem::new(format!("the console takes no input: {error}")))?;
        }
        _ => {}
    }
    found
}

/// As the guest works it out.
fn sum(bytes: &[u8]) -> u64 {
    let add = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
    bytes.iter().fold(0, add)
}

/// Bytes of all values, in no order.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let mut bytes: Vec<u8> = (0..count).map(|_| next()).collect();
    bytes[0] = FIRST;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_every_byte_and_a_sum_that_tells_order() {
        let bytes = noise(1 << 16);
        assert!((0..=255).all(|value| bytes.contains(&value)));
        assert_ne!(sum(&[1, 2]), sum(&[2, 1]));
    }
}
