//! x86_64's I/O ports, and what is behind two of them: the configuration of PCI. Other architectures have none, and no board that
//! names one.

use crate::{arch, sync::Lock};

/// Reads a byte from an I/O port.
///
/// # Safety
/// Reading it has no effect on memory safety: the port belongs to the caller's device.
pub unsafe fn read_port(port: u16) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { arch::read_port(port) }
}

/// Writes a byte to an I/O port.
///
/// # Safety
/// As for [`read_port`].
pub unsafe fn write_port(port: u16, value: u8) {
    // SAFETY: the caller's promise.
    unsafe { arch::write_port(port, value) }
}

/// The I/O ports of a device.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    first: u16,
    count: u16,
}

impl Ports {
    /// `count` ports from `first` on. `None`: there are not so many.
    ///
    /// # Safety
    /// They belong to the caller's device, and whatever is written to them has no effect on memory safety but by what that device is told to do.
    pub unsafe fn new(first: u16, count: u16) -> Option<Self> {
        first.checked_add(count.checked_sub(1)?)?;
        Some(Self { first, count })
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.count
    }

    #[track_caller]
    fn at<T>(&self, offset: u16) -> u16 {
        let fits = offset <= self.count && usize::from(self.count - offset) >= size_of::<T>();
        assert!(fits, "port {offset:#x} is behind the last");
        self.first + offset
    }

    /// Reads 8 bits.
    pub fn read8(&self, offset: u16) -> u8 {
        // SAFETY: the port is one of those that `new` was told of.
        unsafe { arch::read_port(self.at::<u8>(offset)) }
    }

    /// Reads 16 bits.
    pub fn read16(&self, offset: u16) -> u16 {
        // SAFETY: as for `read8`.
        unsafe { arch::read_port(self.at::<u16>(offset)) }
    }

    /// Reads 32 bits.
    pub fn read32(&self, offset: u16) -> u32 {
        // SAFETY: as for `read8`.
        unsafe { arch::read_port(self.at::<u32>(offset)) }
    }

    /// Writes 8 bits.
    pub fn write8(&self, offset: u16, value: u8) {
        // SAFETY: as for `read8`.
        unsafe { arch::write_port(self.at::<u8>(offset), value) }
    }

    /// Writes 16 bits.
    pub fn write16(&self, offset: u16, value: u16) {
        // SAFETY: as for `read8`.
        unsafe { arch::write_port(self.at::<u16>(offset), value) }
    }

    /// Writes 32 bits.
    pub fn write32(&self, offset: u16, value: u32) {
        // SAFETY: as for `read8`.
        unsafe { arch::write_port(self.at::<u32>(offset), value) }
    }
}

/// Which word of the configuration, and the word.
const PCI_ADDRESS: u16 = 0xcf8;
const PCI_DATA: u16 = 0xcfc;
/// Keeps the two together.
static PCI: Lock<()> = Lock::new(());

fn pci_address(function: u16, offset: u8) -> u32 {
    1 << 31 | u32::from(function) << 8 | u32::from(offset & !3)
}

/// Reads a word of a PCI function's configuration: `function` is its bus, device (five bits) and function (three). On a PC only.
pub fn read_pci(function: u16, offset: u8) -> u32 {
    let _held = PCI.lock();
    // SAFETY: the fixed ports of every PC; reading a configuration changes nothing that memory safety relies on.
    unsafe {
        arch::write_port(PCI_ADDRESS, pci_address(function, offset));
        arch::read_port(PCI_DATA)
    }
}

/// Writes a word of a PCI function's configuration.
///
/// # Safety
/// The function is the caller's, and is not made to read or write memory that is not given to it, nor to answer at addresses of others.
pub unsafe fn write_pci(function: u16, offset: u8, value: u32) {
    let _held = PCI.lock();
    // SAFETY: the fixed ports of every PC, and the caller's promise.
    unsafe {
        arch::write_port(PCI_ADDRESS, pci_address(function, offset));
        arch::write_port(PCI_DATA, value);
    }
}
