//! What another core does at this moment, whether or not it lets interrupts in.
//!
//! It is asked by an interrupt that it cannot mask: an NMI on x86_64, a fast interrupt on aarch64, which
//! [`irq::mask`](crate::irq::mask) leaves alone. The handler writes down where the core was, and goes on; it takes no lock
//! and touches no memory that may not be there. Who has asked walks the stack, while the core is held.

use crate::{
    arch,
    context::{self, Frame},
    cores::{self, MAX_CORES},
    stop,
};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering::*};

/// What one core was found doing.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Where it was.
    pub program_counter: usize,
    /// Where its chain of stack frames begins.
    pub frame_pointer: usize,
    /// What the executor polls in its context, as [`ContextBlock::task`](crate::context::ContextBlock::task) has it. It may be gone by
    /// now, unless the core is held.
    pub task: *mut (),
    /// Whether interrupts could come.
    pub lets_interrupts_in: bool,
    /// Whether it handled an interrupt or a fault.
    pub in_handler: bool,
    /// How many guards its context held.
    pub guards: u32,
    /// Whether it waited for a lock, as it seems, and then which core had that, if that is known.
    pub waits_for: Option<Option<usize>>,
}

const FREE: u8 = 0;
const ASKED: u8 = 1;
const HELD: u8 = 2;

/// Whoever that is.
const SOMEBODY: u32 = u32::MAX;

struct Record {
    // By who asks, one at a time:
    /// Number of the last sample that was asked for.
    asked: AtomicU32,

    // By the core itself:
    /// Number of the last that was taken.
    taken: AtomicU32,
    program_counter: AtomicUsize,
    frame_pointer: AtomicUsize,
    task: AtomicPtr<()>,
    lets_interrupts_in: AtomicBool,
    in_handler: AtomicBool,
    guards: AtomicU32,
    /// The core, plus one, whose lock it waits for; 0: it does not. Written again and again while it waits, and taken by a sample.
    waits_for: AtomicU32,
    /// What a sample has found there.
    waited_for: AtomicU32,

    // Both:
    /// Whether it is to stay where it is until it is let go.
    hold: AtomicU8,
}

static RECORDS: [Record; MAX_CORES] = [const {
    Record {
        asked: AtomicU32::new(0),
        taken: AtomicU32::new(0),
        program_counter: AtomicUsize::new(0),
        frame_pointer: AtomicUsize::new(0),
        task: AtomicPtr::new(core::ptr::null_mut()),
        lets_interrupts_in: AtomicBool::new(false),
        in_handler: AtomicBool::new(false),
        guards: AtomicU32::new(0),
        waits_for: AtomicU32::new(0),
        waited_for: AtomicU32::new(0),
        hold: AtomicU8::new(FREE),
    }
}; MAX_CORES];

/// Whether this machine has an interrupt that cores cannot mask.
pub fn is_possible() -> bool {
    arch::has_nmi()
}

/// Asks what `core` does, if it has answered the last time. One at a time asks.
pub fn ask(core: usize) {
    let record = &RECORDS[core];
    let asked = record.asked.load(Relaxed);
    if record.taken.load(Relaxed) == asked {
        // Release pairs with the acquire in `on_nmi`.
        record.asked.store(asked.wrapping_add(1), Release);
        arch::send_nmi(core);
    }
}

/// The last answer of `core`, with its number; None: one is on its way, or nobody has asked yet. For who asks.
pub fn answer(core: usize) -> Option<(u32, Seen)> {
    let record = &RECORDS[core];
    // Acquire pairs with the release in `on_nmi`: what it wrote is seen, and it writes no more until it is asked.
    let taken = record.taken.load(Acquire);
    (taken != 0 && taken == record.asked.load(Relaxed)).then(|| (taken, record.seen()))
}

impl Record {
    /// What was written last. The core does not write now: it has answered, or is held.
    fn seen(&self) -> Seen {
        Seen {
            program_counter: self.program_counter.load(Relaxed),
            frame_pointer: self.frame_pointer.load(Relaxed),
            task: self.task.load(Relaxed),
            lets_interrupts_in: self.lets_interrupts_in.load(Relaxed),
            in_handler: self.in_handler.load(Relaxed),
            guards: self.guards.load(Relaxed),
            waits_for: match self.waited_for.load(Relaxed) {
                0 => None,
                SOMEBODY => Some(None),
                core => Some(Some(core as usize - 1)),
            },
        }
    }
}

/// Asks what `core` does, and keeps it there while `look` looks. None: it has not answered for `patience`
/// nanoseconds. `look` must not wait for anything: the core may have any lock.
pub fn hold<T>(core: usize, patience: u64, look: impl FnOnce(&Seen) -> T) -> Option<T> {
    let record = &RECORDS[core];
    record.hold.store(ASKED, Relaxed);
    let end = crate::clock::now().saturating_add(patience);
    // Acquire pairs with the release in `on_nmi`.
    while record.hold.load(Acquire) != HELD {
        // At each turn: an answer that was on its way may have come too early to be held.
        ask(core);
        let is_late = crate::clock::now() >= end;
        if is_late
            && record
                .hold
                .compare_exchange(ASKED, FREE, Acquire, Acquire)
                .is_ok()
        {
            return None;
        }
        stop::check();
        crate::pause();
    }
    let result = look(&record.seen());
    // Release pairs with the acquire in `on_nmi`: all looks are over.
    record.hold.store(FREE, Release);
    Some(result)
}

/// This core waits for a lock that the core before `holder` has; 0: some core. Said at each turn of that wait: that it is over is not said.
pub(crate) fn note_wait(holder: u32) {
    // None: a thread of the host of which nobody asks.
    if let Some(record) = RECORDS.get(cores::this_core()) {
        let holder = if holder == 0 { SOMEBODY } else { holder };
        record.waits_for.store(holder, Relaxed);
    }
}

/// This core was asked, by an interrupt that it cannot mask.
#[cfg_attr(
    not(target_os = "none"),
    allow(dead_code, reason = "the host has none")
)]
pub(crate) fn on_nmi(frame: &Frame, lets_interrupts_in: bool, in_handler: bool) {
    let place = (frame.program_counter(), frame.frame_pointer());
    let check_stop = || {
        if stop::is_requested() {
            stop::halt_here(place.0, place.1);
        }
    };
    check_stop();
    let record = &RECORDS[cores::this_core()];
    // Acquire pairs with the release in `ask`.
    let asked = record.asked.load(Acquire);
    if record.taken.load(Relaxed) == asked {
        return;
    }
    // The switch from one context to another may be under way.
    let context = context::current_anew();
    record.program_counter.store(place.0, Relaxed);
    record.frame_pointer.store(place.1, Relaxed);
    record.task.store(context.task(), Relaxed);
    record.lets_interrupts_in.store(lets_interrupts_in, Relaxed);
    record.in_handler.store(in_handler, Relaxed);
    record.guards.store(context.guards().load(Relaxed), Relaxed);
    let waits_for = record.waits_for.swap(0, Relaxed);
    record.waited_for.store(waits_for, Relaxed);
    // Release pairs with the acquire in `answer`.
    record.taken.store(asked, Release);
    // Release pairs with the acquire in `hold`, and acquire with its release.
    if record
        .hold
        .compare_exchange(ASKED, HELD, AcqRel, Relaxed)
        .is_ok()
    {
        while record.hold.load(Acquire) == HELD {
            check_stop();
            crate::pause();
        }
    }
}
