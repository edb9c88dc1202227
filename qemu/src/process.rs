//! A child process that does not outlive us: killed when its guard is dropped and, on Linux,
//! by the kernel when we die without dropping anything. On Ctrl-C the terminal signals the whole
//! process group, which our children stay in.

use crate::problem::{Problem, Result};
use std::io::Read;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::Sender;
use std::thread;

/// A running child.
pub struct Process(Child);

impl Process {
    /// Starts `command`. Call this from the main thread: the kernel's promise to kill the child
    /// is kept when the *thread* that started it ends.
    pub fn start(command: &mut Command) -> Result<Process> {
        die_with_parent(command);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .spawn()
            .map_err(|error| Problem::new(format!("cannot start {program}: {error}")))?;
        Ok(Process(child))
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.0
            .wait()
            .map_err(|error| Problem::new(format!("waiting for a child: {error}")))
    }

    /// Ends it now.
    pub fn kill(&mut self) {
        // Both fail only if it has ended and been waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(target_os = "linux")]
fn die_with_parent(command: &mut Command) {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt;
    let parent = std::process::id() as i32;
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Had the parent died before the call above, nobody would ever send the signal.
        match getppid() {
            Some(pid) if pid.as_raw_pid() == parent => Ok(()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe)),
        }
    };
    // SAFETY: `ask` runs in the child between fork and exec, where only async-signal-safe calls
    // are sound: it makes two system calls, allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut Command) {}

/// Sends what `source` says, piece by piece, until it ends; then one `None`.
/// `wrap` makes the message; sending stops when nobody listens any more.
pub fn pump<T: Send + 'static>(
    mut source: impl Read + Send + 'static,
    to: Sender<T>,
    wrap: impl Fn(Option<Vec<u8>>) -> T + Send + 'static,
) {
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        loop {
            match source.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(length) => {
                    if to.send(wrap(Some(buffer[..length].to_vec()))).is_err() {
                        return;
                    }
                }
            }
        }
        // Nobody listening means that nobody needs to know.
        let _ = to.send(wrap(None));
    });
}
