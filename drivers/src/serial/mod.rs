//! Serial ports: 16550 and PL011.
//!
//! | | |
//! |---|---|
//! | `port` | registers: sending and receiving by hand |
//! | `uart` | the driver: by interrupts, with two halves that tasks read and write |

mod port;
#[cfg(feature = "alloc")]
mod uart;

pub use port::{Damaged, Registers, Serial, line};
#[cfg(feature = "alloc")]
pub use uart::{Counts, Gone, Rx, Tx, Uart, UartError};
