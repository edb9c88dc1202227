//! The shell on the serial line: a few commands to look at the machine.
//!
//! | | |
//! |---|---|
//! | `line` | reading a line |
//! | `tasks`, `top` | the commands about the executor |

mod line;
mod tasks;
mod top;

use crate::{Machine, console, cores, mem, print, println, upcalls};
use alloc::boxed::Box;
use boot::command_line::Level;
use core::{future::Future, pin::Pin, sync::atomic::Ordering::Relaxed};
use hal::{clock, power};
use line::ROOM;

struct Command {
    name: &'static str,
    help: &'static str,
    takes_argument: bool,
    run: Run,
}

/// What a command does.
enum Run {
    Now(fn(&Machine, &str)),
    Async(for<'a> fn(&'a Machine, &'a str) -> Running<'a>),
}

/// A command that waits for something.
type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

const COMMANDS: &[Command] = &[
    Command {
        name: "help",
        help: "this list",
        takes_argument: false,
        run: Run::Now(help),
    },
    Command {
        name: "cores",
        help: "each core: interrupts of its timer, from other cores and from devices; a hello",
        takes_argument: false,
        run: Run::Async(|machine, _| Box::pin(cores(machine))),
    },
    Command {
        name: "tasks",
        help: "every task: what it does, where, since when, and what it waits for",
        takes_argument: false,
        run: Run::Now(|_, _| tasks::tasks()),
    },
    Command {
        name: "top",
        help: "the tasks that run most, every second, until a key is pressed",
        takes_argument: false,
        run: Run::Async(|_, _| Box::pin(top::top())),
    },
    Command {
        name: "stats",
        help: "what each core has done: polls, steals, kicks, sleep",
        takes_argument: false,
        run: Run::Now(|_, _| tasks::stats()),
    },
    Command {
        name: "spawn",
        help: "spawn <n>: so many tasks that yield and sleep, and where they ended; spawn <n> <seconds>: for `tasks` and `top`",
        takes_argument: true,
        run: Run::Async(|_, argument| Box::pin(tasks::spawn(argument))),
    },
    Command {
        name: "hog",
        help: "hog <seconds>: a task on each core that never awaits, for `tasks` and `top`",
        takes_argument: true,
        run: Run::Async(|_, argument| Box::pin(tasks::hog(argument))),
    },
    Command {
        name: "kill",
        help: "kill <task>: cancel it; it ends at its next await. A task is its id, or its name",
        takes_argument: true,
        run: Run::Now(|_, argument| tasks::kill(argument)),
    },
    Command {
        name: "prio",
        help: "prio <task> low|normal|high|critical: give it another priority",
        takes_argument: true,
        run: Run::Now(|_, argument| tasks::prio(argument)),
    },
    Command {
        name: "mem",
        help: "memory: the map, frames, the heap",
        takes_argument: false,
        run: Run::Now(memory),
    },
    Command {
        name: "log",
        help: "log [off|error|warn|info|debug|trace]: what is shown",
        takes_argument: true,
        run: Run::Now(log),
    },
    Command {
        name: "panic",
        help: "panic <task>: make it fail where it is; panic [text]: stop all cores and show where each was",
        takes_argument: true,
        run: Run::Now(panic),
    },
    Command {
        name: "reboot",
        help: "start again",
        takes_argument: false,
        run: Run::Now(|_, _| power::restart()),
    },
    Command {
        name: "poweroff",
        help: "switch the machine off",
        takes_argument: false,
        run: Run::Now(|_, _| power::exit(power::Status::Success)),
    },
];

/// Reads commands and runs them, for ever.
pub async fn run(machine: &Machine) -> ! {
    println!("type `help` for what there is");
    let mut buffer = [0; ROOM];
    loop {
        print!("spindle> ");
        let line = line::read(&mut buffer).await;
        execute(machine, line).await;
    }
}

/// Runs one line.
pub async fn execute(machine: &Machine, line: &str) {
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
        Some(command) => match command.run {
            Run::Now(run) => run(machine, argument),
            Run::Async(run) => run(machine, argument).await,
        },
        None if matches!(name, "exit" | "quit" | "halt" | "shutdown") => {
            println!("`{name}` is no command: `poweroff` switches the machine off");
        }
        None => println!("`{name}` is no command: type `help` for those there are"),
    }
}

fn help(_: &Machine, _: &str) {
    for command in COMMANDS {
        println!("  {:9} {}", command.name, command.help);
    }
}

async fn cores(machine: &Machine) {
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
    let hello = |_| async {
        let micros = clock::now() / 1000;
        println!(
            "  hello from core {} at {micros} us",
            hal::cores::this_core()
        );
    };
    cores::on_each("hello", hello).await;
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
        text if tasks::fail(text) => {}
        text => panic!("{text}"),
    }
}
