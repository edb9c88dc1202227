//! A socket: smoltcp's, in a set of its own, and who waits for it.
//!
//! Whoever uses one locks its [`Cell`], does what he wants to the socket, and [lists](Socket::list) it: the interface's task then lets smoltcp send.
//! That task locks it too, for each frame that comes for it. Nobody awaits anything with the lock held, and wakers are woken after it.

use crate::{NetError, frames::Address, interface::Interface, tcp::Backlog};
use alloc::{sync::Arc, vec, vec::Vec};
use core::{
    future::poll_fn,
    sync::atomic::{AtomicBool, Ordering::*},
    task::{Poll, Waker},
};
use executor::sync::{Mutex, MutexGuard};
use smoltcp::{
    iface::{self, SocketHandle, SocketSet},
    socket::{AnySocket, icmp, tcp, tcp::State, udp},
    time::{Duration, Instant},
};

/// A connection that is about to open has no longer than this for it: there is little room for such.
const OPENING: Duration = Duration::from_secs(10);
/// Datagrams to who does not say his hardware address are dropped after so long, with those behind them.
const UNRESOLVED: Duration = Duration::from_secs(3);
/// A connection that nobody uses any more ends after so long, whatever the other side does.
const LINGER: Duration = Duration::from_secs(60);

/// A socket, shared by the table, by who uses it, and by the interface's task for as long as that has to do with it.
pub struct Socket {
    pub address: Address,
    pub interface: Arc<Interface>,
    /// Nobody uses it any more. Written before it is listed: the list's order makes it seen.
    is_left: AtomicBool,
    pub cell: Mutex<Cell>,
}

/// What the lock guards.
pub struct Cell {
    /// One socket; those of an interface itself are two.
    pub set: SocketSet<'static>,
    pub handle: SocketHandle,
    /// Who waits until there is something to read, and until something can be written, or is over.
    pub reader: Option<Waker>,
    pub writer: Option<Waker>,
    /// It is on the interface's list.
    pub is_listed: bool,
    /// Where it is to be connected to.
    pub connects_to: Option<core::net::SocketAddrV4>,
    /// Who accepts it, until it is open.
    pub backlog: Option<Arc<Backlog>>,
    /// After so long without an answer to what was sent, a connection is given up.
    pub patience: Duration,
    /// When the interface's task looks at it again.
    pub due: Option<Instant>,
    /// When it ends, whatever the other side does: nobody uses it any more.
    pub ends: Option<Instant>,
    /// Since when an answer to its last word is due.
    pub finished: Option<Instant>,
    /// It is on the list of those that wait for a hardware address; and since when.
    pub is_unresolved: bool,
    pub unresolved_since: Option<Instant>,
    /// It is among those that wait for late segments of a connection that is closed.
    pub is_waiting: bool,
    /// It is not in the table any more.
    pub is_over: bool,
}

impl Cell {
    /// A cell around one socket.
    pub fn new<T: AnySocket<'static>>(socket: T) -> Self {
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(socket);
        Self {
            set,
            handle,
            reader: None,
            writer: None,
            is_listed: false,
            connects_to: None,
            backlog: None,
            patience: Duration::MAX,
            due: None,
            ends: None,
            finished: None,
            is_unresolved: false,
            unresolved_since: None,
            is_waiting: false,
            is_over: false,
        }
    }

    /// The socket itself.
    pub fn socket<T: AnySocket<'static>>(&mut self) -> &mut T {
        self.set.get_mut(self.handle)
    }

    /// The socket of a connection.
    pub fn tcp(&mut self) -> &mut tcp::Socket<'static> {
        self.socket()
    }
}

/// What is to be done after smoltcp has seen to a socket, and its lock was unlocked.
pub struct After {
    /// Frames do not find it any more.
    pub is_over: bool,
    /// The connection is closed, and only there for late segments.
    pub is_late: bool,
    /// The connection is open, and goes to who accepts it.
    pub opened: Option<Arc<Backlog>>,
    /// Who is woken.
    pub wakers: [Option<Waker>; 2],
}

impl Cell {
    /// Does what its users have asked for, before smoltcp sees to it. By the interface's task.
    pub fn before(&mut self, address: &Address, smoltcp: &mut iface::Interface, now: Instant) {
        let Address::Tcp(here, _) = *address else {
            return;
        };
        if let Some(there) = self.connects_to.take() {
            let context = smoltcp.context();
            // If it cannot be, it stays closed: who waits sees that.
            let _ = self.tcp().connect(context, there, here);
        }
        let ends = self.ends.into_iter().chain(self.gives_up()).min();
        if ends.is_some_and(|ends| ends <= now) {
            self.tcp().abort();
        }
        self.set_patience();
    }

    /// smoltcp ends a connection also when it only was silent for so long: it has a limit only while an answer is due.
    fn set_patience(&mut self) {
        let patience = self.patience;
        let socket = self.tcp();
        let is_due = socket.send_queue() > 0
            || socket.keep_alive().is_some()
            || matches!(socket.state(), State::SynSent | State::SynReceived);
        let limit = match socket.state() {
            State::SynReceived => patience.min(OPENING),
            _ => patience,
        };
        socket.set_timeout(is_due.then_some(limit));
    }

    /// When the wait for an answer to our last word, which has no data, is over.
    pub fn gives_up(&self) -> Option<Instant> {
        Some(self.finished? + self.patience)
    }

    /// Notes whether it waits for a hardware address. Datagrams do not wait for ever: nothing else would come out behind them.
    pub fn note_unresolved(&mut self, address: &Address, is_unresolved: bool, now: Instant) {
        if !is_unresolved {
            self.unresolved_since = None;
            return;
        }
        let since = *self.unresolved_since.get_or_insert(now);
        if let Address::Udp(_) = address
            && now >= since + UNRESOLVED
        {
            self.unresolved_since = None;
            let socket = self.socket::<udp::Socket<'_>>();
            let at = socket.endpoint();
            socket.close();
            // It was there a moment ago.
            let _ = socket.bind(at);
        }
    }

    /// Nobody uses it any more.
    pub fn leave(&mut self, address: &Address, now: Instant) {
        match address {
            Address::Tcp(..) if self.ends.is_none() => {
                self.tcp().close();
                self.ends = Some(now + LINGER);
            }
            _ => {}
        }
    }

    /// What has come of it.
    pub fn after(&mut self, address: &Address, is_left: bool, now: Instant) -> After {
        let (is_readable, is_writable, is_over, is_late) = match address {
            Address::Tcp(..) => {
                self.set_patience();
                let socket = self.tcp();
                let state = socket.state();
                let is_last = matches!(state, State::FinWait1 | State::Closing | State::LastAck);
                let is_last = is_last && socket.send_queue() == 0;
                self.finished = is_last.then_some(self.finished.unwrap_or(now));
                let socket = self.tcp();
                (
                    socket.can_recv() || !socket.may_recv(),
                    (socket.can_send() || !socket.may_send()) && state != State::SynSent,
                    matches!(state, State::Closed | State::Listen),
                    state == State::TimeWait,
                )
            }
            Address::Udp(_) => {
                let socket = self.socket::<udp::Socket<'_>>();
                (socket.can_recv(), socket.can_send(), is_left, false)
            }
            Address::Echo(_) => {
                let socket = self.socket::<icmp::Socket<'_>>();
                (socket.can_recv(), socket.can_send(), is_left, false)
            }
            Address::Own => (false, false, false, false),
        };
        let is_open =
            !is_over && self.backlog.is_some() && self.tcp().state() != State::SynReceived;
        let reader = (is_readable || is_over).then(|| self.reader.take());
        let writer = (is_writable || is_over).then(|| self.writer.take());
        After {
            is_over,
            is_late,
            opened: is_open.then(|| self.backlog.take()).flatten(),
            wakers: [reader.flatten(), writer.flatten()],
        }
    }
}

impl Socket {
    pub fn new(address: Address, interface: Arc<Interface>, cell: Cell) -> Arc<Self> {
        Arc::new(Self {
            address,
            interface,
            is_left: AtomicBool::new(false),
            cell: Mutex::new(cell),
        })
    }

    /// Locks it.
    pub async fn lock(&self) -> Result<MutexGuard<'_, Cell>, NetError> {
        Ok(self.cell.lock().unless_poisoned().await?)
    }

    /// Lets the interface's task look at it soon: there may be something to send. False: it will not.
    pub fn list(self: &Arc<Self>, mut cell: MutexGuard<'_, Cell>) -> bool {
        let was_listed = core::mem::replace(&mut cell.is_listed, true);
        drop(cell);
        was_listed || self.interface.list(self.clone())
    }

    /// Nobody uses it any more.
    pub fn leave(self: &Arc<Self>) {
        self.is_left.store(true, Release);
        // Without a look at the lock, which may be held: twice on the list is once too many, and does no harm.
        self.interface.list(self.clone());
    }

    pub fn is_left(&self) -> bool {
        self.is_left.load(Acquire)
    }

    /// Asks `ask` until it has an answer. It is asked under the lock; without an answer, the task's waker is left where `slot` says, and it
    /// is asked again when that was woken. What it did is sent, if it says so.
    pub async fn ask<R>(
        self: &Arc<Self>,
        slot: fn(&mut Cell) -> &mut Option<Waker>,
        mut ask: impl FnMut(&mut Cell) -> Option<(R, Sends)>,
    ) -> Result<R, NetError> {
        loop {
            let mut cell = self.lock().await?;
            if let Some((answer, sends)) = ask(&mut cell) {
                if sends == Sends::Now {
                    self.list(cell);
                }
                return Ok(answer);
            }
            if cell.is_over {
                return Err(NetError::Unreachable);
            }
            poll_fn(|context| {
                *slot(&mut cell) = Some(context.waker().clone());
                Poll::Ready(())
            })
            .await;
            drop(cell);
            // Pending once: the waker is where it is woken, and the lock was held when it was put there.
            let mut was_pending = false;
            poll_fn(|_| match core::mem::replace(&mut was_pending, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
    }
}

/// Whether something may have to be sent after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sends {
    Now,
    Nothing,
}

/// Where readers leave their waker.
pub fn reader(cell: &mut Cell) -> &mut Option<Waker> {
    &mut cell.reader
}

/// Where writers do.
pub fn writer(cell: &mut Cell) -> &mut Option<Waker> {
    &mut cell.writer
}

/// Room for so many bytes.
pub fn room(size: usize) -> Result<Vec<u8>, NetError> {
    let mut room = Vec::new();
    room.try_reserve_exact(size)
        .map_err(|_| NetError::NoMemory)?;
    room.resize(size, 0);
    Ok(room)
}

/// Room for so many datagrams, and so many bytes in them.
pub fn datagrams<H: Clone>(
    count: usize,
    size: usize,
) -> Result<smoltcp::storage::PacketBuffer<'static, H>, NetError> {
    let heads = vec![smoltcp::storage::PacketMetadata::EMPTY; count];
    Ok(smoltcp::storage::PacketBuffer::new(heads, room(size)?))
}
