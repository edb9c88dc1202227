//! The watch: what goes on no more, seen by timer interrupts.
//!
//! Three things, each by what was seen, never by time alone: the host of a virtual machine may stop any of
//! its cores for seconds.
//!
//! | what | seen by | how |
//! |---|---|---|
//! | a core that lets no interrupt in | any other core | its tick is late, and it answers by a [`sample`](hal::sample), again and again, that interrupts are masked or that it is in a handler |
//! | a guard that is held for long | the core's own ticks | each finds the guard that the one before has marked; see [`preempt::mark_guard`] |
//! | a queue from which nothing is taken | the core's own ticks, or the drop of the guard that one came under | each finds it as the one before did, with the core in the same turn, or in later ones than it should take |
//!
//! A tick vouches for the time since the one before, but for no more than a few of them: so what was so for [`BOUND`] of such time was
//! seen some hundred times, by a core that ran. That is told to who has asked for it, once.
//!
//! Somebody has to look at the others. Each core that is awake ticks, and looks. The first few of a runtime do so also while they sleep
//! (`GUARDS`), now and then: so if one core is stuck, another looks, though all that are not stuck may be asleep.

mod cores;

use self::cores::{BEATS, Beat, last_look, look};
use super::{
    fair,
    registry::Cursor,
    shared::Shared,
    tick::is_in_poll,
    worker::{DEQUE, KINDS, LEVELS, PINNED, RING, Worker},
};
use crate::{
    task::{Task, cell::Header, waker},
    time::Duration,
};
use core::{
    cell::Cell,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*},
};
use hal::{irq, preempt};

/// So long it may be, in nanoseconds that ticks vouch for.
pub const BOUND: u64 = 1_200_000_000;
/// A tick vouches for so many, if it is late. A host that is busy lets cores run a little less often than they should; this
/// is what may be put down to that.
const VOUCHED: u64 = 4;
/// Between two looks at the other cores.
const LOOK: u64 = 50_000_000;
/// Between two looks of a core that sleeps, if all seems well.
const LOOK_ASLEEP: u64 = 250_000_000;
/// So many cores of a runtime look while they sleep: whichever is stuck, there is another.
const GUARDS: usize = 3;
/// The tick of a core that does not preempt.
const PERIOD: u64 = 10_000_000;
/// A core looks at itself once in this time.
const STEP: u64 = 1_000_000;
/// Never.
const NEVER: u64 = u64::MAX;

/// Most steps of a backtrace.
const DEEPEST: usize = 48;
/// Most tasks that are asked whether it is they who wait.
const MOST_ASKED: usize = 100_000;

/// What goes on no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// A core has its interrupts masked, or is in a handler.
    Masked,
    /// What runs on a core holds a guard.
    Guarded,
    /// Nothing is taken from a queue.
    Starved,
}

/// What the watch has seen.
#[derive(Debug)]
pub struct Report<'a> {
    /// What it is.
    pub trouble: Trouble,
    /// The core.
    pub core: usize,
    /// What runs there, if it is a task.
    pub task: Option<&'a Task>,
    /// One that waits in that queue, if it is known.
    pub waiting: Option<&'a Task>,
    /// For how long it has been so, at least.
    pub time: Duration,
    /// Where the core is, and who has called that.
    pub backtrace: &'a [usize],
}

/// Who hears of trouble, with interrupts masked; 0: nobody watches.
static HOOK: AtomicUsize = AtomicUsize::new(0);
/// Who hears of each look; 0: nobody.
static ON_LOOK: AtomicUsize = AtomicUsize::new(0);
/// Some core seems to be stuck.
static SUSPECTS: AtomicBool = AtomicBool::new(false);
static LOOKS: AtomicU64 = AtomicU64::new(0);
static SAMPLED: AtomicU64 = AtomicU64::new(0);

/// From here on `hook` hears of trouble, in an interrupt of some core or with interrupts masked, and `on_look` of each look. Runtimes that are
/// built after this are watched, on machines with interrupts. Not those with a virtual clock.
pub fn start(hook: fn(&Report<'_>), on_look: fn()) {
    ON_LOOK.store(on_look as usize, Relaxed);
    HOOK.store(hook as usize, Relaxed);
}

/// Nobody watches any more; and the timers of cores that do not preempt are whose they were.
pub fn stop() {
    HOOK.store(0, Relaxed);
}

/// How often cores have looked at each other.
pub fn looks() -> u64 {
    LOOKS.load(Relaxed)
}

/// How many samples they took.
pub fn samples() -> u64 {
    SAMPLED.load(Relaxed)
}

#[inline]
fn is_on() -> bool {
    HOOK.load(Relaxed) != 0
}

fn tell(report: &Report<'_>) {
    let hook = HOOK.load(Relaxed);
    if hook != 0 {
        // SAFETY: only `start` writes it, and writes one of these.
        let hook = unsafe { core::mem::transmute::<usize, fn(&Report<'_>)>(hook) };
        hook(report);
    }
}

/// Addresses in the code, innermost first.
struct Backtrace {
    steps: [usize; DEEPEST],
    len: usize,
}

impl Backtrace {
    fn new() -> Self {
        Self {
            steps: [0; DEEPEST],
            len: 0,
        }
    }

    fn walk(&mut self, program_counter: usize, frame_pointer: usize) {
        hal::backtrace::walk(program_counter, frame_pointer, |address| {
            if let Some(step) = self.steps.get_mut(self.len) {
                *step = address;
                self.len += 1;
            }
        });
    }

    fn steps(&self) -> &[usize] {
        &self.steps[..self.len]
    }
}

/// Where something can wait for this core: a bit for each queue of each level as in `ready`, and behind those the injectors, the
/// inboxes, and the local tasks that are held back.
const QUEUES: usize = LEVELS * KINDS as usize;
const INJECTOR: usize = QUEUES;
const INBOX: usize = INJECTOR + LEVELS;
const PINNED_INBOX: usize = INBOX + 1;
const HELD: usize = PINNED_INBOX + 1;
const SOURCES: usize = HELD + 1;

/// What a core knows of itself. For its interrupts.
pub(super) struct Watch {
    /// When the next tick is due that is not one of the ticker's.
    pub(super) at: Cell<u64>,
    /// When it last looked at itself.
    last: Cell<u64>,
    /// Of that, what ticks have vouched for that came in the middle of something.
    unseen: Cell<u64>,
    /// For how long it has been under the same guard, and whether that was told.
    guarded: Cell<(u64, bool)>,
    /// The turn that it was in.
    turn: Cell<u64>,
    /// For how long.
    occupied: Cell<u64>,
    /// It was told that something waits for that.
    is_told: Cell<bool>,
    /// Polls of local tasks that have ended. By the owner.
    pub(super) local_polls: Cell<u64>,
    /// Sources that had something.
    found: Cell<u32>,
    sources: [Source; SOURCES],
}

/// One of these, as it was found.
struct Source {
    /// What changes if something is taken.
    position: Cell<u64>,
    /// Since which turn and which of the ticker's ticks that is the same,
    since: Cell<(u64, u64)>,
    /// and for how long.
    time: Cell<u64>,
}

impl Watch {
    pub(super) const fn new() -> Self {
        Self {
            at: Cell::new(NEVER),
            last: Cell::new(0),
            unseen: Cell::new(0),
            guarded: Cell::new((0, false)),
            turn: Cell::new(0),
            occupied: Cell::new(0),
            is_told: Cell::new(false),
            local_polls: Cell::new(0),
            found: Cell::new(0),
            sources: [const {
                Source {
                    position: Cell::new(0),
                    since: Cell::new((0, 0)),
                    time: Cell::new(0),
                }
            }; SOURCES],
        }
    }
}

impl Worker {
    fn beat(&self) -> Option<&'static Beat> {
        BEATS.get(self.core())
    }

    /// This core ticks from here on, next at `at`, if it preempts. Interrupts masked.
    pub(super) fn watch_awake(&self, at: u64) {
        if !hal::PREEMPTS || self.shared().config.virtual_clock {
            return;
        }
        let watch = &self.watch;
        let own = match at {
            NEVER if is_on() => hal::clock::now() + PERIOD,
            _ => NEVER,
        };
        watch.at.set(own);
        if let Some(beat) = self.beat() {
            beat.due.store(at.min(own), Relaxed);
        }
    }

    /// It does not, for now. Interrupts masked.
    pub(super) fn watch_asleep(&self, goes_on: bool) {
        if !hal::PREEMPTS {
            return;
        }
        // Also one that has nobody to look at: each look is told, and something may rely on that.
        let looks = goes_on && self.index < GUARDS && is_on();
        let is_virtual = self.shared().config.virtual_clock;
        // From the last look on, not from now on: a core that wakes in between, for whatever reason, would put it off each time. A timer that
        // fires a little early, and is set again, is such a reason.
        let at = match SUSPECTS.load(Relaxed) {
            _ if !looks || is_virtual => NEVER,
            true => (last_look() + LOOK).max(hal::clock::now()),
            false => (last_look() + LOOK_ASLEEP).max(hal::clock::now()),
        };
        self.watch.at.set(at);
        if let Some(beat) = self.beat() {
            // It wakes for that, unless the handler of what wakes it before does not end.
            beat.due.store(at, Relaxed);
            beat.occupied.store(0, Relaxed);
        }
    }

    /// Its timer has expired: if that is for the watch, looks, and says when it is to be next.
    pub(super) fn on_watch_timer(&self, now: u64) {
        if self.watch.at.get() > now {
            return;
        }
        if self.is_awake() {
            self.on_watched_tick(now, PERIOD);
            return self.watch_awake(NEVER);
        }
        // The loop sets it again when it has found nothing to do, which it does at once.
        self.watch.at.set(NEVER);
        if let Some(beat) = self.beat() {
            beat.count.store(beat.count.load(Relaxed) + 1, Relaxed);
            beat.due.store(now + LOOK_ASLEEP, Relaxed);
        }
        look(now);
    }

    /// A tick of this core, which come every `period`.
    pub(super) fn on_watched_tick(&self, now: u64, period: u64) {
        let Some(beat) = self.beat() else {
            return;
        };
        beat.count.store(beat.count.load(Relaxed) + 1, Relaxed);
        if !is_on() {
            return;
        }
        let watch = &self.watch;
        let since = now.saturating_sub(watch.last.get());
        if since < STEP {
            return;
        }
        watch.last.set(now);
        let time = since.min(VOUCHED * period.max(STEP));
        self.look_at_guard(time);
        // What a tick cannot look at is seen when the guard is dropped, or by the next one: if nothing has changed by then, nothing had in between.
        let time = time + watch.unseen.take();
        match is_in_poll(hal::context::current()) {
            true => self.look_at_queues(beat, time),
            false => watch.unseen.set(time),
        }
        look(now);
    }

    /// In a poll that has dropped its last guard, and a tick had come under that. Interrupts masked.
    pub(super) fn on_marked_guard_dropped(&self) {
        let unseen = self.watch.unseen.take();
        if unseen != 0
            && is_on()
            && let Some(beat) = self.beat()
        {
            self.look_at_queues(beat, unseen);
        }
    }

    fn look_at_guard(&self, time: u64) {
        let guarded = &self.watch.guarded;
        if !preempt::mark_guard() {
            return guarded.set((0, false));
        }
        let (before, is_told) = guarded.get();
        let time = before + time;
        let is_due = time >= BOUND && !is_told;
        guarded.set((time, is_told || is_due));
        if is_due {
            self.tell_here(Trouble::Guarded, time, waker::current_header(), None);
        }
    }

    /// In a poll that holds no guard: so nothing that is the owner's is in the middle of a change. Interrupts masked.
    fn look_at_queues(&self, beat: &Beat, time: u64) {
        let watch = &self.watch;
        let turn = self.fairness.turn();
        let occupied = match watch.turn.replace(turn) == turn {
            true => watch.occupied.get() + time,
            false => {
                watch.is_told.set(false);
                0
            }
        };
        watch.occupied.set(occupied);
        beat.occupied.store(occupied, Relaxed);
        let before = watch.found.get();
        let mut found = 0;
        for number in self.sources_to_watch() {
            let Some(position) = self.position(number) else {
                continue;
            };
            found |= 1 << number;
            let source = &watch.sources[number];
            if before & 1 << number == 0 || source.position.replace(position) != position {
                source.position.set(position);
                source.since.set((turn, self.ticks()));
                source.time.set(0);
                continue;
            }
            let so_far = source.time.get() + time;
            source.time.set(so_far);
            let (since_turn, since_tick) = source.since.get();
            let (turns, ticks) = (turn.wrapping_sub(since_turn), self.ticks() - since_tick);
            if so_far >= BOUND && self.is_starved(number, turns, ticks) {
                // Once for each turn, and for each time that it was seen to begin.
                source.time.set(0);
                if occupied < BOUND || !watch.is_told.replace(true) {
                    self.tell_starved(number, so_far);
                }
            }
        }
        watch.found.set(found);
    }

    /// Those that may have something.
    fn sources_to_watch(&self) -> impl Iterator<Item = usize> {
        let mut left = self.ready.get() | !0 << INJECTOR & ((1 << SOURCES) - 1);
        core::iter::from_fn(move || {
            let number = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(number)
        })
    }

    /// What changes if something is taken from there; None: it is empty. For its interrupts, with nothing in the middle of a change.
    fn position(&self, number: usize) -> Option<u64> {
        let address = |task: Option<NonNull<Header>>| task.map(|task| task.addr().get() as u64);
        if number < QUEUES {
            let (level, kind) = (number / KINDS as usize, number as u32 % KINDS);
            let queues = &self.levels[level];
            return match kind {
                // SAFETY: the owner's interrupt, and the owner is not at it.
                PINNED => address(unsafe { &*queues.pinned.get() }.front()),
                RING => (!queues.ring.is_empty()).then(|| queues.ring.position()),
                DEQUE => (!queues.deque.is_empty()).then(|| queues.deque.position()),
                _ => address(self.next[level].get()),
            };
        }
        match number {
            INBOX => (!self.inbox.0.is_empty()).then_some(0),
            PINNED_INBOX => (!self.pinned_inbox.0.is_empty()).then_some(0),
            HELD => {
                // SAFETY: as above.
                let is_held = !unsafe { &*self.held.get() }.is_empty();
                let context = self.local_context.get().filter(|_| is_held)?;
                // SAFETY: it is there until its poll has ended, which the owner sees to.
                let word = unsafe { context.as_ref() }.header().state.now();
                // One that waits may do so for as long as it likes.
                (word.is_running() || word.is_queued()).then(|| self.watch.local_polls.get())
            }
            injector => (!self.shared().injectors[injector - INJECTOR].is_empty()).then_some(0),
        }
    }

    /// Whether what waits there, and was not moved for [`BOUND`], so many turns and so many ticks, should have been.
    fn is_starved(&self, number: usize, turns: u64, ticks: u64) -> bool {
        let is_occupied = self.watch.occupied.get() >= BOUND;
        match number {
            HELD => true,
            INJECTOR..INBOX => is_occupied && self.shared().all_are_occupied(),
            _ if number < QUEUES && matches!(number as u32 % KINDS, RING | DEQUE) => {
                let had_its_ticks = !self.ticks_now() || ticks > 2 * fair::LOWER_BOUND;
                is_occupied || turns > 2 * u64::from(fair::BOUND) && had_its_ticks
            }
            // The same may be there again.
            _ => is_occupied,
        }
    }

    fn tell_starved(&self, number: usize, time: u64) {
        let level = |word: crate::task::state::Word| match number {
            0..QUEUES => word.level() == number / KINDS as usize,
            INJECTOR..INBOX => word.level() == number - INJECTOR,
            _ => true,
        };
        let is_own = match number {
            0..QUEUES => number as u32 % KINDS == PINNED,
            _ => number == PINNED_INBOX || number == HELD,
        };
        let waiting = self.shared().find_queued(|task| {
            let word = task.header().state.now();
            let pinned = word.pinned_to();
            word.is_queued()
                && !word.is_running()
                && level(word)
                && pinned.is_some() == is_own
                && pinned.is_none_or(|core| core == self.index)
                && (number != HELD || word.is_local())
        });
        let occupant = match (number, self.local_context.get()) {
            // SAFETY: it is in the middle of its poll.
            (HELD, Some(context)) => Some(unsafe { context.as_ref().task() }),
            _ => waker::current_header(),
        };
        self.tell_here(Trouble::Starved, time, occupant, waiting.as_ref());
    }

    /// Tells of what was found on this core: in what a tick has interrupted, or here.
    fn tell_here(
        &self,
        trouble: Trouble,
        time: u64,
        task: Option<&Header>,
        waiting: Option<&Task>,
    ) {
        // SAFETY: it is in the middle of its poll.
        let task = task.map(|task| unsafe { Task::retain(task.into(), task.id()) });
        let mut backtrace = Backtrace::new();
        let place = match irq::in_handler() {
            // The interrupt has saved it there.
            true => hal::context::current().look_at_place(),
            false => Some(hal::backtrace::here()),
        };
        if let Some((program_counter, frame_pointer)) = place {
            backtrace.walk(program_counter, frame_pointer);
        }
        tell(&Report {
            trouble,
            core: hal::cores::this_core(),
            task: task.as_ref(),
            waiting,
            time: Duration::from_nanos(time),
            backtrace: backtrace.steps(),
        });
    }
}

impl Shared {
    /// Whether no core takes from the injectors: each that is served has been in the same turn for long.
    fn all_are_occupied(&self) -> bool {
        let now = hal::clock::now();
        self.cores()
            .iter()
            .filter(|worker| worker.is_served.load(Relaxed))
            .filter_map(|worker| worker.beat())
            // Of one that is late nothing is known.
            .all(|beat| beat.occupied.load(Relaxed) >= BOUND / 2 && !beat.is_late(now))
    }

    /// A task of which this is so, and still is after a second look.
    fn find_queued(&self, is_it: impl Fn(&Task) -> bool) -> Option<Task> {
        let mut left = MOST_ASKED;
        for part in self.parts() {
            let mut cursor = Cursor::default();
            while let Some(task) = part.registry.next(&mut cursor) {
                if is_it(&task) && is_it(&task) {
                    return Some(task);
                }
                left = left.checked_sub(1)?;
            }
        }
        None
    }
}
