//! How a virtio device is spoken to.

pub mod mmio;
pub mod pci;

use super::queue::Places;
use alloc::boxed::Box;
use executor::io::{Device, Id, Registers, StartError};
use hal::{
    irq::{Line, Message},
    mmio::WindowError,
};

/// The registers of a device, whatever they are behind. Its driver sets it up first, and only then shares it.
pub trait Transport: Send + Sync {
    /// Whether it is of the first kind, from before there was a standard.
    fn is_legacy(&self) -> bool;

    /// What it offers.
    fn features(&self) -> u64;

    /// What the driver takes of that.
    fn accept(&self, features: u64);

    /// How far it is set up.
    fn status(&self) -> u8;

    /// The same; 0 resets it.
    fn set_status(&self, status: u8);

    /// How many entries a queue has, or can have. 0: there is no such queue.
    fn queue_size(&self, queue: u16) -> u16;

    /// Whether a queue may have fewer entries than that.
    fn takes_smaller_queues(&self) -> bool {
        true
    }

    /// Says where a queue is, of `size` entries, and lets it be used.
    fn set_queue(&mut self, queue: u16, size: u16, places: Places) -> Result<(), StartError>;

    /// The device is to look at a queue.
    fn notify(&self, queue: u16);

    /// Takes the device's interrupt back. False: it has none.
    fn acknowledge(&self) -> bool;

    /// A byte of its configuration. `None`: there is not so much.
    fn configuration(&self, offset: usize) -> Option<u8>;

    /// Changes whenever its configuration does, if it is not legacy.
    fn generation(&self) -> u32;
}

/// A device that can be set up, and its interrupt.
pub struct Opened {
    /// Its registers.
    pub transport: Box<dyn Transport>,
    /// Its interrupt.
    pub line: Line,
    /// That is given back when this is dropped, if it is a message.
    pub message: Option<Message>,
}

/// Virtio's vendor on PCI; the devices of the first kind, or of both, and those of the second only.
const VENDOR: u16 = 0x1af4;
const FIRST_OF_BOTH: u16 = 0x1000;
const FIRST_MODERN: u16 = 0x1040;

/// Whether this is a virtio device of this kind: 1 for a network, 2 for a disk.
pub fn is_kind(device: &Device, kind: u16) -> bool {
    match device.id {
        Id::Virtio(id) => id == u32::from(kind),
        Id::Pci {
            vendor: VENDOR,
            device,
        } => device == FIRST_MODERN + kind || device == FIRST_OF_BOTH + kind - 1,
        _ => false,
    }
}

/// Finds the registers of a device, and its interrupt.
pub fn open(device: &Device) -> Result<Opened, StartError> {
    match device.registers {
        Registers::Memory { address, length } => {
            let line = device.line.ok_or(StartError::Lacks("interrupt"))?;
            Ok(Opened {
                transport: Box::new(mmio::Mmio::open(address, length)?),
                line,
                message: None,
            })
        }
        Registers::Pci { .. } => pci::open(device),
        Registers::Ports { .. } => Err(StartError::Lacks("registers in memory, or on PCI")),
    }
}

fn unmapped(error: WindowError) -> StartError {
    match error {
        WindowError::Range | WindowError::Memory => StartError::Wrong("where its registers are"),
        WindowError::Map(_) => StartError::NoMemory,
    }
}
