//! GIC with memory-mapped CPU interface: GIC-400 of the Pi 4, QEMU's `gic-version=2`.
//!
//! Written by hand rather than with `arm-gic`, whose interface of this version
//! takes `&mut self` to acknowledge, though each core sees registers of its own.

use super::interrupts::{
    Claim, KICK, NMI, NMI_PRIORITY, PRIORITY as USUAL, Registers, TIMER, configure, meaning,
};
use crate::{cores::MAX_CORES, irq::Trigger, paging::MapError};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

static DISTRIBUTOR: Registers = Registers::new();
static CPU: Registers = Registers::new();
/// Each core's bit in the distributor's target masks.
static MASKS: [AtomicU32; MAX_CORES] = [const { AtomicU32::new(0) }; MAX_CORES];
/// Whether group 0 is ours: it comes as a fast interrupt, and all but one interrupt are put into group 1.
static HAS_NMI: AtomicBool = AtomicBool::new(false);

const CONTROL: usize = 0x000;
/// How many words of lines there are, less one.
const TYPE: usize = 0x004;
const GROUP: usize = 0x080;
const ENABLE: usize = 0x100;
const DISABLE: usize = 0x180;
const PRIORITY: usize = 0x400;
const TARGETS: usize = 0x800;
const SOFTWARE: usize = 0xf00;
/// To interrupts of group 1.
const SOFTWARE_GROUP_1: u32 = 1 << 15;
const GROUPS: u32 = 3;

const CPU_CONTROL: usize = 0x00;
const CPU_PRIORITY_MASK: usize = 0x04;
const CPU_ACKNOWLEDGE: usize = 0x0c;
const CPU_END: usize = 0x10;
/// An acknowledge takes interrupts of both groups.
const CPU_TAKES_BOTH: u32 = 1 << 2;
/// Group 0 comes as fast interrupts.
const CPU_FAST: u32 = 1 << 3;
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
    // If there is another world, groups are its own, and read as 0.
    DISTRIBUTOR.write(GROUP, !(1 << NMI));
    let has_nmi = DISTRIBUTOR.read(GROUP) == !(1 << NMI);
    HAS_NMI.store(has_nmi, Relaxed);
    if has_nmi {
        for word in 1..words {
            DISTRIBUTOR.write(GROUP + 4 * word, u32::MAX);
        }
    }
    DISTRIBUTOR.write(CONTROL, if has_nmi { GROUPS } else { 1 });
    Ok(())
}

pub fn has_nmi() -> bool {
    HAS_NMI.load(Relaxed)
}

pub fn init_each_core() {
    let mask = DISTRIBUTOR.read(TARGETS) & 0xff;
    // A machine with one core has no targets to choose from.
    MASKS[super::this_core()].store(if mask == 0 { 1 } else { mask }, Relaxed);
    for number in [KICK, TIMER] {
        DISTRIBUTOR.write_byte(PRIORITY + number as usize, USUAL);
    }
    let mut control = 1;
    if has_nmi() {
        // Each core has a word of groups for those that are its own.
        DISTRIBUTOR.write(GROUP, !(1 << NMI));
        DISTRIBUTOR.write_byte(PRIORITY + NMI as usize, NMI_PRIORITY);
        DISTRIBUTOR.write(ENABLE, 1 << NMI);
        control = GROUPS | CPU_TAKES_BOTH | CPU_FAST;
    }
    DISTRIBUTOR.write(ENABLE, 1 << KICK | 1 << TIMER);
    CPU.write(CPU_PRIORITY_MASK, 0xff);
    CPU.write(CPU_CONTROL, control);
}

pub fn kick(core: usize) {
    let group = if has_nmi() { SOFTWARE_GROUP_1 } else { 0 };
    DISTRIBUTOR.write(SOFTWARE, MASKS[core].load(Relaxed) << 16 | group | KICK);
}

pub fn send_nmi(core: usize) {
    if has_nmi() {
        DISTRIBUTOR.write(SOFTWARE, MASKS[core].load(Relaxed) << 16 | NMI);
    }
}

/// It is the most urgent, so it is what is claimed. It may have been claimed in a handler just before.
pub fn on_fast(handle: impl FnOnce()) {
    let claimed = CPU.read(CPU_ACKNOWLEDGE);
    let number = claimed & 0x3ff;
    if number < SPECIAL {
        if number == NMI {
            handle();
        }
        CPU.write(CPU_END, claimed);
    }
}

pub fn enable_line(line: u32, core: usize) {
    let index = line as usize;
    DISTRIBUTOR.write_byte(PRIORITY + index, USUAL);
    DISTRIBUTOR.write_byte(TARGETS + index, MASKS[core].load(Relaxed) as u8);
    DISTRIBUTOR.write(ENABLE + 4 * (index / 32), 1 << (line % 32));
}

pub fn set_trigger(line: u32, trigger: Trigger) {
    disable_line(line);
    configure(&DISTRIBUTOR, line, trigger);
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
        if number != NMI {
            handle(meaning(number));
        }
        CPU.write(CPU_END, claimed);
        if number == NMI {
            // It came between the interrupt and the claim. Once more, as what it is.
            send_nmi(super::this_core());
        }
    }
}
