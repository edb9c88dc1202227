//! The shell on the serial line: a few commands to look at the machine.
//!
//! A command that waits is a task of its own, with the command's name; Ctrl-C cancels it. What is typed meanwhile is for the next line.
//!
//! | | |
//! |---|---|
//! | `line` | editing a line |
//! | `terminal` | keys, and what is typed ahead |
//! | `tasks`, `top` | the commands about the executor |
//! | `measure` | `trace` and `bench` |
//! | `devices` | those about devices and their lines |
//! | `network` | those about the network |
//! | `files` | those about files |

mod devices;
mod files;
mod line;
mod measure;
mod network;
mod tasks;
mod terminal;
#[cfg(feature = "kernel-test")]
mod tests;
mod top;

use crate::{
    Machine, console, cores, mem,
    network::{ECHO, HTTP},
    println, upcalls,
};
use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use boot::command_line::Level;
use core::{future::Future, pin::Pin, sync::atomic::Ordering::Relaxed};
use executor::{Priority, select, stats, task::Builder};
use hal::{clock, power};
use line::Key;
use terminal::Terminal;

struct Command {
    name: &'static str,
    help: &'static str,
    takes_argument: bool,
    run: Run,
}

/// What a command does.
enum Run {
    /// Something short.
    Now(fn(&Machine, &str)),
    /// In a task of its own, which Ctrl-C ends,
    Task(fn(&'static Machine, String) -> Running),
    /// or any key.
    UntilKey(fn(&'static Machine, String) -> Running),
    /// With the keys for itself.
    Raw(for<'a> fn(&'a mut Terminal, &'a str) -> Typing<'a>),
}

/// A command that reads what is typed.
type Typing<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;
/// A command that waits for something.
type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

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
        run: Run::Task(|machine, _| Box::pin(cores(machine))),
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
        run: Run::UntilKey(|_, _| Box::pin(top::top())),
    },
    Command {
        name: "stats",
        help: "what each core has done: polls, steals, kicks, sleep",
        takes_argument: false,
        run: Run::Now(|_, _| tasks::stats()),
    },
    Command {
        name: "trace",
        help: "trace [<milliseconds>]: what happens on each core meanwhile, and the last of it",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { measure::trace(&argument).await })),
    },
    Command {
        name: "bench",
        help: "bench [<rounds>]: how long a yield, a spawn, a lock, a message take here and now",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { measure::bench(&argument).await })),
    },
    Command {
        name: "spawn",
        help: "spawn <n>: so many tasks that yield and sleep, and where they ended; spawn <n> <seconds>: for `tasks` and `top`",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { tasks::spawn(&argument).await })),
    },
    Command {
        name: "hog",
        help: "hog <seconds>: a task on each core that never awaits, for `tasks` and `top`",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { tasks::hog(&argument).await })),
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
        name: "sleep",
        help: "sleep <seconds>: for Ctrl-C to end",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { tasks::sleep_for(&argument).await })),
    },
    Command {
        name: "devices",
        help: "devices: what was found, who drives it, and where its interrupts go; devices stop|start <name>",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { devices::devices(&argument).await })),
    },
    Command {
        name: "loopback",
        help: "loopback <bytes>: sends back so many bytes as they come, and says their sum",
        takes_argument: true,
        run: Run::Raw(|terminal, argument| Box::pin(devices::loopback(terminal, argument))),
    },
    Command {
        name: "net",
        help: "the network: interfaces, their addresses and frames, connections, servers",
        takes_argument: false,
        run: Run::Task(|_, _| Box::pin(network::show())),
    },
    Command {
        name: "ping",
        help: "ping <name or address> [<how often>]: whether somebody is there",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { network::ping(&argument).await })),
    },
    Command {
        name: "echo",
        help: "the server that sends back what it gets: echo; echo <port>; echo start|stop",
        takes_argument: true,
        run: Run::Task(|_, argument| {
            Box::pin(async move { network::server(&ECHO, &argument).await })
        }),
    },
    Command {
        name: "http",
        help: "the server that shows what the scheduler does: http; http <port>; http start|stop",
        takes_argument: true,
        run: Run::Task(|_, argument| {
            Box::pin(async move { network::server(&HTTP, &argument).await })
        }),
    },
    Command {
        name: "ls",
        help: "ls [path]: what is in a directory of the disk",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { files::ls(&argument).await })),
    },
    Command {
        name: "cat",
        help: "cat <path>: shows a file",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { files::cat(&argument).await })),
    },
    Command {
        name: "write",
        help: "write <path> <text>: makes a file of this line, instead of the one that was there; a path with blanks goes in \"\"",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { files::write(&argument).await })),
    },
    Command {
        name: "fill",
        help: "fill <first> <count>: makes so many files, and says of each when it would outlast a loss of power",
        takes_argument: true,
        run: Run::Task(|_, argument| Box::pin(async move { files::fill(&argument).await })),
    },
    Command {
        name: "mem",
        help: "memory: the map, frames, the heap",
        takes_argument: false,
        run: Run::Now(|machine, _| memory(machine)),
    },
    Command {
        name: "log",
        help: "log [off|error|warn|info|debug|trace]: what is shown",
        takes_argument: true,
        run: Run::Now(log),
    },
    Command {
        name: "panic",
        help: "panic <task>: make it fail where it is; panic: stop all cores and show where each was",
        takes_argument: true,
        run: Run::Now(panic),
    },
    Command {
        name: "reboot",
        help: "start again",
        takes_argument: false,
        run: Run::Task(|_, _| {
            Box::pin(async {
                crate::files::end().await;
                console::flush();
                power::restart()
            })
        }),
    },
    Command {
        name: "poweroff",
        help: "switch the machine off",
        takes_argument: false,
        run: Run::Task(|_, _| {
            Box::pin(async {
                crate::files::end().await;
                console::flush();
                power::exit(power::Status::Success)
            })
        }),
    },
];

const PROMPT: &str = "spindle> ";

/// Reads commands and runs them, for ever.
pub async fn run(machine: &'static Machine) -> ! {
    println!("type `help` for what there is");
    let mut terminal = Terminal::open().await;
    loop {
        let line = terminal.line(PROMPT, candidates).await;
        execute(machine, &line, &mut terminal).await;
    }
}

/// Runs one line.
async fn execute(machine: &'static Machine, line: &str, terminal: &mut Terminal) {
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
            Run::Raw(run) => run(terminal, argument).await,
            Run::Task(run) => {
                let task = run(machine, argument.into());
                attend(command.name, task, terminal, |key| key == Key::Interrupt).await;
            }
            Run::UntilKey(run) => {
                let task = run(machine, argument.into());
                attend(command.name, task, terminal, |_| true).await;
            }
        },
        None if matches!(name, "exit" | "quit" | "halt" | "shutdown") => {
            println!("`{name}` is no command: `poweroff` switches the machine off");
        }
        None => println!("`{name}` is no command: type `help` for those there are"),
    }
}

/// Waits for a command's task, or for a key that ends it.
async fn attend(
    name: &'static str,
    future: Running,
    terminal: &mut Terminal,
    ends: impl Fn(Key) -> bool,
) {
    let mut task = Builder::new().name(name).spawn(future);
    let is_ended = select! {
        result = &mut task => {
            if let Err(error) = result {
                println!("  {name}: {error}");
            }
            true
        },
        () = terminal.wait_for(ends) => false,
    };
    if !is_ended {
        task.cancel();
        // It ends at its next await, and is waited for: what it prints is not to mix with what comes next.
        let _ = task.await;
        println!();
    }
}

/// What the last word of this line may become.
fn candidates(line: &str) -> Vec<String> {
    let Some((command, rest)) = line.split_once(' ') else {
        let names = COMMANDS.iter().map(|command| command.name);
        let own = names.filter(|name| name.starts_with(line));
        return own.map(ToString::to_string).collect();
    };
    let rest = rest.trim_start();
    let (is_second, word) = match rest.split_once(' ') {
        Some((_, word)) => (true, word),
        None => (false, rest),
    };
    let mut words: Vec<String> = match (command, is_second) {
        ("kill" | "prio" | "panic", false) => {
            let tasks = stats::tasks();
            let names = tasks.into_iter().filter_map(|task| task.name);
            names.map(|name| name.to_string()).collect()
        }
        ("prio", true) => {
            let levels = Priority::ALL.iter();
            let name = |level: &Priority| alloc::format!("{level:?}").to_ascii_lowercase();
            levels.map(name).collect()
        }
        ("log", false) => ["off", "error", "warn", "info", "debug", "trace"]
            .map(String::from)
            .into(),
        ("devices" | "echo" | "http", false) => ["start", "stop"].map(String::from).into(),
        _ => Vec::new(),
    };
    words.retain(|candidate| candidate.is_ascii() && candidate.starts_with(word));
    words.sort();
    words.dedup();
    words
}

fn help(_: &Machine, _: &str) {
    for command in COMMANDS {
        println!("  {:9} {}", command.name, command.help);
    }
}

/// Shows what each core has seen, and lets each say hello.
pub async fn cores(machine: &'static Machine) {
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

/// Shows the memory: the map, frames, the heap.
pub fn memory(machine: &Machine) {
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
        which => tasks::fail(which),
    }
}
