//! The HTTP server, asked well and badly.

mod common;

use common::*;
use executor::{spawn, time::Duration};
use net::{
    Net, NetError, TcpListener, TcpStream,
    http::{self, Page, Site},
};
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    sync::Arc,
};

struct Pages;

impl Site for Pages {
    fn page(&self, path: &str) -> Option<Page> {
        (path == "/").then(|| Page {
            kind: "text/html",
            body: "<p>here</p>\n".into(),
        })
    }
}

async fn server() -> Net {
    let net = alone().await;
    let listener = TcpListener::bind(&net, 80).await.unwrap();
    spawn(async move { http::serve(&listener, &Arc::new(Pages)).await }).detach();
    net
}

async fn connect(net: &Net) -> TcpStream {
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80);
    TcpStream::connect(net, to).await.unwrap()
}

/// All that comes until the other side closes, after it was told that there is no more.
async fn rest(stream: &mut TcpStream) -> String {
    stream.finish().await.unwrap();
    let (mut all, mut room) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut room).await {
            Ok(0) | Err(NetError::Reset) => return String::from_utf8_lossy(&all).into(),
            Ok(count) => all.extend_from_slice(&room[..count]),
            Err(error) => panic!("{error}"),
        }
    }
}

async fn ask(net: &Net, request: &[u8]) -> String {
    let mut stream = connect(net).await;
    stream.write_all(request).await.unwrap();
    rest(&mut stream).await
}

#[test]
fn requests_are_answered_one_after_the_other() {
    runtime(2).block_on(in_time("http", async {
        let net = server().await;
        let two = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /none?a=b HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\n";
        let answers = ask(&net, two).await;
        let lines: Vec<_> = answers.lines().filter(|line| line.starts_with("HTTP/")).collect();
        assert_eq!(
            lines,
            ["HTTP/1.1 200 OK", "HTTP/1.1 404 Not Found", "HTTP/1.1 200 OK"]
        );
        assert_eq!(answers.matches("<p>here</p>").count(), 1, "{answers}");
        // What comes after a request to close is not answered.
        let closes = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        assert_eq!(ask(&net, closes).await.matches("HTTP/1.1").count(), 1);
        let old = ask(&net, b"GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n").await;
        assert_eq!(old.matches("HTTP/1.1 200").count(), 1);
    }));
}

#[test]
fn a_request_in_single_bytes_is_one() {
    runtime(2).block_on(in_time("single bytes", async {
        let net = server().await;
        let mut stream = connect(&net).await;
        for byte in b"POST /sum HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc" {
            stream.write_all(&[*byte]).await.unwrap();
            stream.flush().await.unwrap();
        }
        let sum = format!("\"sum\": \"{:016x}\"", http::sum(None, b"abc"));
        let answer = rest(&mut stream).await;
        assert!(answer.contains(&sum), "{answer}");
        assert!(answer.contains("\"bytes\": 3"), "{answer}");
    }));
}

#[test]
fn what_is_wrong_with_a_request_is_said() {
    runtime(2).block_on(in_time("bad requests", async {
        let net = server().await;
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(5000));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(33));
        for (request, status) in [
            ("nonsense\r\n\r\n", "400"),
            ("\0\x01\x02\r\n\r\n", "400"),
            ("GET / HTTP/9.9\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400"),
            (
                "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
                "400",
            ),
            (
                "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                "400",
            ),
            (
                "POST /sum HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "501",
            ),
            ("DELETE / HTTP/1.1\r\n\r\n", "405"),
            ("GET /bytes/x HTTP/1.1\r\n\r\n", "400"),
            ("GET /bytes/1073741825 HTTP/1.1\r\n\r\n", "400"),
            (&long, "431"),
            (&many, "431"),
        ] {
            let answer = ask(&net, request.as_bytes()).await;
            let expected = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&expected), "{request:?}: {answer}");
        }
        // A request that is never whole, and a body that is not, end the connection and nothing else.
        assert_eq!(ask(&net, b"GET / HT").await, "");
        assert_eq!(
            ask(&net, b"POST /sum HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc").await,
            ""
        );
        assert!(
            ask(&net, b"GET / HTTP/1.1\r\n\r\n")
                .await
                .starts_with("HTTP/1.1 200")
        );
    }));
}

#[test]
fn ten_mebibytes_come_as_they_should() {
    runtime(2).block_on(in_time("ten mebibytes", async {
        let net = server().await;
        const COUNT: usize = 10 << 20;
        let mut stream = connect(&net).await;
        let request = format!("GET /bytes/{COUNT} HTTP/1.1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let (mut all, mut room) = (Vec::new(), vec![0; 16384]);
        loop {
            match stream.read(&mut room).await.unwrap() {
                0 => break,
                count => all.extend_from_slice(&room[..count]),
            }
        }
        let body = all.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        assert_eq!(all.len() - body, COUNT);
        let is_right = |(at, value): (usize, &u8)| *value == http::byte(at as u64);
        assert!(all[body..].iter().enumerate().all(is_right));
    }));
}

#[test]
fn garbage_ends_its_own_connection_only() {
    runtime(2).block_on(in_time("garbage", async {
        let net = server().await;
        let mut random = Random(7);
        let mut good = connect(&net).await;
        for _ in 0..300 {
            let length = random.below(6000);
            let words: [&[u8]; 6] = [b"GET ", b" HTTP/1.1\r\n", b"\r\n\r\n", b": ", b"/", b"\0"];
            let mut garbage = Vec::new();
            while garbage.len() < length {
                match random.one_in(3) {
                    true => garbage.extend_from_slice(words[random.below(words.len())]),
                    false => garbage.push(random.next() as u8),
                }
            }
            let mut stream = connect(&net).await;
            // The server may have closed it already.
            let _ = stream.write_all(&garbage).await;
            if random.one_in(2) {
                let _ = rest(&mut stream).await;
            }
        }
        good.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let answer = rest(&mut good).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }));
}

#[test]
fn who_is_too_slow_is_not_waited_for() {
    runtime(2).block_on(in_time("a slow client", async {
        let net = server().await;
        let mut slow = connect(&net).await;
        slow.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        let mut room = [0; 16];
        // Another is served meanwhile; this one is closed without an answer.
        assert!(
            ask(&net, b"GET / HTTP/1.1\r\n\r\n")
                .await
                .starts_with("HTTP/1.1 200")
        );
        let closed = executor::time::timeout(Duration::from_secs(100), slow.read(&mut room));
        assert_eq!(closed.await, Ok(Ok(0)));
    }));
}
