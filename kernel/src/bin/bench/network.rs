//! What connections cost: echoes over a link to oneself, on one core; and a frame among many sockets of one set, as smoltcp has it by itself.

use crate::{cycles_of, report, report_each};
use alloc::{vec, vec::Vec};
use core::net::Ipv4Addr;
use executor::Runtime;
use kernel::network::many::{self, Figures};
use smoltcp::{
    iface::{Config, Interface, SocketSet},
    phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken},
    socket::tcp,
    time::Instant,
    wire::{HardwareAddress, IpCidr},
};

pub fn run() {
    let few = measure(100);
    report(
        "net_echo_among_100",
        few.alone.per_mille(500),
        "instructions",
    );
    let many = measure(10_000);
    report(
        "net_echo_among_10000",
        many.alone.per_mille(500),
        "instructions",
    );
    report(
        "net_echo_10000_at_once_p50",
        many.together.per_mille(500),
        "instructions",
    );
    report(
        "net_echo_10000_at_once_p99",
        many.together.per_mille(990),
        "instructions",
    );
    report(
        "net_echo_10000_at_once_p999",
        many.together.per_mille(999),
        "instructions",
    );
    report(
        "net_bytes_per_connection",
        many.bytes / many.connections,
        "bytes",
    );
    for (name, count) in [
        ("smoltcp_frame_in_a_set_of_100", 100),
        ("smoltcp_frame_in_a_set_of_10000", 10_000),
    ] {
        one_set(name, count);
    }
}

fn measure(count: usize) -> Figures {
    let runtime = Runtime::builder()
        .workers(1)
        .build()
        .expect("one core is there");
    let figures = runtime.block_on(many::measure(count, 3));
    // The task of the link goes on for ever.
    runtime.shutdown_now();
    figures.expect("none is dropped")
}

/// A frame that comes, and nothing that is kept of what is sent.
struct One<'a>(Option<&'a [u8]>);

impl Device for One<'_> {
    type RxToken<'b>
        = In<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Out
    where
        Self: 'b;

    fn receive(&mut self, _: Instant) -> Option<(In<'_>, Out)> {
        self.0.take().map(|frame| (In(frame), Out))
    }

    fn transmit(&mut self, _: Instant) -> Option<Out> {
        Some(Out)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }
}

struct In<'a>(&'a [u8]);

impl RxToken for In<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, see: F) -> R {
        see(self.0)
    }
}

struct Out;

impl TxToken for Out {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        fill(&mut [0; 1500][..length])
    }
}

/// A frame for nobody among so many sockets that listen, all in one set.
fn one_set(name: &str, count: u16) {
    let mut interface = Interface::new(
        Config::new(HardwareAddress::Ip),
        &mut One(None),
        Instant::ZERO,
    );
    interface.update_ip_addrs(|addresses| {
        let own = IpCidr::new(Ipv4Addr::LOCALHOST.into(), 8);
        // There is room for two.
        let _ = addresses.push(own);
    });
    let mut set = SocketSet::new(Vec::new());
    for port in 1..=count {
        let buffer = || tcp::SocketBuffer::new(vec![0; 16]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.listen(port).expect("it is the first there");
        set.add(socket);
    }
    // 20 bytes of IP, 20 of TCP: port 40000 to port 50000, an acknowledgement. Sums are not looked at.
    let mut frame = [0u8; 40];
    frame[0] = 0x45;
    frame[3] = 40;
    frame[8..10].copy_from_slice(&[64, 6]);
    frame[12..16].copy_from_slice(&[127, 0, 0, 1]);
    frame[16..20].copy_from_slice(&[127, 0, 0, 1]);
    frame[20..24].copy_from_slice(&[0x9c, 0x40, 0xc3, 0x50]);
    frame[32..36].copy_from_slice(&[0x50, 0x10, 1, 0]);
    let sum = |bytes: &[u8], begin: u32| {
        let add = |sum, pair: &[u8]| sum + u32::from(u16::from_be_bytes([pair[0], pair[1]]));
        let sum = bytes.chunks(2).fold(begin, add);
        !((sum & 0xffff) + (sum >> 16)) as u16
    };
    let header = sum(&frame[..20], 0);
    frame[10..12].copy_from_slice(&header.to_be_bytes());
    let segment = sum(&frame[12..], 6 + 20);
    frame[36..38].copy_from_slice(&segment.to_be_bytes());
    let mut poll = || {
        interface.poll(Instant::ZERO, &mut One(Some(&frame)), &mut set);
    };
    poll();
    const ROUNDS: u64 = 10;
    let cycles = cycles_of(|| (0..ROUNDS).for_each(|_| poll()));
    report_each(name, cycles, ROUNDS);
}
