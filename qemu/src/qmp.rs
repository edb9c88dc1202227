//! QEMU's machine protocol, QMP: JSON lines over a Unix socket that we listen on and QEMU calls.
//!
//! QEMU starts with its cores stopped (`-S`) and goes on only once it has been heard here, so the
//! SHUTDOWN event of a guest that dies in its first instructions is not lost. The socket's file is
//! removed as soon as QEMU has called: nothing is left behind however we end.

use crate::problem::{Problem, Result, stop};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// How long QEMU may take to answer a command; its main loop has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// What QEMU tells of its own accord.
pub enum Notice {
    /// The guest ended, for this reason.
    Shutdown(String),
    /// QEMU hung up, which is the last notice.
    Closed,
}

/// Our end of the line.
pub struct Qmp {
    writer: Arc<OnceLock<UnixStream>>,
    replies: Receiver<Value>,
    socket: PathBuf,
    last_id: u64,
}

impl Qmp {
    /// Listens for a QEMU that is started with the arguments returned; `notify` hears what it tells.
    pub fn listen(notify: impl Fn(Notice) + Send + 'static) -> Result<(Qmp, Vec<OsString>)> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "spindle-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(name);
        let socket = folder.join("qmp");
        let problem = |error| Problem::at(&socket, error);
        fs::create_dir_all(&folder).map_err(problem)?;
        let listener = UnixListener::bind(&socket).map_err(problem)?;

        let mut chardev = OsString::from("socket,id=qmp,path=");
        // QEMU reads a doubled comma as a comma.
        chardev.push(socket.to_string_lossy().replace(',', ",,"));
        let arguments = [
            "-S".into(),
            "-chardev".into(),
            chardev,
            "-mon".into(),
            "chardev=qmp,mode=control".into(),
        ];

        let writer = Arc::new(OnceLock::new());
        let (sender, replies) = mpsc::channel();
        let (shared, path) = (Arc::clone(&writer), socket.clone());
        thread::spawn(move || {
            let caller = listener.accept();
            remove(&path);
            if let Ok((stream, _)) = caller {
                // A line that breaks off is QEMU's end, which is told just below.
                let _ = converse(stream, &shared, &sender, &notify);
            }
            notify(Notice::Closed);
        });
        Ok((
            Qmp {
                writer,
                replies,
                socket,
                last_id: 0,
            },
            arguments.to_vec(),
        ))
    }

    /// Stops waiting for a QEMU that has not called and never will.
    pub fn give_up(&self) {
        // Refused if QEMU had called after all: then there is nothing to give up.
        let _ = UnixStream::connect(&self.socket);
    }

    /// Runs a QMP command and returns what it returned.
    pub fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let Some(mut writer) = self.writer.get() else {
            stop!("QEMU has not called yet");
        };
        self.last_id += 1;
        let line = json!({"execute": command, "arguments": arguments, "id": self.last_id})
            .to_string()
            + "\n";
        writer
            .write_all(line.as_bytes())
            .map_err(|error| Problem::new(format!("QMP {command}: {error}")))?;
        loop {
            let Ok(reply) = self.replies.recv_timeout(PATIENCE) else {
                stop!("QEMU does not answer to {command}");
            };
            if reply["id"] != self.last_id {
                continue;
            }
            return match reply.get("return") {
                Some(value) => Ok(value.clone()),
                None => Err(Problem::new(format!(
                    "QMP {command}: {}",
                    reply["error"]["desc"]
                ))),
            };
        }
    }

    /// Runs a command of QEMU's human monitor as seen from one core.
    pub fn monitor(&mut self, core: u64, line: &str) -> Result<String> {
        let reply = self.execute(
            "human-monitor-command",
            json!({"command-line": line, "cpu-index": core}),
        )?;
        Ok(reply.as_str().unwrap_or_default().to_string())
    }
}

/// Shakes hands, lets the guest go, then sorts what comes into replies and notices.
fn converse(
    stream: UnixStream,
    writer: &OnceLock<UnixStream>,
    replies: &Sender<Value>,
    notify: &impl Fn(Notice),
) -> std::io::Result<()> {
    let mut say = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        if message.get("QMP").is_some() {
            say.write_all(b"{\"execute\": \"qmp_capabilities\", \"id\": \"hello\"}\n")?;
        } else if message["id"] == "hello" {
            // First, so that whoever sees the guest run can also talk to QEMU.
            let _ = writer.set(say.try_clone()?);
            say.write_all(b"{\"execute\": \"cont\", \"id\": \"go\"}\n")?;
        } else if message["event"] == "SHUTDOWN" {
            notify(Notice::Shutdown(
                message["data"]["reason"]
                    .as_str()
                    .unwrap_or_default()
                    .to_string(),
            ));
        } else if message["id"].is_u64() {
            // Nobody may be waiting for it any more.
            let _ = replies.send(message);
        }
    }
    Ok(())
}

fn remove(socket: &Path) {
    // Whoever comes first removes it; the other finds nothing.
    let _ = fs::remove_file(socket);
    if let Some(folder) = socket.parent() {
        let _ = fs::remove_dir(folder);
    }
}

impl Drop for Qmp {
    fn drop(&mut self) {
        self.give_up();
        remove(&self.socket);
    }
}
