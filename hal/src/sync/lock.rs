//! The one lock of hal, boot, drivers and kernel: a spin lock that masks
//! interrupts while it is held, so that a handler on the same core cannot meet
//! it half way. Held for a bounded few instructions; by the console for a line,
//! which goes into a ring, or is sent by hand where that has no room or nobody drives the port.
//!
//! Locks are taken by rising [`Rank`] only, so no two cores ever wait for each
//! other. With debug assertions each lock looks at that, also when nobody else
//! wants it: a wrong order is found the first time, not the first time it hangs.

use super::flag::Flag;
use crate::{
    context, cores,
    irq::{self, Masked},
    sample, stop,
};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// A value behind the lock.
pub type Lock<T> = lock_api::Mutex<RawLock, T>;
/// Holds the lock; unlocks and lets interrupts in again when dropped.
pub type LockGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

/// Where a lock stands among others: who holds one may take only those further down this list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Rank {
    /// Which driver's half is at which interrupt line: who changes that exchanges halves.
    Changes,
    /// A half at a line, while it runs.
    Lines,
    /// Of what may grow while it is held: memory is allocated under it.
    Growing,
    /// The contexts of a runtime: who looks at them may make second entries for some.
    Contexts,
    /// The book of stacks.
    Stacks,
    /// The allocator's, of one size each: they get memory by whole frames.
    Heap,
    /// The kernel's page tables: they get frames.
    PageTables,
    /// The executor's list of who waits for which lock: it looks into these.
    Waits,
    /// The console, for a line: it uses a port.
    Console,
    /// Of nearly all: under it no other lock is taken.
    Innermost = 31,
}

/// A lock within which others are taken.
pub const fn ranked<T>(rank: Rank, value: T) -> Lock<T> {
    Lock::from_raw(RawLock::new(rank), value)
}

/// Panics if what runs here holds a lock, with debug assertions. For where code of others is about
/// to be called, or the core to go elsewhere.
#[inline]
#[track_caller]
pub fn assert_none_held() {
    if cfg!(debug_assertions) {
        let held = context::current().locks.load(Relaxed);
        assert!(held == 0, "locks are held here, of ranks {held:#b}");
    }
}

/// The lock without a value.
pub struct RawLock {
    flag: Flag,
    rank: Rank,
    /// It stands for its rank among the locks that its holder has. Written by the holder only.
    is_noted: AtomicBool,
    /// Core that holds it plus one; 0: nobody. Written by the holder only.
    holder: AtomicU32,
}

impl RawLock {
    /// Whether this very core holds it. Ask with interrupts masked.
    pub fn is_held_here(&self) -> bool {
        self.holder.load(Relaxed) == cores::this_core() as u32 + 1
    }

    const fn new(rank: Rank) -> Self {
        Self {
            flag: Flag::new(),
            rank,
            is_noted: AtomicBool::new(false),
            holder: AtomicU32::new(0),
        }
    }

    #[inline]
    fn taken(&self) {
        self.holder.store(cores::this_core() as u32 + 1, Relaxed);
        if cfg!(debug_assertions) {
            let held = context::current().locks.fetch_or(self.bit(), Relaxed);
            // Who only tries may have another of the same rank already.
            self.is_noted.store(held & self.bit() == 0, Relaxed);
        }
    }

    fn bit(&self) -> u32 {
        1 << self.rank as u32
    }

    /// Whoever waits for a lock must not hold one that is taken after it.
    #[track_caller]
    fn check_order(&self) {
        assert!(!self.is_held_here(), "this core holds the lock already");
        let held = context::current().locks.load(Relaxed);
        assert!(
            held < self.bit(),
            "a lock of rank {:?} is taken under one of rank {}; see `hal::sync::Rank`",
            self.rank,
            held.ilog2()
        );
    }
}

// SAFETY: `Flag` lets in one at a time (loom model `lock`), and interrupts
// stay masked as long as the guard lives, so nothing on this core comes between.
unsafe impl lock_api::RawMutex for RawLock {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api asks for it"
    )]
    const INIT: Self = Self::new(Rank::Innermost);

    type Guard = Masked;

    #[inline]
    #[track_caller]
    fn lock(&self) -> Masked {
        let masked = irq::mask();
        if cfg!(debug_assertions) {
            self.check_order();
        }
        self.flag.lock(|| {
            // A core that waits here has its interrupts masked: it must still hear a machine panic.
            stop::check();
            sample::note_wait(self.holder.load(Relaxed));
            crate::pause();
        });
        self.taken();
        masked
    }

    #[inline]
    fn try_lock(&self) -> Option<Masked> {
        let masked = irq::mask();
        self.flag.try_lock().then(|| {
            self.taken();
            masked
        })
    }

    #[inline]
    unsafe fn unlock(&self, masked: Masked) {
        if cfg!(debug_assertions) && self.is_noted.load(Relaxed) {
            context::current().locks.fetch_and(!self.bit(), Relaxed);
        }
        self.holder.store(0, Relaxed);
        self.flag.unlock();
        drop(masked);
    }

    fn is_locked(&self) -> bool {
        self.flag.is_locked()
    }
}
