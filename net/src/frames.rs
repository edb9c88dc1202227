//! Which socket a frame is for.
//!
//! Only what is needed for that is read here, with smoltcp's own checked views; smoltcp then reads the whole, and decides
//! whether it is any good.

use core::net::{Ipv4Addr, SocketAddrV4};
use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, Icmpv4Message, Icmpv4Packet, IpProtocol, Ipv4Packet,
    TcpPacket, UdpPacket,
};

/// What sockets are found by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Address {
    /// A connection: this end and the other.
    Tcp(SocketAddrV4, SocketAddrV4),
    /// A port for datagrams.
    Udp(u16),
    /// Who pings.
    Echo(u16),
    /// Those of an interface itself; no frame is found to be for it.
    Own,
}

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// For a socket.
    For(Address),
    /// The same, and it asks for a new connection.
    Opens(Address),
    /// Says, or asks for, the hardware address of somebody.
    Neighbour,
    /// Something else, which smoltcp may know.
    Other,
}

/// What a frame is; with an Ethernet header or without.
pub fn address_of(frame: &[u8], has_header: bool) -> Kind {
    if !has_header {
        return of_packet(frame).unwrap_or(Kind::Other);
    }
    let Ok(frame) = EthernetFrame::new_checked(frame) else {
        return Kind::Other;
    };
    match frame.ethertype() {
        EthernetProtocol::Arp => Kind::Neighbour,
        EthernetProtocol::Ipv4 => of_packet(frame.payload()).unwrap_or(Kind::Other),
        _ => Kind::Other,
    }
}

fn of_packet(packet: &[u8]) -> Option<Kind> {
    let packet = Ipv4Packet::new_checked(packet).ok()?;
    if packet.version() != 4 || packet.more_frags() || packet.frag_offset() != 0 {
        return None;
    }
    let (from, to): (Ipv4Addr, Ipv4Addr) = (packet.src_addr(), packet.dst_addr());
    // Nobody has this address; who says so to us wants something else (smoltcp's DHCP would take it for a server's).
    if from.is_unspecified() {
        return None;
    }
    match packet.next_header() {
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(packet.payload()).ok()?;
            let here = SocketAddrV4::new(to, segment.dst_port());
            let there = SocketAddrV4::new(from, segment.src_port());
            let address = Address::Tcp(here, there);
            let opens = segment.syn() && !segment.ack() && !segment.rst();
            Some(match opens {
                true => Kind::Opens(address),
                false => Kind::For(address),
            })
        }
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(packet.payload()).ok()?;
            Some(Kind::For(Address::Udp(datagram.dst_port())))
        }
        IpProtocol::Icmp => {
            let message = Icmpv4Packet::new_checked(packet.payload()).ok()?;
            (message.msg_type() == Icmpv4Message::EchoReply)
                .then(|| Kind::For(Address::Echo(message.echo_ident())))
        }
        _ => None,
    }
}
