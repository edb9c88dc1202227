//! The inside of a group: its children's slots, and what happens at the end of each.
//!
//! Each child's join waker (see `start`) tells the group on the core where the
//! child ended: that takes the outcome, counts, and wakes the group's owner only
//! for the first error and for the last end. So an end costs the same whatever
//! the number of children, and nothing is allocated for it. The lock is held for
//! a few instructions each time, and nothing of the user's runs under it.
//!
//! When a child no longer counts as live, its future is gone, its finalizers have
//! run, and its outcome is in the group. What goes on after that on the core where
//! it ended looks at the memory of the task and of the group only, at nothing that
//! they borrow: so who waits for the last end may give back what children borrowed.

use super::ChildError;
use crate::{
    memory::{Counted, NoMemory},
    task::{SpawnError, TaskHandle, TaskId, waker},
};
use alloc::vec::Vec;
use core::{
    future::poll_fn,
    mem,
    task::{Context, Poll, Waker},
};
use hal::{
    preempt,
    sync::{Lock, Rank, ranked},
};

pub(super) struct Group<T, E> {
    /// The task that made the group.
    pub(super) parent: Option<TaskId>,
    /// An error cancels the others.
    fails_fast: bool,
    pub(super) state: Lock<State<T, E>>,
}

pub(super) struct State<T, E> {
    pub(super) slots: Vec<Slot<T, E>>,
    /// First of the free slots.
    pub(super) free: Option<usize>,
    /// Children so far.
    pub(super) count: u64,
    /// Children that have not ended.
    pub(super) live: usize,
    /// Bytes that these take, and those that are being made.
    used: usize,
    /// How many they may take.
    pub(super) quota: usize,
    pub(super) phase: Phase,
    /// The slot of the child that ended in error before all others.
    pub(super) first_error: Option<usize>,
    pub(super) waiter: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// All that is or will be in it is cancelled.
    Cancelled,
    /// Joined or dropped: nobody asks for results.
    Closed,
}

/// A child, by its number.
pub(super) enum Slot<T, E> {
    /// None is there; and, of those that are not promised to anybody, which is the next.
    Free(Option<usize>),
    /// With the bytes that it takes.
    Live(u64, TaskHandle<Result<Option<T>, E>>, usize),
    Ended(u64, Result<T, ChildError<E>>),
}

/// What a child is promised before it is made.
pub(super) struct Promise {
    pub(super) number: u64,
    pub(super) bytes: usize,
    /// None: the group is closed.
    pub(super) slot: Option<usize>,
    pub(super) cancelled: bool,
}

/// How the children of a group ended that has none left.
pub(crate) struct Ended<T, E> {
    slots: Vec<Slot<T, E>>,
    first_error: Option<usize>,
}

impl<T, E> Ended<T, E> {
    /// The results, in the order of spawning.
    pub(super) fn in_order(self) -> impl Iterator<Item = Result<T, ChildError<E>>> {
        let ended = |slot| match slot {
            Slot::Ended(number, result) => Some((number, result)),
            Slot::Free(_) | Slot::Live(..) => None,
        };
        let mut results: Vec<_> = self.slots.into_iter().filter_map(ended).collect();
        // Nearly: children may spawn at the same time, and slots of background tasks are used again.
        results.sort_unstable_by_key(|&(number, _)| number);
        results.into_iter().map(|(_, result)| result)
    }

    /// How many of them were lost: they never came to their end.
    pub(crate) fn lost(&self) -> usize {
        let is_lost = |slot: &&Slot<T, E>| match slot {
            Slot::Ended(_, Err(ChildError::Task(error))) => error.is_lost(),
            _ => false,
        };
        self.slots.iter().filter(is_lost).count()
    }

    /// What all returned, in that order; or the first error there was.
    pub(super) fn all_or_first_error(mut self) -> Result<Vec<T>, ChildError<E>> {
        if let Some(first) = self.first_error
            && let Slot::Ended(_, Err(error)) = self.slots.swap_remove(first)
        {
            return Err(error);
        }
        Ok(self.in_order().filter_map(Result::ok).collect())
    }
}

impl<T, E> Group<T, E> {
    pub(super) fn try_new(
        parent: Option<TaskId>,
        fails_fast: bool,
    ) -> Result<Counted<Self>, NoMemory> {
        let group = Self {
            parent,
            fails_fast,
            state: ranked(Rank::Growing, State::new()),
        };
        Counted::try_new(group).map_err(|_| NoMemory)
    }

    /// Lets no more children in, if none is left.
    pub(super) fn try_close(&self) -> Option<Ended<T, E>> {
        let mut state = self.state.lock();
        if state.live != 0 {
            return None;
        }
        state.phase = Phase::Closed;
        state.free = None;
        Some(Ended {
            slots: mem::take(&mut state.slots),
            first_error: state.first_error,
        })
    }

    /// Cancels all children, and those to come.
    pub(super) fn cancel_all(&self) {
        let waiter = {
            let mut state = self.state.lock();
            if state.phase != Phase::Open {
                return;
            }
            state.phase = Phase::Cancelled;
            state.waiter.take()
        };
        self.cancel_children();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.state.lock().phase != Phase::Open
    }

    pub(super) fn live(&self) -> usize {
        self.state.lock().live
    }

    pub(super) fn used(&self) -> usize {
        self.state.lock().used
    }

    /// Waits for what the end of children or `cancel_all` brings about.
    pub(super) async fn until(&self, is_so: impl Fn(&State<T, E>) -> bool) {
        poll_fn(|context| self.poll_until(context, &is_so)).await;
    }

    /// Makes room for a child that takes so many bytes. Memory for slots is allocated without the lock.
    pub(super) fn promise(&self, bytes: usize) -> Result<Promise, SpawnError> {
        let mut more = Vec::new();
        loop {
            let mut state = self.state.lock();
            if state.quota.saturating_sub(state.used) < bytes {
                return Err(SpawnError::Quota);
            }
            let capacity = state.slots.capacity();
            let is_closed = state.phase == Phase::Closed;
            if !is_closed && state.free.is_none() && state.slots.len() == capacity {
                if more.capacity() <= capacity {
                    drop(state);
                    more = Vec::new();
                    let reserved = more.try_reserve_exact(capacity.max(4) * 2);
                    reserved.map_err(|_| SpawnError::NoMemory)?;
                    continue;
                }
                more.append(&mut state.slots);
                mem::swap(&mut state.slots, &mut more);
            }
            state.count += 1;
            state.used += bytes;
            return Ok(Promise {
                number: state.count,
                bytes,
                slot: (!is_closed).then(|| state.take_slot()),
                cancelled: state.phase != Phase::Open,
            });
        }
    }

    /// There is no child after all.
    pub(super) fn take_back(&self, promise: &Promise) {
        let mut state = self.state.lock();
        state.used -= promise.bytes;
        // If it was closed since, there are no slots.
        if state.phase != Phase::Closed
            && let Some(slot) = promise.slot
        {
            state.give_back(slot);
        }
    }

    /// The child in this slot has ended. Called once for each, where it ended.
    pub(super) fn on_end(&self, slot: usize) {
        drop(self.end(slot));
    }

    /// The same, with what is left to be dropped: code of others, in which whoever calls this may be lost. So that
    /// comes after all that others wait for.
    #[must_use = "it is to be dropped last"]
    pub(super) fn end(&self, slot: usize) -> impl Sized + use<T, E> {
        let _guard = preempt::guard();
        let mut state = self.state.lock();
        let is_closed = state.phase == Phase::Closed;
        let ended = mem::replace(&mut state.slots[slot], Slot::Free(None));
        let Slot::Live(number, mut handle, bytes) = ended else {
            unreachable!("a child ends once")
        };
        let outcome = match handle.try_take().expect("it has ended") {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(ChildError::Failed(error)),
            Err(error) => Err(ChildError::Task(error)),
        };
        let is_error = outcome.is_err();
        let unwanted = match outcome {
            Ok(None) => {
                state.give_back(slot);
                None
            }
            outcome if is_closed => {
                state.give_back(slot);
                Some(outcome)
            }
            outcome => {
                let result = outcome.map(|value| value.expect("matched above"));
                state.slots[slot] = Slot::Ended(number, result);
                None
            }
        };
        if is_error && state.first_error.is_none() {
            state.first_error = Some(slot);
        }
        let fails = is_error && self.fails_fast && state.phase == Phase::Open;
        if fails {
            state.phase = Phase::Cancelled;
        }
        state.live -= 1;
        state.used -= bytes;
        let is_news = fails || state.live == 0;
        let waiter = if is_news { state.waiter.take() } else { None };
        drop(state);
        if fails {
            self.cancel_children();
        }
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        (unwanted, handle)
    }

    /// Cancels those that live now. Those that come later see the phase.
    pub(super) fn cancel_children(&self) {
        for slot in 0.. {
            // One at a time, as a cancelled task may be given to a policy of the user's own.
            let task = match self.state.lock().slots.get(slot) {
                Some(Slot::Live(_, handle, _)) => handle.task(),
                Some(_) => continue,
                None => return,
            };
            task.cancel();
        }
    }

    pub(super) fn poll_until(
        &self,
        context: &mut Context<'_>,
        is_so: impl Fn(&State<T, E>) -> bool,
    ) -> Poll<()> {
        let is_known = |waiter: &Waker| waiter.will_wake(context.waker());
        {
            let state = self.state.lock();
            if is_so(&state) {
                return Poll::Ready(());
            }
            if state.waiter.as_ref().is_some_and(is_known) {
                return Poll::Pending;
            }
        }
        let mut waker = Some(waker::clone_to_wait(context.waker(), &"group"));
        let mut state = self.state.lock();
        let poll = if is_so(&state) {
            Poll::Ready(())
        } else {
            mem::swap(&mut state.waiter, &mut waker);
            Poll::Pending
        };
        // Then the waker that is not needed: it may be anybody's.
        drop(state);
        poll
    }
}

impl<T, E> State<T, E> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: None,
            count: 0,
            live: 0,
            used: 0,
            quota: usize::MAX,
            phase: Phase::Open,
            first_error: None,
            waiter: None,
        }
    }

    /// A slot of those that are promised to nobody. There is one, or room for it.
    fn take_slot(&mut self) -> usize {
        let Some(slot) = self.free else {
            self.slots.push(Slot::Free(None));
            return self.slots.len() - 1;
        };
        if let Slot::Free(next) = mem::replace(&mut self.slots[slot], Slot::Free(None)) {
            self.free = next;
        }
        slot
    }

    fn give_back(&mut self, slot: usize) {
        self.slots[slot] = Slot::Free(self.free.replace(slot));
    }
}
