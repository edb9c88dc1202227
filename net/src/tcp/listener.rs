//! Who accepts connections.

use super::{Options, TcpStream};
use crate::{Net, NetError, socket::Cell};
use alloc::sync::Arc;
use core::{
    fmt,
    net::SocketAddrV4,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use executor::sync::channel::{Receiver, Sender, try_bounded};

/// Accepts connections at a port, from all interfaces. Several tasks may accept at once. Without it the port is free again;
/// connections that nobody has accepted are closed.
pub struct TcpListener {
    port: u16,
    backlog: Arc<Backlog>,
    opened: Receiver<TcpStream>,
}

/// Connections that wait to be accepted.
pub struct Backlog {
    options: Options,
    opened: Sender<TcpStream>,
    /// How many there are, with those that are on their way.
    count: AtomicUsize,
}

impl Backlog {
    /// Nobody accepts any more.
    pub fn is_closed(&self) -> bool {
        self.opened.is_closed()
    }

    /// A connection that has begun, at `here`. None: there is no room for it.
    pub fn prepare(self: &Arc<Self>, here: SocketAddrV4) -> Option<Cell> {
        if self.count.fetch_add(1, Relaxed) < self.options.backlog
            && let Ok(mut cell) = self.options.cell()
            && cell.tcp().listen(here).is_ok()
        {
            cell.backlog = Some(self.clone());
            return Some(cell);
        }
        self.lose();
        None
    }

    /// One is open.
    pub fn hand_over(&self, stream: TcpStream) {
        // There is room for all that are counted. If nobody accepts any more, it is closed.
        if self.opened.try_send(stream).is_err() {
            self.lose();
        }
    }

    /// One is not to be accepted any more.
    pub fn lose(&self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

impl TcpListener {
    /// Listens at a port.
    pub async fn bind(net: &Net, port: u16) -> Result<Self, NetError> {
        Self::bind_with(net, port, Options::default()).await
    }

    /// The same, for connections that have this.
    pub async fn bind_with(net: &Net, port: u16, options: Options) -> Result<Self, NetError> {
        let (sender, opened) = try_bounded(options.backlog.max(1))?;
        let backlog = Arc::new(Backlog {
            options,
            opened: sender,
            count: AtomicUsize::new(0),
        });
        let mut table = net.shared().table.lock();
        table.listen(port, backlog.clone())?;
        Ok(Self {
            port,
            backlog,
            opened,
        })
    }

    /// The next connection that is open, and whose it is.
    pub async fn accept(&self) -> Result<(TcpStream, SocketAddrV4), NetError> {
        let stream = self.opened.recv().await.map_err(|_| NetError::Closed)?;
        self.backlog.lose();
        let there = stream.peer();
        Ok((stream, there))
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
