//! Cores that let no interrupt in: their ticks are late, and samples of them say why.

use super::{Backtrace, LOOK, LOOKS, NEVER, ON_LOOK, Report, SAMPLED, SUSPECTS, Trouble, tell};
use crate::{
    task::{Task, waker},
    time::Duration,
};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use hal::{
    cores::{self, CoreSet, MAX_CORES},
    sample,
};

/// So many samples of a core in a row, spread over [`SPREAD`] nanoseconds.
const SAMPLES: u32 = 16;
const SPREAD: u64 = 1_000_000_000;
/// A tick that is late by this much is missed.
const LATE: u64 = 100_000_000;
/// A core that is held to be looked at has this long to answer: its host may have other things to do.
const PATIENCE: u64 = 1_000_000_000;

/// When somebody last looked.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Somebody looks.
static LOOKING: AtomicBool = AtomicBool::new(false);

// What was heard of a core.
const NOTHING: u32 = 0;
/// It lets interrupts in.
const FREE: u32 = 1;
/// It does not.
const MASKED: u32 = 2;
/// The same, as it waits for a lock; and, added to that, the core that has it, plus one.
const WAITS: u32 = 3;

/// What all cores know of one.
#[repr(align(128))]
pub(super) struct Beat {
    // Written by the core:
    /// Its ticks.
    pub count: AtomicU64,
    /// When the next is due; [`NEVER`]: it sleeps and does not look, or serves nobody.
    pub due: AtomicU64,
    /// For how long it has been in the same turn.
    pub occupied: AtomicU64,

    // Written by who looks, one at a time:
    /// `count` when it was first seen with interrupts masked.
    stuck_at: AtomicU64,
    /// When that was.
    since: AtomicU64,
    /// How many samples have said so since.
    samples: AtomicU32,
    /// Number of the last.
    sample: AtomicU32,
    /// What was heard of it since the last look.
    heard: AtomicU32,
    /// It was told.
    is_told: AtomicBool,
}

pub(super) static BEATS: [Beat; MAX_CORES] = [const {
    Beat {
        count: AtomicU64::new(0),
        due: AtomicU64::new(NEVER),
        occupied: AtomicU64::new(0),
        stuck_at: AtomicU64::new(0),
        since: AtomicU64::new(0),
        samples: AtomicU32::new(0),
        sample: AtomicU32::new(0),
        heard: AtomicU32::new(NOTHING),
        is_told: AtomicBool::new(false),
    }
}; MAX_CORES];

/// When somebody last did so.
pub(super) fn last_look() -> u64 {
    LAST.load(Relaxed)
}

/// Looks at the other cores, if nobody has done so just now.
pub(super) fn look(now: u64) {
    let last = LAST.load(Relaxed);
    if now < last.saturating_add(LOOK)
        || LAST.compare_exchange(last, now, Relaxed, Relaxed).is_err()
        // Acquire pairs with the release below: what the last one noted is seen.
        || LOOKING.swap(true, Acquire)
    {
        return;
    }
    LOOKS.fetch_add(1, Relaxed);
    let me = cores::this_core();
    // This one runs, whatever others have heard of it: who waits for a lock that it has is not stuck.
    BEATS[me].heard.store(NOTHING, Relaxed);
    let others = cores::online().without(me);
    let suspects: CoreSet = others
        .iter()
        .filter(|&core| BEATS[core].hear(core, now))
        .collect();
    SUSPECTS.store(!suspects.is_empty(), Relaxed);
    for core in suspects.iter() {
        BEATS[core].judge(core, now);
    }
    LOOKING.store(false, Release);
    let on_look = ON_LOOK.load(Relaxed);
    if on_look != 0 {
        // SAFETY: only `start` writes it, and writes one of these.
        let on_look = unsafe { core::mem::transmute::<usize, fn()>(on_look) };
        on_look();
    }
}

impl Beat {
    /// Whether this core has missed a tick.
    pub fn is_late(&self, now: u64) -> bool {
        now >= self.due.load(Relaxed).saturating_add(LATE)
    }

    /// The same. Then what it has answered is noted, and it is asked again.
    fn hear(&self, core: usize, now: u64) -> bool {
        let answer = sample::answer(core);
        let number = answer.map_or(0, |(number, _)| number);
        let is_new = answer.is_some() && self.sample.swap(number, Relaxed) != number;
        if !self.is_late(now) {
            // What it has answered belongs to a trouble that is over.
            self.heard.store(NOTHING, Relaxed);
            if !cfg!(broken = "watch_keeps_samples") {
                self.samples.store(0, Relaxed);
                self.is_told.store(false, Relaxed);
            }
            return false;
        }
        let heard = match answer.filter(|_| is_new) {
            None => NOTHING,
            Some((_, seen)) if seen.lets_interrupts_in && !seen.in_handler => FREE,
            Some((_, seen)) => match seen.waits_for {
                None => MASKED,
                Some(holder) => WAITS + holder.map_or(0, |core| core as u32 + 1),
            },
        };
        SAMPLED.fetch_add(u64::from(is_new), Relaxed);
        self.heard.store(heard, Relaxed);
        if sample::is_possible() {
            sample::ask(core);
        }
        true
    }

    /// It has missed a tick: is it stuck?
    fn judge(&self, core: usize, now: u64) {
        let count = self.count.load(Relaxed);
        let samples = self.samples.load(Relaxed);
        let is_same = self.stuck_at.load(Relaxed) == count || cfg!(broken = "watch_keeps_samples");
        match self.heard.load(Relaxed) {
            NOTHING => {}
            FREE => self.samples.store(0, Relaxed),
            heard if !is_masked(heard) => {}
            _ if samples == 0 || !is_same => {
                self.stuck_at.store(count, Relaxed);
                self.since.store(now, Relaxed);
                self.samples.store(1, Relaxed);
                self.is_told.store(false, Relaxed);
            }
            _ => {
                self.samples.store(samples + 1, Relaxed);
                let time = now.saturating_sub(self.since.load(Relaxed));
                if samples + 1 >= SAMPLES && time >= SPREAD && !self.is_told.swap(true, Relaxed) {
                    tell_masked(core, time);
                }
            }
        }
    }
}

/// Whether a core that was heard so is stuck. Who waits for a lock has its interrupts masked, too: that counts only if the core which has the
/// lock, or for which that waits in turn, was seen to run, and is late itself. Else it is not run by its host, or the lock goes from hand to hand.
fn is_masked(mut heard: u32) -> bool {
    for _ in 0..MAX_CORES {
        if heard <= MASKED {
            return heard == MASKED;
        }
        let holder = ((heard - WAITS) as usize).checked_sub(1);
        heard = match holder.and_then(|core| BEATS.get(core)) {
            Some(beat) => beat.heard.load(Relaxed),
            None => return false,
        };
    }
    // Each waits for the next.
    true
}

/// A core lets no interrupt in.
fn tell_masked(core: usize, time: u64) {
    let mut backtrace = Backtrace::new();
    let task = sample::hold(core, PATIENCE, |seen| {
        backtrace.walk(seen.program_counter, seen.frame_pointer);
        let header = waker::polled_by(seen.task)?;
        // SAFETY: it is polled there, and the core is held in the middle of that.
        unsafe { Some(Task::retain(header, header.as_ref().id())) }
    });
    tell(&Report {
        trouble: Trouble::Masked,
        core,
        task: task.flatten().as_ref(),
        waiting: None,
        time: Duration::from_nanos(time),
        backtrace: backtrace.steps(),
    });
}
