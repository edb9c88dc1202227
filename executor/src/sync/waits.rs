//! Who waits for whom: each wait for a lock is noted here as long as it lasts, in the future that waits.
//!
//! From a lock it is known who has it ([`owner`](super::owner)), but not from a task which locks it has. Whoever has to
//! know that looks at all waits. That is rare: when a task is lost, its locks are poisoned, so that nobody waits for
//! them for ever; and when who waits is of a higher priority than who has what he waits for.
//!
//! A poisoned lock stays locked, and refuses all who wait for it or come later; it is not handed on, because a
//! guard can be sent: perhaps somebody else has the lost task's, and uses it.

#[cfg(all(feature = "alloc", not(loom)))]
pub use noted::{Loan, Wait, end_waits_of, granted, loans, poison_locks_of};
#[cfg(not(all(feature = "alloc", not(loom))))]
pub use unnoted::Wait;

#[cfg(all(feature = "alloc", not(loom)))]
use super::owner::Owner;
use super::{permits::Permits, poison::Poisoned};
use core::mem::MaybeUninit;

/// A lock, whatever it locks.
pub trait Lockable: Sync {
    /// What it gives to who locks it.
    fn permits(&self) -> &Permits;

    /// Those who may have it locked.
    #[cfg(all(feature = "alloc", not(loom)))]
    fn each_owner(&self, visit: &mut dyn FnMut(&Owner));
}

/// What is noted of a wait; nothing is there before it begins.
pub type Note = MaybeUninit<Wait>;

#[cfg(all(feature = "alloc", not(loom)))]
mod noted {
    use super::{Lockable, Note};
    use crate::{
        queue::Padded,
        scheduler::{inherit, lost, shared::Shared, worker::Worker},
        sync::{
            owner::{Owner, Who},
            permits::Permits,
            wait_list::{Waiter, Woken},
        },
        task::TaskId,
    };
    use alloc::{collections::TryReserveError, vec::Vec};
    use core::{
        cell::Cell,
        marker::PhantomPinned,
        pin::Pin,
        ptr::{self, NonNull},
    };
    use hal::sync::{Lock, Rank, ranked};

    /// One wait. In a list from [`begin`](Self::begin) to [`end`](Self::end), whose lock guards the links.
    pub struct Wait {
        next: Cell<*const Wait>,
        previous: Cell<*const Wait>,
        list: usize,
        waiter: Who,
        /// That of the waiter; null: none runs there.
        runtime: *const Shared,
        /// It has got it, and has not seen that yet. Guarded as the links.
        is_granted: Cell<bool>,
        lock: NonNull<dyn Lockable>,
        /// In the list of that, and how many permits it asks for.
        place: (NonNull<Waiter>, usize),
        _pinned: PhantomPinned,
    }

    // SAFETY: one in no list is just its content; one in a list is pinned, and the list's lock guards its links. The lock
    // that it is for is only looked at in ways that any core may.
    unsafe impl Send for Wait {}
    // SAFETY: as above.
    unsafe impl Sync for Wait {}

    /// The first of a list.
    struct First(*const Wait);

    // SAFETY: what it leads to is touched under its lock.
    unsafe impl Send for First {}

    /// So that cores are seldom in each other's way. A wait stays in the one in which it began.
    const LISTS: usize = 8;
    static WAITS: [Padded<Lock<First>>; LISTS] =
        [const { Padded(ranked(Rank::Waits, First(ptr::null()))) }; LISTS];

    impl Wait {
        /// The task that runs here is about to wait for this lock. It looks at the permits after this: so either it sees
        /// them closed, or who closes them sees it.
        ///
        /// # Safety
        /// `note` is pinned, and neither it nor the lock goes away before [`end`](Self::end).
        pub unsafe fn begin<L: Lockable + 'static>(
            note: &mut Note,
            lock: &L,
            waiter: NonNull<Waiter>,
            count: usize,
        ) {
            let list = hal::cores::this_core() % LISTS;
            let runtime = {
                let guard = hal::preempt::guard();
                Worker::here(&guard).map_or(ptr::null(), |here| here.shared())
            };
            let wait = note.write(Self {
                next: Cell::new(ptr::null()),
                previous: Cell::new(ptr::null()),
                list,
                waiter: Who::here(),
                runtime,
                is_granted: Cell::new(false),
                lock: NonNull::from(lock as &dyn Lockable),
                place: (waiter, count),
                _pinned: PhantomPinned,
            });
            {
                let mut first = WAITS[list].0.lock();
                wait.next.set(first.0);
                // SAFETY: null, or in the list, whose lock is held.
                if let Some(next) = unsafe { first.0.as_ref() } {
                    next.previous.set(wait);
                }
                first.0 = wait;
            }
            // Who was lost before that has looked in vain; the list's lock orders his mark before this.
            if lost::is_any() && is_lost(lock) {
                refuse_all(lock);
            }
            if inherit::is_used() {
                inherit::on_wait(|visit| {
                    each_id(lock, visit);
                    // Who was handed it has it, though he has not looked yet.
                    Wait::each(|wait, other| {
                        if wait.is_granted.get() && ptr::eq(other.permits(), lock.permits()) {
                            _ = wait.waiter.id().map(&mut *visit);
                        }
                        true
                    });
                });
            }
        }

        /// The wait is over.
        ///
        /// # Safety
        /// It has begun, and is not used again.
        pub unsafe fn end(note: &mut Note) {
            // SAFETY: the caller's promise.
            let wait = unsafe { note.assume_init_ref() };
            let mut first = WAITS[wait.list].0.lock();
            wait.unlink(&mut first);
            drop(first);
            inherit::on_release();
        }

        /// Takes it out of its list, whose lock is held.
        fn unlink(&self, first: &mut First) {
            let (next, previous) = (self.next.get(), self.previous.get());
            // SAFETY: null, or in the list, whose lock is held.
            unsafe {
                match previous.as_ref() {
                    Some(previous) => previous.next.set(next),
                    None => first.0 = next,
                }
                if let Some(next) = next.as_ref() {
                    next.previous.set(previous);
                }
            }
        }

        /// Visits each wait there is, under the lock of its list; until one says no.
        fn each(mut visit: impl FnMut(&Self, &dyn Lockable) -> bool) {
            for list in &WAITS {
                let first = list.0.lock();
                let mut next = first.0;
                // SAFETY: null, or in the list, whose lock is held.
                while let Some(wait) = unsafe { next.as_ref() } {
                    // SAFETY: the lock is there as long as the wait.
                    if !visit(wait, unsafe { wait.lock.as_ref() }) {
                        return;
                    }
                    next = wait.next.get();
                }
            }
        }
    }

    fn each_id(lock: &dyn Lockable, visit: &mut dyn FnMut(TaskId)) {
        lock.each_owner(&mut |owner| _ = owner.get().id().map(&mut *visit));
    }

    /// Who waits, and for whom.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct Loan {
        pub from: TaskId,
        pub to: TaskId,
        /// It lends so many levels less than it has.
        pub less: usize,
    }

    /// So many locks, at most, of those that were just handed on are looked at.
    const GRANTS: usize = 16;

    /// All of a runtime who wait for somebody, and for whom. Each wait is looked at once, but they go on meanwhile.
    pub fn loans(runtime: &Shared, loans: &mut Vec<Loan>) -> Result<(), TryReserveError> {
        loop {
            loans.clear();
            let (mut missed, mut grants) = (0, 0);
            let mut granted = [(ptr::null(), Who::NOBODY); GRANTS];
            let is_its = |wait: &Wait| ptr::eq(wait.runtime, runtime);
            Wait::each(|wait, lock| {
                if is_its(wait) && wait.is_granted.get() && grants < GRANTS {
                    granted[grants] = (ptr::from_ref(lock.permits()), wait.waiter);
                    grants += 1;
                }
                true
            });
            Wait::each(|wait, lock| {
                let Some(from) = wait.waiter.id().filter(|_| is_its(wait)) else {
                    return true;
                };
                let mut lend = |to| match loans.len() < loans.capacity() {
                    _ if from == to => {}
                    true => loans.push(Loan { from, to, less: 0 }),
                    false => missed += 1,
                };
                each_id(lock, &mut lend);
                // Who was handed it has it, though he has not looked yet.
                for (permits, who) in &granted[..grants] {
                    if ptr::eq(*permits, lock.permits()) {
                        _ = who.id().map(&mut lend);
                    }
                }
                true
            });
            if missed == 0 {
                return Ok(());
            }
            loans.try_reserve(loans.capacity() + missed)?;
        }
    }

    /// Those who are about to be woken have got what they wait for, of these permits.
    #[cold]
    pub fn granted(permits: &Permits, woken: &Woken) {
        for id in woken.ids() {
            Wait::each(|wait, lock| {
                let is_it = ptr::eq(lock.permits(), permits) && wait.waiter.id() == Some(id);
                if is_it {
                    wait.is_granted.set(true);
                }
                !is_it
            });
        }
        inherit::on_grant();
    }

    /// Whether one who has it is lost.
    pub(super) fn is_lost(lock: &dyn Lockable) -> bool {
        let mut is_lost = false;
        lock.each_owner(&mut |owner: &Owner| {
            let who = owner.get();
            // Asked again: who has unlocked it meanwhile may be lost for another reason.
            is_lost |= who.id().is_some_and(lost::is_lost) && owner.get() == who;
        });
        is_lost
    }

    /// Refuses all who wait for it, or will, as long as one who has it is lost.
    fn refuse_all(lock: &dyn Lockable) {
        loop {
            let mut woken = Woken::new();
            let is_all = lock.permits().refuse(&mut woken, || is_lost(lock));
            woken.wake();
            if is_all {
                return;
            }
        }
    }

    /// This task is lost: it waits for nothing any more, and what it was just handed goes to the next.
    pub fn end_waits_of(task: TaskId, runtime: &Shared) {
        loop {
            let mut found = None;
            for list in &WAITS {
                let mut first = list.0.lock();
                let mut next = first.0;
                // SAFETY: null, or in the list, whose lock is held.
                while let Some(wait) = unsafe { next.as_ref() } {
                    if wait.waiter.id() == Some(task) && ptr::eq(wait.runtime, runtime) {
                        wait.unlink(&mut first);
                        found = Some((wait.lock, wait.place));
                        break;
                    }
                    next = wait.next.get();
                }
                if found.is_some() {
                    break;
                }
            }
            let Some((lock, (mut waiter, count))) = found else {
                return;
            };
            // SAFETY: what the lost task has stays where it is for ever, and nobody else is at it; the lock is there, as the
            // task has not ended yet.
            unsafe {
                if waiter.as_ref().is_waiting() {
                    let waiter = Pin::new_unchecked(waiter.as_mut());
                    lock.as_ref().permits().leave(waiter, count);
                }
            }
        }
    }

    /// This task is lost, and marked as such: who waits for what it has locked is refused.
    pub fn poison_locks_of(task: TaskId) {
        loop {
            let mut woken = Woken::new();
            let mut is_all = true;
            Wait::each(|_, lock| {
                let mut is_its = false;
                lock.each_owner(&mut |owner| is_its |= owner.get().id() == Some(task));
                if is_its {
                    is_all &= lock.permits().refuse(&mut woken, || is_lost(lock));
                }
                is_all
            });
            woken.wake();
            if is_all {
                return;
            }
        }
    }
}

#[cfg(not(all(feature = "alloc", not(loom))))]
mod unnoted {
    use super::{Lockable, Note};
    use crate::sync::wait_list::Waiter;
    use core::ptr::NonNull;

    /// Nothing is noted.
    pub struct Wait;

    impl Wait {
        /// # Safety
        /// None is needed.
        #[inline]
        pub unsafe fn begin<L: Lockable>(_: &mut Note, lock: &L, _: NonNull<Waiter>, _: usize) {
            let _ = lock.permits();
        }

        /// # Safety
        /// None is needed.
        #[inline]
        pub unsafe fn end(_: &mut Note) {}
    }
}

/// Whether it refuses all, because one who had it locked is lost.
pub fn is_poisoned(lock: &dyn Lockable) -> bool {
    #[cfg(all(feature = "alloc", not(loom)))]
    if crate::scheduler::lost::is_any() && noted::is_lost(lock) {
        return true;
    }
    lock.permits().is_closed()
}

/// Unlocks it for whoever comes next.
///
/// # Safety
/// Nobody uses a guard of it.
pub unsafe fn clear_poison(_lock: &dyn Lockable, _permits: usize) {
    // Where nobody is known, nobody is lost.
    #[cfg(all(feature = "alloc", not(loom)))]
    _lock.permits().reopen(_permits, || {
        _lock.each_owner(&mut |owner| owner.clear());
    });
}

/// Somebody wants a lock that is poisoned, and did not ask what to do then.
#[cold]
#[inline(never)]
pub fn refused(lock: Option<&dyn Lockable>, what: &'static str) -> ! {
    let poisoned = Poisoned::of(what);
    #[cfg(all(feature = "alloc", not(loom)))]
    if let Some(lock) = lock {
        lock.each_owner(&mut |owner| {
            if let (Some(id), Some(place)) = (owner.get().id(), owner.place())
                && crate::scheduler::lost::is_lost(id)
            {
                panic!("{poisoned}: task {id}, which locked it{place}");
            }
        });
    }
    let _ = lock;
    panic!("{poisoned}")
}
