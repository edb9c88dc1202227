//! Work that is offered to other cores from where it stands; see `scheduler::offers`.

use crate::{
    scheduler::{offers::Offer, worker::Worker},
    task::{self, SpawnError, TaskHandle, cell::Header},
};
use core::{
    cell::UnsafeCell,
    future::Future,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll},
};
use hal::unwind::{self, Payload};

/// Something to do once, here or elsewhere.
pub(super) trait Work: Send {
    type Output: Send;
    fn run(self) -> Self::Output;
}

/// A piece of work, and room for what comes of it.
#[repr(C)]
pub(super) struct Job<W: Work> {
    /// First, as lists know only this.
    offer: Offer,
    /// Until somebody begins with it: who that is, the offer decides.
    work: UnsafeCell<Option<W>>,
    /// Written by the task that was made of it, read when that has ended.
    result: UnsafeCell<Option<Result<W::Output, Payload>>>,
}

/// What became of a job.
pub(super) enum Ended<W: Work> {
    /// Nobody has begun with it.
    Back(W),
    /// It was done, or panicked, elsewhere.
    Done(Result<W::Output, Payload>),
}

impl<W: Work> Job<W> {
    /// `is_needed`: who offers it may wait for what it does.
    pub(super) fn new(work: W, is_needed: bool) -> Self {
        Self {
            offer: Offer::new(make::<W>, is_needed),
            work: UnsafeCell::new(Some(work)),
            result: UnsafeCell::new(None),
        }
    }

    /// Offers it to others, in the poll of `task`, which may wait.
    ///
    /// # Safety
    /// It stays where it is until [`end`](Self::end) has returned, and that is called, for the last job
    /// first, before this function's caller returns or unwinds.
    #[inline]
    pub(super) unsafe fn begin(&self, task: &Header) {
        let offer = NonNull::from(self).cast();
        // SAFETY: the caller's promise; it is the whole that the pointer is made of.
        unsafe { Offer::begin(offer, task) };
    }

    /// Whether somebody has taken it; a hint.
    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.offer.is_taken()
    }

    /// Takes it back, or waits until it is done.
    ///
    /// # Panics
    /// If who has taken it was lost in the middle.
    ///
    /// # Safety
    /// As for [`begin`](Self::begin), which came before.
    #[inline]
    #[track_caller]
    pub(super) unsafe fn end(&self) -> Ended<W> {
        // SAFETY: the caller's promise. After it, nobody else touches the job.
        let (work, result) = unsafe {
            self.offer.end();
            (&mut *self.work.get(), &mut *self.result.get())
        };
        match work.take() {
            Some(work) => Ended::Back(work),
            None => Ended::Done(result.take().expect(
                "the stack of a function in a scope was too small: what it was to do is not done",
            )),
        }
    }
}

/// # Safety
/// As `offers::Make` says; the offer is a job's.
unsafe fn make<W: Work>(
    offer: NonNull<Offer>,
    worker: &Worker,
) -> Result<(NonNull<Header>, TaskHandle<()>), SpawnError> {
    // SAFETY: it is there.
    let how = unsafe { offer.as_ref() }.how();
    let future = Taken::<W>(offer.cast());
    // SAFETY: the work and its output are `Send`, and the job stays until the task has ended.
    unsafe { task::make(worker, how, future) }
}

/// Does a job when it is polled. If it never is, because it was cancelled before, who offered the job does it.
struct Taken<W: Work>(NonNull<Job<W>>);

impl<W: Work> Future for Taken<W> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the job stays until this task has ended, and is this task's until then.
        let (work, result) = unsafe {
            let job = self.0.as_ref();
            (&mut *job.work.get(), &mut *job.result.get())
        };
        if let Some(work) = work.take() {
            *result = Some(unwind::catch(|| work.run()));
        }
        Poll::Ready(())
    }
}
