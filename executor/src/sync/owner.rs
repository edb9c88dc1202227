//! Who has locked what: known so that who waits can lend his priority to who has it, is refused if that one is lost,
//! and can be told if he waits for himself. With debug assertions also where it was locked.
//! Of many who read at once, the first few are known.
//!
//! Nothing is known of who is no task; and a guard that was sent elsewhere still counts as his who locked. So
//! nothing that must not be wrong is decided by it.

#[cfg(all(feature = "alloc", not(loom)))]
pub use known::{Holders, OWNERS, Owner, Poller, Seat, Who};
#[cfg(not(all(feature = "alloc", not(loom))))]
pub use unknown::{Holders, Owner, Poller, Seat, Who};

#[cfg(debug_assertions)]
use place as places;
#[cfg(not(debug_assertions))]
use unplaced as places;

#[cfg(all(feature = "alloc", not(loom)))]
pub use places::At;
pub use places::Place;

/// Places in the source.
#[cfg(debug_assertions)]
mod place {
    use core::{
        fmt,
        panic::Location,
        ptr,
        sync::atomic::{AtomicPtr, Ordering::Relaxed},
    };

    /// Where something was asked for.
    #[derive(Clone, Copy)]
    pub struct Place(&'static Location<'static>);

    impl Place {
        #[inline]
        #[track_caller]
        pub fn here() -> Self {
            Self(Location::caller())
        }
    }

    impl fmt::Display for Place {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, " at {}", self.0)
        }
    }

    /// Where something was locked.
    #[allow(dead_code, reason = "without tasks nobody is known")]
    pub struct At(AtomicPtr<Location<'static>>);

    #[allow(dead_code, reason = "without tasks nobody is known")]
    impl At {
        pub const fn nowhere() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }

        pub fn set(&self, place: Place) {
            self.0.store(ptr::from_ref(place.0).cast_mut(), Relaxed);
        }

        pub fn get(&self) -> Option<Place> {
            // SAFETY: null, or a place, which is `'static`.
            unsafe { self.0.load(Relaxed).as_ref() }.map(Place)
        }
    }
}

/// Nothing is known.
#[cfg(not(debug_assertions))]
mod unplaced {
    use core::fmt;

    /// Where something was asked for.
    #[derive(Clone, Copy)]
    pub struct Place;

    impl Place {
        #[inline]
        pub fn here() -> Self {
            Self
        }
    }

    impl fmt::Display for Place {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            Ok(())
        }
    }

    /// Where something was locked.
    #[allow(dead_code, reason = "without tasks nobody is known")]
    pub struct At;

    #[allow(dead_code, reason = "without tasks nobody is known")]
    impl At {
        pub const fn nowhere() -> Self {
            Self
        }

        #[inline]
        pub fn set(&self, _: Place) {}

        pub fn get(&self) -> Option<Place> {
            Some(Place)
        }
    }
}

#[cfg(all(feature = "alloc", not(loom)))]
mod known {
    use super::{At, Place};
    use crate::{
        scheduler::{lost, shared::Shared, worker::Worker},
        task::{TaskId, waker},
    };
    use core::{
        fmt, ptr,
        sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        task::Context,
    };

    /// A task, somebody who is none, or nobody.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct Who(u64);

    impl Who {
        /// Nobody.
        pub const NOBODY: Self = Self(0);
        /// No task. No task's id is so small.
        const OUTSIDE: Self = Self(1);

        /// The task that runs here.
        #[inline]
        pub fn here() -> Self {
            // What has ended, and drops its outcome, has no id any more.
            match waker::own_header().filter(|_| !waker::has_ended()) {
                Some(task) => Self(task.task().word_in_entry()),
                None => Self::OUTSIDE,
            }
        }

        /// The same, which polls with this: its waker tells it sooner, nearly always.
        #[inline]
        pub fn polls(context: &Context<'_>) -> Self {
            match waker::task_of(context.waker()) {
                Some(task) => Self(task.word_in_entry()),
                None => Self::elsewhere(),
            }
        }

        #[cold]
        #[inline(never)]
        fn elsewhere() -> Self {
            Self::here()
        }

        /// Which task it is, if it is one.
        pub fn id(self) -> Option<TaskId> {
            (self.0 > Self::OUTSIDE.0).then(|| TaskId::from_u64(self.0 & !TaskId::SPARE))
        }

        /// What is marked when it is lost.
        pub fn word(self) -> u64 {
            self.0
        }
    }

    impl fmt::Display for Who {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.id() {
                Some(id) => write!(f, "task {id}"),
                None => f.write_str("no task"),
            }
        }
    }

    /// Who polls something, for who asks later whether he is lost.
    #[derive(Clone, Copy)]
    pub struct Poller {
        pub who: Who,
        /// Null: none runs there.
        pub runtime: *const Shared,
    }

    impl Poller {
        /// Nobody has, yet.
        pub const NONE: Self = Self {
            who: Who::NOBODY,
            runtime: ptr::null(),
        };

        pub fn here() -> Self {
            let guard = hal::preempt::guard();
            let runtime = Worker::here(&guard).map_or(ptr::null(), |here| here.shared());
            Self {
                who: Who::here(),
                runtime,
            }
        }

        /// Whether it was a task, or a finalizer of one, that is lost.
        pub fn is_lost(self) -> bool {
            lost::is_any() && lost::is_lost_in(self.who.word(), self.runtime)
        }
    }

    /// The task that has locked something. Written by who has it locked, and cleared before he unlocks: so what
    /// stands there is never somebody who had it before. Relaxed: a task that reads itself here has written it, and the place too.
    pub struct Owner {
        task: AtomicU64,
        at: At,
    }

    impl Owner {
        pub const fn nobody() -> Self {
            Self {
                task: AtomicU64::new(0),
                at: At::nowhere(),
            }
        }

        #[inline]
        pub fn set(&self, who: Who, place: Place) {
            self.at.set(place);
            self.task.store(who.0, Relaxed);
        }

        #[inline]
        pub fn clear(&self) {
            self.task.store(0, Relaxed);
        }

        /// Who has it.
        pub fn get(&self) -> Who {
            Who(self.task.load(Relaxed))
        }

        /// Where it was locked.
        pub fn place(&self) -> Option<Place> {
            self.at.get()
        }

        /// The task that runs here is to wait for it, for something at `place`.
        pub fn report_self(&self, what: &str, place: Place) {
            let owner = self.get();
            if cfg!(not(debug_assertions)) || owner.id().is_none() || owner != Who::here() {
                return;
            }
            let (Some(id), Some(locked)) = (owner.id(), self.place()) else {
                return;
            };
            let task = crate::task::current();
            log::warn!(
                "task {id} {:?} waits{place} for a {what} that it has locked itself{locked}: for ever, unless another part of it unlocks",
                task.name().unwrap_or(""),
            );
        }
    }

    /// How many of those who read are known.
    const SEATS: usize = 4;
    /// How many may be known to have a lock, whatever it is.
    pub const OWNERS: usize = 1 + SEATS;

    /// Who has a lock that several read.
    pub struct Holders {
        pub writer: Owner,
        readers: [Owner; SEATS],
        /// How many read without a seat.
        standing: AtomicUsize,
    }

    /// Where among [`Holders`] a reader is noted.
    pub enum Seat {
        /// It is noted nowhere.
        None,
        /// It is only counted.
        Standing,
        Number(u8),
    }

    impl Holders {
        pub const fn nobody() -> Self {
            Self {
                writer: Owner::nobody(),
                readers: [const { Owner::nobody() }; SEATS],
                standing: AtomicUsize::new(0),
            }
        }

        /// This task reads.
        #[inline]
        pub fn sit(&self, who: Who, place: Place) -> Seat {
            if who.0 <= Who::OUTSIDE.0 {
                return self.stand();
            }
            let is_free = |seat: &Owner| {
                let taken = || {
                    seat.task
                        .compare_exchange(0, who.0, Relaxed, Relaxed)
                        .is_ok()
                };
                seat.get() == Who::NOBODY && taken()
            };
            match self.readers.iter().position(is_free) {
                Some(seat) => {
                    self.readers[seat].at.set(place);
                    Seat::Number(seat as u8)
                }
                None => self.stand(),
            }
        }

        /// There is no seat, or not for this one.
        #[cold]
        fn stand(&self) -> Seat {
            self.standing.fetch_add(1, Relaxed);
            Seat::Standing
        }

        /// It reads no more.
        #[inline]
        pub fn rise(&self, seat: &Seat) {
            match seat {
                Seat::None => {}
                Seat::Standing => {
                    self.standing.fetch_sub(1, Relaxed);
                }
                Seat::Number(seat) => self.readers[usize::from(*seat)].clear(),
            }
        }

        /// Whether some of those who read are not known.
        pub fn has_strangers(&self) -> bool {
            self.standing.load(Relaxed) != 0
        }

        /// Nobody has it, whoever had it.
        pub fn forget(&self) {
            self.all().for_each(Owner::clear);
            self.standing.store(0, Relaxed);
        }

        /// Who wrote goes on reading.
        pub fn downgrade(&self) -> Seat {
            let (who, place) = (self.writer.get(), self.writer.place());
            self.writer.clear();
            place.map_or_else(|| self.stand(), |place| self.sit(who, place))
        }

        /// All who are known to have it.
        pub fn all(&self) -> impl Iterator<Item = &Owner> {
            core::iter::once(&self.writer).chain(&self.readers)
        }

        /// The task that runs here is to wait for it, for something at `place`.
        pub fn report_self(&self, what: &str, place: Place) {
            if cfg!(not(debug_assertions)) {
                return;
            }
            let me = Who::here();
            let is_mine = |owner: &&Owner| me.id().is_some() && owner.get() == me;
            if let Some(owner) = self.all().find(is_mine) {
                owner.report_self(what, place);
            }
        }
    }
}

#[cfg(not(all(feature = "alloc", not(loom))))]
mod unknown {
    use super::Place;
    use core::task::Context;

    /// Nothing is known.
    #[derive(Clone, Copy)]
    pub struct Who;

    impl Who {
        #[inline]
        pub fn here() -> Self {
            Self
        }

        #[inline]
        pub fn polls(_: &Context<'_>) -> Self {
            Self
        }
    }

    /// Nothing is known.
    pub struct Poller;

    impl Poller {
        pub const NONE: Self = Self;

        #[inline]
        pub fn here() -> Self {
            Self
        }
    }

    /// Nothing is known.
    pub struct Owner;

    impl Owner {
        pub const fn nobody() -> Self {
            Self
        }

        #[inline]
        pub fn set(&self, _: Who, _: Place) {}

        #[inline]
        pub fn clear(&self) {}

        #[inline]
        pub fn report_self(&self, _: &str, _: Place) {}
    }

    /// Nothing is known.
    pub struct Holders {
        pub writer: Owner,
    }

    /// Nothing is known.
    pub enum Seat {
        None,
    }

    impl Holders {
        pub const fn nobody() -> Self {
            Self { writer: Owner }
        }

        #[inline]
        pub fn sit(&self, _: Who, _: Place) -> Seat {
            Seat::None
        }

        #[inline]
        pub fn rise(&self, _: &Seat) {}

        #[inline]
        pub fn downgrade(&self) -> Seat {
            Seat::None
        }

        #[inline]
        pub fn report_self(&self, _: &str, _: Place) {}
    }
}
