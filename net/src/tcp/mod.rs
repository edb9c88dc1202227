//! Connections.

mod listener;
mod stream;

pub use {
    listener::{Backlog, TcpListener},
    stream::{ReadHalf, TcpStream, WriteHalf},
};

use crate::{
    NetError,
    socket::{Cell, room},
};
use executor::time::Duration;
use smoltcp::socket::tcp;

/// What a connection has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Room for what has come and was not read, in bytes; the other side sends no more than that.
    pub receive: usize,
    /// Room for what was written and has not arrived, in bytes.
    pub send: usize,
    /// After so long without an answer to what was sent, the connection is given up.
    pub patience: Duration,
    /// So often the other side is asked whether it is still there, if nothing else is sent.
    pub keep_alive: Option<Duration>,
    /// Of a listener: so many connections wait to be accepted, or are on their way to that, at most.
    pub backlog: usize,
}

/// The largest buffers, and the longest patience.
const MOST_ROOM: usize = 16 << 20;
const MOST_PATIENCE: Duration = Duration::from_secs(24 * 3600);

impl Default for Options {
    fn default() -> Self {
        Self {
            receive: 16 * 1024,
            send: 16 * 1024,
            patience: Duration::from_secs(60),
            keep_alive: None,
            backlog: 128,
        }
    }
}

impl Options {
    /// A connection that is not open yet.
    fn make(&self) -> Result<tcp::Socket<'static>, NetError> {
        // More is no use, and smoltcp panics from a gibibyte on.
        let size = |asked: usize| asked.clamp(1, MOST_ROOM);
        let receive = tcp::SocketBuffer::new(room(size(self.receive))?);
        let send = tcp::SocketBuffer::new(room(size(self.send))?);
        let mut socket = tcp::Socket::new(receive, send);
        let keep_alive = self.keep_alive.map(|every| every.min(MOST_PATIENCE));
        socket.set_keep_alive(keep_alive.map(Into::into));
        // Who writes little at a time and waits for answers would wait for the delayed ones, too.
        socket.set_nagle_enabled(false);
        Ok(socket)
    }

    fn cell(&self) -> Result<Cell, NetError> {
        let mut cell = Cell::new(self.make()?);
        cell.patience = self.patience.min(MOST_PATIENCE).into();
        Ok(cell)
    }
}
