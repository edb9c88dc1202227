//! The loop of a core, turn by turn.
//!
//! A turn takes a task from the highest level that has one, polls it, and puts
//! it where its new state belongs. The loop keeps nothing between turns that is
//! not in the worker.
//!
//! Most tasks are of normal priority, and most of the time they talk to each
//! other or yield in turn, so that only one queue of the core has anything in
//! it. `turns_by_stealing` is written for these: it goes from one to the
//! next in a few instructions, and leaves all else to `pick` and `poll_with_care`.
//!
//! Nothing here keeps the worker across a poll: that may end on another core than it began on.

use super::{
    context::Context,
    inherit,
    policy::Reason,
    worker::{DEQUE, KINDS, Level, NEXT, NEXT_STREAK, PINNED, RING, Worker},
};
use crate::{
    Priority,
    queue::Injector,
    task::{
        cell::Header,
        state::{Pause, Word},
        waker,
    },
    trace,
};
use core::{ptr::NonNull, sync::atomic::Ordering::Relaxed};
use hal::context;

/// The level of usual tasks, and the bits of its queues.
const NORMAL: usize = Priority::Normal as usize;
const NORMAL_NEXT: u32 = 1 << (NORMAL as u32 * KINDS + NEXT);
const NORMAL_DEQUE: u32 = 1 << (NORMAL as u32 * KINDS + DEQUE);
const NORMAL_RING: u32 = 1 << (NORMAL as u32 * KINDS + RING);

/// The bits of the next slots of all levels.
const NEXTS: u32 = 0x8888;

/// What a turn came to.
#[must_use]
pub(super) enum Turn {
    /// The task is parked or has ended.
    Over,
    /// It is queued, put it into a queue.
    Again(Word),
}

impl Worker {
    /// The loop, until somebody posts `STOP`.
    pub(super) fn turns() {
        match Self::served().policy() {
            None => Self::turns_by_stealing(),
            Some(_) => Self::turns_by_policy(),
        }
    }

    fn turns_by_stealing() {
        loop {
            let worker = Self::served();
            let Some(mut task) = worker.pick() else {
                return;
            };
            // As long as things are as usual; then look at everything again.
            loop {
                // SAFETY: it came out of a queue, so it lives until its state says that it ended.
                let header = unsafe { task.as_ref() };
                let started = header.state.start();
                if !started.is_usual() {
                    Self::turn_with_care(header, started);
                    break;
                }
                let (is_ready, yielded) = Self::poll_future(header);
                let worker = match cfg!(broken = "worker_kept") {
                    true => worker,
                    false => Self::served(),
                };
                if is_ready {
                    if !worker.end_usual(header) && !cfg!(broken = "worker_kept_after_end") {
                        // What it left behind may have waited: this may be another core.
                        Self::served().fairness.count();
                        break;
                    }
                } else if yielded {
                    header.state.yields();
                    // It takes the place at the back, and the one in front the turn.
                    if worker.fairness.count()
                        && worker.ready.get() & !NORMAL_RING == 0
                        && !worker.has_mail()
                        && let Some(oldest) = worker.levels[NORMAL].ring.rotate(task)
                    {
                        task = oldest;
                        continue;
                    }
                    // It may have been boosted meanwhile.
                    worker.requeue(task, header.state.now());
                    break;
                } else if let Some(word) = header.state.parks() {
                    worker.fairness.count();
                    worker.requeue(task, word);
                    break;
                }
                worker.assert_served_here();
                if !worker.fairness.count() || worker.has_mail() {
                    break;
                }
                let ready = worker.ready.get();
                let next = if ready & !NORMAL_NEXT == 0 {
                    // The task that it woke, and nothing else.
                    worker.ready.set(0);
                    worker.next[NORMAL].take()
                } else if ready == NORMAL_DEQUE {
                    // What it spawned, and nothing else.
                    worker.pop_deque(&worker.levels[NORMAL], NORMAL_DEQUE)
                } else {
                    break;
                };
                match next {
                    Some(next) => task = next,
                    None => break,
                }
            }
        }
    }

    /// The next task, from wherever there is one. Sleeps until there is; None: the loop is to end.
    #[inline(never)]
    fn pick(&self) -> Option<NonNull<Header>> {
        loop {
            self.assert_served_here();
            if self.has_mail() && self.open_mail() {
                return None;
            }
            let found = if self.fairness.is_due() {
                self.fair_turn()
            } else {
                None
            };
            let found = found
                .or_else(|| self.pick_ready())
                .or_else(|| self.search());
            if found.is_some() {
                return found;
            }
        }
    }

    /// From the highest level of this core, newest first.
    #[inline]
    fn pick_ready(&self) -> Option<NonNull<Header>> {
        loop {
            let ready = self.ready.get();
            if ready == 0 {
                return None;
            }
            let bit = ready.ilog2();
            let only = 1 << bit;
            let index = (bit / KINDS) as usize;
            let level = &self.levels[index];
            let found = match bit % KINDS {
                NEXT => self.pick_next(index, only),
                DEQUE => {
                    self.streak.set(0);
                    self.pop_deque(level, only)
                }
                kind => self.pick_back(level, kind, only),
            };
            if found.is_some() {
                return found;
            }
        }
    }

    /// What was woken last, unless there are others and it has been so for too long.
    fn pick_next(&self, level: usize, only: u32) -> Option<NonNull<Header>> {
        self.ready.set(self.ready.get() & !only);
        let streak = self.streak.get();
        self.streak.set(streak + 1);
        // None: a fair turn took it.
        let next = self.next[level].take()?;
        if streak < NEXT_STREAK {
            return Some(next);
        }
        // Two tasks that keep waking each other would have the core to themselves.
        self.streak.set(0);
        self.push_ring(next, level);
        None
    }

    /// The newest, and whether it was the last is noted at once: a bit for nothing would make
    /// things look unusual.
    #[inline]
    fn pop_deque(&self, level: &Level, only: u32) -> Option<NonNull<Header>> {
        let found = level.deque.pop_noting_last();
        if found.is_none_or(|(_, is_last)| is_last) {
            self.ready.set(self.ready.get() & !only);
        }
        found.map(|(task, _)| task)
    }

    /// Those that yielded and those that are pinned.
    fn pick_back(&self, level: &Level, kind: u32, only: u32) -> Option<NonNull<Header>> {
        self.streak.set(0);
        if kind == PINNED {
            return self.pop_pinned(level, only);
        }
        let pinned = only >> (RING - PINNED);
        if self.ready.get() & pinned != 0
            && self.is_turn_of_pinned(level)
            && let Some(task) = self.pop_pinned(level, pinned)
        {
            return Some(task);
        }
        self.pop_ring(level, only)
    }

    /// There are both: in a round, each that is there when it begins has one turn. If there were no rounds but a turn
    /// for either in turn, a pinned one that takes its whole quantum each time would do so after each turn of another.
    fn is_turn_of_pinned(&self, level: &Level) -> bool {
        // SAFETY: the owner, and nothing is called that comes back here.
        let pinned = unsafe { &*level.pinned.get() }.len();
        let yielded = level.ring.len();
        // Some may have had their turn otherwise.
        let (left, pinned_left) = self.round.get();
        let (left, pinned_left) = match (left.min(yielded), pinned_left.min(pinned)) {
            (0, 0) => (yielded, pinned),
            left => left,
        };
        let is_pinned = pinned_left != 0 && (left == 0 || self.fairness.alternates());
        self.round.set(match is_pinned {
            true => (left, pinned_left - 1),
            false => (left.saturating_sub(1), pinned_left),
        });
        is_pinned
    }

    fn pop_ring(&self, level: &Level, only: u32) -> Option<NonNull<Header>> {
        let found = level.ring.pop();
        if level.ring.is_empty() {
            self.ready.set(self.ready.get() & !only);
        }
        found
    }

    fn pop_pinned(&self, level: &Level, only: u32) -> Option<NonNull<Header>> {
        // SAFETY: the owner, and nothing is called that comes back here.
        let pinned = unsafe { &mut *level.pinned.get() };
        let found = pinned.pop_front();
        if pinned.is_empty() {
            self.ready.set(self.ready.get() & !only);
        }
        found
    }

    /// A policy of the user's own.
    fn turns_by_policy() {
        loop {
            let worker = Self::served();
            if worker.has_mail() && worker.open_mail() {
                return;
            }
            let fair = if worker.fairness.is_due() {
                worker.fair_turn()
            } else {
                None
            };
            let own = || worker.pick_own(worker.policy()?);
            let Some(task) = fair.or_else(own).or_else(|| worker.search()) else {
                continue;
            };
            // SAFETY: it came out of a queue, so it lives until its state says that it ended.
            let header = unsafe { task.as_ref() };
            let started = header.state.start();
            if let Turn::Again(_) = Self::poll_with_care(header, started) {
                let worker = Self::served();
                worker.drain_inbox();
                let policy = worker.policy().expect("all cores of a runtime have one");
                worker.push_custom(task, policy, Reason::Yielded);
            }
        }
    }

    /// Behind all that is runnable.
    #[inline(never)]
    fn requeue(&self, task: NonNull<Header>, word: Word) {
        self.assert_served_here();
        // What came through the inbox while it ran was runnable before it is.
        if self.has_mail() {
            self.drain_inbox();
        }
        // What comes before it may take long. If nothing does, it is the next anyway.
        let waits = self.ready.get() != 0 && !word.is_pinned();
        self.push_back(task, word);
        if waits {
            self.notify_others();
        }
    }

    /// A turn of a task that is not as usual, or of a context.
    #[inline(never)]
    pub(super) fn turn_with_care(header: &Header, started: Word) {
        if let Turn::Again(word) = Self::poll_with_care(header, started) {
            Self::served().requeue(header.into(), word);
        }
    }

    /// A task that may be anything: local, cancelled, counted, in its finalizers; or a context.
    fn poll_with_care(header: &Header, started: Word) -> Turn {
        if started.is_stale() {
            return match Self::drop_stale(header) {
                Some(word) => Self::poll_with_care(header, word),
                None => Turn::Over,
            };
        }
        if started.is_proxy() {
            return Self::serve_proxy(header);
        }
        if started.is_context() {
            let worker = Self::served();
            match started.pinned_to() {
                // Its entry was made for another poll, in a queue that any core may take from.
                Some(core) if core != worker.index => worker.send_home(header, core),
                _ => worker.resume(header),
            }
            return Turn::Over;
        }
        if !started.is_local() {
            return Self::poll_any(header, started);
        }
        if !Self::served().may_poll_local(header) {
            return Turn::Over;
        }
        let turn = Self::poll_any(header, started);
        // Others cannot keep a guard across an await. It is counted in this context, and not in that of the next poll.
        assert!(
            context::current().is_free(),
            "a local task awaits with a guard, or with interrupts masked"
        );
        Self::served().local_poll_ended(Context::current());
        turn
    }

    /// The rest of a turn that was begun in another context.
    pub(super) fn first_turn(header: &Header) {
        if let Turn::Again(word) = Self::poll_any(header, header.state.now()) {
            let worker = Self::served();
            match worker.policy() {
                None => worker.requeue(header.into(), word),
                Some(policy) => worker.push_custom(header.into(), policy, Reason::Yielded),
            }
        }
    }

    fn poll_any(header: &Header, started: Word) -> Turn {
        if let Some(extra) = header.extra()
            && let Some(own) = extra.own_context.take()
        {
            Self::served().switch_to(own);
            return Turn::Over;
        }
        let is_low = started.level() == Priority::Low as usize;
        if is_low {
            Self::served().is_in_low.store(true, Relaxed);
        }
        let turn = Self::poll_or_end(header, started);
        // Each turn counts once, where it ends or is left in the middle.
        let worker = Self::served();
        worker.fairness.count();
        if is_low {
            worker.is_in_low.store(false, Relaxed);
        }
        turn
    }

    fn poll_or_end(header: &Header, started: Word) -> Turn {
        if started.is_doomed() {
            return Self::fail(header);
        }
        if started.is_cancelled() {
            return Self::drop_future(header);
        }
        if started.is_final() {
            let (is_ready, yielded) = Self::poll_finalizers(header);
            return Self::after_finalizers(header, is_ready, yielded);
        }
        let (is_ready, yielded) = if started.is_tracked() {
            Self::poll_tracked(header)
        } else {
            Self::poll_future(header)
        };
        if is_ready {
            return Self::finish(header);
        }
        Self::pause(header, yielded)
    }

    fn poll_tracked(header: &Header) -> (bool, bool) {
        let now = || Self::served().shared().clock.now();
        let context = Context::current();
        context.count_from(now());
        let result = Self::poll_future(header);
        // Counted before the state lets go of it.
        if let Some(extra) = header.extra() {
            context.count_to(extra, now());
            extra.count_poll(Self::served().index);
        }
        result
    }

    /// Polls the future; whether it has ended, and whether it yielded. Who
    /// called this may be on another core then.
    #[inline(always)]
    fn poll_future(header: &Header) -> (bool, bool) {
        trace::event(trace::Kind::PollBegin, || header.id());
        hal::sync::assert_none_held();
        let context = context::current();
        context.set_task(core::ptr::from_ref(header).cast_mut().cast());
        // SAFETY: `start` made this core the owner of the future, and it has not ended.
        let is_ready = unsafe { header.poll() };
        let yielded = context.task().addr() & waker::YIELDED != 0;
        if !cfg!(broken = "loop_taken_for_poll") {
            context.set_task(core::ptr::null_mut());
        }
        trace::event(trace::Kind::PollEnd, || header.id());
        (is_ready, yielded)
    }

    /// The poll returned `Pending`.
    pub(super) fn pause(header: &Header, yielded: bool) -> Turn {
        match header.state.pause(yielded) {
            Pause::Parked => Turn::Over,
            Pause::Again(word) => Turn::Again(word),
            Pause::Requeued(word) => {
                inherit::requeued(header, word);
                // SAFETY: `pause` gave it for this.
                unsafe { waker::release(header) };
                Turn::Over
            }
            Pause::Cancelled => Self::drop_future(header),
        }
    }

    /// Anything that is in its queues, or in the injectors. The owner, or nobody serves it.
    pub(super) fn take_any(&self) -> Option<NonNull<Header>> {
        self.drain_inbox();
        let next = self.next.iter().find_map(|next| next.take());
        let level = |level: &Level| {
            let deque = level.deque.take_oldest().or_else(|| level.ring.pop());
            // SAFETY: the owner, and nothing is called that comes back here.
            deque.or_else(|| unsafe { &mut *level.pinned.get() }.pop_front())
        };
        next.or_else(|| self.levels.iter().find_map(level))
            .or_else(|| self.shared().injectors.iter().find_map(Injector::pop))
    }

    /// What only this core could see, others can from here on.
    pub(super) fn flush(&self) {
        self.ready.set(self.ready.get() & !NEXTS);
        for (level, next) in self.next.iter().enumerate() {
            if let Some(task) = next.take() {
                self.push_spawned(task, level);
            }
        }
        self.shared().notify();
    }

    /// Whether something is to come next that others cannot see.
    pub(super) fn has_next(&self) -> bool {
        self.ready.get() & NEXTS != 0
    }

    /// Where a fair turn could find something: as `ready`, but the next slot
    /// counts as the end of the deque, and its bit stands for the injector.
    pub(super) fn sources(&self) -> u32 {
        let ready = self.ready.get();
        let own = ready & !NEXTS | (ready & NEXTS) >> (NEXT - DEQUE);
        let injectors = self.shared().injectors.iter().enumerate();
        injectors.fold(own, |sources, (level, injector)| {
            sources | u32::from(!injector.is_empty()) << (level as u32 * KINDS + NEXT)
        })
    }

    /// From the old end of one queue of one level, for a fair turn.
    pub(super) fn pick_old(&self, source: u32) -> Option<NonNull<Header>> {
        let index = (source / KINDS) as usize;
        let level = &self.levels[index];
        let only = 1 << source;
        match source % KINDS {
            NEXT => self.pop_injector(index),
            DEQUE => {
                let found = level.deque.take_oldest();
                if level.deque.is_empty() {
                    self.ready.set(self.ready.get() & !only);
                }
                // A thief may be in the middle of taking the old ones, and may not be run just now: so rather a new one than none.
                found
                    .or_else(|| self.next[index].take())
                    .or_else(|| level.deque.pop())
            }
            RING => self.pop_ring(level, only),
            _ => self.pop_pinned(level, only),
        }
    }
}
