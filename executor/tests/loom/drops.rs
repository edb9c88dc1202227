//! Values that know how many of them there are.

use super::items::Steps;
use std::sync::{
    Arc,
    // Not loom's: they count, and must not order anything.
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// How many there are of the values that were made from it.
#[derive(Clone, Default)]
pub struct Drops {
    alive: Arc<AtomicUsize>,
    steps: Arc<Steps>,
}

/// One of them.
pub struct Value {
    pub number: usize,
    drops: Drops,
}

impl Drops {
    pub fn value(&self, number: usize) -> Value {
        self.alive.fetch_add(1, Relaxed);
        Value {
            number,
            drops: self.clone(),
        }
    }

    /// All were dropped.
    pub fn assert_none(&self) {
        assert_eq!(
            self.alive.load(Relaxed),
            0,
            "values are left, or dropped twice"
        );
    }

    /// So many are there.
    pub fn assert_alive(&self, count: usize) {
        assert_eq!(self.alive.load(Relaxed), count);
    }
}

impl Clone for Value {
    /// Others may come in between.
    fn clone(&self) -> Self {
        self.drops.steps.step();
        self.drops.value(self.number)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.drops.alive.fetch_sub(1, Relaxed);
    }
}
