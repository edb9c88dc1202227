//! Who has locked what, and where: known with debug assertions, to tell a task that it waits for itself.
//! Of many who read at once, the first few are known.
//!
//! Nothing is known of who is no task, and a guard that was sent elsewhere still counts as his who
//! locked. So this is for a report; nothing is decided by it.

#[cfg(all(debug_assertions, feature = "alloc", not(loom)))]
pub use known::{Holders, Owner, Place, Seat};
#[cfg(not(all(debug_assertions, feature = "alloc", not(loom))))]
pub use unknown::{Holders, Owner, Place, Seat};

#[cfg(all(debug_assertions, feature = "alloc", not(loom)))]
mod known {
    use crate::task::{self, TaskId, waker};
    use core::{
        panic::Location,
        ptr,
        sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed},
    };

    /// Where something was asked for.
    #[derive(Clone, Copy)]
    pub struct Place(&'static Location<'static>);

    impl Place {
        #[track_caller]
        pub fn here() -> Self {
            Self(Location::caller())
        }
    }

    /// The task that has locked something. Written by who has it locked. Relaxed: a task that reads
    /// itself here has written it, and the place too.
    pub struct Owner {
        task: AtomicU64,
        place: AtomicPtr<Location<'static>>,
    }

    impl Owner {
        pub const fn nobody() -> Self {
            Self {
                task: AtomicU64::new(0),
                place: AtomicPtr::new(ptr::null_mut()),
            }
        }

        pub fn set(&self, place: Place) {
            self.place.store(ptr::from_ref(place.0).cast_mut(), Relaxed);
            self.task.store(this_task(), Relaxed);
        }

        pub fn clear(&self) {
            self.task.store(0, Relaxed);
        }

        fn place(&self) -> Option<&'static Location<'static>> {
            // SAFETY: null, or a place, which is `'static`.
            unsafe { self.place.load(Relaxed).as_ref() }
        }

        /// The task that runs here is to wait for it, for something at `place`.
        pub fn report_self(&self, what: &str, place: Place) {
            let owner = self.task.load(Relaxed);
            if owner == 0 || owner != this_task() {
                return;
            }
            let Some(locked) = self.place() else {
                return;
            };
            let task = task::current();
            log::warn!(
                "task {} {:?} waits at {} for a {what} that it has locked itself at {locked}: for ever, unless another part of it unlocks",
                TaskId::from_u64(owner),
                task.name().unwrap_or(""),
                place.0
            );
        }
    }

    /// How many of those who read are known.
    const SEATS: usize = 4;

    /// Who has a lock that several read.
    pub struct Holders {
        pub writer: Owner,
        readers: [Owner; SEATS],
    }

    /// Where among [`Holders`] a reader is noted.
    pub struct Seat(Option<usize>);

    impl Holders {
        pub const fn nobody() -> Self {
            Self {
                writer: Owner::nobody(),
                readers: [const { Owner::nobody() }; SEATS],
            }
        }

        /// The task that runs here reads.
        pub fn sit(&self, place: Place) -> Seat {
            let task = this_task();
            if task == 0 {
                return Seat(None);
            }
            let take = |seat: &Owner| {
                let taken = seat.task.compare_exchange(0, task, Relaxed, Relaxed);
                taken.is_ok()
            };
            let seat = self.readers.iter().position(take);
            if let Some(seat) = seat {
                self.readers[seat].set(place);
            }
            Seat(seat)
        }

        /// It reads no more.
        pub fn rise(&self, seat: &Seat) {
            if let Seat(Some(seat)) = seat {
                self.readers[*seat].clear();
            }
        }

        /// Who wrote goes on reading.
        pub fn downgrade(&self) -> Seat {
            let place = self.writer.place();
            self.writer.clear();
            place.map_or(Seat(None), |place| self.sit(Place(place)))
        }

        /// The task that runs here is to wait for it, for something at `place`.
        pub fn report_self(&self, what: &str, place: Place) {
            self.writer.report_self(what, place);
            let task = this_task();
            let is_mine = |seat: &&Owner| task != 0 && seat.task.load(Relaxed) == task;
            if let Some(seat) = self.readers.iter().find(is_mine) {
                seat.report_self(what, place);
            }
        }
    }

    /// The task that runs here; 0: none.
    fn this_task() -> u64 {
        waker::current_header().map_or(0, |task| task.id().as_u64())
    }
}

#[cfg(not(all(debug_assertions, feature = "alloc", not(loom))))]
mod unknown {
    /// Where something was asked for.
    #[derive(Clone, Copy)]
    pub struct Place;

    impl Place {
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
        pub fn set(&self, _: Place) {}

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
    pub struct Seat;

    impl Holders {
        pub const fn nobody() -> Self {
            Self { writer: Owner }
        }

        #[inline]
        pub fn sit(&self, _: Place) -> Seat {
            Seat
        }

        #[inline]
        pub fn rise(&self, _: &Seat) {}

        #[inline]
        pub fn downgrade(&self) -> Seat {
            Seat
        }

        #[inline]
        pub fn report_self(&self, _: &str, _: Place) {}
    }
}
