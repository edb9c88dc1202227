//! Work that others may take, and that stays where it is until somebody does.
//!
//! A task that is about to do two things offers the second ([`Offer`]), does the
//! first, and takes the second back if nobody has taken it meanwhile. That
//! is what `parallel` does all the time, so an offer costs no memory: it is on the
//! stack of whoever makes it, in a list of the core that this was on. Only who
//! takes it makes a task of it: a core that has found nothing else to do (`search`),
//! or the one that offers it, when it has to wait. So nothing that
//! is runnable waits behind an offer, and nothing that somebody waits for
//! depends on a core being idle.
//!
//! The list is under a flag that is held for a few instructions, or for those of an allocation. Both
//! ends hold a guard meanwhile, and interrupts do not come here, so nobody spins for long.
//!
//! Who offers also keeps a chain of what it has offered, in its context: if its poll is lost, what
//! nobody has taken is nobody's any more, and what somebody has taken is waited for. The chain stays where
//! it is meanwhile: that stack is never used again, and there may be no memory for another.

use super::{context::Context, worker::Worker};
use crate::{
    Priority,
    bomb::Bomb,
    task::{SpawnError, Start, TaskHandle, cell::Header, wait_for_part},
};
use core::{
    cell::{Cell, UnsafeCell},
    future::Future,
    iter,
    pin::Pin,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    task,
};
use hal::{preempt, sync::flag::Flag};

/// Makes a task of an offer, which is in no queue.
///
/// # Safety
/// The offer is there, and its list's flag is held; the worker is this core's, under a guard.
type Make = unsafe fn(NonNull<Offer>, &Worker) -> Result<Made, SpawnError>;

/// A task that is in no queue, and what its offerer waits for it by.
type Made = (NonNull<Header>, TaskHandle<()>);

/// One piece of work. The first field of what knows its type.
pub(crate) struct Offer {
    // Under the flag of the list:
    older: Cell<Option<NonNull<Offer>>>,
    newer: Cell<Option<NonNull<Offer>>>,
    is_listed: Cell<bool>,

    // Under the flag as long as it is listed, then the offerer's:
    /// The task that was made of it.
    handle: UnsafeCell<Option<TaskHandle<()>>>,

    // Any core:
    /// Somebody has taken it. A hint.
    is_taken: AtomicBool,

    // Fixed before it is listed:
    make: Make,
    /// Who offers it may wait for what it does: it must not stay where it is then.
    is_needed: bool,
    /// Whose list it is in, and which task offers it.
    place: Cell<Option<(NonNull<Worker>, NonNull<Header>)>>,

    // The offerer only:
    /// What the same context had offered before.
    outer: Cell<Option<NonNull<Offer>>>,
}

impl Offer {
    pub(crate) fn new(make: Make, is_needed: bool) -> Self {
        Self {
            older: Cell::new(None),
            newer: Cell::new(None),
            is_listed: Cell::new(false),
            handle: UnsafeCell::new(None),
            is_taken: AtomicBool::new(false),
            make,
            is_needed,
            place: Cell::new(None),
            outer: Cell::new(None),
        }
    }

    /// Offers it, in the poll of a task that may wait.
    ///
    /// # Safety
    /// `this` stays valid, and is not offered again, until [`end`](Self::end) has returned, which the same
    /// poll calls, for the last offer first; and it is valid for all that `make` does with it.
    #[inline]
    pub(crate) unsafe fn begin(this: NonNull<Self>, task: &Header) {
        // SAFETY: the caller's promise.
        let offer = unsafe { this.as_ref() };
        let guard = preempt::guard();
        let Some(worker) = Worker::here(&guard) else {
            return;
        };
        offer.place.set(Some((worker.into(), task.into())));
        let context = Context::current();
        offer.outer.set(context.offers().replace(Some(this)));
        worker.offers.push(this);
        // As for whatever else others could take.
        worker.notify_others();
    }

    /// Whether somebody has taken it; a hint.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken.load(Relaxed)
    }

    /// Takes it back, or waits until the task that was made of it has ended. Whether that did
    /// anything is for the caller to find out.
    ///
    /// # Safety
    /// As for [`begin`](Self::begin), which came before.
    #[inline]
    #[track_caller]
    pub(crate) unsafe fn end(&self) {
        let Some((worker, _)) = self.place.get() else {
            return;
        };
        // SAFETY: the worker of a runtime that runs the caller.
        if !unsafe { worker.as_ref() }.offers.withdraw(self) {
            self.wait();
        }
        Context::current().offers().set(self.outer.get());
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait(&self) {
        let bomb = Bomb("somebody works on what is here, and it cannot be waited for");
        // SAFETY: no longer listed, so it is the offerer's. It stays in its place: if this poll is lost
        // here, others wait for it.
        if let Some(handle) = unsafe { &mut *self.handle.get() } {
            wait_for_part(handle);
        }
        bomb.defuse();
    }

    /// How its task is to be.
    pub(crate) fn how(&self) -> Start {
        let mut how = Start::default();
        if let Some((worker, task)) = self.place.get() {
            // SAFETY: the task offers it, so it lives, and its worker too.
            let (worker, task) = unsafe { (worker.as_ref(), task.as_ref()) };
            how.builder.priority = Priority::from_level(task.state.now().level());
            how.parent = worker.shared().config.track.then(|| task.id());
        }
        how
    }
}

/// What the tasks on one core offer.
pub(crate) struct Offers {
    flag: Flag,
    /// Written under the flag, read by any.
    count: AtomicUsize,

    // Under the flag:
    oldest: Cell<Option<NonNull<Offer>>>,
    newest: Cell<Option<NonNull<Offer>>>,
}

// SAFETY: the cells, and those of the offers, are touched under the flag only.
unsafe impl Sync for Offers {}
// SAFETY: as above; an offer may be taken by any core.
unsafe impl Send for Offers {}

impl Offers {
    pub(super) const fn new() -> Self {
        Self {
            flag: Flag::new(),
            count: AtomicUsize::new(0),
            oldest: Cell::new(None),
            newest: Cell::new(None),
        }
    }

    /// Whether nothing is offered. A hint, but for what was offered before a full fence that came
    /// before one ahead of this.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Holds the flag. Under a guard.
    #[inline]
    fn lock(&self) -> Locked<'_> {
        self.flag.lock(hal::pause);
        Locked(self)
    }

    /// Under a guard.
    #[inline]
    fn push(&self, offer: NonNull<Offer>) {
        self.lock().link(offer);
    }

    /// Takes an offer back; false: somebody has taken it.
    #[inline]
    fn withdraw(&self, offer: &Offer) -> bool {
        let _guard = preempt::guard();
        let list = self.lock();
        if offer.is_listed.get() {
            list.unlink(offer);
            return true;
        }
        // SAFETY: under the flag.
        unsafe { &*offer.handle.get() }.is_none()
    }

    /// Makes a task of the oldest offer, which is the largest piece of work as a rule.
    #[cold]
    pub(super) fn take(&self, taker: &Worker) -> Option<NonNull<Header>> {
        if self.is_empty() {
            return None;
        }
        let _guard = preempt::guard();
        let list = self.lock();
        let offer = self.oldest.get()?;
        // SAFETY: listed, so it is there, and its offerer lives.
        list.take(unsafe { offer.as_ref() }, offer, taker).ok()
    }
}

/// The flag is held.
struct Locked<'a>(&'a Offers);

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.flag.unlock();
    }
}

impl Locked<'_> {
    #[inline]
    fn link(&self, this: NonNull<Offer>) {
        // SAFETY: who offers it keeps it.
        let offer = unsafe { this.as_ref() };
        let newest = self.0.newest.replace(Some(this));
        offer.older.set(newest);
        match newest {
            // SAFETY: listed, so it is there.
            Some(newest) => unsafe { newest.as_ref() }.newer.set(Some(this)),
            None => self.0.oldest.set(Some(this)),
        }
        offer.is_listed.set(true);
        self.count(self.0.count.load(Relaxed) + 1);
    }

    #[inline]
    fn unlink(&self, offer: &Offer) {
        let (older, newer) = (offer.older.get(), offer.newer.get());
        match older {
            // SAFETY: listed, so it is there.
            Some(older) => unsafe { older.as_ref() }.newer.set(newer),
            None => self.0.oldest.set(newer),
        }
        match newer {
            // SAFETY: listed, so it is there.
            Some(newer) => unsafe { newer.as_ref() }.older.set(older),
            None => self.0.newest.set(older),
        }
        offer.is_listed.set(false);
        self.count(self.0.count.load(Relaxed) - 1);
    }

    /// Relaxed: whoever sleeps on it, or kicks for it, has a fence in between.
    #[inline]
    fn count(&self, count: usize) {
        self.0.count.store(count, Relaxed);
    }

    /// Makes a task of an offer that nobody has taken. Without memory it is no longer listed: else cores would try for
    /// ever. Who offers it tries again, if it has to wait.
    fn take(
        &self,
        offer: &Offer,
        this: NonNull<Offer>,
        taker: &Worker,
    ) -> Result<NonNull<Header>, SpawnError> {
        if offer.is_listed.get() {
            self.unlink(offer);
        }
        // SAFETY: it is there as long as the flag is held, and then until its task has ended.
        let (task, handle) = unsafe { (offer.make)(this, taker)? };
        // SAFETY: under the flag, and nothing was in it.
        unsafe { *offer.handle.get() = Some(handle) };
        offer.is_taken.store(true, Relaxed);
        Ok(task)
    }
}

impl Worker {
    /// A task made of what some core offers, its own included: who offered that may be elsewhere now.
    pub(super) fn take_offer(&self) -> Option<NonNull<Header>> {
        let shared = self.shared();
        if !shared.config.stealing {
            return None;
        }
        let (before, after) = shared.cores().split_at(self.index);
        let mut cores = after.iter().chain(before);
        let task = cores.find_map(|victim| victim.offers.take(self))?;
        let counters = &self.counters.0;
        counters.steals_tried.add(1);
        counters.steals.add(1);
        counters.stolen.add(1);
        Some(task)
    }
}

impl Context {
    /// The poll is about to wait: what it has offered becomes tasks like all others. It may wait for them. Err: there is
    /// no memory for one that it may wait for.
    #[inline]
    pub(crate) fn make_tasks_of_offers(&self) -> Result<(), SpawnError> {
        match self.offers().get() {
            None => Ok(()),
            Some(_) => self.make_tasks(),
        }
    }

    /// The poll is lost: what it has offered and nobody has taken is offered no more.
    pub(super) fn withdraw_offers(&self) {
        for offer in self.lost_offers() {
            if let Some((place, _)) = offer.place.get() {
                // SAFETY: the worker of a runtime that runs the task.
                let _ = unsafe { place.as_ref() }.offers.withdraw(offer);
            }
        }
    }

    /// Waits for what somebody has taken of that: the task must not end before it. True: it has ended. By
    /// the core that runs the task, which is in its finalizers.
    pub(super) fn poll_lost_parts(&self, cx: &mut task::Context<'_>) -> bool {
        for offer in self.lost_offers() {
            // SAFETY: no longer listed, and the offerer is gone: nobody else touches it.
            let handle = unsafe { &mut *offer.handle.get() };
            // If it is taken, the poll was lost after it had waited for it.
            if let Some(part) = handle
                && !part.is_taken()
            {
                part.cancel();
                if Pin::new(part).poll(cx).is_pending() {
                    return false;
                }
            }
            drop(handle.take());
        }
        true
    }

    /// What the poll that is lost had offered, on a stack that nobody uses again.
    fn lost_offers(&self) -> impl Iterator<Item = &Offer> {
        // SAFETY: it stays as it is for ever.
        let there = |offer: Option<NonNull<Offer>>| offer.map(|offer| unsafe { offer.as_ref() });
        iter::successors(there(self.offers().get()), move |offer| {
            there(offer.outer.get())
        })
    }

    #[cold]
    #[inline(never)]
    fn make_tasks(&self) -> Result<(), SpawnError> {
        let mut next = self.offers().get();
        while let Some(this) = next {
            // SAFETY: in the chain until its offerer, which is this context, takes it back.
            let offer = unsafe { this.as_ref() };
            next = offer.outer.get();
            if let Err(error) = offer.make_task(this)
                && offer.is_needed
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Offer {
    /// Puts it into a queue, unless somebody has taken it.
    fn make_task(&self, this: NonNull<Self>) -> Result<(), SpawnError> {
        let Some((place, _)) = self.place.get() else {
            return Ok(());
        };
        let guard = preempt::guard();
        let Some(worker) = Worker::here(&guard) else {
            return Ok(());
        };
        // SAFETY: the worker of a runtime that runs the caller.
        let list = unsafe { place.as_ref() }.offers.lock();
        // SAFETY: under the flag.
        if unsafe { &*self.handle.get() }.is_some() {
            return Ok(());
        }
        let task = list.take(self, this, worker)?;
        drop(list);
        let bomb = Bomb("a policy panicked over a new task; a policy of the user's own must not");
        // SAFETY: its handle keeps it.
        worker.enqueue_spawned(task, unsafe { task.as_ref() }.state.now());
        bomb.defuse();
        Ok(())
    }
}
