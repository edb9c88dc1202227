//! Local tasks: those that stay on one core. All of a core are one thread, of
//! which one runs at a time, so they may share what is not `Send`.
//!
//! One that is left in the middle of its poll, because it waits or was
//! preempted, is still running in that sense: until its poll has ended, no
//! other local task of its core is polled, nor are its finalizers, nor is its
//! future dropped. Those that become runnable meanwhile are held back.

use super::{context::Context, inherit, registry::Cursor, worker::Worker};
use crate::task::{cell::Header, state::Word};
use core::{future::poll_fn, ptr::NonNull, sync::atomic::Ordering::Relaxed, task::Poll};

impl Worker {
    // ---- one at a time; the owner ----

    /// A local task is left in the middle of its poll, in this context.
    pub(super) fn hold_locals_for(&self, context: &Context) {
        debug_assert!(
            self.local_context
                .get()
                .is_none_or(|other| other == context.into())
        );
        if cfg!(broken = "locals_not_held") {
            return;
        }
        self.local_context.set(Some(context.into()));
    }

    /// A local task, which was started, is to be polled: false if it has to wait, and is kept for later.
    pub(super) fn may_poll_local(&self, header: &Header) -> bool {
        let Some(local) = self.local_context.get() else {
            return true;
        };
        if header.state.put_off().is_some() {
            // SAFETY: the owner; the task is queued, and in no queue.
            unsafe { (*self.held.get()).push_back(header.into()) };
        }
        let word = header.state.now();
        if inherit::is_used() {
            // SAFETY: a poll is in the middle of it, and only this core goes on with it.
            let holder = unsafe { local.as_ref().task() };
            if holder.state.now().level() < word.level() {
                inherit::on_held_back(header, holder);
                self.lends_local.set(true);
            }
        }
        false
    }

    /// The poll of a task has ended in this context: if others were held back for it, their turn comes.
    pub(super) fn local_poll_ended(&self, context: &Context) {
        if self.local_context.get() != Some(NonNull::from(context)) {
            return;
        }
        self.local_context.set(None);
        let polls = &self.watch.local_polls;
        polls.set(polls.get() + 1);
        if self.lends_local.take() {
            inherit::on_held_end(self.shared(), self.index);
        }
        // SAFETY: the owner, and nothing is called that comes back here.
        let held = core::mem::take(unsafe { &mut *self.held.get() });
        for task in held {
            // SAFETY: it is queued, so it lives, and it is ours.
            let word: Word = unsafe { task.as_ref() }.state.now();
            self.push_pinned(task, word.level());
        }
    }

    // ---- their end; the owner ----

    /// Cancels the local tasks of this core, and waits until they have ended.
    /// What is not `Send` must not outlive the thread that plays the core, and
    /// `block_on` may be called by another thread next.
    pub(crate) async fn end_locals(&self) {
        poll_fn(|context| {
            // Those that local tasks start as they end are found by the next look.
            let locals = self.cancel_locals();
            self.locals.set(locals);
            if locals == 0 {
                return Poll::Ready(());
            }
            self.locals_ended.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn cancel_locals(&self) -> usize {
        let mut count = 0;
        for part in self.shared().parts() {
            let mut cursor = Cursor::default();
            while let Some(task) = part.registry.next(&mut cursor) {
                let word = task.header().state.now();
                if word.is_local() && !word.is_main() && word.pinned_to() == Some(self.index) {
                    task.cancel();
                    count += 1;
                }
            }
        }
        count
    }

    /// Whether there are local tasks.
    pub(crate) fn has_locals(&self) -> bool {
        // Relaxed: this thread started them, or ran them, or they have not begun.
        self.local_tasks.load(Relaxed) != 0
    }

    /// A local task was made for this core. Any core.
    pub(crate) fn local_begins(&self) {
        self.local_tasks.fetch_add(1, Relaxed);
    }

    /// A local task has ended.
    #[cold]
    pub(super) fn local_ended(&self) {
        self.local_tasks.fetch_sub(1, Relaxed);
        let left = self.locals.get().saturating_sub(1);
        self.locals.set(left);
        if left == 0
            && let Some(waker) = self.locals_ended.take()
        {
            waker.wake();
        }
    }
}
