//! What all cores of a runtime share.

use super::{
    context::{Contexts, Pool},
    counter::{self, Counter},
    idle::Idle,
    inherit::Inherited,
    mail::DRAIN,
    policy::Policy,
    registry::Cursor,
    worker::{How, LEVELS, Worker},
};
use crate::{
    memory::{NoMemory, try_slice},
    queue::Injector,
    runtime::Config,
    task::{blocking::Blocking, cell::Header, state::Word},
};
use alloc::{
    alloc::{alloc, dealloc},
    boxed::Box,
    vec::Vec,
};
use core::{
    alloc::Layout,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::*, fence},
    task::Waker,
};
use hal::{
    cores, preempt,
    sync::{Lock, Rank, ranked},
};

/// How far a runtime has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Takes all tasks.
    Open = 0,
    /// Takes those of its own tasks only.
    Draining = 1,
    /// Takes none; all are cancelled.
    Cancelling = 2,
}

/// One for each runtime; freed with the last reference to any of its workers.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(super) injectors: [Injector<Header>; LEVELS],
    pub(crate) idle: Idle,
    /// Stacks that nobody uses.
    pub(crate) pool: Pool,
    /// All stacks.
    pub(super) contexts: Contexts,
    /// Who is of a higher level because others wait for him.
    pub(super) inherited: Lock<Inherited>,
    /// Whether there is somebody.
    pub(super) has_boosted: AtomicBool,
    /// Whether who waits lends his priority.
    pub(super) inherits: AtomicBool,
    /// What blocks, and who runs it.
    pub(crate) blocking: Blocking,
    pub(crate) clock: Clock,
    /// When it was built, by that clock.
    pub(crate) born: u64,
    /// One for each core, and a last one that no core serves: home of what is spawned from outside.
    workers: Box<[Worker]>,
    /// Held while the outside part of the list of tasks is changed.
    pub(crate) outside: Lock<()>,
    /// Workers that are still referred to.
    references: AtomicUsize,
    phase: AtomicU8,
    /// Whoever waits until all tasks have ended.
    drained: Lock<Option<Waker>>,
    /// Whether a thread serves worker 0.
    pub(crate) seat: AtomicBool,
    /// Cores, by their numbers in the machine, that wait outside and would serve it.
    pub(crate) visitors: Lock<Vec<usize>>,
    /// Workers 1 and up that have not returned.
    pub(crate) serving: AtomicUsize,
    /// The core that waits until they have.
    pub(crate) waiting: AtomicUsize,
}

impl Shared {
    /// `count` cores.
    pub(crate) fn try_new(
        config: Config,
        count: usize,
        policy: Option<&dyn Fn(usize) -> Box<dyn Policy>>,
    ) -> Result<NonNull<Self>, NoMemory> {
        let blocking = Blocking::try_new(config.blocking_threads)?;
        // Raw from the beginning: its workers know where it will be, and a box that is written to
        // would put an end to all other pointers into it.
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(Layout::new::<Self>()) };
        let shared = NonNull::new(memory).ok_or(NoMemory)?.cast::<Self>();
        let how = How {
            queue: config.queue,
            is_many: count > 1,
            is_default: policy.is_none(),
            is_plain: policy.is_none() && !config.track,
        };
        let worker = |index| {
            let own = policy.filter(|_| index < count).map(|make| make(index));
            Worker::try_new(shared, index, how, own).ok()
        };
        let Ok(workers) = try_slice(count + 1, worker) else {
            // SAFETY: made above, and nobody knows of it but the workers, which are gone.
            unsafe { dealloc(memory, Layout::new::<Self>()) };
            return Err(NoMemory);
        };
        let clock = Clock::new(config.virtual_clock);
        let this = Self {
            injectors: core::array::from_fn(|_| Injector::new()),
            idle: Idle::new(),
            pool: Pool::new(),
            contexts: Contexts::new(),
            inherited: ranked(Rank::Growing, Inherited::new()),
            has_boosted: AtomicBool::new(false),
            inherits: AtomicBool::new(config.inheritance),
            blocking,
            born: clock.now(),
            clock,
            workers,
            outside: ranked(Rank::Growing, ()),
            references: AtomicUsize::new(count + 1),
            phase: AtomicU8::new(Phase::Open as u8),
            drained: Lock::new(None),
            seat: AtomicBool::new(false),
            visitors: ranked(Rank::Growing, Vec::new()),
            serving: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            config,
        };
        // SAFETY: memory of its own, that nobody has looked at yet.
        unsafe { shared.write(this) };
        Ok(shared)
    }

    /// The runtime lets go of it. No core serves it any more.
    pub(crate) fn free(shared: NonNull<Self>) {
        // SAFETY: the runtime's references, one for each worker, keep it until below.
        let this = unsafe { shared.as_ref() };
        this.inherited.lock().forget();
        this.cores().iter().for_each(Worker::drop_entries);
        this.cores().iter().for_each(Worker::give_up_spare);
        this.pool.free_all();
        this.blocking.end();
        let count = this.parts().len();
        for index in 0..count {
            // SAFETY: its reference, given back here, keeps it and with it the rest.
            let worker = NonNull::from(unsafe { &shared.as_ref().parts()[index] });
            Worker::release(worker);
        }
    }

    /// One worker less is referred to; with the last, the memory goes.
    pub(super) fn release(shared: NonNull<Self>) {
        // SAFETY: the caller's worker counts until here.
        let this = unsafe { shared.as_ref() };
        // Release pairs with the acquire of the last.
        if this.references.fetch_sub(1, Release) == 1 {
            fence(Acquire);
            // SAFETY: made by `try_new` as a box is, and nobody refers to it any more.
            drop(unsafe { Box::from_raw(shared.as_ptr()) });
        }
    }

    /// The workers that cores serve.
    #[inline]
    pub(crate) fn cores(&self) -> &[Worker] {
        &self.workers[..self.workers.len() - 1]
    }

    /// Whether a policy of the user's own decides who is next.
    pub(super) fn has_policy(&self) -> bool {
        self.workers[0].policy().is_some()
    }

    /// Home of what is spawned from outside.
    pub(crate) fn outsider(&self) -> &Worker {
        &self.workers[self.workers.len() - 1]
    }

    /// All parts of the list of tasks.
    pub(crate) fn parts(&self) -> &[Worker] {
        &self.workers
    }

    /// There is work that any core may take: kicks one, if one sleeps and none searches.
    #[inline]
    pub(crate) fn notify(&self) {
        if let Some(core) = self.idle.notify() {
            self.kick(core);
        }
    }

    /// There is work for one core only.
    pub(crate) fn notify_core(&self, core: usize) {
        if let Some(core) = self.idle.notify_core(core) {
            self.kick(core);
        }
    }

    #[cold]
    fn kick(&self, index: usize) {
        let worker = &self.workers[index];
        worker.counters.0.kicks.add_from_any(1);
        cores::kick(worker.core());
    }

    /// A searching core has found something to do: if there is more, others may
    /// have relied on it to find that, too.
    pub(super) fn found(&self, searcher: &Worker) {
        if let Some(core) = self.idle.found(|| self.has_work(searcher)) {
            self.kick(core);
        }
    }

    /// Whether there is something that this core could find. After a full fence.
    pub(super) fn has_work(&self, searcher: &Worker) -> bool {
        let stealing = self.config.stealing;
        self.has_injected()
            || searcher.has_own()
            || stealing && self.cores().iter().any(Worker::has_stealable)
    }

    /// A task from outside: for whichever core comes first, or for its own.
    pub(crate) fn inject(&self, task: NonNull<Header>, word: Word) {
        match word.pinned_to() {
            Some(core) => {
                self.cores()[core].post_from_afar(task, word);
            }
            None => {
                // SAFETY: just spawned or woken, so it is in no queue yet.
                unsafe { self.injectors[word.level()].push(task) };
                self.notify();
            }
        }
    }

    /// Whether there is something in the injectors.
    pub(super) fn has_injected(&self) -> bool {
        self.injectors.iter().any(|injector| !injector.is_empty())
    }

    /// Tasks in the injectors.
    pub(crate) fn injected(&self) -> usize {
        self.injectors.iter().map(Injector::len).sum()
    }

    /// Whether all tasks are to end. Under the outside lock.
    pub(crate) fn is_cancelling(&self) -> bool {
        self.phase() == Phase::Cancelling
    }

    /// A core's share of what is in the injector.
    pub(super) fn share_of(&self, count: usize) -> usize {
        (count / self.cores().len() + 1).min(self.config.steal_batch)
    }

    // ---- the end ----

    pub(crate) fn phase(&self) -> Phase {
        // Relaxed: what matters is ordered by the mail and by the outside lock.
        match self.phase.load(Relaxed) {
            0 => Phase::Open,
            1 => Phase::Draining,
            _ => Phase::Cancelling,
        }
    }

    /// Goes on to a phase; each core hears of it by mail.
    pub(crate) fn begin(&self, phase: Phase) {
        let outside = self.outside.lock();
        self.phase.store(phase as u8, Relaxed);
        drop(outside);
        for worker in self.cores() {
            worker.post_mail(DRAIN);
            self.notify_core(worker.index);
        }
        if phase == Phase::Cancelling {
            self.outsider().cancel_part();
        }
    }

    /// How many tasks live.
    pub(crate) fn live(&self) -> u64 {
        counter::live(self.ended(), self.begun())
    }

    /// Whether no task lives. Waits for one that has ended and is not counted yet, as whoever joined it
    /// may be faster. Not on a core of its own; nobody spawns from outside.
    pub(crate) fn is_empty(&self) -> bool {
        let has_task = |part: &Worker| part.registry.next(&mut Cursor::default()).is_some();
        while self.live() != 0 {
            if self.parts().iter().any(has_task) {
                return false;
            }
            hal::pause();
        }
        true
    }

    /// Whether this core serves it now.
    pub(crate) fn serves_here(&self) -> bool {
        let guard = preempt::guard();
        Worker::here(&guard).is_some_and(|worker| core::ptr::eq(worker.shared(), self))
    }

    fn ended(&self) -> impl Iterator<Item = &Counter> {
        self.workers
            .iter()
            .map(|worker| &worker.counters.0.finished)
    }

    fn begun(&self) -> impl Iterator<Item = &Counter> {
        self.workers.iter().map(|worker| &worker.counters.0.spawned)
    }

    /// Who is to be woken when no task but that one lives. It looks for itself
    /// after that: either the core that ends the last finds its waker under the
    /// lock, or it sees through the lock what that core saw.
    pub(crate) fn set_drained(&self, waker: &Waker) {
        let before = self.drained.lock().replace(waker.clone());
        drop(before);
    }

    /// A core that drains has ended a task or has begun to drain.
    #[cold]
    pub(super) fn check_drained(&self) {
        // The one that waits is a task too.
        if counter::live_after_end(self.ended(), self.begun()) <= 1 {
            let waker = self.drained.lock().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// A runtime's time: the machine's, or one that jumps to the next deadline
/// whenever there is nothing to do.
pub(crate) struct Clock {
    is_virtual: bool,
    now: AtomicU64,
}

impl Clock {
    fn new(is_virtual: bool) -> Self {
        Self {
            is_virtual,
            now: AtomicU64::new(0),
        }
    }

    /// Nanoseconds.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if self.is_virtual {
            self.now.load(Relaxed)
        } else {
            hal::clock::now()
        }
    }

    /// Sets this core's timer.
    pub(super) fn arm(&self, deadline: u64) {
        if !self.is_virtual {
            hal::clock::arm(deadline);
        }
    }

    /// This core's timer has nothing to wait for.
    pub(super) fn disarm(&self) {
        if !self.is_virtual {
            hal::clock::disarm();
        }
    }

    /// Instead of sleeping: jumps to the next deadline, if time is virtual and there is one, and no blocking
    /// function is at work.
    pub(super) fn advance(&self, worker: &Worker) -> bool {
        let is_held = self.is_virtual && worker.shared().blocking.is_busy();
        let next = worker.timers.next();
        if !self.is_virtual || is_held || next == u64::MAX {
            return false;
        }
        self.now.fetch_max(next, Relaxed);
        true
    }
}
