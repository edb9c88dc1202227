//! GIC with memory-mapped CPU interface: GIC-400 of the Pi 4, QEMU's `gic-version=2`.
//!
//! Written by hand rather than with `arm-gic`, whose interface of this version
//! takes `&mut self` to acknowledge, though each core sees registers of its own.

use super::interrupts::{Claim, KICK, Registers, TIMER, meaning};
use crate::{cores::MAX_CORES, paging::MapError};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

static DISTRIBUTOR: Registers = Registers::new();
static CPU: Registers = Registers::new();
/// Each core's bit in the distributor's target masks.
static MASKS: [AtomicU32; MAX_CORES] = [const { AtomicU32::new(0) }; MAX_CORES];

const CONTROL: usize = 0x000;
/// How many words of lines there are, less one.
const TYPE: usize = 0x004;
const ENABLE: usize = 0x100;
const DISABLE: usize = 0x180;
const PRIORITY: usize = 0x400;
const TARGETS: usize = 0x800;
const SOFTWARE: usize = 0xf00;

const CPU_CONTROL: usize = 0x00;
const CPU_PRIORITY_MASK: usize = 0x04;
const CPU_ACKNOWLEDGE: usize = 0x0c;
const CPU_END: usize = 0x10;
/// First number that is not an interrupt.
const SPECIAL: u32 = 1020;

pub fn init_once(distributor: u64, cpu: u64) -> Result<(), MapError> {
    DISTRIBUTOR.map(distributor, 0x1000)?;
    CPU.map(cpu, 0x1000)?;
    DISTRIBUTOR.write(CONTROL, 0);
    // Whatever the firmware let through: from here on only what a driver asks for.
    let words = (DISTRIBUTOR.read(TYPE) & 0x1f) as usize + 1;
    for word in 1..words {
        DISTRIBUTOR.write(DISABLE + 4 * word, u32::MAX);
    }
    DISTRIBUTOR.write(CONTROL, 1);
    Ok(())
}

pub fn init_each_core() {
    let mask = DISTRIBUTOR.read(TARGETS) & 0xff;
    // A machine with one core has no targets to choose from.
    MASKS[super::this_core()].store(if mask == 0 { 1 } else { mask }, Relaxed);
    for number in [KICK, TIMER] {
        DISTRIBUTOR.write_byte(PRIORITY + number as usize, 0xa0);
    }
    DISTRIBUTOR.write(ENABLE, 1 << KICK | 1 << TIMER);
    CPU.write(CPU_PRIORITY_MASK, 0xff);
    CPU.write(CPU_CONTROL, 1);
}

pub fn kick(core: usize) {
    DISTRIBUTOR.write(SOFTWARE, MASKS[core].load(Relaxed) << 16 | KICK);
}

pub fn enable_line(line: u32, core: usize) {
    let index = line as usize;
    DISTRIBUTOR.write_byte(PRIORITY + index, 0xa0);
    DISTRIBUTOR.write_byte(TARGETS + index, MASKS[core].load(Relaxed) as u8);
    DISTRIBUTOR.write(ENABLE + 4 * (index / 32), 1 << (line % 32));
}

pub fn disable_line(line: u32) {
    DISTRIBUTOR.write(DISABLE + 4 * (line as usize / 32), 1 << (line % 32));
}

pub fn on_interrupt(mut handle: impl FnMut(Claim)) {
    loop {
        let claimed = CPU.read(CPU_ACKNOWLEDGE);
        let number = claimed & 0x3ff;
        if number >= SPECIAL {
            return;
        }
        handle(meaning(number));
        CPU.write(CPU_END, claimed);
    }
}
