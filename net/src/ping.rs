//! Whether somebody is there.

use crate::{
    Net, NetError,
    frames::Address,
    socket::{Cell, Sends, Socket, datagrams, reader},
    stack::At,
};
use alloc::{sync::Arc, vec};
use core::net::Ipv4Addr;
use executor::time::{Duration, Instant, timeout};
use smoltcp::{
    phy::ChecksumCapabilities,
    socket::icmp,
    wire::{Icmpv4Packet, Icmpv4Repr, IpAddress},
};

/// What is sent along.
const BYTES: &[u8; 32] = b"is there somebody? is there some";

/// Without this the socket is given back.
struct Left(Arc<Socket>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Net {
    /// Asks somebody for an answer: how long that took.
    pub async fn ping(&self, who: Ipv4Addr, patience: Duration) -> Result<Duration, NetError> {
        let (interface, _) = self.route(who)?;
        let mut socket = icmp::Socket::new(datagrams(1, 128)?, datagrams(1, 128)?);
        let make = |address| {
            let Address::Echo(ident) = address else {
                unreachable!("made below");
            };
            let bound = socket.bind(icmp::Endpoint::Ident(ident));
            bound.map_err(|_| NetError::InUse)?;
            let request = Icmpv4Repr::EchoRequest {
                ident,
                seq_no: 1,
                data: BYTES,
            };
            let mut bytes = vec![0; request.buffer_len()];
            let mut packet = Icmpv4Packet::new_unchecked(&mut bytes);
            request.emit(&mut packet, &ChecksumCapabilities::default());
            let sent = socket.send_slice(&bytes, IpAddress::Ipv4(who));
            sent.map_err(|_| NetError::Unreachable)?;
            Ok(Socket::new(address, interface, Cell::new(socket)))
        };
        let socket = self.place(At::AnyPort(Address::Echo), make)?;
        let began = Instant::now();
        let left = Left(socket.clone());
        socket.list(socket.lock().await?);
        let answered = socket.ask(reader, |cell: &mut Cell| {
            loop {
                let (bytes, from) = cell.socket::<icmp::Socket<'_>>().recv().ok()?;
                let is_whole = Icmpv4Packet::new_checked(bytes)
                    .is_ok_and(|packet| packet.data() == BYTES && from == IpAddress::Ipv4(who));
                if is_whole {
                    return Some(((), Sends::Nothing));
                }
            }
        });
        let answered = timeout(patience, answered).await;
        drop(left);
        answered.map_err(|_| NetError::TimedOut)??;
        Ok(began.elapsed())
    }
}
