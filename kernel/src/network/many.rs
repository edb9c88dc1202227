//! Many connections at once, over a link to oneself: what each takes, and how long an echo does. For the tests and the benches.

use crate::mem;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{
    fmt,
    net::{Ipv4Addr, SocketAddrV4},
};
use executor::{
    spawn,
    sync::{Mutex, Semaphore},
    task::TaskHandle,
    time::{Duration, Instant},
};
use net::{Addresses, Loopback, Net, NetError, Options, Static, TcpListener, TcpStream, echo};

/// Bytes of an echo.
const MESSAGE: usize = 32;
/// Connections that are opened at once.
const OPENING: usize = 128;
const PORT: u16 = 7;

/// What there was before, and what was seen.
pub struct Figures {
    /// Connections that were open at the same time; each has two ends here.
    pub connections: usize,
    /// Bytes of memory that they took, with their tasks.
    pub bytes: usize,
    /// How long it took to open one, on average.
    pub opening: Duration,
    /// Echoes of one connection at a time, among all that are open.
    pub alone: Latency,
    /// Echoes of all at once.
    pub together: Latency,
}

/// How long echoes took.
pub struct Latency {
    sorted: Vec<u32>,
}

impl Latency {
    fn new(mut nanos: Vec<u32>) -> Self {
        nanos.sort_unstable();
        Self { sorted: nanos }
    }

    /// So many of a thousand took no longer than this, in nanoseconds.
    pub fn per_mille(&self, share: usize) -> u32 {
        let at = (self.sorted.len() * share).div_ceil(1000).max(1) - 1;
        self.sorted.get(at).copied().unwrap_or(0)
    }

    /// How many echoes there were.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_connection = self.bytes / self.connections.max(1);
        writeln!(
            f,
            "  {} connections, both ends here: {} KiB, {per_connection} bytes each; opened in {} us each",
            self.connections,
            self.bytes / 1024,
            self.opening.as_micros()
        )?;
        writeln!(
            f,
            "  echo of {MESSAGE} bytes       count        P50        P99       P999"
        )?;
        for (what, latency) in [
            ("one at a time", &self.alone),
            ("all at once", &self.together),
        ] {
            write!(f, "  {what:<18} {:>12}", latency.count())?;
            for share in [500, 990, 999] {
                write!(f, " {:>7} us", latency.per_mille(share) / 1000)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A connection, and how long each of its echoes took.
type Echoed = (Client, Vec<u32>);

/// A client's connection.
struct Client {
    number: usize,
    stream: TcpStream,
}

impl Client {
    /// Sends a message of its own and waits for it, as often as told; how long each took.
    async fn echo(&mut self, rounds: usize, nanos: &mut Vec<u32>) -> Result<(), NetError> {
        for round in 0..rounds {
            let mut message = [round as u8; MESSAGE];
            message[..8].copy_from_slice(&self.number.to_le_bytes());
            let began = Instant::now();
            self.stream.write_all(&message).await?;
            let (mut back, mut at) = ([0; MESSAGE], 0);
            while at < MESSAGE {
                match self.stream.read(&mut back[at..]).await? {
                    0 => return Err(NetError::Reset),
                    count => at += count,
                }
            }
            assert_eq!(back, message, "connection {}", self.number);
            nanos.push(u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        Ok(())
    }
}

/// Opens so many connections to an echo server, lets single ones echo and then all, `rounds` times each.
pub async fn measure(count: usize, rounds: usize) -> Result<Figures, NetError> {
    let small = Options {
        receive: 256,
        send: 256,
        backlog: 2 * OPENING,
        ..Options::default()
    };
    let net = Net::new();
    let own = Addresses::Static(Static::LOOPBACK);
    net.attach("lo", Box::new(Loopback::new()), own)?;
    net.address_of("lo").await?;
    let listener = TcpListener::bind_with(&net, PORT, small).await?;
    let echoed = Arc::new(echo::Echoed::default());
    let counts = echoed.clone();
    let server = spawn(async move { echo::serve(&listener, &counts, count).await });
    let before = mem::stats().frames_free;
    let began = Instant::now();
    let mut clients = open(&net, count, small).await?;
    let opening = began.elapsed() / count.max(1) as u32;

    // Single ones, spread over all.
    let mut nanos = Vec::with_capacity(1000);
    for number in 0..1000 {
        let which = number * 7919 % count;
        clients[which].echo(1, &mut nanos).await?;
    }
    let alone = Latency::new(core::mem::take(&mut nanos));

    // All at once: each has a task of its own, which waits for the word.
    let word = Arc::new(Semaphore::new(0));
    let tasks: Vec<TaskHandle<Result<Echoed, NetError>>> = clients
        .into_iter()
        .map(|mut client| {
            let word = word.clone();
            spawn(async move {
                let permit = word.acquire().await.map_err(|_| NetError::Closed)?;
                permit.forget();
                let mut nanos = Vec::with_capacity(rounds);
                client.echo(rounds, &mut nanos).await?;
                Ok((client, nanos))
            })
        })
        .collect();
    let bytes = before.saturating_sub(mem::stats().frames_free) * 4096;
    word.add_permits(count);
    let mut clients = Vec::with_capacity(count);
    for task in tasks {
        let (client, own) = task.await.map_err(|_| NetError::Reset)??;
        nanos.extend(own);
        // It stays open until all have been echoed.
        clients.push(client);
    }
    server.cancel();
    Ok(Figures {
        connections: clients.len(),
        bytes,
        opening,
        alone,
        together: Latency::new(nanos),
    })
}

/// Opens them, a few at a time.
async fn open(net: &Net, count: usize, options: Options) -> Result<Vec<Client>, NetError> {
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);
    let room = Arc::new(Semaphore::new(OPENING));
    let opened = Arc::new(Mutex::new(Vec::with_capacity(count)));
    let mut openers = Vec::with_capacity(count);
    for number in 0..count {
        let permit = room.clone().acquire_owned().await;
        let (net, opened) = (net.clone(), opened.clone());
        openers.push(spawn(async move {
            let stream = TcpStream::connect_with(&net, to, options).await?;
            opened.lock().await.push(Client { number, stream });
            drop(permit);
            Ok::<(), NetError>(())
        }));
    }
    for opener in openers {
        opener.await.map_err(|_| NetError::Reset)??;
    }
    let mut clients = core::mem::take(&mut *opened.lock().await);
    clients.sort_unstable_by_key(|client| client.number);
    Ok(clients)
}
