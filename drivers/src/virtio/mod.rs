//! Virtio: devices that a virtual machine's host plays, and some that are real.
//!
//! | | |
//! |---|---|
//! | `transport` | how a device is spoken to: registers in memory, or PCI; of the first kind (legacy) and of the second |
//! | `queue` | rings of buffers that a driver and a device share |
//! | `net`, `block` | network cards, disks |
//!
//! **The device is not trusted.** It may write to all memory that it was given at any time. So what the driver needs to know it keeps in memory
//! of its own, and never reads back; each word of the device's is read once, and compared with what there is before it is used. A device that says what
//! cannot be is *broken*: it is reset, its users get an error, one line says what it was, and it is not used any more until it is started again.

pub mod block;
pub mod net;
pub mod queue;
pub mod transport;

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::*};
use executor::io::StartError;
use hal::sync::Lock;
use queue::Queue;
use transport::Transport;

// Status bits.
const ACKNOWLEDGE: u8 = 1;
const DRIVER: u8 = 2;
const DRIVER_OK: u8 = 4;
const FEATURES_OK: u8 = 8;
const FAILED: u8 = 128;

/// Buffers may be cut as the driver likes: a legacy device's.
pub const ANY_LAYOUT: u64 = 1 << 27;
/// Each side says at which entry it wants to hear again.
pub const EVENT_IDX: u64 = 1 << 29;
/// The device is of the second kind.
pub const VERSION_1: u64 = 1 << 32;

/// A device may take this many looks to be reset.
const RESET_LOOKS: usize = 100_000;
/// Most entries of a queue whose device chooses the number.
const MOST_ENTRIES: u16 = 1024;

/// Something that cannot be: what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrong(pub &'static str);

/// A device that is being set up.
pub struct Setup {
    transport: Box<dyn Transport>,
    features: u64,
    status: u8,
}

impl Setup {
    /// Resets the device, and agrees with it on those of the wanted features that it offers.
    pub fn begin(transport: Box<dyn Transport>, wanted: u64) -> Result<Self, StartError> {
        if !reset(&*transport) {
            return Err(StartError::Silent);
        }
        let mut setup = Self {
            transport,
            features: 0,
            status: 0,
        };
        setup.add_status(ACKNOWLEDGE);
        setup.add_status(DRIVER);
        match setup.agree(wanted) {
            Ok(()) => Ok(setup),
            Err(error) => Err(setup.give_up(error)),
        }
    }

    fn agree(&mut self, wanted: u64) -> Result<(), StartError> {
        let is_legacy = self.transport.is_legacy();
        let offered = self.transport.features();
        let wanted = if is_legacy {
            wanted & u64::from(u32::MAX)
        } else if offered & VERSION_1 == 0 {
            return Err(StartError::Wrong("its version"));
        } else {
            wanted | VERSION_1
        };
        self.features = offered & wanted;
        self.transport.accept(self.features);
        if !is_legacy {
            self.add_status(FEATURES_OK);
            if self.transport.status() & FEATURES_OK == 0 {
                return Err(StartError::Wrong("features that it does not keep"));
            }
        }
        Ok(())
    }

    fn add_status(&mut self, bit: u8) {
        self.status |= bit;
        self.transport.set_status(self.status);
    }

    /// Whether this feature was agreed on.
    pub fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    /// Whether the device is of the first kind.
    pub fn is_legacy(&self) -> bool {
        self.transport.is_legacy()
    }

    /// Bytes of the device's configuration, as they were at one time.
    pub fn configuration<const N: usize>(&self, offset: usize) -> Result<[u8; N], StartError> {
        let read = || {
            let mut bytes = [0; N];
            for (at, byte) in bytes.iter_mut().enumerate() {
                let found = self.transport.configuration(offset + at);
                *byte = found.ok_or(StartError::Lacks("configuration"))?;
            }
            Ok::<_, StartError>(bytes)
        };
        for _ in 0..8 {
            let generation = self.transport.generation();
            let bytes = read()?;
            // One of the first kind does not say that it has changed.
            if bytes == read()? && generation == self.transport.generation() {
                return Ok(bytes);
            }
        }
        Err(StartError::Wrong(
            "a configuration that changes all the time",
        ))
    }

    /// Sets up a queue of at most `most` entries, which is a power of two; more if the device insists.
    pub fn queue<T>(&mut self, index: u16, most: u16) -> Result<Queue<T>, StartError> {
        let offered = self.transport.queue_size(index);
        let size = match self.transport.takes_smaller_queues() {
            true => match offered.min(most) {
                0 => return Err(StartError::Lacks("queue")),
                size => 1 << size.ilog2(),
            },
            false => match offered {
                0 => return Err(StartError::Lacks("queue")),
                size if size.is_power_of_two() && size <= MOST_ENTRIES => size,
                _ => return Err(StartError::Wrong("the size of a queue")),
            },
        };
        let queue = Queue::new(index, size, self.has(EVENT_IDX))?;
        self.transport.set_queue(index, size, queue.places())?;
        Ok(queue)
    }

    /// The device begins.
    pub fn finish(mut self) -> Control {
        self.add_status(DRIVER_OK);
        Control {
            transport: self.transport,
            state: AtomicU8::new(RUNS),
            is_quiet: AtomicBool::new(false),
            wrong: Lock::new(None),
        }
    }

    /// It is not started, and knows.
    pub fn give_up(&mut self, error: StartError) -> StartError {
        self.add_status(FAILED);
        reset(&*self.transport);
        error
    }
}

fn reset(transport: &dyn Transport) -> bool {
    transport.set_status(0);
    (0..RESET_LOOKS).any(|_| {
        let is_done = transport.status() == 0;
        if !is_done {
            hal::pause();
        }
        is_done
    })
}

// States of a device:
const RUNS: u8 = 0;
const STOPPED: u8 = 1;
const BROKEN: u8 = 2;

/// A device that was set up.
pub struct Control {
    transport: Box<dyn Transport>,
    state: AtomicU8,
    /// It was reset, and said so: it uses no memory any more.
    is_quiet: AtomicBool,
    wrong: Lock<Option<&'static str>>,
}

impl Control {
    /// Tells the device to look at a queue.
    pub fn notify<T>(&self, queue: &mut Queue<T>) {
        if queue.needs_notify() {
            self.notify_now(queue.index());
        }
    }

    /// The same, when [`Queue::needs_notify`] was asked before.
    pub fn notify_now(&self, queue: u16) {
        hal::dma::before_registers();
        self.transport.notify(queue);
    }

    /// Its line has interrupted: whether it was this device.
    pub fn on_interrupt(&self) -> bool {
        self.transport.acknowledge()
    }

    /// Whether it does what it is told.
    pub fn runs(&self) -> bool {
        self.state.load(Acquire) == RUNS
    }

    /// What it said that cannot be.
    pub fn wrong(&self) -> Option<&'static str> {
        *self.wrong.lock()
    }

    /// It has said what cannot be, and is not used any more.
    pub fn fail(&self, name: &str, wrong: Wrong) {
        // Release pairs with the acquire in `runs`.
        let before = self.state.compare_exchange(RUNS, BROKEN, AcqRel, Relaxed);
        if before.is_ok() {
            *self.wrong.lock() = Some(wrong.0);
            log::warn!(
                "{name} says what cannot be, and is not used any more: {}",
                wrong.0
            );
            self.quiet();
            self.transport.set_status(ACKNOWLEDGE | DRIVER | FAILED);
        }
    }

    /// It is stopped.
    pub fn stop(&self) {
        let before = self.state.compare_exchange(RUNS, STOPPED, AcqRel, Relaxed);
        if before.is_ok() {
            self.quiet();
        }
    }

    /// Whether it uses no memory any more.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet.load(Acquire)
    }

    fn quiet(&self) {
        if reset(&*self.transport) {
            self.is_quiet.store(true, Release);
        } else {
            log::warn!("a virtio device cannot be reset: its memory is left to it");
        }
    }
}
