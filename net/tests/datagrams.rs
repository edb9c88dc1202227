//! Datagrams, pings, and names without a network.

mod common;

use common::*;
use executor::{spawn, time::Duration};
use net::{NetError, UdpSocket};
use std::net::{Ipv4Addr, SocketAddrV4};

#[test]
fn datagrams_come_as_they_were_sent() {
    runtime(2).block_on(in_time("datagrams", async {
        let (here, there, _) = pair(Faults::default(), 0).await;
        let any = |port| SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
        let server = UdpSocket::bind(&there, any(7)).await.unwrap();
        assert_eq!(server.local(), SocketAddrV4::new(THERE, 7));
        let again = UdpSocket::bind(&there, any(7)).await;
        assert_eq!(again.unwrap_err(), NetError::InUse);
        spawn(async move {
            let mut room = [0; 1500];
            loop {
                let (count, from) = server.receive(&mut room).await.unwrap();
                server.send(&room[..count], from).await.unwrap();
            }
        })
        .detach();
        let client = UdpSocket::bind(&here, any(0)).await.unwrap();
        for length in [0, 1, 2, 100, 1400] {
            let sent: Vec<u8> = (0..length).map(byte).collect();
            let to = SocketAddrV4::new(THERE, 7);
            client.send(&sent, to).await.unwrap();
            let mut room = [0; 1500];
            let (count, from) = client.receive(&mut room).await.unwrap();
            assert_eq!((&room[..count], from), (&sent[..], to));
        }
        let long = vec![0; 70_000];
        let to = SocketAddrV4::new(THERE, 7);
        assert_eq!(client.send(&long, to).await, Err(NetError::TooLong));
    }));
}

#[test]
fn a_port_is_free_again_without_its_socket() {
    runtime(2).block_on(in_time("a port", async {
        let net = alone().await;
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53);
        drop(UdpSocket::bind(&net, at).await.unwrap());
        while UdpSocket::bind(&net, at).await.is_err() {
            executor::task::yield_now().await;
        }
    }));
}

#[test]
fn who_is_there_answers_a_ping() {
    runtime(2).block_on(in_time("pings", async {
        let net = alone().await;
        let patience = Duration::from_secs(60);
        for _ in 0..3 {
            net.ping(Ipv4Addr::LOCALHOST, patience).await.unwrap();
        }
        let (here, _there, _) = pair(Faults::default(), 0).await;
        here.ping(THERE, patience).await.unwrap();
        let nobody = Ipv4Addr::new(10, 1, 0, 77);
        let silent = here.ping(nobody, Duration::from_millis(200)).await;
        assert_eq!(silent, Err(NetError::TimedOut));
        let outside = here.ping(Ipv4Addr::new(192, 0, 2, 1), patience).await;
        assert_eq!(outside, Err(NetError::Unreachable));
    }));
}

#[test]
fn addresses_in_figures_need_nobody_who_knows_names() {
    runtime(1).block_on(in_time("names", async {
        let net = alone().await;
        let address = Ipv4Addr::new(1, 2, 3, 4);
        assert_eq!(net.resolve("1.2.3.4").await, Ok(vec![address]));
        let own = net.resolve("localhost").await;
        assert_eq!(own, Ok(vec![Ipv4Addr::LOCALHOST]));
        let unknown = net.resolve("example.org").await;
        assert_eq!(unknown, Err(NetError::Unreachable));
    }));
}
