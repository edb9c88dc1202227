//! `gdb`: the image under the debugger, stopped at `kernel_main`.

use crate::board::Arch;
use crate::files;
use crate::machine::{Machine, Serial};
use crate::options::Options;
use crate::problem::{Problem, Result, stop};
use crate::process::{Process, pump};
use crate::symbols;
use std::fs::File;
use std::io::IsTerminal;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What runs once every core is up: where a session without a terminal stops to look around.
const ALL_UP: [&str; 2] = ["kernel::shell::run", "kernel::tour::run"];
/// For a session without a terminal.
const BATCH_LIMIT: Duration = Duration::from_secs(180);

pub fn gdb(options: &Options) -> Result<u8> {
    let machine = options.machine()?;
    let image = machine.image(&options.images()?, "spindle");
    machine.board.check_qemu()?;
    if !std::io::stdin().is_terminal() {
        print!("{}", batch(&machine, &image, &options.append)?);
        return Ok(0);
    }
    let session = Session::start(&machine, &image, &options.append)?;
    let mut command = session.debugger(machine.board.arch())?;
    // Take gdb's place rather than wait for it: Ctrl-C is then gdb's alone. QEMU, in a process group
    // of its own, ends when gdb says so, or with this process.
    std::mem::forget(session.qemu);
    let error = command.exec();
    Err(Problem::new(format!(
        "cannot start {}: {error}",
        command.get_program().display()
    )))
}

/// Runs until all cores are up and returns what gdb printed of them.
pub fn batch(machine: &Machine, image: &Path, words: &str) -> Result<String> {
    let mut session = Session::start(machine, image, words)?;
    let bytes = files::read(&session.elf)?;
    let functions = symbols::functions(&symbols::parse(&bytes)?)?;
    let places = functions
        .iter()
        .filter(|function| ALL_UP.contains(&function.name.as_str()));
    let places: Vec<u64> = places.map(|function| function.start).collect();
    if places.is_empty() {
        stop!("{} has none of {}", image.display(), ALL_UP.join(", "));
    }
    session.commands += "backtrace\n";
    for place in places {
        session.commands += &format!("tbreak *{place:#x}\n");
    }
    session.commands += "continue\ncores\nquit\n";
    let mut command = session.debugger(machine.board.arch())?;
    command
        .arg("-batch")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = Process::start(&mut command)?;
    let (sender, pieces) = mpsc::channel();
    let child = process.child();
    let mut open = 0;
    if let Some(out) = child.stdout.take() {
        pump(out, sender.clone(), |piece| piece);
        open += 1;
    }
    if let Some(errors) = child.stderr.take() {
        pump(errors, sender, |piece| piece);
        open += 1;
    }
    let until = Instant::now() + BATCH_LIMIT;
    let mut said = Vec::new();
    while open > 0 {
        match pieces.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Some(piece)) => said.extend(piece),
            Ok(None) => open -= 1,
            Err(_) => stop!(
                "gdb did not end within {} s; it said: {}",
                BATCH_LIMIT.as_secs(),
                String::from_utf8_lossy(&said)
            ),
        }
    }
    process.wait()?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// A QEMU that waits for a debugger.
struct Session {
    qemu: Process,
    elf: PathBuf,
    /// What gdb is told at first.
    commands: String,
    file: PathBuf,
}

impl Session {
    fn start(machine: &Machine, image: &Path, words: &str) -> Result<Session> {
        let elf = files::with_suffix(image, ".elf");
        if !image.is_file() || !elf.is_file() {
            stop!(
                "there is no image {} with its ELF beside it; `make` builds both",
                image.display()
            );
        }
        let name = machine.board.name();
        let console = PathBuf::from(format!("target/qemu/gdb-{name}-console.log"));
        files::write(&console, b"")?;
        let port = free_port()?;
        let mut command = Command::new(machine.board.arch().qemu());
        command.args(machine.arguments(image, words, &Serial::File(&console))?);
        command
            .arg("-S")
            .arg("-gdb")
            .arg(format!("tcp:127.0.0.1:{port}"));
        // The terminal is gdb's: what QEMU has to say goes to a file.
        let log = PathBuf::from(format!("target/qemu/gdb-{name}-qemu.log"));
        let log = File::create(&log).map_err(|error| Problem::at(&log, error))?;
        command.stdin(Stdio::null()).stderr(log).process_group(0);
        let qemu = Process::start(&mut command)?;
        let commands = format!(
            "\
set pagination off
set confirm off
set backtrace limit 40
set tcp connect-timeout 60
target remote 127.0.0.1:{port}

define cores
  thread apply all backtrace
end
document cores
What every core is doing.
end

define con
  shell tail -n 40 {}
end
document con
The last lines of the guest's serial console.
end

# Leaving gdb ends the guest.
define hook-quit
  if $_thread != 0
    kill
  end
end

break kernel_main
continue
echo \\n`cores` shows what every core is doing, `con` what the guest has printed; `continue` goes on.\\n
",
            console.display()
        );
        let file = PathBuf::from(format!("target/qemu/gdb-{name}.commands"));
        Ok(Session {
            qemu,
            elf,
            commands,
            file,
        })
    }

    /// The debugger's command line.
    fn debugger(&self, arch: Arch) -> Result<Command> {
        files::write(&self.file, self.commands.as_bytes())?;
        let Some(program) = debugger(arch) else {
            stop!(
                "there is no debugger for {}: install gdb-multiarch",
                arch.name()
            );
        };
        let mut command = Command::new(program);
        command
            .arg("-q")
            .arg("-nx")
            .arg("-x")
            .arg(&self.file)
            .arg(&self.elf);
        Ok(command)
    }
}

/// The name of a gdb that knows `arch`.
pub fn debugger(arch: Arch) -> Option<&'static str> {
    let names: &[&str] = match arch {
        Arch::X86_64 if cfg!(target_arch = "x86_64") => &["gdb", "gdb-multiarch"],
        Arch::Aarch64 if cfg!(target_arch = "aarch64") => &["gdb", "gdb-multiarch"],
        Arch::X86_64 => &["gdb-multiarch", "x86_64-elf-gdb"],
        Arch::Aarch64 => &["gdb-multiarch", "aarch64-elf-gdb", "aarch64-linux-gnu-gdb"],
    };
    let runs = |name: &&&str| {
        let mut command = Command::new(name);
        command
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    names.iter().find(runs).copied()
}

/// A port that nobody uses at the moment.
fn free_port() -> Result<u16> {
    let bound =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound
        .map(|address| address.port())
        .map_err(|error| Problem::new(format!("no free TCP port: {error}")))
}
