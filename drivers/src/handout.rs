//! What was started waits here for who uses it.

use alloc::collections::VecDeque;
use executor::sync::{Mutex, Notify};

/// Where started devices are left for who uses them.
pub(crate) struct Handout<T> {
    ready: Mutex<VecDeque<T>>,
    bell: Notify,
}

impl<T> Handout<T> {
    pub(crate) const fn new() -> Self {
        Self {
            ready: Mutex::new(VecDeque::new()),
            bell: Notify::new(),
        }
    }

    pub(crate) fn put(&self, one: T) {
        self.ready.lock_blocking().push_back(one);
        self.bell.notify_waiters();
    }

    /// Waits for the next.
    pub(crate) async fn next(&self) -> T {
        loop {
            // Made before the look: a bell that rings in between is heard.
            let bell = self.bell.notified();
            if let Some(one) = self.ready.lock().await.pop_front() {
                return one;
            }
            bell.await;
        }
    }

    /// Drops those that nobody has taken and that are of no use any more.
    pub(crate) async fn retain(&self, is_kept: impl FnMut(&T) -> bool) {
        self.ready.lock().await.retain(is_kept);
    }
}
