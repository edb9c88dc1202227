//! The sockets of an interface itself: names, and its own address.

use crate::{
    NetError,
    socket::Cell,
    stack::{Net, Static, can_be_somebody},
};
use alloc::{string::String, vec::Vec};
use core::net::Ipv4Addr;
use executor::sync::oneshot;
use smoltcp::{
    iface::{self, SocketHandle},
    socket::{
        dhcpv4,
        dns::{self, GetQueryResultError, QueryHandle},
    },
    wire::{DnsQueryType, IpAddress},
};

/// What the answer to a question is.
type Answer = Result<Vec<Ipv4Addr>, NetError>;

/// A name that is asked for, and who asks.
pub struct Question {
    pub name: String,
    pub answer: oneshot::Sender<Answer>,
}

/// What the interface's task does with its own sockets.
pub struct Own {
    dhcp: Option<SocketHandle>,
    asked: Vec<(QueryHandle, oneshot::Sender<Answer>)>,
}

impl Own {
    pub fn new(dhcp: Option<SocketHandle>) -> Self {
        Self {
            dhcp,
            asked: Vec::new(),
        }
    }

    /// Asks these, before smoltcp sees to the sockets.
    pub fn before(
        &mut self,
        cell: &mut Cell,
        smoltcp: &mut iface::Interface,
        questions: Vec<Question>,
    ) {
        for Question { name, answer } in questions {
            let socket = cell.socket::<dns::Socket<'_>>();
            match socket.start_query(smoltcp.context(), &name, DnsQueryType::A) {
                Ok(handle) => self.asked.push((handle, answer)),
                // Who asked may be gone.
                Err(_) => drop(answer.send(Err(NetError::NoSuchName))),
            }
        }
    }

    /// Gives answers that have come to who asked; and what was heard of the interface's address, if something was.
    pub fn after(&mut self, cell: &mut Cell) -> Option<Option<Static>> {
        let mut at = 0;
        while let Some((handle, _)) = self.asked.get(at) {
            let socket = cell.socket::<dns::Socket<'_>>();
            let answer = match socket.get_query_result(*handle) {
                Ok(addresses) => Ok(addresses
                    .iter()
                    .map(|IpAddress::Ipv4(address)| *address)
                    .collect()),
                Err(GetQueryResultError::Pending) => {
                    at += 1;
                    continue;
                }
                Err(GetQueryResultError::Failed) => Err(NetError::NoSuchName),
            };
            // Who asked may be gone.
            let (_, asked) = self.asked.swap_remove(at);
            let _ = asked.send(answer);
        }
        let socket = cell.set.get_mut::<dhcpv4::Socket<'_>>(self.dhcp?);
        Some(match socket.poll()? {
            dhcpv4::Event::Configured(config) => {
                let names = config.dns_servers.first().copied();
                let told = Static {
                    address: config.address.address(),
                    prefix: config.address.prefix_len(),
                    // smoltcp asks for the hardware address of whatever it is told, and panics if nobody can have it.
                    gateway: config.router.filter(|router| can_be_somebody(*router)),
                    names: names.filter(|names| can_be_somebody(*names)),
                };
                Some(told).filter(Static::can_be)
            }
            dhcpv4::Event::Deconfigured => None,
        })
    }
}

impl Net {
    /// The addresses of a name. One that is an address in figures is that; `localhost` is this machine.
    pub async fn resolve(&self, name: &str) -> Result<Vec<Ipv4Addr>, NetError> {
        if let Ok(address) = name.parse() {
            return Ok(alloc::vec![address]);
        }
        if name == "localhost" {
            return Ok(alloc::vec![Ipv4Addr::LOCALHOST]);
        }
        let (interface, own) = self.names().ok_or(NetError::Unreachable)?;
        let (answer, answered) = oneshot::channel();
        interface.questions.lock().await.push(Question {
            name: name.into(),
            answer,
        });
        if !own.list(own.lock().await?) {
            return Err(NetError::Unreachable);
        }
        answered.await.map_err(|_| NetError::Unreachable)?
    }
}
