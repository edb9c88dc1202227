//! Virtio's disk: a [`Disk`] for whoever shares it, with many requests at once.
//!
//! A request has a *slot*: memory of the driver's own that the device reads or writes. What is written is copied there first, what was read is copied from there
//! last, so the device never has memory of a user's. Who drops a request leaves its slot behind: that is free again when the device has given it back, not before.
//! There are as many requests at once as there are slots; others wait, first come, first served.
//!
//! The interrupt half takes back what the device has done, and wakes each one that waits for it.

use super::{
    Control, EVENT_IDX, Setup, Wrong,
    queue::{Piece, Queue},
    transport::{self, Transport},
};
use crate::{
    block::{self, Answer, Disk, DiskError, SECTOR},
    dma::Dma,
};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::{
    future::{Future, poll_fn},
    mem::ManuallyDrop,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::Poll,
};
use executor::{
    io::{Attached, Device, Driver, OnInterrupt, Seen, StartError, Started, lines},
    sync::{Semaphore, WakerSlot},
};
use hal::{irq::Message, sync::Lock};

// The device's own features: it says how long a piece may be, cannot be written to, can be flushed.
const HAS_MOST: u64 = 1 << 1;
const IS_READ_ONLY: u64 = 1 << 5;
const CAN_FLUSH: u64 = 1 << 9;

// What is asked of it, and what it says.
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const DONE: u8 = 0;
const FAILED: u8 = 1;
const UNKNOWN: u8 = 2;
/// Nothing yet.
const SILENT: u8 = 0xff;

/// Most requests at once, and most bytes of one: longer ones are done in parts.
const SLOTS: usize = 64;
const MOST: usize = 32 * 1024;
const ENTRIES: u16 = 256;
/// Pieces of a request: what is to be done, the bytes, how it went.
const PIECES: usize = 3;
/// Of a slot, in the page that all share: the first piece, then the last.
const HEAD: usize = 32;
const HEAD_LENGTH: usize = 16;

/// What a slot is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Nothing; or by who is about to send it.
    Own,
    /// The device has it; so many bytes are to be read.
    Sent(u32),
    /// The device has it, and nobody waits for it any more.
    Left(u32),
    /// It was given back.
    Back(Result<(), DiskError>),
}

/// What the interrupt and those who send share.
struct State {
    queue: ManuallyDrop<Queue<u8>>,
    uses: [Use; SLOTS],
    free: Vec<u8>,
}

/// A disk.
pub struct VirtioDisk {
    control: Control,
    sectors: u64,
    is_read_only: bool,
    can_flush: bool,
    /// Most bytes of a request.
    most: usize,

    state: Lock<State>,
    /// As many as there are free slots.
    room: Semaphore,
    /// Who waits for each slot.
    bells: Vec<WakerSlot>,
    /// The bytes of each slot: its user's until it is sent, and again when it is back.
    bytes: ManuallyDrop<Vec<Dma>>,
    /// The first and the last piece of all.
    heads: ManuallyDrop<Dma>,

    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    failures: AtomicU64,
}

impl VirtioDisk {
    /// Sets a device up.
    pub fn new(transport: Box<dyn Transport>) -> Result<Self, StartError> {
        let wanted = HAS_MOST | IS_READ_ONLY | CAN_FLUSH | EVENT_IDX;
        let mut setup = Setup::begin(transport, wanted)?;
        let parts = Parts::new(&mut setup);
        let parts = parts.map_err(|error| setup.give_up(error))?;
        let (is_read_only, can_flush) = (setup.has(IS_READ_ONLY), setup.has(CAN_FLUSH));
        let slots = parts.bytes.len();
        Ok(Self {
            control: setup.finish(),
            sectors: parts.sectors,
            is_read_only,
            can_flush,
            most: parts.most,
            state: Lock::new(State {
                queue: ManuallyDrop::new(parts.queue),
                uses: [Use::Own; SLOTS],
                free: parts.free,
            }),
            room: Semaphore::new(slots),
            bells: parts.bells,
            bytes: ManuallyDrop::new(parts.bytes),
            heads: ManuallyDrop::new(parts.heads),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })
    }

    /// Why nothing is done any more.
    fn error(&self) -> DiskError {
        self.control
            .wrong()
            .map_or(DiskError::Gone, DiskError::Wrong)
    }

    fn check(&self, first: u64, length: usize) -> Result<(), DiskError> {
        if !length.is_multiple_of(SECTOR) {
            return Err(DiskError::Unaligned);
        }
        let end = first.checked_add((length / SECTOR) as u64);
        match end.is_some_and(|end| end <= self.sectors) {
            true => Ok(()),
            false => Err(DiskError::OutOfRange),
        }
    }

    /// Waits for a slot.
    async fn slot(&self) -> Result<Slot<'_>, DiskError> {
        let permit = self.room.acquire().await;
        permit.map_err(|_| self.error())?.forget();
        let free = self.state.lock().free.pop();
        // Each permit stands for one.
        let number = free.ok_or(DiskError::NoMemory)?;
        Ok(Slot { disk: self, number })
    }

    /// Takes back what the device has done. Whether that was anything.
    fn collect(&self) -> bool {
        let (mut back, mut left) = (0u64, 0);
        let mut wrong = None;
        {
            let mut state = self.state.lock();
            loop {
                match state.queue.pop() {
                    Ok(Some((slot, written))) => {
                        let number = usize::from(slot);
                        let (length, is_left) = match state.uses[number] {
                            Use::Sent(length) => (length, false),
                            Use::Left(length) => (length, true),
                            // Swept away when it was stopped.
                            Use::Own | Use::Back(_) => continue,
                        };
                        match self.outcome(number, length, written) {
                            Ok(_) if is_left => {
                                state.uses[number] = Use::Own;
                                state.free.push(slot);
                                left += 1;
                            }
                            Ok(result) => {
                                state.uses[number] = Use::Back(result);
                                back |= 1 << number;
                            }
                            Err(error) => {
                                wrong = Some(error);
                                break;
                            }
                        }
                    }
                    Ok(None) => {
                        state.queue.enable_interrupts();
                        // Once more: what came before it was let interrupt does not.
                        match state.queue.has_used() {
                            Ok(true) => {}
                            Ok(false) => break,
                            Err(error) => {
                                wrong = Some(error);
                                break;
                            }
                        }
                    }
                    Err(error) => {
                        wrong = Some(error);
                        break;
                    }
                }
            }
        }
        if left != 0 {
            self.room.add_permits(left);
        }
        for number in (0..self.bells.len()).filter(|number| back & 1 << number != 0) {
            self.bells[number].wake();
        }
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
        back != 0 || left != 0
    }

    /// What became of a slot that is back, to which the device has written so much.
    fn outcome(
        &self,
        slot: usize,
        length: u32,
        written: u32,
    ) -> Result<Result<(), DiskError>, Wrong> {
        // The order of this after the used index is the queue's.
        match self.heads.read8(HEAD * slot + HEAD_LENGTH) {
            DONE if length != 0 && written != length + 1 => {
                Err(Wrong("it has read less than it was asked for"))
            }
            DONE => Ok(Ok(())),
            FAILED | UNKNOWN => {
                self.failures.fetch_add(1, Relaxed);
                Ok(Err(DiskError::Failed))
            }
            _ => Err(Wrong("how a request went")),
        }
    }

    fn fail(&self, wrong: Wrong) {
        self.control.fail("a disk", wrong);
        self.sweep();
    }

    /// It is stopped: whoever waits is told.
    pub fn stop(&self) {
        self.control.stop();
        self.sweep();
    }

    /// Nothing comes back any more: whoever waits is told.
    fn sweep(&self) {
        let error = self.error();
        {
            let mut state = self.state.lock();
            for used in state.uses.iter_mut() {
                match used {
                    Use::Sent(_) => *used = Use::Back(Err(error)),
                    // Nobody gets this slot any more.
                    Use::Left(_) => *used = Use::Own,
                    Use::Own | Use::Back(_) => {}
                }
            }
        }
        self.room.close();
        self.bells.iter().for_each(WakerSlot::wake);
    }

    async fn read_all(&self, first: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.check(first, into.len())?;
        let mut sector = first;
        for part in into.chunks_mut(self.most) {
            let slot = self.slot().await?;
            slot.done(READ, sector, part.len()).await?;
            self.bytes[slot.index()].copy_out(0, part);
            self.reads.fetch_add(1, Relaxed);
            sector += (part.len() / SECTOR) as u64;
        }
        Ok(())
    }

    async fn write_all(&self, first: u64, from: &[u8]) -> Result<(), DiskError> {
        self.check(first, from.len())?;
        if self.is_read_only {
            return Err(DiskError::ReadOnly);
        }
        let mut sector = first;
        for part in from.chunks(self.most) {
            let slot = self.slot().await?;
            self.bytes[slot.index()].copy_in(0, part);
            slot.done(WRITE, sector, part.len()).await?;
            self.writes.fetch_add(1, Relaxed);
            sector += (part.len() / SECTOR) as u64;
        }
        Ok(())
    }

    async fn flush_all(&self) -> Result<(), DiskError> {
        if !self.control.runs() {
            return Err(self.error());
        }
        // Without it, what is written is there when that is answered.
        if self.can_flush {
            self.slot().await?.done(FLUSH, 0, 0).await?;
            self.flushes.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

/// A slot, for who has it: free again when it is dropped, or when the device gives it back.
struct Slot<'a> {
    disk: &'a VirtioDisk,
    number: u8,
}

impl Slot<'_> {
    fn index(&self) -> usize {
        self.number.into()
    }

    /// Sends it, and waits for it.
    async fn done(&self, what: u32, sector: u64, length: usize) -> Result<(), DiskError> {
        self.send(what, sector, length)?;
        let (disk, index) = (self.disk, self.index());
        poll_fn(|context| {
            disk.bells[index].register(context.waker());
            match disk.state.lock().uses[index] {
                Use::Back(result) => Poll::Ready(result),
                _ => Poll::Pending,
            }
        })
        .await
    }

    fn send(&self, what: u32, sector: u64, length: usize) -> Result<(), DiskError> {
        let (disk, index) = (self.disk, self.index());
        let (head, bytes) = (HEAD * index, &disk.bytes[index]);
        disk.heads.write32(head, what);
        disk.heads.write32(head + 4, 0);
        disk.heads.write64(head + 8, sector);
        disk.heads.write8(head + HEAD_LENGTH, SILENT);
        let piece = |physical, length: usize, is_written| Piece {
            physical,
            length: length as u32,
            is_written,
        };
        let is_read = what == READ;
        let first = piece(disk.heads.physical(head), HEAD_LENGTH, false);
        let middle = piece(bytes.physical(0), length, is_read);
        let last = piece(disk.heads.physical(head + HEAD_LENGTH), 1, true);
        let pieces = match length {
            0 => &[first, last][..],
            _ => &[first, middle, last][..],
        };
        let needs_notify = {
            let mut state = disk.state.lock();
            // Under the lock: who sweeps has it after this is no longer so.
            let is_added = disk.control.runs() && state.queue.add(pieces, self.number).is_ok();
            if is_added {
                state.uses[index] = Use::Sent(if is_read { length as u32 } else { 0 });
            }
            is_added.then(|| state.queue.needs_notify())
        };
        match needs_notify {
            Some(true) => disk.control.notify_now(0),
            Some(false) => {}
            None => return Err(disk.error()),
        }
        Ok(())
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // Before it is free: after that, who waits at its bell is another.
        self.disk.bells[self.index()].clear();
        let is_free = {
            let mut state = self.disk.state.lock();
            let index = self.index();
            match state.uses[index] {
                Use::Sent(length) => {
                    state.uses[index] = Use::Left(length);
                    false
                }
                Use::Own | Use::Left(_) | Use::Back(_) => {
                    state.uses[index] = Use::Own;
                    state.free.push(self.number);
                    true
                }
            }
        };
        if is_free {
            self.disk.room.add_permits(1);
        }
    }
}

/// What a disk is made of.
struct Parts {
    sectors: u64,
    most: usize,
    queue: Queue<u8>,
    free: Vec<u8>,
    bells: Vec<WakerSlot>,
    bytes: Vec<Dma>,
    heads: Dma,
}

impl Parts {
    fn new(setup: &mut Setup) -> Result<Self, StartError> {
        let sectors = u64::from_le_bytes(setup.configuration(0)?);
        let mut most = MOST;
        if setup.has(HAS_MOST) {
            let piece = u32::from_le_bytes(setup.configuration(8)?);
            most = most.min(piece as usize / SECTOR * SECTOR);
        }
        if most == 0 {
            return Err(StartError::Wrong("how long a piece may be"));
        }
        let mut queue = setup.queue(0, ENTRIES)?;
        queue.enable_interrupts();
        let slots = SLOTS.min(usize::from(queue.size()) / PIECES);
        if slots == 0 {
            return Err(StartError::Wrong("the size of a queue"));
        }
        let no_memory = |_| StartError::NoMemory;
        let (mut free, mut bells, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        free.try_reserve_exact(slots).map_err(no_memory)?;
        bells.try_reserve_exact(slots).map_err(no_memory)?;
        bytes.try_reserve_exact(slots).map_err(no_memory)?;
        for slot in (0..slots).rev() {
            free.push(slot as u8);
            bells.push(WakerSlot::new());
            bytes.push(Dma::new(most)?);
        }
        Ok(Self {
            sectors,
            most,
            queue,
            free,
            bells,
            bytes,
            heads: Dma::new(HEAD * slots)?,
        })
    }
}

/// The interrupt half.
impl OnInterrupt for VirtioDisk {
    fn on_interrupt(&self) -> Seen {
        if !self.control.on_interrupt() || !self.control.runs() || !self.collect() {
            return Seen::Nothing;
        }
        Seen::Work
    }
}

impl Disk for VirtioDisk {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read<'a>(&'a self, first: u64, into: &'a mut [u8]) -> Answer<'a> {
        Box::pin(self.read_all(first, into))
    }

    fn write<'a>(&'a self, first: u64, from: &'a [u8]) -> Answer<'a> {
        Box::pin(self.write_all(first, from))
    }

    fn flush(&self) -> Answer<'_> {
        Box::pin(self.flush_all())
    }
}

impl Drop for VirtioDisk {
    fn drop(&mut self) {
        self.control.stop();
        // SAFETY: each is taken once, here, and not used after that.
        let (queue, bytes, heads) = unsafe {
            (
                ManuallyDrop::take(&mut self.state.get_mut().queue),
                ManuallyDrop::take(&mut self.bytes),
                ManuallyDrop::take(&mut self.heads),
            )
        };
        if !self.control.is_quiet() {
            queue.leak();
            bytes.into_iter().for_each(Dma::leak);
            heads.leak();
        }
    }
}

/// The driver.
pub struct VirtioBlock;

impl Driver for VirtioBlock {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn drives(&self, device: &Device) -> bool {
        transport::is_kind(device, 2)
    }

    fn start(&self, device: &Device) -> Result<Box<dyn Started>, StartError> {
        let opened = transport::open(device)?;
        let disk = Arc::new(VirtioDisk::new(opened.transport)?);
        let line = lines::attach(opened.line, None, disk.clone())?;
        block::offer(disk.clone());
        Ok(Box::new(Running {
            disk,
            line,
            _message: opened.message,
        }))
    }
}

/// A disk that runs. Its line is detached first, and then given back.
struct Running {
    disk: Arc<VirtioDisk>,
    line: Attached,
    _message: Option<Message>,
}

impl Started for Running {
    fn stop(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.disk.stop();
        let disk: Arc<dyn Disk> = self.disk.clone();
        drop(self);
        Box::pin(async move { block::withdraw(&disk).await })
    }

    fn status(&self) -> String {
        let disk = &self.disk;
        if let Some(what) = disk.control.wrong() {
            return format!("broken: {what}");
        }
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        format!(
            "{} MiB{}, {} reads, {} writes, {} flushes, {} failed, {} interrupts",
            disk.sectors >> 11,
            if disk.is_read_only { ", read only" } else { "" },
            of(&disk.reads),
            of(&disk.writes),
            of(&disk.flushes),
            of(&disk.failures),
            self.line.count(),
        )
    }
}
