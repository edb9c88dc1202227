//! The state of a task: one atomic word, and every way it changes.
//!
//! | bit | set means | who may set it |
//! |---|---|---|
//! | `QUEUED` | in exactly one queue; with `RUNNING`: to be queued when the poll ends | any waker |
//! | `RUNNING` | one core owns the future | the core that took it out of a queue |
//! | `DONE` | the future is gone, the outcome is written | the core that ran it |
//! | `CANCEL` | asked to end; the future is dropped at its next await | anyone |
//! | `HANDLE` | a handle may still ask for the outcome | at birth; cleared by the handle |
//! | `JOINER` | the join waker is written and belongs to whoever ends the task | the handle |
//! | `FINAL` | the future is gone, finalizers run; cannot be cancelled | the core that runs it |
//!
//! What the bits give access to:
//! - the future: whoever turned `QUEUED` into `RUNNING`, until it clears `RUNNING`;
//! - the outcome: whoever sets `DONE`, before that; the handle, after it; if there
//!   is no handle when `DONE` is set, whoever sets it drops the outcome;
//! - the join waker: the handle while `JOINER` is clear, and again once it has
//!   cleared it; else whoever sets `DONE`.
//!
//! A task that waits in a queue can be *boosted*: a second entry, a [proxy](crate::scheduler), comes into a queue of a higher level.
//! Whoever comes first runs it. If that is the proxy, by [`claim`](State::claim), the first entry is still in its queue, and means nothing any more. It
//! is not looked for: it says so in the word, and is dropped when it comes out. Until then the word says
//!
//! | | |
//! |---|---|
//! | `STALE` | an entry is in a queue, or just came out, that does not count; it has a reference. `QUEUED` and `RUNNING` are about that entry |
//! | `TAKEN` | one core owns the future, as `RUNNING` says otherwise |
//! | `AGAIN` | to be queued when the poll ends, as `QUEUED` says otherwise |
//!
//! If it is to be queued while it is so, the entry counts again.
//!
//! The word also says where the task belongs (priority, pinned to a core), so
//! whoever changes the state learns that in the same step, and it counts
//! references: one for being alive, until after `DONE`; one for the handle; one
//! for each waker. A queue's entry needs none: a queued task is alive.

use crate::{Priority, queue::ordering};
use hal::sync::atomic::{
    AtomicU64,
    Ordering::{self, *},
    fence,
};

const QUEUED: u64 = 1 << 0;
const RUNNING: u64 = 1 << 1;
const DONE: u64 = 1 << 2;
const CANCEL: u64 = 1 << 3;
const HANDLE: u64 = 1 << 4;
const JOINER: u64 = 1 << 5;
const FINAL: u64 = 1 << 6;
/// Has an extra block in which polls are counted. Never changes.
const TRACKED: u64 = 1 << 7;
/// Its future may not leave its core. Never changes.
const LOCAL: u64 = 1 << 8;
/// Bound to one core. Never changes.
const PINNED: u64 = 1 << 9;
/// A `block_on` waits for it. Never changes.
const MAIN: u64 = 1 << 10;
/// No task, but a context that is to be resumed: a stack in the middle of a poll. Never changes.
const CONTEXT: u64 = 1 << 11;
/// Begins in a context that was made for it. Never changes.
const ASIDE: u64 = 1 << 12;
/// Priority, as its difference from the usual one: so nothing is set for a usual task.
const LEVEL_SHIFT: u32 = 14;
const NORMAL: usize = Priority::Normal as usize;
const LEVEL_MASK: u64 = 0b11 << LEVEL_SHIFT;
const CORE_SHIFT: u32 = 16;
const CORE_MASK: u64 = 0xff << CORE_SHIFT;
/// The priority that it has by itself, in the same way; `LEVEL` is higher while others wait for it.
const BASE_SHIFT: u32 = 24;
const BASE_MASK: u64 = 0b11 << BASE_SHIFT;
const STALE: u64 = 1 << 26;
const TAKEN: u64 = 1 << 27;
const AGAIN: u64 = 1 << 28;
/// No task, but a second entry for one. Never changes.
const PROXY: u64 = 1 << 29;
/// Comes after what is as urgent as who waits for it. Never changes.
const BACKGROUND: u64 = 1 << 31;
/// To fail, wherever it is: set once.
const DOOMED: u64 = 1 << 30;
/// Where a task belongs.
const PLACE: u64 = LEVEL_MASK | CORE_MASK | PINNED;
const REFERENCE: u64 = 1 << 32;
/// So many references are a leak, and more would overflow into nothing.
const MOST_REFERENCES: u64 = 1 << 31;

/// What the word was at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(u64);

impl Word {
    /// Bound to a core of the runtime.
    #[inline]
    pub fn pinned_to(self) -> Option<usize> {
        (self.0 & PINNED != 0).then_some(((self.0 & CORE_MASK) >> CORE_SHIFT) as usize)
    }

    /// Bound to a core of the runtime.
    #[inline]
    pub fn is_pinned(self) -> bool {
        self.0 & PINNED != 0
    }

    /// Priority level, 0 the lowest.
    #[inline]
    pub fn level(self) -> usize {
        ((self.0 & LEVEL_MASK) >> LEVEL_SHIFT) as usize ^ NORMAL
    }

    /// The priority level that it has by itself.
    #[inline]
    pub fn base(self) -> usize {
        ((self.0 & BASE_MASK) >> BASE_SHIFT) as usize ^ NORMAL
    }

    /// It is of a higher level than by itself.
    #[inline]
    pub fn is_boosted(self) -> bool {
        self.level() > self.base()
    }

    /// Of an entry that came out of a queue: it does not count.
    #[inline]
    pub fn is_stale(self) -> bool {
        self.0 & STALE != 0
    }

    /// It comes after what is as urgent as who waits for it.
    #[inline]
    pub fn is_background(self) -> bool {
        self.0 & BACKGROUND != 0
    }

    /// It was told to fail, and has not begun to.
    #[inline]
    pub fn is_doomed(self) -> bool {
        self.0 & (DOOMED | FINAL | DONE) == DOOMED
    }

    /// No task, but a second entry for one.
    #[inline]
    pub fn is_proxy(self) -> bool {
        self.0 & PROXY != 0
    }

    /// Four times that: where the bits of the level are in a core's word of queues.
    #[inline]
    pub fn level_bit(self) -> u32 {
        ((self.0 >> (LEVEL_SHIFT - 2)) as u32 & (3 << 2)) ^ (NORMAL as u32) << 2
    }

    /// Its polls are counted.
    #[inline]
    pub fn is_tracked(self) -> bool {
        self.0 & TRACKED != 0
    }

    /// Its future may not leave its core.
    #[inline]
    pub fn is_local(self) -> bool {
        self.0 & LOCAL != 0
    }

    /// It has ended.
    #[inline]
    pub fn is_done(self) -> bool {
        self.0 & DONE != 0
    }

    /// It was asked to end and has not begun to.
    #[inline]
    pub fn is_cancelled(self) -> bool {
        self.0 & (CANCEL | FINAL) == CANCEL
    }

    /// It was asked to end, whatever it does now.
    #[inline]
    pub fn was_cancelled(self) -> bool {
        self.0 & CANCEL != 0
    }

    /// Its finalizers run.
    #[inline]
    pub fn is_final(self) -> bool {
        self.0 & FINAL != 0
    }

    /// A core polls it.
    pub fn is_running(self) -> bool {
        match self.is_stale() {
            true => self.0 & TAKEN != 0,
            false => self.0 & RUNNING != 0,
        }
    }

    /// A task of normal priority, not pinned, not counted, not cancelled, not in its finalizers, on any stack.
    #[inline]
    pub fn is_usual(self) -> bool {
        const UNUSUAL: u64 = CANCEL
            | FINAL
            | TRACKED
            | PINNED
            | LEVEL_MASK
            | CONTEXT
            | ASIDE
            | STALE
            | PROXY
            | DOOMED;
        self.0 & UNUSUAL == 0
    }

    /// No task, but a context that is to be resumed.
    #[inline]
    pub fn is_context(self) -> bool {
        self.0 & CONTEXT != 0
    }

    /// It is what a `block_on` waits for.
    pub fn is_main(self) -> bool {
        self.0 & MAIN != 0
    }

    /// It waits in a queue.
    pub fn is_queued(self) -> bool {
        self.0 & (QUEUED | STALE) == QUEUED
    }
}

/// Where a task belongs; fixed when it is spawned.
#[derive(Clone, Copy, Default, Debug)]
pub struct Place {
    /// Priority level, 0 to 3.
    pub level: u8,
    /// Core of the runtime that it is bound to.
    pub core: Option<u8>,
    /// Its future may not leave that core.
    pub local: bool,
    /// Its polls are counted.
    pub tracked: bool,
    /// A `block_on` waits for it.
    pub main: bool,
    /// It begins in a context that was made for it.
    pub aside: bool,
    /// It comes after what is as urgent as who waits for it.
    pub background: bool,
}

/// What to do with a task that was woken or cancelled.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Put it into a queue.
    Queue(Word),
    /// Nothing: it is queued, or runs and will be.
    Nothing,
    /// An entry of it counts again; if it is boosted, it needs another of its level.
    Requeued(Word),
    /// Nothing: it has ended.
    Done,
}

/// What becomes of a task whose poll returned `Pending`.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// It waits for a waker. The core must not touch it any more.
    Parked,
    /// It was woken meanwhile, or yielded: it is queued, put it into a queue.
    Again(Word),
    /// The same, but an entry of it is in a queue already, and counts again; if it is boosted, it needs another of its level. Who is told this by
    /// `pause` has a reference for that, and drops it.
    Requeued(Word),
    /// It was cancelled meanwhile: this core still owns it and must end it.
    Cancelled,
}

/// What is to be done with an entry that does not count.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// Nothing: it is dropped.
    Dropped,
    /// As `Dropped`, and it had the last reference: free the task.
    Free,
    /// It was woken just now, and this core owns it.
    Started(Word),
}

/// What is to be done for a task whose level was changed.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It waits in a queue: it needs an entry of its level.
    Queued(Word),
    /// A core runs it. If it yields at this moment, it may not have seen the change.
    Running,
    /// It waits for a waker.
    Parked,
    /// It has ended, or was of this level.
    Nothing,
}

/// What is left to do for a task that ended.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A join waker is there: take it and wake it, then drop the reference of being alive.
    WakeJoiner,
    /// Nobody joins yet. The reference of being alive is dropped already.
    Quiet,
    /// As `Quiet`, and it was the last reference: free the task.
    Free,
}

/// The word.
pub struct State(AtomicU64);

impl State {
    /// A new task: queued, with a handle.
    pub fn new(place: Place) -> Self {
        let mut word = QUEUED | HANDLE | (2 * REFERENCE);
        let level = u64::from(place.level) ^ NORMAL as u64;
        word |= level << LEVEL_SHIFT | level << BASE_SHIFT;
        if let Some(core) = place.core {
            word |= PINNED | u64::from(core) << CORE_SHIFT;
        }
        if place.local {
            word |= LOCAL;
        }
        if place.tracked {
            word |= TRACKED;
        }
        if place.main {
            word |= MAIN;
        }
        if place.aside {
            word |= ASIDE;
        }
        if place.background {
            word |= BACKGROUND;
        }
        Self(AtomicU64::new(word))
    }

    /// A new context, that no queue knows of.
    pub fn of_context() -> Self {
        Self(AtomicU64::new(RUNNING | CONTEXT | REFERENCE))
    }

    /// A new proxy, for something that belongs there.
    pub fn of_proxy(target: Word) -> Self {
        Self(AtomicU64::new(
            QUEUED | PROXY | REFERENCE | target.0 & PLACE,
        ))
    }

    /// What it is now; it may be something else at once.
    #[inline]
    pub fn now(&self) -> Word {
        Word(self.0.load(Relaxed))
    }

    /// Whether the outcome may be read, by the handle.
    #[inline]
    pub fn is_done(&self) -> bool {
        // Acquire pairs with the release in `end`: the outcome is seen.
        let order = ordering!(Acquire unless seeded = "task_outcome_relaxed");
        self.0.load(order) & DONE != 0
    }

    /// QUEUED to RUNNING: this core took it out of a queue and owns it now.
    #[inline]
    pub fn start(&self) -> Word {
        // A queued task is not running, so one addition clears the one bit and sets the other.
        // Acquire pairs with the releases in `pause` (the future as the last poll left it) and
        // `wake` (what was written before the wake is seen by this poll).
        let order = ordering!(Acquire unless seeded = "task_start_relaxed");
        let old = self.0.fetch_add(RUNNING - QUEUED, order);
        debug_assert!(
            old & (QUEUED | RUNNING) == QUEUED && (old & DONE == 0 || old & STALE != 0),
            "{old:#x}"
        );
        Word(old + RUNNING - QUEUED)
    }

    // ---- boosts ----

    /// Makes it of another level; `base`: by itself, and of this one at least until those who wait for it have it lower.
    pub fn set_level(&self, level: usize, base: Option<usize>) -> Change {
        let bits = |level: usize| (level ^ NORMAL) as u64;
        let mut old = self.0.load(Relaxed);
        loop {
            let mut new = old & !LEVEL_MASK | bits(level) << LEVEL_SHIFT;
            if let Some(base) = base {
                new = new & !BASE_MASK | bits(base) << BASE_SHIFT;
            }
            if old & DONE != 0 || new == old {
                return Change::Nothing;
            }
            // Release pairs with the acquires in `suspend`: who sees this in a context sees it in the task.
            match self.0.compare_exchange_weak(old, new, Release, Relaxed) {
                Ok(_) => {}
                Err(now) => {
                    old = now;
                    continue;
                }
            }
            let word = Word(new);
            return if word.is_queued() && old & RUNNING == 0 {
                Change::Queued(word)
            } else if word.is_running() {
                Change::Running
            } else {
                Change::Parked
            };
        }
    }

    /// A proxy came out of a queue: this core owns what it stands for, if that waits in a queue still. Its entry there does not count
    /// any more, and has a reference.
    pub fn claim(&self) -> Option<Word> {
        let mut old = self.0.load(Relaxed);
        loop {
            let mut states = QUEUED | RUNNING | STALE | DONE;
            if cfg!(seeded = "boost_claims_twice") {
                states &= !STALE;
            }
            if old & states != QUEUED {
                return None;
            }
            let mut new = (old | STALE | TAKEN) + REFERENCE;
            if cfg!(seeded = "boost_entry_not_counted") {
                new -= REFERENCE;
            }
            // Acquire as in `start`.
            let order = ordering!(Acquire unless seeded = "boost_claim_relaxed");
            match self.0.compare_exchange_weak(old, new, order, Relaxed) {
                // As `start` would say.
                Ok(_) => return Some(Word(new & !(STALE | TAKEN | QUEUED) | RUNNING)),
                Err(now) => old = now,
            }
        }
    }

    /// An entry came out of a queue that does not count, and `start` has said so.
    #[cold]
    pub fn settle(&self) -> Settled {
        let mut old = self.0.load(Relaxed);
        loop {
            debug_assert!(
                old & (QUEUED | RUNNING | STALE) == RUNNING | STALE,
                "{old:#x}"
            );
            let rest = (old & !(STALE | TAKEN | AGAIN)) - REFERENCE;
            let is_ours = old & (DONE | TAKEN | AGAIN) == AGAIN;
            let new = match old & (DONE | TAKEN | AGAIN) {
                TAKEN | AGAIN => rest,
                // Who runs it sees that it was woken.
                both if both == TAKEN | AGAIN => {
                    if cfg!(seeded = "boost_loses_wake") {
                        rest
                    } else {
                        rest | QUEUED
                    }
                }
                // Parked, or ended.
                _ => rest & !RUNNING,
            };
            // Acquire: as in `start` if it is ours, as in `release` if it is to be freed. Release as there.
            match self.0.compare_exchange_weak(old, new, AcqRel, Relaxed) {
                Ok(_) if is_ours => return Settled::Started(Word(new)),
                Ok(_) if new < REFERENCE => return Settled::Free,
                Ok(_) => return Settled::Dropped,
                Err(now) => old = now,
            }
        }
    }

    /// The word of what is taken, and is to be queued or to wait, and whether its entry counts again.
    fn leave_taken(old: u64, again: bool) -> (u64, bool) {
        match (again, old & QUEUED != 0) {
            // It is in a queue.
            (true, true) => ((old & !(STALE | TAKEN | AGAIN)) - REFERENCE, true),
            // It just came out, and who has it settles that.
            (true, false) => (old & !TAKEN | AGAIN, false),
            (false, _) => (old & !TAKEN, false),
        }
    }

    /// A usual task waits: RUNNING to parked or, if it was woken or cancelled
    /// meanwhile, to QUEUED. Some: put it into a queue.
    #[inline]
    #[must_use]
    pub fn parks(&self) -> Option<Word> {
        // Who woke or cancelled it has set QUEUED and left it to this. A cancelled one is ended when
        // it comes out of the queue. Release pairs with the acquire in `start`.
        let old = self.0.fetch_sub(RUNNING, pause_order());
        debug_assert!(old & (RUNNING | DONE) == RUNNING, "{old:#x}");
        debug_assert!(old & (CANCEL | QUEUED) != CANCEL, "{old:#x}");
        let lost = cfg!(seeded = "task_parks_though_woken");
        (old & QUEUED != 0 && !lost).then_some(Word(old - RUNNING))
    }

    /// A usual task yields: RUNNING to QUEUED. Put it into a queue.
    #[inline]
    pub fn yields(&self) {
        // One subtraction clears the one bit and sets the other. Release pairs with the acquire in `start`.
        let old = self.0.fetch_sub(RUNNING - QUEUED, pause_order());
        debug_assert!(old & (RUNNING | DONE) == RUNNING, "{old:#x}");
        if old & QUEUED != 0 && !cfg!(seeded = "task_yields_though_woken") {
            // It was woken or cancelled as well. The subtraction has taken QUEUED instead: still this core's.
            let _ = self.put_off();
        }
    }

    /// The poll returned `Pending`: RUNNING to parked or, if it yielded or was
    /// woken meanwhile, to QUEUED. What `parks` and `yields` do, and all else; a
    /// task that was cancelled stays RUNNING, to be ended at once.
    pub fn pause(&self, yielded: bool) -> Pause {
        let mut old = self.0.load(Relaxed);
        loop {
            if Word(old).is_cancelled() {
                // Acquire pairs with the release in `cancel`: the future's destructors see what was
                // written before it, as they do when `start` sees it.
                if !cfg!(seeded = "task_cancel_not_acquired") {
                    fence(Acquire);
                }
                return Pause::Cancelled;
            }
            if old & STALE != 0 {
                let again = yielded || old & AGAIN != 0;
                let (mut new, is_queued) = Self::leave_taken(old, again);
                if is_queued && !cfg!(seeded = "boost_requeued_not_counted") {
                    // The caller's, who looks at it once more: it may be run and end meanwhile.
                    new += REFERENCE;
                }
                match self
                    .0
                    .compare_exchange_weak(old, new, pause_order(), Relaxed)
                {
                    Ok(_) if is_queued => return Pause::Requeued(Word(new)),
                    Ok(_) => return Pause::Parked,
                    Err(now) => old = now,
                }
                continue;
            }
            let again = yielded || old & QUEUED != 0;
            let new = if again {
                (old | QUEUED) & !RUNNING
            } else {
                old & !RUNNING
            };
            if cfg!(seeded = "task_pause_loses_wake") {
                self.0.fetch_and(!RUNNING, Release);
                return if again {
                    Pause::Again(Word(new))
                } else {
                    Pause::Parked
                };
            }
            // Release pairs with the acquire in `start`.
            match self
                .0
                .compare_exchange_weak(old, new, pause_order(), Relaxed)
            {
                Ok(_) if again => return Pause::Again(Word(new)),
                Ok(_) => return Pause::Parked,
                Err(now) => old = now,
            }
        }
    }

    /// A context was left, in the middle of polling `task`: RUNNING to parked or,
    /// if it only gave way or was woken meanwhile, to QUEUED. It belongs where
    /// the task does.
    pub fn suspend(&self, task: &Self, gave_way: bool) -> Pause {
        // Acquire, here and below, pairs with the release in `set_level`, which changes the task first: if it has changed this, the
        // task is looked at after that.
        let mut old = self.0.load(Acquire);
        loop {
            let place = task.now().0 & (PLACE | BASE_MASK);
            let is_stale = old & STALE != 0;
            let woken = if is_stale { AGAIN } else { QUEUED };
            let again =
                gave_way || old & woken != 0 && !cfg!(seeded = "context_parks_though_woken");
            // CANCEL: a policy of the user's own has dropped it, when it was last queued.
            let mut new = old & !(PLACE | BASE_MASK | CANCEL) | place;
            let mut is_queued = again;
            if is_stale {
                (new, is_queued) = Self::leave_taken(new, again);
            } else {
                new &= !RUNNING;
                if cfg!(seeded = "context_parks_though_woken") {
                    new &= !QUEUED;
                }
                if again {
                    new |= QUEUED;
                }
            }
            // Release pairs with the acquire in `start`: who resumes it sees its registers and its stack.
            let order = ordering!(Release unless seeded = "context_suspend_relaxed");
            match self.0.compare_exchange_weak(old, new, order, Acquire) {
                Ok(_) if !is_queued => return Pause::Parked,
                Ok(_) if is_stale => return Pause::Requeued(Word(new)),
                Ok(_) => return Pause::Again(Word(new)),
                Err(now) => old = now,
            }
        }
    }

    /// RUNNING back to QUEUED, as if `start` had not been: another time. Some: put it into a queue.
    pub fn put_off(&self) -> Option<Word> {
        let mut old = self.0.load(Relaxed);
        loop {
            let (new, is_stale) = match old & STALE {
                0 => (old & !RUNNING | QUEUED, false),
                _ => (Self::leave_taken(old, true).0, true),
            };
            // Release pairs with the acquire in `start`.
            match self
                .0
                .compare_exchange_weak(old, new, pause_order(), Relaxed)
            {
                Ok(_) => return (!is_stale).then_some(Word(new)),
                Err(now) => old = now,
            }
        }
    }

    /// A waker fired. Any core, also in an interrupt.
    #[inline]
    pub fn wake(&self) -> Wake {
        self.ask(QUEUED)
    }

    /// Asks it to end: wakes it, so that a core comes by to drop its future.
    #[inline]
    pub fn cancel(&self) -> Wake {
        self.ask(QUEUED | CANCEL)
    }

    /// Tells it to fail: wakes it, so that a core comes by.
    pub fn doom(&self) -> Wake {
        self.ask(QUEUED | DOOMED)
    }

    #[inline]
    fn ask(&self, what: u64) -> Wake {
        let mut old = self.0.load(Relaxed);
        loop {
            // compio#948: a task that has ended must never look scheduled again.
            if old & DONE != 0 && !cfg!(seeded = "task_wake_after_done") {
                return Wake::Done;
            }
            // Written even if nothing changes: the poll to come must see what was written before this
            // wake, so its acquire in `start` needs a release here to pair with.
            if cfg!(seeded = "task_second_wake_not_written") && old & what == what {
                return Wake::Nothing;
            }
            let order = ordering!(Release unless seeded = "task_wake_relaxed");
            if old & STALE != 0 {
                let (new, counts) = Self::ask_stale(old, what);
                match self.0.compare_exchange_weak(old, new, order, Relaxed) {
                    Ok(_) if counts => return Wake::Requeued(Word(new)),
                    Ok(_) => return Wake::Nothing,
                    Err(now) => old = now,
                }
                continue;
            }
            let new = old | what;
            match self.0.compare_exchange_weak(old, new, order, Relaxed) {
                Ok(_) if old & (QUEUED | RUNNING | DONE) == 0 => return Wake::Queue(Word(new)),
                Ok(_) if cfg!(seeded = "task_queued_while_running") && old & QUEUED == 0 => {
                    return Wake::Queue(Word(new));
                }
                Ok(_) => return Wake::Nothing,
                Err(now) => old = now,
            }
        }
    }

    /// The word of what has an entry that does not count, and is woken or cancelled; whether that entry counts again.
    #[cold]
    fn ask_stale(old: u64, what: u64) -> (u64, bool) {
        let asked = old | what & !QUEUED;
        // It waits for a waker, and its entry is in a queue: if it just came out, who has it sees to it.
        if old & (TAKEN | QUEUED) == QUEUED {
            return ((asked & !STALE) - REFERENCE, true);
        }
        (asked | AGAIN, false)
    }

    /// A waker fires that is used up by it, on a core where the task, if it was
    /// parked and is not pinned, goes into the next slot: wakes it and drops the
    /// waker's reference in one step. None: it is not so, or another was quicker;
    /// nothing was done.
    #[inline]
    pub fn wake_and_release(&self) -> Option<Word> {
        let old = self.0.load(Relaxed);
        let mut elsewhere = QUEUED | RUNNING | DONE | PINNED;
        if cfg!(seeded = "task_wake_and_release_while_running") {
            elsewhere &= !RUNNING;
        }
        if old & elsewhere != 0 {
            return None;
        }
        let new = (old | QUEUED) - REFERENCE;
        // Release pairs with the acquire in `claim`: a second entry, from before, may be what it is polled by. For whoever takes it
        // out of the queue into which this puts it, that orders it. It is not the last reference: the task is alive.
        self.0
            .compare_exchange(old, new, Release, Relaxed)
            .ok()
            .map(|_| Word(new))
    }

    /// The future is gone and finalizers run from here on. Called by who owns the task.
    pub fn finalize(&self) {
        // Relaxed: only the owner asks for this bit; others see it when it has no more need of them.
        self.0.fetch_or(FINAL, Relaxed);
    }

    /// Whether somebody may still ask for the outcome. Called by who owns the
    /// task, before `end`: once there is no handle, there never is one again.
    #[inline]
    pub fn has_handle(&self) -> bool {
        self.0.load(Relaxed) & HANDLE != 0
    }

    /// RUNNING to DONE with a join waker there and not woken meanwhile, as
    /// [`end`](Self::end) does; false: it is not so, or something came between.
    #[inline]
    #[must_use]
    pub fn end_joined(&self) -> bool {
        let old = self.0.load(Relaxed);
        // One addition clears the one bit and sets the other. All else as in `end`.
        old & (HANDLE | JOINER | QUEUED) == HANDLE | JOINER
            && self
                .0
                .compare_exchange(old, old + (DONE - RUNNING), end_order(), Relaxed)
                .is_ok()
    }

    /// RUNNING to DONE: the outcome is written. `kept` says what `has_handle` said
    /// when it was decided to keep or to drop the outcome; None: the handle went
    /// away meanwhile, drop the outcome and come again.
    #[inline]
    pub fn end(&self, kept: bool) -> Option<End> {
        let mut old = self.0.load(Relaxed);
        loop {
            if kept && old & HANDLE == 0 && !cfg!(seeded = "task_end_keeps_outcome") {
                return None;
            }
            let done = done(old);
            let joined = old & JOINER != 0;
            let new = if joined && !cfg!(seeded = "task_end_releases_before_join") {
                done
            } else {
                done - REFERENCE
            };
            match self.0.compare_exchange_weak(old, new, end_order(), Relaxed) {
                Ok(_) if joined => return Some(End::WakeJoiner),
                Ok(_) if new < REFERENCE => return Some(End::Free),
                Ok(_) => return Some(End::Quiet),
                Err(now) => old = now,
            }
        }
    }

    /// The handle has written the join waker and leaves it to whoever ends the
    /// task. False: the task is done, the waker stays the handle's.
    #[inline]
    #[must_use]
    pub fn offer_joiner(&self) -> bool {
        let mut old = self.0.load(Relaxed);
        loop {
            debug_assert!(old & (HANDLE | JOINER) == HANDLE);
            if old & DONE != 0 && !cfg!(seeded = "join_offered_too_late") {
                // Acquire pairs with the release in `end`: the handle reads the outcome next.
                if !cfg!(seeded = "join_offer_not_acquired") {
                    fence(Acquire);
                }
                return false;
            }
            // Release pairs with the acquire in `end`: the waker is seen.
            let order = ordering!(Release unless seeded = "join_offer_relaxed");
            let new = old | JOINER;
            match self.0.compare_exchange(old, new, order, Relaxed) {
                Ok(_) => return true,
                Err(now) => old = now,
            }
        }
    }

    /// The handle takes the join waker back, to change or drop it. False: the
    /// task is done, and whoever ended it has taken the waker or is about to.
    #[inline]
    #[must_use]
    pub fn withdraw_joiner(&self) -> bool {
        let mut old = self.0.load(Relaxed);
        loop {
            debug_assert!(old & (HANDLE | JOINER) == HANDLE | JOINER);
            if old & DONE != 0 && !cfg!(seeded = "join_withdrawn_too_late") {
                // As in `offer_joiner`.
                if !cfg!(seeded = "join_withdraw_not_acquired") {
                    fence(Acquire);
                }
                return false;
            }
            // Relaxed: nobody but the handle has written the waker or looked at it.
            let new = old & !JOINER;
            match self.0.compare_exchange_weak(old, new, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => old = now,
            }
        }
    }

    /// The handle, which has not taken the outcome, lets go. True: the task is
    /// done, and the outcome is the handle's to drop. False: it never comes to
    /// the handle. No join waker may be offered. The handle's reference stays for now.
    #[inline]
    #[must_use]
    pub fn forget(&self) -> bool {
        let mut old = self.0.load(Relaxed);
        loop {
            if old & DONE != 0 && !cfg!(seeded = "task_forgotten_too_late") {
                // Acquire pairs with the release in `end`: the outcome is seen.
                if !cfg!(seeded = "task_forget_not_acquired") {
                    fence(Acquire);
                }
                return true;
            }
            debug_assert!(old & JOINER == 0, "withdraw the join waker first");
            let new = old & !HANDLE;
            // Relaxed: whoever ends the task then looks at nothing that the handle has written, and
            // whoever frees it waits for the handle's reference.
            match self.0.compare_exchange_weak(old, new, Relaxed, Relaxed) {
                Ok(_) => return false,
                Err(now) => old = now,
            }
        }
    }

    /// One more waker.
    #[inline]
    pub fn retain(&self) -> Word {
        // Relaxed: whoever makes one from another has seen the task already.
        let old = self.0.fetch_add(REFERENCE, Relaxed);
        if old >= MOST_REFERENCES * REFERENCE {
            // Somebody forgets wakers in a loop. One more round and the task would be freed in use.
            self.0.fetch_sub(REFERENCE, Relaxed);
            panic!("a task has 2^31 wakers");
        }
        Word(old)
    }

    /// One reference less. True: it was the last, free the task.
    #[inline]
    #[must_use]
    pub fn release(&self) -> bool {
        // Release pairs with the fence below and the acquire in `end`, in whoever drops the last one.
        let order = ordering!(Release unless seeded = "task_release_relaxed");
        let old = self.0.fetch_sub(REFERENCE, order);
        debug_assert!(old >= REFERENCE);
        if old >= 2 * REFERENCE {
            return false;
        }
        if !cfg!(seeded = "task_free_not_acquired") {
            fence(Acquire);
        }
        true
    }
}

/// The word of a task that has ended. QUEUED goes too: set while running, no queue knows of it.
#[inline]
fn done(old: u64) -> u64 {
    if old & STALE != 0 {
        // These are about the entry, which is still to come out.
        return (old | DONE) & !(TAKEN | AGAIN);
    }
    if cfg!(seeded = "task_end_keeps_queued") {
        return (old | DONE) & !RUNNING;
    }
    (old | DONE) & !(RUNNING | QUEUED)
}

/// Release pairs with the acquire in `is_done`, `offer_joiner`, `withdraw_joiner` and `forget` (the
/// outcome) and, for the reference, with that of whoever frees the task; acquire with the release in
/// `offer_joiner` (the join waker) and, for the last reference, in `release`.
#[inline]
fn end_order() -> Ordering {
    if cfg!(seeded = "task_end_not_released") {
        Acquire
    } else if cfg!(seeded = "task_end_not_acquired") {
        Release
    } else {
        AcqRel
    }
}

/// Release pairs with the acquire in `start`.
#[inline]
fn pause_order() -> Ordering {
    ordering!(Release unless seeded = "task_pause_relaxed")
}
