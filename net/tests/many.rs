//! Many connections at once.

mod common;

use common::*;
use executor::{spawn, sync::Barrier, time::Instant};
use net::{Options, TcpListener, TcpStream};
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    sync::Arc,
};

const COUNT: usize = 10_000;

#[test]
fn ten_thousand_connections_are_open_at_once_and_each_is_echoed() {
    runtime(2).block_on(in_time("many connections", async {
        let net = alone().await;
        let small = Options {
            receive: 512,
            send: 512,
            backlog: COUNT,
            ..Options::default()
        };
        let listener = TcpListener::bind_with(&net, 7, small).await.unwrap();
        spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                spawn(async move {
                    let mut room = [0; 64];
                    while let Ok(count @ 1..) = stream.read(&mut room).await {
                        stream.write_all(&room[..count]).await.unwrap();
                    }
                })
                .detach();
            }
        })
        .detach();
        let all_open = Arc::new(Barrier::new(COUNT));
        let began = Instant::now();
        let clients: Vec<_> = (0..COUNT)
            .map(|number| {
                let (net, all_open) = (net.clone(), all_open.clone());
                spawn(async move {
                    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7);
                    let mut stream = TcpStream::connect_with(&net, to, small).await.unwrap();
                    all_open.wait().await;
                    let sent = number.to_le_bytes();
                    for _ in 0..3 {
                        stream.write_all(&sent).await.unwrap();
                        let (mut got, mut at) = ([0; 8], 0);
                        while at < 8 {
                            at += stream.read(&mut got[at..]).await.unwrap();
                        }
                        assert_eq!(got, sent);
                    }
                    all_open.wait().await;
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
        println!("{COUNT} connections in {:?}", began.elapsed());
    }));
}
