//! Portable device drivers: registers in, bytes out.
//!
//! | | |
//! |---|---|
//! | `serial` | the console's serial port, 16550 or PL011, by polling, with an interrupt for what arrives |
//! | `gpio` | pins of a Raspberry Pi |

#![cfg_attr(not(test), no_std)]

pub mod gpio;
pub mod serial;
