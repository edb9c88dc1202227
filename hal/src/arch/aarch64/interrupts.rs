//! The interrupt controllers of the boards behind one set of names.

use super::{bcm2836, gic_v2, gic_v3, timer_disarm};
use crate::{
    board::{self, Interrupts},
    irq::{Line, Trigger},
    paging::MapError,
    sync::Lock,
    traps,
};

/// PPI of the physical timer of EL1, on every GIC.
pub const TIMER: u32 = 30;
/// SGI of a kick.
pub const KICK: u32 = 0;
/// SGI that comes as a fast interrupt, which nobody masks.
pub const NMI: u32 = 1;
/// Priority of that, and of all others: it may interrupt their handlers.
pub const NMI_PRIORITY: u8 = 0x20;
pub const PRIORITY: u8 = 0xa0;

/// An interrupt that was claimed.
pub enum Claim {
    Timer,
    Kick,
    Line(u32),
}

/// Maps the registers and sets up what all cores share.
pub fn init_once(interrupts: Interrupts) -> Result<(), MapError> {
    match interrupts {
        Interrupts::GicV2 { distributor, cpu } => gic_v2::init_once(distributor, cpu),
        Interrupts::GicV3 {
            distributor,
            redistributors,
            redistributors_length,
        } => gic_v3::init_once(distributor, redistributors, redistributors_length),
        Interrupts::Bcm2836 { local, devices } => bcm2836::init_once(local, devices),
        Interrupts::Apic { .. } | Interrupts::Host => Ok(()),
    }
}

/// Sets up this core's part.
pub fn init_each_core() {
    match board::platform().interrupts {
        Interrupts::GicV2 { .. } => gic_v2::init_each_core(),
        Interrupts::GicV3 { .. } => gic_v3::init_each_core(),
        Interrupts::Bcm2836 { .. } => bcm2836::init_each_core(),
        Interrupts::Apic { .. } | Interrupts::Host => {}
    }
}

/// Interrupts another core.
pub fn kick(core: usize) {
    // What was written before the kick is seen by who takes it.
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("dsb ish", options(nostack, preserves_flags)) };
    match board::platform().interrupts {
        Interrupts::GicV2 { .. } => gic_v2::kick(core),
        Interrupts::GicV3 { .. } => gic_v3::kick(core),
        Interrupts::Bcm2836 { .. } => bcm2836::kick(core),
        Interrupts::Apic { .. } | Interrupts::Host => {}
    }
}

/// Interrupts this core as soon as it lets interrupts in.
pub fn kick_self() {
    kick(super::this_core());
}

/// Whether there are fast interrupts, which cores never mask. Where a GIC serves two worlds, they are the other one's.
pub fn has_nmi() -> bool {
    match board::platform().interrupts {
        Interrupts::GicV2 { .. } => gic_v2::has_nmi(),
        Interrupts::GicV3 { .. } => gic_v3::has_nmi(),
        Interrupts::Bcm2836 { .. } => true,
        Interrupts::Apic { .. } | Interrupts::Host => false,
    }
}

/// Interrupts another core, whether or not it lets interrupts in, if there is such a thing.
pub fn send_nmi(core: usize) {
    // SAFETY: a barrier, as for a kick.
    unsafe { core::arch::asm!("dsb ish", options(nostack, preserves_flags)) };
    match board::platform().interrupts {
        Interrupts::GicV2 { .. } => gic_v2::send_nmi(core),
        Interrupts::GicV3 { .. } => gic_v3::send_nmi(core),
        Interrupts::Bcm2836 { .. } => bcm2836::send_nmi(core),
        Interrupts::Apic { .. } | Interrupts::Host => {}
    }
}

/// Makes another core look whether it is to stop: now, if that cannot be masked, or else at its next interrupt.
pub fn send_stop(core: usize) {
    send_nmi(core);
    kick(core);
}

/// The fast interrupt: `handle` runs if it is what it should be.
pub fn on_fast(handle: impl FnOnce()) {
    let handle = || {
        // SAFETY: a barrier, as in `on_interrupt`.
        unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
        handle();
    };
    match board::platform().interrupts {
        Interrupts::GicV2 { .. } => gic_v2::on_fast(handle),
        Interrupts::GicV3 { .. } => gic_v3::on_fast(handle),
        Interrupts::Bcm2836 { .. } => bcm2836::on_fast(handle),
        Interrupts::Apic { .. } | Interrupts::Host => {}
    }
}

/// Lets a device line through to `core`.
pub fn enable_line(line: u32, core: usize) {
    match board::platform().interrupts {
        Interrupts::GicV2 { .. } => gic_v2::enable_line(line, core),
        Interrupts::GicV3 { .. } => gic_v3::enable_line(line, core),
        Interrupts::Bcm2836 { .. } => bcm2836::enable_line(line, core),
        Interrupts::Apic { .. } | Interrupts::Host => {}
    }
}

/// Says how a device line comes. A Pi 3's all come by levels.
pub fn set_trigger(line: u32, trigger: Trigger) {
    match board::platform().interrupts {
        Interrupts::GicV2 { .. } => gic_v2::set_trigger(line, trigger),
        Interrupts::GicV3 { .. } => gic_v3::set_trigger(line, trigger),
        Interrupts::Bcm2836 { .. } | Interrupts::Apic { .. } | Interrupts::Host => {}
    }
}

/// Stops a device line.
pub fn disable_line(line: u32) {
    match board::platform().interrupts {
        Interrupts::GicV2 { .. } => gic_v2::disable_line(line),
        Interrupts::GicV3 { .. } => gic_v3::disable_line(line),
        Interrupts::Bcm2836 { .. } => bcm2836::disable_line(line),
        Interrupts::Apic { .. } | Interrupts::Host => {}
    }
}

/// The interrupt: handles all that is pending. `check_stop` runs first, for each.
pub fn on_interrupt(mut check_stop: impl FnMut()) {
    let handle = |claim: Claim| {
        // What was published before the interrupt was sent must be seen by who handles it: nothing
        // after the claim may be read before it.
        // SAFETY: a barrier.
        unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
        check_stop();
        match claim {
            Claim::Timer => {
                // It asks until it is told to stop.
                timer_disarm();
                traps::upcalls().on_timer();
            }
            Claim::Kick => traps::upcalls().on_kick(),
            Claim::Line(line) => traps::upcalls().on_line(Line(line)),
        }
    };
    match board::platform().interrupts {
        Interrupts::GicV2 { .. } => gic_v2::on_interrupt(handle),
        Interrupts::GicV3 { .. } => gic_v3::on_interrupt(handle),
        Interrupts::Bcm2836 { .. } => bcm2836::on_interrupt(handle),
        Interrupts::Apic { .. } | Interrupts::Host => {}
    }
}

/// What an interrupt number of a GIC means.
pub fn meaning(number: u32) -> Claim {
    match number {
        KICK => Claim::Kick,
        TIMER => Claim::Timer,
        line => Claim::Line(line),
    }
}

/// Where a distributor keeps how its lines come: two bits each.
const CONFIGURATION: usize = 0xc00;

/// Says how a line of a GIC comes. It must be disabled meanwhile.
pub fn configure(distributor: &Registers, line: u32, trigger: Trigger) {
    // A word is shared with other lines.
    static CONFIGURATIONS: Lock<()> = Lock::new(());
    let _held = CONFIGURATIONS.lock();
    let word = CONFIGURATION + 4 * (line as usize / 16);
    let edge = 2 << (2 * (line % 16));
    let others = distributor.read(word) & !edge;
    let own = match trigger {
        Trigger::Edge => edge,
        Trigger::Level => 0,
    };
    distributor.write(word, others | own);
}

/// Device registers at a fixed place.
pub struct Registers(core::sync::atomic::AtomicUsize);

impl Registers {
    pub const fn new() -> Self {
        Self(core::sync::atomic::AtomicUsize::new(0))
    }

    /// Maps `length` bytes of registers at `phys`.
    pub fn map(&self, phys: u64, length: usize) -> Result<(), MapError> {
        let at = crate::paging::map_device(phys, length)?;
        self.0.store(at, core::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.load(core::sync::atomic::Ordering::Relaxed) + offset
    }

    pub fn read(&self, offset: usize) -> u32 {
        // SAFETY: mapped by `map`, for good; offsets are those of the controller's manual.
        unsafe { (self.at(offset) as *const u32).read_volatile() }
    }

    pub fn write(&self, offset: usize, value: u32) {
        // SAFETY: as above.
        unsafe { (self.at(offset) as *mut u32).write_volatile(value) }
    }

    pub fn write_byte(&self, offset: usize, value: u8) {
        // SAFETY: as above.
        unsafe { (self.at(offset) as *mut u8).write_volatile(value) }
    }

    pub fn read64(&self, offset: usize) -> u64 {
        // SAFETY: as above.
        unsafe { (self.at(offset) as *const u64).read_volatile() }
    }

    pub fn write64(&self, offset: usize, value: u64) {
        // SAFETY: as above.
        unsafe { (self.at(offset) as *mut u64).write_volatile(value) }
    }
}
