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

/// What distributions call the program that makes a CD.
const MAKERS: [&str; 3] = ["grub-mkrescue", "grub2-mkrescue", "i686-elf-grub-mkrescue"];

/// Where distributions keep UEFI firmware. That without room for variables is called `CODE`.
const FIRMWARE: [&str; 5] = [
    "/usr/share/ovmf/OVMF.fd",
    "/usr/share/edk2/x64/OVMF.4m.fd",
    "/usr/share/OVMF/OVMF_CODE.fd",
    "/usr/share/edk2/ovmf/OVMF_CODE.fd",
    "/opt/homebrew/share/qemu/edk2-x86_64-code.fd",
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
    let Some(maker) = MAKERS.into_iter().find(|name| exists(name)) else {
        return report
            .say("  left out: there is no grub-mkrescue here; `tools/setup iso` installs it");
    };
    let image = machine.image(images, "spindle");
    let iso = match make(maker, &image) {
        Ok(iso) => iso,
        Err(problem) => {
            let name = "grub_makes_an_iso";
            let message = problem.to_string();
            return report.add(&TestResult::wrong(
                name,
                Kind::Failed,
                message,
                String::new(),
            ));
        }
    };
    let uefi = FIRMWARE.into_iter().find(|path| Path::new(path).is_file());
    for (name, firmware) in [(names[0], Some(None)), (names[1], uefi.map(Some))] {
        if !name.contains(filter) {
            continue;
        }
        let Some(firmware) = firmware else {
            report.say("  left out: there is no UEFI firmware here; `tools/setup iso` installs it");
            continue;
        };
        report.began(name);
        let mut arguments = machine.hardware(&Serial::Pipe);
        arguments.extend(["-device", "VGA", "-cdrom"].map(OsString::from));
        arguments.push(iso.clone().into());
        if let Some(path) = firmware {
            arguments.extend(firmware_arguments(path).map(OsString::from));
        }
        let start = || Guest::start(machine.board.arch(), arguments);
        let script = include_str!("../scripts/tour.script");
        let (result, _) = scripted::play(name, machine, &image, script, start);
        report.add(&result);
    }
}

fn firmware_arguments(path: &str) -> [String; 2] {
    if path.to_lowercase().ends_with("code.fd") {
        let drive = format!("if=pflash,format=raw,unit=0,readonly=on,file={path}");
        return ["-drive".into(), drive];
    }
    ["-bios".into(), path.into()]
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
fn make(maker: &str, image: &Path) -> Result<PathBuf> {
    let folder = PathBuf::from("target/qemu/iso");
    let iso = PathBuf::from("target/qemu/spindle.iso");
    let prepare = || {
        fs::create_dir_all(folder.join("boot/grub"))?;
        fs::write(folder.join("boot/grub/grub.cfg"), GRUB_CONFIG)?;
        fs::copy(image, folder.join("boot/spindle"))
    };
    prepare().map_err(|error| Problem::at(image, error))?;
    let output = Command::new(maker)
        .arg("-o")
        .arg(&iso)
        .arg(&folder)
        .output();
    let output = output.map_err(|error| Problem::new(format!("{maker}: {error}")))?;
    if !output.status.success() {
        stop!("{maker}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(iso)
}
