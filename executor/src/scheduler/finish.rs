//! The end of a task: future gone, finalizers run, outcome handed over.

use super::{
    shared::Phase,
    turn::Turn,
    worker::{Worker, release_memory},
};
use crate::task::{TaskError, cell::Header, state::End, waker};
use core::{ptr::NonNull, task::Context};
use hal::context;

impl Worker {
    /// Ends a cancelled task: its future is dropped where it stands.
    #[cold]
    pub(super) fn drop_future(&self, header: &Header) -> Turn {
        let context = context::current();
        // Code in its destructors may ask which task this is.
        context.set_task(core::ptr::from_ref(header).cast_mut().cast());
        // SAFETY: this core owns the future: started, and not paused since.
        unsafe { header.abort(TaskError::Cancelled) };
        context.set_task(core::ptr::null_mut());
        self.finish(header)
    }

    /// The future is gone and the outcome written: finalizers, if there are any, then the end.
    #[inline(never)]
    pub(super) fn finish(&self, header: &Header) -> Turn {
        // SAFETY: this core runs the task.
        if header
            .extra()
            .is_some_and(|extra| unsafe { extra.has_finalizers() })
        {
            return self.begin_finalizers(header);
        }
        self.end(header);
        Turn::Over
    }

    #[cold]
    fn begin_finalizers(&self, header: &Header) -> Turn {
        header.state.finalize();
        let (is_ready, yielded) = self.poll_finalizers(header);
        self.after_finalizers(header, is_ready, yielded)
    }

    /// What a poll of finalizers came to.
    pub(super) fn after_finalizers(&self, header: &Header, is_ready: bool, yielded: bool) -> Turn {
        if is_ready {
            self.end(header);
            return Turn::Over;
        }
        self.pause(header, yielded)
    }

    pub(super) fn poll_finalizers(&self, header: &Header) -> (bool, bool) {
        let waker = waker::borrowed(header);
        let context = context::current();
        context.set_task(core::ptr::from_ref(header).cast_mut().cast());
        let extra = header.extra().expect("a task with finalizers has a block");
        // SAFETY: this core runs the task.
        let is_ready = unsafe { extra.poll_finalizers(&mut Context::from_waker(&waker)) };
        let yielded = context.task().addr() & waker::YIELDED != 0;
        context.set_task(core::ptr::null_mut());
        (is_ready, yielded)
    }

    /// The task has ended: out of the list, outcome to whoever joins.
    #[inline]
    fn end(&self, header: &Header) {
        let task = NonNull::from(header);
        // SAFETY: the task at home there is not freed yet, so its home is there.
        let home = unsafe { header.home.as_ref() };
        if core::ptr::eq(home, self) {
            // SAFETY: the owner of the list, and the task is in it.
            unsafe { home.registry.remove_own(header.id, header) };
        } else {
            home.registry.remove(header.id, header);
        }
        let mut kept = header.state.has_handle();
        if !kept {
            // SAFETY: nobody else asks for it.
            unsafe { header.drop_outcome() };
        }
        let end = loop {
            match header.state.end(kept) {
                Some(end) => break end,
                None => {
                    kept = false;
                    // SAFETY: the handle went away without it.
                    unsafe { header.drop_outcome() };
                }
            }
        };
        match end {
            End::Quiet => {}
            // SAFETY: that was the last reference.
            End::Free => unsafe { release_memory(task) },
            End::WakeJoiner => {
                // SAFETY: DONE is set with JOINER, so the waker is ours.
                unsafe { header.take_joiner() }.wake();
                if header.state.release() {
                    // SAFETY: that was the last reference.
                    unsafe { release_memory(task) };
                }
            }
        }
        self.counters.0.finished.add(1);
        if self.phase.get() != Phase::Open {
            self.shared().check_drained();
        }
    }
}
