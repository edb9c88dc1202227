//! The loop of a core, turn by turn.
//!
//! A turn takes a task from the highest level that has one, polls it, and puts
//! it where its new state belongs. The loop keeps nothing between turns that is
//! not in the worker. As long as only one queue of the core has anything in it,
//! it stays with that queue and looks no further: two tasks that talk to each
//! other, or a few that yield in turn, are most of what a core has to do.

use super::{
    policy::{Policy, Reason, Runnable},
    worker::{DEQUE, KINDS, Level, NEXT, NEXT_STREAK, PINNED, RING, Worker},
};
use crate::{
    task::{
        cell::Header,
        state::{Pause, Word},
        waker,
    },
    trace,
};
use core::sync::atomic::Ordering::Relaxed;
use core::{cell::Cell, ptr::NonNull};
use hal::{context, cores};

/// What a turn came to.
#[must_use]
pub(super) enum Turn {
    /// The task is parked or has ended.
    Over,
    /// It is queued, put it into a queue.
    Again(Word),
}

impl Worker {
    /// Serves this worker on the core it runs on, until somebody posts `STOP`.
    ///
    /// # Safety
    /// Nobody else serves it, and the runtime outlives the call.
    pub(crate) unsafe fn run(&self) {
        let masked = hal::irq::mask();
        let core = cores::this_core();
        assert!(
            cores::local().is_null(),
            "this core serves a runtime already"
        );
        self.core.store(core, Relaxed);
        cores::set_local(core::ptr::from_ref(self).cast_mut().cast());
        drop(masked);
        self.arm();
        match self.policy() {
            None => self.turns(),
            Some(policy) => self.turns_of(policy),
        }
        self.flush();
        let _masked = hal::irq::mask();
        hal::clock::disarm();
        cores::set_local(core::ptr::null_mut());
    }

    /// Work stealing.
    fn turns(&self) {
        loop {
            if self.has_mail() && self.open_mail() {
                return;
            }
            if self.fairness.is_due()
                && let Some(task) = self.fair_turn()
            {
                self.take_turn(task);
                continue;
            }
            let ready = self.ready.get();
            if ready == 0 {
                if let Some(task) = self.search() {
                    self.take_turn(task);
                }
                continue;
            }
            let bit = ready.ilog2();
            let index = (bit / KINDS) as usize;
            let level = &self.levels[index];
            let only = 1 << bit;
            match bit % KINDS {
                NEXT => self.serve_next(&self.next[index], only),
                RING if ready & only >> (RING - PINNED) == 0 => self.serve_ring(level, only),
                kind => self.serve_others(level, kind, only),
            }
        }
    }

    /// A policy of the user's own.
    fn turns_of(&self, policy: &dyn Policy) {
        loop {
            if self.has_mail() && self.open_mail() {
                return;
            }
            let fair = if self.fairness.is_due() {
                self.fair_turn()
            } else {
                None
            };
            let own = || policy.pop().map(Runnable::into_inner);
            let Some(task) = fair.or_else(own).or_else(|| self.search()) else {
                continue;
            };
            self.fairness.count();
            if let Turn::Again(_) = self.poll(task) {
                self.drain_inbox();
                self.push_custom(task, policy, Reason::Yielded);
            }
        }
    }

    /// The task that was woken last, and the one that it wakes, and so on.
    #[inline(never)]
    fn serve_next(&self, next: &Cell<Option<NonNull<Header>>>, only: u32) {
        let streak = self.streak.get();
        self.streak.set(streak + 1);
        if streak >= NEXT_STREAK {
            return self.end_streak(next);
        }
        self.ready.set(self.ready.get() & !only);
        let Some(mut task) = next.take() else {
            // A fair turn took it.
            return;
        };
        let turn = loop {
            // SAFETY: it came out of a queue, so it lives until its state says that it ended.
            let header = unsafe { task.as_ref() };
            let started = header.state.start();
            if started.needs_care() {
                self.fairness.count();
                break self.poll_with_care(header, started);
            }
            let (is_ready, yielded) = self.poll_future(header);
            if is_ready || yielded || !header.state.parks() {
                self.fairness.count();
                break self.after_poll(header, is_ready, yielded);
            }
            if self.fairness.count()
                && self.ready.get() == only
                && !self.has_mail()
                && let Some(woken) = next.take()
            {
                self.ready.set(0);
                task = woken;
                continue;
            }
            break Turn::Over;
        };
        if let Turn::Again(word) = turn {
            self.requeue(task, word);
        }
    }

    /// Two tasks that keep waking each other would have the core to themselves,
    /// while others are ready: the one to come next goes behind them.
    #[cold]
    fn end_streak(&self, next: &Cell<Option<NonNull<Header>>>) {
        self.streak.set(0);
        if let Some(task) = next.take() {
            // SAFETY: it is queued, so it lives.
            let word = unsafe { task.as_ref() }.state.now();
            self.push_back(task, word);
        }
    }

    /// Those that yield, in turn.
    #[inline(never)]
    fn serve_ring(&self, level: &Level, only: u32) {
        self.streak.set(0);
        let found = level.ring.pop();
        if level.ring.is_empty() {
            self.ready.set(self.ready.get() & !only);
        }
        let Some(mut task) = found else { return };
        let turn = loop {
            // SAFETY: it came out of a queue, so it lives until its state says that it ended.
            let header = unsafe { task.as_ref() };
            let started = header.state.start();
            if started.needs_care() {
                self.fairness.count();
                break self.poll_with_care(header, started);
            }
            let (is_ready, yielded) = self.poll_future(header);
            if is_ready || !yielded || !header.state.yields(started) {
                self.fairness.count();
                break self.after_poll(header, is_ready, yielded);
            }
            // It takes the place at the back, and the one in front the turn.
            if self.fairness.count()
                && self.ready.get() & !only == 0
                && !self.has_mail()
                && let Some(oldest) = level.ring.rotate(task)
            {
                task = oldest;
                continue;
            }
            break Turn::Again(started);
        };
        if let Turn::Again(word) = turn {
            self.requeue(task, word);
        }
    }

    /// Everything else: one turn.
    #[inline(never)]
    fn serve_others(&self, level: &Level, kind: u32, only: u32) {
        self.streak.set(0);
        // SAFETY: the owner.
        let pinned = || unsafe { (*level.pinned.get()).pop_front() };
        let (found, is_empty) = match kind {
            DEQUE => (level.deque.pop(), level.deque.is_empty()),
            // Both have something: in turn.
            RING if self.fairness.alternates() => (pinned().or_else(|| level.ring.pop()), false),
            RING => (level.ring.pop(), level.ring.is_empty()),
            _ => (pinned(), false),
        };
        // At once, and not when it is next looked at: a bit for nothing keeps the core from staying
        // with a queue.
        if found.is_none() || is_empty {
            self.ready.set(self.ready.get() & !only);
        }
        if let Some(task) = found {
            self.take_turn(task);
        }
    }

    /// One turn for this task.
    #[inline(never)]
    fn take_turn(&self, task: NonNull<Header>) {
        self.fairness.count();
        if let Turn::Again(word) = self.poll(task) {
            self.requeue(task, word);
        }
    }

    /// Behind all that is runnable.
    #[inline(never)]
    fn requeue(&self, task: NonNull<Header>, word: Word) {
        // What came through the inbox while it ran was runnable before it is.
        if self.has_mail() {
            self.drain_inbox();
        }
        self.push_back(task, word);
    }

    /// Polls a task; if that was the end of it, sees to that.
    #[inline(always)]
    fn poll(&self, task: NonNull<Header>) -> Turn {
        // SAFETY: it came out of a queue, so it lives until its state says that it ended.
        let header = unsafe { task.as_ref() };
        let started = header.state.start();
        if started.needs_care() {
            return self.poll_with_care(header, started);
        }
        let (is_ready, yielded) = self.poll_future(header);
        self.after_poll(header, is_ready, yielded)
    }

    /// The task ran, and this core still owns it.
    #[inline(never)]
    fn after_poll(&self, header: &Header, is_ready: bool, yielded: bool) -> Turn {
        if is_ready {
            return self.finish(header);
        }
        self.pause(header, yielded)
    }

    /// Polls the future; whether it has ended, and whether it yielded.
    #[inline(always)]
    fn poll_future(&self, header: &Header) -> (bool, bool) {
        trace::event(trace::Kind::PollBegin, header.id);
        let context = context::current();
        context.set_task(core::ptr::from_ref(header).cast_mut().cast());
        // SAFETY: `start` made this core the owner of the future, and it has not ended.
        let is_ready = unsafe { header.poll() };
        let yielded = context.task().addr() & waker::YIELDED != 0;
        context.set_task(core::ptr::null_mut());
        trace::event(trace::Kind::PollEnd, header.id);
        (is_ready, yielded)
    }

    /// The poll returned `Pending`.
    pub(super) fn pause(&self, header: &Header, yielded: bool) -> Turn {
        match header.state.pause(yielded) {
            Pause::Parked => Turn::Over,
            Pause::Again(word) => Turn::Again(word),
            Pause::Cancelled => self.drop_future(header),
        }
    }

    /// What is not as usual: cancelled, counted, or in its finalizers.
    #[cold]
    fn poll_with_care(&self, header: &Header, started: Word) -> Turn {
        if started.is_cancelled() {
            return self.drop_future(header);
        }
        if started.is_final() {
            let (is_ready, yielded) = self.poll_finalizers(header);
            return self.after_finalizers(header, is_ready, yielded);
        }
        let clock = &self.shared().clock;
        let begin = clock.now();
        let (is_ready, yielded) = self.poll_future(header);
        // Counted before the state lets go of it.
        if let Some(extra) = header.extra() {
            extra.count_poll(self.index, clock.now() - begin);
        }
        self.after_poll(header, is_ready, yielded)
    }

    /// Nobody serves this worker for now: what only it could see, others can from here on.
    fn flush(&self) {
        for (level, next) in self.next.iter().enumerate() {
            if let Some(task) = next.take() {
                self.push_spawned(task, level);
            }
        }
        self.shared().notify();
    }

    /// Where a fair turn could find something: as `ready`, but the next slot
    /// counts as the end of the deque, and its bit stands for the injector.
    pub(super) fn sources(&self) -> u32 {
        const NEXTS: u32 = 0x8888;
        let ready = self.ready.get();
        let own = ready & !NEXTS | (ready & NEXTS) >> (NEXT - DEQUE);
        let injectors = self.shared().injectors.iter().enumerate();
        injectors.fold(own, |sources, (level, injector)| {
            sources | u32::from(!injector.is_empty()) << (level as u32 * KINDS + NEXT)
        })
    }

    /// From the old end of one queue of one level, for a fair turn.
    pub(super) fn pick_old(&self, source: u32) -> Option<NonNull<Header>> {
        let level = (source / KINDS) as usize;
        let at = &self.levels[level];
        match source % KINDS {
            NEXT => self.pop_injector(level),
            DEQUE => at.deque.take_oldest().or_else(|| self.next[level].take()),
            RING => at.ring.pop(),
            // SAFETY: the owner.
            _ => unsafe { (*at.pinned.get()).pop_front() },
        }
    }
}
