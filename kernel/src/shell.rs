//! The shell on the serial line: a few commands to look at the machine.

use crate::{Machine, console, cores, mem, print, println, upcalls};
use boot::command_line::Level;
use core::sync::atomic::Ordering::Relaxed;
use hal::{clock, power};

/// Longest line.
const ROOM: usize = 120;

struct Command {
    name: &'static str,
    help: &'static str,
    takes_argument: bool,
    run: fn(&Machine, &str),
}

const COMMANDS: &[Command] = &[
    Command {
        name: "help",
        help: "this list",
        takes_argument: false,
        run: help,
    },
    Command {
        name: "cores",
        help: "each core: interrupts of its timer, from other cores and from devices; a hello",
        takes_argument: false,
        run: cores,
    },
    Command {
        name: "mem",
        help: "memory: the map, frames, the heap",
        takes_argument: false,
        run: memory,
    },
    Command {
        name: "log",
        help: "log [off|error|warn|info|debug|trace]: what is shown",
        takes_argument: true,
        run: log,
    },
    Command {
        name: "panic",
        help: "panic [text]: stop all cores and show where each was",
        takes_argument: true,
        run: panic,
    },
    Command {
        name: "reboot",
        help: "start again",
        takes_argument: false,
        run: |_, _| power::restart(),
    },
    Command {
        name: "poweroff",
        help: "switch the machine off",
        takes_argument: false,
        run: |_, _| power::exit(power::Status::Success),
    },
];

/// Reads commands and runs them, for ever.
pub fn run(machine: &Machine) -> ! {
    println!("type `help` for what there is");
    let mut buffer = [0; ROOM];
    loop {
        print!("spindle> ");
        let line = read_line(&mut buffer);
        execute(machine, line);
    }
}

/// Runs one line.
pub fn execute(machine: &Machine, line: &str) {
    let line = line.trim();
    if line.is_empty() {
        return;
    }
    let (name, argument) = line.split_once(' ').unwrap_or((line, ""));
    let argument = argument.trim();
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) if !command.takes_argument && !argument.is_empty() => {
            println!("  `{name}` takes no argument");
        }
        Some(command) => (command.run)(machine, argument),
        None => println!("`{name}` is no command: type `help` for those there are"),
    }
}

/// Reads a line, with the editing that everyone expects: backspace, Ctrl-W, Ctrl-U, Ctrl-C.
fn read_line(buffer: &mut [u8; ROOM]) -> &str {
    let mut length = 0;
    let rub_out = |length: &mut usize| {
        *length -= 1;
        print!("\x08 \x08");
    };
    loop {
        match console::read_byte() {
            b'\r' | b'\n' => {
                println!();
                return core::str::from_utf8(&buffer[..length]).unwrap_or("");
            }
            8 | 127 if length > 0 => rub_out(&mut length),
            // Ctrl-C and Ctrl-U: forget the line.
            3 | 21 => {
                while length > 0 {
                    rub_out(&mut length);
                }
            }
            // Ctrl-W: forget a word.
            23 => {
                while length > 0 && buffer[length - 1] == b' ' {
                    rub_out(&mut length);
                }
                while length > 0 && buffer[length - 1] != b' ' {
                    rub_out(&mut length);
                }
            }
            ESCAPE => skip_escape(),
            byte @ b' '..=b'~' if length < ROOM => {
                buffer[length] = byte;
                length += 1;
                print!("{}", byte as char);
            }
            // No room, or nothing to rub out: a bell.
            b' '..=b'~' | 8 | 127 => print!("\x07"),
            _ => {}
        }
    }
}

const ESCAPE: u8 = 27;

/// Takes the rest of what a cursor or function key sends.
fn skip_escape() {
    if matches!(console::read_byte(), b'[' | b'O') {
        while !matches!(console::read_byte(), b'@'..=b'~') {}
    }
}

fn help(_: &Machine, _: &str) {
    for command in COMMANDS {
        println!("  {:9} {}", command.name, command.help);
    }
}

fn cores(machine: &Machine, _: &str) {
    println!("  core  hardware  timers   kicks  devices");
    for core in hal::cores::online().iter() {
        let counts = upcalls::counts(core);
        println!(
            "  {core:4}  {:#8x}  {:6}  {:6}  {:7}",
            machine.info.cores.ids()[core],
            counts.timers.load(Relaxed),
            counts.kicks.load(Relaxed),
            counts.lines.load(Relaxed)
        );
    }
    cores::on_all(&|core| {
        let micros = clock::now() / 1000;
        println!("  hello from core {core} at {micros} us");
    });
}

fn memory(machine: &Machine, _: &str) {
    for region in machine.info.memory.regions() {
        println!(
            "  {:#012x}..{:#012x}  {:8} KiB  {:?}",
            region.start,
            region.end,
            region.len() >> 10,
            region.kind
        );
    }
    println!("{}", mem::stats());
    let overrun = console::overrun();
    if overrun > 0 {
        println!("  console: {overrun} bytes came too fast and were lost");
    }
}

fn log(_: &Machine, argument: &str) {
    match (argument, Level::parse(argument)) {
        (_, Some(level)) => {
            console::set_level(level);
            println!("  log level is {argument} now");
        }
        ("", None) => println!(
            "  log level is {}",
            log::max_level().as_str().to_ascii_lowercase()
        ),
        (_, None) => println!("  `{argument}` is no level: off, error, warn, info, debug or trace"),
    }
}

fn panic(_: &Machine, argument: &str) {
    match argument {
        "" => panic!("asked for in the shell"),
        text => panic!("{text}"),
    }
}
