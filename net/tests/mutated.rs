//! Frames that were changed on their way, a hundred thousand of them (ten million with `SPINDLE_LONG`): none makes the network panic, and what is good still comes through.

mod common;

use common::*;
use drivers::link::Link;
use executor::{
    spawn,
    time::{Duration, sleep},
};
use net::{Addresses, Net, Options, Static, TcpListener, TcpStream, UdpSocket, address_of, echo};
use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddrV4},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

fn cases() -> usize {
    match std::env::var_os("SPINDLE_LONG") {
        Some(_) => 10_000_000,
        None => 100_000,
    }
}

#[derive(Default)]
struct Tap {
    frames: VecDeque<Vec<u8>>,
    waker: Option<Waker>,
}

/// A link that receives what a test puts there, and forgets what is sent.
struct Injected(Arc<Mutex<Tap>>);

impl Link for Injected {
    fn address(&self) -> Option<[u8; 6]> {
        Some([2, 0, 0, 0, 0, 2])
    }

    fn longest(&self) -> usize {
        1514
    }

    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> bool {
        let frame = self.0.lock().unwrap().frames.pop_front();
        frame.map(|mut frame| take(&mut frame)).is_some()
    }

    fn has_room(&mut self) -> bool {
        true
    }

    fn send(&mut self, length: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        fill(&mut vec![0; length]);
        true
    }

    fn poll_ready(&mut self, for_room: bool, context: &mut Context<'_>) -> Poll<Option<()>> {
        let mut tap = self.0.lock().unwrap();
        if for_room || !tap.frames.is_empty() {
            return Poll::Ready(Some(()));
        }
        tap.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// A wire's end that also writes down what comes.
struct Recorder<L>(L, Arc<Mutex<Vec<Vec<u8>>>>);

impl<L: Link> Link for Recorder<L> {
    fn address(&self) -> Option<[u8; 6]> {
        self.0.address()
    }

    fn longest(&self) -> usize {
        self.0.longest()
    }

    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> bool {
        let seen = &self.1;
        self.0.receive(&mut |frame| {
            seen.lock().unwrap().push(frame.to_vec());
            take(frame);
        })
    }

    fn has_room(&mut self) -> bool {
        self.0.has_room()
    }

    fn send(&mut self, length: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        self.0.send(length, fill)
    }

    fn poll_ready(&mut self, for_room: bool, context: &mut Context<'_>) -> Poll<Option<()>> {
        self.0.poll_ready(for_room, context)
    }
}

fn own(address: Ipv4Addr) -> Addresses {
    Addresses::Static(Static {
        address,
        prefix: 24,
        gateway: Some(HERE),
        names: Some(HERE),
    })
}

/// Servers of all kinds.
async fn serve(net: &Net) {
    let listener = TcpListener::bind(net, 7).await.unwrap();
    spawn(async move { echo::serve(&listener, &Arc::default(), 1000).await }).detach();
    let socket = UdpSocket::bind(net, SocketAddrV4::new(THERE, 7))
        .await
        .unwrap();
    spawn(async move {
        let mut room = [0; 1500];
        while let Ok((count, from)) = socket.receive(&mut room).await {
            let _ = socket.send(&room[..count], from).await;
        }
    })
    .detach();
}

/// What goes to a network that is used: addresses, connections, datagrams, pings.
async fn conversation() -> Vec<Vec<u8>> {
    let (here, there, _scissors) = wire(Faults::default(), 0);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (client, server) = (Net::new(), Net::new());
    client.attach("eth0", Box::new(here), own(HERE)).unwrap();
    let recorder = Box::new(Recorder(there, seen.clone()));
    server.attach("eth0", recorder, own(THERE)).unwrap();
    client.address_of("eth0").await.unwrap();
    server.address_of("eth0").await.unwrap();
    serve(&server).await;
    for length in [1, 100, 5000] {
        let to = SocketAddrV4::new(THERE, 7);
        let mut stream = TcpStream::connect(&client, to).await.unwrap();
        stream.write_all(&vec![7; length]).await.unwrap();
        let mut left = length;
        while left > 0 {
            left -= stream.read(&mut vec![0; left]).await.unwrap();
        }
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let socket = UdpSocket::bind(&client, any).await.unwrap();
        socket.send(&vec![8; length.min(1400)], to).await.unwrap();
        socket.receive(&mut [0; 1500]).await.unwrap();
        client.ping(THERE, Duration::from_secs(60)).await.unwrap();
    }
    // With those that close the connections, which come by and by.
    sleep(Duration::from_millis(100)).await;
    seen.lock().unwrap().clone()
}

#[test]
fn changed_frames_harm_nothing() {
    let seed = 1;
    runtime(2).block_on(async {
        let corpus = conversation().await;
        assert!(corpus.len() > 20, "{} frames", corpus.len());
        let tap = Arc::new(Mutex::new(Tap::default()));
        let net = Net::new();
        net.attach("eth0", Box::new(Injected(tap.clone())), own(THERE))
            .unwrap();
        net.address_of("eth0").await.unwrap();
        serve(&net).await;
        let mut random = Random(seed);
        let cases = cases();
        for case in 0..cases {
            let mut frame = corpus[random.below(corpus.len())].clone();
            mutate(&mut frame, &mut random);
            // Which socket it is for: with a header or without.
            let _ = address_of(&frame, case % 2 == 0);
            if inject(&tap, frame) > 1000 {
                while tap_len(&net) < case + 1 {
                    executor::task::yield_now().await;
                }
            }
        }
        while tap_len(&net) < cases {
            executor::task::yield_now().await;
        }
        // It still answers: to who asks for its address, and to a ping.
        let sent = net.interfaces()[0].frames[1];
        let question = corpus.iter().find(|frame| frame[12..14] == [8, 6]).unwrap();
        inject(&tap, question.clone());
        in_time("an answer", async {
            while net.interfaces()[0].frames[1] <= sent {
                executor::task::yield_now().await;
            }
        })
        .await;
        // Half-open connections are bounded by the backlog, the others by what was opened.
        println!(
            "{} sockets, {:?}",
            net.sockets(),
            net.interfaces()[0].connections
        );
    });
}

/// A frame comes. How many have come and were not seen.
fn inject(tap: &Mutex<Tap>, frame: Vec<u8>) -> usize {
    let mut tap = tap.lock().unwrap();
    tap.frames.push_back(frame);
    if let Some(waker) = tap.waker.take() {
        waker.wake();
    }
    tap.frames.len()
}

/// Frames that the network has seen.
fn tap_len(net: &Net) -> usize {
    net.interfaces()[0].frames[0] as usize
}

#[test]
fn changed_frames_among_good_ones_end_connections_at_worst() {
    // Each frame comes twice: as it was sent, and changed, often with sums that are right. So the other end gets what it takes for the
    // middle of a connection.
    for seed in 0..2 {
        runtime(2).block_on(async {
            let faults = Faults {
                changed: true,
                ..Faults::default()
            };
            let (here, there, _) = pair(faults, seed).await;
            serve(&there).await;
            let clients: Vec<_> = (0..10)
                .map(|_| {
                    let net = here.clone();
                    spawn(async move {
                        let options = Options {
                            patience: Duration::from_secs(2),
                            ..Options::default()
                        };
                        let to = SocketAddrV4::new(THERE, 7);
                        for _ in 0..5 {
                            let Ok(mut stream) = TcpStream::connect_with(&net, to, options).await
                            else {
                                continue;
                            };
                            let mut room = [0; 2000];
                            for _ in 0..20 {
                                let talks = async {
                                    stream.write_all(&[9; 1000]).await?;
                                    stream.read(&mut room).await
                                };
                                match executor::time::timeout(Duration::from_secs(1), talks).await {
                                    Ok(Ok(1..)) => {}
                                    _ => break,
                                }
                            }
                        }
                    })
                })
                .collect();
            for client in clients {
                in_time("a client", client).await.unwrap();
            }
            let frames = there.interfaces()[0].frames[0];
            assert!(frames > 100, "{frames} frames only");
        });
    }
}

#[test]
fn frames_that_claim_to_come_from_another_interface_end_nothing_there() {
    runtime(2).block_on(in_time("a foreign frame", async {
        let net = alone().await;
        let tap = Arc::new(Mutex::new(Tap::default()));
        net.attach("eth0", Box::new(Injected(tap.clone())), own(THERE))
            .unwrap();
        net.address_of("eth0").await.unwrap();
        let listener = TcpListener::bind(&net, 7).await.unwrap();
        spawn(async move { echo::serve(&listener, &Arc::default(), 10).await }).detach();
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7);
        let mut stream = TcpStream::connect(&net, to).await.unwrap();
        let port = stream.local().port();
        for (from, to) in [(port, 7), (7, port)] {
            let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
            frame.extend([
                0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1,
            ]);
            frame.extend(u16::to_be_bytes(from));
            frame.extend(u16::to_be_bytes(to));
            frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
            mend(&mut frame);
            inject(&tap, frame);
        }
        let seen = || {
            net.interfaces()
                .iter()
                .any(|it| it.name == "eth0" && it.frames[0] == 2)
        };
        while !seen() {
            executor::task::yield_now().await;
        }
        stream.write_all(b"still there").await.unwrap();
        assert_eq!(stream.read(&mut [0; 64]).await, Ok(11));
    }));
}
