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

mod entries;
mod word;

pub use self::word::{Change, End, Pause, Place, Settled, Wake, Word};

use self::word::*;
use crate::queue::ordering;
use hal::sync::atomic::{
    AtomicU64,
    Ordering::{self, *},
    fence,
};

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

    /// Its poll was left for good.
    pub fn set_lost(&self) {
        self.0.fetch_or(LOST, Relaxed);
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
