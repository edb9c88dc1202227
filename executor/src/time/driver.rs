//! What timers need from the scheduler, and all that they know of it: the
//! timers of the core this runs on, its clock, and a way to make it look.
//!
//! Until a scheduler is wired in, there is a core only in this crate's own
//! tests: the stand-in below, with a clock that the test sets.

use super::timers::Timers;

/// The timers of the core that this ran on when it was asked, and its clock. A
/// future that registered a timer keeps it: it may be polled or dropped on
/// another core later, but its timer stays where it is.
#[derive(Clone)]
pub(crate) struct Here {
    core: Core,
}

/// What keeps the timers alive.
#[derive(Clone)]
enum Core {
    #[cfg(test)]
    StandIn(alloc::sync::Arc<stand_in::StandIn>),
    /// To be the scheduler's core.
    #[allow(dead_code, reason = "nothing is wired in yet")]
    None(core::convert::Infallible),
}

impl Here {
    /// None: no executor runs here.
    pub(crate) fn current() -> Option<Self> {
        #[cfg(test)]
        return stand_in::current().map(|core| Self {
            core: Core::StandIn(core),
        });
        #[cfg(not(test))]
        None
    }

    /// Its timers.
    pub(crate) fn timers(&self) -> &Timers {
        match &self.core {
            #[cfg(test)]
            Core::StandIn(core) => &core.timers,
            Core::None(none) => match *none {},
        }
    }

    /// Its clock, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        match &self.core {
            #[cfg(test)]
            Core::StandIn(core) => core.now(),
            Core::None(none) => match *none {},
        }
    }

    /// Sees to it that these timers are looked at when it is `deadline`: there
    /// is a new earliest one. Whoever calls may have moved to another core since
    /// [`current`](Self::current) or since the timer was registered; then that
    /// core is asleep, perhaps for longer, and has to be kicked, after a full fence.
    pub(crate) fn arm(&self, deadline: u64) {
        match &self.core {
            #[cfg(test)]
            Core::StandIn(core) => core.arm(deadline),
            Core::None(none) => {
                let _ = deadline;
                match *none {}
            }
        }
    }
}

/// What time it is, in nanoseconds: by the clock of the running executor, or
/// else by the machine's.
pub(crate) fn now() -> u64 {
    Here::current().map_or_else(hal::clock::now, |here| here.now())
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
