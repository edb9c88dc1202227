//! Local and I/O APICs: kicks between cores, the one-shot timer, device lines.
//!
//! xAPIC registers in memory: QEMU's TCG has neither x2APIC nor a TSC deadline,
//! and every PC has these.

use super::{counter, messages, pm_timer, this_core};
use crate::{
    clock,
    cores::MAX_CORES,
    irq,
    paging::{self, MapError},
    sync::Lock,
};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use x86_64::{instructions::port::Port, registers::model_specific::Msr};

/// Vectors.
pub const FIRST_LINE: u64 = 0x30;
pub const TIMER: u64 = 0xf0;
pub const KICK: u64 = 0xf1;
pub const SPURIOUS: u64 = 0xff;

const ID: usize = 0x20;
const EOI: usize = 0xb0;
const SPURIOUS_VECTOR: usize = 0xf0;
const COMMAND_LOW: usize = 0x300;
const COMMAND_HIGH: usize = 0x310;
const TIMER_ENTRY: usize = 0x320;
const TIMER_START: usize = 0x380;
const TIMER_NOW: usize = 0x390;
const TIMER_DIVIDE: usize = 0x3e0;

const MASKED: u32 = 1 << 16;
const BUSY: u32 = 1 << 12;

static LOCAL: AtomicUsize = AtomicUsize::new(0);
static IO: AtomicUsize = AtomicUsize::new(0);
static IDS: [AtomicU32; MAX_CORES] = [const { AtomicU32::new(0) }; MAX_CORES];
/// Timer ticks a second. 0: not measured yet.
static TIMER_HERTZ: AtomicU64 = AtomicU64::new(0);
/// When each core's timer is to fire; the hardware may have to be set several times for a far one.
static DEADLINES: [AtomicU64; MAX_CORES] = [const { AtomicU64::new(u64::MAX) }; MAX_CORES];

fn read(register: usize) -> u32 {
    let at = (LOCAL.load(Relaxed) + register) as *const u32;
    // SAFETY: `init_once` mapped the registers; each core sees its own at this address.
    unsafe { at.read_volatile() }
}

fn write(register: usize, value: u32) {
    let at = (LOCAL.load(Relaxed) + register) as *mut u32;
    // SAFETY: as for `read`.
    unsafe { at.write_volatile(value) }
}

/// Maps the registers and silences the old interrupt controllers.
pub fn init_once(local: u64, io: u64) -> Result<(), MapError> {
    LOCAL.store(paging::map_device(local, 0x1000)?, Relaxed);
    IO.store(paging::map_device(io, 0x20)?, Relaxed);
    // The 8254's first channel, which the firmware leaves ticking: waits for a count that never comes.
    // SAFETY: its fixed port.
    unsafe { Port::<u8>::new(0x43).write(0x30) };
    // The 8259s: moved away from the exceptions' vectors, for a spurious one, then masked.
    for (command, data, first) in [(0x20u16, 0x21u16, 0x20u8), (0xa0, 0xa1, 0x28)] {
        for (port, value) in [
            (command, 0x11),
            (data, first),
            (data, if first == 0x20 { 4 } else { 2 }),
            (data, 1),
            (data, 0xff),
        ] {
            // SAFETY: the 8259s' fixed ports, and the documented order of words.
            unsafe { Port::<u8>::new(port).write(value) };
        }
    }
    // Whatever the firmware routed: lines are let through one by one, when a driver asks.
    let lines = read_io(1) >> 16 & 0xff;
    for line in 0..=lines {
        disable_line(line);
    }
    Ok(())
}

/// Turns on this core's APIC.
pub fn init_each_core() {
    const BASE: u32 = 0x1b;
    // SAFETY: reading the base register changes nothing.
    let base = unsafe { Msr::new(BASE).read() };
    assert!(
        base & 1 << 10 == 0,
        "the firmware left the APIC in x2APIC mode: turn x2APIC off in its set-up"
    );
    IDS[this_core()].store(read(ID) >> 24, Relaxed);
    write(SPURIOUS_VECTOR, 0x100 | SPURIOUS as u32);
    write(TIMER_DIVIDE, 0b0011); // by 16
    write(TIMER_ENTRY, TIMER as u32 | MASKED);
}

/// Tells which APIC id the core of this number has.
pub fn set_id(core: usize, id: u32) {
    IDS[core].store(id, Relaxed);
}

/// Acknowledges the interrupt being handled.
pub fn end_of_interrupt() {
    write(EOI, 0);
}

fn command(id: u32, word: u32) {
    let _masked = irq::mask();
    while read(COMMAND_LOW) & BUSY != 0 {
        super::pause();
    }
    write(COMMAND_HIGH, id << 24);
    write(COMMAND_LOW, word);
}

/// Interrupts another core.
pub fn kick(core: usize) {
    command(IDS[core].load(Relaxed), KICK as u32);
}

/// Interrupts this core as soon as it lets interrupts in. One write, so that the handler of a fault
/// in the middle of another command does not spoil that.
pub fn kick_self() {
    const SELF: u32 = 1 << 18;
    write(COMMAND_LOW, SELF | KICK as u32);
}

/// There is an interrupt that cores cannot mask.
pub fn has_nmi() -> bool {
    true
}

/// Interrupts another core, whether or not it lets interrupts in.
pub fn send_nmi(core: usize) {
    command(IDS[core].load(Relaxed), 0x400);
}

/// Makes another core stop, whatever it does.
pub fn send_stop(core: usize) {
    send_nmi(core);
}

/// Resets the core with this APIC id.
pub fn send_init(id: u32) {
    command(id, 0x4500);
}

/// Makes the core with this APIC id start at page `page` of the first megabyte.
pub fn send_startup(id: u32, page: u8) {
    command(id, 0x4600 | u32::from(page));
}

/// Lets a device line through to `core`.
pub fn enable_line(line: u32, core: usize) {
    if messages::is_message(line) {
        return messages::enable(line, IDS[core].load(Relaxed));
    }
    let vector = FIRST_LINE as u32 + line;
    // Edge, active high: what ISA devices such as the serial ports are.
    write_io(0x11 + 2 * line, IDS[core].load(Relaxed) << 24);
    write_io(0x10 + 2 * line, vector);
}

/// All lines come by edges.
pub fn set_trigger(_: u32, _: irq::Trigger) {}

/// Stops a device line.
pub fn disable_line(line: u32) {
    if messages::is_message(line) {
        return messages::disable(line);
    }
    write_io(0x10 + 2 * line, MASKED);
}

/// Keeps index and data of the I/O APIC together.
static IO_LOCK: Lock<()> = Lock::new(());

fn write_io(register: u32, value: u32) {
    let _held = IO_LOCK.lock();
    let at = IO.load(Relaxed) as *mut u32;
    // SAFETY: `init_once` mapped the registers: index at 0, data at 0x10; the lock keeps the pair together.
    unsafe {
        at.write_volatile(register);
        at.add(4).write_volatile(value);
    }
}

fn read_io(register: u32) -> u32 {
    let _held = IO_LOCK.lock();
    let at = IO.load(Relaxed) as *mut u32;
    // SAFETY: as for `write_io`.
    unsafe {
        at.write_volatile(register);
        at.add(4).read_volatile()
    }
}

/// The boot core's timer interrupts it every so often: for waiting before the
/// clock runs.
pub struct Ticks(());

impl Ticks {
    /// Lets it tick, every few tens of microseconds, whatever the machine's bus runs at.
    pub fn start() -> Self {
        const PERIODIC: u32 = 1 << 17;
        write(TIMER_ENTRY, TIMER as u32 | PERIODIC);
        write(TIMER_START, 1_000);
        Self(())
    }

    /// Sleeps until the next tick, or another interrupt.
    pub fn nap(&self) {
        irq::wait(&irq::mask());
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        write(TIMER_ENTRY, TIMER as u32 | MASKED);
        write(TIMER_START, 0);
    }
}

/// Looks at another clock and at the counter as close together as it gets: the
/// tightest of several tries, because the host may stop us between any two reads.
fn look<T>(clock: impl Fn() -> T) -> (u64, T) {
    let mut best: Option<(u64, (u64, T))> = None;
    for _ in 0..8 {
        let before = counter();
        let value = clock();
        let took = counter() - before;
        if best.as_ref().is_none_or(|(least, _)| took < *least) {
            best = Some((took, (before + took / 2, value)));
        }
    }
    best.expect("there were tries").1
}

/// Counter and reference when the measuring began.
static FIRST: Lock<Option<(u64, u64)>> = Lock::new(None);

/// Begins to measure the counter against the reference. On the boot core.
pub fn calibrate_begin() {
    *FIRST.lock() = Some(look(pm_timer::ticks));
}

/// Ends it, and starts the clock: over the time since `calibrate_begin`, in
/// which other work was done, or longer if that was too short to tell. Then
/// measures the timer against the clock.
pub fn calibrate_end(clock_start: u64) {
    /// Over this many reference ticks (10 ms) an error of one is 28 ppm.
    const LONG_ENOUGH: u64 = pm_timer::HERTZ / 100;
    /// Over this many nanoseconds a tick of the slowest timer (160 ns) is 80 ppm.
    const TIMER_STRETCH: u64 = 2_000_000;
    let first = FIRST.lock().expect("calibrate_begin came first");
    let mut last = look(pm_timer::ticks);
    let ticks = Ticks::start();
    while last.1 - first.1 < LONG_ENOUGH {
        ticks.nap();
        last = look(pm_timer::ticks);
    }
    drop(ticks);
    let hertz =
        u128::from(last.0 - first.0) * u128::from(pm_timer::HERTZ) / u128::from(last.1 - first.1);
    clock::start(clock_start, hertz as u64);

    write(TIMER_START, u32::MAX);
    let first = look(|| read(TIMER_NOW));
    let mut last = first;
    while clock::ticks_to_nanos(last.0 - first.0) < TIMER_STRETCH {
        super::pause();
        last = look(|| read(TIMER_NOW));
    }
    write(TIMER_START, 0);
    let ticks = u128::from(first.1 - last.1) * 1_000_000_000;
    let nanos = clock::ticks_to_nanos(last.0 - first.0);
    TIMER_HERTZ.store((ticks / u128::from(nanos)) as u64, Relaxed);
}

/// Sets this core's timer.
pub fn timer_arm(deadline: u64) {
    let _masked = irq::mask();
    DEADLINES[this_core()].store(deadline, Relaxed);
    set_timer(deadline);
}

fn set_timer(deadline: u64) {
    let nanos = deadline.saturating_sub(clock::now());
    let ticks = u128::from(nanos) * u128::from(TIMER_HERTZ.load(Relaxed)) / 1_000_000_000;
    write(TIMER_ENTRY, TIMER as u32);
    // 0 would switch it off. Too far for 32 bits: it fires early and `on_timer` sets it again.
    write(TIMER_START, ticks.clamp(1, u128::from(u32::MAX)) as u32);
}

/// This core's timer does not fire.
pub fn timer_disarm() {
    let _masked = irq::mask();
    DEADLINES[this_core()].store(u64::MAX, Relaxed);
    write(TIMER_ENTRY, TIMER as u32 | MASKED);
    write(TIMER_START, 0);
}

/// The timer interrupt: whether the deadline has come.
pub fn on_timer() -> bool {
    let deadline = DEADLINES[this_core()].load(Relaxed);
    if deadline == u64::MAX {
        return false;
    }
    if clock::now() < deadline {
        set_timer(deadline);
        return false;
    }
    DEADLINES[this_core()].store(u64::MAX, Relaxed);
    true
}
