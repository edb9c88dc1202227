//! The Raspberry Pi 3's two controllers: one for each core's timer and
//! mailboxes, and an older one for devices, whose interrupts all go to core 0.

use super::{
    interrupts::{Claim, Registers},
    this_core,
};
use crate::{cores::MAX_CORES, paging::MapError};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

static LOCAL: Registers = Registers::new();
static DEVICES: Registers = Registers::new();
/// Hardware number of each core, by which its registers are found.
static NUMBERS: [AtomicU32; MAX_CORES] = [const { AtomicU32::new(0) }; MAX_CORES];

const TIMER_CONTROL: usize = 0x40;
const MAILBOX_CONTROL: usize = 0x50;
const SOURCE: usize = 0x60;
const FAST_SOURCE: usize = 0x70;
const MAILBOX_SET: usize = 0x80;
const MAILBOX_CLEAR: usize = 0xc0;

const SOURCE_TIMER: u32 = 1 << 1;
const SOURCE_MAILBOX: u32 = 1 << 4;
/// Of the second mailbox.
const SOURCE_NMI: u32 = 1 << 5;
/// The second mailbox, behind the first.
const NMI: usize = 4;
const SOURCE_DEVICES: u32 = 1 << 8;

const DEVICES_PENDING: usize = 0x204;
const DEVICES_ENABLE: usize = 0x210;
const DEVICES_DISABLE: usize = 0x21c;

pub fn init_once(local: u64, devices: u64) -> Result<(), MapError> {
    LOCAL.map(local, 0x100)?;
    DEVICES.map(devices, 0x300)
}

pub fn init_each_core() {
    let mpidr: u64;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mrs {}, mpidr_el1", out(reg) mpidr, options(nostack, preserves_flags, nomem))
    };
    let number = (mpidr & 3) as u32;
    NUMBERS[this_core()].store(number, Relaxed);
    LOCAL.write(TIMER_CONTROL + 4 * number as usize, SOURCE_TIMER);
    // The first mailbox interrupts, the second does so fast.
    LOCAL.write(MAILBOX_CONTROL + 4 * number as usize, 1 | SOURCE_NMI);
}

fn number(core: usize) -> usize {
    NUMBERS[core].load(Relaxed) as usize
}

pub fn kick(core: usize) {
    LOCAL.write(MAILBOX_SET + 16 * number(core), 1);
}

pub fn send_nmi(core: usize) {
    LOCAL.write(MAILBOX_SET + 16 * number(core) + NMI, 1);
}

pub fn on_fast(handle: impl FnOnce()) {
    let me = number(this_core());
    if LOCAL.read(FAST_SOURCE + 4 * me) & SOURCE_NMI != 0 {
        LOCAL.write(MAILBOX_CLEAR + 16 * me + NMI, u32::MAX);
        // As for a kick: cleared before it is handled.
        let _ = LOCAL.read(MAILBOX_CLEAR + 16 * me + NMI);
        handle();
    }
}

/// Devices interrupt core 0 whatever is asked for: the hardware routes all of them to one core.
pub fn enable_line(line: u32, _core: usize) {
    DEVICES.write(DEVICES_ENABLE + 4 * (line as usize / 32), 1 << (line % 32));
}

pub fn disable_line(line: u32) {
    DEVICES.write(DEVICES_DISABLE + 4 * (line as usize / 32), 1 << (line % 32));
}

pub fn on_interrupt(mut handle: impl FnMut(Claim)) {
    let me = number(this_core());
    let source = LOCAL.read(SOURCE + 4 * me);
    if source & SOURCE_MAILBOX != 0 {
        // Cleared before it is handled: a kick that comes meanwhile is another.
        LOCAL.write(MAILBOX_CLEAR + 16 * me, u32::MAX);
        // Read back, so that the clear has arrived before the handler looks: else it could wipe out
        // the kick for what the handler did not see yet.
        let _ = LOCAL.read(MAILBOX_CLEAR + 16 * me);
        handle(Claim::Kick);
    }
    if source & SOURCE_TIMER != 0 {
        handle(Claim::Timer);
    }
    if source & SOURCE_DEVICES != 0 {
        for word in 0..2 {
            let mut pending = DEVICES.read(DEVICES_PENDING + 4 * word);
            while pending != 0 {
                handle(Claim::Line(32 * word as u32 + pending.trailing_zeros()));
                pending &= pending - 1;
            }
        }
    }
}
