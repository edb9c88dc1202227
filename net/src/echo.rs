//! A server that sends back what it gets.

use crate::{NetError, TcpListener, TcpStream};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use executor::{sync::Semaphore, task::Builder};

/// Bytes that are sent back at a time.
const PIECE: usize = 512;

/// What it has done.
#[derive(Default, Debug)]
pub struct Echoed {
    /// Connections that it has now.
    pub open: AtomicU64,
    /// Connections that it had.
    pub connections: AtomicU64,
    /// Bytes that it sent back.
    pub bytes: AtomicU64,
}

/// Sends back whatever comes, for ever; each connection has a task of its own. At most so many at once; others wait.
pub async fn serve(
    listener: &TcpListener,
    echoed: &Arc<Echoed>,
    most: usize,
) -> Result<(), NetError> {
    let room = Arc::new(Semaphore::new(most));
    loop {
        let permit = room.clone().acquire_owned().await;
        let (stream, _) = listener.accept().await?;
        echoed.connections.fetch_add(1, Relaxed);
        let open = Open::new(echoed.clone());
        let task = Builder::new().name("echo").try_spawn(async move {
            let _permit = permit;
            // However it ends, it concerns nobody else.
            let _ = one(stream, &open.0).await;
        });
        match task {
            Ok(task) => task.detach(),
            // It is closed: the stream went with the task.
            Err(_) => log::warn!("echo: there is no memory for a connection"),
        }
    }
}

/// Counts a connection as long as it lives.
struct Open(Arc<Echoed>);

impl Open {
    fn new(echoed: Arc<Echoed>) -> Self {
        echoed.open.fetch_add(1, Relaxed);
        Self(echoed)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

async fn one(mut stream: TcpStream, echoed: &Echoed) -> Result<(), NetError> {
    let mut piece = [0; PIECE];
    loop {
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&piece[..count]).await?;
        echoed.bytes.fetch_add(count as u64, Relaxed);
    }
}
