//! Portable device drivers: registers in, bytes out.
//!
//! | | |
//! |---|---|
//! | `serial` | serial ports, 16550 and PL011: by hand, and driven by their interrupts |
//! | `block` | disks, whoever drives them |
//! | `sd` | SD cards, by the host controller of a Raspberry Pi |
//! | `link` | what carries frames of a network, whoever drives it |
//! | `virtio` | network cards and disks of virtual machines |
//! | `pci` | what there is on PCI, and where its registers and interrupts are |
//! | `dma` | memory that devices read and write |
//! | `handout` | where what was started waits for who uses it |
//! | `gpio` | pins of a Raspberry Pi |
//! | `clock_of_day` | PL031: the time of day, and an alarm; the example of a driver |

#![cfg_attr(not(test), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(feature = "alloc")]
pub mod block;
#[cfg(feature = "alloc")]
pub mod clock_of_day;
#[cfg(feature = "alloc")]
pub mod dma;
pub mod gpio;
#[cfg(feature = "alloc")]
mod handout;
pub mod link;
#[cfg(feature = "alloc")]
pub mod pci;
#[cfg(feature = "alloc")]
pub mod sd;
pub mod serial;
#[cfg(feature = "alloc")]
pub mod virtio;
