//! A [`Guest`] is a QEMU that is running an image: its console, its end, and QMP to look inside.
//! Nothing here polls: every stream has a thread that blocks on it and sends to one channel.

use crate::board::Arch;
use crate::exit::GuestExit;
use crate::machine::{Machine, Serial};
use crate::problem::Result;
use crate::process::{Process, pump};
use crate::qmp::{Notice, Qmp};
use serde_json::json;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long QEMU may take to vanish after it was told to quit.
const FAREWELL: Duration = Duration::from_secs(10);
/// More than this of QEMU's own messages helps nobody.
const MOST_SAID: usize = 64 << 10;

/// What happened next.
pub enum Event {
    /// The console said this.
    Console(Vec<u8>),
    /// QEMU has ended and all it said was read.
    Gone,
    /// Nothing, until the time given.
    Late,
}

enum Message {
    Console(Vec<u8>),
    Stderr(Vec<u8>),
    Shutdown(String),
    Closed,
    HungUp,
}

/// A running QEMU. Dropping it kills it.
pub struct Guest {
    process: Process,
    stdin: Option<ChildStdin>,
    messages: Receiver<Message>,
    qmp: Qmp,
    arch: Arch,
    /// Streams that have not ended: console, stderr.
    open: u32,
    qmp_open: bool,
    reason: Option<String>,
    said: Vec<u8>,
}

impl Guest {
    /// Boots `image` with `words` on its command line.
    pub fn boot(machine: &Machine, image: &Path, words: &str) -> Result<Guest> {
        if !image.is_file() {
            crate::problem::stop!("there is no image {}; `make` builds it", image.display());
        }
        let arguments = machine.arguments(image, words, &Serial::Pipe)?;
        Guest::start(machine.board.arch(), arguments)
    }

    /// Starts QEMU with `arguments`, which give the guest's serial line QEMU's stdio.
    pub fn start(arch: Arch, arguments: Vec<OsString>) -> Result<Guest> {
        let (sender, messages) = mpsc::channel();
        let to = sender.clone();
        let (qmp, qmp_arguments) = Qmp::listen(move |notice| {
            // Nobody listening means that the guest was dropped.
            let _ = to.send(match notice {
                Notice::Shutdown(reason) => Message::Shutdown(reason),
                Notice::Closed => Message::HungUp,
            });
        })?;
        let mut command = Command::new(arch.qemu());
        command.args(arguments).args(qmp_arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = Process::start(&mut command)?;
        let child = process.child();
        let stdin = child.stdin.take();
        let mut open = 0;
        if let Some(console) = child.stdout.take() {
            pump(console, sender.clone(), |piece| {
                piece.map_or(Message::Closed, Message::Console)
            });
            open += 1;
        }
        if let Some(errors) = child.stderr.take() {
            pump(errors, sender, |piece| {
                piece.map_or(Message::Closed, Message::Stderr)
            });
            open += 1;
        }
        Ok(Guest {
            process,
            stdin,
            messages,
            qmp,
            arch,
            open,
            qmp_open: true,
            reason: None,
            said: Vec::new(),
        })
    }

    /// Waits for what happens next, at most until `until`.
    pub fn next(&mut self, until: Instant) -> Event {
        loop {
            if self.open == 0 {
                if !self.qmp_open {
                    return Event::Gone;
                }
                // It may have ended before it called us.
                self.qmp.give_up();
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(Message::Console(bytes)) => return Event::Console(bytes),
                Ok(Message::Stderr(bytes)) if self.said.len() < MOST_SAID => {
                    self.said.extend(bytes)
                }
                Ok(Message::Stderr(_)) => {}
                Ok(Message::Shutdown(reason)) => self.reason = Some(reason),
                Ok(Message::Closed) => self.open -= 1,
                Ok(Message::HungUp) => self.qmp_open = false,
                Err(RecvTimeoutError::Timeout) => return Event::Late,
                Err(RecvTimeoutError::Disconnected) => return Event::Gone,
            }
        }
    }

    /// How it ended; call it after [`Event::Gone`].
    pub fn exit(mut self) -> Result<GuestExit> {
        let status = self.process.wait()?;
        let said = String::from_utf8_lossy(&self.said);
        Ok(GuestExit::classify(
            self.arch,
            status,
            self.reason.as_deref(),
            &said,
        ))
    }

    /// Types `text` on the console.
    pub fn send(&mut self, text: &str) -> Result<()> {
        if let Some(stdin) = &mut self.stdin {
            let sent = stdin
                .write_all(text.as_bytes())
                .and_then(|()| stdin.flush());
            sent.map_err(|error| {
                crate::problem::Problem::new(format!("the console takes no input: {error}"))
            })?;
        }
        Ok(())
    }

    /// The console's input, for who sends much: on a thread of its own, as it waits until the guest takes it.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Tells QEMU to quit, and sees to it. Returns what the console still said.
    pub fn quit(mut self) -> Vec<u8> {
        let asked = self.qmp.execute("quit", json!({})).is_ok();
        let until = Instant::now() + if asked { FAREWELL } else { Duration::ZERO };
        let mut rest = Vec::new();
        loop {
            match self.next(until) {
                Event::Console(bytes) => rest.extend(bytes),
                Event::Gone | Event::Late => return rest,
            }
        }
    }

    pub fn qmp(&mut self) -> &mut Qmp {
        &mut self.qmp
    }

    /// QEMU's process number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}
