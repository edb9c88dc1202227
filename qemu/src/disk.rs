//! Disks: an image with FAT on it, made by mkfs.fat and mtools, is attached to a guest; what the guest has made of it is looked at with fsck.fat and mtools.

use crate::board::Board;
use crate::machine::Machine;
use crate::problem::{Problem, Result, stop};
use crate::report::Report;
use crate::verdict::{Kind, TestResult, Watcher};
use crate::{files, scripted, suite};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Boards whose disks have a driver.
pub const BOARDS: [Board; 3] = [Board::Pc, Board::Virt, Board::Raspi3b];
/// A power of two, as cards must have.
const BYTES: u64 = 64 << 20;
/// What a guest can only leave behind when it was cut off: clusters that nothing uses, a mark, and two tables of which one is older.
const HARMLESS: [&str; 11] = [
    "fsck.fat 4",
    "Dirty bit is set",
    "Automatically removing dirty bit",
    "Reclaimed",
    "Orphan long file name",
    "Auto-deleting",
    "Free cluster summary",
    "FATs differ",
    "Leaving filesystem unchanged",
    "Using first FAT",
    "Auto-setting",
];

/// A file with a disk in it. It is kept, to be looked at.
pub struct Image(pub PathBuf);

/// Runs a tool: whether it ended well, and what it said.
fn tool(command: &mut Command) -> Result<(bool, Vec<u8>)> {
    command
        .env("MTOOLS_SKIP_CHECK", "1")
        .env("LC_ALL", "C.UTF-8");
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output
        .map_err(|error| Problem::new(format!("{name}: {error}; `tools/setup fat` installs it")))?;
    let mut said = output.stdout;
    if !output.status.success() {
        said.extend(output.stderr);
    }
    Ok((output.status.success(), said))
}

impl Image {
    /// A new one: FAT on its first half, with a file on it.
    pub fn make(name: &str) -> Result<Image> {
        let path = PathBuf::from(format!("target/qemu/{name}.img"));
        files::write(&path, b"")?;
        let file = File::options().write(true).open(&path);
        let sized = file.and_then(|file| file.set_len(BYTES));
        sized.map_err(|error| Problem::at(&path, error))?;
        let image = Image(path);
        let blocks = (BYTES / 2 / 1024).to_string();
        let (is_made, said) = tool(
            Command::new("mkfs.fat")
                .args(["-n", "SPINDLE"])
                .arg(&image.0)
                .arg(blocks),
        )?;
        if !is_made {
            stop!("mkfs.fat: {}", String::from_utf8_lossy(&said));
        }
        let text = files::with_suffix(&image.0, ".txt");
        let written =
            File::create(&text).and_then(|mut file| file.write_all(b"written by the runner\n"));
        written.map_err(|error| Problem::at(&text, error))?;
        let (is_put, said) = tool(
            Command::new("mcopy")
                .arg("-i")
                .arg(&image.0)
                .arg(&text)
                .arg("::From the host.txt"),
        )?;
        let _ = fs::remove_file(&text);
        if !is_put {
            stop!("mcopy: {}", String::from_utf8_lossy(&said));
        }
        Ok(image)
    }

    /// What is in a file on it.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let (is_there, said) = tool(
            Command::new("mtype")
                .arg("-i")
                .arg(&self.0)
                .arg(format!("::{path}")),
        )?;
        if !is_there {
            stop!("{path}: {}", String::from_utf8_lossy(&said).trim());
        }
        Ok(said)
    }

    /// fsck.fat must find nothing wrong with it; or, after a loss of power, nothing but what does no harm.
    pub fn check(&self, is_after_cut: bool) -> Result<()> {
        let (is_sound, said) = tool(Command::new("fsck.fat").arg("-n").arg(&self.0))?;
        let said = String::from_utf8_lossy(&said).into_owned();
        if is_sound || is_after_cut && harm(&said).is_none() {
            return Ok(());
        }
        let worst = harm(&said).unwrap_or("it was not unmounted");
        stop!("fsck.fat: {worst}\n{said}")
    }
}

/// The first line of fsck.fat that tells of harm.
fn harm(said: &str) -> Option<&str> {
    let is_harm = |line: &&str| {
        // What goes on with blanks, and numbers about all of it, belongs to a line before.
        !line.trim().is_empty()
            && !line.starts_with(' ')
            && !line.contains(" files, ")
            && !HARMLESS.iter().any(|harmless| line.contains(harmless))
    };
    said.lines().find(is_harm)
}

/// The machine with a new disk.
pub fn with_disk(machine: &Machine, image: &Image) -> Machine {
    Machine {
        disk: Some(image.0.clone()),
        ..machine.clone()
    }
}

pub fn run(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    if BOARDS.contains(&machine.board) {
        image_tests(machine, images, filter, report);
        shell(machine, images, filter, report);
    }
}

/// The tests of the image that need a disk; then what they have left on it.
fn image_tests(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let name = "what_the_guest_wrote_is_sound_and_read_by_others";
    report.suite(
        format!("disk-{}", machine.board.name()),
        &format!("a disk, {}", machine.title()),
    );
    report.began(name);
    let began = Instant::now();
    let outcome = Image::make(&format!("disk-{}", machine.board.name())).inspect(|image| {
        let way = suite::Way {
            word: Some("disk"),
            ..suite::Way::default()
        };
        let filter = if name.contains(filter) { "" } else { filter };
        let tests = machine.image(images, "tests");
        suite::run_with(&way, &with_disk(machine, image), &tests, filter, report);
    });
    if !name.contains(filter) && outcome.is_ok() {
        return;
    }
    let outcome = outcome.and_then(|image| {
        image.check(false)?;
        let text = image.read("/From the guest.txt")?;
        if text != b"written by the guest\n" {
            stop!("mtools read {:?}", String::from_utf8_lossy(&text));
        }
        for task in 0..8 {
            for round in 1..4 {
                let bytes = image.read(&format!("/from the guest/task {task} file {round}"))?;
                if bytes.len() != 512 * (1 + 5 * round) {
                    stop!(
                        "mtools read {} bytes of task {task}, round {round}",
                        bytes.len()
                    );
                }
            }
        }
        Ok(())
    });
    report.add(&judge(name, outcome).after(began.elapsed()));
}

/// The shell's commands for files; then what they have left.
fn shell(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let name = "the_shell_writes_lists_and_shows_files";
    if !name.contains(filter) {
        return;
    }
    report.suite(
        format!("files-{}", machine.board.name()),
        &format!("files, {}", machine.title()),
    );
    report.began(name);
    let began = Instant::now();
    let image = match Image::make(&format!("files-{}", machine.board.name())) {
        Ok(image) => image,
        Err(problem) => return report.add(&judge(name, Err(problem))),
    };
    let disk = if machine.board.is_pi() {
        "sd0"
    } else {
        "disk0"
    };
    let script = include_str!("../scripts/files.script").replace("{disk}", disk);
    let spindle = machine.image(images, "spindle");
    let (mut result, _) = scripted::boot(name, &with_disk(machine, &image), &spindle, "", &script);
    if !result.is_wrong() {
        let look = image.check(false).and_then(|()| image.read("/a note.txt"));
        let look = look.and_then(|text| match text == b"hello from the shell\n" {
            true => Ok(()),
            false => stop!("mtools read {:?}", String::from_utf8_lossy(&text)),
        });
        result = TestResult {
            console: result.console,
            ..judge(name, look)
        };
    }
    report.add(&result.after(began.elapsed()));
}

/// A test that passed, or why not.
pub fn judge(name: &str, outcome: Result<()>) -> TestResult {
    match outcome {
        Ok(()) => TestResult::passed(name, std::time::Duration::ZERO),
        Err(problem) => TestResult::wrong(name, Kind::Failed, problem.to_string(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_clusters_are_no_harm_and_shared_ones_are() {
        let lost = "fsck.fat 4.2 (2021-01-31)\nDirty bit is set. Fs was not properly unmounted and some data may be corrupt.\n Automatically removing dirty bit.\nReclaimed 3 unused clusters (6144 bytes).\n\nLeaving filesystem unchanged.\nx.img: 3 files, 8/16343 clusters\n";
        assert_eq!(harm(lost), None);
        let shared = "/a and\n/b\n  share clusters.\n  Truncating second to 0 bytes.\n";
        assert_eq!(harm(shared), Some("/a and"));
    }
}
