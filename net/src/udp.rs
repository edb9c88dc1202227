//! Datagrams.

use crate::{
    Net, NetError,
    frames::Address,
    socket::{Cell, Sends, Socket, datagrams, reader, writer},
    stack::At,
};
use alloc::sync::Arc;
use core::{fmt, net::SocketAddrV4};
use executor::sync::Mutex;
use smoltcp::{
    socket::udp::{self, SendError},
    wire::{IpAddress, IpEndpoint},
};

/// Datagrams that wait to be read, and to be sent, at most; and how many bytes they have together.
const COUNT: usize = 32;
const BYTES: usize = 16 * 1024;

/// A port for datagrams, at one interface.
pub struct UdpSocket {
    socket: Arc<Socket>,
    /// One at a time waits for each: the socket has room for one waker.
    receives: Mutex<()>,
    sends: Mutex<()>,
    address: SocketAddrV4,
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.socket.leave();
    }
}

impl UdpSocket {
    /// At this address, of an interface that has it; 0.0.0.0 is that by which others are reached. Port 0 is one that nobody has.
    pub async fn bind(net: &Net, at: SocketAddrV4) -> Result<Self, NetError> {
        let (interface, own) = net.interface_at(*at.ip())?;
        let mut socket = udp::Socket::new(datagrams(COUNT, BYTES)?, datagrams(COUNT, BYTES)?);
        let place = match at.port() {
            0 => At::AnyPort(Address::Udp),
            port => At::Just(Address::Udp(port)),
        };
        let make = |address| {
            let Address::Udp(port) = address else {
                unreachable!("made above");
            };
            let end = (IpAddress::Ipv4(own), port);
            socket.bind(end).map_err(|_| NetError::InUse)?;
            Ok(Socket::new(address, interface, Cell::new(socket)))
        };
        let socket = net.place(place, make)?;
        let Address::Udp(port) = socket.address else {
            unreachable!("made above");
        };
        Ok(Self {
            socket,
            receives: Mutex::new(()),
            sends: Mutex::new(()),
            address: SocketAddrV4::new(own, port),
        })
    }

    /// Where it is.
    pub fn local(&self) -> SocketAddrV4 {
        self.address
    }

    /// Waits for a datagram: how long it is, and whose. What `into` has no room for is lost.
    pub async fn receive(&self, into: &mut [u8]) -> Result<(usize, SocketAddrV4), NetError> {
        let receive = |cell: &mut Cell| {
            let socket = cell.socket::<udp::Socket<'_>>();
            let (bytes, from) = socket.recv().ok()?;
            let count = bytes.len().min(into.len());
            into[..count].copy_from_slice(&bytes[..count]);
            let IpEndpoint {
                addr: IpAddress::Ipv4(address),
                port,
            } = from.endpoint;
            Some(((count, SocketAddrV4::new(address, port)), Sends::Nothing))
        };
        let _turn = self.receives.lock().await;
        self.socket.ask(reader, receive).await
    }

    /// Sends a datagram, as soon as there is room for it.
    pub async fn send(&self, bytes: &[u8], to: SocketAddrV4) -> Result<(), NetError> {
        let most = self.socket.interface.most;
        let send = |cell: &mut Cell| {
            let socket = cell.socket::<udp::Socket<'_>>();
            if bytes.len() > most.min(socket.payload_send_capacity()) {
                return Some((Err(NetError::TooLong), Sends::Nothing));
            }
            match socket.send_slice(bytes, to) {
                Ok(()) => Some((Ok(()), Sends::Now)),
                Err(SendError::BufferFull) => None,
                Err(SendError::Unaddressable) => Some((Err(NetError::Unreachable), Sends::Nothing)),
            }
        };
        let _turn = self.sends.lock().await;
        self.socket.ask(writer, send).await?
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UdpSocket({})", self.address)
    }
}
