//! One core of a runtime: what it has, and how tasks come into its queues. The
//! loop that serves them is in `turn`, what it does without work in `search`,
//! what comes from elsewhere in `mail`, the end of a task in `finish`.
//!
//! What is for the owner alone is touched by the core itself only, either by
//! the loop between polls or, within one, by `spawn` and `wake` under a guard.
//! Interrupts on that core touch none of it: they use the inbox.

use super::{
    context::Context,
    fair::Fairness,
    lost::Lost,
    offers::Offers,
    policy::{Policy, Reason},
    registry::Registry,
    shared::{Phase, Shared},
    tick::Ticker,
    watch::Watch,
};
use crate::{
    NoMemory,
    queue::{Deque, Inbox, List, Padded, Ring},
    stats::Counters,
    task::{
        TaskId,
        cell::{self, Header},
        state::Word,
    },
    time::timers::Timers,
    trace,
};
use alloc::boxed::Box;
use core::{
    cell::{Cell, UnsafeCell},
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*},
    task::Waker,
};
use hal::{context::ContextBlock, cores, preempt};

/// Priority levels.
pub(crate) const LEVELS: usize = 4;

/// So often in a row the next slot is served before others get their turn.
pub(super) const NEXT_STREAK: u32 = 8;

// Queues of a level, the one that is looked at first last. A bit of `ready` is a level and one of these.
pub(super) const PINNED: u32 = 0;
pub(super) const RING: u32 = 1;
pub(super) const DEQUE: u32 = 2;
pub(super) const NEXT: u32 = 3;
pub(super) const KINDS: u32 = 4;

/// The runnable tasks of one priority level on one core.
pub(super) struct Level {
    /// Bound to this core. Owner only.
    pub(super) pinned: UnsafeCell<List<Header>>,
    /// Spawned here, or pushed out of `next`.
    pub(super) deque: Deque<Header>,
    /// Yielded, or come through the inbox.
    pub(super) ring: Ring<Header>,
}

/// One core of a runtime.
#[repr(C, align(128))]
pub(crate) struct Worker {
    // Owner only, and what it reads each turn:
    /// Queues that may have something, one bit for each of each level; the highest is looked at first.
    pub(super) ready: Cell<u32>,
    /// Turns of the next slot in a row.
    pub(super) streak: Cell<u32>,
    /// How many that yielded, and how many pinned ones, have yet to have their turn in this round.
    pub(super) round: Cell<(usize, usize)>,
    pub(super) fairness: Fairness,
    /// Of each level, what was woken last by what runs here: its data is warm.
    pub(super) next: [Cell<Option<NonNull<Header>>>; LEVELS],
    /// State of the random numbers that choose victims.
    pub(super) random: Cell<u32>,
    pub(super) levels: [Level; LEVELS],
    pub(crate) registry: Registry,
    /// How far the runtime has come, as this core knows.
    pub(super) phase: Cell<Phase>,
    /// This worker, if the end of a task that is at home here needs no more than the usual; else null.
    pub(super) usual_home: Cell<*const Worker>,
    /// Nothing is special about tasks spawned here: no policy, no tracking, not shutting down.
    pub(super) is_plain: Cell<bool>,

    /// Local tasks that somebody waits for to end, and who that is.
    pub(super) locals: Cell<usize>,
    pub(super) locals_ended: Cell<Option<Waker>>,

    pub(super) ticker: Ticker,
    /// The hardware's timer is set. Owner, and its interrupts.
    pub(super) is_armed: Cell<bool>,
    /// A context for the loop to go on in, when a poll keeps the one it is on. Owner, and its interrupts.
    pub(super) spare: Cell<Option<NonNull<Context>>>,
    /// The one after that, if a loop has left one here.
    pub(super) second: Cell<Option<NonNull<Context>>>,
    /// One for when these are gone and there is no memory for another, and a poll is left for good. Owner, and its traps.
    pub(super) last: Cell<Option<NonNull<Context>>>,
    /// A poll that was left for good, just now. Owner, and its traps.
    pub(super) lost: Cell<Option<Lost>>,
    /// Where `run` waits for the loop to end.
    pub(super) waits_here: Cell<Option<NonNull<ContextBlock>>>,
    /// A context that was left in the middle of a local task; see `locals`.
    pub(super) local_context: Cell<Option<NonNull<Context>>>,
    /// Local tasks that are runnable, but have to wait for that.
    pub(super) held: UnsafeCell<List<Header>>,
    /// One of them is more urgent than that, and lends it its priority.
    pub(super) lends_local: Cell<bool>,

    // Written by the owner, read by any:
    pub(crate) counters: Padded<Counters>,

    // Any core:
    /// What the owner is to look after before its next turn.
    pub(super) mail: Padded<AtomicU32>,
    pub(super) inbox: Padded<Inbox<Header>>,
    /// Tasks that only this core may run.
    pub(super) pinned_inbox: Padded<Inbox<Header>>,
    pub(crate) timers: Timers,
    /// References to this core's part of the runtime: one from the runtime, one from each task at home here.
    references: Padded<AtomicUsize>,

    /// Local tasks of this core, what `block_on` runs left out.
    pub(super) local_tasks: AtomicUsize,

    // Never change:
    pub(crate) shared: NonNull<Shared>,
    /// The same, if a woken task goes to the next slot of whichever core wakes it; null if a policy
    /// of the user's own decides. So wakers find out both by one comparison.
    wake_here: *const Shared,
    /// The user's own policy.
    policy: Option<Box<dyn Policy>>,
    /// The runtime has more than one core.
    pub(super) is_many: bool,
    /// Its number in the runtime.
    pub(crate) index: usize,
    /// It is in a poll of the lowest priority: whoever has something else for it kicks it. Written by the owner.
    pub(super) is_in_low: AtomicBool,
    /// Its number in the machine; set when it starts.
    pub(super) core: AtomicUsize,
    /// Whether a core serves it now. Only the first of a runtime is ever left.
    pub(super) is_served: AtomicBool,

    // Any core, last, where it is in nobody's way:
    /// What tasks that run here have to share.
    pub(super) offers: Padded<Offers>,

    // The owner's interrupts:
    /// What goes on no more.
    pub(super) watch: Watch,
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
    pub(super) fn try_new(
        shared: NonNull<Shared>,
        index: usize,
        how: How,
        policy: Option<Box<dyn Policy>>,
    ) -> Result<Self, NoMemory> {
        let level = || {
            Ok(Level {
                pinned: UnsafeCell::new(List::new()),
                deque: Deque::try_new(how.queue)?,
                ring: Ring::try_new(how.queue)?,
            })
        };
        Ok(Self {
            ready: Cell::new(0),
            streak: Cell::new(0),
            round: Cell::new((0, 0)),
            fairness: Fairness::new(),
            next: [const { Cell::new(None) }; LEVELS],
            random: Cell::new(index as u32 * 2 + 1),
            levels: [level()?, level()?, level()?, level()?],
            registry: Registry::new(),
            phase: Cell::new(Phase::Open),
            usual_home: Cell::new(core::ptr::null()),
            is_plain: Cell::new(how.is_plain),
            locals: Cell::new(0),
            locals_ended: Cell::new(None),
            ticker: Ticker::new(),
            is_armed: Cell::new(false),
            spare: Cell::new(None),
            second: Cell::new(None),
            last: Cell::new(None),
            lost: Cell::new(None),
            waits_here: Cell::new(None),
            local_context: Cell::new(None),
            held: UnsafeCell::new(List::new()),
            lends_local: Cell::new(false),
            counters: Padded(Counters::new()),
            mail: Padded(AtomicU32::new(0)),
            inbox: Padded(Inbox::new()),
            pinned_inbox: Padded(Inbox::new()),
            timers: Timers::new(),
            references: Padded(AtomicUsize::new(1)),
            local_tasks: AtomicUsize::new(0),
            shared,
            wake_here: if how.is_default {
                shared.as_ptr()
            } else {
                core::ptr::null()
            },
            policy,
            is_many: how.is_many,
            index,
            is_in_low: AtomicBool::new(false),
            core: AtomicUsize::new(usize::MAX),
            is_served: AtomicBool::new(false),
            offers: Padded(Offers::new()),
            watch: Watch::new(),
        })
    }

    /// The worker of the core this runs on, if that is serving one now and
    /// this is not an interrupt. Under a guard.
    #[inline]
    pub(crate) fn here(_guard: &preempt::Guard) -> Option<&Worker> {
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
    pub(crate) fn release(worker: NonNull<Worker>) {
        if !Self::release_one(worker) {
            Self::release_shared(worker);
        }
    }

    /// One less; false: it was the last, and the worker is to be given up.
    #[inline]
    #[must_use]
    fn release_one(worker: NonNull<Worker>) -> bool {
        // SAFETY: the caller's reference keeps it until here.
        let this = unsafe { worker.as_ref() };
        // Release pairs with the acquire in `release_shared`.
        this.references.0.fetch_sub(1, Release) != 1
    }

    /// The last reference to this worker is gone.
    fn release_shared(worker: NonNull<Worker>) {
        core::sync::atomic::fence(Acquire);
        // SAFETY: all workers are there until each was given up, which this one is here.
        Shared::release(unsafe { worker.as_ref() }.shared);
    }

    // ---- putting tasks into queues; the owner, under a guard ----

    #[inline]
    pub(super) fn mark(&self, level: usize, kind: u32) {
        self.ready
            .set(self.ready.get() | 1 << (level as u32 * KINDS + kind));
    }

    /// A task woken by what runs here: it comes next, and what was to come next
    /// goes to the deque, where others can see it.
    #[inline]
    pub(crate) fn push_woken(&self, task: NonNull<Header>, word: Word) {
        if let Some(before) = self.swap_next(task, word) {
            self.push_spawned(before, word.level());
        }
    }

    /// A task woken by what runs here comes next; what was to come next.
    #[inline]
    pub(crate) fn swap_next(&self, task: NonNull<Header>, word: Word) -> Option<NonNull<Header>> {
        let bit = word.level_bit();
        self.ready.set(self.ready.get() | (1 << NEXT) << bit);
        self.next[(bit / KINDS) as usize].replace(Some(task))
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
    pub(super) fn notify_others(&self) {
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
            self.push_pinned(task, level);
        } else {
            self.push_ring(task, level);
        }
    }

    /// To the back of what only this core runs.
    #[inline]
    pub(super) fn push_pinned(&self, task: NonNull<Header>, level: usize) {
        self.mark(level, PINNED);
        // SAFETY: the owner.
        unsafe { (*self.levels[level].pinned.get()).push_back(task) };
    }

    #[inline]
    pub(super) fn push_ring(&self, task: NonNull<Header>, level: usize) {
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
                self.shared().cores()[core].post_from_afar(task, word);
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
    pub(crate) unsafe fn adopt(&self, task: NonNull<Header>) -> Result<TaskId, NoMemory> {
        // SAFETY: the caller's promise.
        let id = unsafe { self.registry.insert(self.index, self.into(), task)? };
        self.retain();
        self.counters.0.spawned.add(1);
        trace::event_by(trace::Kind::Spawn, || id);
        Ok(id)
    }

    /// Whether a spawn needs no more than the usual.
    #[inline]
    pub(crate) fn spawns_plainly(&self) -> bool {
        self.is_plain.get()
    }

    /// The user's own policy, if there is one.
    #[inline]
    pub(super) fn policy(&self) -> Option<&dyn Policy> {
        self.policy.as_deref()
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

    /// Polls so far, as far as the owner has said.
    pub(crate) fn polls(&self) -> u64 {
        self.fairness.turns()
    }

    /// Says how many polls there were up to now. The owner, under a guard.
    pub(crate) fn publish_polls(&self) {
        self.fairness.publish();
    }

    /// Tasks in its queues that others could take.
    pub(crate) fn depth(&self) -> usize {
        let of = |level: &Level| level.deque.len() + level.ring.len();
        self.levels.iter().map(of).sum()
    }
}

/// # Safety
/// As for [`release_memory`]; it is the last reference to its home, too.
#[cold]
#[inline(never)]
unsafe fn release_last(task: NonNull<Header>) {
    // SAFETY: the caller's promise.
    unsafe {
        Worker::release_shared(task.as_ref().home);
        cell::free(task);
    }
}

/// Frees a task's memory, and lets go of its home.
///
/// # Safety
/// Its last reference is gone, and this is no interrupt.
pub(crate) unsafe fn release_memory(task: NonNull<Header>) {
    // SAFETY: the caller's promise.
    unsafe {
        // Its home first, so that nothing is left to do after the task is gone: that has memory of its own.
        if Worker::release_one(task.as_ref().home) {
            cell::free(task);
        } else {
            release_last(task);
        }
    }
}
