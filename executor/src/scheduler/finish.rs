//! The end of a task: future gone, finalizers run, outcome handed over.

use super::{
    inherit,
    shared::Phase,
    turn::Turn,
    worker::{Worker, release_memory},
};
use crate::task::{
    TaskError,
    cell::Header,
    extra::Extra,
    state::{End, Word},
    waker,
};
use crate::trace;
use core::{
    mem::ManuallyDrop,
    ptr::NonNull,
    task::{Context, Waker},
};
use hal::{context, unwind};

/// Wakes somebody of whom nothing is known, from the core's own loop. A panic in
/// it has nobody to go to but the core, which has to go on; on the host it has
/// printed itself.
#[inline(never)]
fn wake_foreign(waker: Waker) {
    let _ = unwind::catch(|| waker.wake());
}

impl Worker {
    /// Ends a cancelled task: its future is dropped where it stands.
    #[cold]
    pub(super) fn drop_future(header: &Header) -> Turn {
        let context = context::current();
        // Code in its destructors may ask which task this is.
        context.set_task(core::ptr::from_ref(header).cast_mut().cast());
        // SAFETY: this core owns the future: started, and not paused since.
        unsafe { header.abort(TaskError::Cancelled) };
        context.set_task(core::ptr::null_mut());
        Self::finish(header)
    }

    /// The future is gone and the outcome written: finalizers, if there are any, then the end.
    #[inline(never)]
    pub(super) fn finish(header: &Header) -> Turn {
        // SAFETY: this core runs the task.
        let has_finalizers = |extra: &Extra| unsafe { extra.has_finalizers() };
        if header.extra().is_some_and(has_finalizers) {
            return Self::begin_finalizers(header);
        }
        Self::end(header);
        Turn::Over
    }

    /// The same for nearly all tasks: no finalizers, at home on this core, and
    /// somebody waits for the outcome. False: it was not so, and code of the
    /// user's may have run, so who called this may be on another core.
    #[inline(always)]
    #[must_use]
    pub(super) fn end_usual(&self, header: &Header) -> bool {
        self.assert_served_here();
        if header.extra().is_some() || header.home.as_ptr().cast_const() != self.usual_home.get() {
            Self::end_unusual(header);
            return false;
        }
        // SAFETY: the owner of the list, and the task is in it.
        unsafe { self.registry.remove_own(header) };
        if !header.state.end_joined() {
            Self::end_removed(header);
            return false;
        }
        self.wake_joiner(header);
        self.counters.0.finished.add(1);
        true
    }

    #[inline(never)]
    fn end_unusual(header: &Header) {
        if let Turn::Again(word) = Self::finish(header) {
            Self::served().push_back(header.into(), word);
        }
    }

    #[cold]
    fn begin_finalizers(header: &Header) -> Turn {
        header.state.finalize();
        let (is_ready, yielded) = Self::poll_finalizers(header);
        Self::after_finalizers(header, is_ready, yielded)
    }

    /// What a poll of finalizers came to.
    pub(super) fn after_finalizers(header: &Header, is_ready: bool, yielded: bool) -> Turn {
        if is_ready {
            Self::end(header);
            return Turn::Over;
        }
        Self::pause(header, yielded)
    }

    pub(super) fn poll_finalizers(header: &Header) -> (bool, bool) {
        let waker = waker::borrowed(header);
        let context = context::current();
        context.set_task(core::ptr::from_ref(header).cast_mut().cast());
        let mut cx = Context::from_waker(&waker);
        let parts_are_done = header
            .lost_in()
            .is_none_or(|lost| lost.poll_lost_parts(&mut cx));
        // SAFETY: this core runs the task.
        let mut poll = |extra: &Extra| unsafe { extra.poll_finalizers(&mut cx) };
        let is_ready = parts_are_done && header.extra().is_none_or(&mut poll);
        let yielded = context.task().addr() & waker::YIELDED != 0;
        context.set_task(core::ptr::null_mut());
        (is_ready, yielded)
    }

    /// The task has ended: out of the list, outcome to whoever joins.
    fn end(header: &Header) {
        let worker = Self::served();
        // SAFETY: a task's home lives as long as the task.
        let home = unsafe { header.home.as_ref() };
        let is_lost = header.state.now().is_lost();
        if is_lost {
            header.set_lost_in_entry(false);
        }
        if core::ptr::eq(home, worker) {
            // SAFETY: the owner of the list, and the task is in it.
            unsafe { home.registry.remove_own(header) };
        } else {
            home.registry.remove(header);
        }
        if is_lost {
            // It waits for nobody's end any more.
            inherit::on_release();
        }
        Self::end_removed(header);
    }

    #[inline(never)]
    fn end_removed(header: &Header) {
        let word = header.state.now();
        if word.is_local() && !word.is_main() {
            Self::served().local_ended();
        }
        let mut kept = header.state.has_handle();
        if !kept {
            // SAFETY: nobody else asks for it.
            unsafe { Self::drop_outcome(header) };
        }
        let end = loop {
            match header.state.end(kept) {
                Some(end) => break end,
                None => {
                    kept = false;
                    // SAFETY: the handle went away without it.
                    unsafe { Self::drop_outcome(header) };
                }
            }
        };
        let worker = Self::served();
        match end {
            End::Quiet => {}
            // SAFETY: that was the last reference.
            End::Free => unsafe { release_memory(header.into()) },
            End::WakeJoiner => worker.wake_joiner(header),
        }
        worker.count_end();
    }

    /// The end of a task whose outcome, which nobody asks for, could not be dropped to its end: nobody
    /// goes on with that, and who calls this keeps a reference for ever.
    #[cold]
    pub(super) fn end_undropped(&self, header: &Header) {
        let end = header.state.end(false);
        debug_assert_eq!(end, Some(End::Quiet), "it has no handle, and a reference");
        self.count_end();
    }

    /// Its destructors may wait, as all that a task runs may.
    ///
    /// # Safety
    /// The outcome is there, and nobody else's.
    unsafe fn drop_outcome(header: &Header) {
        let context = context::current();
        let task = core::ptr::from_ref(header).cast_mut().cast::<()>();
        context.set_task(task.map_addr(|task| task | waker::ENDED));
        // SAFETY: the caller's promise.
        unsafe { header.drop_outcome() };
        context.set_task(core::ptr::null_mut());
    }

    /// The task is done and a join waker is there: wakes it, and drops the reference of being alive.
    #[inline(always)]
    fn wake_joiner(&self, header: &Header) {
        // SAFETY: DONE is set with JOINER, so the waker is ours.
        let joiner = ManuallyDrop::new(unsafe { header.take_joiner() });
        match waker::task_of(&joiner) {
            // What `wake` does, with less to find out.
            Some(task)
                // SAFETY: the waker is a reference, and keeps its home.
                if self.takes_wakes_of(unsafe { task.home.as_ref() })
                    && let Some(word) = task.state.wake_and_release() =>
            {
                // Its reference is dropped with that step.
                trace::event_by(trace::Kind::Wake, || task.id());
                if let Some(before) = self.swap_next(task.into(), word) {
                    self.displace(before, word);
                }
            }
            _ => wake_foreign(ManuallyDrop::into_inner(joiner)),
        }
        if header.state.release() {
            // SAFETY: that was the last reference.
            unsafe { release_memory(header.into()) };
        }
    }

    /// What was to come next goes where others can see it.
    #[inline(never)]
    fn displace(&self, before: NonNull<Header>, word: Word) {
        self.push_spawned(before, word.level());
    }

    #[cold]
    fn check_drained(&self) {
        self.shared().check_drained();
    }

    fn count_end(&self) {
        self.counters.0.finished.add(1);
        if self.phase.get() != Phase::Open {
            self.check_drained();
        }
    }
}
