//! The boards: which QEMU runs them, how many cores they take, and whether this host can run them.

use crate::problem::{Problem, Result, stop};
use std::ffi::OsString;
use std::fmt;
use std::process::Command;

/// An instruction set, which is also the name of the folder its images are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }

    /// The program to run: the one named by `SPINDLE_QEMU_X86_64` / `SPINDLE_QEMU_AARCH64`, or QEMU's usual name.
    pub fn qemu(self) -> OsString {
        let (variable, usual) = match self {
            Arch::X86_64 => ("SPINDLE_QEMU_X86_64", "qemu-system-x86_64"),
            Arch::Aarch64 => ("SPINDLE_QEMU_AARCH64", "qemu-system-aarch64"),
        };
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .unwrap_or_else(|| usual.into())
    }

    fn package(self) -> &'static str {
        match self {
            Arch::X86_64 => "qemu-system-x86",
            Arch::Aarch64 => "qemu-system-arm",
        }
    }
}

/// Which interrupt controller `virt` gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gic {
    V2,
    V3,
}

impl Gic {
    pub fn number(self) -> u8 {
        match self {
            Gic::V2 => 2,
            Gic::V3 => 3,
        }
    }
}

/// A machine that images boot on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Board {
    Pc,
    Virt,
    Raspi3b,
    Raspi4b,
}

impl Board {
    pub const ALL: [Board; 4] = [Board::Pc, Board::Virt, Board::Raspi3b, Board::Raspi4b];

    pub fn parse(name: &str) -> Result<Board> {
        match Board::ALL.into_iter().find(|board| board.name() == name) {
            Some(board) => Ok(board),
            None => {
                stop!("there is no board `{name}`; the boards are pc, virt, raspi3b and raspi4b")
            }
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Board::Pc => "pc",
            Board::Virt => "virt",
            Board::Raspi3b => "raspi3b",
            Board::Raspi4b => "raspi4b",
        }
    }

    pub fn arch(self) -> Arch {
        match self {
            Board::Pc => Arch::X86_64,
            _ => Arch::Aarch64,
        }
    }

    pub fn is_pi(self) -> bool {
        matches!(self, Board::Raspi3b | Board::Raspi4b)
    }

    /// What QEMU calls it.
    pub fn machine(self) -> &'static str {
        match self {
            Board::Pc => "q35",
            other => other.name(),
        }
    }

    pub fn max_cores(self, gic: Gic) -> u32 {
        match self {
            Board::Virt if gic == Gic::V2 => 8,
            Board::Pc | Board::Virt => 64,
            Board::Raspi3b | Board::Raspi4b => 4,
        }
    }

    /// Where the first byte of the image is loaded: what addresses mean before the MMU is on.
    pub fn load_address(self) -> u64 {
        match self {
            Board::Pc => 0x20_0000,
            Board::Virt => 0x4008_0000,
            Board::Raspi3b | Board::Raspi4b => 0x8_0000,
        }
    }

    /// The oldest QEMU that will do. 6.2 is the oldest that a maintained distribution ships.
    pub fn needs(self) -> Version {
        match self {
            Board::Raspi4b => Version { major: 9, minor: 0 },
            _ => Version { major: 6, minor: 2 },
        }
    }

    /// Says in one line why `cores` of them cannot be had.
    pub fn check_cores(self, cores: u32, gic: Gic) -> Result<()> {
        let max = self.max_cores(gic);
        if (1..=max).contains(&cores) {
            return Ok(());
        }
        let with = if self == Board::Virt && gic == Gic::V2 {
            " with gic 2"
        } else {
            ""
        };
        stop!(
            "board {} cannot have {cores} cores{with}; give 1 to {max}",
            self.name()
        )
    }

    /// Says in one line why this host cannot run the board.
    pub fn check_qemu(self) -> Result<()> {
        let program = self.arch().qemu();
        let shown = program.to_string_lossy();
        let package = self.arch().package();
        let needed = self.needs();
        let output = Command::new(&program).arg("--version").output().map_err(|error| {
            Problem::new(format!(
                "{shown} does not run ({error}); board {} needs QEMU {needed} or newer: install {package}",
                self.name()
            ))
        })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(found) = Version::parse(&text) else {
            stop!(
                "{shown} --version does not name a QEMU version; board {} needs QEMU {needed} or newer",
                self.name()
            );
        };
        if found < needed {
            stop!(
                "{shown} is version {found}; board {} needs QEMU {needed} or newer: install a newer {package}",
                self.name()
            );
        }
        let listed = Command::new(&program).args(["-machine", "help"]).output();
        let listed =
            listed.map_err(|error| Problem::new(format!("{shown} -machine help: {error}")))?;
        let names = String::from_utf8_lossy(&listed.stdout);
        let machine = self.machine();
        if !names
            .lines()
            .any(|line| line.split_whitespace().next() == Some(machine))
        {
            stop!(
                "{shown} {found} was built without the machine {machine}: install a full {package}"
            );
        }
        Ok(())
    }
}

/// A QEMU version, as far as boards care.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// Reads `QEMU emulator version 7.2.22 (Debian ...)`.
    fn parse(text: &str) -> Option<Version> {
        let number = text.split("version ").nth(1)?;
        let mut parts = number.split(|c: char| !c.is_ascii_digit());
        Some(Version {
            major: parts.next()?.parse().ok()?,
            minor: parts.next()?.parse().ok()?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_board_is_told_which_boards_exist() {
        let problem = Board::parse("pdp11").unwrap_err().to_string();
        assert!(
            problem.contains("`pdp11`") && problem.contains("raspi3b"),
            "{problem}"
        );
    }

    #[test]
    fn too_many_cores_are_told_the_most_there_can_be() {
        let problem = Board::Virt
            .check_cores(16, Gic::V2)
            .unwrap_err()
            .to_string();
        assert!(problem.contains("with gic 2; give 1 to 8"), "{problem}");
        assert!(Board::Virt.check_cores(16, Gic::V3).is_ok());
        assert!(Board::Pc.check_cores(0, Gic::V3).is_err());
        assert!(Board::Raspi3b.check_cores(5, Gic::V3).is_err());
    }

    #[test]
    fn versions_are_read_from_what_qemu_says() {
        let debian =
            Version::parse("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\n").unwrap();
        assert_eq!(debian, Version { major: 7, minor: 2 });
        assert!(debian < Board::Raspi4b.needs());
        assert!(Version::parse("QEMU emulator version 10.0.2").unwrap() > Board::Raspi4b.needs());
        assert_eq!(Version::parse("GNU bash"), None);
    }
}
