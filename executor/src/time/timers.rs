//! The timers of one core: its wheel behind a lock, and what firing one means.
//!
//! A [`Node`] lives pinned in whatever waits for it. Who may touch it:
//!
//! | what | guarded by |
//! |---|---|
//! | links, deadline, waker | the lock of the [`Timers`] it is registered at |
//! | `fired` | atomic: set under the lock, read without it |
//!
//! To fire is to take the node off the wheel, take its waker out, and set
//! `fired`, in this order, under the lock. Setting it is the last touch: whoever
//! reads it as set has the node to himself and needs the lock no more. Whoever
//! finds it not set takes the lock, and then either the node is still on the
//! wheel, or it fired just before and its waker was or will be woken. So after
//! `cancel` nobody touches the node.
//!
//! The lock masks interrupts, and any core may take it to cancel. It is held
//! for a bounded few entries at a time. No foreign code runs under it: wakers are
//! cloned before, woken and dropped after, and the wheel is allocated outside.

use super::{
    list::Entry,
    wheel::{NEVER, Wheel},
};
use crate::{
    NoMemory,
    shim::{Lock, UnsafeCell, discard, wake},
};
use alloc::boxed::Box;
use core::{array, mem, pin::Pin, ptr::NonNull, task::Waker};
use hal::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// How many entries are touched each time the lock is taken, at most.
const BATCH: usize = if cfg!(loom) { 2 } else { 32 };

/// What waits in the wheel.
pub type Node = Entry<Alarm>;

/// The node's own part.
pub struct Alarm {
    /// Whom to wake. Guarded by the lock.
    waker: UnsafeCell<Option<Waker>>,
    /// Whether it has fired. Written under the lock, or by the owner while it is not registered.
    fired: AtomicBool,
}

// SAFETY: the waker is touched under the lock, or by the owner when nobody else can.
unsafe impl Sync for Alarm {}

impl Alarm {
    /// Puts another waker in its place.
    ///
    /// # Safety
    /// The lock is held; or the node is not registered, and this is its owner.
    unsafe fn replace_waker(&self, new: Option<Waker>) -> Option<Waker> {
        // SAFETY: nobody else touches it, by the caller's promise.
        self.waker
            .with_mut(|old| unsafe { mem::replace(&mut *old, new) })
    }

    /// Whether firing wakes `waker`.
    ///
    /// # Safety
    /// The lock is held.
    unsafe fn wakes(&self, waker: &Waker) -> bool {
        self.waker.with(|own| {
            // SAFETY: nobody changes it, by the caller's promise.
            let own = unsafe { &*own };
            own.as_ref().is_some_and(|own| own.will_wake(waker))
        })
    }
}

impl Node {
    /// A node that is not registered.
    pub fn idle() -> Self {
        Self::new(Alarm {
            waker: UnsafeCell::new(None),
            fired: AtomicBool::new(false),
        })
    }

    /// Whether it has fired; if so, nobody but its owner touches it any more.
    #[inline]
    pub fn has_fired(&self) -> bool {
        let order = if cfg!(seeded = "timer_fired_read_relaxed") {
            Relaxed
        } else {
            // Pairs with the release in `Timers::fire`.
            Acquire
        };
        self.value.fired.load(order)
    }

    /// Says whether it counts as fired. For its owner, while it is not registered.
    pub fn set_fired(&self, fired: bool) {
        self.value.fired.store(fired, Relaxed);
    }

    /// Uses its memory for something else: loom finds out if anybody still looks.
    #[cfg(loom)]
    pub fn overwrite_all(&self) {
        self.overwrite();
        // SAFETY: the caller says that it is not registered; loom checks it.
        drop(unsafe { self.value.replace_waker(None) });
    }
}

/// The timers of one core.
pub struct Timers {
    /// Made when it is first needed: a core without timers has no wheel.
    wheel: Lock<Option<Box<Wheel<Alarm>>>>,
    /// When there is something to do. Written under the lock, read by anyone.
    /// Relaxed everywhere: it says when to come and look, nothing depends on it.
    next: AtomicU64,
    /// Those without a node.
    #[cfg(feature = "embassy-time")]
    wakes: super::wakes::Wakes,
}

/// What became of a node that was to be moved.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Moved {
    /// It fired before; nothing was changed.
    HasFired,
    /// It was moved.
    Later,
    /// It was moved and is the earliest now: the hardware is to be armed.
    Earliest,
}

#[allow(clippy::new_without_default, reason = "a core's timers are made once")]
impl Timers {
    /// No timers yet, and no memory for any.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            wheel: Lock::new(None),
            next: AtomicU64::new(NEVER),
            #[cfg(feature = "embassy-time")]
            wakes: super::wakes::Wakes::new(),
        }
    }

    /// No timers yet, and no memory for any.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            wheel: Lock::new(None),
            next: AtomicU64::new(NEVER),
        }
    }

    /// When [`expire`](Self::expire) has something to do; [`NEVER`]: nothing is registered.
    #[inline]
    pub fn next(&self) -> u64 {
        let next = self.next.load(Relaxed);
        #[cfg(feature = "embassy-time")]
        let next = next.min(self.wakes.next());
        next
    }

    /// Wakes the waker at that moment, without a node. True: it is the earliest now,
    /// and the hardware is to be armed.
    #[cfg(feature = "embassy-time")]
    pub fn wake_at(&self, at: u64, waker: &Waker) -> bool {
        self.wakes.schedule(at, waker) && at < self.next.load(Relaxed)
    }

    /// Forgets the wakers without a node: a runtime that has ended wakes nobody, and the
    /// tasks that they refer to would keep it.
    #[cfg(feature = "embassy-time")]
    pub fn forget_wakes(&self) {
        self.wakes.forget();
    }

    /// Whether it has memory for timers.
    #[cfg(test)]
    pub fn has_wheel(&self) -> bool {
        self.wheel.lock().is_some()
    }

    /// Registers a node. True: it is the earliest now, and the hardware is to be armed. Err: there is no memory, and it
    /// is not registered.
    ///
    /// # Safety
    /// 1. The node is registered nowhere and has not fired.
    /// 2. Until it has fired or was cancelled here, it is used with these timers only, and not dropped.
    pub unsafe fn register(
        &self,
        node: Pin<&Node>,
        deadline: u64,
        waker: Waker,
    ) -> Result<bool, NoMemory> {
        debug_assert!(!node.has_fired());
        // Outlives the lock: if another core was faster, it is freed after unlocking.
        let mut spare = None;
        loop {
            let mut locked = self.wheel.lock();
            if locked.is_none() {
                *locked = spare.take();
            }
            let Some(wheel) = &mut *locked else {
                drop(locked);
                spare = Some(Wheel::try_new().ok_or(NoMemory)?);
                continue;
            };
            // SAFETY: the lock is held.
            let old = unsafe { node.value.replace_waker(Some(waker)) };
            debug_assert!(old.is_none(), "firing and cancelling take it out");
            // SAFETY: the caller's promise.
            unsafe { wheel.insert(NonNull::from_ref(node.get_ref()), deadline) };
            return Ok(self.note_next(wheel));
        }
    }

    /// Takes a node off the wheel that was registered here. After this, nobody touches it.
    ///
    /// # Safety
    /// The node was registered here, and not registered elsewhere since.
    pub unsafe fn cancel(&self, node: Pin<&Node>) {
        if node.has_fired() {
            return;
        }
        let mut locked = if cfg!(seeded = "timer_cancel_does_not_wait") {
            match self.wheel.try_lock() {
                Some(locked) => locked,
                None => return,
            }
        } else {
            self.wheel.lock()
        };
        let Some(wheel) = &mut *locked else { return };
        // SAFETY: it is alive, and on this wheel or on none.
        if unsafe { wheel.remove(NonNull::from_ref(node.get_ref())) } {
            self.note_next(wheel);
        }
        // SAFETY: the lock is held.
        let waker = unsafe { node.value.replace_waker(None) };
        drop(locked);
        // May drop a task, and with it other timers of this core.
        discard(waker);
    }

    /// Moves a registered node to another deadline; its waker stays.
    ///
    /// # Safety
    /// As for [`cancel`](Self::cancel).
    pub unsafe fn reset(&self, node: Pin<&Node>, deadline: u64) -> Moved {
        let mut locked = self.wheel.lock();
        // Under the lock, so whether it has fired is settled.
        let Some(wheel) = locked.as_mut().filter(|_| !node.has_fired()) else {
            return Moved::HasFired;
        };
        let node = NonNull::from_ref(node.get_ref());
        // SAFETY: it is alive and on this wheel or, as its deadline was `NEVER`, on none; and
        // its owner promised to keep it where it is.
        unsafe {
            wheel.remove(node);
            wheel.insert(node, deadline);
        }
        if self.note_next(wheel) {
            Moved::Earliest
        } else {
            Moved::Later
        }
    }

    /// Sees to it that firing wakes `waker`. False: it has fired already.
    ///
    /// # Safety
    /// As for [`cancel`](Self::cancel).
    #[must_use]
    pub unsafe fn update_waker(&self, node: Pin<&Node>, waker: &Waker) -> bool {
        let is_same = {
            let _locked = self.wheel.lock();
            // SAFETY: the lock is held.
            unsafe { node.value.wakes(waker) }
        };
        if is_same {
            return true;
        }
        let new = waker.clone();
        let locked = self.wheel.lock();
        // Asked under the lock: had it fired since the look above, nobody would wake the new one.
        if !cfg!(seeded = "timer_update_after_fire") && node.has_fired() {
            return false;
        }
        // SAFETY: the lock is held.
        let old = unsafe { node.value.replace_waker(Some(new)) };
        drop(locked);
        discard(old);
        true
    }

    /// Fires all that is due at `now`, and wakes who waits for it. How many those were.
    pub fn expire(&self, now: u64) -> usize {
        let mut fired = 0;
        #[cfg(feature = "embassy-time")]
        if self.wakes.next() <= now {
            fired += self.wakes.expire(now);
        }
        loop {
            // The wakers of this turn: moved out under the lock, woken after.
            let mut wakers: [Option<Waker>; BATCH] = array::from_fn(|_| None);
            let mut batch = 0;
            // `last` and `next` are for the seeded bugs alone.
            let mut last = None;
            let (is_more, next) = {
                let mut locked = self.wheel.lock();
                let Some(wheel) = &mut *locked else {
                    return fired;
                };
                let is_more = wheel.expire(now, BATCH, |node| {
                    wakers[batch] = Self::fire(node);
                    batch += 1;
                    last = Some(node);
                });
                self.note_next(wheel);
                (is_more, wheel.next_deadline().unwrap_or(NEVER))
            };
            if cfg!(seeded = "timer_touched_after_unlock") {
                last.map(Self::fire);
            }
            if cfg!(seeded = "timer_next_after_unlock") {
                self.next.store(next, Relaxed);
            }
            wakers.into_iter().flatten().for_each(wake);
            fired += batch;
            if !is_more {
                return fired;
            }
        }
    }

    /// Marks a node as fired that has just left the wheel, with the lock held.
    fn fire(node: NonNull<Node>) -> Option<Waker> {
        // SAFETY: it was on the wheel until now, and the lock has been held since, so its owner,
        // who would have to take the lock to cancel it, has not dropped it.
        let alarm = unsafe { &node.as_ref().value };
        if cfg!(seeded = "timer_fired_too_early") {
            alarm.fired.store(true, Release);
        }
        // SAFETY: the lock is held.
        let waker = unsafe { alarm.replace_waker(None) };
        let order = if cfg!(seeded = "timer_fired_written_relaxed") {
            Relaxed
        } else {
            // Pairs with the acquire in `has_fired`: from here on the node is its owner's.
            Release
        };
        alarm.fired.store(true, order);
        waker
    }

    /// Writes down when there is something to do; whether that is earlier than before.
    fn note_next(&self, wheel: &Wheel<Alarm>) -> bool {
        let next = wheel.next_deadline().unwrap_or(NEVER);
        let is_earlier = next < self.next.load(Relaxed);
        self.next.store(next, Relaxed);
        is_earlier
    }
}
