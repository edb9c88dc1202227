//! The order of the boot, once the image is entered.

use crate::{console, cores, failure, mem, symbols, upcalls};
use boot::{BootInfo, CoreReport, CoreStacks, Outcome, command_line::Options};
use hal::{
    bring_up::{self, TRAP_STACK_SIZE, TRAP_STACKS},
    clock,
    cores::MAX_CORES,
    irq,
    layout::PAGE,
    paging,
    stack::{self, Bounds},
};
use log::{debug, info, warn};
use spin::Once;

/// Stack of a core's idle loop, and of the jobs it runs.
const CORE_STACK: usize = 64 * 1024;

/// The machine, up.
pub struct Machine {
    /// What boot found.
    pub info: &'static BootInfo,
    /// What the command line asks for.
    pub options: Options<'static>,
    /// What became of each other core.
    pub reports: [Option<CoreReport>; MAX_CORES],
    /// Cycles from entry until the other cores were called.
    pub release_cycles: u64,
    /// Cycles from entry until all cores were up.
    pub boot_cycles: u64,
    /// The same in ticks of the raw counter.
    boot_ticks: u64,
}

static INFO: Once<&'static BootInfo> = Once::new();

/// What boot found, for drivers and whoever else looks for devices.
pub fn boot_info() -> &'static BootInfo {
    INFO.get().expect("the machine is being brought up")
}

/// Brings the machine up: memory, traps, the other cores, the clock.
pub fn start(info: &'static BootInfo) -> Machine {
    INFO.call_once(|| info);
    let options = info.options(&mut |_| {});
    console::init(info.platform.uart, options.log);
    upcalls::register();
    failure::register();
    // SAFETY: once, here; boot put all usable memory into the direct map and keeps none of it.
    unsafe {
        mem::init(
            info.memory
                .usable()
                .map(|region| (region.start, region.end)),
        )
    };
    // SAFETY: these frames are zeros, each is given out once, the direct map has them, and they may be freed.
    unsafe {
        paging::set_frame_source(mem::alloc_zeroed_frame);
        paging::set_frame_sink(mem::free_frame);
    }
    stack::refill();
    guard_trap_stacks();
    let release_cycles = clock::cycles() - info.entered.cycles;
    let reports = release_cores(info);
    let boot_cycles = clock::cycles() - info.entered.cycles;
    let boot_ticks = bring_up::counter() - info.entered.counter;
    bring_up::start_clock(info.entered.counter);
    irq::enable_each_core();
    let machine = Machine {
        info,
        options,
        reports,
        release_cycles,
        boot_cycles,
        boot_ticks,
    };
    machine.report();
    machine
}

fn guarded_stack(size: usize) -> Option<Bounds> {
    stack::allocate(size, mem::alloc_frame).ok()
}

fn trap_stacks() -> Option<[Bounds; TRAP_STACKS]> {
    let mut stacks = [Bounds::EMPTY; TRAP_STACKS];
    for stack in &mut stacks {
        *stack = guarded_stack(TRAP_STACK_SIZE)?;
    }
    Some(stacks)
}

/// Moves the boot core's traps from boot's plain stacks to guarded ones.
fn guard_trap_stacks() {
    let stacks = trap_stacks().expect("there is memory for the first stacks");
    // SAFETY: not in a trap, and the stacks were just made for this core.
    unsafe { bring_up::replace_trap_stacks(stacks) };
}

fn release_cores(info: &BootInfo) -> [Option<CoreReport>; MAX_CORES] {
    let mut reports = [None; MAX_CORES];
    let stacks = |_| {
        Some(CoreStacks {
            main: guarded_stack(CORE_STACK)?,
            traps: trap_stacks()?,
        })
    };
    boot::release_cores(info, stacks, cores::idle, |report| {
        reports[report.core] = Some(report);
    });
    reports
}

impl Machine {
    fn report(&self) {
        let info = self.info;
        info!(
            "Spindle {} on {}, started by {}",
            env!("CARGO_PKG_VERSION"),
            info.platform.board.name(),
            info.loader
        );
        // Also if warnings are not shown: what was meant to change something did not.
        info.options(
            &mut |complaint| match log::max_level() >= log::Level::Warn {
                true => warn!("{complaint}"),
                false => crate::println!("command line: {complaint}"),
            },
        );
        if info.command_line.cut {
            warn!(
                "the command line is longer than {} bytes: the rest is ignored",
                boot::command_line::ROOM
            );
        }
        let map = &info.memory;
        info!(
            "memory: {} MiB usable in {} regions, {} MiB free",
            map.usable_bytes() >> 20,
            map.usable().count(),
            (mem::frames().stats().free * PAGE) >> 20
        );
        for region in map.regions() {
            debug!(
                "memory: {:#x}..{:#x} {:?}",
                region.start, region.end, region.kind
            );
        }
        debug!("firmware left {:x?}", info.firmware);
        debug!("{} names for backtraces", symbols::count());
        if map.lost() > 0 {
            warn!(
                "memory: {} KiB left out, the map has too many regions",
                map.lost() >> 10
            );
        }
        info!("interrupts: {}", info.platform.interrupts);
        info!("console: {}", info.platform.uart);
        for report in self.reports.iter().flatten() {
            let CoreReport {
                core,
                hardware_id,
                outcome,
            } = report;
            match outcome {
                Outcome::Up(ticks) => info!(
                    "core {core} (hardware {hardware_id:#x}) up after {} us",
                    clock::ticks_to_nanos(*ticks) / 1000
                ),
                Outcome::Refused(error) => warn!(
                    "core {core} (hardware {hardware_id:#x}) was refused by the firmware: {error}; going on without it"
                ),
                Outcome::Silent => warn!(
                    "core {core} (hardware {hardware_id:#x}) did not come up; going on without it"
                ),
                Outcome::NoStack => warn!(
                    "core {core} (hardware {hardware_id:#x}): no memory for its stacks; going on without it"
                ),
            }
        }
        if info.cores.left_out > 0 {
            info!("{} more cores are left out", info.cores.left_out);
        }
        let online = hal::cores::online();
        info!(
            "{} of {} cores up, {} us and {} cycles after entry",
            online.len(),
            info.cores.ids().len(),
            clock::ticks_to_nanos(self.boot_ticks) / 1000,
            self.boot_cycles
        );
    }
}
