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

#[test]
fn who_waits_for_a_datagram_hears_that_the_wire_is_cut() {
    runtime(2).block_on(in_time("a cut wire", async {
        let (here, there, scissors) = pair(Faults::default(), 0).await;
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 9);
        let socket = UdpSocket::bind(&there, any).await.unwrap();
        let waits = spawn(async move { socket.receive(&mut [0; 8]).await });
        let asks = spawn(async move { here.ping(THERE, Duration::from_secs(60)).await.is_ok() });
        assert!(asks.await.unwrap());
        scissors.cut();
        assert_eq!(waits.await.unwrap(), Err(NetError::Unreachable));
        let gone = UdpSocket::bind(&there, any).await;
        assert_eq!(gone.unwrap_err(), NetError::Unreachable);
    }));
}

#[test]
fn two_tasks_receive_at_one_socket() {
    runtime(2).block_on(in_time("two receivers", async {
        let net = alone().await;
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9);
        let socket = std::sync::Arc::new(UdpSocket::bind(&net, at).await.unwrap());
        let receivers: Vec<_> = (0..2)
            .map(|_| {
                let socket = socket.clone();
                spawn(async move {
                    for _ in 0..50 {
                        socket.receive(&mut [0; 8]).await.unwrap();
                    }
                })
            })
            .collect();
        let sender = UdpSocket::bind(&net, SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))
            .await
            .unwrap();
        for _ in 0..100 {
            sender.send(b"x", at).await.unwrap();
            executor::task::yield_now().await;
        }
        for receiver in receivers {
            receiver.await.unwrap();
        }
    }));
}

#[test]
fn addresses_that_nobody_can_have_are_refused() {
    runtime(1).block_on(async {
        let config = |address, gateway| {
            net::Addresses::Static(net::Static {
                address,
                prefix: 24,
                gateway,
                names: None,
            })
        };
        let good = Ipv4Addr::new(10, 0, 0, 1);
        for bad in [
            Ipv4Addr::UNSPECIFIED,
            Ipv4Addr::BROADCAST,
            Ipv4Addr::new(224, 0, 0, 1),
        ] {
            for config in [config(bad, None), config(good, Some(bad))] {
                let net = net::Net::new();
                let attached = net.attach("lo", Box::new(net::Loopback::new()), config);
                assert_eq!(attached, Err(NetError::BadAddress));
            }
        }
    });
}
