//! Interrupt lines: which driver one is for, which core it goes to, and what happens to one that does not stop.
//!
//! A driver [`attach`]es the interrupt half of itself to a line. Several may share one; each is asked then. A line goes to one core: to that with the
//! fewest, unless the driver says to which.
//!
//! A half runs under its slot's lock, with interrupts masked, as all interrupts do: so when it was detached, it does not run any more, and what it
//! uses can be dropped. Nobody else takes that lock for longer than to exchange what is in it.
//!
//! **Storms.** A device may assert its line and have nothing to say, or say the same for ever. A line is shut off, and that is said, when 1000 times
//! in a row nobody had anything to do, or when it has kept its core busy for nine tenths of a second and 100,000 interrupts.

use crate::memory::NoMemory;
use alloc::{sync::Arc, vec::Vec};
use core::{
    error, fmt,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*},
};
use hal::{
    clock, cores, irq,
    irq::Line,
    sync::{Lock, Rank, ranked},
};

/// The interrupt half of a driver.
pub trait OnInterrupt: Send + Sync {
    /// The line has interrupted. Runs with interrupts masked, under a lock: it moves what the device has to where a task finds it, wakes, and
    /// makes the device take its interrupt back. It allocates nothing, waits for nothing, and attaches or detaches nothing.
    fn on_interrupt(&self) -> Seen;
}

/// What an interrupt half found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Its device had something to say.
    Work,
    /// It had not: another on the same line, or nobody.
    Nothing,
}

/// Why nothing was attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachError {
    /// There are too many already.
    Full,
    /// There is no such core, or it is not up.
    NoCore,
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "there are too many interrupt lines in use",
            Self::NoCore => "the interrupt line was to go to a core that is not there",
        })
    }
}

impl error::Error for AttachError {}

/// Most halves that are attached at once.
const SLOTS: usize = 32;
/// So often in a row nobody may have had anything to do.
const MOST_IN_VAIN: u32 = 1000;
/// What is looked at for the share of time that a line takes, in nanoseconds.
const WINDOW: u64 = 1_000_000_000;
/// In that window it takes at least so many interrupts to be a storm.
const MANY: u32 = 100_000;

struct Slot {
    /// The line's number and one; 0: it is free. Written under `CHANGES`.
    line: AtomicU32,
    core: AtomicU32,
    /// Interrupts so far. Written by the line's core.
    count: AtomicU64,
    half: Lock<Option<Arc<dyn OnInterrupt>>>,
    rate: Lock<Rate>,
    is_shut: AtomicBool,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        line: AtomicU32::new(0),
        core: AtomicU32::new(0),
        count: AtomicU64::new(0),
        half: ranked(Rank::Lines, None),
        rate: Lock::new(Rate::new()),
        is_shut: AtomicBool::new(false),
    }
}; SLOTS];

/// Held by who changes which slots are for which line.
static CHANGES: Lock<()> = ranked(Rank::Changes, ());

fn slots_of(line: Line) -> impl Iterator<Item = &'static Slot> {
    TABLE
        .iter()
        .filter(move |slot| slot.line.load(Acquire) == line.0 + 1)
}

/// How often a line comes, and what for.
struct Rate {
    in_vain: u32,
    /// When the window began, how many have come in it and how long they took.
    began: u64,
    count: u32,
    busy: u64,
}

impl Rate {
    const fn new() -> Self {
        Self {
            in_vain: 0,
            began: 0,
            count: 0,
            busy: 0,
        }
    }

    /// One came, and was seen to between these times. Whether that is a storm.
    fn note(&mut self, seen: Seen, from: u64, to: u64) -> bool {
        self.in_vain = match seen {
            Seen::Work => 0,
            Seen::Nothing => self.in_vain + 1,
        };
        let elapsed = from.saturating_sub(self.began);
        if elapsed >= WINDOW {
            let is_too_much = self.count >= MANY && self.busy >= elapsed / 10 * 9;
            (self.began, self.count, self.busy) = (from, 0, 0);
            if is_too_much {
                return true;
            }
        }
        self.count += 1;
        self.busy += to.saturating_sub(from);
        self.in_vain >= MOST_IN_VAIN
    }
}

/// A line has interrupted this core. False: nobody is attached to it.
pub fn on_line(line: Line) -> bool {
    let from = clock::now();
    let mut first = None;
    let mut seen = Seen::Nothing;
    for slot in slots_of(line) {
        let half = slot.half.lock();
        // Asked again: it may have been detached, and the slot be another line's.
        let Some(half) = half
            .as_ref()
            .filter(|_| slot.line.load(Relaxed) == line.0 + 1)
        else {
            continue;
        };
        // Only this core's interrupts write it.
        slot.count.store(slot.count.load(Relaxed) + 1, Relaxed);
        if half.on_interrupt() == Seen::Work {
            seen = Seen::Work;
        }
        first = first.or(Some(slot));
    }
    let Some(slot) = first else {
        return false;
    };
    if slot.rate.lock().note(seen, from, clock::now()) {
        irq::disable_line(line);
        slots_of(line).for_each(|slot| slot.is_shut.store(true, Relaxed));
        log::warn!(
            "interrupt line {} does not stop, and is shut off: {} interrupts so far",
            line.0,
            slot.count.load(Relaxed)
        );
    }
    true
}

/// A half at a line, as long as this lives.
#[must_use = "it is detached when this is dropped"]
pub struct Attached(&'static Slot);

/// Lets a line interrupt a core, and calls `half` then, and once before that returns: for what the device has already. `core`: which, or that with
/// the fewest lines.
pub fn attach(
    line: Line,
    core: Option<usize>,
    half: Arc<dyn OnInterrupt>,
) -> Result<Attached, AttachError> {
    let slot = {
        let _changes = CHANGES.lock();
        let shared = slots_of(line).next();
        let shared = shared.map(|slot| slot.core.load(Relaxed) as usize);
        let core = core.or(shared).unwrap_or_else(calmest);
        if !cores::online().contains(core) {
            return Err(AttachError::NoCore);
        }
        let is_free = |slot: &&Slot| slot.line.load(Relaxed) == 0;
        let slot = TABLE.iter().find(is_free).ok_or(AttachError::Full)?;
        slot.core.store(core as u32, Relaxed);
        slot.count.store(0, Relaxed);
        slot.is_shut.store(false, Relaxed);
        *slot.rate.lock() = Rate::new();
        *slot.half.lock() = Some(half);
        // Release pairs with the acquire in `slots_of`.
        slot.line.store(line.0 + 1, Release);
        let core = irq::enable_line(line, core);
        slots_of(line).for_each(|slot| slot.core.store(core as u32, Relaxed));
        ask_once(line);
        slot
    };
    Ok(Attached(slot))
}

/// Asks each half of a line that was just let in, as if it had interrupted: where lines work by edges, one that was up already does not.
fn ask_once(line: Line) {
    for slot in slots_of(line) {
        if let Some(half) = slot.half.lock().as_ref() {
            half.on_interrupt();
        }
    }
}

/// The core with the fewest lines.
fn calmest() -> usize {
    let lines = |core: &usize| {
        let is_its = |slot: &&Slot| {
            slot.line.load(Relaxed) != 0 && slot.core.load(Relaxed) as usize == *core
        };
        TABLE.iter().filter(is_its).count()
    };
    cores::online().iter().min_by_key(lines).unwrap_or(0)
}

impl Attached {
    /// The line.
    pub fn line(&self) -> Line {
        Line(self.0.line.load(Relaxed) - 1)
    }

    /// The core that it interrupts.
    pub fn core(&self) -> usize {
        self.0.core.load(Relaxed) as usize
    }

    /// How often it has.
    pub fn count(&self) -> u64 {
        self.0.count.load(Relaxed)
    }

    /// Whether it was shut off because it did not stop.
    pub fn is_shut(&self) -> bool {
        self.0.is_shut.load(Relaxed)
    }

    /// Lets it in again, if it was shut off; or sends it to another core, where lines can be sent to any ([`core`](Self::core) tells).
    pub fn steer(&self, core: usize) -> Result<(), AttachError> {
        let _changes = CHANGES.lock();
        if !cores::online().contains(core) {
            return Err(AttachError::NoCore);
        }
        for slot in slots_of(self.line()) {
            *slot.rate.lock() = Rate::new();
            slot.is_shut.store(false, Relaxed);
        }
        let core = irq::enable_line(self.line(), core);
        slots_of(self.line()).for_each(|slot| slot.core.store(core as u32, Relaxed));
        ask_once(self.line());
        Ok(())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let half = {
            let _changes = CHANGES.lock();
            let line = self.line();
            if slots_of(line).count() == 1 {
                irq::disable_line(line);
            }
            // Under the lock no half runs; after it, not this one.
            let half = self.0.half.lock().take();
            self.0.line.store(0, Release);
            half
        };
        drop(half);
    }
}

/// What is known of a line.
#[derive(Clone, Copy, Debug)]
pub struct LineInfo {
    /// Which.
    pub line: Line,
    /// The core that it interrupts.
    pub core: usize,
    /// How often it has.
    pub count: u64,
    /// Whether it was shut off because it did not stop.
    pub is_shut: bool,
}

/// All lines that somebody is attached to.
pub fn lines() -> Result<Vec<LineInfo>, NoMemory> {
    let mut lines = Vec::new();
    lines.try_reserve_exact(SLOTS).map_err(|_| NoMemory)?;
    let _changes = CHANGES.lock();
    for slot in TABLE.iter().filter(|slot| slot.line.load(Relaxed) != 0) {
        lines.push(LineInfo {
            line: Line(slot.line.load(Relaxed) - 1),
            core: slot.core.load(Relaxed) as usize,
            count: slot.count.load(Relaxed),
            is_shut: slot.is_shut.load(Relaxed),
        });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_has_nothing_to_say_is_a_storm_and_one_that_works_is_not() {
        let mut rate = Rate::new();
        let storm = (0..).find(|at| rate.note(Seen::Nothing, *at, *at + 1));
        assert_eq!(storm, Some(u64::from(MOST_IN_VAIN) - 1));
        let mut rate = Rate::new();
        for at in 0..100_000 {
            let seen = if at % 500 == 0 {
                Seen::Work
            } else {
                Seen::Nothing
            };
            assert!(!rate.note(seen, at * 100_000, at * 100_000 + 1_000));
        }
    }

    #[test]
    fn a_line_that_takes_all_of_its_core_is_a_storm() {
        let each = 10_000;
        let mut rate = Rate::new();
        let storm =
            (0..400_000).find(|at| rate.note(Seen::Work, at * each, at * each + each * 95 / 100));
        assert!(storm.is_some_and(|at| at >= WINDOW / each));
        // Half of it is not.
        let mut rate = Rate::new();
        let is_storm = |at| rate.note(Seen::Work, at * each, at * each + each / 2);
        assert!(!(0..400_000).any(is_storm));
        // Nor are a few long ones, of a core that its host did not run.
        let mut rate = Rate::new();
        let long = WINDOW / 100;
        assert!(!(0..4_000).any(|at| rate.note(Seen::Work, at * long, at * long + long)));
    }
}
