//! The devices of the board: drivers are registered, and what boot and the board's table have found is handed to them.

use crate::console;
use boot::BootInfo;
use drivers::clock_of_day::Pl031;
use executor::io::{
    Device, Id, Registers,
    devices::{found, register},
};
use hal::{board::Board, irq::Line};

/// What QEMU's `virt` has beside what boot finds.
const CLOCK_OF_VIRT: Device = Device {
    id: Id::BuiltIn("pl031"),
    registers: Registers::Memory {
        address: 0x0901_0000,
        length: 0x1000,
    },
    line: Some(Line(34)),
};

/// From here on devices are driven by their interrupts.
pub async fn start(info: &BootInfo) {
    register(&console::Uart0).await;
    register(&Pl031).await;
    if let Some(uart) = console::device(info.platform.uart) {
        found(uart).await;
    }
    if info.platform.board == Board::Virt {
        found(CLOCK_OF_VIRT).await;
    }
}
