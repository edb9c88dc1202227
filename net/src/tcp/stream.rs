//! An end of a connection.

use super::Options;
use crate::{
    Net, NetError,
    frames::Address,
    socket::{Cell, Sends, Socket, reader, writer},
    stack::{At, end},
};
use alloc::sync::Arc;
use core::{fmt, net::SocketAddrV4, sync::atomic::Ordering::Relaxed};
use embedded_io_async::{ErrorType, Read, Write};
use executor::time::Instant;
use smoltcp::socket::tcp::{RecvError, State};

/// A connection. Without it, what was written is still sent, and the connection closed after that.
pub struct TcpStream(Arc<End>);

/// What reads of a connection.
pub struct ReadHalf(Arc<End>);

/// What writes to one. Without it, and the other half, the connection is closed.
pub struct WriteHalf(Arc<End>);

/// What both halves share.
struct End(Arc<Socket>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl End {
    fn ends(&self) -> (SocketAddrV4, SocketAddrV4) {
        match self.0.address {
            Address::Tcp(here, there) => (here, there),
            _ => unreachable!("it is made for these only"),
        }
    }

    async fn read(&self, into: &mut [u8]) -> Result<usize, NetError> {
        if into.is_empty() {
            return Ok(0);
        }
        let read = |cell: &mut Cell| {
            let socket = cell.tcp();
            match socket.recv_slice(into) {
                Ok(0) => None,
                // There is room again, and the other side may have to be told.
                Ok(count) => Some((Ok(count), Sends::Now)),
                Err(RecvError::Finished) => Some((Ok(0), Sends::Nothing)),
                Err(RecvError::InvalidState) => Some((Err(NetError::Reset), Sends::Nothing)),
            }
        };
        self.0.ask(reader, read).await?
    }

    async fn write(&self, from: &[u8]) -> Result<usize, NetError> {
        if from.is_empty() {
            return Ok(0);
        }
        let write = |cell: &mut Cell| match cell.tcp().send_slice(from) {
            Ok(0) => None,
            Ok(count) => Some((Ok(count), Sends::Now)),
            Err(_) => Some((Err(closed(cell)), Sends::Nothing)),
        };
        self.0.ask(writer, write).await?
    }

    /// Waits until all that was written has arrived.
    async fn flush(&self) -> Result<(), NetError> {
        let flush = |cell: &mut Cell| match cell.tcp().send_queue() {
            0 => Some((Ok(()), Sends::Nothing)),
            _ if !cell.tcp().is_active() => Some((Err(NetError::Reset), Sends::Nothing)),
            _ => None,
        };
        self.0.ask(writer, flush).await?
    }

    async fn finish(&self) -> Result<(), NetError> {
        let mut cell = self.0.lock().await?;
        cell.tcp().close();
        self.0.list(cell);
        Ok(())
    }
}

/// Why nothing can be written.
fn closed(cell: &mut Cell) -> NetError {
    match cell.tcp().state() {
        State::Closed => NetError::Reset,
        _ => NetError::Closed,
    }
}

impl TcpStream {
    pub(crate) fn new(socket: Arc<Socket>) -> Self {
        Self(Arc::new(End(socket)))
    }

    /// Connects to somebody.
    pub async fn connect(net: &Net, to: SocketAddrV4) -> Result<Self, NetError> {
        Self::connect_with(net, to, Options::default()).await
    }

    /// The same, for a connection that has this.
    pub async fn connect_with(
        net: &Net,
        to: SocketAddrV4,
        options: Options,
    ) -> Result<Self, NetError> {
        let (interface, own) = net.route(*to.ip())?;
        let mut cell = options.cell()?;
        cell.connects_to = Some(to);
        let open = &interface.counters.open;
        let make = |address| Ok(Socket::new(address, interface.clone(), cell));
        let socket = net.place(At::AnyPort(|port| Address::Tcp(end(own, port), to)), make)?;
        open.fetch_add(1, Relaxed);
        let began = Instant::now();
        // From here on it is closed when this is dropped.
        let stream = Self::new(socket.clone());
        socket.list(socket.lock().await?);
        let opened = |cell: &mut Cell| match cell.tcp().state() {
            State::SynSent => None,
            State::Closed if cell.connects_to.is_some() && !cell.is_over => None,
            State::Closed if began.elapsed() >= options.patience => {
                Some((Err(NetError::TimedOut), Sends::Nothing))
            }
            State::Closed => Some((Err(NetError::Refused), Sends::Nothing)),
            _ => Some((Ok(()), Sends::Nothing)),
        };
        socket.ask(writer, opened).await??;
        Ok(stream)
    }

    /// Where the other end is.
    pub fn peer(&self) -> SocketAddrV4 {
        self.0.ends().1
    }

    /// Where this end is.
    pub fn local(&self) -> SocketAddrV4 {
        self.0.ends().0
    }

    /// Reads what has come, and waits until something has. 0: the other side has closed it.
    pub async fn read(&mut self, into: &mut [u8]) -> Result<usize, NetError> {
        self.0.read(into).await
    }

    /// Writes as much as there is room for, and waits until there is some.
    pub async fn write(&mut self, from: &[u8]) -> Result<usize, NetError> {
        self.0.write(from).await
    }

    /// Writes all of it.
    pub async fn write_all(&mut self, mut from: &[u8]) -> Result<(), NetError> {
        while !from.is_empty() {
            from = &from[self.0.write(from).await?..];
        }
        Ok(())
    }

    /// Waits until all that was written has arrived.
    pub async fn flush(&mut self) -> Result<(), NetError> {
        self.0.flush().await
    }

    /// Nothing more is written: the other side hears that after all that was. It can still be read.
    pub async fn finish(&mut self) -> Result<(), NetError> {
        self.0.finish().await
    }

    /// One half that reads and one that writes, for two tasks.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (ReadHalf(self.0.clone()), WriteHalf(self.0))
    }
}

impl ReadHalf {
    /// Reads what has come, and waits until something has. 0: the other side has closed it.
    pub async fn read(&mut self, into: &mut [u8]) -> Result<usize, NetError> {
        self.0.read(into).await
    }
}

impl WriteHalf {
    /// Writes as much as there is room for, and waits until there is some.
    pub async fn write(&mut self, from: &[u8]) -> Result<usize, NetError> {
        self.0.write(from).await
    }

    /// Waits until all that was written has arrived.
    pub async fn flush(&mut self) -> Result<(), NetError> {
        self.0.flush().await
    }

    /// Nothing more is written: the other side hears that after all that was.
    pub async fn finish(&mut self) -> Result<(), NetError> {
        self.0.finish().await
    }
}

macro_rules! traits {
    ($($reads:ty),*; $($writes:ty),*) => {
        $(impl Read for $reads {
            async fn read(&mut self, into: &mut [u8]) -> Result<usize, NetError> {
                self.0.read(into).await
            }
        })*
        $(impl Write for $writes {
            async fn write(&mut self, from: &[u8]) -> Result<usize, NetError> {
                self.0.write(from).await
            }

            async fn flush(&mut self) -> Result<(), NetError> {
                self.0.flush().await
            }
        })*
    };
}

macro_rules! common {
    ($($end:ident),*) => {$(
        impl ErrorType for $end {
            type Error = NetError;
        }

        impl fmt::Debug for $end {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (here, there) = self.0.ends();
                write!(f, concat!(stringify!($end), "({} to {})"), here, there)
            }
        }
    )*};
}

traits!(TcpStream, ReadHalf; TcpStream, WriteHalf);
common!(TcpStream, ReadHalf, WriteHalf);
