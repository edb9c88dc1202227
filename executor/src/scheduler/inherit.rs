//! Inherited priorities: whoever is waited for is of the level of the highest who waits for it, as long as he waits.
//!
//! Who waits for a lock lends his level to those who have it, and they, if they wait for another lock, lend it on; who waits for a task's
//! end lends it to that task. What follows from all waits there are is worked out anew, under one lock of the runtime, when one begins of
//! which the waiter is of a higher level than an owner, and when one ends while somebody is boosted: so it is undone by a release, by a
//! cancelled wait and by a time limit in the same way. While all tasks are of one level, nothing is done at all.
//!
//! A task that waits in a queue when it is boosted gets a second entry, a [`Proxy`], in a queue of its new level; see
//! [`state`](crate::task::state) for which of the two counts.

use super::{
    mail::BOOST,
    schedule,
    shared::Shared,
    turn::Turn,
    worker::{Worker, release_memory},
};
use crate::{
    Priority,
    sync::waits::{self, Loan},
    task::{
        Task, TaskId,
        cell::{Header, VTable},
        state::{Change, Settled, State, Word},
        waker,
    },
};
use alloc::{
    alloc::{alloc, dealloc},
    vec::Vec,
};
use core::{
    alloc::Layout,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use hal::{irq, preempt};

/// Whether there ever was a task that is not of the usual level.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// There are tasks of several levels.
pub(crate) fn note_levels() {
    if !IS_USED.load(Relaxed) && !IS_USED.swap(true, Relaxed) {
        // Nobody has told those who wait of who has it now.
        waits::wake_all();
    }
}

/// Whether there may be.
#[inline]
pub(crate) fn is_used() -> bool {
    IS_USED.load(Relaxed)
}

/// What a runtime knows of it. Nearly always empty.
pub(crate) struct Inherited {
    boosted: Vec<Boosted>,
    /// Who waits for the end of a task of a lower level.
    joins: Vec<Loan>,
    /// Local tasks that are held back until another, of a lower level, has ended its poll; and on which core.
    held: Vec<(Loan, usize)>,
    /// Who has a lock with a ceiling, and that.
    ceilings: Vec<(TaskId, usize)>,
    /// Of all waits, while it is worked out.
    loans: Vec<Loan>,
}

struct Boosted {
    task: Task,
    level: usize,
}

impl Inherited {
    pub(super) const fn new() -> Self {
        Self {
            boosted: Vec::new(),
            joins: Vec::new(),
            held: Vec::new(),
            ceilings: Vec::new(),
            loans: Vec::new(),
        }
    }

    /// The runtime has ended.
    pub(super) fn forget(&mut self) {
        *self = Self::new();
    }

    /// The level that a task is to have, as far as that is worked out.
    fn level(&self, id: TaskId, shared: &Shared) -> usize {
        match self.boosted.iter().find(|boosted| boosted.task.id() == id) {
            Some(boosted) => boosted.level,
            None => shared.find(id).map_or(0, |task| base(&task)),
        }
    }

    /// Lends a level to a task. Whether it had a lower one.
    fn lend(&mut self, id: TaskId, level: usize, shared: &Shared) -> bool {
        if let Some(boosted) = self
            .boosted
            .iter_mut()
            .find(|boosted| boosted.task.id() == id)
        {
            let is_lower = boosted.level < level;
            boosted.level = boosted.level.max(level);
            return is_lower;
        }
        let Some(task) = shared.find(id).filter(|task| base(task) < level) else {
            return false;
        };
        if self.boosted.try_reserve(1).is_err() {
            // Without memory it stays as it is.
            return false;
        }
        self.boosted.push(Boosted { task, level });
        true
    }

    /// All who wait lend what they have.
    fn follow_loans(&mut self, shared: &Shared) {
        let mut loans = core::mem::take(&mut self.loans);
        let joins = core::mem::take(&mut self.joins);
        let held = core::mem::take(&mut self.held);
        if waits::loans(shared, &mut loans).is_ok() {
            // Each turn lends one step further, and levels only rise: it ends.
            loop {
                let mut is_lent = false;
                let held = held.iter().map(|(loan, _)| loan);
                for loan in loans.iter().chain(&joins).chain(held) {
                    let level = self.level(loan.from, shared).saturating_sub(loan.less);
                    is_lent |= self.lend(loan.to, level, shared);
                }
                if !is_lent {
                    break;
                }
            }
        }
        (self.loans, self.joins, self.held) = (loans, joins, held);
    }

    /// Works out who is of which level, and makes them so. Not in an interrupt, which allocates nothing: the next time, then.
    fn update(&mut self, shared: &Shared) {
        if irq::in_handler() {
            return;
        }
        // Before it looks at who waits: one whose wait ends while somebody is boosted for it, but none is said to be, would not
        // come here. It ends under the lock of a list that is looked at after this.
        shared.has_boosted.store(true, Relaxed);
        for boosted in &mut self.boosted {
            boosted.level = base(&boosted.task);
        }
        let is_live = |id| shared.find(id).is_some();
        self.joins
            .retain(|loan| is_live(loan.from) && is_live(loan.to));
        let mut ceilings = core::mem::take(&mut self.ceilings);
        ceilings.retain(|&(task, _)| is_live(task));
        for &(task, ceiling) in &ceilings {
            self.lend(task, ceiling, shared);
        }
        self.ceilings = ceilings;
        if shared.inherits.load(Relaxed) {
            self.follow_loans(shared);
        }
        for boosted in &self.boosted {
            set_level(&boosted.task, boosted.level);
        }
        self.boosted
            .retain(|boosted| boosted.level > base(&boosted.task));
        let is_any = !self.boosted.is_empty() || !self.ceilings.is_empty();
        shared.has_boosted.store(is_any, Relaxed);
    }
}

fn base(task: &Task) -> usize {
    task.header().state.now().base()
}

/// The runtime of a task.
fn home(header: &Header) -> &Shared {
    // SAFETY: a task's home lives as long as the task.
    unsafe { header.home.as_ref() }.shared()
}

/// The runtime that runs here, with interrupts let in: not in a handler.
fn current<'a>() -> Option<&'a Shared> {
    let guard = preempt::guard();
    // SAFETY: what runs on a worker's core is outlived by its runtime.
    Worker::here(&guard).map(|worker| unsafe { worker.shared.as_ref() })
}

/// The level of the task that runs here; the lowest if there is none.
pub(crate) fn level_here() -> usize {
    waker::current_header().map_or(0, |me| me.state.now().level())
}

/// Whether a policy of the user's own chooses who runs here.
pub(crate) fn has_policy() -> bool {
    current().is_some_and(Shared::has_policy)
}

impl Shared {
    /// From here on, who waits lends his priority, or does not.
    pub(crate) fn set_inheritance(&self, on: bool) {
        self.inherits.store(on, Relaxed);
        self.inherited.lock().update(self);
    }
}

/// The task that runs here has begun to wait for something that these have.
pub(crate) fn on_wait(mut owners: impl Iterator<Item = TaskId>) {
    let (Some(shared), Some(me)) = (current(), waker::current_header()) else {
        return;
    };
    let level = me.state.now().level();
    let is_lower = |owner: Task| owner.header().state.now().level() < level;
    if owners.any(|id| shared.find(id).is_some_and(is_lower)) {
        shared.inherited.lock().update(shared);
    }
}

/// Something was handed on to one who waits: others, who are more urgent, may wait behind him.
#[cold]
pub(crate) fn on_grant() {
    if let Some(shared) = current() {
        shared.inherited.lock().update(shared);
    }
}

/// A wait has ended, or something was released.
#[inline]
pub(crate) fn on_release() {
    if is_used() {
        released();
    }
}

#[cold]
fn released() {
    if let Some(shared) = current()
        && shared.has_boosted.load(Relaxed)
    {
        shared.inherited.lock().update(shared);
    }
}

/// The task that runs here waits for the end of another. Whether that is lent something.
#[cold]
pub(crate) fn on_join(joined: &Header, id: TaskId) -> bool {
    let (Some(shared), Some(me)) = (current(), waker::current_header()) else {
        return false;
    };
    if waker::has_ended() {
        // It has no id any more.
        return false;
    }
    if !ptr::eq(shared, home(joined)) {
        // Ids are of one runtime.
        return false;
    }
    let word = joined.state.now();
    let loan = Loan {
        from: me.id(),
        to: id,
        // What blocks stays behind what awaits.
        less: usize::from(word.is_background()),
    };
    // What others lend it may end before this wait does.
    if me.state.now().level() <= word.base() + loan.less {
        return false;
    }
    let mut all = shared.inherited.lock();
    if all.joins.try_reserve(1).is_err() {
        return false;
    }
    all.joins.push(loan);
    all.update(shared);
    true
}

/// It waits for that no more.
#[cold]
pub(crate) fn on_join_end(joined: &Header, id: TaskId) {
    let shared = home(joined);
    let mut all = shared.inherited.lock();
    if let Some(index) = all.joins.iter().position(|loan| loan.to == id) {
        all.joins.swap_remove(index);
    }
    all.update(shared);
}

/// This local task is not polled before that one's poll has ended.
#[cold]
pub(crate) fn on_held_back(held: &Header, holder: &Header) {
    let (shared, core) = (home(held), held.state.now().pinned_to().unwrap_or(0));
    let loan = Loan {
        from: held.id(),
        to: holder.id(),
        less: 0,
    };
    let mut all = shared.inherited.lock();
    if all.held.try_reserve(1).is_ok() {
        all.held.push((loan, core));
        all.update(shared);
    }
}

/// It has, on this core.
#[cold]
pub(crate) fn on_held_end(shared: &Shared, core: usize) {
    let mut all = shared.inherited.lock();
    all.held.retain(|&(_, of)| of != core);
    all.update(shared);
}

/// The task that runs here has a lock with this ceiling.
pub(crate) fn hold_ceiling(level: usize) -> Option<Task> {
    note_levels();
    let me = Task::try_current().filter(|_| !waker::has_ended())?;
    let shared = home(me.header());
    let mut all = shared.inherited.lock();
    all.ceilings.try_reserve(1).ok()?;
    all.ceilings.push((me.id(), level));
    all.update(shared);
    drop(all);
    Some(me)
}

/// It has it no more.
pub(crate) fn drop_ceiling(holder: &Task, level: usize) {
    let shared = home(holder.header());
    let mut all = shared.inherited.lock();
    if let Some(index) = all
        .ceilings
        .iter()
        .position(|&held| held == (holder.id(), level))
    {
        all.ceilings.swap_remove(index);
    }
    all.update(shared);
}

/// Makes a task of another level by itself.
pub(crate) fn set_base(task: &Task, level: usize) {
    note_levels();
    let header = task.header();
    let shared = home(header);
    let mut all = shared.inherited.lock();
    let now = header.state.now();
    if !now.is_boosted() {
        change(header, level, Some(level));
    } else {
        // What others lend it stays, and is worked out below.
        let _ = header.state.set_level(now.level(), Some(level));
    }
    all.update(shared);
}

fn set_level(task: &Task, level: usize) {
    change(task.header(), level, None);
}

/// Makes a task of a level, and its context, if it is in the middle of a poll that was left.
fn change(header: &Header, level: usize, base: Option<usize>) {
    let shared = home(header);
    let is_raised = header.state.now().level() < level;
    let follow_up = |header: &Header, change| {
        if !is_raised || shared.has_policy() {
            return;
        }
        match change {
            Change::Queued(word) => enter(header, word),
            // It may wait for somebody, and is to lend on what it was lent.
            Change::Parked => waker::wake_task(header),
            Change::Running | Change::Nothing => {}
        }
    };
    let changed = header.state.set_level(level, base);
    follow_up(header, changed);
    if changed != Change::Running {
        return;
    }
    // If it yields it looks at its mail first, and then at its level.
    for worker in shared.cores() {
        worker.post_mail(BOOST);
    }
    shared.contexts.each(|context| {
        if context.polls(header) {
            let changed = context.header().state.set_level(level, None);
            follow_up(context.header(), changed);
        }
    });
    // Or it has yielded before the mail came.
    let now = header.state.now();
    if now.is_queued() && !now.is_running() {
        follow_up(header, Change::Queued(now));
    }
}

/// Wakes whatever waits in the middle of a poll of this task.
pub(crate) fn wake_contexts_of(header: &Header) {
    let shared = home(header);
    // A policy of the user's own must not be called under a lock: then it hears of it when it goes on by itself.
    if shared.has_policy() {
        return;
    }
    shared.contexts.each(|context| {
        if context.polls(header) {
            waker::wake_task(context.header());
        }
    });
}

// ---- proxies ----

/// A second entry for something that waits in a queue.
#[repr(C)]
struct Proxy {
    /// First, as queues know only this.
    header: Header,
    /// Counted.
    target: NonNull<Header>,
}

static VTABLE: VTable = VTable::of_context(|_| unreachable!("a proxy is freed when it is served"));

/// Puts a second entry for this into a queue of its level. Without memory it waits for its first.
fn enter(target: &Header, word: Word) {
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc(Layout::new::<Proxy>()) }.cast::<Proxy>();
    let Some(proxy) = NonNull::new(memory) else {
        return;
    };
    target.state.retain();
    let header = Header::of_proxy(&VTABLE, State::of_proxy(word), target);
    // SAFETY: fresh memory of this layout.
    unsafe {
        proxy.write(Proxy {
            header,
            target: target.into(),
        });
        schedule(&proxy.as_ref().header, word);
    }
}

/// An entry of this, which may be boosted, counts again, but it is in a queue of a lower level. The caller has a reference.
#[cold]
pub(crate) fn requeued(header: &Header, word: Word) {
    // Not asked anew: another core may have it by now. There is no lower level than the lowest.
    if word.level() == Priority::Low as usize {
        return;
    }
    if irq::in_handler() || !irq::are_enabled() {
        // An interrupt allocates nothing.
        let shared = home(header);
        shared.cores()[0].post_mail(BOOST);
        shared.notify_core(0);
        return;
    }
    enter(header, word);
}

impl Worker {
    /// Some who are boosted may wait in a queue of a lower level.
    #[cold]
    pub(super) fn refresh_boosts(&self) {
        let shared = self.shared();
        if shared.has_policy() {
            return;
        }
        let all = shared.inherited.lock();
        for boosted in &all.boosted {
            let header = boosted.task.header();
            let look = |header: &Header| {
                let now = header.state.now();
                if now.is_queued() && !now.is_running() {
                    enter(header, now);
                }
            };
            look(header);
            shared.contexts.each(|context| {
                if context.polls(header) {
                    // It may have been left with a level that was lent before.
                    let _ = context.header().state.set_level(boosted.level, None);
                    look(context.header());
                }
            });
        }
    }

    /// A context came out of a queue here, but what was left in it belongs to another core.
    #[cold]
    pub(super) fn send_home(&self, header: &Header, core: usize) {
        if let Some(word) = header.state.put_off() {
            self.shared().cores()[core].post_from_afar(header.into(), word);
        }
    }

    /// An entry that does not count came out of a queue.
    #[cold]
    pub(super) fn drop_stale(header: &Header) -> Option<Word> {
        match header.state.settle() {
            Settled::Started(word) => return Some(word),
            Settled::Dropped => {}
            // SAFETY: that was the last reference, and this is the loop.
            Settled::Free => unsafe { release_memory(header.into()) },
        }
        None
    }

    /// A proxy came out of a queue: serves what it stands for, if nobody does.
    #[cold]
    pub(super) fn serve_proxy(header: &Header) -> Turn {
        // SAFETY: it is one, and came out of a queue: so it is ours.
        let target = unsafe { free_proxy(header) };
        // SAFETY: the proxy's reference keeps it.
        let target_header = unsafe { target.as_ref() };
        let claimed = target_header.state.claim();
        // What is claimed has its entry's reference.
        // SAFETY: it is ours.
        unsafe { waker::release(target_header) };
        if let Some(word) = claimed {
            Self::turn_with_care(target_header, word);
        }
        Turn::Over
    }

    /// The runtime has ended: what is left in queues does not count.
    pub(super) fn drop_entries(&self) {
        while let Some(entry) = self.take_any() {
            // SAFETY: it came out of a queue.
            let header = unsafe { entry.as_ref() };
            let started = header.state.start();
            if started.is_proxy() {
                // SAFETY: as in `serve_proxy`.
                unsafe { waker::release(free_proxy(header).as_ref()) };
            } else {
                let started = Self::drop_stale(header);
                debug_assert!(started.is_none(), "a task was left in a queue");
            }
        }
    }
}

/// # Safety
/// It is a proxy's, and the caller's.
unsafe fn free_proxy(header: &Header) -> NonNull<Header> {
    let proxy = NonNull::from(header).cast::<Proxy>();
    // SAFETY: the caller's promise; made by `enter` with this layout.
    unsafe {
        let target = proxy.as_ref().target;
        dealloc(proxy.as_ptr().cast(), Layout::new::<Proxy>());
        target
    }
}
