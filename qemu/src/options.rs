//! The command line: [`Options`] holds what any command may be told; each command says which it takes.

use crate::board::{Board, Gic};
use crate::help;
use crate::machine::{Machine, Virtio};
use crate::problem::{Result, stop};
use lexopt::{Arg, Parser, ValueExt};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What was asked for.
#[derive(Default, Debug)]
pub struct Options {
    pub board: Option<String>,
    pub cores: Option<u32>,
    pub gic: Option<Gic>,
    pub el2: bool,
    pub append: String,
    images: Option<PathBuf>,
    pub filter: String,
    pub junit: Option<PathBuf>,
    pub script: Option<PathBuf>,
    pub disk: Option<PathBuf>,
    pub legacy: bool,
    pub limit: Option<u64>,
    pub port: Option<u16>,
    pub args_only: bool,
    pub long: bool,
    pub seeds: Option<u64>,
    pub seed: Option<u64>,
    pub wall: bool,
    pub no_host: bool,
    pub host_only: bool,
    /// Arguments without a name.
    pub files: Vec<PathBuf>,
    /// What follows `--`.
    pub rest: Vec<OsString>,
}

/// What to do.
#[derive(Debug)]
pub enum Request {
    /// Print this and end well.
    Help(String),
    Command(&'static str, Box<Options>),
}

/// Reads the arguments behind the program's name.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request> {
    let mut parser = Parser::from_args(arguments);
    let command = match parser.next()? {
        Some(Arg::Value(name)) => name.to_string_lossy().into_owned(),
        Some(Arg::Long("version")) => {
            return Ok(Request::Help(format!(
                "spindle-qemu {}\n",
                env!("CARGO_PKG_VERSION")
            )));
        }
        Some(Arg::Long("help") | Arg::Short('h')) => return Ok(Request::Help(help::all())),
        Some(other) => return Err(other.unexpected().into()),
        None => stop!(
            "what is to be done? The commands are {}; see --help",
            help::names()
        ),
    };
    let Some(help) = help::of(&command) else {
        stop!(
            "there is no command `{command}`; the commands are {}",
            help::names()
        );
    };
    let mut options = Options::default();
    loop {
        if options.files.len() == help.files {
            // Everything behind `--` is for QEMU, whatever it looks like.
            if let Some(raw) = parser.try_raw_args()
                && raw.peek().is_some_and(|next| next == "--")
            {
                if !help.options.contains(&"--") {
                    stop!(
                        "`{command}` passes nothing on to QEMU; see spindle-qemu {command} --help"
                    );
                }
                options.rest = raw.skip(1).collect();
                break;
            }
        }
        let name = match parser.next()? {
            None => break,
            Some(Arg::Long("help") | Arg::Short('h')) => return Ok(Request::Help(help.text())),
            Some(Arg::Long(name)) if help.options.contains(&name) => name.to_string(),
            Some(Arg::Value(file)) if options.files.len() < help.files => {
                options.files.push(file.into());
                continue;
            }
            Some(other) => stop!("{}; see spindle-qemu {command} --help", other.unexpected()),
        };
        options.set(&name, &mut parser)?;
    }
    if options.files.len() < help.files {
        stop!("usage: spindle-qemu {}", help.usage);
    }
    Ok(Request::Command(help.name, Box::new(options)))
}

impl Options {
    fn set(&mut self, name: &str, parser: &mut Parser) -> Result<()> {
        match name {
            "el2" => self.el2 = true,
            "args-only" => self.args_only = true,
            "long" => self.long = true,
            "wall" => self.wall = true,
            "no-host" => self.no_host = true,
            "host-only" => self.host_only = true,
            "images" => self.images = Some(parser.value()?.into()),
            "junit" => self.junit = Some(parser.value()?.into()),
            "script" => self.script = Some(parser.value()?.into()),
            "disk" => self.disk = Some(parser.value()?.into()),
            "legacy" => self.legacy = true,
            _ => {
                let value = parser.value()?.string()?;
                self.set_text(name, value)?;
            }
        }
        Ok(())
    }

    fn set_text(&mut self, name: &str, value: String) -> Result<()> {
        let number = |most: u64| match value.parse::<u64>() {
            Ok(number) if number <= most => Ok(number),
            _ if name == "cores" => {
                stop!("`{value}` is no number of cores: 1 to 64 on pc and virt, 1 to 4 on a Pi")
            }
            _ => stop!("--{name} takes a number, not `{value}`"),
        };
        match name {
            "board" => self.board = Some(value),
            "append" => self.append = value,
            "filter" if value.contains(char::is_whitespace) => {
                stop!("--filter takes one word, not `{value}`")
            }
            "filter" => self.filter = value,
            "cores" => self.cores = Some(number(u64::from(u32::MAX))? as u32),
            "port" => self.port = Some(number(u64::from(u16::MAX))? as u16),
            "seeds" => self.seeds = Some(number(u64::from(u32::MAX))?),
            "seed" if value == "0" => stop!("--seed takes a number above 0"),
            "seed" => self.seed = Some(number(u64::MAX)?),
            "limit" => self.limit = Some(number(u64::from(u32::MAX))?),
            "gic" => match value.as_str() {
                "2" => self.gic = Some(Gic::V2),
                "3" => self.gic = Some(Gic::V3),
                _ => stop!("--gic takes 2 or 3, not `{value}`"),
            },
            // `help.rs` lists it, nothing here takes it: a mistake that the tests of this file find.
            _ => stop!("--{name} is not understood"),
        }
        Ok(())
    }

    pub fn board(&self) -> Result<Board> {
        match &self.board {
            Some(name) => Board::parse(name),
            None => stop!("--board is missing; the boards are pc, virt, raspi3b and raspi4b"),
        }
    }

    /// The one machine that is asked for: 4 cores unless told.
    pub fn machine(&self) -> Result<Machine> {
        let mut machine = Machine::new(self.board()?, self.cores.unwrap_or(4));
        machine.gic = self.gic.unwrap_or(machine.gic);
        machine.el2 = self.el2;
        machine.disk = self.disk.clone();
        if self.legacy {
            machine.virtio = Virtio::Legacy;
        }
        machine.check()?;
        Ok(machine)
    }

    pub fn images(&self) -> Result<PathBuf> {
        match &self.images {
            Some(images) => Ok(images.clone()),
            None => stop!("--images is missing: the folder with x86_64/ and aarch64/"),
        }
    }

    pub fn limit(&self, usual: Duration) -> Duration {
        self.limit.map_or(usual, Duration::from_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Request> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn options(line: &str) -> Options {
        match read(line).unwrap() {
            Request::Command(_, options) => *options,
            Request::Help(text) => panic!("{text}"),
        }
    }

    #[test]
    fn a_command_takes_its_own_options_only() {
        let test = options(
            "test --board=virt --cores 2 --filter wake --long --no-host --images target/images",
        );
        assert_eq!(
            (test.cores, test.filter.as_str(), test.long, test.no_host),
            (Some(2), "wake", true, true)
        );
        let problem = read("pack --cores 2 a b").unwrap_err().to_string();
        assert!(problem.contains("--cores"), "{problem}");
    }

    #[test]
    fn every_option_that_help_lists_is_taken() {
        for command in help::COMMANDS {
            for option in command.options.iter().filter(|option| **option != "--") {
                let flag = [
                    "el2",
                    "legacy",
                    "args-only",
                    "long",
                    "wall",
                    "no-host",
                    "host-only",
                ]
                .contains(option);
                let value = if flag { "" } else { "3" };
                options(&format!(
                    "{} --{option} {value} {}",
                    command.name,
                    "file ".repeat(command.files)
                ));
            }
        }
    }

    #[test]
    fn mistakes_are_told_in_one_line() {
        for (line, words) in [
            ("", "what is to be done"),
            ("fly", "no command `fly`"),
            ("pack one", "usage: spindle-qemu pack"),
            ("run --cores many", "`many` is no number of cores"),
            ("run --cores -1", "no number of cores"),
            ("run --limit soon", "takes a number, not `soon`"),
            ("run --gic 4", "takes 2 or 3"),
            ("run --board", "--board"),
            ("run stray", "stray"),
            ("test -- -d int", "passes nothing on"),
        ] {
            let problem = read(line).unwrap_err().to_string();
            assert!(
                problem.contains(words) && !problem.contains('\n'),
                "{problem}"
            );
        }
    }

    #[test]
    fn what_follows_two_dashes_is_for_qemu() {
        let run = options("run --board pc -- -d int --board");
        assert_eq!(run.rest, ["-d", "int", "--board"]);
        assert!(options("run --board pc").rest.is_empty());
    }

    #[test]
    fn the_machine_asked_for_is_checked() {
        let machine = options("run --board virt --gic 2 --el2").machine().unwrap();
        assert_eq!(machine.id(), "virt-gic2-el2-4");
        assert!(
            options("run --board virt --gic 2 --cores 9")
                .machine()
                .is_err()
        );
        assert!(options("run --board pc --el2").machine().is_err());
        assert!(options("run").machine().is_err());
    }
}
