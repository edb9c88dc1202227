//! PCI, as PCs have it: the configuration of each function behind two I/O ports.
//!
//! A function's configuration is what the device says of itself, and is looked at as such: its list of capabilities may be a circle, its registers may
//! claim to be anywhere. ([`Window`] refuses what is memory.)
//!
//! | | |
//! |---|---|
//! | [`scan`] | all functions there are |
//! | [`Function`] | one of them: its registers, its capabilities, its interrupts |

use alloc::vec::Vec;
use executor::io::{Device, Id, Registers};
use hal::{
    io::{self, Ports},
    irq::Message,
    mmio::{Window, WindowError},
};

// Of the configuration: words, and bits of the second.
const COMMAND: u8 = 0x04;
const TAKES_PORTS: u32 = 1 << 0;
const TAKES_MEMORY: u32 = 1 << 1;
const IS_MASTER: u32 = 1 << 2;
const NO_WIRE: u32 = 1 << 10;
const HAS_CAPABILITIES: u32 = 1 << 20;
const KIND: u8 = 0x0c;
const FIRST_BAR: u8 = 0x10;
const SUBSYSTEM: u8 = 0x2c;
const CAPABILITIES: u8 = 0x34;

/// Of MSI-X: its capability, and bits of the first word.
const MSIX: u8 = 0x11;
const MSIX_ENABLE: u32 = 1 << 31;
const MSIX_MASK_ALL: u32 = 1 << 30;
const MSIX_ENTRY: usize = 16;

/// No function has more ports behind one base address.
const MOST_PORTS: u16 = 256;

/// There can be no more capabilities: each has a word of its own behind the header.
const MOST_CAPABILITIES: usize = (256 - 64) / 4;

/// Words that a function says of itself.
pub trait Configuration {
    /// Reads the word at `offset`.
    fn read(&self, offset: u8) -> u32;

    /// Writes it.
    fn write(&self, offset: u8, value: u32);
}

/// Where the registers behind one of six base addresses are, and how many there are at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bar {
    /// In memory.
    Memory {
        /// The first byte, physical.
        address: u64,
        /// How many.
        length: u64,
    },
    /// At I/O ports.
    Ports {
        /// The first.
        first: u16,
        /// How many.
        count: u16,
    },
}

/// Capabilities of a function: where each is, and what it is.
pub fn capabilities<C: Configuration + ?Sized>(
    configuration: &C,
) -> impl Iterator<Item = (u8, u8)> + '_ {
    let has_any = configuration.read(COMMAND) & HAS_CAPABILITIES != 0;
    let mut next = match has_any {
        true => configuration.read(CAPABILITIES) as u8 & !3,
        false => 0,
    };
    let list = core::iter::from_fn(move || {
        if next < 0x40 {
            return None;
        }
        let at = next;
        let word = configuration.read(at);
        next = (word >> 8) as u8 & !3;
        Some((at, word as u8))
    });
    // It may be a circle.
    list.take(MOST_CAPABILITIES)
}

/// Where the registers behind base address `index` are. How many there are is not asked for: a device would have to be moved away for that, while others run,
/// and it would be what the device says. Where they begin says how many there can be, as they are aligned to their number.
pub fn bar<C: Configuration + ?Sized>(configuration: &C, index: u8) -> Option<Bar> {
    if index >= 6 {
        return None;
    }
    let at = FIRST_BAR + 4 * index;
    let low = configuration.read(at);
    if low & 1 != 0 {
        let first = u16::try_from(low & !3).ok().filter(|first| *first != 0)?;
        let count = MOST_PORTS.min(1 << first.trailing_zeros());
        return Some(Bar::Ports { first, count });
    }
    let high = match low >> 1 & 3 {
        0 => 0,
        2 if index < 5 => configuration.read(at + 4),
        _ => return None,
    };
    let address = u64::from(high) << 32 | u64::from(low & !15);
    (address != 0).then(|| Bar::Memory {
        address,
        length: 1 << address.trailing_zeros(),
    })
}

/// A function of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function(u16);

impl Configuration for Function {
    fn read(&self, offset: u8) -> u32 {
        io::read_pci(self.0, offset)
    }

    fn write(&self, offset: u8, value: u32) {
        // SAFETY: 1. of the header only the command is written (`enable`), so it answers where it did; 2. beside that, MSI-X's control word; 3. a device
        // that is allowed to access memory is told of addresses by its driver only.
        unsafe { io::write_pci(self.0, offset, value) }
    }
}

impl Function {
    /// The function that a device was found at.
    pub fn of(device: &Device) -> Option<Self> {
        let Registers::Pci {
            bus,
            device,
            function,
        } = device.registers
        else {
            return None;
        };
        let (device, function) = (u16::from(device & 31), u16::from(function & 7));
        Some(Self(u16::from(bus) << 8 | device << 3 | function))
    }

    /// Who put it together, and as what.
    pub fn subsystem(&self) -> (u16, u16) {
        let word = self.read(SUBSYSTEM);
        (word as u16, (word >> 16) as u16)
    }

    /// Lets it answer, access memory, and interrupt by messages only.
    pub fn enable(&self) {
        let command = self.read(COMMAND) & 0xffff;
        let wanted = command | TAKES_PORTS | TAKES_MEMORY | IS_MASTER | NO_WIRE;
        if wanted != command {
            self.write(COMMAND, wanted);
        }
    }

    /// The registers behind a base address that is in memory, from `offset` on.
    pub fn window(&self, index: u8, offset: u32, length: usize) -> Result<Window, WindowError> {
        let Some(Bar::Memory {
            address,
            length: all,
        }) = bar(self, index)
        else {
            return Err(WindowError::Range);
        };
        let end = u64::from(offset).checked_add(length as u64);
        if end.is_none_or(|end| end > all) {
            return Err(WindowError::Range);
        }
        Window::map(address + u64::from(offset), length)
    }

    /// The I/O ports behind a base address.
    pub fn ports(&self, index: u8) -> Option<Ports> {
        let Some(Bar::Ports { first, count }) = bar(self, index) else {
            return None;
        };
        // The chip set's own devices are below; a function that says it is there is wrong.
        if first < 0x1000 {
            return None;
        }
        // SAFETY: the firmware gave them to this function, and the device there has only its driver to tell it what to do.
        unsafe { Ports::new(first, count) }
    }

    /// Its first message. Others stay masked. `None`: it can send none, or there is no line left.
    pub fn message(&self) -> Option<Message> {
        let (at, _) = capabilities(self).find(|(_, id)| *id == MSIX)?;
        let place = self.read(at.checked_add(4)?);
        let table = self.window(place as u8 & 7, place & !7, MSIX_ENTRY).ok()?;
        let message = Message::reserve(table)?;
        let control = self.read(at) & !MSIX_MASK_ALL;
        self.write(at, control | MSIX_ENABLE);
        Some(message)
    }
}

/// All functions that there are, on all buses.
pub fn scan() -> Vec<Device> {
    let mut found = Vec::new();
    for bus in 0..=255u8 {
        for device in 0..32u8 {
            scan_device(bus, device, &mut found);
        }
    }
    found
}

fn scan_device(bus: u8, device: u8, found: &mut Vec<Device>) {
    let is_one = |function: u8| {
        let registers = Registers::Pci {
            bus,
            device,
            function,
        };
        let address = Function(u16::from(bus) << 8 | u16::from(device) << 3 | u16::from(function));
        let id = address.read(0);
        let device = Device {
            id: Id::Pci {
                vendor: id as u16,
                device: (id >> 16) as u16,
            },
            registers,
            line: None,
        };
        (id as u16 != u16::MAX && id != 0).then_some((address, device))
    };
    let Some((first, entry)) = is_one(0) else {
        return;
    };
    found.push(entry);
    let has_more = first.read(KIND) & 1 << 23 != 0;
    if has_more {
        found.extend((1..8).filter_map(is_one).map(|(_, entry)| entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake([u32; 64]);

    impl Fake {
        fn new() -> Self {
            Self([0; 64])
        }

        fn set(&mut self, offset: u8, value: u32) {
            self.0[usize::from(offset / 4)] = value;
        }
    }

    impl Configuration for Fake {
        fn read(&self, offset: u8) -> u32 {
            self.0[usize::from(offset / 4)]
        }

        fn write(&self, _: u8, _: u32) {
            panic!("nothing is written while it is looked at");
        }
    }

    #[test]
    fn a_list_of_capabilities_that_is_a_circle_ends() {
        let mut fake = Fake::new();
        fake.set(COMMAND, HAS_CAPABILITIES);
        fake.set(CAPABILITIES, 0x43);
        fake.set(0x40, 0x8009);
        fake.set(0x80, 0x4011);
        let list: Vec<_> = capabilities(&fake).collect();
        assert_eq!(list[..3], [(0x40, 9), (0x80, 0x11), (0x40, 9)]);
        assert_eq!(list.len(), MOST_CAPABILITIES);
        // One into the header, and none at all.
        fake.set(0x80, 0x0411);
        assert_eq!(capabilities(&fake).count(), 2);
        fake.set(COMMAND, 0);
        assert_eq!(capabilities(&fake).count(), 0);
    }

    #[test]
    fn base_addresses_are_read_and_say_how_much_there_can_be() {
        let mut fake = Fake::new();
        fake.set(0x10, 0xfebf_1000);
        fake.set(0x14, 0xc041);
        fake.set(0x18, 0x0000_400c);
        fake.set(0x1c, 0x38);
        fake.set(0x20, 0xd001);
        // Of a reserved kind, and one whose other half is not there.
        fake.set(0x24, 0xfebf_0004);
        let memory = |address, length| Some(Bar::Memory { address, length });
        let ports = |first, count| Some(Bar::Ports { first, count });
        assert_eq!(bar(&fake, 0), memory(0xfebf_1000, 0x1000));
        assert_eq!(bar(&fake, 1), ports(0xc040, 64));
        assert_eq!(bar(&fake, 2), memory(0x38_0000_4000, 0x4000));
        assert_eq!(bar(&fake, 4), ports(0xd000, 256));
        assert_eq!((bar(&fake, 5), bar(&fake, 6)), (None, None));
        fake.set(0x24, 0xfebf_0002);
        assert_eq!(bar(&fake, 5), None);
    }

    #[test]
    fn no_configuration_brings_it_down() {
        let mut seed = 1u64;
        let mut random = || {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 32) as u32
        };
        for _ in 0..20_000 {
            let mut fake = Fake::new();
            for at in 0..64 {
                let (word, mask) = (random(), random());
                fake.set(at * 4, if word & 1 == 0 { word } else { word & mask });
            }
            for index in 0..8 {
                match bar(&fake, index) {
                    Some(Bar::Memory { address, length }) => {
                        assert!(length > 0 && address.checked_add(length - 1).is_some());
                    }
                    Some(Bar::Ports { first, count }) => {
                        assert!(count > 0 && first.checked_add(count - 1).is_some());
                    }
                    None => {}
                }
            }
            assert!(capabilities(&fake).count() <= MOST_CAPABILITIES);
        }
    }
}
