//! From one stack to another: how a core begins to serve its worker, leaves a
//! poll that waits, and goes on with it.
//!
//! Every switch carries one action, which runs when the stack that was left is
//! no longer in use, with interrupts masked:
//!
//! | switch | from | to | action |
//! |---|---|---|---|
//! | `run` | the core's home | a loop | none |
//! | `leave` | a loop | the core's home | `retire` the loop's context |
//! | `resume` | a loop | a poll | `retire` the loop's context |
//! | `suspend` | a poll | a loop | `offer`: park it, or queue it |
//! | preemption | a poll, by a trap | a loop | `offer` |
//!
//! A context that is left in a poll may go on on another core; one that is left
//! in a loop too. So after each of these, and after each poll, who is served
//! is asked anew: [`Worker::served`].

use super::{
    context::Context,
    mail::{BOOST, SPARE},
    shared::Phase,
    worker::Worker,
};
use crate::{
    Priority,
    task::{
        cell::Header,
        extra::Left,
        state::{Pause, Word},
    },
};
use core::{
    cell::Cell,
    ptr::NonNull,
    sync::atomic::{Ordering::*, compiler_fence},
};
use hal::{
    context::{self, AfterSwitch},
    cores, irq,
    stack::NoMemory,
};

impl Worker {
    /// The worker that this core serves. In the loop, or with interrupts
    /// masked: a poll may be on another core by the time it is used.
    #[inline(always)]
    pub(super) fn served<'a>() -> &'a Worker {
        // Whatever was done before is not done after: the end of a poll, above all.
        compiler_fence(SeqCst);
        let worker = cores::local().cast::<Worker>();
        debug_assert!(!worker.is_null());
        // SAFETY: set by `run`, whose caller keeps it.
        unsafe { &*worker }
    }

    /// In debug builds, sees to it that who uses what is the owner's is the owner: a worker that was
    /// kept while its user went on elsewhere does harm so rarely that nobody would find out why.
    #[inline(always)]
    pub(super) fn assert_served_here(&self) {
        debug_assert!(
            core::ptr::eq(self, Self::served()),
            "a core uses the worker of another"
        );
    }

    /// Serves this worker on the core it runs on, until somebody posts `STOP`.
    ///
    /// # Safety
    /// Nobody else serves it, and the runtime outlives the call.
    pub(crate) unsafe fn run(&self) {
        let masked = irq::mask();
        let core = cores::this_core();
        assert!(
            cores::local().is_null(),
            "this core serves a runtime already"
        );
        self.core.store(core, Relaxed);
        if self.phase.get() == Phase::Open {
            self.usual_home.set(self);
        }
        self.is_served.store(true, Relaxed);
        cores::set_local(core::ptr::from_ref(self).cast_mut().cast());
        self.start_ticks();
        self.arm();
        self.waits_here.set(Some(context::current().into()));
        if self.spare.get().is_none() {
            // The last loop had to end on a stack of another size: there was no memory for its own.
            let _ = self.find_spare();
        }
        let context = self
            .take_last()
            .expect("no memory for the stack of a core's loop");
        // SAFETY: interrupts are masked; it is a spare one, so saved and nobody else's; the current one
        // lives until this function returns.
        unsafe { context::switch(context.as_ref().block(), AfterSwitch::NOTHING) };
        // Masked until the end: an interrupt takes what runs on a core that serves a worker for one
        // of its contexts.
        self.publish_polls();
        self.flush();
        self.leave_timers();
        self.stop_ticks(false);
        hal::clock::disarm();
        cores::set_local(core::ptr::null_mut());
        drop(masked);
    }

    /// The loop is to end: goes back to where `run` was called. Returns when
    /// this context is taken for a loop again, maybe on another core.
    fn leave() {
        let masked = irq::mask();
        let worker = Self::served();
        let home = worker.waits_here.take().expect("`run` waits for this");
        let after = Context::current().after(retire);
        // SAFETY: interrupts are masked; the home is saved, and waits for this.
        unsafe { context::switch(home, after) };
        drop(masked);
    }

    /// Goes on with a context that was taken out of a queue. Returns when the
    /// one that called this is taken for a loop again, maybe on another core.
    pub(super) fn resume(&self, header: &Header) {
        // SAFETY: the caller has seen that it is one.
        let next = unsafe { Context::of(header) };
        // SAFETY: it was left in the middle of a poll.
        if unsafe { next.task() }.state.now().is_doomed() {
            return self.fail_left(next);
        }
        let masked = irq::mask();
        // SAFETY: it was left in the middle of a poll.
        if let Some(extra) = unsafe { next.task() }.tracked() {
            extra.set_left(Left::No);
            next.count_from(self.shared().clock.now());
        }
        self.counters.0.resumes.add(1);
        let is_low = next.header().state.now().level() == Priority::Low as usize;
        self.is_in_low.store(is_low, Relaxed);
        let after = Context::current().after(retire);
        // SAFETY: interrupts are masked; it was queued, so it is saved, and `start` made it ours.
        unsafe { context::switch(next.block(), after) };
        drop(masked);
    }

    /// Polls a task in the context that was made for it. Returns as `resume` does.
    pub(super) fn switch_to(&self, next: NonNull<Context>) {
        let masked = irq::mask();
        let after = Context::current().after(retire);
        // SAFETY: interrupts are masked; it has not run yet, and is nobody else's.
        unsafe { context::switch(next.as_ref().block(), after) };
        drop(masked);
    }

    // ---- spare contexts; the owner, with interrupts masked ----

    /// A context for this core's loop to go on in. If it was the last, another is to be found.
    pub(super) fn take_spare(&self) -> Option<NonNull<Context>> {
        // Contexts that yield to each other come by here each time, and leave theirs for the next.
        let spare = match cfg!(broken = "spare_not_taken") {
            true => self.spare.get(),
            false => self.spare.replace(self.second.take()),
        };
        if self.spare.get().is_none() {
            // Also when there was none: there may be memory by now.
            self.post_mail(SPARE);
        }
        spare
    }

    /// Sees to it that there is a spare context. Not in an interrupt.
    pub(crate) fn find_spare(&self) -> Result<(), NoMemory> {
        self.shared().pool.free_doomed();
        if self.spare.get().is_none() {
            self.spare.set(Some(self.find_context()?));
        }
        Ok(())
    }

    /// If there was no memory for one, the loop looks again: there may be by now.
    pub(super) fn ask_for_spare(&self) {
        if self.spare.get().is_none() || self.last.get().is_none() {
            self.post_mail(SPARE);
        }
    }

    /// Sees to it that there is one that is kept until a poll is left for good, as [`take_last`](Self::take_last) says.
    pub(crate) fn find_last(&self) -> Result<(), NoMemory> {
        if self.last.get().is_none() {
            self.last.set(Some(self.find_context()?));
        }
        Ok(())
    }

    /// One that nobody uses, or a new one.
    fn find_context(&self) -> Result<NonNull<Context>, NoMemory> {
        let shared = self.shared();
        match shared.pool.take() {
            Some(found) => Ok(found),
            None => Context::new(self, shared.config.stack, true, (serve, 0)),
        }
    }

    /// A context to go on in, for who leaves a poll for good: if there is no other, the last. A poll
    /// that cannot wait because there is none panics, and cannot be ended without one either.
    pub(super) fn take_last(&self) -> Option<NonNull<Context>> {
        self.take_spare().or_else(|| self.last.take())
    }

    /// No core serves this worker any more, nor will.
    pub(super) fn give_up_spare(&self) {
        for spare in [self.spare.take(), self.second.take(), self.last.take()]
            .into_iter()
            .flatten()
        {
            // SAFETY: a loop has left it, or it never ran.
            let _ = unsafe { self.shared().pool.put(spare.as_ref(), usize::MAX) };
        }
    }

    /// A context that a loop has left for good.
    fn keep(&self, context: &Context) {
        let is_empty = |place: &&Cell<Option<_>>| place.get().is_none();
        let empty = [&self.spare, &self.second].into_iter().find(is_empty);
        if let Some(place) = empty
            && context.is_usual()
        {
            return place.set(Some(context.into()));
        }
        let shared = self.shared();
        // SAFETY: a loop has left it, between turns.
        if unsafe { shared.pool.put(context, shared.contexts_kept()) } {
            self.post_mail(SPARE);
        }
    }

    /// Parks a context that was left in a poll, or queues it.
    fn offer(&self, context: &Context) {
        let shared = self.shared();
        // SAFETY: it was left in the middle of a poll.
        let task = unsafe { context.task() };
        let word = task.state.now();
        context.take_entry_of(task);
        self.is_in_low.store(false, Relaxed);
        if word.is_local() {
            self.hold_locals_for(context);
        }
        // One that is to fail does so when it comes out of a queue.
        let gave_way = context.count_left() || word.is_doomed();
        if !cfg!(broken = "quantum_inherited") {
            // To the tick, what comes next is not this one any more.
            self.fairness.count();
        }
        if let Some(extra) = task.tracked() {
            context.count_to(extra, shared.clock.now());
            extra.set_stack_use(context.stack_use());
            extra.set_left(if gave_way { Left::GaveWay } else { Left::Waits });
        }
        match context.header().state.suspend(&task.state, gave_way) {
            Pause::Requeued(_) => self.post_mail(BOOST),
            Pause::Parked | Pause::Cancelled => {}
            Pause::Again(word) => self.offer_again(context, word),
        }
    }

    /// It could go on.
    fn offer_again(&self, context: &Context, word: Word) {
        // Through the inbox: this may be the end of an interrupt, and a policy of the user's own must
        // not be called there. The loop finds it before anything else, and puts it to the back.
        self.post(context.header().into(), word);
        if !word.is_pinned() {
            self.shared().notify();
        }
    }
}

impl Context {
    /// What is to be done after a trap has left this one, in a poll.
    pub(super) fn left_by_trap(&self) -> AfterSwitch {
        self.set_gave_way(true);
        self.after(offer)
    }
}

/// Why a poll is left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// For others to run.
    ToGiveWay,
    /// Until it is woken: it has looked for what it waits for in vain. Before that it had been left
    /// [so often](Context::times_left).
    ToWait(usize),
}

/// Leaves the poll that runs here. It goes on when its context is woken or, if
/// it only gives way, when its turn comes again; maybe on another core. One that
/// is to wait and was left since it began to look is not left: it has to look again.
/// Err: there is no memory for a stack to go on with meanwhile; it was not left.
pub(crate) fn suspend(why: Leave) -> Result<(), NoMemory> {
    let masked = irq::mask();
    let context = Context::current();
    if let Leave::ToWait(times_left) = why
        && times_left != context.times_left()
    {
        return Ok(());
    }
    let worker = Worker::served();
    if worker.spare.get().is_none() {
        worker.find_spare()?;
    }
    let next = worker.take_spare().ok_or(NoMemory)?;
    worker.counters.0.suspensions.add(1);
    context.set_gave_way(why == Leave::ToGiveWay);
    let mut after = context.after(offer);
    if cfg!(broken = "offered_before_left") {
        (after.run)(after.argument);
        after = AfterSwitch::NOTHING;
    }
    // SAFETY: interrupts are masked; a spare one is saved and nobody else's; this one lives as long as its poll.
    unsafe { context::switch(next.as_ref().block(), after) };
    drop(masked);
    Ok(())
}

/// A context of another size, for a task that is not queued yet.
pub(crate) fn context_for(
    home: &Worker,
    task: NonNull<Header>,
    size: usize,
) -> Result<NonNull<Context>, NoMemory> {
    Context::new(
        home,
        size,
        false,
        (serve_one, task.as_ptr().expose_provenance()),
    )
}

/// First function of a context that was made for one task: polls it, and leaves.
extern "C" fn serve_one(task: usize) -> ! {
    irq::enable_after_start();
    let task = core::ptr::with_exposed_provenance::<Header>(task);
    // SAFETY: who switches here has started it.
    Worker::first_turn(unsafe { &*task });
    let masked = irq::mask();
    if let Some(next) = Worker::served().take_spare() {
        let after = Context::current().after(retire);
        // SAFETY: interrupts are masked; a spare one is saved and nobody else's.
        unsafe { context::switch(next.as_ref().block(), after) };
        unreachable!("a context of another size was taken for a loop");
    }
    drop(masked);
    // Without memory for another stack this one has to do.
    serve_on()
}

/// First function of every context: the loop.
extern "C" fn serve(_: usize) -> ! {
    irq::enable_after_start();
    serve_on()
}

/// The loop, on the stack that this runs on, for good.
pub(super) fn serve_on() -> ! {
    loop {
        Worker::turns();
        Worker::leave();
    }
}

/// A loop has left this context.
extern "C" fn retire(context: usize) {
    // SAFETY: told so by `leave` or `resume`, and nobody has it but us.
    Worker::served().keep(unsafe { Context::told(context) });
}

/// A poll has been left in this context.
extern "C" fn offer(context: usize) {
    // SAFETY: told so by who left it, and it is not offered yet.
    Worker::served().offer(unsafe { Context::told(context) });
}
