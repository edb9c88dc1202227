//! The begin and the end of one child: how a group starts it, and hears of its end.

use super::children::{Group, Phase, Slot};
use crate::{
    bomb::Bomb,
    task::{self, Origin, SpawnError, Start, Task},
};
use alloc::{sync::Arc, task::Wake};
use core::{
    future::Future,
    mem,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    task::{Context, Poll, Waker},
};
use hal::preempt;

impl<T: Send, E: Send> Group<T, E> {
    /// Starts a child.
    ///
    /// # Safety
    /// What the future, `T` and `E` borrow lasts until no child of the group is live.
    #[track_caller]
    pub(super) unsafe fn start<F: Future + Send>(
        self: &Arc<Self>,
        how: Start,
        future: F,
        map: fn(F::Output) -> Result<Option<T>, E>,
    ) -> Result<Task, SpawnError> {
        // Numbered before it runs, and so before any that it spawns.
        let (number, cancelled) = {
            let mut state = self.state.lock();
            state.count += 1;
            (state.count, state.phase != Phase::Open)
        };
        let parent = self.parent;
        let how = Start {
            parent,
            cancelled,
            ..how
        };
        let end = Arc::new(ChildEnd::new(self));
        let waker = Waker::from(end.clone());
        // Under a guard until it counts, so that who spawns it cannot be lost in between: if that is a
        // child itself, its own end would be taken for the last.
        let guard = preempt::guard();
        // SAFETY: the child and its output are `Send`; for the rest, the caller's promise.
        let handle = unsafe { task::start(Origin::current(), how, Mapped { future, map })? };
        let task = handle.task();
        let bomb = Bomb("a child of a group runs that nobody would wait for");
        let mut state = self.lock_with_room();
        let phase = state.phase;
        if phase == Phase::Closed {
            drop(state);
            bomb.defuse();
            drop(guard);
            task.cancel();
            return Ok(task);
        }
        // It counts from here on. No child can have ended the group before: a child that spawns is live
        // itself, and the group's owner is here.
        let slot = state.insert(number, handle);
        end.slot.store(slot, Relaxed);
        let Slot::Live(_, handle) = &mut state.slots[slot] else {
            unreachable!("just inserted")
        };
        let told = handle.tell(waker);
        drop(state);
        bomb.defuse();
        let left = match told {
            Err(waker) => Some((self.end(slot), waker)),
            Ok(()) => {
                if phase == Phase::Cancelled {
                    task.cancel();
                }
                None
            }
        };
        drop(guard);
        drop(left);
        Ok(task)
    }

    /// For those that do not know of lifetimes: wakers, and tasks in scopes.
    pub(super) fn erased(self: &Arc<Self>) -> Arc<dyn Children> {
        let group: Arc<dyn Children + '_> = self.clone();
        // SAFETY: 1. As long as a child is live, what `T` and `E` borrow lasts: who starts it has promised
        // that. 2. When none is, the group holds no `T` and no `E` once its owner has taken them out,
        // and these functions, and the group's end, touch none.
        unsafe { mem::transmute::<Arc<dyn Children + '_>, Arc<dyn Children>>(group) }
    }
}

/// A group, whatever its children return.
pub(crate) trait Children: Send + Sync {
    /// The child in this slot has ended. Called once for each, where it ended.
    fn on_end(&self, slot: usize);
    /// Cancels all children, and those to come.
    fn cancel_all(&self);
    /// The same, and waits until none is left.
    fn poll_end(&self, context: &mut Context<'_>) -> Poll<()>;
}

impl<T: Send, E: Send> Children for Group<T, E> {
    fn on_end(&self, slot: usize) {
        self.on_end(slot);
    }

    fn cancel_all(&self) {
        self.cancel_all();
    }

    fn poll_end(&self, context: &mut Context<'_>) -> Poll<()> {
        self.cancel_all();
        self.poll_until(context, |state| state.live == 0)
    }
}

/// Join waker of a child.
struct ChildEnd {
    group: Arc<dyn Children>,
    /// Set before the waker is offered.
    slot: AtomicUsize,
}

impl ChildEnd {
    fn new<T: Send, E: Send>(group: &Arc<Group<T, E>>) -> Self {
        Self {
            group: group.erased(),
            slot: AtomicUsize::new(0),
        }
    }
}

impl Wake for ChildEnd {
    fn wake(self: Arc<Self>) {
        self.group.on_end(self.slot.load(Relaxed));
    }
}

/// A future and what to make of its output. By hand: an async block that awaits
/// a captured future has room for it twice.
struct Mapped<F: Future, O> {
    future: F,
    map: fn(F::Output) -> O,
}

impl<F: Future, O> Future for Mapped<F, O> {
    type Output = O;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<O> {
        let map = self.map;
        // SAFETY: the future is pinned with the whole, which has no `Drop` and is `Unpin` only if it is.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        future.poll(context).map(map)
    }
}
