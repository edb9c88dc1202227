//! Polls that cannot go on: their stack was too small. Nothing unwinds on the
//! image, so what such a poll had on its stack is never dropped, and as others
//! may have pointers into that and into its future, neither is used again. The
//! task ends with an error, its finalizers run, and all others go on.

use super::{context::Context, mail::LOST, policy::Reason, worker::Worker};
use crate::task::TaskError;
use core::ptr::NonNull;
use hal::{context::ContextBlock, cores, traps::Switch};

/// A poll that is left for good, and why.
pub(super) struct Lost {
    context: NonNull<Context>,
    error: TaskError,
}

/// The poll in this context, which a trap has interrupted, is left for good. None: it cannot be, it
/// is not one or holds a guard.
pub(crate) fn abandon(block: &'static ContextBlock, error: TaskError) -> Option<Switch> {
    // SAFETY: set while the core serves it, and a trap ends before that does.
    let worker = unsafe { cores::local().cast::<Worker>().as_ref() }?;
    if block.task().is_null() || !block.is_free() {
        return None;
    }
    let next = worker.take_spare()?;
    // SAFETY: what runs on a core that serves a worker runs in the block of a context.
    let context = unsafe { Context::of_block(block) };
    worker.lost.set(Some(Lost {
        context: context.into(),
        error,
    }));
    // The loop sees to it before anything else.
    worker.post_mail(LOST);
    // SAFETY: a spare one is there.
    Some((
        unsafe { next.as_ref() }.block(),
        hal::context::AfterSwitch::NOTHING,
    ))
}

impl Worker {
    /// Ends the task whose poll was left for good.
    #[cold]
    pub(super) fn bury(&self) {
        let Some(Lost { context, error }) = self.lost.take() else {
            return;
        };
        self.counters.0.lost.add(1);
        self.fairness.count();
        // SAFETY: nobody goes on with it, and it is never freed.
        let context = unsafe { context.as_ref() };
        self.local_poll_ended(context);
        // SAFETY: it was left in the middle of a poll.
        let task = unsafe { context.task() };
        task.state.retain();
        context.lose_offers(task);
        if context.task_has_ended() {
            return self.end_undropped(task);
        }
        if let Some(extra) = task.extra() {
            extra.loss.set(&error);
        }
        // SAFETY: the poll was this core's, and nobody goes on with it; the reference is kept for ever.
        unsafe { task.lose(error) };
        // What is left are its finalizers and its end.
        task.state.finalize();
        let word = task.state.put_off();
        self.push(task.into(), word, Reason::Woken);
    }
}
