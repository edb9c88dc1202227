//! Who has locked what, and where: known with debug assertions, to tell a task that it waits for itself.
//!
//! Nothing is known of who is no task, and a guard that was sent elsewhere still counts as his who
//! locked. So this is for a report; nothing is decided by it.

#[cfg(all(debug_assertions, feature = "alloc", not(loom)))]
pub use known::{Owner, Place};
#[cfg(not(all(debug_assertions, feature = "alloc", not(loom))))]
pub use unknown::{Owner, Place};

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

        /// The task that runs here is to wait for it, for something at `place`.
        pub fn report_self(&self, what: &str, place: Place) {
            let owner = self.task.load(Relaxed);
            if owner == 0 || owner != this_task() {
                return;
            }
            // SAFETY: set with the owner; places are `'static`.
            let Some(locked) = (unsafe { self.place.load(Relaxed).as_ref() }) else {
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
}
