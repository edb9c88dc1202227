//! The value, its version, and who is there.
//!
//! A version says how often the value was changed. It is counted up under the write lock, so whoever reads the value
//! knows which version it is; and before those are woken who wait for one. The same word says whether all senders
//! were dropped: so who sees that sees also whether he has seen the last version.
//!
//! # The lock
//!
//! Whoever looks at the value does so as long as he likes, and may be preempted meanwhile; a change is made by a function of
//! the user's. So it is not a lock that masks or spins. It is the [`RwLock`] of tasks: who has to wait for it in
//! a task suspends that poll, and its core goes on with others. A copy for each reader, replaced behind their backs, would let
//! senders never wait, but it would have to be allocated for each change, and could not be changed in place.

use crate::{
    shim::ordering,
    sync::{Notify, RwLock, RwLockReadGuard, RwLockWriteGuard},
};
use hal::sync::atomic::{AtomicUsize, Ordering::*};

/// All senders were dropped.
const CLOSED: usize = 1;
/// One change. They are counted in the rest of the word, and may wrap around.
const CHANGE: usize = 2;

/// Which value it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Version(usize);

impl Version {
    /// One that it is not.
    pub fn before(self) -> Self {
        Self(self.0.wrapping_sub(CHANGE))
    }
}

/// What the word says.
#[derive(Clone, Copy)]
pub struct Now(usize);

impl Now {
    pub fn version(self) -> Version {
        Version(self.0 & !CLOSED)
    }

    pub fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }
}

/// What all ends share.
pub struct Shared<T> {
    value: RwLock<T>,
    word: AtomicUsize,
    pub senders: AtomicUsize,
    pub receivers: AtomicUsize,
    /// The word has changed.
    pub changed: Notify,
    /// There are no receivers.
    pub unwatched: Notify,
}

impl<T> Shared<T> {
    /// A value that was not changed yet, with one sender.
    pub fn new(value: T) -> Self {
        Self {
            value: RwLock::new(value),
            word: AtomicUsize::new(0),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(0),
            changed: Notify::new(),
            unwatched: Notify::new(),
        }
    }

    /// The value, of what nobody shares.
    pub fn into_value(self) -> T {
        self.value.into_inner()
    }

    /// The version now, and whether it is the last.
    pub fn now(&self) -> Now {
        // Acquire pairs with the releases in `change` and `close`: who sees a version sees what was done before it was sent.
        let order = ordering!(Acquire unless seeded = "watch_look_relaxed");
        Now(self.word.load(order))
    }

    /// Reads the value, and waits while it is changed.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        #[cfg(not(loom))]
        return self.value.read_blocking();
        #[cfg(loom)]
        loop {
            if let Ok(guard) = self.value.try_read() {
                return guard;
            }
            loom::thread::yield_now();
        }
    }

    /// The same, in a future.
    pub async fn read_later(&self) -> RwLockReadGuard<'_, T> {
        self.value.read().await
    }

    #[track_caller]
    fn write(&self) -> RwLockWriteGuard<'_, T> {
        #[cfg(not(loom))]
        return self.value.write_blocking();
        #[cfg(loom)]
        loop {
            if let Ok(guard) = self.value.try_write() {
                return guard;
            }
            loom::thread::yield_now();
        }
    }

    /// Changes the value, and wakes those who wait for that, if `change` says that it has.
    #[track_caller]
    pub fn change(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self.write();
        if !change(&mut value) {
            return false;
        }
        if cfg!(seeded = "watch_counted_after_unlock") {
            drop(value);
            self.word.fetch_add(CHANGE, Release);
        } else if cfg!(seeded = "watch_wakes_before_it_counts") {
            self.changed.notify_waiters();
            self.word.fetch_add(CHANGE, Release);
            return true;
        } else {
            // Release pairs with the acquire in `now`.
            let order = ordering!(Release unless seeded = "watch_change_relaxed");
            self.word.fetch_add(CHANGE, order);
            drop(value);
        }
        self.changed.notify_waiters();
        true
    }

    /// A sender leaves. The last one closes.
    pub fn remove_sender(&self) {
        // They pair with each other: what another sender has counted up comes before the end. (Loom does not see
        // what goes wrong else: it takes the steps of each thread in their order.)
        if self.senders.fetch_sub(1, AcqRel) == 1 {
            // Release pairs with the acquire in `now`.
            self.word.fetch_or(CLOSED, Release);
            self.changed.notify_waiters();
        }
    }

    /// A receiver leaves.
    pub fn remove_receiver(&self) {
        // Relaxed: who is woken sees it by that.
        if self.receivers.fetch_sub(1, Relaxed) == 1 {
            self.unwatched.notify_waiters();
        }
    }
}
