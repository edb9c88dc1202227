//! All of a network: its interfaces, and which socket is for what.

use crate::{
    NetError,
    frames::Address,
    interface::{Interface, Runner},
    socket::Socket,
    tcp::Backlog,
};
use alloc::{boxed::Box, collections::BTreeMap, format, string::String, sync::Arc, vec::Vec};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::sync::atomic::Ordering::Relaxed;
use drivers::link::Link;
use executor::{sync::channel::unbounded, task::Builder};
use hal::sync::{Lock, Rank, ranked};

/// Ports that are given to who does not say which he wants.
const FIRST_PORT: u16 = 32768;
const PORTS: usize = 1 << 15;

/// A network: clones are the same one.
#[derive(Clone)]
pub struct Net(Arc<Shared>);

/// Where an interface has its address from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// It asks the network for it (DHCP).
    Dhcp,
    /// It is told.
    Static(Static),
}

/// What an interface is called in the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Static {
    /// Its address.
    pub address: Ipv4Addr,
    /// How many bits of that all in its network have in common.
    pub prefix: u8,
    /// By whom all others are reached.
    pub gateway: Option<Ipv4Addr>,
    /// Who knows names.
    pub names: Option<Ipv4Addr>,
}

impl Static {
    /// This machine, for itself.
    pub const LOOPBACK: Self = Self {
        address: Ipv4Addr::LOCALHOST,
        prefix: 8,
        gateway: None,
        names: None,
    };

    /// Whether somebody can be called that.
    pub fn can_be(&self) -> bool {
        let others = self.gateway.into_iter().chain(self.names);
        self.prefix <= 32 && can_be_somebody(self.address) && { others }.all(can_be_somebody)
    }

    /// Whether the other is in the same network.
    pub fn has(&self, other: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32)));
        let mask = mask.unwrap_or(0);
        self.address.to_bits() & mask == other.to_bits() & mask
    }
}

/// Whether an address can be that of one machine.
pub(crate) fn can_be_somebody(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_broadcast() || address.is_multicast())
}

/// What is known of an interface.
#[derive(Clone, Debug)]
pub struct InterfaceInfo {
    /// Its name.
    pub name: String,
    /// Its hardware's address, if it has one.
    pub hardware: Option<[u8; 6]>,
    /// What it is called in the network, once that is known.
    pub config: Option<Static>,
    /// Frames that have come, were sent, and could not be.
    pub frames: [u64; 3],
    /// Connections on it now; accepted ones since the beginning; those for which a listener had no room.
    pub connections: [u64; 3],
}

/// An interface, and its own sockets.
struct Attached {
    interface: Arc<Interface>,
    own: Arc<Socket>,
}

/// What the tasks of all interfaces share. Locks of the kernel's kind, for a search each: thousands of tasks may connect at
/// once, and a mutex would have to look at all of them, and their priorities, whenever it is handed over.
pub struct Shared {
    pub table: Lock<Table>,
    attached: Lock<Vec<Attached>>,
}

/// Which socket is for what.
pub struct Table {
    sockets: BTreeMap<Address, Arc<Socket>>,
    listeners: BTreeMap<u16, Arc<Backlog>>,
    next_port: u16,
}

impl Table {
    pub fn find(&self, address: &Address) -> Option<Arc<Socket>> {
        self.sockets.get(address).cloned()
    }

    pub fn insert(&mut self, socket: Arc<Socket>) {
        self.sockets.insert(socket.address, socket);
    }

    /// Removes it, unless another has taken its place. What is returned is dropped without the lock: it may be the last of its kind.
    pub fn remove(&mut self, socket: &Arc<Socket>) -> Option<Arc<Socket>> {
        let other = self.sockets.get(&socket.address)?;
        if !Arc::ptr_eq(other, socket) {
            return None;
        }
        self.sockets.remove(&socket.address)
    }

    /// Who listens at a port.
    pub fn listener(&mut self, port: u16) -> Option<Arc<Backlog>> {
        if self.listeners.get(&port)?.is_closed() {
            self.listeners.remove(&port);
        }
        self.listeners.get(&port).cloned()
    }

    pub fn listen(&mut self, port: u16, backlog: Arc<Backlog>) -> Result<(), NetError> {
        if self.listener(port).is_some() {
            return Err(NetError::InUse);
        }
        self.listeners.insert(port, backlog);
        Ok(())
    }

    /// An address that nobody has, of those that `with` makes of ports.
    fn free(&mut self, with: impl Fn(u16) -> Address) -> Result<Address, NetError> {
        for _ in 0..PORTS {
            let port = self.next_port;
            self.next_port = FIRST_PORT | port.wrapping_add(1);
            let address = with(port);
            if !self.sockets.contains_key(&address) && !self.listeners.contains_key(&port) {
                return Ok(address);
            }
        }
        Err(NetError::NoPorts)
    }
}

impl Shared {
    /// Takes all sockets of an interface out of the table.
    pub fn take_all(&self, interface: &Arc<Interface>) -> Vec<Arc<Socket>> {
        let is_its = |socket: &Arc<Socket>| Arc::ptr_eq(&socket.interface, interface);
        self.attached
            .lock()
            .retain(|attached| !Arc::ptr_eq(&attached.interface, interface));
        let mut table = self.table.lock();
        // Under the lock: who makes a socket for it looks under the same.
        interface.is_gone.store(true, Relaxed);
        let all = table.sockets.values().filter(|socket| is_its(socket));
        let all: Vec<_> = all.cloned().collect();
        for socket in &all {
            table.sockets.remove(&socket.address);
        }
        all
    }
}

impl Default for Net {
    fn default() -> Self {
        Self::new()
    }
}

impl Net {
    /// One without interfaces.
    pub fn new() -> Self {
        let now = executor::time::Instant::now().as_nanos();
        Self(Arc::new(Shared {
            table: ranked(
                Rank::Growing,
                Table {
                    sockets: BTreeMap::new(),
                    listeners: BTreeMap::new(),
                    // Not the same after each start: the other side may remember the last.
                    next_port: FIRST_PORT | (now / 1000) as u16,
                },
            ),
            attached: ranked(Rank::Growing, Vec::new()),
        }))
    }

    /// Makes an interface of a link, and spawns its task on this runtime.
    pub fn attach(
        &self,
        name: &str,
        link: Box<dyn Link>,
        addresses: Addresses,
    ) -> Result<(), NetError> {
        if let Addresses::Static(config) = &addresses
            && !config.can_be()
        {
            return Err(NetError::BadAddress);
        }
        let mut attached = self.0.attached.lock();
        if attached.iter().any(|other| other.interface.name == name) {
            return Err(NetError::InUse);
        }
        let (sender, todo) = unbounded();
        let interface = Arc::new(Interface::new(name, link.address(), link.longest(), sender));
        let runner = Runner::new(self.0.clone(), interface.clone(), link, todo, &addresses);
        attached.push(Attached {
            interface,
            own: runner.services(),
        });
        drop(attached);
        // Not more urgent than those it serves: it shares locks with them, and on a machine with one core an urgent task that meets a lock whose owner
        // was preempted before he could say so looks for him again and again, and keeps him from running.
        Builder::new()
            .name(format!("net {name}"))
            .spawn(runner.run(addresses))
            .detach();
        Ok(())
    }

    /// All interfaces.
    pub fn interfaces(&self) -> Vec<InterfaceInfo> {
        let mut all = Vec::new();
        let attached = self.0.attached.lock();
        for Attached { interface, .. } in attached.iter() {
            let counters = &interface.counters;
            all.push(InterfaceInfo {
                name: interface.name.clone(),
                hardware: interface.hardware,
                config: interface.config(),
                frames: [&counters.received, &counters.sent, &counters.not_sent]
                    .map(|counter| counter.load(Relaxed)),
                connections: [
                    counters.open.load(Relaxed) as u64,
                    counters.accepted.load(Relaxed),
                    counters.overflowed.load(Relaxed),
                ],
            });
        }
        all
    }

    /// Waits until an interface has an address, and returns that. Unreachable: there is no interface of that name.
    pub async fn address_of(&self, name: &str) -> Result<Static, NetError> {
        let interface = self.interface(name).ok_or(NetError::Unreachable)?;
        loop {
            // Made before the look: what changes in between is heard.
            let changed = interface.changed.notified();
            if let Some(config) = interface.config() {
                return Ok(config);
            }
            changed.await;
        }
    }

    fn interface(&self, name: &str) -> Option<Arc<Interface>> {
        let attached = self.0.attached.lock();
        let found = attached.iter().find(|other| other.interface.name == name);
        found.map(|found| found.interface.clone())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// By which interface somebody is reached, and its own address.
    pub(crate) fn route(&self, to: Ipv4Addr) -> Result<(Arc<Interface>, Ipv4Addr), NetError> {
        let mut by_gateway = None;
        for Attached { interface, .. } in self.0.attached.lock().iter() {
            let Some(config) = interface.config() else {
                continue;
            };
            if config.has(to) {
                return Ok((interface.clone(), config.address));
            }
            if config.gateway.is_some() && by_gateway.is_none() {
                by_gateway = Some((interface.clone(), config.address));
            }
        }
        by_gateway.ok_or(NetError::Unreachable)
    }

    /// The interface of an address of this machine; of 0.0.0.0: the first that leads to others, or else the first.
    pub(crate) fn interface_at(
        &self,
        own: Ipv4Addr,
    ) -> Result<(Arc<Interface>, Ipv4Addr), NetError> {
        let mut first = None;
        for Attached { interface, .. } in self.0.attached.lock().iter() {
            let Some(config) = interface.config() else {
                continue;
            };
            let found = (interface.clone(), config.address);
            if config.address == own || own.is_unspecified() && !config.address.is_loopback() {
                return Ok(found);
            }
            first = first.or(Some(found));
        }
        first
            .filter(|_| own.is_unspecified())
            .ok_or(NetError::Unreachable)
    }

    /// An interface by which names can be asked for, and its own sockets.
    pub(crate) fn names(&self) -> Option<(Arc<Interface>, Arc<Socket>)> {
        for Attached { interface, own } in self.0.attached.lock().iter() {
            let config = interface.config();
            if config.is_some_and(|config| config.names.is_some()) {
                return Some((interface.clone(), own.clone()));
            }
        }
        None
    }

    /// A socket's place in the table: at this address, or at one with a port that nobody has.
    pub(crate) fn place(
        &self,
        at: At<impl Fn(u16) -> Address>,
        make: impl FnOnce(Address) -> Result<Arc<Socket>, NetError>,
    ) -> Result<Arc<Socket>, NetError> {
        let mut table = self.0.table.lock();
        let address = match at {
            At::Just(address) if table.sockets.contains_key(&address) => {
                return Err(NetError::InUse);
            }
            At::Just(address) => address,
            At::AnyPort(with) => table.free(with)?,
        };
        let socket = make(address)?;
        if socket.interface.is_gone.load(Relaxed) {
            return Err(NetError::Unreachable);
        }
        table.insert(socket.clone());
        Ok(socket)
    }

    /// How many sockets there are.
    pub fn sockets(&self) -> usize {
        self.0.table.lock().sockets.len()
    }
}

/// Which place in the table.
pub(crate) enum At<F> {
    Just(Address),
    /// Made of a port.
    AnyPort(F),
}

/// An end of a connection, of its interface and port.
pub(crate) fn end(address: Ipv4Addr, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(address, port)
}
