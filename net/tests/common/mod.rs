//! A wire between two networks, which loses, doubles, reorders and changes frames as it is told.
#![allow(dead_code, reason = "each test uses what it needs")]

use drivers::link::Link;
use executor::{
    Runtime,
    time::{Duration, Instant},
};
use net::{Addresses, Loopback, Net, Static};
use std::{
    collections::VecDeque,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

/// Splitmix64: small, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        count > 0 && self.below(count) == 0
    }
}

/// What happens to frames: one in so many is lost, doubled, overtaken by the next. 0: none.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub lost: usize,
    pub doubled: usize,
    pub overtaken: usize,
    /// Each comes a second time, changed.
    pub changed: bool,
}

#[derive(Default)]
struct Direction {
    frames: VecDeque<Vec<u8>>,
    waker: Option<Waker>,
    is_cut: bool,
    is_silent: bool,
}

/// One end of a wire.
pub struct End {
    address: [u8; 6],
    incoming: Arc<Mutex<Direction>>,
    outgoing: Arc<Mutex<Direction>>,
    faults: Faults,
    random: Random,
}

/// Cuts a wire.
pub struct Scissors([Arc<Mutex<Direction>>; 2]);

impl Scissors {
    /// From now on all frames are lost.
    pub fn silence(&self) {
        for direction in &self.0 {
            direction.lock().unwrap().is_silent = true;
        }
    }

    pub fn cut(&self) {
        for direction in &self.0 {
            let mut direction = direction.lock().unwrap();
            direction.is_cut = true;
            if let Some(waker) = direction.waker.take() {
                waker.wake();
            }
        }
    }
}

/// Most frames on their way.
const MOST: usize = 128;

pub fn wire(faults: Faults, seed: u64) -> (End, End, Scissors) {
    let [to, fro] = [(); 2].map(|()| Arc::new(Mutex::new(Direction::default())));
    let end = |number: u8, incoming: &Arc<_>, outgoing: &Arc<_>| End {
        address: [2, 0, 0, 0, 0, number],
        incoming: Arc::clone(incoming),
        outgoing: Arc::clone(outgoing),
        faults,
        random: Random(seed + u64::from(number)),
    };
    let scissors = Scissors([to.clone(), fro.clone()]);
    (end(1, &to, &fro), end(2, &fro, &to), scissors)
}

impl Link for End {
    fn address(&self) -> Option<[u8; 6]> {
        Some(self.address)
    }

    fn longest(&self) -> usize {
        1514
    }

    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> bool {
        let frame = self.incoming.lock().unwrap().frames.pop_front();
        frame.map(|mut frame| take(&mut frame)).is_some()
    }

    fn has_room(&mut self) -> bool {
        // What goes beyond is lost, as on a real one: nobody tells the sender that the receiver is slow.
        true
    }

    fn send(&mut self, length: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        let mut frame = vec![0; length];
        fill(&mut frame);
        let mut outgoing = self.outgoing.lock().unwrap();
        if self.random.one_in(self.faults.lost)
            || outgoing.frames.len() >= MOST
            || outgoing.is_silent
        {
            return true;
        }
        if self.random.one_in(self.faults.doubled) {
            outgoing.frames.push_back(frame.clone());
        }
        let at = match self.random.one_in(self.faults.overtaken) {
            true => outgoing.frames.len().saturating_sub(1),
            false => outgoing.frames.len(),
        };
        if self.faults.changed {
            let mut changed = frame.clone();
            mutate(&mut changed, &mut self.random);
            outgoing.frames.push_back(changed);
        }
        outgoing.frames.insert(at, frame);
        if let Some(waker) = outgoing.waker.take() {
            waker.wake();
        }
        true
    }

    fn poll_ready(&mut self, for_room: bool, context: &mut Context<'_>) -> Poll<Option<()>> {
        let mut incoming = self.incoming.lock().unwrap();
        if incoming.is_cut {
            return Poll::Ready(None);
        }
        if for_room || !incoming.frames.is_empty() {
            return Poll::Ready(Some(()));
        }
        incoming.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

pub fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// A network with nothing but itself.
pub async fn alone() -> Net {
    let net = Net::new();
    let own = Addresses::Static(Static::LOOPBACK);
    net.attach("lo", Box::new(Loopback::new()), own).unwrap();
    net.address_of("lo").await.unwrap();
    net
}

pub const HERE: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
pub const THERE: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);

/// Two networks and a wire between them.
pub async fn pair(faults: Faults, seed: u64) -> (Net, Net, Scissors) {
    let (here, there, scissors) = wire(faults, seed);
    let nets = [Net::new(), Net::new()];
    for (net, (link, address)) in nets.iter().zip([(here, HERE), (there, THERE)]) {
        let own = Static {
            address,
            prefix: 24,
            gateway: None,
            names: None,
        };
        net.attach("eth0", Box::new(link), Addresses::Static(own))
            .unwrap();
        net.address_of("eth0").await.unwrap();
    }
    let [here, there] = nets;
    (here, there, scissors)
}

/// The bytes of a stream of test data.
pub fn byte(at: usize) -> u8 {
    (at * 31 % 251) as u8
}

/// Fails if something takes far too long.
pub async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    let began = Instant::now();
    match executor::time::timeout(Duration::from_secs(120), future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} is not done after {:?}", began.elapsed()),
    }
}

/// The sum that IP, TCP and UDP have.
fn checksum(bytes: &[u8], begin: u32) -> u16 {
    let add = |sum: u32, pair: &[u8]| {
        sum + u32::from(pair[0]) * 256 + u32::from(pair.get(1).copied().unwrap_or(0))
    };
    let mut sum = bytes.chunks(2).fold(begin, add);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Makes the sums right again, so that the rest is looked at, too.
pub fn mend(frame: &mut [u8]) {
    if frame.len() < 34 || frame[12..14] != [8, 0] {
        return;
    }
    let packet = &mut frame[14..];
    let header = usize::from(packet[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]])).min(packet.len());
    if !(20..=total).contains(&header) {
        return;
    }
    packet[10..12].fill(0);
    let sum = checksum(&packet[..header], 0);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let (protocol, length) = (packet[9], total - header);
    let at = match protocol {
        1 => 2,
        6 => 16,
        17 => 6,
        _ => return,
    };
    if length < at + 2 {
        return;
    }
    let mut begin = 0;
    if protocol != 1 {
        for pair in packet[12..20].chunks(2) {
            begin += u32::from(pair[0]) * 256 + u32::from(pair[1]);
        }
        begin += u32::from(protocol) + length as u32;
    }
    let payload = &mut packet[header..total];
    payload[at..at + 2].fill(0);
    let sum = checksum(payload, begin);
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Changes a frame in one of many ways.
pub fn mutate(frame: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(frame.len().max(1));
        // Headers more often than what is behind them.
        let at = if random.one_in(3) {
            at
        } else {
            at.min(random.below(60))
        };
        match random.below(7) {
            0 => frame.truncate(at),
            1 => frame.extend((0..random.below(40)).map(|byte| byte as u8)),
            2 if at < frame.len() => frame[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            3 if at < frame.len() => frame[at] ^= 1 << random.below(8),
            4 if at + 1 < frame.len() => frame.swap(at, at + 1),
            _ if at < frame.len() => frame[at] = random.next() as u8,
            _ => {}
        }
        frame.truncate(1600);
    }
    if !random.one_in(4) {
        mend(frame);
    }
}
