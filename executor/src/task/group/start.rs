//! The begin and the end of one child: how a group starts it, and hears of its end.

use super::children::{Group, Phase, Slot};
use crate::{
    bomb::Bomb,
    memory::{Counted, Inner, OnWake},
    task::{
        Origin, SpawnError, Start, Task,
        start::{Unborn, memory_of, try_start},
    },
};
use core::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use hal::preempt;

impl<T: Send, E: Send> Counted<Group<T, E>> {
    /// Starts a child.
    ///
    /// # Safety
    /// What the future, `T` and `E` borrow lasts until no child of the group is live.
    #[track_caller]
    pub(super) unsafe fn start<F: Future + Send>(
        &self,
        how: Start,
        future: F,
        map: fn(F::Output) -> Result<Option<T>, E>,
    ) -> Result<Task, SpawnError> {
        let future = Mapped { future, map };
        let parent = self.parent;
        let how = Start { parent, ..how };
        // Numbered before it runs, and so before any that it spawns.
        let promise = self.promise(memory_of(&how, &future))?;
        let how = Start {
            cancelled: promise.cancelled,
            ..how
        };
        let end = ChildEnd {
            group: self.erased(),
            slot: promise.slot.unwrap_or(0),
        };
        let Ok(end) = Counted::try_new(end) else {
            self.take_back(&promise);
            return Err(SpawnError::NoMemory);
        };
        // Under a guard until it counts, so that who spawns it cannot be lost in between: if that is a
        // child itself, its own end would be taken for the last.
        let guard = preempt::guard();
        // SAFETY: the child and its output are `Send`; for the rest, the caller's promise.
        let handle = match unsafe { try_start(Origin::current(), how, future) } {
            Ok(handle) => handle,
            Err(unborn) => {
                drop(guard);
                self.take_back(&promise);
                return Err(Unborn::discard(unborn));
            }
        };
        let task = handle.task();
        let bomb = Bomb("a child of a group runs that nobody would wait for");
        let mut state = self.state.lock();
        let phase = state.phase;
        let Some(slot) = promise.slot.filter(|_| phase != Phase::Closed) else {
            drop(state);
            bomb.defuse();
            drop(guard);
            self.take_back(&promise);
            task.cancel();
            return Ok(task);
        };
        // It counts from here on. No child can have ended the group before: a child that spawns is live
        // itself, and the group's owner is here.
        state.live += 1;
        state.slots[slot] = Slot::Live(promise.number, handle, promise.bytes);
        let Slot::Live(_, handle, _) = &mut state.slots[slot] else {
            unreachable!("just put there")
        };
        let told = handle.tell(Waker::from(end));
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
    pub(super) fn erased(&self) -> Counted<dyn Children> {
        let group = Counted::into_raw(self.clone());
        let group: *mut Inner<dyn Children + '_> = group;
        // SAFETY: 1. As long as a child is live, what `T` and `E` borrow lasts: who starts it has promised
        // that. 2. When none is, the group holds no `T` and no `E` once its owner has taken them out,
        // and these functions, and the group's end, touch none. 3. It came from `into_raw`, once.
        unsafe {
            let group =
                mem::transmute::<*mut Inner<dyn Children + '_>, *mut Inner<dyn Children>>(group);
            Counted::from_raw(group)
        }
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
    group: Counted<dyn Children>,
    slot: usize,
}

impl OnWake for ChildEnd {
    fn on_wake(&self) {
        self.group.on_end(self.slot);
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
