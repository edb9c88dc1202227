//! Who waits for whom: each wait for a lock is noted here as long as it lasts, in the future that waits.
//!
//! From a lock it is known who has it ([`owner`](super::owner)), but not from a task which locks it has. Whoever has to
//! know that looks at all waits. That is rare: when a task is lost, so that nobody waits for its locks for ever; when who
//! waits is of a higher priority than who has what he waits for; and when somebody looks for circles.
//!
//! A note must not lead to the lock. Futures can be forgotten: then the note stays for ever, and so does its memory, but what the future
//! has borrowed may be moved or dropped. So it says which lock it is for by a name that no other lock ever has, and has its own copy of
//! who has it. Who knows the lock brings that up to date: who waits, whenever he is polled; and, where there are several priorities, who
//! unlocks or is handed it. Whoever else wants to know wakes those who wait, and they look themselves.
//!
//! A poisoned lock stays locked, and refuses all who wait for it or come later; it is not handed on, because a
//! guard can be sent: perhaps somebody else has the lost task's, and uses it.

#[cfg(all(feature = "alloc", not(loom)))]
mod noted;
#[cfg(not(all(feature = "alloc", not(loom))))]
mod unnoted;

#[cfg(all(feature = "alloc", not(loom)))]
pub use noted::{Loan, Name, Wait, hand_on, loans, wake_all, wake_those};
#[cfg(not(all(feature = "alloc", not(loom))))]
pub use unnoted::{Name, Wait, hand_on};

#[cfg(all(feature = "alloc", not(loom)))]
use super::owner::Owner;
use super::{permits::Permits, poison::Poisoned, wait_list::Waiter};
use core::{mem::MaybeUninit, task::Context};

/// A lock, whatever it locks.
pub trait Lockable: Sync {
    /// What it gives to who locks it.
    fn permits(&self) -> &Permits;

    /// Its own.
    #[cfg(all(feature = "alloc", not(loom)))]
    fn name(&self) -> &Name;

    /// Those who may have it locked.
    #[cfg(all(feature = "alloc", not(loom)))]
    fn each_owner(&self, visit: &mut dyn FnMut(&Owner));

    /// Whether somebody may have it locked for long who is none of those.
    #[cfg(all(feature = "alloc", not(loom)))]
    fn has_strangers(&self) -> bool {
        false
    }

    /// Nobody has it any more, whoever had it.
    #[cfg(all(feature = "alloc", not(loom)))]
    fn forget_owners(&self);
}

/// What is noted of somebody who waits, in the future that waits.
pub trait Note: Sized {
    /// He waits from here on: he is in the list.
    ///
    /// # Safety
    /// It is pinned with the waiter, who waits for that lock; and neither is used for something else before [`end`](Self::end).
    unsafe fn begin(
        note: &mut MaybeUninit<Self>,
        lock: Option<&dyn Lockable>,
        waiter: &Waiter,
        cx: &Context<'_>,
    );

    /// He has looked, and still waits.
    ///
    /// # Safety
    /// It has begun, with this lock.
    unsafe fn go_on(note: &mut MaybeUninit<Self>, lock: Option<&dyn Lockable>, cx: &Context<'_>);

    /// He is about to give back what he has got: if he is lost after that, it is not poisoned.
    ///
    /// # Safety
    /// It has begun.
    unsafe fn give_up(note: &MaybeUninit<Self>);

    /// He waits no more; if he has what he waited for, that is known already.
    ///
    /// # Safety
    /// It has begun, with this lock, and is not used again.
    unsafe fn end(note: &mut MaybeUninit<Self>, lock: Option<&dyn Lockable>);
}

/// Nothing is noted.
impl Note for () {
    #[inline]
    unsafe fn begin(
        _: &mut MaybeUninit<Self>,
        _: Option<&dyn Lockable>,
        _: &Waiter,
        _: &Context<'_>,
    ) {
    }

    #[inline]
    unsafe fn go_on(_: &mut MaybeUninit<Self>, _: Option<&dyn Lockable>, _: &Context<'_>) {}

    #[inline]
    unsafe fn give_up(_: &MaybeUninit<Self>) {}

    #[inline]
    unsafe fn end(_: &mut MaybeUninit<Self>, _: Option<&dyn Lockable>) {}
}

/// Whether it refuses all, because one who had it locked is lost.
pub fn is_poisoned(lock: &dyn Lockable) -> bool {
    #[cfg(all(feature = "alloc", not(loom)))]
    if crate::scheduler::lost::is_any() && (noted::is_lost(lock) || noted::is_unseen(lock)) {
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
    {
        noted::see_to_lost(_lock);
        noted::forgive(_lock);
        _lock.permits().reopen(_permits, || _lock.forget_owners());
    }
}

/// Somebody wants a lock that is poisoned, and did not ask what to do then.
#[cold]
#[inline(never)]
pub fn refused(lock: Option<&dyn Lockable>, what: &'static str) -> ! {
    let poisoned = Poisoned::of(what);
    #[cfg(all(feature = "alloc", not(loom)))]
    if let Some(lock) = lock {
        lock.each_owner(&mut |owner| {
            let who = owner.get();
            if let (Some(id), Some(place)) = (who.id(), owner.place())
                && crate::scheduler::lost::is_lost(who.word())
            {
                panic!("{poisoned}: task {id}, which locked it{place}");
            }
        });
    }
    let _ = lock;
    panic!("{poisoned}")
}
