//! Losses of power: a guest makes files and says of each when it is on the disk; QEMU is killed after some of them, in the midst of the next. Each
//! that was announced must be whole then, for mtools and for the guest's next boot.

use crate::disk::{self, Image};
use crate::guest::{Event, Guest};
use crate::machine::Machine;
use crate::problem::{Problem, Result, stop};
use crate::report::Report;
use crate::scripted;
use crate::verdict::{TestResult, Watcher};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::time::{Duration, Instant};

const CUTS: u64 = 5;
const MANY_CUTS: u64 = 50;
/// Files after which it is killed, at most.
const MOST: u64 = 12;
/// Generous: a starved host takes a while.
const LIMIT: Duration = Duration::from_secs(300);

pub fn run(machine: &Machine, images: &Path, filter: &str, is_long: bool, report: &mut Report) {
    let name = "announced_files_outlast_a_loss_of_power";
    if !name.contains(filter) || !disk::BOARDS.contains(&machine.board) {
        return;
    }
    report.suite(
        format!("power-{}", machine.board.name()),
        &format!("losses of power, {}", machine.title()),
    );
    report.began(name);
    let began = Instant::now();
    let cuts = if is_long { MANY_CUTS } else { CUTS };
    let result = match all(machine, images, cuts) {
        Ok(result) => result,
        Err(problem) => disk::judge(name, Err(problem)),
    };
    let result = TestResult {
        name: name.into(),
        ..result
    };
    report.add(&result.after(began.elapsed()));
}

fn all(machine: &Machine, images: &Path, cuts: u64) -> Result<TestResult> {
    let image = Image::make(&format!("power-{}", machine.board.name()))?;
    let machine = disk::with_disk(machine, &image);
    let spindle = machine.image(images, "spindle");
    // No two runs are the same; that which fails is told.
    let seed = RandomState::new().hash_one(0);
    let mut announced: Vec<u32> = Vec::new();
    for cut in 0..=cuts {
        let name = format!("cut {cut} of {cuts}, seed {seed:#x}");
        let within = |problem| Problem::new(format!("{name}: {problem}"));
        let first = cut as u32 * 1000;
        // The last boot is left alone: all is listed, and the machine switched off.
        let script = match cut == cuts {
            true => "fail *** machine panic\nexpect is mounted\nsend ls fill\nexpect file number\nexpect spindle>\nsend poweroff\nexit 0\n".into(),
            false => format!("fail *** machine panic\nexpect is mounted\nsend fill {first} 1000\n"),
        };
        let (result, guest) = scripted::boot(&name, &machine, &spindle, "", &script);
        if result.is_wrong() {
            return Ok(result);
        }
        if let Some(guest) = guest {
            let most = 1 + seed.rotate_left(7 * cut as u32) % MOST;
            announced.extend(heard_until_cut(*guest, first, most)?);
            image.check(true).map_err(within)?;
        }
        for number in &announced {
            let path = format!("/fill/file number {number}");
            let bytes = image.read(&path).map_err(within)?;
            if bytes != content(*number) {
                stop!(
                    "{name}: {path} has {} bytes, and not those that were written",
                    bytes.len()
                );
            }
        }
    }
    Ok(disk::judge("power", Ok(())))
}

/// Listens until so many files were announced, and kills the guest at once. Those that it announced, all of them.
fn heard_until_cut(mut guest: Guest, first: u32, most: u64) -> Result<Vec<u32>> {
    let until = Instant::now() + LIMIT;
    let mut said = String::new();
    loop {
        let count = said.matches("is on the disk").count() as u64;
        if count >= most {
            // Dropped, it is killed, without a word.
            drop(guest);
            let end = said.rfind("is on the disk").unwrap_or(0);
            let announced: Vec<u32> = (first..)
                .take_while(|number| said[..end].contains(&format!("file {number} ")))
                .collect();
            return Ok(announced);
        }
        match guest.next(until) {
            Event::Console(more) => said += &String::from_utf8_lossy(&more),
            Event::Gone => stop!("the guest ended by itself: {said}"),
            Event::Late => stop!(
                "{count} of {most} files within {} s: {said}",
                LIMIT.as_secs()
            ),
        }
    }
}

/// As the guest's `fill` makes it.
fn content(number: u32) -> Vec<u8> {
    let length = 200 + number.wrapping_mul(977) % 20_000;
    let byte = |at: u32| {
        let sum = number.wrapping_mul(31).wrapping_add(at.wrapping_mul(7));
        sum.wrapping_add(at / 251) as u8
    };
    (0..length).map(byte).collect()
}
