//! Boots the PC image as a PC does it: from a CD, through GRUB and multiboot2, under BIOS and UEFI.

use crate::guest::Guest;
use crate::machine::{Machine, Serial};
use crate::problem::{Problem, Result, stop};
use crate::report::Report;
use crate::scripted;
use crate::verdict::{Kind, TestResult, Watcher};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where distributions keep UEFI firmware in one file.
const FIRMWARE: [&str; 4] = [
    "/usr/share/ovmf/OVMF.fd",
    "/usr/share/qemu/OVMF.fd",
    "/usr/share/edk2/x64/OVMF.4m.fd",
    "/usr/share/edk2-ovmf/x64/OVMF.fd",
];

const GRUB_CONFIG: &str = "\
set timeout=0
menuentry spindle {
  multiboot2 /boot/spindle exit=qemu tour
  boot
}
";

pub fn run(machine: &Machine, images: &Path, filter: &str, report: &mut Report) {
    let names = ["grub_boots_it_under_bios", "grub_boots_it_under_uefi"];
    if !names.iter().any(|name| name.contains(filter)) {
        return;
    }
    report.suite(
        "grub-pc",
        &format!("GRUB and multiboot2, {}", machine.title()),
    );
    if !exists("grub-mkrescue") {
        return report.say("  left out: there is no grub-mkrescue here (install grub-pc-bin, grub-efi-amd64-bin, xorriso and mtools)");
    }
    let image = machine.image(images, "spindle");
    let iso = match make(&image) {
        Ok(iso) => iso,
        Err(problem) => {
            let result = TestResult::wrong(
                "grub_makes_an_iso",
                Kind::Failed,
                problem.to_string(),
                String::new(),
            );
            return report.add(&result);
        }
    };
    let firmware = FIRMWARE
        .map(Path::new)
        .into_iter()
        .find(|path| path.is_file());
    for (name, firmware) in [(names[0], Some(None)), (names[1], firmware.map(Some))] {
        if !name.contains(filter) {
            continue;
        }
        let Some(firmware) = firmware else {
            report.say("  left out: there is no UEFI firmware here (install ovmf)");
            continue;
        };
        report.began(name);
        let mut arguments = machine.hardware(&Serial::Pipe);
        arguments.extend(["-device", "VGA", "-cdrom"].map(OsString::from));
        arguments.push(iso.clone().into());
        if let Some(firmware) = firmware {
            arguments.extend([OsString::from("-bios"), firmware.into()]);
        }
        let start = || Guest::start(machine.board.arch(), arguments);
        let script = include_str!("../scripts/tour.script");
        let (result, _) = scripted::play(name, machine, &image, script, start);
        report.add(&result);
    }
}

fn exists(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok()
}

/// Puts `image` on a CD that boots.
fn make(image: &Path) -> Result<PathBuf> {
    let folder = PathBuf::from("target/qemu/iso");
    let iso = PathBuf::from("target/qemu/spindle.iso");
    let prepare = || {
        fs::create_dir_all(folder.join("boot/grub"))?;
        fs::write(folder.join("boot/grub/grub.cfg"), GRUB_CONFIG)?;
        fs::copy(image, folder.join("boot/spindle"))
    };
    prepare().map_err(|error| Problem::at(image, error))?;
    let output = Command::new("grub-mkrescue")
        .arg("-o")
        .arg(&iso)
        .arg(&folder)
        .output();
    let output = output.map_err(|error| Problem::new(format!("grub-mkrescue: {error}")))?;
    if !output.status.success() {
        stop!("grub-mkrescue: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(iso)
}
