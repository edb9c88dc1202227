//! Bytes from one to one, of whom either may be an interrupt, and either may wait.
//!
//! What an interrupt does to it is [`Writer::put`] or [`Reader::take`], and then [`wake`](Writer::wake): none of them
//! waits or allocates. The ends are owned, so there is one at each, and nothing has to be locked.

use super::ring::Ring;
use crate::{
    memory::{Counted, NoMemory},
    sync::{WakerSlot, proceed},
    task::waits_for,
};
use core::{
    error, fmt,
    future::poll_fn,
    sync::atomic::{AtomicBool, Ordering::*},
    task::{Context, Poll, ready},
};

struct Shared {
    ring: Ring,
    /// Who waits for bytes.
    reader: WakerSlot,
    /// Who waits for room.
    writer: WakerSlot,
    has_reader: AtomicBool,
    has_writer: AtomicBool,
}

/// The end where bytes are put in.
pub struct Writer(Counted<Shared>);

/// The end where they are taken out.
pub struct Reader(Counted<Shared>);

/// Wakes who waits at one end, for who cannot be at the other: because that is behind a lock under which nobody is to be woken.
pub struct Bell {
    pipe: Counted<Shared>,
    end: fn(&Shared) -> &WakerSlot,
}

impl Bell {
    /// Wakes who waits there.
    pub fn ring(&self) {
        (self.end)(&self.pipe).wake();
    }
}

/// Waits for room, for who cannot wait with the writer: because that is behind a lock.
pub struct Room(Counted<Shared>);

impl Room {
    /// Waits until there is room for a byte, or the reader is gone. One at a time: of two who wait, only the last is woken.
    pub async fn wait(&self) {
        poll_fn(|cx| {
            self.0.writer.register(cx.waker());
            let is_full = self.0.ring.len() == self.0.ring.capacity();
            // Acquire pairs with the release in the reader's drop.
            if is_full && self.0.has_reader.load(Acquire) {
                waits_for(&"pipe");
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await
    }
}

/// The other end is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other end of the pipe is gone")
    }
}

impl error::Error for Closed {}

/// A pipe with room for at least `capacity` bytes.
///
/// ```
/// use executor::{block_on_simple, io::pipe};
///
/// let (mut writer, mut reader) = pipe(16);
/// let interrupt = std::thread::spawn(move || {
///     writer.put(b"hello");
///     writer.wake();
/// });
/// let mut room = [0; 8];
/// let count = block_on_simple(reader.read(&mut room));
/// assert_eq!(&room[..count], b"hello");
/// assert_eq!(block_on_simple(reader.read(&mut room)), 0, "the writer is gone");
/// # interrupt.join().unwrap();
/// ```
///
/// # Panics
/// Without memory: see [`try_pipe`].
pub fn pipe(capacity: usize) -> (Writer, Reader) {
    try_pipe(capacity).expect("there is memory for a pipe")
}

/// The same, which says if there is no memory for it.
pub fn try_pipe(capacity: usize) -> Result<(Writer, Reader), NoMemory> {
    let shared = Shared {
        ring: Ring::try_new(capacity)?,
        reader: WakerSlot::new(),
        writer: WakerSlot::new(),
        has_reader: AtomicBool::new(true),
        has_writer: AtomicBool::new(true),
    };
    let shared = Counted::try_new(shared).map_err(|_| NoMemory)?;
    Ok((Writer(shared.clone()), Reader(shared)))
}

impl Writer {
    /// Puts in what there is room for: how many bytes. The reader is woken by [`wake`](Self::wake), when all that comes at once is in.
    pub fn put(&mut self, bytes: &[u8]) -> usize {
        // SAFETY: there is one writer, and it is borrowed.
        unsafe { self.0.ring.put(bytes) }
    }

    /// Wakes who waits for bytes.
    pub fn wake(&self) {
        self.0.reader.wake();
    }

    /// The same for somebody else.
    pub fn bell(&self) -> Bell {
        Bell {
            pipe: self.0.clone(),
            end: |pipe| &pipe.reader,
        }
    }

    /// For who waits for room elsewhere.
    pub fn room_elsewhere(&self) -> Room {
        Room(self.0.clone())
    }

    /// Puts in what there is room for, and waits until that is at least a byte: how many.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<usize, Closed> {
        poll_fn(|cx| self.poll_write(cx, bytes)).await
    }

    /// The same, as a poll.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Closed>> {
        ready!(proceed(cx));
        let put = |this: &mut Self| {
            if this.is_closed() {
                return Some(Err(Closed));
            }
            let count = this.put(bytes);
            (count != 0 || bytes.is_empty()).then_some(Ok(count))
        };
        let mut result = put(self);
        if result.is_none() {
            self.0.writer.register(cx.waker());
            // Once more: room that was made before this had nobody to wake.
            result = put(self);
        }
        let Some(result) = result else {
            waits_for(&"pipe");
            return Poll::Pending;
        };
        self.wake();
        Poll::Ready(result)
    }

    /// Whether the reader is gone.
    pub fn is_closed(&self) -> bool {
        // Acquire pairs with the release in its drop.
        !self.0.has_reader.load(Acquire)
    }

    /// Bytes that nobody has taken yet, at most.
    pub fn pending(&self) -> usize {
        self.0.ring.len()
    }

    /// Bytes that there is room for, at least.
    pub fn room(&self) -> usize {
        self.0.ring.capacity() - self.0.ring.len()
    }

    /// Waits until all bytes are taken.
    pub async fn flush(&mut self) -> Result<(), Closed> {
        poll_fn(|cx| {
            self.0.writer.register(cx.waker());
            match (self.pending(), self.is_closed()) {
                (0, _) => Poll::Ready(Ok(())),
                (_, true) => Poll::Ready(Err(Closed)),
                (_, false) => {
                    waits_for(&"pipe");
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Release pairs with the acquire in `Reader::is_closed`: all that was put is seen after that.
        self.0.has_writer.store(false, Release);
        self.0.reader.wake();
    }
}

impl Reader {
    /// Takes what is there and fits: how many bytes. The writer is woken by [`wake`](Self::wake).
    pub fn take(&mut self, room: &mut [u8]) -> usize {
        // SAFETY: there is one reader, and it is borrowed.
        unsafe { self.0.ring.take(room) }
    }

    /// Shows what is there to `use_it`, in one or two pieces, and takes as many as that says, until it takes less than it was shown.
    pub fn take_with(&mut self, use_it: impl FnMut(&[u8]) -> usize) -> usize {
        // SAFETY: as above.
        unsafe { self.0.ring.take_with(use_it) }
    }

    /// Wakes who waits for room.
    pub fn wake(&self) {
        self.0.writer.wake();
    }

    /// The same for somebody else.
    pub fn bell(&self) -> Bell {
        Bell {
            pipe: self.0.clone(),
            end: |pipe| &pipe.writer,
        }
    }

    /// Takes what is there and fits, and waits until that is at least a byte: how many. 0: the writer is gone.
    pub async fn read(&mut self, room: &mut [u8]) -> usize {
        poll_fn(|cx| self.poll_read(cx, room)).await
    }

    /// The same, as a poll.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<usize> {
        ready!(proceed(cx));
        let mut take = |this: &mut Self| {
            // Asked first: what was put before it went is taken.
            let is_closed = this.is_closed();
            let count = this.take(room);
            (count != 0 || room.is_empty() || is_closed).then_some(count)
        };
        let mut result = take(self);
        if result.is_none() {
            self.0.reader.register(cx.waker());
            // Once more: a byte that came before this had nobody to wake.
            result = take(self);
        }
        let Some(count) = result else {
            waits_for(&"pipe");
            return Poll::Pending;
        };
        self.wake();
        Poll::Ready(count)
    }

    /// Whether the writer is gone. What it has put is there all the same.
    pub fn is_closed(&self) -> bool {
        // Acquire pairs with the release in its drop.
        !self.0.has_writer.load(Acquire)
    }

    /// Bytes that are there, at least.
    pub fn available(&self) -> usize {
        self.0.ring.len()
    }

    /// How many fit.
    pub fn capacity(&self) -> usize {
        self.0.ring.capacity()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Release pairs with the acquire in `Writer::is_closed`.
        self.0.has_reader.store(false, Release);
        self.0.writer.wake();
    }
}
