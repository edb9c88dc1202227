//! The one lock of hal, boot, drivers and kernel: a spin lock that masks
//! interrupts while it is held, so that a handler on the same core cannot meet
//! it half way. Held for a bounded few instructions; by the console, until it
//! writes by interrupts, for a line.

use super::flag::Flag;
use crate::{
    cores,
    irq::{self, Masked},
    stop,
};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A value behind the lock.
pub type Lock<T> = lock_api::Mutex<RawLock, T>;
/// Holds the lock; unlocks and lets interrupts in again when dropped.
pub type LockGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

/// The lock without a value.
pub struct RawLock {
    flag: Flag,
    /// Core that holds it plus one; 0: nobody. Written by the holder only.
    holder: AtomicU32,
}

impl RawLock {
    /// Whether this very core holds it. Ask with interrupts masked.
    pub fn is_held_here(&self) -> bool {
        self.holder.load(Relaxed) == cores::this_core() as u32 + 1
    }

    fn taken(&self) {
        self.holder.store(cores::this_core() as u32 + 1, Relaxed);
    }
}

// SAFETY: `Flag` lets in one at a time (loom model `lock`), and interrupts
// stay masked as long as the guard lives, so nothing on this core comes between.
unsafe impl lock_api::RawMutex for RawLock {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api asks for it"
    )]
    const INIT: Self = Self {
        flag: Flag::new(),
        holder: AtomicU32::new(0),
    };

    type Guard = Masked;

    #[inline]
    fn lock(&self) -> Masked {
        let masked = irq::mask();
        debug_assert!(!self.is_held_here(), "this core holds the lock already");
        self.flag.lock(|| {
            // A core that waits here has its interrupts masked: it must still hear a machine panic.
            stop::check();
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
        self.holder.store(0, Relaxed);
        self.flag.unlock();
        drop(masked);
    }

    fn is_locked(&self) -> bool {
        self.flag.is_locked()
    }
}
