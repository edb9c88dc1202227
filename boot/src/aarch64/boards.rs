//! What the boards are made of, as far as no device tree says it.

use super::Description;
use crate::{
    CoreList, Text,
    devicetree::{Start, Tree},
    memory::{Kind, MemoryMap},
};
use core::arch::asm;
use hal::{
    board::{Board, Interrupts, Platform, Power, Uart},
    cores::MAX_CORES,
    irq::Line,
};

/// Puts together the device tree, if there is one, and what is known of the board.
pub fn describe(tree: Option<Tree>, memory: &mut MemoryMap, cores: &mut CoreList) -> Description {
    let board = match tree.as_ref().and_then(|tree| tree.board) {
        Some(board) => board,
        None => by_processor(),
    };
    match (board, tree) {
        (Board::Virt, Some(tree)) => virt(tree),
        (Board::Virt, None) => {
            panic!("the virt board passes a device tree: start the flat image, not an ELF file")
        }
        (_, tree) => raspi(board, tree, memory, cores),
    }
}

/// Pi 3 and Pi 4 have different processors.
fn by_processor() -> Board {
    let name: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, midr_el1", out(reg) name, options(nostack, preserves_flags, nomem)) };
    match name >> 4 & 0xfff {
        0xd03 => Board::Raspi3,
        0xd08 => Board::Raspi4,
        _ => Board::Virt,
    }
}

fn virt(tree: Tree) -> Description {
    let interrupts = match (tree.gic_v3, tree.gic_v2) {
        (Some(gic), _) => Interrupts::GicV3 {
            distributor: gic.registers.0,
            redistributors: gic.more_registers.0,
            redistributors_length: gic.more_registers.1,
        },
        (None, Some(gic)) => Interrupts::GicV2 {
            distributor: gic.registers.0,
            cpu: gic.more_registers.0,
        },
        (None, None) => panic!("the device tree names no GIC"),
    };
    let uart = tree.uart.expect("the device tree names a PL011");
    let start = tree.start.unwrap_or(Start::PsciHvc);
    Description {
        platform: Platform {
            board: Board::Virt,
            interrupts,
            uart: Uart::Pl011 {
                registers: uart.registers.0,
                line: Line(uart.line),
            },
            power: match start {
                Start::PsciSmc => Power::PsciSmc,
                _ => Power::PsciHvc,
            },
            takes_status: false,
        },
        command_line: tree.command_line,
        start,
        release: tree.release,
    }
}

/// Where the cores of a Pi look for where to go: the firmware's table.
const RELEASE: [u64; 4] = [0xd8, 0xe0, 0xe8, 0xf0];
/// Memory of a Pi that no device tree describes: all models have it, and the
/// graphics processor's share is above.
const MEMORY: u64 = 896 << 20;

fn raspi(
    board: Board,
    tree: Option<Tree>,
    memory: &mut MemoryMap,
    cores: &mut CoreList,
) -> Description {
    if memory.usable().next().is_none() {
        memory.add_usable(0, MEMORY);
    }
    // The firmware's waiting loop and table. Writable, for the table.
    memory.reserve(0, 0x1000, Kind::Trampoline);
    let (command_line, mut release) = match tree {
        Some(tree) => (tree.command_line, tree.release),
        None => {
            for core in 1..4 {
                cores.add(core);
            }
            (Text::new([]), [0; MAX_CORES])
        }
    };
    for (core, &id) in cores.ids().iter().enumerate() {
        if release[core] == 0
            && let Some(&address) = RELEASE.get(id as usize)
        {
            release[core] = address;
        }
    }
    let (interrupts, registers, line, watchdog) = match board {
        Board::Raspi4 => (
            Interrupts::GicV2 {
                distributor: 0xff84_1000,
                cpu: 0xff84_2000,
            },
            0xfe20_1000,
            153,
            0xfe10_0000,
        ),
        _ => (
            Interrupts::Bcm2836 {
                local: 0x4000_0000,
                devices: 0x3f00_b000,
            },
            0x3f20_1000,
            57,
            0x3f10_0000,
        ),
    };
    Description {
        platform: Platform {
            board,
            interrupts,
            uart: Uart::Pl011 {
                registers,
                line: Line(line),
            },
            power: Power::BcmWatchdog(watchdog),
            takes_status: false,
        },
        command_line,
        start: Start::SpinTable,
        release,
    }
}
