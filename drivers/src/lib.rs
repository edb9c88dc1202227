//! Portable device drivers: registers in, bytes out.
//!
//! | | |
//! |---|---|
//! | `serial` | the console's serial port, 16550 or PL011, by polling, with an interrupt for what arrives |

#![cfg_attr(not(test), no_std)]

pub mod serial;
