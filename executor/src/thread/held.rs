//! Which thread locks are held across an await: with debug assertions this is found out when it happens.
//!
//! A context notes where each thread lock that it holds was taken. If a poll comes back without an answer
//! and holds one more than before, whoever else wants that lock waits until that future is polled again; and
//! if the other is polled by the same thread, for ever. `spawn` does not compile that; this is for what it does not see.
//! The same holds for a guard against being switched away, and a mask of interrupts: they are counted in the context, and the next
//! poll may be in another.

#[cfg(debug_assertions)]
use noted::Note;
#[cfg(debug_assertions)]
pub use noted::poll_checked;
#[cfg(not(debug_assertions))]
use unnoted::Note;
#[cfg(not(debug_assertions))]
pub use unnoted::poll_checked;

use core::marker::PhantomData;

/// A thread lock is held. Not to be sent: it is noted in the context.
pub struct Held {
    _note: Note,
    _not_send: PhantomData<*const ()>,
}

// SAFETY: nothing is done with a reference to it.
unsafe impl Sync for Held {}

impl Held {
    /// It was taken just now, by whoever calls this.
    #[inline]
    #[track_caller]
    pub fn new() -> Self {
        Self {
            _note: Note::new(),
            _not_send: PhantomData,
        }
    }
}

#[cfg(debug_assertions)]
mod noted {
    use crate::task;
    use core::{
        panic::Location,
        ptr,
        sync::atomic::{AtomicPtr, Ordering::Relaxed},
        task::Poll,
    };
    use hal::context;

    /// Where a lock was taken, and which note of its context says so. None: there are too many,
    /// and those tell enough.
    pub struct Note(Option<usize>, &'static Location<'static>);

    /// What a note says.
    fn text(place: &'static Location<'static>) -> *mut () {
        ptr::from_ref(place).cast_mut().cast()
    }

    impl Note {
        #[track_caller]
        pub fn new() -> Self {
            let place = Location::caller();
            let notes = &context::current().thread_locks;
            let is_free = |note: &AtomicPtr<()>| note.load(Relaxed).is_null();
            let index = notes.iter().position(is_free);
            if let Some(index) = index {
                notes[index].store(text(place), Relaxed);
            }
            Self(index, place)
        }
    }

    impl Drop for Note {
        fn drop(&mut self) {
            let Self(Some(index), place) = *self else {
                return;
            };
            let note = &context::current().thread_locks[index];
            // If this says something else, it is another context: the lock was held across an await.
            let _ = note.compare_exchange(text(place), ptr::null_mut(), Relaxed, Relaxed);
        }
    }

    /// Polls something.
    ///
    /// # Panics
    /// If it is pending and holds a thread lock, a guard or a mask that it did not hold before.
    #[track_caller]
    pub fn poll_checked<R>(poll: impl FnOnce() -> Poll<R>) -> Poll<R> {
        let notes = || {
            let notes = &context::current().thread_locks;
            notes.each_ref().map(|note| note.load(Relaxed))
        };
        let before = notes();
        let was_free = is_free();
        let result = poll();
        if result.is_pending() {
            assert!(
                !was_free || is_free(),
                "a future awaits with a guard against being switched away, or with interrupts masked: its next poll may be elsewhere"
            );
            let mut changes = before.into_iter().zip(notes());
            let is_new = |(before, now): &(*mut (), *mut ())| before.is_null() && !now.is_null();
            if let Some((_, place)) = changes.find(is_new) {
                // SAFETY: a note that is not null is a place, which is `'static`.
                report(unsafe { &*place.cast::<Location<'static>>() });
            }
        }
        result
    }

    /// Whether this context holds neither a guard nor a mask.
    fn is_free() -> bool {
        context::current().is_free()
    }

    #[cold]
    #[track_caller]
    fn report(place: &'static Location<'static>) -> ! {
        const WHY: &str =
            "such a lock is for code that does not await; those of `executor::sync` may be kept";
        let Some(task) = task::try_current() else {
            panic!("a future awaits with the thread lock that it took at {place}: {WHY}");
        };
        let (id, name) = (task.id(), task.name().unwrap_or(""));
        panic!("task {id} {name:?} awaits with the thread lock that it took at {place}: {WHY}");
    }
}

#[cfg(not(debug_assertions))]
mod unnoted {
    use core::task::Poll;

    /// Nothing is noted.
    pub struct Note;

    impl Note {
        #[inline]
        pub fn new() -> Self {
            Self
        }
    }

    /// Polls something.
    #[inline(always)]
    pub fn poll_checked<R>(poll: impl FnOnce() -> Poll<R>) -> Poll<R> {
        poll()
    }
}
