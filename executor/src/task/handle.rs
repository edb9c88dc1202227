//! What is left in the hands of whoever spawned a task.

use super::{Task, TaskError, TaskId, cell::Header, state::Wake, waker};
use crate::scheduler::{inherit, schedule};
use core::{
    future::Future,
    marker::PhantomData,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll, Waker},
};

/// A spawned task. Awaiting it gives what the task returned, or why it did not.
///
/// Dropping the handle detaches the task: it goes on by itself.
pub struct TaskHandle<T> {
    task: NonNull<Header>,
    id: TaskId,
    progress: Progress,
    output: PhantomData<T>,
}

/// What this handle has done to the task's join waker and outcome.
// As large as the rest, so that a handle is moved in three words. In this order, so that one comparison tells what is not as usual.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
#[repr(usize)]
enum Progress {
    /// Nobody waits.
    Idle,
    /// The join waker is offered.
    Waiting,
    /// The same, and the task was lent the level of who waits.
    Lending,
    /// The outcome was taken.
    Taken,
}

// SAFETY: a handle gives its output to one thread, and nothing else of the task's type to any.
unsafe impl<T: Send> Send for TaskHandle<T> {}
// SAFETY: nothing can be taken out of it by a shared reference.
unsafe impl<T: Send> Sync for TaskHandle<T> {}
impl<T> Unpin for TaskHandle<T> {}

impl<T> TaskHandle<T> {
    /// # Safety
    /// The reference and the handle's bit in the state are given to this handle, and the output is a `T`.
    #[inline]
    pub(crate) unsafe fn new(task: NonNull<Header>, id: TaskId) -> Self {
        Self {
            task,
            id,
            progress: Progress::Idle,
            output: PhantomData,
        }
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the handle's reference keeps it.
        unsafe { self.task.as_ref() }
    }

    /// Which task it is.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Asks the task to end: at its next await its future is dropped, its
    /// finalizers run, and whoever awaits it gets [`TaskError::Cancelled`]. A
    /// task that never ran does not run. False: it has ended already, or it is
    /// what a `block_on` runs, which always comes to its end.
    ///
    /// While its finalizers run it has not ended, so that it is true; but they go
    /// on, and the outcome stays what it was.
    pub fn cancel(&self) -> bool {
        cancel(self.header())
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.header().state.is_done()
    }

    /// Lets the task go on by itself. The same as dropping the handle.
    pub fn detach(self) {}

    /// The task, whatever its type: can be kept, cloned and sent anywhere.
    pub fn task(&self) -> Task {
        // SAFETY: the handle's reference keeps it.
        unsafe { Task::retain(self.task, self.id) }
    }

    /// What the task ended with, if it has ended; once.
    pub fn try_take(&mut self) -> Option<Result<T, TaskError>> {
        if self.progress == Progress::Taken || !self.is_finished() {
            return None;
        }
        Some(self.take())
    }

    /// Whether the outcome was taken: then the handle is no longer to be polled.
    pub(crate) fn is_taken(&self) -> bool {
        self.progress == Progress::Taken
    }

    /// Wakes this once when the task has ended, unless it has already, or somebody
    /// awaits the handle: then the waker comes back.
    pub(super) fn tell(&mut self, waker: Waker) -> Result<(), Waker> {
        if self.progress != Progress::Idle {
            return Err(waker);
        }
        let header = self.header();
        // SAFETY: nothing is offered, so the place is the handle's and empty.
        unsafe { header.write_joiner(waker) };
        if !header.state.offer_joiner() {
            // SAFETY: not offered, so it is ours.
            return Err(unsafe { header.take_joiner() });
        }
        self.progress = Progress::Waiting;
        Ok(())
    }

    /// Takes the waker back, which is there. False: the task has ended.
    #[inline(never)]
    fn withdraw_joiner(&mut self) -> bool {
        if self.progress == Progress::Lending {
            inherit::on_join_end(self.header(), self.id);
            self.progress = Progress::Waiting;
        }
        if !self.header().state.withdraw_joiner() {
            return false;
        }
        // Before code of others runs, which may panic: it is taken once.
        self.progress = Progress::Idle;
        // SAFETY: withdrawn, so it is ours.
        drop(unsafe { self.header().take_joiner() });
        true
    }

    /// Nobody has taken the outcome, and nobody will.
    #[inline(never)]
    fn forget(&mut self) {
        if self.is_waiting() {
            self.withdraw_joiner();
        }
        let header = self.header();
        if header.state.forget() {
            // SAFETY: done, and nobody has taken it: it is the handle's.
            unsafe { header.drop_outcome() };
        }
    }

    /// It is about to be taken, and has lent something, or was taken before.
    #[cold]
    #[inline(never)]
    fn take_unusual(&self) {
        assert!(
            self.progress != Progress::Taken,
            "a task's handle was awaited again after it was ready"
        );
        inherit::on_join_end(self.header(), self.id);
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        matches!(self.progress, Progress::Waiting | Progress::Lending)
    }

    /// Who waits is to be done with that as soon as his own level asks for.
    #[inline]
    fn lend(&mut self) {
        if inherit::is_used()
            && self.progress == Progress::Waiting
            && inherit::on_join(self.header(), self.id)
        {
            self.progress = Progress::Lending;
        }
    }

    /// The task is done.
    #[inline]
    fn take(&mut self) -> Result<T, TaskError> {
        if self.progress > Progress::Waiting {
            self.take_unusual();
        }
        self.progress = Progress::Taken;
        // SAFETY: DONE was seen with acquire, and this happens once: the outcome is the handle's.
        unsafe { self.header().read_outcome() }
    }
}

/// See [`TaskHandle::cancel`].
pub(super) fn cancel(header: &Header) -> bool {
    // Whoever called `block_on` waits for an output, and for nothing else.
    if header.state.now().is_main() {
        return false;
    }
    match header.state.cancel() {
        Wake::Queue(word) => schedule(header, word),
        Wake::Requeued(word) => inherit::requeued(header, word),
        Wake::Nothing => header.tell(),
        Wake::Done => return false,
    }
    true
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, TaskError>;

    // Inlined, and the context is given to nobody: so the compiler knows whose waker it is, and need
    // not make one.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_finished() {
            return Poll::Ready(self.take());
        }
        // It is not taken: else it had ended.
        if self.progress != Progress::Idle {
            // SAFETY: offered, so it is there; whoever ends the task only reads it out.
            if unsafe { self.header().joiner() }.will_wake(context.waker()) {
                self.lend();
                return Poll::Pending;
            }
            if !self.withdraw_joiner() {
                return Poll::Ready(self.take());
            }
        }
        let header = self.header();
        // SAFETY: nothing is offered, so the place is the handle's and empty.
        unsafe { header.write_joiner(waker::clone_to_wait(context.waker(), &"join")) };
        if !header.state.offer_joiner() {
            // SAFETY: not offered, so it is ours.
            drop(unsafe { header.take_joiner() });
            return Poll::Ready(self.take());
        }
        self.progress = Progress::Waiting;
        self.lend();
        Poll::Pending
    }
}

impl<T> Drop for TaskHandle<T> {
    #[inline]
    fn drop(&mut self) {
        if self.progress != Progress::Taken {
            self.forget();
        }
        // SAFETY: the handle's own reference.
        unsafe { waker::release_handle(self.header()) };
    }
}

impl<T> core::fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "TaskHandle({})", self.id())
    }
}
