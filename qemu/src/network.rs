//! The guest's network, used from this host as anybody would: curl, a hundred clients at once, slow ones, half-closed ones, garbage. One boot; all the
//! while one connection goes on echoing, and must not notice.

use crate::guest::{Event, Guest};
use crate::machine::Machine;
use crate::problem::{Problem, Result, stop};
use crate::report::Report;
use crate::scripted;
use crate::verdict::{Kind, TestResult, Watcher};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The guest's servers.
const ECHO: u16 = 7;
const HTTP: u16 = 80;
/// What is sent to and fro, checked.
const BODY: usize = 10 << 20;
const CLIENTS: usize = 100;
/// With `--long`, so many are open at once.
const MANY_CLIENTS: usize = 1000;
/// Generous: a starved host takes a while.
const LIMIT: Duration = Duration::from_secs(120);

/// Where this host finds the guest's servers.
#[derive(Clone, Copy)]
struct Ports {
    echo: u16,
    http: u16,
}

type Test = fn(Ports) -> Result<()>;

const TESTS: [(&str, Test); 7] = [
    ("curl_is_shown_the_scheduler", page_and_figures),
    ("ten_mebibytes_come_and_go_unchanged", big_bodies),
    ("a_hundred_clients_are_echoed_at_once", hundred_clients),
    ("a_half_closed_connection_gets_the_rest", half_closed),
    ("slow_clients_keep_nobody_waiting", slow_clients),
    ("garbage_is_refused_and_forgotten", garbage),
    (
        "connections_that_break_off_leave_nothing_behind",
        broken_off,
    ),
];
const LONG_TESTS: [(&str, Test); 1] = [("a_thousand_clients_are_open_at_once", thousand_clients)];

pub fn run(machine: &Machine, images: &Path, (filter, long): (&str, bool), report: &mut Report) {
    let long_tests = if long { &LONG_TESTS[..] } else { &[] };
    let tests = TESTS.iter().chain(long_tests);
    let tests: Vec<_> = tests.filter(|(name, _)| name.contains(filter)).collect();
    if tests.is_empty() || !machine.has_network() {
        return;
    }
    report.suite(
        format!("network-{}", machine.board.name()),
        &format!("the network, {}", machine.title()),
    );
    let machine = Machine {
        forwards: vec![(0, ECHO), (0, HTTP)],
        ..machine.clone()
    };
    let name = "the_guest_has_an_address";
    report.began(name);
    let began = Instant::now();
    let script = "fail *** machine panic\nexpect eth0 has address 10.0.2.15/24\n";
    let image = machine.image(images, "spindle");
    let (result, guest) = scripted::boot(name, &machine, &image, "", script);
    report.add(&result.after(began.elapsed()));
    let Some(mut guest) = guest else {
        return;
    };
    let ports = match ports(&mut guest) {
        Ok(ports) => ports,
        Err(problem) => {
            let message = problem.to_string();
            report.add(&TestResult::wrong(
                "forwards",
                Kind::Failed,
                message,
                String::new(),
            ));
            return;
        }
    };
    let steady = Steady::start(ports);
    for (name, test) in tests {
        report.began(name);
        let began = Instant::now();
        let result = match test(ports) {
            Ok(()) => TestResult::passed(*name, began.elapsed()),
            Err(problem) => {
                let console = drain(&mut guest);
                TestResult::wrong(*name, Kind::Failed, problem.to_string(), console)
            }
        };
        report.add(&result.after(began.elapsed()));
    }
    finish(*guest, steady, report);
}

/// The other connection went on, nothing was said that should not be, and the guest still does what it is told.
fn finish(mut guest: Guest, steady: Steady, report: &mut Report) {
    let name = "another_connection_has_not_noticed";
    let began = Instant::now();
    report.began(name);
    let rounds = steady.end();
    let mut console = drain(&mut guest);
    let until = Instant::now() + LIMIT;
    let ended = guest.send("poweroff\r").and_then(|()| {
        loop {
            match guest.next(until) {
                Event::Console(bytes) => console += &String::from_utf8_lossy(&bytes),
                Event::Gone => return Ok(()),
                Event::Late => stop!("the guest does not switch off"),
            }
        }
    });
    let verdict = rounds.and_then(|rounds| {
        ended?;
        match console.contains("panic") || console.contains("WARN") {
            true => stop!("the guest complains"),
            false if rounds < 10 => stop!("it was echoed {rounds} times only"),
            false => Ok(()),
        }
    });
    report.add(&match verdict {
        Ok(()) => TestResult::passed(name, began.elapsed()),
        Err(problem) => TestResult::wrong(name, Kind::Failed, problem.to_string(), console),
    });
}

/// What the console has said so far.
fn drain(guest: &mut Guest) -> String {
    let mut said = String::new();
    while let Event::Console(bytes) = guest.next(Instant::now() + Duration::from_millis(100)) {
        said += &String::from_utf8_lossy(&bytes);
    }
    said.replace('\r', "")
}

/// Which ports of this host QEMU has found free.
fn ports(guest: &mut Guest) -> Result<Ports> {
    let table = guest.qmp().monitor(0, "info usernet")?;
    let find = |guest: u16| {
        table.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["TCP[HOST_FORWARD]", _, _, host, _, to, ..] if to.parse() == Ok(guest) => {
                    host.parse().ok()
                }
                _ => None,
            }
        })
    };
    match (find(ECHO), find(HTTP)) {
        (Some(echo), Some(http)) => Ok(Ports { echo, http }),
        _ => stop!("QEMU forwards no ports: {table}"),
    }
}

/// A connection that echoes until it is told to end.
struct Steady {
    ends: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<usize>>,
}

impl Steady {
    fn start(ports: Ports) -> Steady {
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            let mut stream = connect(ports.echo)?;
            let mut rounds = 0;
            while !told.load(Ordering::Relaxed) || rounds < 10 {
                echo(&mut stream, &noise(rounds as u64, 1 + rounds * 37 % 900))?;
                rounds += 1;
            }
            Ok(rounds)
        });
        Steady { ends, thread }
    }

    /// How often it was echoed.
    fn end(self) -> Result<usize> {
        self.ends.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(rounds) => rounds,
            Err(_) => stop!("its thread has panicked"),
        }
    }
}

fn problem(what: &str) -> impl Fn(std::io::Error) -> Problem + '_ {
    move |error| Problem::new(format!("{what}: {error}"))
}

fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(problem("connect"))?;
    let limited = stream
        .set_read_timeout(Some(LIMIT))
        .and_then(|()| stream.set_write_timeout(Some(LIMIT)));
    limited.map_err(problem("a connection"))?;
    Ok(stream)
}

/// Sends, and insists on getting it back.
fn echo(stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
    stream.write_all(bytes).map_err(problem("write"))?;
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).map_err(problem("read"))?;
    match back == bytes {
        true => Ok(()),
        false => stop!("what came back is not what was sent"),
    }
}

/// Bytes of all values, in no order.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// What curl gets of a path.
fn curl(ports: Ports, path: &str, more: &[&str]) -> Result<Vec<u8>> {
    let url = format!("http://127.0.0.1:{}{path}", ports.http);
    let limit = LIMIT.as_secs().to_string();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--noproxy", "*"]);
    command.args(["--max-time", &limit]).args(more).arg(&url);
    let output = command.output().map_err(problem("curl"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => stop!(
            "curl {path}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ),
    }
}

fn page_and_figures(ports: Ports) -> Result<()> {
    let page = String::from_utf8_lossy(&curl(ports, "/", &[])?).into_owned();
    for word in [
        "<!DOCTYPE html>",
        "<title>Spindle</title>",
        "http server",
        "</html>",
    ] {
        if !page.contains(word) {
            stop!("the page has no `{word}`: {page}");
        }
    }
    let figures = || -> Result<Value> {
        let text = curl(ports, "/stats.json", &[])?;
        serde_json::from_slice(&text).map_err(|error| Problem::new(format!("stats.json: {error}")))
    };
    let (before, after) = (figures()?, figures()?);
    let cores = after["cores"].as_array().map_or(0, Vec::len);
    if cores != 4 || after["tasks"].as_array().is_none_or(Vec::is_empty) {
        stop!("{cores} cores, and tasks {}", after["tasks"]);
    }
    let of = |figures: &Value, name: &str| figures["total"][name].as_u64().unwrap_or(0);
    // They live: what was counted has gone on.
    if of(&after, "polls") <= of(&before, "polls")
        || after["uptime_us"].as_u64() <= before["uptime_us"].as_u64()
    {
        stop!("the figures stand still: {before}, then {after}");
    }
    match curl(ports, "/nothing", &[]) {
        Err(missing) if missing.to_string().contains("404") => Ok(()),
        other => stop!("a page that is not there: {other:?}"),
    }
}

fn big_bodies(ports: Ports) -> Result<()> {
    let body = curl(ports, &format!("/bytes/{BODY}"), &[])?;
    let wrong = (0..BODY).find(|at| body.get(*at) != Some(&((at * 31 % 251) as u8)));
    if let Some(at) = wrong.or((body.len() != BODY).then_some(BODY)) {
        stop!("{} bytes came, of which byte {at} is wrong", body.len());
    }
    let body = noise(1, BODY);
    let folder = std::env::temp_dir().join(format!("spindle-body-{}", std::process::id()));
    std::fs::write(&folder, &body).map_err(problem("a file"))?;
    let from = format!("@{}", folder.display());
    let answer = curl(ports, "/sum", &["--data-binary", &from]);
    let _ = std::fs::remove_file(&folder);
    let answer = String::from_utf8_lossy(&answer?).into_owned();
    let sum = body.iter().fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    match answer.contains(&format!("{sum:016x}")) && answer.contains(&BODY.to_string()) {
        true => Ok(()),
        false => stop!("the guest says {answer}, and the sum is {sum:016x}"),
    }
}

/// So many clients, all open before the first is echoed in earnest.
fn clients(ports: Ports, count: usize, bytes: usize) -> Result<()> {
    // One after the other: QEMU listens with room for one that it has not accepted. Each is open when the guest has answered; QEMU accepts
    // first, and asks the guest then.
    let open = |_| {
        let mut stream = connect(ports.echo)?;
        echo(&mut stream, b"hello").map(|()| stream)
    };
    let streams: Vec<_> = (0..count).map(open).collect::<Result<_>>()?;
    let client = |(number, mut stream): (usize, TcpStream)| {
        let work = move || -> Result<()> {
            for (round, piece) in noise(number as u64, bytes).chunks(1000).enumerate() {
                let at = |problem| Problem::new(format!("client {number}, {round}: {problem}"));
                echo(&mut stream, piece).map_err(at)?;
            }
            Ok(())
        };
        let builder = thread::Builder::new().stack_size(256 << 10);
        builder.spawn(work).map_err(problem("a thread"))
    };
    let streams = streams.into_iter().enumerate();
    let threads: Vec<_> = streams.map(client).collect::<Result<_>>()?;
    let mut wrong = Vec::new();
    for thread in threads {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => wrong.push(problem.to_string()),
            Err(_) => wrong.push("a client panicked".into()),
        }
    }
    match wrong.first() {
        None => Ok(()),
        Some(first) => stop!(
            "{} of {count} clients failed, the first: {first}",
            wrong.len()
        ),
    }
}

fn hundred_clients(ports: Ports) -> Result<()> {
    clients(ports, CLIENTS, 20_000)
}

fn thousand_clients(ports: Ports) -> Result<()> {
    clients(ports, MANY_CLIENTS, 2_000)
}

fn half_closed(ports: Ports) -> Result<()> {
    for round in 0..10 {
        let mut stream = connect(ports.echo)?;
        let bytes = noise(round, 3000);
        stream.write_all(&bytes).map_err(problem("write"))?;
        stream
            .shutdown(Shutdown::Write)
            .map_err(problem("shutdown"))?;
        let mut back = Vec::new();
        stream.read_to_end(&mut back).map_err(problem("read"))?;
        if back != bytes {
            stop!("{} of {} bytes came back", back.len(), bytes.len());
        }
    }
    Ok(())
}

fn slow_clients(ports: Ports) -> Result<()> {
    // Twenty that begin a request and never end it, ...
    let slow: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = connect(ports.http)?;
            stream.write_all(b"GET / HT").map_err(problem("write"))?;
            Ok(stream)
        })
        .collect::<Result<_>>()?;
    // ... ten that ask for much and read nothing, ...
    let deaf: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = connect(ports.http)?;
            let request = b"GET /bytes/100000000 HTTP/1.1\r\n\r\n";
            stream.write_all(request).map_err(problem("write"))?;
            Ok(stream)
        })
        .collect::<Result<_>>()?;
    // ... and others are served meanwhile.
    for _ in 0..10 {
        page_and_figures(ports)?;
    }
    drop(deaf);
    // Who has sent a part only is not answered, but closed; and so waits no longer than the server's patience.
    for mut stream in slow {
        let mut answer = Vec::new();
        stream
            .read_to_end(&mut answer)
            .map_err(problem("a slow client"))?;
        if !answer.is_empty() {
            stop!(
                "half a request is answered: {}",
                String::from_utf8_lossy(&answer)
            );
        }
    }
    Ok(())
}

fn garbage(ports: Ports) -> Result<()> {
    for round in 0..50 {
        let mut stream = connect(ports.http)?;
        let mut bytes = noise(round, 1 + round as usize * 97 % 6000);
        if round % 2 == 0 {
            bytes.extend(b"\r\n\r\n");
        }
        // It may be refused before all of it was written, or read.
        let _ = stream
            .write_all(&bytes)
            .and_then(|()| stream.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        if !answer.is_empty() && !answer.starts_with("HTTP/1.1 4") {
            stop!("garbage is answered: {answer}");
        }
    }
    page_and_figures(ports)
}

fn broken_off(ports: Ports) -> Result<()> {
    for round in 0..100 {
        let mut stream = connect(ports.echo)?;
        let bytes = noise(round, 2000);
        stream.write_all(&bytes).map_err(problem("write"))?;
        // Closed with bytes that nobody reads: the guest is told by a reset.
        let mut part = [0; 100];
        stream.read_exact(&mut part).map_err(problem("read"))?;
    }
    // The guest has closed its ends, too; but for those that are there for late segments.
    let until = Instant::now() + LIMIT;
    loop {
        let text = curl(ports, "/stats.json", &[])?;
        let figures: Value = serde_json::from_slice(&text)
            .map_err(|error| Problem::new(format!("stats.json: {error}")))?;
        let tasks = figures["tasks"].as_array().cloned().unwrap_or_default();
        let echoes = tasks.iter().filter(|task| task["name"] == "echo").count();
        // One is that which goes on all the while.
        if echoes <= 1 {
            return Ok(());
        }
        if Instant::now() > until {
            stop!("{echoes} tasks still echo");
        }
        thread::sleep(Duration::from_millis(200));
    }
}
