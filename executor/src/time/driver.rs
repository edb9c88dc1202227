//! What timers need from the scheduler, and all that they know of it: the
//! timers of the core this runs on, its clock, and a way to make it look.
//!
//! In this crate's own unit tests there is another kind of core: the stand-in
//! below, with a clock that the test sets.

use super::timers::Timers;
use crate::{
    scheduler::{shared::Shared, worker::Worker},
    task::waker,
};
use core::ptr::NonNull;
use hal::preempt;

/// The timers of the core that this ran on when it was asked, and its clock. A
/// future that registered a timer keeps it: it may be polled or dropped on
/// another core later, but its timer stays where it is.
pub(crate) struct Here {
    core: Core,
}

/// What keeps the timers alive.
enum Core {
    #[cfg(test)]
    StandIn(alloc::sync::Arc<stand_in::StandIn>),
    /// A reference to it is counted.
    Worker(NonNull<Worker>),
}

// SAFETY: what is used of a worker may be used by any thread.
unsafe impl Send for Here {}
// SAFETY: as above.
unsafe impl Sync for Here {}

impl Here {
    /// None: no executor runs here.
    pub(crate) fn current() -> Option<Self> {
        #[cfg(test)]
        if let Some(core) = stand_in::current() {
            let core = Core::StandIn(core);
            return Some(Self { core });
        }
        let guard = preempt::guard();
        // From outside, the timer is with a core that is served whether or not somebody sits in the
        // first one's seat, if there is one.
        let outside = || waker::visited().and_then(|shared| shared.cores().iter().take(2).last());
        let worker = Worker::here(&guard).or_else(outside)?;
        worker.retain();
        Some(Self {
            core: Core::Worker(worker.into()),
        })
    }

    /// Its timers.
    #[inline]
    pub(crate) fn timers(&self) -> &Timers {
        match &self.core {
            #[cfg(test)]
            Core::StandIn(core) => &core.timers,
            // SAFETY: its own reference keeps it.
            Core::Worker(worker) => unsafe { &worker.as_ref().timers },
        }
    }

    /// Its clock, in nanoseconds.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match &self.core {
            #[cfg(test)]
            Core::StandIn(core) => core.now(),
            // SAFETY: its own reference keeps it.
            Core::Worker(worker) => unsafe { worker.as_ref().shared().clock.now() },
        }
    }

    /// Sees to it that these timers are looked at when it is `deadline`: there
    /// is a new earliest one. From any core.
    pub(crate) fn arm(&self, _deadline: u64) {
        match &self.core {
            #[cfg(test)]
            Core::StandIn(core) => core.arm(_deadline),
            Core::Worker(worker) => {
                let guard = preempt::guard();
                // SAFETY: its own reference keeps it.
                let worker = unsafe { worker.as_ref() };
                match Worker::here(&guard) {
                    Some(here) if core::ptr::eq(here, worker) => worker.arm(),
                    // It sets its own timer when it looks; and it may be asleep for longer than that.
                    _ => worker.look_at_timers(),
                }
            }
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        match self.core {
            #[cfg(test)]
            Core::StandIn(_) => {}
            Core::Worker(worker) => Worker::release(worker),
        }
    }
}

/// What time it is, in nanoseconds: by the clock of the running executor, or
/// else by the machine's.
pub(crate) fn now() -> u64 {
    #[cfg(test)]
    if let Some(core) = stand_in::current() {
        return core.now();
    }
    let guard = preempt::guard();
    let now = |shared: &Shared| shared.clock.now();
    match Worker::here(&guard) {
        Some(worker) => now(worker.shared()),
        None => waker::visited().map_or_else(hal::clock::now, now),
    }
}

#[cfg(test)]
pub(crate) mod stand_in {
    //! A core for tests: its timers, and a clock that stands still unless told.

    use super::Timers;
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::{cell::RefCell, sync::Arc};

    std::thread_local! {
        static CURRENT: RefCell<Option<Arc<StandIn>>> = const { RefCell::new(None) };
    }

    pub(crate) struct StandIn {
        pub(crate) timers: Timers,
        clock: AtomicU64,
        /// What the hardware was last armed for; `u64::MAX`: nothing.
        pub(crate) armed: AtomicU64,
    }

    pub(super) fn current() -> Option<Arc<StandIn>> {
        CURRENT.with_borrow(Clone::clone)
    }

    impl StandIn {
        pub(crate) fn new(now: u64) -> Arc<Self> {
            Arc::new(Self {
                timers: Timers::new(),
                clock: AtomicU64::new(now),
                armed: AtomicU64::new(u64::MAX),
            })
        }

        /// Runs something on this core.
        pub(crate) fn enter<T>(self: &Arc<Self>, run: impl FnOnce() -> T) -> T {
            let before = CURRENT.replace(Some(self.clone()));
            let result = run();
            CURRENT.set(before);
            result
        }

        pub(crate) fn now(&self) -> u64 {
            self.clock.load(Relaxed)
        }

        pub(crate) fn arm(&self, deadline: u64) {
            self.armed.store(deadline, Relaxed);
        }

        /// Lets time go by without a look at the timers, as when the core is busy.
        pub(crate) fn stall(&self, nanos: u64) {
            self.clock.fetch_add(nanos, Relaxed);
        }

        /// Lets time go on to `now`, stopping at each deadline as the hardware does.
        pub(crate) fn run_until(&self, now: u64) {
            while self.timers.next() <= now {
                self.clock.fetch_max(self.timers.next(), Relaxed);
                self.timers.expire(self.now());
            }
            self.clock.fetch_max(now, Relaxed);
        }
    }
}
