//! What a task's word says, and what those who change it are told.

use crate::Priority;

pub(super) const QUEUED: u64 = 1 << 0;
pub(super) const RUNNING: u64 = 1 << 1;
pub(super) const DONE: u64 = 1 << 2;
pub(super) const CANCEL: u64 = 1 << 3;
pub(super) const HANDLE: u64 = 1 << 4;
pub(super) const JOINER: u64 = 1 << 5;
pub(super) const FINAL: u64 = 1 << 6;
/// Has an extra block in which polls are counted. Never changes.
pub(super) const TRACKED: u64 = 1 << 7;
/// Its future may not leave its core. Never changes.
pub(super) const LOCAL: u64 = 1 << 8;
/// Bound to one core. Never changes.
pub(super) const PINNED: u64 = 1 << 9;
/// A `block_on` waits for it. Never changes.
pub(super) const MAIN: u64 = 1 << 10;
/// No task, but a context that is to be resumed: a stack in the middle of a poll. Never changes.
pub(super) const CONTEXT: u64 = 1 << 11;
/// Begins in a context that was made for it. Never changes.
pub(super) const ASIDE: u64 = 1 << 12;
/// Its poll was left for good: set once.
pub(super) const LOST: u64 = 1 << 13;
/// Priority, as its difference from the usual one: so nothing is set for a usual task.
pub(super) const LEVEL_SHIFT: u32 = 14;
pub(super) const NORMAL: usize = Priority::Normal as usize;
pub(super) const LEVEL_MASK: u64 = 0b11 << LEVEL_SHIFT;
pub(super) const CORE_SHIFT: u32 = 16;
pub(super) const CORE_MASK: u64 = 0xff << CORE_SHIFT;
/// The priority that it has by itself, in the same way; `LEVEL` is higher while others wait for it.
pub(super) const BASE_SHIFT: u32 = 24;
pub(super) const BASE_MASK: u64 = 0b11 << BASE_SHIFT;
pub(super) const STALE: u64 = 1 << 26;
pub(super) const TAKEN: u64 = 1 << 27;
pub(super) const AGAIN: u64 = 1 << 28;
/// No task, but a second entry for one. Never changes.
pub(super) const PROXY: u64 = 1 << 29;
/// Comes after what is as urgent as who waits for it. Never changes.
pub(super) const BACKGROUND: u64 = 1 << 31;
/// To fail, wherever it is: set once.
pub(super) const DOOMED: u64 = 1 << 30;
/// Where a task belongs.
pub(super) const PLACE: u64 = LEVEL_MASK | CORE_MASK | PINNED;
pub(super) const REFERENCE: u64 = 1 << 32;
/// So many references are a leak, and more would overflow into nothing.
pub(super) const MOST_REFERENCES: u64 = 1 << 31;

/// What the word was at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(pub(super) u64);

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

    /// Its poll was left for good; but its finalizers may run.
    pub fn is_lost(self) -> bool {
        self.0 & LOST != 0
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
