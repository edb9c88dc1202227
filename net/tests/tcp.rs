//! Connections: over a link to oneself, and over a wire that loses frames.

mod common;

use common::*;
use executor::{
    join, spawn,
    time::{Duration, Instant, sleep},
};
use net::{Net, NetError, Options, TcpListener, TcpStream};
use std::net::{Ipv4Addr, SocketAddrV4};

/// Echoes every connection.
fn echo(listener: TcpListener) {
    spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            spawn(async move {
                let mut room = [0; 1500];
                while let Ok(count @ 1..) = stream.read(&mut room).await {
                    if stream.write_all(&room[..count]).await.is_err() {
                        break;
                    }
                }
            })
            .detach();
        }
    })
    .detach();
}

fn local(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

async fn read_exactly(stream: &mut TcpStream, mut into: &mut [u8]) -> Result<(), NetError> {
    while !into.is_empty() {
        match stream.read(into).await? {
            0 => return Err(NetError::Closed),
            count => into = &mut into[count..],
        }
    }
    Ok(())
}

#[test]
fn hundred_connections_are_echoed_from_tasks_on_several_cores() {
    runtime(4).block_on(in_time("a hundred echoes", async {
        let net = alone().await;
        echo(TcpListener::bind(&net, 7).await.unwrap());
        let clients: Vec<_> = (0..100)
            .map(|number: usize| {
                let net = net.clone();
                spawn(async move {
                    let mut stream = TcpStream::connect(&net, local(7)).await.unwrap();
                    assert_eq!(stream.peer(), local(7));
                    for round in 0..20 {
                        let length = 1 + (number * 7 + round * 131) % 3000;
                        let sent: Vec<u8> = (0..length).map(|at| byte(at + number)).collect();
                        stream.write_all(&sent).await.unwrap();
                        let mut got = vec![0; length];
                        read_exactly(&mut stream, &mut got).await.unwrap();
                        assert!(got == sent, "client {number}, round {round}");
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    }));
}

/// Sends `count` bytes each way at once, through both halves of a connection.
async fn both_ways(here: Net, there: Net, to: SocketAddrV4, count: usize) {
    async fn one_end(stream: TcpStream, count: usize, offset: usize) {
        let (mut reads, mut writes) = stream.split();
        let writer = spawn(async move {
            let bytes: Vec<u8> = (0..count).map(|at| byte(at + offset)).collect();
            let mut left = &bytes[..];
            while !left.is_empty() {
                let piece = left.len().min(1 + left.len() % 5000);
                left = &left[writes.write(&left[..piece]).await.unwrap()..];
            }
            writes.finish().await.unwrap();
            writes
        });
        let (mut at, mut room) = (0, vec![0; 4000]);
        loop {
            let got = reads.read(&mut room).await.unwrap();
            if got == 0 {
                break;
            }
            for &value in &room[..got] {
                assert_eq!(value, byte(at + 17 - offset), "at {at}");
                at += 1;
            }
        }
        assert_eq!(at, count);
        writer.await.unwrap();
    }
    let listener = TcpListener::bind(&there, to.port()).await.unwrap();
    let answers = spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        one_end(stream, count, 17).await;
    });
    let stream = TcpStream::connect(&here, to).await.unwrap();
    one_end(stream, count, 0).await;
    answers.await.unwrap();
}

#[test]
fn megabytes_go_both_ways_at_once_over_a_link_to_oneself() {
    runtime(2).block_on(in_time("four megabytes", async {
        let net = alone().await;
        both_ways(net.clone(), net, local(9), 4_000_000).await;
    }));
}

#[test]
fn a_wire_that_loses_doubles_and_reorders_changes_no_byte() {
    for seed in 0..2 {
        runtime(2).block_on(in_time("a bad wire", async {
            let faults = Faults {
                lost: 30,
                doubled: 40,
                overtaken: 20,
                changed: false,
            };
            let (here, there, _) = pair(faults, seed).await;
            both_ways(here, there, SocketAddrV4::new(THERE, 9), 200_000).await;
        }));
    }
}

#[test]
fn who_connects_to_nobody_is_told_why_not() {
    runtime(2).block_on(in_time("errors", async {
        let net = alone().await;
        let refused = TcpStream::connect(&net, local(1)).await;
        assert_eq!(refused.unwrap_err(), NetError::Refused);
        let outside = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80);
        let unreachable = TcpStream::connect(&net, outside).await;
        assert_eq!(unreachable.unwrap_err(), NetError::Unreachable);
        assert_eq!(net.sockets(), 0, "none of these is left behind");

        // Nobody has this address on the wire.
        let (here, _there, _) = pair(Faults::default(), 0).await;
        let options = Options {
            patience: Duration::from_millis(300),
            ..Options::default()
        };
        let nobody = SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, 77), 80);
        let silent = TcpStream::connect_with(&here, nobody, options).await;
        assert_eq!(silent.unwrap_err(), NetError::TimedOut);
    }));
}

#[test]
fn a_connection_that_is_half_closed_still_goes_the_other_way() {
    runtime(2).block_on(in_time("half closed", async {
        let net = alone().await;
        let listener = TcpListener::bind(&net, 7).await.unwrap();
        let server = spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut all = Vec::new();
            let mut room = [0; 100];
            loop {
                match stream.read(&mut room).await.unwrap() {
                    0 => break,
                    count => all.extend_from_slice(&room[..count]),
                }
            }
            all.reverse();
            stream.write_all(&all).await.unwrap();
            stream.flush().await.unwrap();
        });
        let mut stream = TcpStream::connect(&net, local(7)).await.unwrap();
        stream.write_all(b"backwards").await.unwrap();
        stream.finish().await.unwrap();
        assert_eq!(stream.write(b"more").await, Err(NetError::Closed));
        let mut got = [0; 9];
        read_exactly(&mut stream, &mut got).await.unwrap();
        assert_eq!(&got, b"sdrawkcab");
        assert_eq!(stream.read(&mut got).await, Ok(0));
        server.await.unwrap();
    }));
}

#[test]
fn a_listener_that_goes_closes_what_nobody_accepted_and_frees_its_port() {
    runtime(2).block_on(in_time("a listener", async {
        let net = alone().await;
        let listener = TcpListener::bind(&net, 7).await.unwrap();
        let again = TcpListener::bind(&net, 7).await;
        assert_eq!(again.unwrap_err(), NetError::InUse);
        let mut stream = TcpStream::connect(&net, local(7)).await.unwrap();
        drop(listener);
        assert_eq!(stream.read(&mut [0; 8]).await, Ok(0));
        let listener = TcpListener::bind(&net, 7).await.unwrap();
        let connected = TcpStream::connect(&net, local(7));
        let (connected, accepted) = join!(connected, listener.accept());
        assert_eq!(connected.unwrap().local(), accepted.unwrap().1);
    }));
}

#[test]
fn a_full_backlog_makes_others_wait_and_loses_nobody() {
    runtime(2).block_on(in_time("a backlog", async {
        let net = alone().await;
        let options = Options {
            backlog: 4,
            ..Options::default()
        };
        let listener = TcpListener::bind_with(&net, 7, options).await.unwrap();
        let clients: Vec<_> = (0..12u8)
            .map(|number| {
                let net = net.clone();
                spawn(async move {
                    let mut stream = TcpStream::connect(&net, local(7)).await.unwrap();
                    stream.write_all(&[number]).await.unwrap();
                    assert_eq!(stream.read(&mut [0]).await, Ok(0));
                })
            })
            .collect();
        // Until somebody was left waiting.
        while net.interfaces()[0].connections[2] == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        let mut seen = Vec::new();
        for _ in 0..12 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut number = [0];
            read_exactly(&mut stream, &mut number).await.unwrap();
            seen.push(number[0]);
        }
        seen.sort();
        assert_eq!(seen, (0..12).collect::<Vec<_>>());
        for client in clients {
            client.await.unwrap();
        }
    }));
}

#[test]
fn who_reads_slowly_stops_the_writer_and_loses_nothing() {
    runtime(2).block_on(in_time("a slow reader", async {
        let net = alone().await;
        let small = Options {
            receive: 500,
            send: 500,
            ..Options::default()
        };
        let listener = TcpListener::bind_with(&net, 7, small).await.unwrap();
        let connect = TcpStream::connect_with(&net, local(7), small);
        let (client, server) = join!(connect, listener.accept());
        let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
        let bytes: Vec<u8> = (0..3000).map(byte).collect();
        // Both buffers full, it is not more than that.
        let mut written = 0;
        while let Ok(count) =
            executor::time::timeout(Duration::from_millis(200), client.write(&bytes[written..]))
                .await
        {
            written += count.unwrap();
        }
        assert!((500..=1000).contains(&written), "{written} bytes");
        let rest = spawn(async move {
            client.write_all(&bytes[written..]).await.unwrap();
            client.flush().await.unwrap();
        });
        let mut got = vec![0; 3000];
        read_exactly(&mut server, &mut got).await.unwrap();
        assert!(got.iter().enumerate().all(|(at, &value)| value == byte(at)));
        rest.await.unwrap();
    }));
}

#[test]
fn a_connection_may_be_silent_for_longer_than_its_patience() {
    runtime(2).block_on(in_time("silence", async {
        let net = alone().await;
        let options = Options {
            patience: Duration::from_millis(50),
            ..Options::default()
        };
        let listener = TcpListener::bind_with(&net, 7, options).await.unwrap();
        echo(listener);
        let mut stream = TcpStream::connect_with(&net, local(7), options)
            .await
            .unwrap();
        for _ in 0..3 {
            stream.write_all(b"x").await.unwrap();
            read_exactly(&mut stream, &mut [0]).await.unwrap();
            sleep(Duration::from_millis(300)).await;
        }
        // Nor does it end without its last words.
        stream.finish().await.unwrap();
        assert_eq!(stream.read(&mut [0]).await, Ok(0));
    }));
}

#[test]
fn who_does_not_answer_is_given_up() {
    runtime(2).block_on(in_time("no answer", async {
        let (here, there, scissors) = pair(Faults::default(), 0).await;
        echo(TcpListener::bind(&there, 7).await.unwrap());
        let options = Options {
            patience: Duration::from_millis(300),
            ..Options::default()
        };
        let to = SocketAddrV4::new(THERE, 7);
        let mut stream = TcpStream::connect_with(&here, to, options).await.unwrap();
        scissors.silence();
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.flush().await, Err(NetError::Reset));
        assert_eq!(stream.read(&mut [0]).await, Err(NetError::Reset));
    }));
}

#[test]
fn a_wire_that_is_cut_ends_its_connections() {
    runtime(2).block_on(in_time("a cut wire", async {
        let (here, there, scissors) = pair(Faults::default(), 0).await;
        echo(TcpListener::bind(&there, 7).await.unwrap());
        let to = SocketAddrV4::new(THERE, 7);
        let mut stream = TcpStream::connect(&here, to).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        read_exactly(&mut stream, &mut [0]).await.unwrap();
        let (mut reads, mut writes) = stream.split();
        let waits = spawn(async move { reads.read(&mut [0; 8]).await });
        scissors.cut();
        assert_eq!(waits.await.unwrap(), Err(NetError::Reset));
        assert_eq!(writes.write(b"y").await, Err(NetError::Reset));
        assert!(here.interfaces().is_empty());
        let gone = TcpStream::connect(&here, to).await;
        assert_eq!(gone.unwrap_err(), NetError::Unreachable);
    }));
}

#[test]
fn a_first_frame_to_a_neighbour_does_not_wait_a_second_for_the_address() {
    // smoltcp keeps a socket silent for a second after it has asked for a hardware address; the answer must end that. Ten
    // sockets ask at once, nine of them while the tenth's question is on its way. On a machine that stands still for a second
    // that may be so once by chance, but not twenty times.
    let all_within_a_second = || {
        runtime(1).block_on(in_time("neighbours", async {
            let (here, there, _) = pair(Faults::default(), 0).await;
            echo(TcpListener::bind(&there, 7).await.unwrap());
            let began = Instant::now();
            let connect = |_| {
                let net = here.clone();
                let to = SocketAddrV4::new(THERE, 7);
                spawn(async move { TcpStream::connect(&net, to).await.unwrap() })
            };
            for client in (0..10).map(connect).collect::<Vec<_>>() {
                client.await.unwrap();
            }
            began.elapsed() < Duration::from_secs(1)
        }))
    };
    assert!((0..20).any(|_| all_within_a_second()));
}

#[test]
fn what_is_closed_is_forgotten() {
    runtime(2).block_on(in_time("two thousand connections", async {
        let net = alone().await;
        let small = Options {
            receive: 256,
            send: 256,
            ..Options::default()
        };
        let listener = TcpListener::bind_with(&net, 7, small).await.unwrap();
        echo(listener);
        for _ in 0..1000 {
            let mut stream = TcpStream::connect_with(&net, local(7), small)
                .await
                .unwrap();
            stream.write_all(b"x").await.unwrap();
            read_exactly(&mut stream, &mut [0]).await.unwrap();
        }
        // Those that wait for late segments are bounded; the other ends go as soon as both are closed.
        while net.sockets() > 256 {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(net.interfaces()[0].connections[0] <= 256);
    }));
}
