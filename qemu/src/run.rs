//! `run`: boots the image to its shell on a terminal, or through its tour without one.

use crate::exit::GuestExit;
use crate::guest::{Event, Guest};
use crate::machine::{Machine, Serial};
use crate::options::Options;
use crate::problem::{Problem, Result, stop};
use crate::process::Process;
use crate::script::{Played, Script};
use crate::symbols::Symbols;
use crate::{files, inspect};
use std::io::{IsTerminal, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// As timeout(1) says it.
const TOOK_TOO_LONG: u8 = 124;
const NO_CODE: u8 = 125;
/// Where the guest's HTTP and echo servers are found on this host.
const USUAL_PORT: u16 = 8080;
const USUAL_ECHO_PORT: u16 = 7007;
const USUAL_LIMIT: Duration = Duration::from_secs(300);

pub fn run(options: &Options) -> Result<u8> {
    let machine = options.machine()?;
    let image = machine.image(&options.images()?, "spindle");
    if !image.is_file() {
        return Err(Problem::new(format!(
            "there is no image {}; `make` builds it",
            image.display()
        )));
    }
    machine.board.check_qemu()?;
    if let Some(path) = &options.script {
        return scripted(options, &machine, &image, path);
    }
    match std::io::stdin().is_terminal() {
        true => interactive(options, &machine, &image),
        false => tour(options, &machine, &image),
    }
}

/// QEMU takes the terminal over; we only make sense of how it ended.
fn interactive(options: &Options, machine: &Machine, image: &Path) -> Result<u8> {
    let mut machine = machine.clone();
    println!("{}; Ctrl-A X quits, Ctrl-A H helps", machine.title());
    if machine.has_network() {
        let page = free_port(options.port, USUAL_PORT)?;
        let echo = free_port(None, USUAL_ECHO_PORT)?;
        machine.forwards = vec![(page, 80), (echo, 7)];
        println!("http://127.0.0.1:{page}/ shows what its scheduler does, port {echo} echoes");
    } else if options.port.is_some() {
        stop!("board {} has no network for --port", machine.board.name());
    }
    let mut command = Command::new(machine.board.arch().qemu());
    command
        .args(machine.arguments(image, &options.append, &Serial::Terminal)?)
        .args(&options.rest);
    let status = Process::start(&mut command)?.wait()?;
    let exit = GuestExit::classify(machine.board.arch(), status, None, "");
    Ok(match &exit {
        GuestExit::Code(0) | GuestExit::PoweredOff | GuestExit::Quit => 0,
        _ => tell(&exit),
    })
}

/// A port of this host that is free: the one that is asked for, or the usual one, or else any.
fn free_port(asked: Option<u16>, usual: u16) -> Result<u16> {
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    let listener = match asked {
        Some(port) => match is_free(port) {
            Some(listener) => listener,
            None => stop!("port {port} of this host is in use; --port takes another"),
        },
        None => match is_free(usual).or_else(|| is_free(0)) {
            Some(listener) => listener,
            None => stop!("no port of this host is free"),
        },
    };
    let address = listener.local_addr();
    Ok(address
        .map_err(|error| Problem::new(format!("a port: {error}")))?
        .port())
}

/// Passes on what the guest prints until it exits or the time is over.
fn tour(options: &Options, machine: &Machine, image: &Path) -> Result<u8> {
    let limit = options.limit(USUAL_LIMIT);
    let until = Instant::now() + limit;
    let mut guest = boot(options, machine, image, &format!("tour {}", options.append))?;
    loop {
        match guest.next(until) {
            Event::Console(bytes) => echo(&bytes),
            Event::Gone => return Ok(tell(&guest.exit()?)),
            Event::Late => {
                let symbols = Symbols::of_image(image, machine.board);
                let backtraces = inspect::all_cores(guest.qmp(), machine.board.arch(), &symbols);
                eprintln!(
                    "\n{backtraces}spindle-qemu: the guest did not end within {} s",
                    limit.as_secs()
                );
                return Ok(TOOK_TOO_LONG);
            }
        }
    }
}

/// Plays a console script.
fn scripted(options: &Options, machine: &Machine, image: &Path, script: &Path) -> Result<u8> {
    let text = String::from_utf8_lossy(&files::read(script)?).into_owned();
    let script = Script::parse(&text).map_err(|problem| Problem::at(script, problem))?;
    let symbols = Symbols::of_image(image, machine.board);
    let guest = boot(options, machine, image, &options.append)?;
    let mut console = Vec::new();
    let played = script.play(
        guest,
        (machine.board.arch(), &symbols),
        &mut console,
        &mut echo,
    );
    if let Played::Wrong { kind, message } = played {
        eprintln!("\nspindle-qemu: {kind}: {message}");
        return Ok(1);
    }
    println!();
    Ok(0)
}

fn boot(options: &Options, machine: &Machine, image: &Path, words: &str) -> Result<Guest> {
    let mut arguments = machine.arguments(image, words, &Serial::Pipe)?;
    arguments.extend(options.rest.iter().cloned());
    Guest::start(machine.board.arch(), arguments)
}

fn echo(bytes: &[u8]) {
    let mut out = std::io::stdout();
    // With nobody reading there is still the exit status.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Says how the guest ended, unless well, and makes an exit status of it.
fn tell(exit: &GuestExit) -> u8 {
    if *exit == GuestExit::Code(0) {
        return 0;
    }
    eprintln!("\nspindle-qemu: {exit}");
    match exit {
        GuestExit::Code(code) => *code,
        _ => NO_CODE,
    }
}
