//! Virtio devices on PCI: of the first kind at I/O ports, of the second where their capabilities say. All interrupts are messages, and all queues
//! of a device share one: each of our devices is served by one half.

use super::{Opened, Transport, unmapped};
use crate::{
    pci::{Configuration, Function, capabilities},
    virtio::queue::Places,
};
use alloc::{boxed::Box, vec::Vec};
use executor::io::{Device, StartError};
use hal::{io::Ports, mmio::Window};

/// A capability of virtio's own, and which there are.
const VENDOR_CAPABILITY: u8 = 0x09;
const COMMON: u8 = 1;
const NOTIFY: u8 = 2;
const DEVICE: u8 = 4;

/// The message that all queues send; and none.
const MESSAGE: u16 = 0;
const NO_MESSAGE: u16 = 0xffff;

/// Finds the registers of a device, of the second kind if it is one of both.
pub fn open(device: &Device) -> Result<Opened, StartError> {
    let function = Function::of(device).ok_or(StartError::Lacks("place on PCI"))?;
    let modern = Modern::open(&function)?;
    function.enable();
    let message = function.message();
    let message = message.ok_or(StartError::Lacks("message-signalled interrupt"))?;
    let transport: Box<dyn Transport> = match modern {
        Some(modern) => Box::new(modern),
        None => Box::new(Legacy::open(&function)?),
    };
    Ok(Opened {
        transport,
        line: message.line(),
        message: Some(message),
    })
}

/// Where a part of a device's registers is.
struct Part {
    bar: u8,
    offset: u32,
    length: u32,
    /// Where the capability that says so is.
    capability: u8,
}

/// The first part of this kind.
fn part<C: Configuration + ?Sized>(configuration: &C, kind: u8) -> Option<Part> {
    capabilities(configuration)
        .filter(|(_, id)| *id == VENDOR_CAPABILITY)
        .filter_map(|(at, _)| {
            let is_it = (configuration.read(at) >> 24) as u8 == kind;
            let bar = configuration.read(at.checked_add(4)?) as u8;
            let part = Part {
                bar,
                offset: configuration.read(at.checked_add(8)?),
                length: configuration.read(at.checked_add(12)?),
                capability: at,
            };
            (is_it && bar < 6).then_some(part)
        })
        .next()
}

// Registers of the common part.
const FEATURES_SELECT: usize = 0x00;
const FEATURES: usize = 0x04;
const ACCEPTED_SELECT: usize = 0x08;
const ACCEPTED: usize = 0x0c;
const CHANGE_MESSAGE: usize = 0x10;
const STATUS: usize = 0x14;
const GENERATION: usize = 0x15;
const QUEUE_SELECT: usize = 0x16;
const QUEUE_SIZE: usize = 0x18;
const QUEUE_MESSAGE: usize = 0x1a;
const QUEUE_ENABLE: usize = 0x1c;
const QUEUE_NOTIFY: usize = 0x1e;
const QUEUE_DESCRIPTORS: usize = 0x20;
const QUEUE_AVAILABLE: usize = 0x28;
const QUEUE_USED: usize = 0x30;
const COMMON_LENGTH: u32 = 0x38;
/// More of these two nobody needs.
const MOST_NOTIFY: u32 = 0x1_0000;
const MOST_DEVICE: u32 = 0x1000;

/// A device of the second kind.
struct Modern {
    common: Window,
    notify: Window,
    device: Option<Window>,
    /// How far apart the queues are in `notify`.
    stride: u32,
    /// Where each queue is notified.
    queues: Vec<Option<Window>>,
}

impl Modern {
    /// `None`: it has not said that it is one.
    fn open(function: &Function) -> Result<Option<Self>, StartError> {
        let Some(common) = part(function, COMMON) else {
            return Ok(None);
        };
        let notify = part(function, NOTIFY).ok_or(StartError::Lacks("way to notify it"))?;
        let at = notify.capability.checked_add(16);
        let at = at.ok_or(StartError::Wrong("its capabilities"))?;
        let stride = function.read(at);
        if common.length < COMMON_LENGTH || common.offset & 3 != 0 || notify.offset & 1 != 0 {
            return Err(StartError::Wrong("where its registers are"));
        }
        let window = |part: &Part, most: u32| {
            let length = part.length.min(most) as usize;
            let window = function.window(part.bar, part.offset, length);
            window.map_err(unmapped)
        };
        let device = part(function, DEVICE);
        let device = device.map(|device| window(&device, MOST_DEVICE));
        Ok(Some(Self {
            common: window(&common, COMMON_LENGTH)?,
            notify: window(&notify, MOST_NOTIFY)?,
            device: device.transpose()?,
            stride,
            queues: Vec::new(),
        }))
    }

    fn write64(&self, register: usize, value: u64) {
        self.common.write32(register, value as u32);
        self.common.write32(register + 4, (value >> 32) as u32);
    }
}

impl Transport for Modern {
    fn is_legacy(&self) -> bool {
        false
    }

    fn features(&self) -> u64 {
        self.common.write32(FEATURES_SELECT, 0);
        let low = self.common.read32(FEATURES);
        self.common.write32(FEATURES_SELECT, 1);
        u64::from(self.common.read32(FEATURES)) << 32 | u64::from(low)
    }

    fn accept(&self, features: u64) {
        self.common.write32(ACCEPTED_SELECT, 0);
        self.common.write32(ACCEPTED, features as u32);
        self.common.write32(ACCEPTED_SELECT, 1);
        self.common.write32(ACCEPTED, (features >> 32) as u32);
    }

    fn status(&self) -> u8 {
        self.common.read8(STATUS)
    }

    fn set_status(&self, status: u8) {
        self.common.write8(STATUS, status);
    }

    fn queue_size(&self, queue: u16) -> u16 {
        self.common.write16(QUEUE_SELECT, queue);
        self.common.read16(QUEUE_SIZE)
    }

    fn set_queue(&mut self, queue: u16, size: u16, places: Places) -> Result<(), StartError> {
        let common = &self.common;
        common.write16(CHANGE_MESSAGE, NO_MESSAGE);
        common.write16(QUEUE_SELECT, queue);
        if common.read16(QUEUE_ENABLE) != 0 {
            return Err(StartError::Wrong("a queue that is in use"));
        }
        let place = u64::from(common.read16(QUEUE_NOTIFY)) * u64::from(self.stride);
        let place = usize::try_from(place).ok();
        let place = place.filter(|place| place.is_multiple_of(2));
        let notify = place.and_then(|place| self.notify.part(place, 2));
        let notify = notify.ok_or(StartError::Wrong("where it is notified"))?;
        common.write16(QUEUE_SIZE, size);
        common.write16(QUEUE_MESSAGE, MESSAGE);
        if common.read16(QUEUE_MESSAGE) != MESSAGE {
            return Err(StartError::Lacks("message for a queue"));
        }
        self.write64(QUEUE_DESCRIPTORS, places.descriptors);
        self.write64(QUEUE_AVAILABLE, places.available);
        self.write64(QUEUE_USED, places.used);
        self.common.write16(QUEUE_ENABLE, 1);
        let index = usize::from(queue);
        if self.queues.len() <= index {
            self.queues.resize(index + 1, None);
        }
        self.queues[index] = Some(notify);
        Ok(())
    }

    fn notify(&self, queue: u16) {
        if let Some(Some(window)) = self.queues.get(usize::from(queue)) {
            window.write16(0, queue);
        }
    }

    fn acknowledge(&self) -> bool {
        true
    }

    fn configuration(&self, offset: usize) -> Option<u8> {
        let device = self.device.as_ref()?;
        (offset < device.length()).then(|| device.read8(offset))
    }

    fn generation(&self) -> u32 {
        self.common.read8(GENERATION).into()
    }
}

// Ports of a legacy device.
const PORT_FEATURES: u16 = 0x00;
const PORT_ACCEPTED: u16 = 0x04;
const PORT_QUEUE_PAGE: u16 = 0x08;
const PORT_QUEUE_SIZE: u16 = 0x0c;
const PORT_QUEUE_SELECT: u16 = 0x0e;
const PORT_NOTIFY: u16 = 0x10;
const PORT_STATUS: u16 = 0x12;
const PORT_CHANGE_MESSAGE: u16 = 0x14;
const PORT_QUEUE_MESSAGE: u16 = 0x16;
/// Where the configuration is, if interrupts are messages.
const PORT_CONFIGURATION: u16 = 0x18;
const PAGE: u64 = 4096;

/// A device of the first kind.
struct Legacy(Ports);

impl Legacy {
    fn open(function: &Function) -> Result<Self, StartError> {
        let ports = function.ports(0);
        let ports = ports.ok_or(StartError::Lacks("I/O ports"))?;
        match ports.count() >= PORT_CONFIGURATION {
            true => Ok(Self(ports)),
            false => Err(StartError::Wrong("how many ports it has")),
        }
    }
}

impl Transport for Legacy {
    fn is_legacy(&self) -> bool {
        true
    }

    fn features(&self) -> u64 {
        self.0.read32(PORT_FEATURES).into()
    }

    fn accept(&self, features: u64) {
        self.0.write32(PORT_ACCEPTED, features as u32);
    }

    fn status(&self) -> u8 {
        self.0.read8(PORT_STATUS)
    }

    fn set_status(&self, status: u8) {
        self.0.write8(PORT_STATUS, status);
    }

    fn queue_size(&self, queue: u16) -> u16 {
        self.0.write16(PORT_QUEUE_SELECT, queue);
        self.0.read16(PORT_QUEUE_SIZE)
    }

    fn takes_smaller_queues(&self) -> bool {
        false
    }

    fn set_queue(&mut self, queue: u16, _: u16, places: Places) -> Result<(), StartError> {
        self.0.write16(PORT_CHANGE_MESSAGE, NO_MESSAGE);
        self.0.write16(PORT_QUEUE_SELECT, queue);
        if self.0.read32(PORT_QUEUE_PAGE) != 0 {
            return Err(StartError::Wrong("a queue that is in use"));
        }
        self.0.write16(PORT_QUEUE_MESSAGE, MESSAGE);
        if self.0.read16(PORT_QUEUE_MESSAGE) != MESSAGE {
            return Err(StartError::Lacks("message for a queue"));
        }
        let page = u32::try_from(places.descriptors / PAGE);
        let page = page.map_err(|_| StartError::NoMemory)?;
        self.0.write32(PORT_QUEUE_PAGE, page);
        Ok(())
    }

    fn notify(&self, queue: u16) {
        self.0.write16(PORT_NOTIFY, queue);
    }

    fn acknowledge(&self) -> bool {
        true
    }

    fn configuration(&self, offset: usize) -> Option<u8> {
        let at = PORT_CONFIGURATION.checked_add(u16::try_from(offset).ok()?)?;
        (at < self.0.count()).then(|| self.0.read8(at))
    }

    fn generation(&self) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake([u32; 64]);

    impl Configuration for Fake {
        fn read(&self, offset: u8) -> u32 {
            self.0[usize::from(offset / 4)]
        }

        fn write(&self, _: u8, _: u32) {}
    }

    #[test]
    fn parts_are_found_wherever_a_configuration_says_they_are() {
        let mut fake = Fake([0; 64]);
        fake.0[1] = 1 << 20;
        fake.0[0x34 / 4] = 0x40;
        // One behind a base address that there is not, and then the right one.
        let wrong = [0x0110_5009, 6, 0, 0x1000];
        let right = [0x0110_fc09, 4, 0x2000, 0x1000];
        fake.0[0x10..0x14].copy_from_slice(&wrong);
        fake.0[0x14..0x18].copy_from_slice(&right);
        // The last word, where no capability of ours fits.
        fake.0[0x3f] = 0x0210_0009;
        let common = part(&fake, COMMON).expect("it is there");
        assert_eq!(
            (common.bar, common.offset, common.length),
            (4, 0x2000, 0x1000)
        );
        assert!(part(&fake, NOTIFY).is_none() && part(&fake, DEVICE).is_none());
    }
}
