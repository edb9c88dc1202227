//! GIC with system registers: QEMU's `gic-version=3`, and most servers.

use super::interrupts::{
    Claim, KICK, NMI, NMI_PRIORITY, PRIORITY as USUAL, Registers, TIMER, configure, meaning,
};
use crate::{cores::MAX_CORES, irq::Trigger, paging::MapError, sync::Lock};
use core::{
    arch::asm,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

static DISTRIBUTOR: Registers = Registers::new();
static REDISTRIBUTORS: Registers = Registers::new();
static REDISTRIBUTORS_LENGTH: AtomicUsize = AtomicUsize::new(0);
/// Each core's affinity: the four numbers of its MPIDR.
static AFFINITIES: [AtomicU64; MAX_CORES] = [const { AtomicU64::new(0) }; MAX_CORES];

const CONTROL: usize = 0x0000;
const AFFINITY_ROUTING: u32 = 1 << 4;
/// There is only this world, so group 0, which comes as fast interrupts, is ours.
const ONE_WORLD: u32 = 1 << 6;
/// How many words of lines there are, less one.
const LINES: usize = 0x0004;
const GROUP: usize = 0x0080;
const ENABLE: usize = 0x0100;
const DISABLE: usize = 0x0180;
const PRIORITY: usize = 0x0400;
const ROUTER: usize = 0x6000;

/// One core's redistributor: two frames of 64 KiB.
const STRIDE: usize = 0x2_0000;
const TYPE: usize = 0x0008;
const WAKER: usize = 0x0014;
/// Its second frame, for the interrupts that each core has to itself.
const PRIVATE: usize = 0x1_0000;
const SPECIAL: u64 = 1020;

pub fn init_once(distributor: u64, redistributors: u64, length: u64) -> Result<(), MapError> {
    DISTRIBUTOR.map(distributor, 0x1_0000)?;
    REDISTRIBUTORS.map(redistributors, length as usize)?;
    REDISTRIBUTORS_LENGTH.store(length as usize, Relaxed);
    // Groups off, affinity routing on, groups on: routing may only change while they are off. Whichever
    // security state this is, these are the bits.
    set_control(0);
    set_control(AFFINITY_ROUTING);
    // Whatever the firmware let through: from here on only what a driver asks for.
    let words = (DISTRIBUTOR.read(LINES) & 0x1f) as usize + 1;
    for word in 1..words {
        DISTRIBUTOR.write(DISABLE + 4 * word, u32::MAX);
    }
    set_control(AFFINITY_ROUTING | 1 << 1 | 1);
    Ok(())
}

pub fn has_nmi() -> bool {
    DISTRIBUTOR.read(CONTROL) & ONE_WORLD != 0
}

/// Writes the control register and waits until that has arrived.
fn set_control(value: u32) {
    DISTRIBUTOR.write(CONTROL, value);
    while DISTRIBUTOR.read(CONTROL) & 1 << 31 != 0 {
        super::pause();
    }
}

fn my_affinity() -> u64 {
    let mpidr: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) mpidr, options(nostack, preserves_flags, nomem)) };
    (mpidr >> 32 & 0xff) << 24 | mpidr & 0xff_ffff
}

/// Where this core's redistributor is: each says which core it is for.
fn my_redistributor() -> usize {
    let mine = my_affinity();
    (0..REDISTRIBUTORS_LENGTH.load(Relaxed))
        .step_by(STRIDE)
        .find(|&at| REDISTRIBUTORS.read64(at + TYPE) >> 32 == mine)
        .expect("every core has a redistributor")
}

pub fn init_each_core() {
    AFFINITIES[super::this_core()].store(my_affinity(), Relaxed);
    let mine = my_redistributor();
    // Wake it, and wait until it is awake.
    REDISTRIBUTORS.write(mine + WAKER, REDISTRIBUTORS.read(mine + WAKER) & !2);
    while REDISTRIBUTORS.read(mine + WAKER) & 4 != 0 {
        super::pause();
    }
    let private = mine + PRIVATE;
    REDISTRIBUTORS.write(private + GROUP, u32::MAX);
    for number in [KICK, TIMER] {
        REDISTRIBUTORS.write_byte(private + PRIORITY + number as usize, USUAL);
    }
    REDISTRIBUTORS.write(private + ENABLE, 1 << KICK | 1 << TIMER);
    if has_nmi() {
        REDISTRIBUTORS.write(private + GROUP, !(1 << NMI));
        REDISTRIBUTORS.write_byte(private + PRIORITY + NMI as usize, NMI_PRIORITY);
        REDISTRIBUTORS.write(private + ENABLE, 1 << NMI);
    }
    // System registers on, every priority, group 1 on.
    // SAFETY: the documented way to turn on the CPU interface.
    unsafe {
        asm!(
            "mrs {t}, S3_0_C12_C12_5", // ICC_SRE_EL1
            "orr {t}, {t}, #1",
            "msr S3_0_C12_C12_5, {t}",
            "isb",
            "mov {t}, #0xff",
            "msr S3_0_C4_C6_0, {t}", // ICC_PMR_EL1
            "mov {t}, #1",
            "msr S3_0_C12_C12_7, {t}", // ICC_IGRPEN1_EL1
            "isb",
            t = out(reg) _,
            options(nostack, preserves_flags),
        );
        if has_nmi() {
            // ICC_IGRPEN0_EL1: group 0 on. Where there is another world, this would trap to it.
            asm!("msr S3_0_C12_C12_6, {}", "isb", in(reg) 1u64, options(nostack, preserves_flags));
        }
    }
}

/// What sends this interrupt to `core`.
fn to(core: usize, number: u32) -> u64 {
    let affinity = AFFINITIES[core].load(Relaxed);
    let (level0, cluster) = (affinity & 0xff, affinity >> 8);
    // Target list of 16 within a range of the lowest level, then the three levels above.
    1 << (level0 & 15)
        | (cluster & 0xff) << 16
        | u64::from(number) << 24
        | (cluster >> 8 & 0xff) << 32
        | (level0 >> 4) << 44
        | (cluster >> 16 & 0xff) << 48
}

pub fn kick(core: usize) {
    // SAFETY: ICC_SGI1R_EL1: sends an interrupt, which every core that is up can take.
    unsafe {
        asm!("msr S3_0_C12_C11_5, {}", "isb", in(reg) to(core, KICK), options(nostack, preserves_flags))
    };
}

pub fn send_nmi(core: usize) {
    if has_nmi() {
        // SAFETY: ICC_SGI0R_EL1: the same for group 0.
        unsafe {
            asm!("msr S3_0_C12_C11_7, {}", "isb", in(reg) to(core, NMI), options(nostack, preserves_flags))
        };
    }
}

pub fn on_fast(handle: impl FnOnce()) {
    let claimed: u64;
    // SAFETY: ICC_IAR0_EL1: claims the interrupt that is being handled here.
    unsafe {
        asm!("mrs {}, S3_0_C12_C8_0", "dsb sy", out(reg) claimed, options(nostack, preserves_flags))
    };
    if claimed & 0xff_ffff < SPECIAL {
        handle();
        // SAFETY: ICC_EOIR0_EL1: completes the interrupt just claimed.
        unsafe {
            asm!("msr S3_0_C12_C8_1, {}", "isb", in(reg) claimed, options(nostack, preserves_flags))
        };
    }
}

pub fn enable_line(line: u32, core: usize) {
    // The group's word is shared with other lines.
    static GROUPS: Lock<()> = Lock::new(());
    let _held = GROUPS.lock();
    let (word, bit) = (4 * (line as usize / 32), 1 << (line % 32));
    let group = DISTRIBUTOR.read(GROUP + word);
    DISTRIBUTOR.write(GROUP + word, group | bit);
    DISTRIBUTOR.write_byte(PRIORITY + line as usize, USUAL);
    let affinity = AFFINITIES[core].load(Relaxed);
    DISTRIBUTOR.write64(
        ROUTER + 8 * line as usize,
        (affinity >> 24) << 32 | affinity & 0xff_ffff,
    );
    DISTRIBUTOR.write(ENABLE + word, bit);
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
        let claimed: u64;
        // SAFETY: ICC_IAR1_EL1: claims the interrupt that is being handled here.
        unsafe {
            asm!("mrs {}, S3_0_C12_C12_0", "dsb sy", out(reg) claimed, options(nostack, preserves_flags))
        };
        if claimed & 0xff_ffff >= SPECIAL {
            return;
        }
        handle(meaning(claimed as u32 & 0xff_ffff));
        // SAFETY: ICC_EOIR1_EL1: completes the interrupt just claimed.
        unsafe {
            asm!("msr S3_0_C12_C12_1, {}", "isb", in(reg) claimed, options(nostack, preserves_flags))
        };
    }
}
