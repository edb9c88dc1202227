//! One core of a runtime: its queues, and the loop that serves them.
//!
//! The loop keeps nothing between turns that is not here. A turn: open the
//! mail, pick a task from the highest level that has one, poll it, put it where
//! its new state belongs. With nothing to pick it searches the other cores, and
//! with nothing there it sleeps.
//!
//! What is for the owner alone is touched by the core itself only, either by
//! the loop between polls or, within one, by `spawn` and `wake` under a guard.
//! Interrupts on that core touch none of it: they use the inbox.

use super::{
    fair::Fairness,
    policy::{Policy, Reason, Runnable},
    registry::{Cursor, NoMemory, Registry},
    shared::{Phase, Shared},
};
use crate::{
    queue::{Deque, Inbox, List, Padded, Ring},
    stats::Counters,
    task::{
        TaskError,
        cell::{self, Header},
        state::{End, Pause, Word},
        waker,
    },
    time::timers::Timers,
    trace,
};
use alloc::boxed::Box;
use core::{
    cell::{Cell, UnsafeCell},
    ptr::NonNull,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::*},
    task::Context,
};
use hal::{context, cores, preempt};

/// Priority levels.
pub(crate) const LEVELS: usize = 4;

/// So often in a row the next slot is served before others get their turn.
pub(crate) const NEXT_STREAK: u32 = 8;

// What the mail says:
/// There is something in the inbox, or in that for pinned tasks.
pub(super) const INBOX: u32 = 1;
/// A timer is due.
pub(super) const TIMER: u32 = 2;
/// The loop is to return.
pub(crate) const STOP: u32 = 4;
/// There are tasks to free.
pub(super) const REAP: u32 = 8;
/// The runtime has begun to shut down.
pub(super) const DRAIN: u32 = 16;

// Queues of a level, the one that is looked at first last. A bit of `ready` is a level and one of these.
const PINNED: u32 = 0;
const RING: u32 = 1;
const DEQUE: u32 = 2;
const NEXT: u32 = 3;
const KINDS: u32 = 4;

/// The runnable tasks of one priority level on one core.
struct Level {
    /// Woken last by what runs here: its data is warm. Owner only.
    next: Cell<Option<NonNull<Header>>>,
    /// Bound to this core. Owner only.
    pinned: UnsafeCell<List<Header>>,
    /// Spawned here, or pushed out of `next`.
    deque: Deque<Header>,
    /// Yielded, or come through the inbox.
    ring: Ring<Header>,
}

/// One core of a runtime.
#[repr(C, align(128))]
pub(crate) struct Worker {
    // Owner only, and what it reads each turn:
    /// Queues that may have something, one bit for each of each level; the highest is looked at first.
    ready: Cell<u32>,
    /// Turns of the next slot in a row.
    streak: Cell<u32>,
    pub(super) fairness: Fairness,
    /// State of the random numbers that choose victims.
    random: Cell<u32>,
    levels: [Level; LEVELS],
    pub(crate) registry: Registry,
    /// How far the runtime has come, as this core knows.
    phase: Cell<Phase>,
    /// Nothing is special about tasks spawned here: no policy, no tracking, not shutting down.
    is_plain: Cell<bool>,

    // Written by the owner, read by any:
    pub(crate) counters: Padded<Counters>,

    // Any core:
    /// What the owner is to look after before its next turn.
    pub(super) mail: Padded<AtomicU32>,
    pub(super) inbox: Padded<Inbox<Header>>,
    /// Tasks that only this core may run.
    pub(super) pinned_inbox: Padded<Inbox<Header>>,
    /// Tasks whose last reference was dropped in an interrupt.
    reaper: Padded<Inbox<Header>>,
    pub(crate) timers: Timers,
    /// References to this core's part of the runtime: one from the runtime, one from each task at home here.
    references: Padded<AtomicUsize>,

    // Never change:
    pub(crate) shared: NonNull<Shared>,
    /// The same, if a woken task goes to the next slot of whichever core wakes it; null if a policy
    /// of the user's own decides. So wakers find out both by one comparison.
    wake_here: *const Shared,
    /// The user's own policy.
    policy: Option<Box<dyn Policy>>,
    /// The runtime has more than one core.
    is_many: bool,
    /// Its number in the runtime.
    pub(crate) index: usize,
    /// Its number in the machine; set when it starts.
    pub(super) core: AtomicUsize,
}

// SAFETY: the cells and lists are for the owner only, by the contract of the methods that touch them;
// the rest may be shared.
unsafe impl Sync for Worker {}
// SAFETY: nothing in it knows which thread made it.
unsafe impl Send for Worker {}

/// What is the same for all workers of a runtime.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) queue: usize,
    pub(super) is_many: bool,
    /// No policy of the user's own.
    pub(super) is_default: bool,
    pub(super) is_plain: bool,
}

impl Worker {
    pub(super) fn new(
        shared: NonNull<Shared>,
        index: usize,
        how: How,
        policy: Option<Box<dyn Policy>>,
    ) -> Self {
        Self {
            ready: Cell::new(0),
            streak: Cell::new(0),
            fairness: Fairness::new(),
            random: Cell::new(index as u32 * 2 + 1),
            levels: [const { () }; LEVELS].map(|()| Level {
                next: Cell::new(None),
                pinned: UnsafeCell::new(List::new()),
                deque: Deque::new(how.queue),
                ring: Ring::new(how.queue),
            }),
            registry: Registry::new(),
            phase: Cell::new(Phase::Open),
            is_plain: Cell::new(how.is_plain),
            counters: Padded(Counters::new()),
            mail: Padded(AtomicU32::new(0)),
            inbox: Padded(Inbox::new()),
            pinned_inbox: Padded(Inbox::new()),
            reaper: Padded(Inbox::new()),
            timers: Timers::new(),
            references: Padded(AtomicUsize::new(1)),
            shared,
            wake_here: if how.is_default {
                shared.as_ptr()
            } else {
                core::ptr::null()
            },
            policy,
            is_many: how.is_many,
            index,
            core: AtomicUsize::new(usize::MAX),
        }
    }

    /// The worker of the core this runs on, if that is serving one now and
    /// this is not an interrupt. Under a guard.
    #[inline]
    pub(crate) fn here<'a>(_guard: &'a preempt::Guard) -> Option<&'a Worker> {
        let worker = cores::local().cast::<Worker>();
        // SAFETY: set while `run` serves it, and it lives that long; the guard keeps us on this core.
        let worker = unsafe { worker.as_ref() }?;
        (!hal::irq::in_handler()).then_some(worker)
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the runtime lives as long as any of its workers does.
        unsafe { self.shared.as_ref() }
    }

    // ---- references ----

    /// One more task is at home here.
    #[inline]
    pub(crate) fn retain(&self) {
        // Relaxed: as for any reference made from another.
        self.references.0.fetch_add(1, Relaxed);
    }

    /// One less; with the last of all workers, the runtime's memory goes.
    #[inline]
    pub(crate) fn release(worker: NonNull<Worker>) {
        // SAFETY: the caller's reference keeps it until here.
        let this = unsafe { worker.as_ref() };
        let shared = this.shared;
        // Release pairs with the acquire of the last.
        if this.references.0.fetch_sub(1, Release) == 1 {
            core::sync::atomic::fence(Acquire);
            Shared::release(shared);
        }
    }

    // ---- putting tasks into queues; the owner, under a guard ----

    #[inline]
    fn mark(&self, level: usize, kind: u32) {
        self.ready
            .set(self.ready.get() | 1 << (level as u32 * KINDS + kind));
    }

    /// A task woken by what runs here: it comes next, and what was to come next
    /// goes to the deque, where others can see it.
    #[inline]
    pub(crate) fn push_woken(&self, task: NonNull<Header>, word: Word) {
        let level = word.level();
        self.mark(level, NEXT);
        if let Some(before) = self.levels[level].next.replace(Some(task)) {
            self.push_displaced(before, level);
        }
    }

    #[inline(never)]
    fn push_displaced(&self, task: NonNull<Header>, level: usize) {
        self.push_spawned(task, level);
    }

    /// A task spawned here.
    #[inline]
    pub(crate) fn push_spawned(&self, task: NonNull<Header>, level: usize) {
        self.mark(level, DEQUE);
        if let Err(task) = self.levels[level].deque.push(task) {
            self.overflow(task, level);
        }
        self.notify_others();
    }

    /// There is something that other cores could take, if there are any.
    #[inline]
    fn notify_others(&self) {
        if self.is_many {
            self.shared().notify();
        }
    }

    /// The deque is full: half of it goes to the injector, and the task with it.
    #[cold]
    fn overflow(&self, task: NonNull<Header>, level: usize) {
        let mut chain = List::new();
        let half = usize::MAX;
        // SAFETY: out of the deque, so in no queue.
        let keep = |task| unsafe { chain.push_back(task) };
        self.levels[level].deque.take_half(half, keep);
        // SAFETY: not in a queue yet.
        unsafe { chain.push_back(task) };
        self.counters.0.overflows.add(chain.len() as u64);
        self.shared().injectors[level].push_all(chain);
    }

    /// To the back of the level: it yielded, or came through the inbox.
    #[inline]
    pub(super) fn push_back(&self, task: NonNull<Header>, word: Word) {
        let level = word.level();
        if word.is_pinned() {
            self.mark(level, PINNED);
            // SAFETY: the owner.
            unsafe { (*self.levels[level].pinned.get()).push_back(task) };
        } else {
            self.push_ring(task, level);
        }
    }

    #[inline]
    fn push_ring(&self, task: NonNull<Header>, level: usize) {
        self.mark(level, RING);
        if let Err(task) = self.levels[level].ring.push(task) {
            self.overflow_ring(task, level);
        }
    }

    #[cold]
    fn overflow_ring(&self, task: NonNull<Header>, level: usize) {
        self.counters.0.overflows.add(1);
        // SAFETY: it did not get into the ring.
        unsafe { self.shared().injectors[level].push(task) };
        self.notify_others();
    }

    /// A new task, wherever it belongs.
    pub(crate) fn enqueue_spawned(&self, task: NonNull<Header>, word: Word) {
        match word.pinned_to() {
            Some(core) if core != self.index => {
                let shared = self.shared();
                shared.cores()[core].post(task, word);
                shared.notify_core(core);
            }
            pinned => match self.policy() {
                Some(policy) => self.push_custom(task, policy, Reason::Spawned),
                None if pinned.is_some() => self.push_back(task, word),
                None => self.push_spawned(task, word.level()),
            },
        }
    }

    /// Gives a new task a home here, and an id.
    ///
    /// # Safety
    /// 1. The caller is the owner, under a guard; or holds the lock of the outside part, if this is that.
    /// 2. The task is new.
    #[inline]
    pub(crate) unsafe fn adopt(&self, task: NonNull<Header>) -> Result<(), NoMemory> {
        // SAFETY: the caller's promise.
        unsafe { self.registry.insert(self.index, self.into(), task)? };
        self.retain();
        self.counters.0.spawned.add(1);
        Ok(())
    }

    /// Whether a spawn needs no more than the usual.
    #[inline]
    pub(crate) fn spawns_plainly(&self) -> bool {
        self.is_plain.get()
    }

    /// Tasks for this core from elsewhere. Any core, any context.
    pub(crate) fn post(&self, task: NonNull<Header>, word: Word) {
        let inbox = if word.is_pinned() {
            &self.pinned_inbox.0
        } else {
            &self.inbox.0
        };
        // SAFETY: just woken, so it is in no queue yet.
        if unsafe { inbox.push(task) } {
            self.post_mail(INBOX);
        }
    }

    /// Release pairs with the acquire in `open_mail`.
    #[inline]
    pub(crate) fn post_mail(&self, what: u32) {
        self.mail.0.fetch_or(what, Release);
    }

    /// Frees a task later, not in this interrupt. If nobody serves its home any
    /// more, then with the next one that is freed there.
    pub(crate) fn reap_later(home: NonNull<Worker>, task: NonNull<Header>) {
        // SAFETY: the task's reference keeps its home until it is freed, which is later.
        let this = unsafe { home.as_ref() };
        // SAFETY: nobody refers to it, so it is in no queue.
        if unsafe { this.reaper.0.push(task) } {
            this.post_mail(REAP);
        }
    }

    // ---- the loop ----

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
        // Two loops, so that the default pays nothing for the other.
        if self.policy.is_none() {
            self.turns::<false>();
        } else {
            self.turns::<true>();
        }
        self.flush();
        let _masked = hal::irq::mask();
        hal::clock::disarm();
        cores::set_local(core::ptr::null_mut());
    }

    fn turns<const CUSTOM: bool>(&self) {
        loop {
            // Relaxed: `open_mail` acquires.
            if self.mail.0.load(Relaxed) != 0 && self.open_mail() {
                return;
            }
            if let Some(task) = self.pick::<CUSTOM>().or_else(|| self.search()) {
                self.poll::<CUSTOM>(task);
            }
        }
    }

    /// Nobody serves this worker for now: what only it could see, others can from here on.
    fn flush(&self) {
        for (index, level) in self.levels.iter().enumerate() {
            if let Some(task) = level.next.take() {
                self.push_spawned(task, index);
            }
        }
        self.shared().notify();
    }

    /// Looks after what was posted; whether the loop is to return.
    #[cold]
    fn open_mail(&self) -> bool {
        // Acquire pairs with the release in `post_mail`.
        let mail = self.mail.0.swap(0, Acquire);
        if mail & TIMER != 0 {
            self.expire_timers();
        }
        if mail & INBOX != 0 {
            self.drain_inbox();
        }
        if mail & REAP != 0 {
            self.reap();
        }
        if mail & DRAIN != 0 {
            self.phase.set(self.shared().phase());
            self.is_plain.set(false);
            if self.phase.get() == Phase::Cancelling {
                self.cancel_part();
            }
            self.shared().check_drained();
        }
        mail & STOP != 0
    }

    /// Sorts what came from elsewhere into the levels.
    #[inline(never)]
    pub(super) fn drain_inbox(&self) {
        let mut count = 0;
        for inbox in [&self.inbox.0, &self.pinned_inbox.0] {
            for task in inbox.take_all() {
                // SAFETY: it is queued, so it lives, and it is ours now.
                let word = unsafe { task.as_ref() }.state.now();
                self.push(task, word, Reason::Woken);
                count += u32::from(!word.is_pinned());
            }
        }
        // One of them is for us.
        if count > 1 {
            self.shared().notify();
        }
    }

    /// To the back, by whichever policy there is.
    fn push(&self, task: NonNull<Header>, word: Word, reason: Reason) {
        match &self.policy {
            None => self.push_back(task, word),
            // SAFETY: a queued task that nobody else has.
            Some(policy) => policy.push(unsafe { Runnable::new(task) }, reason),
        }
    }

    /// A task for the user's own policy, from this core.
    pub(super) fn push_custom(&self, task: NonNull<Header>, policy: &dyn Policy, reason: Reason) {
        // SAFETY: a queued task that nobody else has.
        policy.push(unsafe { Runnable::new(task) }, reason);
        if policy.is_shared() {
            self.shared().notify();
        }
    }

    /// The user's own policy, if there is one.
    #[inline]
    pub(super) fn policy(&self) -> Option<&dyn Policy> {
        self.policy.as_deref()
    }

    /// Cancels all tasks that are at home here. No more come.
    pub(super) fn cancel_part(&self) {
        let mut cursor = Cursor::default();
        while let Some(task) = self.registry.next(&mut cursor) {
            if !task.is_main() {
                task.cancel();
            }
        }
    }

    fn reap(&self) {
        for task in self.reaper.0.take_all() {
            // SAFETY: its last reference was dropped by who put it here.
            unsafe { release_memory(task) };
        }
    }

    pub(super) fn expire_timers(&self) {
        let shared = self.shared();
        self.timers.expire(shared.clock.now());
        self.arm();
    }

    /// Another core has put a timer here that is due before all others.
    pub(crate) fn look_at_timers(&self) {
        self.post_mail(TIMER);
        self.shared().notify_core(self.index);
    }

    /// Sets the hardware's timer to the next deadline.
    pub(crate) fn arm(&self) {
        let next = self.timers.next();
        if next != u64::MAX {
            self.shared().clock.arm(next);
        }
    }

    /// The next task to poll.
    #[inline]
    fn pick<const CUSTOM: bool>(&self) -> Option<NonNull<Header>> {
        if self.fairness.is_due()
            && let Some(task) = self.fair_turn()
        {
            return Some(task);
        }
        if CUSTOM {
            return self.policy()?.pop().map(Runnable::into_inner);
        }
        loop {
            let ready = self.ready.get();
            if ready == 0 {
                return None;
            }
            let bit = ready.ilog2();
            let index = (bit / KINDS) as usize;
            let level = &self.levels[index];
            let found = match bit % KINDS {
                NEXT => {
                    self.ready.set(ready & !(1 << bit));
                    let streak = self.streak.get();
                    self.streak.set(streak + 1);
                    match level.next.take() {
                        Some(next) if streak < NEXT_STREAK => return Some(next),
                        Some(next) => self.end_streak(next, index),
                        // A fair turn took it.
                        None => {}
                    }
                    continue;
                }
                DEQUE => level.deque.pop(),
                RING if ready & (1 << (bit - RING + PINNED)) != 0 => {
                    self.pick_ring_or_pinned(level)
                }
                RING => level.ring.pop(),
                // SAFETY: the owner.
                _ => unsafe { (*level.pinned.get()).pop_front() },
            };
            self.streak.set(0);
            if found.is_some() {
                return found;
            }
            self.ready.set(ready & !(1 << bit));
        }
    }

    /// Two tasks that keep waking each other would have the core to themselves:
    /// the one to come next goes behind the others instead.
    #[cold]
    fn end_streak(&self, next: NonNull<Header>, level: usize) {
        self.streak.set(0);
        self.push_ring(next, level);
    }

    /// Both have something: in turn.
    fn pick_ring_or_pinned(&self, level: &Level) -> Option<NonNull<Header>> {
        // SAFETY: the owner.
        let pinned = || unsafe { (*level.pinned.get()).pop_front() };
        if self.fairness.alternates() {
            pinned().or_else(|| level.ring.pop())
        } else {
            level.ring.pop().or_else(pinned)
        }
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
    pub(super) fn pick_old(&self, level: usize, kind: usize) -> Option<NonNull<Header>> {
        let at = &self.levels[level];
        match kind as u32 {
            NEXT => self.pop_injector(level),
            DEQUE => at.deque.take_oldest().or_else(|| at.next.take()),
            RING => at.ring.pop(),
            // SAFETY: the owner.
            _ => unsafe { (*at.pinned.get()).pop_front() },
        }
    }

    /// One from the injector, and some more into the ring.
    fn pop_injector(&self, level: usize) -> Option<NonNull<Header>> {
        let shared = self.shared();
        let injector = &shared.injectors[level];
        if injector.is_empty() {
            return None;
        }
        if self.policy.is_some() {
            return injector.pop();
        }
        let most = shared.share_of(injector.len());
        let (task, more) = injector.pop_into(&self.levels[level].ring, most)?;
        if more > 0 {
            self.mark(level, RING);
            shared.notify();
        }
        Some(task)
    }

    /// Polls a task and does what its new state asks for.
    #[inline(always)]
    fn poll<const CUSTOM: bool>(&self, task: NonNull<Header>) {
        // SAFETY: it came out of a queue, so it lives until its state says that it ended.
        let header = unsafe { task.as_ref() };
        let started = header.state.start();
        self.counters.0.polls.add(1);
        if started.needs_care() {
            return self.poll_with_care(header, started);
        }
        let (is_ready, yielded) = self.poll_future(header);
        self.after_poll::<CUSTOM>(header, started, is_ready, yielded);
    }

    #[inline(always)]
    fn poll_future(&self, header: &Header) -> (bool, bool) {
        trace::event(trace::Kind::PollBegin, header.id);
        let waker = waker::borrowed(header);
        let context = context::current();
        context.set_task(core::ptr::from_ref(header).cast_mut().cast());
        // SAFETY: `start` made this core the owner of the future, and it has not ended.
        let is_ready = unsafe { header.poll(&mut Context::from_waker(&waker)) };
        let yielded = context.task().addr() & waker::YIELDED != 0;
        context.set_task(core::ptr::null_mut());
        trace::event(trace::Kind::PollEnd, header.id);
        (is_ready, yielded)
    }

    #[inline(always)]
    fn after_poll<const CUSTOM: bool>(
        &self,
        header: &Header,
        started: Word,
        is_ready: bool,
        yielded: bool,
    ) {
        if is_ready {
            return self.finish(header);
        }
        match header.state.pause(started, yielded) {
            Pause::Parked => {}
            Pause::Again => self.requeue::<CUSTOM>(header, started),
            Pause::Cancelled => self.drop_future(header),
        }
    }

    /// Behind all that is runnable.
    #[inline]
    fn requeue<const CUSTOM: bool>(&self, header: &Header, word: Word) {
        // What came through the inbox while it ran was runnable before it is.
        if self.mail.0.load(Relaxed) != 0 {
            self.drain_inbox();
        }
        if CUSTOM {
            self.push(header.into(), word, Reason::Yielded);
        } else {
            self.push_back(header.into(), word);
        }
    }

    /// What is not as usual: cancelled, counted, or in its finalizers.
    #[cold]
    fn poll_with_care(&self, header: &Header, started: Word) {
        let clock = &self.shared().clock;
        let extra = header.extra();
        let begin = extra.map(|_| clock.now());
        if started.is_cancelled() {
            self.drop_future(header);
        } else if started.is_final() {
            let (is_ready, yielded) = self.poll_finalizers(header);
            if is_ready {
                self.end(header);
            } else {
                self.after_poll::<true>(header, started, false, yielded);
            }
        } else {
            let (is_ready, yielded) = self.poll_future(header);
            // Counted before the state lets go of it.
            if let (Some(extra), Some(begin)) = (extra, begin) {
                extra.count_poll(self.index, clock.now() - begin);
            }
            self.after_poll::<true>(header, started, is_ready, yielded);
        }
    }

    /// Ends a cancelled task: its future is dropped where it stands.
    #[cold]
    fn drop_future(&self, header: &Header) {
        let context = context::current();
        // Code in its destructors may ask which task this is.
        context.set_task(core::ptr::from_ref(header).cast_mut().cast());
        // SAFETY: this core owns the future: started, and not paused since.
        unsafe { header.abort(TaskError::Cancelled) };
        context.set_task(core::ptr::null_mut());
        self.finish(header);
    }

    /// The future is gone and the outcome written: finalizers, if there are any, then the end.
    #[inline(never)]
    fn finish(&self, header: &Header) {
        // SAFETY: this core runs the task.
        if header
            .extra()
            .is_some_and(|extra| unsafe { extra.has_finalizers() })
        {
            return self.begin_finalizers(header);
        }
        self.end(header);
    }

    #[cold]
    fn begin_finalizers(&self, header: &Header) {
        let started = header.state.finalize();
        let (is_ready, yielded) = self.poll_finalizers(header);
        if is_ready {
            self.end(header);
        } else {
            self.after_poll::<true>(header, started, false, yielded);
        }
    }

    fn poll_finalizers(&self, header: &Header) -> (bool, bool) {
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

    // ---- with nothing to do ----

    /// Looks at the injector and the other cores; sleeps if there is nothing.
    /// None: there is mail.
    #[cold]
    fn search(&self) -> Option<NonNull<Header>> {
        let shared = self.shared();
        shared.idle.search();
        loop {
            if let Some(task) = self.find() {
                // Others may have relied on us to find theirs.
                if shared.idle.found() {
                    shared.notify_if_any(self);
                }
                return Some(task);
            }
            if self.mail.0.load(Relaxed) == 0 {
                self.sleep();
            }
            if self.mail.0.load(Relaxed) != 0 {
                // The loop opens it; what comes out of it is for us.
                if shared.idle.found() {
                    shared.notify_if_any(self);
                }
                return None;
            }
        }
    }

    /// Searching, and nothing found: sleeps until there may be something, and
    /// is searching again.
    fn sleep(&self) {
        let shared = self.shared();
        let counters = &self.counters.0;
        trace::event(trace::Kind::Park, crate::task::TaskId::NONE);
        let masked = hal::irq::mask();
        shared.idle.announce(self.index);
        // The last look, after the fence in `announce`, with interrupts masked: what comes later
        // interrupts the sleep.
        let nothing = self.mail.0.load(Relaxed) == 0 && !shared.has_work(self);
        if nothing && !shared.clock.advance(self) {
            let begin = shared.clock.now();
            self.arm();
            hal::irq::wait(&masked);
            counters.parks.add(1);
            counters.idle.add(shared.clock.now().saturating_sub(begin));
        }
        shared.idle.retract(self.index);
        drop(masked);
        // Who has no interrupt that says so finds out here.
        if self.timers.next() <= shared.clock.now() {
            self.post_mail(TIMER);
        }
        trace::event(trace::Kind::Unpark, crate::task::TaskId::NONE);
    }

    /// Something to run from the injector or from other cores, best level first.
    fn find(&self) -> Option<NonNull<Header>> {
        let shared = self.shared();
        for level in (0..LEVELS).rev() {
            if let Some(task) = self.pop_injector(level) {
                return Some(task);
            }
        }
        if !shared.config.stealing {
            return None;
        }
        let cores = shared.cores();
        let start = self.random() as usize % cores.len();
        let (after, before) = (&cores[start..], &cores[..start]);
        let victims = || {
            after
                .iter()
                .chain(before)
                .filter(|victim| victim.index != self.index)
        };
        for level in (0..LEVELS).rev() {
            for victim in victims() {
                if let Some(task) = self.steal(victim, level) {
                    return Some(task);
                }
            }
        }
        // What came for a core that is busy with something else.
        victims().find_map(|victim| self.steal_inbox(victim))
    }

    fn steal(&self, victim: &Worker, level: usize) -> Option<NonNull<Header>> {
        let (from, to) = (&victim.levels[level], &self.levels[level]);
        let most = self.shared().config.steal_batch;
        let counters = &self.counters.0;
        if from.deque.is_empty() && from.ring.is_empty() {
            return None;
        }
        counters.steals_tried.add(1);
        let deque = || Some((from.deque.steal_into(&to.deque, most)?, DEQUE));
        let ring = || Some((from.ring.steal_into(&to.ring, most)?, RING));
        let ((task, moved), kind) = deque().or_else(ring)?;
        if moved > 1 {
            self.mark(level, kind);
        }
        counters.steals.add(1);
        counters.stolen.add(moved as u64);
        trace::event(trace::Kind::Steal, crate::task::TaskId::NONE);
        Some(task)
    }

    fn steal_inbox(&self, victim: &Worker) -> Option<NonNull<Header>> {
        if victim.inbox.0.is_empty() {
            return None;
        }
        self.counters.0.steals_tried.add(1);
        let mut tasks = victim.inbox.0.take_all();
        let first = tasks.pop_front()?;
        let mut moved = 1;
        for task in tasks {
            // SAFETY: it is queued, so it lives, and it is ours now.
            let word = unsafe { task.as_ref() }.state.now();
            self.push_back(task, word);
            moved += 1;
        }
        self.counters.0.steals.add(1);
        self.counters.0.stolen.add(moved);
        Some(first)
    }

    /// Whether there is something that this core could take by its policy.
    pub(super) fn has_own(&self) -> bool {
        self.policy().is_some_and(|policy| !policy.is_empty())
    }

    /// Its number in the machine.
    pub(crate) fn core(&self) -> usize {
        self.core.load(Relaxed)
    }

    /// Whether a new task may begin here.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.phase.get() != Phase::Cancelling
    }

    /// Whether a task at home at `home` goes to this core's next slot when it is woken here.
    #[inline]
    pub(crate) fn takes_wakes_of(&self, home: &Worker) -> bool {
        core::ptr::eq(self.shared.as_ptr(), home.wake_here)
    }

    /// Whether there is something that another core could take, or this one.
    pub(super) fn has_stealable(&self) -> bool {
        !self.inbox.0.is_empty()
            || self
                .levels
                .iter()
                .any(|level| !level.deque.is_empty() || !level.ring.is_empty())
    }

    /// Tasks in its queues that others could take.
    pub(crate) fn depth(&self) -> usize {
        let of = |level: &Level| level.deque.len() + level.ring.len();
        self.levels.iter().map(of).sum()
    }

    /// Xorshift.
    fn random(&self) -> u32 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        random
    }
}

/// Frees a task's memory, and lets go of its home.
///
/// # Safety
/// Its last reference is gone, and this is no interrupt.
pub(crate) unsafe fn release_memory(task: NonNull<Header>) {
    // SAFETY: the caller's promise.
    unsafe {
        let home = task.as_ref().home;
        cell::free(task);
        Worker::release(home);
    }
}
