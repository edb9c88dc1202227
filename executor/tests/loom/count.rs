//! A waker that counts.

use loom::sync::atomic::{AtomicUsize, Ordering::*};
use std::{
    sync::Arc,
    task::{Wake, Waker},
};

/// Counts how often it was woken. What was done before a wake is seen by who sees the count.
pub struct Count(AtomicUsize);

impl Count {
    pub fn new() -> (Arc<Self>, Waker) {
        let count = Arc::new(Self(AtomicUsize::new(0)));
        (count.clone(), Waker::from(count))
    }

    pub fn get(&self) -> usize {
        self.0.load(Acquire)
    }

    /// Whether no waker refers to it any more.
    pub fn is_alone(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Release);
    }
}
