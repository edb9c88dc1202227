//! What happened when, core by core.
//!
//! Compiled in by the feature `trace`; without it, every call here is nothing.

use crate::task::TaskId;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A task was spawned.
    Spawn,
    /// A poll began.
    PollBegin,
    /// A poll ended.
    PollEnd,
    /// A task was woken.
    Wake,
    /// Tasks were stolen.
    Steal,
    /// The core fell asleep.
    Park,
    /// The core woke.
    Unpark,
    /// An interrupt came.
    Interrupt,
}

/// Notes an event.
#[inline(always)]
pub(crate) fn event(_kind: Kind, _task: impl FnOnce() -> TaskId) {}
