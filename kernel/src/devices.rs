//! The devices of the board: drivers are registered, and what boot, the board's table and its buses have found is handed to them.

use crate::console;
use alloc::vec::Vec;
use boot::{BootInfo, devicetree};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use drivers::{
    clock_of_day::Pl031,
    pci,
    sd::Sdhci,
    virtio::{block::VirtioBlock, net::VirtioNet, transport::mmio::Mmio},
};
use executor::io::{
    Device, Id, Registers,
    devices::{found, register},
};
use hal::{
    board::Board,
    irq::{self, Line, Trigger},
};

/// What QEMU's `virt` has beside what boot finds.
const CLOCK_OF_VIRT: Device = Device {
    id: Id::BuiltIn("pl031"),
    registers: Registers::Memory {
        address: 0x0901_0000,
        length: 0x1000,
    },
    line: Some(Line(34)),
};

/// The controller of the card, of a Pi 3 and a Pi 4. The latter was never tried.
const CARD_OF_PI_3: Device = Device {
    id: Id::BuiltIn("sdhci"),
    registers: Registers::Memory {
        address: 0x3f30_0000,
        length: 0x100,
    },
    line: Some(Line(62)),
};
const CARD_OF_PI_4: Device = Device {
    id: Id::BuiltIn("sdhci"),
    registers: Registers::Memory {
        address: 0xfe34_0000,
        length: 0x100,
    },
    line: Some(Line(158)),
};

/// From here on devices are driven by their interrupts. Once is enough; what was stopped stays so.
pub async fn start(info: &BootInfo) {
    static IS_STARTED: AtomicBool = AtomicBool::new(false);
    if IS_STARTED.swap(true, Relaxed) {
        return;
    }
    register(&console::Uart0).await;
    register(&Pl031).await;
    register(&VirtioNet).await;
    register(&VirtioBlock).await;
    register(&Sdhci).await;
    if let Some(uart) = console::device(info.platform.uart) {
        found(uart).await;
    }
    let buses = match info.platform.board {
        Board::Pc => pci::scan(),
        Board::Virt => {
            found(CLOCK_OF_VIRT).await;
            virtio_of_tree(info)
        }
        Board::Raspi3 => alloc::vec![CARD_OF_PI_3],
        Board::Raspi4 => alloc::vec![CARD_OF_PI_4],
        Board::Host => Vec::new(),
    };
    for device in buses {
        found(device).await;
    }
}

/// The virtio devices of a device tree: many places where one may be, of which few are taken.
fn virtio_of_tree(info: &BootInfo) -> Vec<Device> {
    let mut devices = Vec::new();
    let Some(tree) = info.device_tree() else {
        return devices;
    };
    devicetree::for_each_compatible(tree, "virtio,mmio", &mut |place| {
        let (address, length) = place.registers;
        let length = usize::try_from(length).unwrap_or(0);
        let Some(kind) = Mmio::probe(address, length) else {
            return;
        };
        let line = (place.line != 0).then_some(Line(place.line));
        if let Some(line) = line {
            let trigger = match place.is_edge {
                true => Trigger::Edge,
                false => Trigger::Level,
            };
            irq::set_trigger(line, trigger);
        }
        devices.push(Device {
            id: Id::Virtio(kind),
            registers: Registers::Memory { address, length },
            line,
        });
    });
    devices
}
