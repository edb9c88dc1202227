//! Polls that cannot go on: they panicked, met a fault, or their stack was too small. Nothing unwinds on the
//! image, so what such a poll had on its stack is never dropped, and as others
//! may have pointers into that and into its future, neither is used again. The
//! task ends with an error, its finalizers run, and all others go on.
//!
//! A poll that panics leaves its context itself, one that met a fault is left at the end of the trap. Either
//! way the core's loop goes on in its spare context, and there [`Worker::bury`] does the rest.

use super::{
    context::Context, inherit, mail::LOST, policy::Reason, shared::Shared, turn::Turn,
    worker::Worker,
};
use crate::{
    sync::waits,
    task::{Panic, Task, TaskError, cell::Header},
};
use core::{
    cell::Cell,
    panic::PanicInfo,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*},
};
use hal::{
    context::{self, AfterSwitch, ContextBlock},
    cores, irq, preempt,
    traps::{Fault, Switch},
    unwind,
};

/// A poll that is left for good, and why.
pub(super) struct Lost {
    context: NonNull<Context>,
    task: NonNull<Header>,
    /// That is dropped of its outcome, and the task has ended but for that.
    has_ended: bool,
    cause: Cause,
}

/// Why a poll is left for good.
pub(crate) enum Cause {
    Error(TaskError),
    /// The registers are those that its context was saved with.
    Fault(Fault),
    /// It was told to.
    Doomed,
}

/// What a task that was told to fail is said to have panicked with.
const DOOMED: &str = "it was told to fail";

/// That a task is lost, for who finds that it has locked something. It stays for ever.
pub(super) struct Mark {
    /// The word in its entry: of it, or of its finalizers.
    task: Cell<u64>,
    /// Its runtime, which is there as long: ids are of one runtime.
    runtime: Cell<*const Shared>,
    next: Cell<*const Mark>,
}

impl Mark {
    pub(super) const fn new() -> Self {
        Self {
            task: Cell::new(0),
            runtime: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
        }
    }
}

/// The last mark that was made of those tasks whose ids have this rest.
static MARKS: [AtomicPtr<Mark>; 64] = [const { AtomicPtr::new(ptr::null_mut()) }; 64];
static IS_ANY: AtomicBool = AtomicBool::new(false);

fn marks_of(task: u64) -> &'static AtomicPtr<Mark> {
    &MARKS[task as usize % MARKS.len()]
}

/// Whether any task was ever lost.
#[inline]
pub(crate) fn is_any() -> bool {
    IS_ANY.load(Relaxed)
}

/// Whether this task, of the runtime that runs here, is; or its finalizers, if that is what the word in its entry says.
pub(crate) fn is_lost(task: u64) -> bool {
    let guard = preempt::guard();
    Worker::here(&guard).is_some_and(|here| is_lost_in(task, here.shared()))
}

/// Whether this task of that runtime is.
pub(crate) fn is_lost_in(task: u64, runtime: *const Shared) -> bool {
    // Acquire pairs with the release in `mark`: what is in the mark is seen, and in those before it.
    let mut next = marks_of(task).load(Acquire).cast_const();
    // SAFETY: null, or a mark, which stays for ever and does not change any more.
    while let Some(mark) = unsafe { next.as_ref() } {
        if mark.task.get() == task && ptr::eq(mark.runtime.get(), runtime) {
            return true;
        }
        next = mark.next.get();
    }
    false
}

/// Who waits for what it has locked has to hear of it after this.
fn mark(mark: &Mark, task: u64, runtime: &Shared) {
    mark.task.set(task);
    mark.runtime.set(runtime);
    let marks = marks_of(task);
    let mut last = marks.load(Relaxed);
    loop {
        mark.next.set(last);
        // Release pairs with the acquire in `is_lost_in`, also for the marks before, which were released likewise.
        match marks.compare_exchange_weak(last, ptr::from_ref(mark).cast_mut(), Release, Relaxed) {
            Ok(_) => break,
            Err(now) => last = now,
        }
    }
    // Relaxed: who is to see it is woken after this, or takes the lock of a list that is looked through after this.
    IS_ANY.store(true, Relaxed);
}

/// Who hears of each poll that is left for good. 0: the log.
static ON_LOSS: AtomicUsize = AtomicUsize::new(0);

/// See [`crate::upcalls::set_on_loss`].
pub(crate) fn set_on_loss(hook: fn(&Task, &TaskError)) {
    ON_LOSS.store(hook as usize, Relaxed);
}

fn tell(task: &Task, error: &TaskError) {
    match ON_LOSS.load(Relaxed) {
        0 => log::error!("{task:?} is lost: {error}"),
        hook => {
            // SAFETY: only `set_on_loss` writes it, and writes one of these.
            let hook = unsafe { core::mem::transmute::<usize, fn(&Task, &TaskError)>(hook) };
            hook(task, error);
        }
    }
}

/// Whether a poll runs in this context that may be left where it is, for good. Not what a `block_on` runs:
/// whoever called that could not go on either.
pub(crate) fn may_be_left(block: &ContextBlock) -> bool {
    if cores::local().is_null() || block.task().is_null() || !block.is_free() {
        return false;
    }
    // SAFETY: what runs on a core that serves a worker runs in the block of a context, and a poll is in it.
    let task = unsafe { Context::of_block(block).task() };
    !task.state.now().is_main()
}

impl Lost {
    /// # Safety
    /// A poll is in the middle of this context, and nobody goes on with it.
    unsafe fn new(context: &Context, cause: Cause) -> Self {
        Self {
            context: context.into(),
            // SAFETY: the caller's promise.
            task: unsafe { context.task() }.into(),
            has_ended: context.task_has_ended(),
            cause,
        }
    }
}

/// The poll in this context, which a trap has interrupted, is left for good. None: it cannot be.
pub(crate) fn abandon(block: &'static ContextBlock, cause: Cause) -> Option<Switch> {
    if !may_be_left(block) {
        return None;
    }
    let worker = Worker::served();
    let next = worker.take_last()?;
    // SAFETY: a poll is in it, and what it was saved with is never resumed.
    let lost = unsafe { Lost::new(Context::of_block(block), cause) };
    worker.leave_to_loop(lost);
    // SAFETY: a spare one is there.
    Some((unsafe { next.as_ref() }.block(), AfterSwitch::NOTHING))
}

/// The poll that runs here has panicked, and is left for good: this does not come back, unless it cannot be left.
pub(crate) fn on_panic(info: &PanicInfo<'_>, from: (usize, usize)) {
    if irq::in_handler() || !may_be_left(context::current()) {
        return;
    }
    // What is told may be code of the user's, and panic: then that is what it panicked with.
    let panic = Panic::of(info, from);
    let masked = irq::mask();
    let worker = Worker::served();
    let context = Context::current();
    let Some(next) = worker.take_last() else {
        return drop(masked);
    };
    // SAFETY: a poll is in it, and nobody goes on with it.
    let lost = unsafe { Lost::new(context, Cause::Error(TaskError::Panicked(panic))) };
    worker.leave_to_loop(lost);
    // SAFETY: interrupts are masked; a spare one is saved and nobody else's; this one stays for ever.
    unsafe { context::switch(next.as_ref().block(), AfterSwitch::NOTHING) };
    unreachable!("a poll that was left for good goes on");
}

impl Worker {
    /// A task that was told to fail, and is not in the middle of a poll.
    #[cold]
    pub(super) fn fail(header: &Header) -> Turn {
        let context = context::current();
        context.set_task(ptr::from_ref(header).cast_mut().cast());
        // Where nothing unwinds, this does not come back.
        let Err(panic) = unwind::catch(|| panic!("{DOOMED}"));
        // SAFETY: this core owns the future: started, and not paused since.
        unsafe { header.abort(TaskError::Panicked(panic.into())) };
        context.set_task(ptr::null_mut());
        Self::finish(header)
    }

    /// A context that was left in the middle of the poll of a task that was told to fail: nobody goes on with it.
    #[cold]
    pub(super) fn fail_left(&self, context: &Context) {
        let masked = irq::mask();
        // SAFETY: it was left in a poll, and this is whom it was queued for.
        let lost = unsafe { Lost::new(context, Cause::Doomed) };
        self.leave_to_loop(lost);
        drop(masked);
    }

    /// The loop sees to it before anything else. In a trap, or with interrupts masked.
    fn leave_to_loop(&self, lost: Lost) {
        self.lost.set(Some(lost));
        self.post_mail(LOST);
    }

    /// Ends the task whose poll was left for good.
    #[cold]
    pub(super) fn bury(&self) {
        let Some(lost) = self.lost.take() else {
            return;
        };
        self.fairness.count();
        // SAFETY: nobody goes on with it, and it is never freed.
        let (context, task) = unsafe { (lost.context.as_ref(), lost.task.as_ref()) };
        let error = match lost.cause {
            Cause::Error(error) => error,
            Cause::Fault(fault) => {
                // SAFETY: it does not run.
                let registers = unsafe { context.saved() };
                TaskError::Panicked(Panic::by(&fault, registers))
            }
            Cause::Doomed => {
                // SAFETY: it does not run.
                let registers = unsafe { context.saved() };
                TaskError::Panicked(Panic::where_left(DOOMED, registers))
            }
        };
        self.counters.0.lost.add(1);
        self.counters
            .0
            .lost_bytes
            .add(context.stack_memory() as u64);
        self.local_poll_ended(context);
        task.state.set_lost();
        if !lost.has_ended {
            mark(context.mark(), task.word_in_entry(), self.shared());
            task.set_lost_in_entry(true);
            waits::wake_all();
            // What it has lent, it lends no more.
            inherit::on_release();
        }
        task.state.retain();
        context.withdraw_offers();
        // SAFETY: the reference keeps it.
        tell(&unsafe { Task::retain(task.into(), task.id()) }, &error);
        if lost.has_ended {
            return self.end_undropped(task);
        }
        if let Some(extra) = task.extra() {
            extra.loss.set(&error);
            // SAFETY: the poll was this core's, and nobody goes on with it.
            unsafe { extra.give_turn_back() };
        }
        // SAFETY: the poll was this core's, and nobody goes on with it; the reference is kept for ever.
        unsafe { task.lose(error, context) };
        // What is left are its finalizers and its end.
        task.state.finalize();
        if let Some(word) = task.state.put_off() {
            self.push(task.into(), word, Reason::Woken);
        }
    }
}
