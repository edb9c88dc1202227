//! The task of an interface: frames in, frames out, and what is due.
//!
//! It alone has the link, and smoltcp's state of the interface; sockets it shares with their users.

use crate::{
    frames::{Address, Kind, address_of},
    lookup::{Own, Question},
    socket::{Cell, Socket},
    stack::{Addresses, Shared, Static},
    tcp::TcpStream,
    wire::Wire,
};
use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    sync::Arc,
    vec,
    vec::Vec,
};
use core::{
    future::{Future, poll_fn},
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    task::Poll,
};
use drivers::link::Link;
use executor::{
    sync::{
        Mutex, Notify,
        channel::{Receiver, Sender},
    },
    task::yield_now,
    time::{self, sleep_until},
};
use hal::sync::Lock;
use smoltcp::{
    iface::{self, PollResult, SocketSet},
    socket::{dhcpv4, dns},
    time::{Duration, Instant},
    wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr, Ipv4Cidr},
};

/// So many frames or sockets are seen to before others of this core have their turn.
const TURN: usize = 64;
/// So many segments of one socket are sent before others have their turn.
const BURST: usize = 16;
/// Once in so many turns the link is asked whether it is still there, however much there is to do.
const LOOKS: u32 = 256;
/// So many closed connections wait for late segments at once; the oldest are forgotten first.
const MOST_WAITING: usize = 256;
/// A socket that is due is looked at no sooner than so much later.
const SOONEST: Duration = Duration::from_millis(1);

/// What an interface has done.
#[derive(Default, Debug)]
pub struct Counters {
    /// Frames that have come.
    pub received: AtomicU64,
    /// Frames that were sent.
    pub sent: AtomicU64,
    /// Answers for which there was no room.
    pub not_sent: AtomicU64,
    /// Connections that were accepted for a listener.
    pub accepted: AtomicU64,
    /// Connections that a listener had no room for.
    pub overflowed: AtomicU64,
    /// Connections that are open, or on their way to or from that.
    pub open: AtomicUsize,
}

/// What all share of an interface.
pub struct Interface {
    pub name: String,
    pub hardware: Option<[u8; 6]>,
    pub counters: Counters,
    /// Rings when its addresses change.
    pub changed: Notify,
    /// What it is called in the network, once that is known.
    config: Lock<Option<Static>>,
    /// Its link is gone, and its task. Written under the table's lock, and read there.
    pub is_gone: AtomicBool,
    /// The longest datagram.
    pub most: usize,
    /// Names that are asked for, until the task has seen them.
    pub questions: Mutex<Vec<Question>>,
    todo: Sender<Arc<Socket>>,
}

impl Interface {
    pub fn new(
        name: &str,
        hardware: Option<[u8; 6]>,
        longest: usize,
        todo: Sender<Arc<Socket>>,
    ) -> Self {
        // Headers of Ethernet, IP and UDP.
        let headers = if hardware.is_some() { 14 + 28 } else { 28 };
        Self {
            name: name.into(),
            hardware,
            counters: Counters::default(),
            changed: Notify::new(),
            config: Lock::new(None),
            is_gone: AtomicBool::new(false),
            most: longest.saturating_sub(headers),
            questions: Mutex::new(Vec::new()),
            todo,
        }
    }

    /// What it is called in the network, if that is known.
    pub fn config(&self) -> Option<Static> {
        *self.config.lock()
    }

    /// Puts a socket onto the list of those with something to do.
    /// False: its task is gone with its link, or there is no memory for that.
    pub fn list(&self, socket: Arc<Socket>) -> bool {
        self.todo.try_send(socket).is_ok()
    }
}

/// Why a socket is seen to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The frame that was taken is for it.
    Frame,
    /// It was on a list.
    Listed,
    /// Its time has come.
    Due,
}

/// What only the task has.
pub struct Runner {
    shared: Arc<Shared>,
    interface: Arc<Interface>,
    services: Arc<Socket>,
    own: Own,
    link: alloc::boxed::Box<dyn Link>,
    smoltcp: iface::Interface,
    todo: Receiver<Arc<Socket>>,
    /// Those for which the link had no room.
    stalled: VecDeque<Arc<Socket>>,
    /// Those that wait for a hardware address.
    unresolved: Vec<Arc<Socket>>,
    /// Closed connections that wait for late segments, the oldest first.
    waiting: VecDeque<Arc<Socket>>,
    /// When which socket is looked at: by time, and where it is in memory.
    due: BTreeMap<(Instant, usize), Arc<Socket>>,
    /// A frame, copied out of the device's buffer: nobody changes it while it is looked at.
    frame: Vec<u8>,
}

/// smoltcp's word for now.
pub fn now() -> Instant {
    Instant::from_micros((time::Instant::now().as_nanos() / 1000) as i64)
}

fn wakes_at(at: Instant) -> time::Instant {
    time::Instant::from_nanos(at.total_micros().max(0) as u64 * 1000)
}

impl Runner {
    /// Makes the two halves of an interface: this one and the sockets of its own.
    pub fn new(
        shared: Arc<Shared>,
        interface: Arc<Interface>,
        mut link: alloc::boxed::Box<dyn Link>,
        todo: Receiver<Arc<Socket>>,
        addresses: &Addresses,
    ) -> Self {
        let hardware = match link.address() {
            Some(address) => HardwareAddress::Ethernet(EthernetAddress(address)),
            None => HardwareAddress::Ip,
        };
        let mut config = iface::Config::new(hardware);
        config.random_seed = seed(link.address());
        let mut wire = Wire::new(&mut *link, None, &interface.counters);
        let smoltcp = iface::Interface::new(config, &mut wire, now());
        let mut cell = Cell::new(dns::Socket::new(&[], vec![]));
        let dhcp = matches!(addresses, Addresses::Dhcp).then(|| {
            let socket = dhcpv4::Socket::new();
            cell.set.add(socket)
        });
        let frame = Vec::with_capacity(link.longest());
        Self {
            services: Socket::new(Address::Own, interface.clone(), cell),
            own: Own::new(dhcp),
            shared,
            interface,
            link,
            smoltcp,
            todo,
            stalled: VecDeque::new(),
            unresolved: Vec::new(),
            waiting: VecDeque::new(),
            due: BTreeMap::new(),
            frame,
        }
    }

    /// The sockets of the interface itself.
    pub fn services(&self) -> Arc<Socket> {
        self.services.clone()
    }

    /// Runs until the link is gone.
    pub async fn run(mut self, addresses: Addresses) {
        if let Addresses::Static(config) = addresses {
            self.configure(Some(config)).await;
        }
        let services = self.services.clone();
        self.serve(&services, Why::Listed).await;
        for turn in 1u32.. {
            // A task that always has something to do would never hear that the link is gone.
            if turn.is_multiple_of(LOOKS) && self.is_gone().await {
                break;
            }
            let frames = self.take_frames().await;
            let listed = self.serve_listed().await;
            let due = self.serve_due().await;
            if frames + listed + due > 0 {
                yield_now().await;
            } else if !self.wait().await {
                break;
            }
        }
        self.end().await;
    }

    async fn is_gone(&mut self) -> bool {
        let link = &mut self.link;
        poll_fn(|context| Poll::Ready(link.poll_ready(true, context) == Poll::Ready(None))).await
    }

    /// Waits until there is something to do. False: the link is gone.
    async fn wait(&mut self) -> bool {
        let next = self.due.keys().next().map(|(at, _)| wakes_at(*at));
        let mut sleeps = pin!(next.map(sleep_until));
        let mut listed = pin!(self.todo.recv());
        let for_room = !self.stalled.is_empty();
        let (link, stalled) = (&mut self.link, &mut self.stalled);
        poll_fn(|context| {
            if let Poll::Ready(is_there) = link.poll_ready(for_room, context) {
                return Poll::Ready(is_there.is_some());
            }
            if let Poll::Ready(socket) = listed.as_mut().poll(context) {
                stalled.extend(socket);
                return Poll::Ready(true);
            }
            match sleeps.as_mut().as_pin_mut() {
                Some(sleeps) => sleeps.poll(context).map(|()| true),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Sees to frames that have come. How many.
    async fn take_frames(&mut self) -> usize {
        for count in 0..TURN {
            let (frame, longest) = (&mut self.frame, self.link.longest());
            frame.clear();
            let is_one = self.link.receive(&mut |bytes| {
                frame.extend_from_slice(&bytes[..bytes.len().min(longest)]);
            });
            if !is_one {
                return count;
            }
            self.interface.counters.received.fetch_add(1, Relaxed);
            self.take_frame().await;
        }
        TURN
    }

    /// Sees to the frame that was taken.
    async fn take_frame(&mut self) {
        let kind = address_of(&self.frame, self.interface.hardware.is_some());
        match kind {
            Kind::For(address) | Kind::Opens(address) => {
                // What comes here is for sockets that are here: another interface's would be ended by it.
                let found = self.shared.table.lock().find(&address);
                let found = found.filter(|socket| Arc::ptr_eq(&socket.interface, &self.interface));
                match found {
                    Some(socket) if !self.is_to_be_replaced(&socket, kind).await => {
                        self.serve(&socket, Why::Frame).await;
                    }
                    _ if matches!(kind, Kind::Opens(_)) => self.open(address).await,
                    _ => self.serve_own(address).await,
                }
            }
            Kind::Neighbour => {
                self.serve_nobody();
                for socket in core::mem::take(&mut self.unresolved) {
                    if let Ok(mut cell) = socket.lock().await {
                        cell.is_unresolved = false;
                    }
                    self.stalled.push_back(socket);
                }
            }
            Kind::Other => self.serve_nobody(),
        }
    }

    /// Whether a connection is only there for late segments, and this is the first of a new one between the same ends.
    async fn is_to_be_replaced(&mut self, socket: &Arc<Socket>, kind: Kind) -> bool {
        if !matches!(kind, Kind::Opens(_)) {
            return false;
        }
        let is_waiting = match socket.lock().await {
            Ok(cell) => cell.is_waiting,
            Err(_) => true,
        };
        if is_waiting {
            self.forget(socket).await;
        }
        is_waiting
    }

    /// A frame for no socket of the table: it may be for the interface's own.
    async fn serve_own(&mut self, address: Address) {
        match address {
            Address::Udp(_) => {
                let services = self.services.clone();
                self.serve(&services, Why::Frame).await;
            }
            _ => self.serve_nobody(),
        }
    }

    /// A frame for no socket: smoltcp answers it by itself, if that is to be.
    fn serve_nobody(&mut self) {
        let mut nobody = SocketSet::new(Vec::new());
        let mut wire = Wire::new(&mut *self.link, Some(&self.frame), &self.interface.counters);
        self.smoltcp
            .poll_ingress_single(now(), &mut wire, &mut nobody);
    }

    /// Somebody wants to open a connection that is not there.
    async fn open(&mut self, address: Address) {
        let Address::Tcp(here, _) = address else {
            return;
        };
        let backlog = self.shared.table.lock().listener(here.port());
        let Some(backlog) = backlog.filter(|_| self.smoltcp.has_ip_addr(*here.ip())) else {
            return self.serve_nobody();
        };
        // Without an answer: who asks does so again.
        let Some(cell) = backlog.prepare(here) else {
            self.interface.counters.overflowed.fetch_add(1, Relaxed);
            return;
        };
        let socket = Socket::new(address, self.interface.clone(), cell);
        self.interface.counters.open.fetch_add(1, Relaxed);
        self.shared.table.lock().insert(socket.clone());
        self.serve(&socket, Why::Frame).await;
    }

    /// Sees to sockets with something to do. How many.
    async fn serve_listed(&mut self) -> usize {
        // What is stalled now: those that stall again are for the next time.
        let mut stalled = self.stalled.len().min(TURN);
        for count in 0..TURN {
            let next = match stalled > 0 && self.link.has_room() {
                true => self.stalled.pop_front(),
                false => None,
            };
            stalled = stalled.saturating_sub(1);
            let Some(socket) = next.or_else(|| self.todo.try_recv().ok()) else {
                return count;
            };
            self.serve(&socket, Why::Listed).await;
        }
        TURN
    }

    /// Sees to sockets whose time has come. How many.
    async fn serve_due(&mut self) -> usize {
        let now = now();
        for count in 0..TURN {
            let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) else {
                return count;
            };
            let socket = entry.remove();
            if let Ok(mut cell) = socket.lock().await {
                cell.due = None;
            }
            self.serve(&socket, Why::Due).await;
        }
        TURN
    }

    /// Lets smoltcp see to one socket: the frame that was taken is for it, or it has something to send, or its time has come.
    async fn serve(&mut self, socket: &Arc<Socket>, why: Why) {
        let with_frame = why == Why::Frame;
        let questions = match socket.address {
            Address::Own => core::mem::take(&mut *self.interface.questions.lock().await),
            _ => Vec::new(),
        };
        let Ok(mut cell) = socket.lock().await else {
            return self.forget(socket).await;
        };
        let now = now();
        let (is_own, is_left) = (socket.address == Address::Own, socket.is_left());
        let cell_mut = &mut *cell;
        if why == Why::Listed {
            cell_mut.is_listed = false;
        }
        match is_own {
            true => self.own.before(cell_mut, &mut self.smoltcp, questions),
            false => cell_mut.before(&socket.address, &mut self.smoltcp, now),
        }
        let frame = with_frame.then_some(&self.frame[..]);
        let mut wire = Wire::new(&mut *self.link, frame, &self.interface.counters);
        if with_frame {
            self.smoltcp
                .poll_ingress_single(now, &mut wire, &mut cell_mut.set);
        }
        if is_left {
            cell_mut.leave(&socket.address, now);
        }
        let mut bursts = 0;
        let is_stalled = loop {
            if !wire.link.has_room() {
                let due = self.smoltcp.poll_at(now, &cell_mut.set);
                break due.is_some_and(|due| due <= now);
            }
            match self.smoltcp.poll_egress(now, &mut wire, &mut cell_mut.set) {
                PollResult::None => break false,
                PollResult::SocketStateChanged if bursts == BURST => break true,
                PollResult::SocketStateChanged => bursts += 1,
            }
        };
        let is_unresolved = wire.wanted > wire.sent && !is_stalled && !with_frame;
        if is_own {
            let heard = self.own.after(cell_mut);
            self.set_due(socket, cell_mut, now);
            drop(cell);
            if let Some(config) = heard {
                self.configure(config).await;
            }
            return;
        }
        cell_mut.note_unresolved(&socket.address, is_unresolved, now);
        let after = cell_mut.after(&socket.address, is_left, now);
        if after.is_over {
            cell_mut.is_over = true;
        } else {
            if !is_stalled {
                self.set_due(socket, cell_mut, now);
            } else if !core::mem::replace(&mut cell_mut.is_listed, true) {
                self.stalled.push_back(socket.clone());
            }
            if is_unresolved && !core::mem::replace(&mut cell_mut.is_unresolved, true) {
                self.unresolved.push(socket.clone());
            }
        }
        let is_waiting = after.is_late && !core::mem::replace(&mut cell_mut.is_waiting, true);
        drop(cell);
        if let Some(backlog) = after.opened {
            self.interface.counters.accepted.fetch_add(1, Relaxed);
            backlog.hand_over(TcpStream::new(socket.clone()));
        }
        for waker in after.wakers.into_iter().flatten() {
            waker.wake();
        }
        if after.is_over {
            self.forget(socket).await;
        } else if is_waiting {
            self.waiting.push_back(socket.clone());
            if self.waiting.len() > MOST_WAITING
                && let Some(oldest) = self.waiting.pop_front()
            {
                self.forget(&oldest).await;
            }
        }
    }

    /// Notes when a socket is to be looked at again.
    fn set_due(&mut self, socket: &Arc<Socket>, cell: &mut Cell, now: Instant) {
        let due = self.smoltcp.poll_at(now, &cell.set);
        let due = due
            .into_iter()
            .chain(cell.ends)
            .chain(cell.gives_up())
            .min();
        let Some(due) = due.map(|due| due.max(now + SOONEST)) else {
            return;
        };
        let place = Arc::as_ptr(socket) as usize;
        if let Some(earlier) = cell.due {
            // One look too early costs less than to move it each time.
            if earlier <= due {
                return;
            }
            self.due.remove(&(earlier, place));
        }
        cell.due = Some(due);
        self.due.insert((due, place), socket.clone());
    }

    /// A socket is not found by frames any more.
    async fn forget(&mut self, socket: &Arc<Socket>) {
        let removed = self.shared.table.lock().remove(socket);
        if removed.is_some() && matches!(socket.address, Address::Tcp(..)) {
            self.interface.counters.open.fetch_sub(1, Relaxed);
        }
        if let Ok(mut cell) = socket.lock().await {
            cell.is_over = true;
            if core::mem::take(&mut cell.is_unresolved) {
                self.unresolved.retain(|other| !Arc::ptr_eq(other, socket));
            }
            if let Some(backlog) = cell.backlog.take() {
                backlog.lose();
            }
            if let Some(due) = cell.due.take() {
                self.due.remove(&(due, Arc::as_ptr(socket) as usize));
            }
        }
    }

    /// The interface has this address from now on, or none.
    async fn configure(&mut self, config: Option<Static>) {
        if self.interface.config() == config {
            return;
        }
        self.smoltcp.update_ip_addrs(|addresses| {
            addresses.clear();
            if let Some(config) = &config {
                let own = Ipv4Cidr::new(config.address, config.prefix);
                // There is room for two.
                let _ = addresses.push(IpCidr::Ipv4(own));
            }
        });
        self.smoltcp.routes_mut().remove_default_ipv4_route();
        if let Some(gateway) = config.as_ref().and_then(|config| config.gateway) {
            // There is room for two.
            let _ = self.smoltcp.routes_mut().add_default_ipv4_route(gateway);
        }
        if let Ok(mut cell) = self.services.lock().await {
            let servers = config.as_ref().and_then(|config| config.names);
            let servers: Vec<IpAddress> = servers.into_iter().map(IpAddress::Ipv4).collect();
            cell.socket::<dns::Socket<'_>>().update_servers(&servers);
        }
        match &config {
            Some(config) => log::info!(
                "{} has address {}/{}",
                self.interface.name,
                config.address,
                config.prefix
            ),
            None => log::info!("{} has no address any more", self.interface.name),
        }
        *self.interface.config.lock() = config;
        self.interface.changed.notify_waiters();
    }

    /// The link is gone: so is every connection on it.
    async fn end(mut self) {
        log::warn!("{} is gone", self.interface.name);
        self.configure(None).await;
        self.todo.close();
        let all = self.shared.take_all(&self.interface);
        // Who asked for names is told by this, too.
        self.interface.questions.lock().await.clear();
        for socket in all {
            if let Ok(mut cell) = socket.lock().await {
                if matches!(socket.address, Address::Tcp(..)) {
                    cell.tcp().abort();
                }
                cell.is_over = true;
                if let Some(backlog) = cell.backlog.take() {
                    backlog.lose();
                }
                let (reader, writer) = (cell.reader.take(), cell.writer.take());
                drop(cell);
                for waker in [reader, writer].into_iter().flatten() {
                    waker.wake();
                }
            }
        }
    }
}

/// Where smoltcp's random numbers begin: a stranger should not guess them.
fn seed(hardware: Option<[u8; 6]>) -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    let mut seed = time::Instant::now().as_nanos() ^ count.rotate_left(32);
    for byte in hardware.unwrap_or_default() {
        seed = seed.rotate_left(8) ^ u64::from(byte);
    }
    // Each bit of what is above changes half of those below (splitmix64).
    seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}
