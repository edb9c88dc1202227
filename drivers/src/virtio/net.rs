//! Virtio's network card: a [`Link`] for the one task that has it, and an interrupt half that wakes that task.
//!
//! The task owns both queues and all buffers, so no frame passes a lock. The device is let interrupt only when the task is about to sleep: it
//! then looks once more, so that what came in between is not slept over; while it is busy, the device is asked not to interrupt. Frames are copied
//! out of the memory that the device sees before they are looked at: nothing that was checked can change after that.

use super::{
    ANY_LAYOUT, Control, EVENT_IDX, Setup, VERSION_1, Wrong,
    queue::{Piece, Queue},
    transport::{self, Transport},
};
use crate::{dma::Dma, handout::Handout, link::Link};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::{
    future::Future,
    mem::ManuallyDrop,
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::*},
    task::{Context, Poll},
};
use executor::{
    NoMemory,
    io::{Attached, Device, Driver, OnInterrupt, Registers, Seen, StartError, Started, lines},
    sync::WakerSlot,
};
use hal::irq::Message;

/// The device's own feature: it has an address.
const HAS_ADDRESS: u64 = 1 << 5;

/// Which queue is which.
const RECEIVE: u16 = 0;
const SEND: u16 = 1;
/// Most buffers each way.
const BUFFERS: u16 = 256;

/// The longest frame: Ethernet's header, and 1500 bytes.
const LONGEST: usize = 1514;
/// The shortest: its header.
const SHORTEST: usize = 14;
/// What the device puts before each frame; legacy ones have no count of buffers in it.
const HEADER: usize = 12;
const LEGACY_HEADER: usize = 10;
/// Room of a buffer.
const BUFFER: usize = 2048;

/// What the interrupt, the task and whoever looks at it share.
pub struct Shared {
    control: Control,
    /// The task that sleeps.
    task: WakerSlot,
    /// The task was woken, and has not looked yet.
    is_rung: AtomicBool,

    // Written by the task:
    received: AtomicU64,
    sent: AtomicU64,
    /// Frames that nobody can use.
    dropped: AtomicU64,
    /// How often the device was let interrupt.
    sleeps: AtomicU64,
}

impl Shared {
    fn fail(&self, wrong: Wrong) {
        self.control.fail("a network card", wrong);
        self.task.wake();
    }
}

/// The interrupt half.
impl OnInterrupt for Shared {
    fn on_interrupt(&self) -> Seen {
        if !self.control.on_interrupt() || self.is_rung.swap(true, AcqRel) {
            return Seen::Nothing;
        }
        self.task.wake();
        Seen::Work
    }
}

/// The task's half.
pub struct NetLink {
    shared: Arc<Shared>,
    address: [u8; 6],
    /// Bytes before a frame.
    header: usize,
    /// The header is a piece of its own.
    is_cut: bool,
    /// The device was let interrupt.
    may_interrupt: bool,
    /// Buffers to send with that are free.
    free: Vec<u16>,
    /// Where frames are looked at and written: the device does not see it.
    frame: Box<[u8]>,
    rings: ManuallyDrop<Rings>,
}

/// What the device sees.
struct Rings {
    receive: Queue<u16>,
    send: Queue<u16>,
    buffers: Dma,
}

impl NetLink {
    /// Sets a device up. What it receives, it receives from here on.
    pub fn new(transport: Box<dyn Transport>, number: u32) -> Result<Self, StartError> {
        let mut setup = Setup::begin(transport, HAS_ADDRESS | EVENT_IDX | ANY_LAYOUT)?;
        let parts = Parts::new(&mut setup, number);
        let parts = parts.map_err(|error| setup.give_up(error))?;
        let is_legacy = setup.is_legacy();
        let is_cut = !setup.has(VERSION_1) && !setup.has(ANY_LAYOUT);
        let shared = Arc::new(Shared {
            control: setup.finish(),
            task: WakerSlot::new(),
            is_rung: AtomicBool::new(false),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
        });
        let mut link = Self {
            shared,
            address: parts.address,
            header: if is_legacy { LEGACY_HEADER } else { HEADER },
            is_cut,
            may_interrupt: false,
            free: parts.free,
            frame: parts.frame,
            rings: ManuallyDrop::new(parts.rings),
        };
        for buffer in 0..link.rings.receive.size() {
            link.offer(buffer);
        }
        link.notify_receive();
        Ok(link)
    }

    /// What the interrupt half is.
    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// The pieces of a buffer, of which the first come from behind all that are received into.
    fn pieces(&self, buffer: usize, length: usize, is_written: bool) -> ([Piece; 2], usize) {
        let piece = |offset: usize, length: usize| Piece {
            physical: self.rings.buffers.physical(buffer * BUFFER + offset),
            length: length as u32,
            is_written,
        };
        match self.is_cut {
            true => ([piece(0, self.header), piece(self.header, length)], 2),
            false => ([piece(0, self.header + length); 2], 1),
        }
    }

    /// Gives the device a buffer to receive into.
    fn offer(&mut self, buffer: u16) {
        let (pieces, count) = self.pieces(buffer.into(), LONGEST, true);
        // There is room: it has as many as it had in the beginning. Of a queue that is cut in two there is for half of them.
        let _ = self.rings.receive.add(&pieces[..count], buffer);
    }

    fn notify_receive(&mut self) {
        self.shared.control.notify(&mut self.rings.receive);
    }

    /// Takes back what the device has sent.
    fn collect(&mut self) -> Result<(), Wrong> {
        while let Some((buffer, _)) = self.rings.send.pop()? {
            self.free.push(buffer);
        }
        Ok(())
    }

    fn can_send(&self) -> bool {
        let pieces = if self.is_cut { 2 } else { 1 };
        !self.free.is_empty() && self.rings.send.has_room(pieces)
    }

    fn is_ready(&mut self, for_room: bool) -> Result<bool, Wrong> {
        if for_room {
            self.collect()?;
        }
        Ok(for_room && self.can_send() || self.rings.receive.has_used()?)
    }

    /// Takes the next frame: how many bytes it has. They are in `frame` then.
    fn take(&mut self) -> Result<Option<usize>, Wrong> {
        while let Some((buffer, written)) = self.rings.receive.pop()? {
            let written = written as usize;
            let Some(length) = written.checked_sub(self.header) else {
                return Err(Wrong("it has received less than a header"));
            };
            let is_frame = (SHORTEST..=LONGEST).contains(&length);
            if is_frame {
                let at = usize::from(buffer) * BUFFER + self.header;
                self.rings.buffers.copy_out(at, &mut self.frame[..length]);
            }
            self.offer(buffer);
            if is_frame {
                return Ok(Some(length));
            }
            count(&self.shared.dropped);
        }
        Ok(None)
    }

    fn silence(&mut self) {
        if self.may_interrupt {
            self.rings.receive.disable_interrupts();
            self.rings.send.disable_interrupts();
            self.may_interrupt = false;
        }
    }

    fn try_ready(&mut self, for_room: bool) -> Result<bool, Wrong> {
        // What wakes from here on does so for what was not seen.
        self.shared.is_rung.store(false, Release);
        self.notify_receive();
        if self.is_ready(for_room)? {
            return Ok(true);
        }
        self.rings.receive.enable_interrupts();
        if for_room {
            self.rings.send.enable_interrupts();
        }
        self.may_interrupt = true;
        count(&self.shared.sleeps);
        // Once more: what came before it was let interrupt does not.
        self.is_ready(for_room)
    }
}

/// Only the task writes these.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// What a link is made of.
struct Parts {
    address: [u8; 6],
    rings: Rings,
    free: Vec<u16>,
    frame: Box<[u8]>,
}

impl Parts {
    fn new(setup: &mut Setup, number: u32) -> Result<Self, StartError> {
        let address = match setup.has(HAS_ADDRESS) {
            true => setup.configuration::<6>(0)?,
            false => made_up_address(number),
        };
        if address[0] & 1 != 0 || address == [0; 6] {
            return Err(StartError::Wrong("its address"));
        }
        let receive = setup.queue(RECEIVE, BUFFERS)?;
        let send = setup.queue(SEND, BUFFERS)?;
        let (to_receive, to_send) = (receive.size(), send.size());
        let all = usize::from(to_receive) + usize::from(to_send);
        let mut free = Vec::new();
        let room = free.try_reserve_exact(to_send.into());
        room.map_err(|_| StartError::NoMemory)?;
        free.extend((to_receive..to_receive + to_send).rev());
        let mut frame = Vec::new();
        let room = frame.try_reserve_exact(LONGEST);
        room.map_err(|_| StartError::NoMemory)?;
        frame.resize(LONGEST, 0);
        Ok(Self {
            address,
            rings: Rings {
                receive,
                send,
                buffers: Dma::new(all * BUFFER).map_err(|NoMemory| StartError::NoMemory)?,
            },
            free,
            frame: frame.into_boxed_slice(),
        })
    }
}

/// An address that is nobody's, for a card that has none.
fn made_up_address(number: u32) -> [u8; 6] {
    let [a, b, c, d] = number.to_be_bytes();
    [0x02, 0x5d, a, b, c, d]
}

impl Link for NetLink {
    fn address(&self) -> Option<[u8; 6]> {
        Some(self.address)
    }

    fn longest(&self) -> usize {
        LONGEST
    }

    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> bool {
        if !self.shared.control.runs() {
            return false;
        }
        self.silence();
        match self.take() {
            Ok(Some(length)) => {
                count(&self.shared.received);
                take(&mut self.frame[..length]);
                true
            }
            Ok(None) => {
                self.notify_receive();
                false
            }
            Err(wrong) => {
                self.shared.fail(wrong);
                false
            }
        }
    }

    fn has_room(&mut self) -> bool {
        if !self.shared.control.runs() {
            return false;
        }
        match self.collect() {
            Ok(()) => self.can_send(),
            Err(wrong) => {
                self.shared.fail(wrong);
                false
            }
        }
    }

    fn send(&mut self, length: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        if !(SHORTEST..=LONGEST).contains(&length) || !self.has_room() {
            return false;
        }
        let Some(buffer) = self.free.pop() else {
            return false;
        };
        fill(&mut self.frame[..length]);
        let at = usize::from(buffer) * BUFFER;
        self.rings.buffers.copy_in(at, &[0; HEADER]);
        let frame = &self.frame[..length];
        self.rings.buffers.copy_in(at + self.header, frame);
        let (pieces, count_of_pieces) = self.pieces(buffer.into(), length, false);
        if let Err(buffer) = self.rings.send.add(&pieces[..count_of_pieces], buffer) {
            self.free.push(buffer);
            return false;
        }
        count(&self.shared.sent);
        self.shared.control.notify(&mut self.rings.send);
        true
    }

    fn poll_ready(&mut self, for_room: bool, context: &mut Context<'_>) -> Poll<Option<()>> {
        self.shared.task.register(context.waker());
        if !self.shared.control.runs() {
            return Poll::Ready(None);
        }
        match self.try_ready(for_room) {
            Ok(true) => {
                self.silence();
                Poll::Ready(Some(()))
            }
            Ok(false) => Poll::Pending,
            Err(wrong) => {
                self.shared.fail(wrong);
                Poll::Ready(None)
            }
        }
    }
}

impl Drop for NetLink {
    fn drop(&mut self) {
        // Nobody else would take what it receives; and its memory goes.
        self.shared.control.stop();
        // SAFETY: it is taken once, here, and not used after that.
        let rings = unsafe { ManuallyDrop::take(&mut self.rings) };
        if !self.shared.control.is_quiet() {
            rings.receive.leak();
            rings.send.leak();
            rings.buffers.leak();
        }
    }
}

/// Links of cards that were started, until somebody takes them.
static LINKS: Handout<NetLink> = Handout::new();

/// The link of the next card that is started, or was and nobody has it.
pub async fn next_link() -> Box<dyn Link> {
    Box::new(LINKS.next().await)
}

/// The driver.
pub struct VirtioNet;

impl Driver for VirtioNet {
    fn name(&self) -> &'static str {
        "net"
    }

    fn drives(&self, device: &Device) -> bool {
        transport::is_kind(device, 1)
    }

    fn start(&self, device: &Device) -> Result<Box<dyn Started>, StartError> {
        let opened = transport::open(device)?;
        let number = match device.registers {
            Registers::Memory { address, .. } => address as u32,
            Registers::Ports { first, .. } => first.into(),
            Registers::Pci {
                bus,
                device,
                function,
            } => u32::from_be_bytes([0, bus, device, function]),
        };
        let link = NetLink::new(opened.transport, number)?;
        let shared = link.shared();
        let line = lines::attach(opened.line, None, shared.clone())?;
        LINKS.put(link);
        Ok(Box::new(Running {
            shared,
            line,
            _message: opened.message,
        }))
    }
}

/// A card that runs. Its line is detached first, and then given back.
struct Running {
    shared: Arc<Shared>,
    line: Attached,
    _message: Option<Message>,
}

impl Started for Running {
    fn stop(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.shared.control.stop();
        self.shared.task.wake();
        drop(self);
        Box::pin(LINKS.retain(|link| link.shared.control.runs()))
    }

    fn status(&self) -> String {
        let shared = &self.shared;
        if let Some(what) = shared.control.wrong() {
            return format!("broken: {what}");
        }
        let state = match shared.control.runs() {
            true => "",
            false => ", and nobody has it any more",
        };
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        format!(
            "{} frames in, {} out, {} dropped, {} interrupts of {} asked for{state}",
            of(&shared.received),
            of(&shared.sent),
            of(&shared.dropped),
            self.line.count(),
            of(&shared.sleeps),
        )
    }
}
