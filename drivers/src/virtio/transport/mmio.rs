//! Virtio devices with registers in memory: version 1 (legacy), and 2.

use super::{Transport, unmapped};
use crate::virtio::queue::Places;
use executor::io::StartError;
use hal::mmio::Window;

const MAGIC: usize = 0x000;
const VERSION: usize = 0x004;
const DEVICE: usize = 0x008;
const FEATURES: usize = 0x010;
const FEATURES_SELECT: usize = 0x014;
const ACCEPTED: usize = 0x020;
const ACCEPTED_SELECT: usize = 0x024;
const PAGE_SIZE: usize = 0x028;
const QUEUE_SELECT: usize = 0x030;
const QUEUE_MOST: usize = 0x034;
const QUEUE_SIZE: usize = 0x038;
const QUEUE_ALIGN: usize = 0x03c;
const QUEUE_PAGE: usize = 0x040;
const QUEUE_READY: usize = 0x044;
const NOTIFY: usize = 0x050;
const INTERRUPT: usize = 0x060;
const INTERRUPT_DONE: usize = 0x064;
const STATUS: usize = 0x070;
const QUEUE_DESCRIPTORS: usize = 0x080;
const QUEUE_AVAILABLE: usize = 0x090;
const QUEUE_USED: usize = 0x0a0;
const GENERATION: usize = 0x0fc;
const CONFIGURATION: usize = 0x100;

/// "virt"
const IS_VIRTIO: u32 = 0x7472_6976;
const PAGE: u64 = 4096;

/// A device with registers in memory.
pub struct Mmio {
    registers: Window,
    is_legacy: bool,
}

impl Mmio {
    /// The device at this physical address.
    pub fn open(address: u64, length: usize) -> Result<Self, StartError> {
        if length < CONFIGURATION {
            return Err(StartError::Lacks("registers"));
        }
        let registers = Window::map(address, length).map_err(unmapped)?;
        if registers.read32(MAGIC) != IS_VIRTIO {
            return Err(StartError::Silent);
        }
        let is_legacy = match registers.read32(VERSION) {
            1 => true,
            2 => false,
            _ => return Err(StartError::Wrong("its version")),
        };
        Ok(Self {
            registers,
            is_legacy,
        })
    }

    /// What kind of device is at this physical address, if there is one.
    pub fn probe(address: u64, length: usize) -> Option<u32> {
        let device = Self::open(address, length).ok()?;
        let kind = device.registers.read32(DEVICE);
        (kind != 0).then_some(kind)
    }

    fn write64(&self, register: usize, value: u64) {
        self.registers.write32(register, value as u32);
        self.registers.write32(register + 4, (value >> 32) as u32);
    }
}

impl Transport for Mmio {
    fn is_legacy(&self) -> bool {
        self.is_legacy
    }

    fn features(&self) -> u64 {
        self.registers.write32(FEATURES_SELECT, 0);
        let low = self.registers.read32(FEATURES);
        self.registers.write32(FEATURES_SELECT, 1);
        u64::from(self.registers.read32(FEATURES)) << 32 | u64::from(low)
    }

    fn accept(&self, features: u64) {
        self.registers.write32(ACCEPTED_SELECT, 0);
        self.registers.write32(ACCEPTED, features as u32);
        if !self.is_legacy {
            self.registers.write32(ACCEPTED_SELECT, 1);
            self.registers.write32(ACCEPTED, (features >> 32) as u32);
        }
    }

    fn status(&self) -> u8 {
        self.registers.read32(STATUS) as u8
    }

    fn set_status(&self, status: u8) {
        self.registers.write32(STATUS, status.into());
    }

    fn queue_size(&self, queue: u16) -> u16 {
        self.registers.write32(QUEUE_SELECT, queue.into());
        u16::try_from(self.registers.read32(QUEUE_MOST)).unwrap_or(0)
    }

    fn set_queue(&mut self, queue: u16, size: u16, places: Places) -> Result<(), StartError> {
        let registers = &self.registers;
        registers.write32(QUEUE_SELECT, queue.into());
        let in_use = if self.is_legacy {
            QUEUE_PAGE
        } else {
            QUEUE_READY
        };
        if registers.read32(in_use) != 0 {
            return Err(StartError::Wrong("a queue that is in use"));
        }
        registers.write32(QUEUE_SIZE, size.into());
        if self.is_legacy {
            let page = u32::try_from(places.descriptors / PAGE);
            let page = page.map_err(|_| StartError::NoMemory)?;
            registers.write32(PAGE_SIZE, PAGE as u32);
            registers.write32(QUEUE_ALIGN, PAGE as u32);
            registers.write32(QUEUE_PAGE, page);
        } else {
            self.write64(QUEUE_DESCRIPTORS, places.descriptors);
            self.write64(QUEUE_AVAILABLE, places.available);
            self.write64(QUEUE_USED, places.used);
            registers.write32(QUEUE_READY, 1);
        }
        Ok(())
    }

    fn notify(&self, queue: u16) {
        self.registers.write32(NOTIFY, queue.into());
    }

    fn acknowledge(&self) -> bool {
        let why = self.registers.read32(INTERRUPT);
        if why != 0 {
            self.registers.write32(INTERRUPT_DONE, why);
        }
        why != 0
    }

    fn configuration(&self, offset: usize) -> Option<u8> {
        let at = CONFIGURATION.checked_add(offset)?;
        (at < self.registers.length()).then(|| self.registers.read8(at))
    }

    fn generation(&self) -> u32 {
        match self.is_legacy {
            true => 0,
            false => self.registers.read32(GENERATION),
        }
    }
}
