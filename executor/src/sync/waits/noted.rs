//! The notes, where there are tasks.

use super::{Lockable, Note};
use crate::{
    queue::Padded,
    scheduler::{inherit, lost, shared::Shared},
    shim::discard,
    sync::{
        owner::{OWNERS, Owner, Poller, Who},
        permits::GRANTED,
        wait_list::{Node, Waiter, Woken},
    },
    task::TaskId,
};
use alloc::{collections::TryReserveError, vec::Vec};
use core::{
    cell::Cell,
    marker::PhantomPinned,
    mem::MaybeUninit,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU64, Ordering::*},
    task::{Context, Waker},
};
use hal::sync::{Lock, Rank, ranked};

/// What a lock is called in notes: nothing, until somebody waits for it.
pub struct Name(AtomicU64);

impl Name {
    pub const fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    fn get(&self) -> u64 {
        match self.0.load(Relaxed) {
            0 => self.give(),
            name => name,
        }
    }

    #[cold]
    fn give(&self) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let name = LAST.fetch_add(1, Relaxed) + 1;
        match self.0.compare_exchange(0, name, Relaxed, Relaxed) {
            Ok(_) => name,
            Err(given) => given,
        }
    }
}

/// One wait. In a list from [`begin`](Note::begin) to [`end`](Note::end); if its future is forgotten, or its task lost, for longer.
pub struct Wait {
    // Written before it is in the list:
    lock: u64,
    /// Where its answer will be: as long as this.
    node: NonNull<Node>,

    // Guarded by the list's lock:
    next: Cell<*const Wait>,
    previous: Cell<*const Wait>,
    /// Who has polled it last.
    waiter: Cell<Poller>,
    /// The level of that, as far as is known: who is lent another looks again.
    level: Cell<usize>,
    /// Who has what it waits for, as far as is known.
    owners: Cell<[Who; OWNERS]>,
    /// Whom to wake to look again. None: was woken for that.
    waker: Cell<Option<Waker>>,
    /// The last call to look again that it has heard.
    round: Cell<u64>,
    /// That its task was lost when it had been handed the lock does not count any more.
    is_forgiven: Cell<bool>,

    /// How often it has looked for an owner and found none. For who waits.
    looks: u32,
    _pinned: PhantomPinned,
}

// SAFETY: one in no list is just its content; one in a list is pinned, and the list's lock guards what changes.
unsafe impl Send for Wait {}
// SAFETY: as above.
unsafe impl Sync for Wait {}

/// The first of a list.
struct List(*const Wait);

// SAFETY: what it leads to is touched under its lock.
unsafe impl Send for List {}

impl List {
    fn each(&self) -> impl Iterator<Item = &Wait> {
        let mut next = self.0;
        core::iter::from_fn(move || {
            // SAFETY: null, or in the list, whose lock is held as long as this is borrowed.
            let wait = unsafe { next.as_ref() }?;
            next = wait.next.get();
            Some(wait)
        })
    }

    fn push(&mut self, wait: &Wait) {
        wait.next.set(self.0);
        // SAFETY: null, or in the list, whose lock is held.
        if let Some(next) = unsafe { self.0.as_ref() } {
            next.previous.set(wait);
        }
        self.0 = wait;
    }

    fn remove(&mut self, wait: &Wait) {
        let (next, previous) = (wait.next.get(), wait.previous.get());
        // SAFETY: null, or in the list, whose lock is held.
        unsafe {
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => self.0 = next,
            }
            if let Some(next) = next.as_ref() {
                next.previous.set(previous);
            }
        }
    }
}

/// So that locks are seldom in each other's way. All who wait for one are in the same.
const LISTS: usize = 16;
static WAITS: [Padded<Lock<List>>; LISTS] =
    [const { Padded(ranked(Rank::Waits, List(ptr::null()))) }; LISTS];

fn list_of(lock: u64) -> &'static Lock<List> {
    &WAITS[lock as usize % LISTS].0
}

/// So many at once, at most, of those who were just handed a lock count as having it.
const GRANTS: usize = 16;

/// How often one who sees no owner looks again, if it could be that there will be none: for some milliseconds.
const LOOKS: u32 = 100_000;

impl Wait {
    /// It has got it, and has not seen that yet.
    fn is_granted(&self) -> bool {
        // SAFETY: it is there as long as this.
        unsafe { self.node.as_ref() }.answer() == Some(GRANTED)
    }

    /// It has got that lock, but was lost before it saw that.
    fn is_unseen(&self, lock: u64) -> bool {
        let is_its = self.lock == lock && !self.is_forgiven.get();
        is_its && self.is_granted() && self.waiter.get().is_lost()
    }

    /// Who polls is woken to look again, and waits.
    fn set_waker(&self, cx: &Context<'_>) {
        // Foreign code, so without the lock.
        let waker = cx.waker().clone();
        let before = {
            let _list = list_of(self.lock).lock();
            self.waiter.set(Poller::here());
            self.level.set(inherit::level_here());
            self.waker.replace(Some(waker))
        };
        discard(before);
    }

    /// Looks who has it, and lends them what they need.
    fn look(&mut self, lock: &dyn Lockable, cx: &Context<'_>) {
        let mut granted = [Who::NOBODY; GRANTS];
        let owners = {
            let list = list_of(self.lock).lock();
            // Under the lock: what others have told meanwhile is no older than this.
            let owners = owners(lock);
            self.owners.set(owners);
            if inherit::is_used() {
                let others = list
                    .each()
                    .filter(|other| other.lock == self.lock && other.is_granted());
                granted
                    .iter_mut()
                    .zip(others)
                    .for_each(|(who, other)| *who = other.waiter.get().who);
            }
            owners
        };
        if lost::is_any() {
            see_to_lost(lock);
        }
        if !inherit::is_used() {
            return;
        }
        let known = || owners.iter().chain(&granted);
        inherit::on_wait(known().filter_map(|who| who.id()));
        if known().all(|&who| who == Who::NOBODY) && self.may_look_again(lock) {
            cx.waker().wake_by_ref();
        }
    }

    /// Nobody is seen who has it. That is so for a few instructions after locking and before unlocking, but who is about to do them may
    /// be preempted there, or his core not be run by its host: so it ends, but nobody knows how soon. Who is lost there, and readers
    /// who are only counted, will not be seen at all; nor one that a policy of the user's own never lets run before who waits here.
    #[cold]
    fn may_look_again(&mut self, lock: &dyn Lockable) -> bool {
        if lock.has_strangers() {
            return false;
        }
        self.looks = self.looks.saturating_add(1);
        self.looks <= LOOKS || !(lost::is_any() || inherit::has_policy())
    }
}

fn owners(lock: &dyn Lockable) -> [Who; OWNERS] {
    let mut owners = [Who::NOBODY; OWNERS];
    let mut count = 0;
    lock.each_owner(&mut |owner| {
        owners[count] = owner.get();
        count += 1;
    });
    owners
}

impl Note for Wait {
    unsafe fn begin(
        note: &mut MaybeUninit<Self>,
        lock: Option<&dyn Lockable>,
        waiter: &Waiter,
        cx: &Context<'_>,
    ) {
        let Some(lock) = lock else { unreachable!() };
        let wait = note.write(Self {
            lock: lock.name().get(),
            node: waiter.node(),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            waiter: Cell::new(Poller::NONE),
            level: Cell::new(0),
            owners: Cell::new([Who::NOBODY; OWNERS]),
            waker: Cell::new(None),
            // Who begins after a call looks after it.
            // Acquire pairs with the release in `wake_if`: and so it sees what that was for.
            round: Cell::new(ROUNDS.load(Acquire)),
            is_forgiven: Cell::new(false),
            looks: 0,
            _pinned: PhantomPinned,
        });
        list_of(wait.lock).lock().push(wait);
        wait.set_waker(cx);
        // Whoever is lost after this wakes it; who was before has marked himself before he looked at the list.
        wait.look(lock, cx);
    }

    unsafe fn go_on(note: &mut MaybeUninit<Self>, lock: Option<&dyn Lockable>, cx: &Context<'_>) {
        let Some(lock) = lock else { unreachable!() };
        // SAFETY: the caller's promise.
        let wait = unsafe { note.assume_init_mut() };
        wait.set_waker(cx);
        wait.look(lock, cx);
    }

    unsafe fn give_up(note: &MaybeUninit<Self>) {
        // SAFETY: the caller's promise.
        let wait = unsafe { note.assume_init_ref() };
        let _list = list_of(wait.lock).lock();
        wait.is_forgiven.set(true);
    }

    unsafe fn end(note: &mut MaybeUninit<Self>, lock: Option<&dyn Lockable>) {
        let Some(lock) = lock else { unreachable!() };
        // SAFETY: the caller's promise.
        let wait = unsafe { note.assume_init_ref() };
        let waker = {
            let mut list = list_of(wait.lock).lock();
            list.remove(wait);
            wait.waker.take()
        };
        discard(waker);
        if inherit::is_used() {
            match tell_owners(lock, Some(wait.level.get())) {
                true => inherit::on_grant(),
                false => inherit::on_release(),
            }
        }
    }
}

/// Tells all who wait for this who has it. Whether one of them is more urgent than one who has it now: one of level `has`, or who was just
/// handed it.
fn tell_owners(lock: &dyn Lockable, has: Option<usize>) -> bool {
    let name = lock.name().get();
    let list = list_of(name).lock();
    let owners = owners(lock);
    let (mut highest, mut lowest) = (0, has.unwrap_or(usize::MAX));
    for wait in list.each().filter(|wait| wait.lock == name) {
        wait.owners.set(owners);
        match wait.is_granted() {
            true => lowest = lowest.min(wait.level.get()),
            false => highest = highest.max(wait.level.get()),
        }
    }
    highest > lowest
}

/// It was unlocked, and somebody waits.
#[cold]
#[inline(never)]
pub fn hand_on(lock: &dyn Lockable) {
    lock.permits().hand_out(|| {
        if inherit::is_used() {
            // Those who were woken may be of a lower priority than others who wait.
            match tell_owners(lock, None) {
                true => inherit::on_grant(),
                false => inherit::on_release(),
            }
        }
    });
}

/// Who waits, and for whom.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Loan {
    pub from: TaskId,
    pub to: TaskId,
    /// It lends so many levels less than it has.
    pub less: usize,
}

/// All of a runtime who wait for somebody, and for whom. Each wait is looked at once, but they go on meanwhile.
pub fn loans(runtime: &Shared, loans: &mut Vec<Loan>) -> Result<(), TryReserveError> {
    loop {
        loans.clear();
        let mut missed = 0;
        for list in &WAITS {
            let list = list.0.lock();
            let its = || {
                list.each()
                    .filter(|wait| ptr::eq(wait.waiter.get().runtime, runtime))
            };
            let mut granted = [(0, Who::NOBODY); GRANTS];
            granted
                .iter_mut()
                .zip(its().filter(|wait| wait.is_granted()))
                .for_each(|(known, wait)| *known = (wait.lock, wait.waiter.get().who));
            let waits = |wait: &&Wait| !wait.is_granted() && !wait.waiter.get().is_lost();
            for wait in its().filter(waits) {
                let Some(from) = wait.waiter.get().who.id() else {
                    continue;
                };
                let mut lend = |to: Who| match to.id() {
                    None => {}
                    Some(to) if from == to => {}
                    Some(to) if loans.len() < loans.capacity() => {
                        loans.push(Loan { from, to, less: 0 });
                    }
                    Some(_) => missed += 1,
                };
                wait.owners.get().into_iter().for_each(&mut lend);
                // Who was handed it has it, though he has not looked yet.
                let its_granted = granted.iter().filter(|(lock, _)| *lock == wait.lock);
                its_granted.for_each(|(_, who)| lend(*who));
            }
        }
        if missed == 0 {
            return Ok(());
        }
        loans.try_reserve(loans.capacity() + missed)?;
    }
}

/// Wakes all who wait, so that they look themselves.
pub fn wake_all() {
    wake_if(|_| true);
}

/// Wakes those of these tasks who wait.
pub fn wake_those(tasks: &[TaskId], runtime: &Shared) {
    wake_if(|wait| {
        let waiter = wait.waiter.get();
        ptr::eq(waiter.runtime, runtime) && waiter.who.id().is_some_and(|id| tasks.contains(&id))
    });
}

/// Calls to look again, so far.
static ROUNDS: AtomicU64 = AtomicU64::new(0);

fn wake_if(is_meant: impl Fn(&Wait) -> bool) {
    // Release pairs with the acquire in `begin`; acquire: who is woken by this sees what earlier rounds were for.
    let round = ROUNDS.fetch_add(1, AcqRel) + 1;
    for list in &WAITS {
        loop {
            let mut woken = Woken::new();
            let list = list.0.lock();
            // One that has looked since, and waits again, is not woken again.
            let is_next = |wait: &&Wait| wait.round.get() < round && is_meant(wait);
            for wait in list.each().filter(is_next) {
                if woken.is_full() {
                    break;
                }
                wait.round.set(round);
                woken.push(wait.waker.take());
            }
            drop(list);
            let is_all = !woken.is_full();
            woken.wake();
            if is_all {
                break;
            }
        }
    }
}

/// Whether one who has it is lost.
pub(super) fn is_lost(lock: &dyn Lockable) -> bool {
    let mut is_lost = false;
    lock.each_owner(&mut |owner: &Owner| {
        let who = owner.get();
        // Asked again: who has unlocked it meanwhile may be lost for another reason.
        is_lost |= lost::is_lost(who.word()) && owner.get() == who;
    });
    is_lost
}

/// Whether one who was handed it was lost before he saw that. It is not handed on: perhaps he had sent his future to somebody else.
pub(super) fn is_unseen(lock: &dyn Lockable) -> bool {
    let name = lock.name().get();
    let list = list_of(name).lock();
    list.each().any(|wait| wait.is_unseen(name))
}

/// What was so does not count any more.
pub(super) fn forgive(lock: &dyn Lockable) {
    let name = lock.name().get();
    let list = list_of(name).lock();
    let unseen = list.each().filter(|wait| wait.is_unseen(name));
    unseen.for_each(|wait| wait.is_forgiven.set(true));
}

/// Somebody waits for this, and somebody is lost: perhaps who has it.
#[cold]
pub(super) fn see_to_lost(lock: &dyn Lockable) {
    // Whoever hands it out, and has not seen that, has done so after this; who does so later sees it.
    lock.permits().settle();
    loop {
        let mut woken = Woken::new();
        let name = lock.name().get();
        let list = list_of(name).lock();
        // As long as that is so.
        let is_unseen = list.each().any(|wait| wait.is_unseen(name));
        let refuse = || is_unseen || is_lost(lock);
        let is_all = lock.permits().refuse(&mut woken, refuse);
        drop(list);
        woken.wake();
        if is_all {
            break;
        }
    }
    // Perhaps who gave something back was lost before he handed it out.
    hand_on(lock);
}
