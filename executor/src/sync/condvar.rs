//! Those who wait until something under a lock has changed: what `thread::Condvar` is made of.
//!
//! Whoever waits [begins](Waiting::begin) before he unlocks. So who changes something under the lock after that, and
//! notifies then, knows of him: the flag that he set comes to that one through the lock. Nothing is stored
//! for who comes later; and who was notified and gives up passes it on, as everywhere.

use super::{
    clone_waker,
    wait_list::{Answer, WaitList, Waiter, Woken},
};
use crate::shim::const_unless_loom;
use core::{
    pin::Pin,
    task::{Context, Poll},
};
use hal::sync::atomic::{AtomicBool, Ordering::*};

// What a waiter is told: by whom.
const ONE: Answer = 1;
const ALL: Answer = 2;

/// Who waits.
pub struct Queue {
    /// Somebody may. Changed under the list's lock. Relaxed: who has to see it comes after it by the
    /// lock of what is waited for.
    is_waited_in: AtomicBool,
    waiters: WaitList,
}

impl Queue {
    const_unless_loom! {
        /// Nobody waits.
        #[allow(clippy::new_without_default, reason = "it is a part of something")]
        pub const fn new() -> Self {
            Self {
                is_waited_in: AtomicBool::new(false),
                waiters: WaitList::new(),
            }
        }
    }

    /// One that is to wait.
    pub fn waiting(&self) -> Waiting<'_> {
        Waiting {
            queue: self,
            waiter: Waiter::new(),
        }
    }

    /// Wakes the one who has waited longest, if anybody waits.
    pub fn notify_one(&self) {
        if !self.is_waited_in.load(Relaxed) {
            return;
        }
        let mut woken = Woken::new();
        let mut waiters = self.waiters.lock();
        waiters.skip_lost();
        waiters.answer_first(ONE, &mut woken);
        let is_empty = waiters.is_empty();
        // Nobody begins to wait meanwhile.
        if is_empty && !cfg!(seeded = "condvar_flag_after_unlock") {
            self.is_waited_in.store(false, Relaxed);
        }
        drop(waiters);
        if is_empty && cfg!(seeded = "condvar_flag_after_unlock") {
            self.is_waited_in.store(false, Relaxed);
        }
        woken.wake();
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        if !self.is_waited_in.load(Relaxed) {
            return;
        }
        let waiters = self.waiters.lock();
        self.is_waited_in.store(false, Relaxed);
        self.waiters.answer_all(waiters, ALL);
    }
}

/// Waits until it is notified.
pub struct Waiting<'a> {
    queue: &'a Queue,
    waiter: Waiter,
}

impl Waiting<'_> {
    /// Begins to wait, once, before whatever is waited for is unlocked.
    pub fn begin(self: Pin<&mut Self>) {
        // SAFETY: nothing that is pinned is moved out of it; that is `waiter` alone.
        let this = unsafe { self.get_unchecked_mut() };
        let queue = this.queue;
        let mut waiters = queue.waiters.lock();
        if !cfg!(seeded = "condvar_begins_late") {
            queue.is_waited_in.store(true, Relaxed);
        }
        // SAFETY: 1. pinned, and it does not wait. 2. it borrows the list's owner, and `drop` makes it leave.
        unsafe { Pin::new_unchecked(&mut this.waiter).join(&mut waiters, 0, None) };
    }

    /// Waits no more, so that nobody notifies it in vain. Whether it was notified before; that is not passed on then.
    pub fn end(self: Pin<&mut Self>) -> bool {
        // SAFETY: nothing that is pinned is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if !this.waiter.is_waiting() {
            return true;
        }
        // SAFETY: pinned, and it waits there.
        let left =
            unsafe { Pin::new_unchecked(&mut this.waiter).leave(&this.queue.waiters, |_| {}) };
        left.answer.is_some()
    }
}

impl Future for Waiting<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing that is pinned is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        let queue = this.queue;
        if cfg!(seeded = "condvar_begins_late") {
            queue.is_waited_in.store(true, Relaxed);
        }
        if !this.waiter.is_waiting() {
            return Poll::Ready(());
        }
        // SAFETY: pinned, and it waits there.
        let answered = unsafe {
            Pin::new_unchecked(&mut this.waiter).poll(&queue.waiters, cx.waker(), |waker| {
                clone_waker(waker, &"condvar")
            })
        };
        match answered {
            Some(_) => Poll::Ready(()),
            None => Poll::Pending,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.waiter.is_waiting() {
            return;
        }
        let queue = self.queue;
        // SAFETY: it waits, so it is pinned, and it does so in this list.
        let left = unsafe { Pin::new_unchecked(&mut self.waiter).leave(&queue.waiters, |_| {}) };
        if left.answer == Some(ONE) && !cfg!(seeded = "condvar_drop_keeps") {
            queue.notify_one();
        }
    }
}
