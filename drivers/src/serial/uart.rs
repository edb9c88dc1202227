//! A serial port that is driven by its interrupts.
//!
//! ```text
//!            interrupt                          tasks
//! device -> Port.receive -> ring of bytes -> Rx  (embedded_io_async::Read)
//! device <- Port.send    <- ring of bytes <- Tx  (embedded_io_async::Write)
//! ```
//!
//! The interrupt moves bytes between the port's FIFOs and the rings, a burst at a time, and wakes; [`Rx`] and [`Tx`] touch the rings without a lock, and the
//! port only when it has to be started again: `Rx` when it has made room in a ring that was full, `Tx` when nothing was being sent.
//! When nobody reads, the ring fills, and the port is not asked for more: whoever sends has to wait then, if the line can tell him
//! (QEMU's can), or the port's FIFO overflows, which is counted.

use super::{Registers, Serial};
use alloc::sync::Arc;
use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use embedded_io_async::{ErrorKind, ErrorType, Read, Write};
use executor::{
    NoMemory,
    io::{
        AttachError, Attached, OnInterrupt, Seen,
        lines::attach,
        pipe::{Bell, Reader, Room, Writer, try_pipe},
    },
};
use hal::{irq::Line, sync::Lock};

/// Room for what has arrived and was not read, and for what is to be sent.
const RECEIVE_ROOM: usize = 4096;
const SEND_ROOM: usize = 16384;
/// Most bytes that one interrupt takes, and sends.
const BURST: usize = 64;
const SEND_BURST: usize = 32;

/// The port, for who holds its lock: the interrupt, or one who starts it again.
struct Port {
    serial: Serial,
    /// Where received bytes go.
    received: Writer,
    /// Where those come from that are to be sent.
    to_send: Reader,
    /// Received bytes interrupt: there was room for them.
    receives: bool,
    /// Room to send interrupts: there was something to send.
    sends: bool,
}

/// How many bytes went which way.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Times that bytes were lost or damaged on their way in.
    pub overruns: u64,
    /// Times that the ring of received bytes was full, and the port had to wait.
    pub waits: u64,
}

/// What both halves and the interrupt share.
struct Shared {
    port: Lock<Option<Port>>,
    /// Who waits for bytes, and for room.
    reader: Bell,
    writer: Bell,
    received: AtomicU64,
    sent: AtomicU64,
    overruns: AtomicU64,
    waits: AtomicU64,
}

impl Port {
    /// Takes what has arrived, as far as there is room. Whether anything had.
    fn receive(&mut self, shared: &Shared) -> bool {
        let mut bytes = [0; BURST];
        let room = self.received.room().min(BURST);
        let (mut count, mut damaged) = (0, 0);
        while count < room {
            match self.serial.receive() {
                Some(Ok(byte)) => {
                    bytes[count] = byte;
                    count += 1;
                }
                Some(Err(_)) => damaged += 1,
                None => break,
            }
        }
        if self.serial.has_overrun() {
            damaged += 1;
        }
        // There was room for all of them, and only this one fills it.
        self.received.put(&bytes[..count]);
        add(&shared.received, count as u64);
        add(&shared.overruns, damaged);
        self.receives = self.received.room() != 0;
        if !self.receives {
            add(&shared.waits, 1);
        }
        count != 0 || damaged != 0
    }

    /// Sends what there is, as far as there is room. Whether anything was sent.
    fn send(&mut self, shared: &Shared) -> bool {
        let Self {
            serial, to_send, ..
        } = self;
        serial.clear_send_interrupt();
        // One burst, also where the ring wraps: a PL011 that is not more than half full after this would not interrupt again.
        let mut left = SEND_BURST;
        let count = to_send.take_with(|bytes| {
            let sent = serial.send_some(&bytes[..bytes.len().min(left)]);
            left -= sent;
            sent
        });
        add(&shared.sent, count as u64);
        self.sends = to_send.available() != 0;
        count != 0
    }

    /// Sends all there is, waiting where it must.
    fn send_all(&mut self, shared: &Shared) {
        while self.to_send.available() != 0 {
            if !self.send(shared) {
                hal::pause();
            }
        }
    }

    fn set_interrupts(&mut self) {
        self.serial.set_interrupts(self.receives, self.sends);
    }
}

/// Only who holds the port's lock writes it.
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Relaxed) + more, Relaxed);
}

impl OnInterrupt for Shared {
    fn on_interrupt(&self) -> Seen {
        let mut held = self.port.lock();
        let Some(port) = held.as_mut() else {
            return Seen::Nothing;
        };
        let has_received = port.receive(self);
        // Somebody may have sent it all by hand: who waits for room hears of it here.
        let has_sent = port.sends | port.send(self);
        port.set_interrupts();
        // The bytes first, then the wake, and that without the port's lock.
        drop(held);
        if has_received {
            self.reader.ring();
        }
        if has_sent {
            self.writer.ring();
        }
        match has_received || has_sent {
            true => Seen::Work,
            false => Seen::Nothing,
        }
    }
}

impl Shared {
    /// Does something with the port, if it is not stopped.
    fn with_port(&self, what: impl FnOnce(&mut Port)) {
        if let Some(port) = self.port.lock().as_mut() {
            what(port);
        }
    }

    /// Something was taken: the port may have waited for that. Asked under its lock: either it sees the room, or this sees that it waits.
    fn go_on_receiving(&self) {
        self.with_port(|port| {
            if !port.receives {
                port.receive(self);
                port.set_interrupts();
            }
        });
    }

    /// Something is there to be sent: if the port has nothing to do, its interrupt does not come by itself.
    fn go_on_sending(&self) {
        self.with_port(|port| {
            if !port.sends {
                port.send(self);
                // Also if there was no room for any of it.
                if port.sends {
                    port.set_interrupts();
                }
            }
        });
    }
}

/// A port that runs. When it is dropped the port is quiet, [`Rx`] reads no more and [`Tx`] is refused.
pub struct Uart {
    shared: Arc<Shared>,
    /// Dropped first: after that nobody interrupts.
    line: Option<Attached>,
}

impl Uart {
    /// Lets the port's interrupts drive it, on `core` or one that has little to do. What was received so far is the first that is read. If it
    /// cannot be, the port is given back.
    #[allow(
        clippy::result_large_err,
        reason = "the port is given back, without memory too"
    )]
    pub fn start(
        serial: Serial,
        line: Line,
        core: Option<usize>,
    ) -> Result<(Self, Rx, Tx), (Serial, UartError)> {
        let pipes = try_pipe(RECEIVE_ROOM).and_then(|one| Ok((one, try_pipe(SEND_ROOM)?)));
        let ((received, from), (to, to_send)) = match pipes {
            Ok(pipes) => pipes,
            Err(NoMemory) => return Err((serial, UartError::NoMemory)),
        };
        let shared = Arc::new(Shared {
            reader: received.bell(),
            writer: to_send.bell(),
            port: Lock::new(Some(Port {
                serial,
                received,
                to_send,
                receives: true,
                sends: false,
            })),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            overruns: AtomicU64::new(0),
            waits: AtomicU64::new(0),
        });
        // The way first, then the interrupt: one that came before the way was open would be lost,
        // and with it, where lines work by edges, all that come after.
        let line = match attach(line, core, shared.clone()) {
            Ok(line) => line,
            Err(error) => {
                let port = shared.port.lock().take();
                let serial = port.expect("nobody has it yet").serial;
                return Err((serial, UartError::Line(error)));
            }
        };
        shared.with_port(Port::set_interrupts);
        let rx = Rx {
            shared: shared.clone(),
            bytes: from,
        };
        let tx = Tx {
            shared: shared.clone(),
            bytes: to,
        };
        let line = Some(line);
        Ok((Self { shared, line }, rx, tx))
    }

    /// Stops it: all that was written is sent, and the port is as it was before.
    pub fn stop(mut self) -> Option<Serial> {
        self.end()
    }

    fn end(&mut self) -> Option<Serial> {
        drop(self.line.take());
        let mut port = self.shared.port.lock().take()?;
        port.send_all(&self.shared);
        port.serial.set_interrupts(false, false);
        Some(port.serial)
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Its interrupt.
    pub fn line(&self) -> Option<&Attached> {
        self.line.as_ref()
    }
}

impl Shared {
    fn counts(&self) -> Counts {
        Counts {
            received: self.received.load(Relaxed),
            sent: self.sent.load(Relaxed),
            overruns: self.overruns.load(Relaxed),
            waits: self.waits.load(Relaxed),
        }
    }
}

impl Drop for Uart {
    fn drop(&mut self) {
        self.end();
    }
}

/// Why a port was not started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UartError {
    /// There is no memory for it.
    NoMemory,
    /// Its interrupt cannot be had.
    Line(AttachError),
}

impl From<NoMemory> for UartError {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}

impl From<AttachError> for UartError {
    fn from(error: AttachError) -> Self {
        Self::Line(error)
    }
}

impl fmt::Display for UartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => fmt::Display::fmt(&NoMemory, f),
            Self::Line(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl core::error::Error for UartError {}

/// The port was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the serial port was stopped")
    }
}

impl core::error::Error for Gone {}

impl embedded_io_async::Error for Gone {
    fn kind(&self) -> ErrorKind {
        ErrorKind::BrokenPipe
    }
}

/// The half that reads.
pub struct Rx {
    shared: Arc<Shared>,
    bytes: Reader,
}

impl ErrorType for Rx {
    type Error = Gone;
}

impl Read for Rx {
    /// Waits for at least a byte. `Ok(0)`: the port was stopped, and all that it received is read.
    async fn read(&mut self, room: &mut [u8]) -> Result<usize, Gone> {
        let count = self.bytes.read(room).await;
        self.shared.go_on_receiving();
        Ok(count)
    }
}

impl Rx {
    /// Takes what is there, and fits, without waiting.
    pub fn try_read(&mut self, room: &mut [u8]) -> usize {
        let count = self.bytes.take(room);
        self.shared.go_on_receiving();
        count
    }

    /// What the port has done.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

/// The half that writes.
pub struct Tx {
    shared: Arc<Shared>,
    bytes: Writer,
}

impl ErrorType for Tx {
    type Error = Gone;
}

impl Write for Tx {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Gone> {
        let count = self.bytes.write(bytes).await.map_err(|_| Gone)?;
        self.begin();
        Ok(count)
    }

    /// Waits until the port has taken all of it.
    async fn flush(&mut self) -> Result<(), Gone> {
        self.bytes.flush().await.map_err(|_| Gone)
    }
}

impl Tx {
    /// Writes what there is room for, without waiting: how many bytes.
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize, Gone> {
        if self.bytes.is_closed() {
            return Err(Gone);
        }
        let count = self.bytes.put(bytes);
        self.begin();
        Ok(count)
    }

    /// For who waits for room while others have this.
    pub fn room(&self) -> Room {
        self.bytes.room_elsewhere()
    }

    /// Writes all of `bytes`, in any context, also with interrupts masked: if there is no room it sends by hand until there is.
    pub fn write_now(&mut self, mut bytes: &[u8]) {
        loop {
            bytes = &bytes[self.bytes.put(bytes)..];
            if bytes.is_empty() || self.bytes.is_closed() {
                return;
            }
            self.shared.with_port(|port| {
                if !port.send(&self.shared) {
                    hal::pause();
                }
                port.set_interrupts();
            });
        }
    }

    /// What was written is to be sent: the port begins, if it does not do that already.
    pub fn begin(&self) {
        self.shared.go_on_sending();
    }

    /// Sends all that was written, by hand.
    pub fn send_all(&self) {
        self.shared.with_port(|port| {
            port.send_all(&self.shared);
            // One more interrupt: there is room, and perhaps somebody waits for that.
            port.sends = true;
            port.set_interrupts();
        });
    }

    /// Sends all that was written past the port's lock.
    ///
    /// # Safety
    /// No other core runs: the lock may be held by one that was stopped.
    pub unsafe fn send_past_lock(&self, registers: Registers) {
        // SAFETY: nobody else is at it, the caller says, but perhaps what was interrupted here: that does not go on.
        if let Some(port) = unsafe { &mut *self.shared.port.data_ptr() } {
            port.to_send.take_with(|bytes| {
                registers.send(bytes);
                bytes.len()
            });
        }
    }
}
