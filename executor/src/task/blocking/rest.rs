//! Blocking functions that wait themselves, and virtual time.
//!
//! That stands still while there is something to do. A function on a thread beside the cores is
//! something to do, unless it waits for what tasks or timers do.

use super::lent;
use crate::memory::Counted;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use hal::sync::Lock;

/// A function on another thread, while that waits: then it is not busy, until somebody wakes it.
pub(crate) struct Rest {
    busy: Option<Counted<Lock<usize>>>,
    /// It is not counted there. Under that lock.
    rests: AtomicBool,
}

impl Rest {
    /// For this thread, which may have no function at all.
    pub(crate) fn new() -> Self {
        // Nobody else wants to know.
        let shared = lent().filter(|shared| shared.config.virtual_clock);
        Self {
            busy: shared.map(|shared| shared.blocking.busy.clone()),
            rests: AtomicBool::new(false),
        }
    }

    /// The thread is about to wait, unless it was woken already: then `end` was called, or is about to be, and either
    /// that comes first and is seen by `is_woken`, or it sees that the thread rests.
    pub(crate) fn begin(&self, is_woken: impl FnOnce() -> bool) {
        let (Some(busy), Some(shared)) = (&self.busy, lent()) else {
            return;
        };
        let mut busy = busy.lock();
        if is_woken() {
            return;
        }
        self.rests.store(true, Relaxed);
        *busy -= 1;
        drop(busy);
        // Time may pass, if nothing else holds it.
        shared.notify_core(0);
    }

    /// It is woken, or has come back by itself. Any thread.
    pub(crate) fn end(&self) {
        let Some(busy) = &self.busy else {
            return;
        };
        let mut busy = busy.lock();
        *busy += usize::from(self.rests.swap(false, Relaxed));
    }
}
