//! The fake's half of QMP: one core, stopped in a function that is known by name.

use object::{Object, ObjectSymbol};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

/// Tells events to the runner.
pub struct Events(UnixStream);

impl Events {
    /// Ends the machine as the guest would.
    pub fn shutdown(&self, reason: &str) -> ! {
        let mut stream = &self.0;
        let event = json!({"event": "SHUTDOWN", "data": {"guest": true, "reason": reason}});
        let _ = writeln!(stream, "{event}");
        std::process::exit(0)
    }
}

/// Calls the runner and returns once it has let the guest go.
pub fn serve() -> Events {
    let path = std::env::args().find_map(|argument| {
        let path = argument.strip_prefix("socket,id=qmp,path=")?;
        Some(path.to_string())
    });
    let stream =
        UnixStream::connect(path.expect("a QMP socket is given")).expect("the runner listens");
    let events = Events(stream.try_clone().expect("a second handle"));
    let (go, gone) = mpsc::channel();
    std::thread::spawn(move || {
        let mut say = stream.try_clone().expect("a second handle");
        let _ = writeln!(
            say,
            "{}",
            json!({"QMP": {"version": {}, "capabilities": []}})
        );
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let command: Value = serde_json::from_str(&line).expect("the runner sends JSON");
            let reply = json!({"return": answer(&command), "id": command["id"]});
            let _ = writeln!(say, "{reply}");
            match command["execute"].as_str() {
                Some("cont") => drop(go.send(())),
                Some("quit") => Events(say).shutdown("host-qmp-quit"),
                _ => {}
            }
        }
    });
    gone.recv().expect("the runner lets the guest go");
    events
}

fn answer(command: &Value) -> Value {
    let address = hanging_address();
    match command["execute"].as_str().unwrap_or_default() {
        "query-cpus-fast" => json!([{"cpu-index": 0}]),
        "human-monitor-command" => match command["arguments"]["command-line"].as_str() {
            Some("info registers") => json!(format!(
                "CPU#0\r\nRBP=0000000000001000 RSP=0\r\nRIP={address:016x} HLT=0\r\n"
            )),
            Some("x /2gx 0x1000") => json!(format!(
                "0000000000001000: 0x0000000000002000 0x{:016x}\r\n",
                address + 1
            )),
            _ => json!("Cannot access memory at address 0x2000\r\n"),
        },
        _ => json!({}),
    }
}

/// Where the function is in our own ELF, which the tests give as the image's.
fn hanging_address() -> u64 {
    let bytes = std::fs::read(std::env::current_exe().expect("we run")).expect("we are readable");
    let file = object::File::parse(bytes.as_slice()).expect("we are an ELF");
    let symbol = file
        .symbols()
        .find(|symbol| symbol.name() == Ok("a_test_that_hangs_with_interrupts_off"));
    symbol.map_or(0, |symbol| symbol.address())
}
