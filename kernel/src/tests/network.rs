//! The network, without anybody else: connections of the machine to itself, from all cores.

use crate::{network::many, println};
use alloc::boxed::Box;
use core::net::{Ipv4Addr, SocketAddrV4};
use executor::{Runtime, spawn, time::Duration};
use net::{Addresses, Loopback, Net, Static, TcpListener, TcpStream, UdpSocket};
use testing::kernel_test;

/// All of it together takes less than this.
const MOST_BYTES: usize = 100_000_000;

fn on_all_cores(future: impl Future<Output = ()> + 'static) {
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(future);
    // The task of the link goes on for ever.
    runtime.shutdown_now();
}

fn many(count: usize, rounds: usize) {
    on_all_cores(async move {
        let figures = many::measure(count, rounds).await.expect("none is dropped");
        println!("{figures}");
        assert_eq!(figures.connections, count);
        assert_eq!(figures.together.count(), count * rounds);
        assert!(figures.bytes < MOST_BYTES, "{} bytes", figures.bytes);
    });
}

#[kernel_test(limit = 300)]
fn a_thousand_connections_are_open_at_once_and_each_is_echoed() {
    many(1000, 3);
}

#[kernel_test(limit = 900, long = true)]
fn ten_thousand_connections_are_open_at_once_and_each_is_echoed() {
    many(10_000, 3);
}

async fn alone() -> Net {
    let net = Net::new();
    let own = Addresses::Static(Static::LOOPBACK);
    let attached = net.attach("lo", Box::new(Loopback::new()), own);
    attached.expect("it is the first");
    net.address_of("lo").await.expect("it is there");
    net
}

#[kernel_test(limit = 240)]
fn a_connection_is_used_from_two_cores_at_once() {
    const COUNT: usize = 300_000;
    fn byte(at: usize) -> u8 {
        (at * 31 % 251) as u8
    }
    async fn both_ways(stream: TcpStream) {
        let (mut reads, mut writes) = stream.split();
        let writer = spawn(async move {
            let mut at = 0;
            while at < COUNT {
                let mut piece = [0; 700];
                let length = piece.len().min(COUNT - at);
                for (offset, place) in piece[..length].iter_mut().enumerate() {
                    *place = byte(at + offset);
                }
                at += writes.write(&piece[..length]).await.expect("it is open");
            }
            writes.finish().await.expect("it is open");
        });
        let (mut at, mut room) = (0, [0; 900]);
        loop {
            let got = reads.read(&mut room).await.expect("it is open");
            if got == 0 {
                break;
            }
            for value in &room[..got] {
                assert_eq!(*value, byte(at), "at {at}");
                at += 1;
            }
        }
        assert_eq!(at, COUNT);
        writer.await.expect("nobody cancels it");
    }
    on_all_cores(async {
        let net = alone().await;
        let listener = TcpListener::bind(&net, 9).await.expect("it is free");
        let server = spawn(async move {
            let (stream, _) = listener.accept().await.expect("somebody comes");
            both_ways(stream).await;
        });
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9);
        both_ways(TcpStream::connect(&net, to).await.expect("it listens")).await;
        server.await.expect("nobody cancels it");
    });
}

#[kernel_test(limit = 120)]
fn datagrams_and_pings_find_their_way() {
    on_all_cores(async {
        let net = alone().await;
        let own = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let one = UdpSocket::bind(&net, own).await.expect("ports are free");
        let other = UdpSocket::bind(&net, own).await.expect("ports are free");
        for length in [0, 1, 1000] {
            let bytes = alloc::vec![7; length];
            one.send(&bytes, other.local()).await.expect("it has room");
            let mut room = [0; 1500];
            let (count, from) = other.receive(&mut room).await.expect("it is there");
            assert_eq!((&room[..count], from), (&bytes[..], one.local()));
        }
        let patience = Duration::from_secs(60);
        let answered = net.ping(Ipv4Addr::LOCALHOST, patience).await;
        answered.expect("we are there");
    });
}
