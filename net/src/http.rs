//! A small HTTP/1.1 server: pages that a [`Site`] makes anew for each request, and two ways to try a connection with many bytes.
//!
//! | | |
//! |---|---|
//! | `GET /bytes/<n>` | so many bytes, each as [`byte`] says |
//! | `POST /sum` | how many bytes the body has, and their [`sum`] |
//! | `GET` anything else | a page of the site |
//!
//! What comes is not trusted: a head has at most 4 KiB and 32 fields, and 10 seconds to come whole; a body is read piece by piece, and each piece has
//! as long.

use crate::{NetError, TcpListener};
use alloc::{format, string::String, sync::Arc, vec, vec::Vec};
use core::fmt::Write as _;
use embedded_io_async::{Error as _, ErrorKind, Read, Write};
use executor::{
    sync::Semaphore,
    task::Builder,
    time::{Duration, timeout},
};

/// What a site shows.
pub struct Page {
    /// Its media type.
    pub kind: &'static str,
    /// All of it.
    pub body: String,
}

/// Pages, made when they are asked for.
pub trait Site: Send + Sync + 'static {
    /// The page at a path; none: there is no such page.
    fn page(&self, path: &str) -> Option<Page>;
}

const LONGEST_HEAD: usize = 4096;
const MOST_FIELDS: usize = 32;
/// What is read or written at a time.
const PIECE: usize = 4096;
/// A head, and each piece of a body, comes within this.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many connections are served at once; others wait.
const MOST: usize = 1024;
/// The most that `/bytes/` sends.
const MOST_BYTES: u64 = 1 << 30;

/// The bytes that `/bytes/` sends.
pub fn byte(at: u64) -> u8 {
    (at * 31 % 251) as u8
}

/// What `/sum` adds up: FNV-1a with 64 bits. Begins with `None`.
pub fn sum(before: Option<u64>, bytes: &[u8]) -> u64 {
    let begin = before.unwrap_or(0xcbf2_9ce4_8422_2325);
    bytes.iter().fold(begin, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Serves a site, for ever; each connection has a task of its own.
pub async fn serve(listener: &TcpListener, site: &Arc<impl Site>) -> Result<(), NetError> {
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        let permit = room.clone().acquire_owned().await;
        let (mut stream, _) = listener.accept().await?;
        let site = site.clone();
        let task = Builder::new().name("http").try_spawn(async move {
            let _permit = permit;
            // However it ends, it concerns nobody else.
            let _ = connection(&mut stream, &*site).await;
        });
        match task {
            Ok(task) => task.detach(),
            Err(_) => log::warn!("http: there is no memory for a connection"),
        }
    }
}

/// Why a connection ends before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It failed.
    Failed(ErrorKind),
    /// The other side was too slow,
    TooSlow,
    /// or closed it in the middle of a request,
    Early,
    /// or asked for what cannot be understood.
    Bad,
}

/// Answers the requests of one connection, until the other side has no more.
pub async fn connection<S: Read + Write>(stream: &mut S, site: &dyn Site) -> Result<(), Ended> {
    let mut head = Vec::with_capacity(LONGEST_HEAD);
    loop {
        let request = match read_head(stream, &mut head).await? {
            Head::End => return Ok(()),
            Head::Bad(status) => {
                refuse(stream, status).await?;
                return Err(Ended::Bad);
            }
            Head::Whole(request) => request,
        };
        let stays = request.stays;
        if !answer(stream, site, request, &mut head).await? || !stays {
            return Ok(());
        }
    }
}

/// What of a request matters.
struct Request {
    method: Method,
    path: String,
    /// Bytes of the body.
    length: u64,
    /// There are more requests after it.
    stays: bool,
    /// It waits to hear that its body is wanted.
    asks_first: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Head,
    Post,
    Other,
}

enum Head {
    Whole(Request),
    /// The status that says what is wrong with it.
    Bad(&'static str),
    /// There is none any more.
    End,
}

/// Reads until a head is whole. What comes after it stays in `head`.
async fn read_head<S: Read>(stream: &mut S, head: &mut Vec<u8>) -> Result<Head, Ended> {
    let whole = async {
        loop {
            if !head.is_empty() {
                match parse(head) {
                    Parsed::Whole(request, length) => {
                        head.drain(..length);
                        return Ok(Head::Whole(request));
                    }
                    Parsed::Bad(status) => return Ok(Head::Bad(status)),
                    Parsed::Part if head.len() >= LONGEST_HEAD => {
                        return Ok(Head::Bad("431 Request Header Fields Too Large"));
                    }
                    Parsed::Part => {}
                }
            }
            let before = head.len();
            head.resize(LONGEST_HEAD, 0);
            let got = stream.read(&mut head[before..]).await;
            head.truncate(before + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) if head.is_empty() => return Ok(Head::End),
                Ok(0) => return Err(Ended::Early),
                Ok(_) => {}
                Err(error) => return Err(Ended::Failed(error.kind())),
            }
        }
    };
    match timeout(PATIENCE, whole).await {
        Ok(head) => head,
        Err(_) => Err(Ended::TooSlow),
    }
}

enum Parsed {
    Whole(Request, usize),
    Part,
    Bad(&'static str),
}

fn parse(head: &[u8]) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let length = match parsed.parse(head) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Parsed::Part,
        Err(httparse::Error::TooManyHeaders) => {
            return Parsed::Bad("431 Request Header Fields Too Large");
        }
        Err(_) => return Parsed::Bad("400 Bad Request"),
    };
    let mut request = Request {
        method: match parsed.method {
            Some("GET") => Method::Get,
            Some("HEAD") => Method::Head,
            Some("POST") => Method::Post,
            _ => Method::Other,
        },
        path: parsed.path.unwrap_or("/").into(),
        length: 0,
        stays: parsed.version == Some(1),
        asks_first: false,
    };
    let mut has_length = false;
    for field in parsed.headers.iter() {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        let says = |value: &str| field.value.eq_ignore_ascii_case(value.as_bytes());
        if is("content-length") {
            let value = core::str::from_utf8(field.value).ok();
            let digits = value.filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
            match digits.and_then(|value| value.parse().ok()) {
                // Two lengths: who is right is what an attacker plays with.
                Some(length) if !has_length => request.length = length,
                _ => return Parsed::Bad("400 Bad Request"),
            }
            has_length = true;
        } else if is("transfer-encoding") {
            return Parsed::Bad("501 Not Implemented");
        } else if is("connection") {
            request.stays = !says("close") && (request.stays || says("keep-alive"));
        } else if is("expect") {
            request.asks_first = says("100-continue");
        }
    }
    Parsed::Whole(request, length)
}

/// Answers one request. False: the connection cannot go on.
async fn answer<S: Read + Write>(
    stream: &mut S,
    site: &dyn Site,
    request: Request,
    ahead: &mut Vec<u8>,
) -> Result<bool, Ended> {
    let path = request.path.split('?').next().unwrap_or("/");
    if request.method == Method::Post && path == "/sum" {
        if request.asks_first {
            send(stream, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let sum = read_body(stream, request.length, ahead).await?;
        let body = format!(
            "{{\"bytes\": {}, \"sum\": \"{sum:016x}\"}}\n",
            request.length
        );
        reply(stream, "200 OK", "application/json", &body, true).await?;
        return Ok(true);
    }
    let is_get = matches!(request.method, Method::Get | Method::Head);
    // A body that nobody wants is not read: the next request would be looked for in it.
    let goes_on = request.length == 0;
    let with_body = request.method != Method::Head;
    if !is_get {
        let status = "405 Method Not Allowed";
        reply(stream, status, "text/plain", &line(status), true).await?;
        return Ok(goes_on);
    }
    if let Some(count) = path.strip_prefix("/bytes/") {
        match count.parse().ok().filter(|count| *count <= MOST_BYTES) {
            Some(count) => send_bytes(stream, count, with_body).await?,
            None => {
                let status = "400 Bad Request";
                let why = format!("/bytes/<n>: n is at most {MOST_BYTES}\n");
                reply(stream, status, "text/plain", &why, with_body).await?;
            }
        }
        return Ok(goes_on);
    }
    match site.page(path) {
        Some(page) => reply(stream, "200 OK", page.kind, &page.body, with_body).await?,
        None => {
            let status = "404 Not Found";
            reply(stream, status, "text/plain", &line(status), with_body).await?;
        }
    }
    Ok(goes_on)
}

/// Reads a body, and adds it up.
async fn read_body<S: Read>(
    stream: &mut S,
    length: u64,
    ahead: &mut Vec<u8>,
) -> Result<u64, Ended> {
    let own = (ahead.len() as u64).min(length) as usize;
    let mut total = sum(None, &ahead[..own]);
    ahead.drain(..own);
    let mut left = length - own as u64;
    let mut piece = vec![0; PIECE];
    while left > 0 {
        let most = left.min(PIECE as u64) as usize;
        let got = match timeout(PATIENCE, stream.read(&mut piece[..most])).await {
            Ok(Ok(0)) => return Err(Ended::Early),
            Ok(Ok(got)) => got,
            Ok(Err(error)) => return Err(Ended::Failed(error.kind())),
            Err(_) => return Err(Ended::TooSlow),
        };
        total = sum(Some(total), &piece[..got]);
        left -= got as u64;
    }
    Ok(total)
}

async fn send_bytes<S: Write>(stream: &mut S, count: u64, with_body: bool) -> Result<(), Ended> {
    send(
        stream,
        head("200 OK", "application/octet-stream", count).as_bytes(),
    )
    .await?;
    let (mut at, mut piece) = (0, vec![0; PIECE]);
    while with_body && at < count {
        let length = (count - at).min(PIECE as u64);
        for (offset, place) in (0..length).zip(&mut piece) {
            *place = byte(at + offset);
        }
        send(stream, &piece[..length as usize]).await?;
        at += length;
    }
    Ok(())
}

fn line(status: &str) -> String {
    format!("{status}\n")
}

fn head(status: &str, kind: &str, length: u64) -> String {
    let mut head = String::new();
    let _ = write!(
        head,
        "HTTP/1.1 {status}\r\nServer: spindle\r\nContent-Type: {kind}\r\n\
         Content-Length: {length}\r\nCache-Control: no-store\r\n\r\n"
    );
    head
}

async fn reply<S: Write>(
    stream: &mut S,
    status: &str,
    kind: &str,
    body: &str,
    with_body: bool,
) -> Result<(), Ended> {
    let mut all = head(status, kind, body.len() as u64);
    if with_body {
        all.push_str(body);
    }
    send(stream, all.as_bytes()).await
}

/// Says what is wrong with a request that could not be understood.
async fn refuse<S: Write>(stream: &mut S, status: &str) -> Result<(), Ended> {
    let body = line(status);
    let all = format!(
        "HTTP/1.1 {status}\r\nServer: spindle\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    send(stream, all.as_bytes()).await
}

/// Sends all of it; who does not take it ends.
async fn send<S: Write>(stream: &mut S, mut bytes: &[u8]) -> Result<(), Ended> {
    while !bytes.is_empty() {
        match timeout(PATIENCE, stream.write(bytes)).await {
            Ok(Ok(0)) => return Err(Ended::Early),
            Ok(Ok(count)) => bytes = &bytes[count..],
            Ok(Err(error)) => return Err(Ended::Failed(error.kind())),
            Err(_) => return Err(Ended::TooSlow),
        }
    }
    Ok(())
}
