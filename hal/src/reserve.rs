//! Frames that a core keeps ready for when none can be asked for: a stack
//! grows by a page fault, and what was interrupted may hold any lock.
//!
//! Only the core's own fault handler takes. Whoever fills it may be interrupted
//! by that handler in the middle, and may have moved to another core since it
//! chose this reserve, so two may fill at once. Each slot changes in one step.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// Up to `FRAMES` frames.
pub struct Reserve<const FRAMES: usize> {
    /// 0: none. Emptied by the core's fault handler, filled by any core.
    frames: [AtomicU64; FRAMES],
    /// Whether it is to be filled. Any core.
    lacks: AtomicBool,
}

impl<const FRAMES: usize> Reserve<FRAMES> {
    /// Empty, and content with that.
    #[cfg(not(loom))]
    #[allow(clippy::new_without_default, reason = "made in a static")]
    pub const fn new() -> Self {
        Self {
            frames: [const { AtomicU64::new(0) }; FRAMES],
            lacks: AtomicBool::new(false),
        }
    }

    #[cfg(loom)]
    #[allow(clippy::new_without_default, reason = "as above")]
    /// For the models.
    pub fn new() -> Self {
        Self {
            frames: core::array::from_fn(|_| AtomicU64::new(0)),
            lacks: AtomicBool::new(false),
        }
    }

    /// Takes a frame. Only in the fault handler of its core.
    pub fn take(&self) -> Option<u64> {
        for slot in &self.frames {
            // Acquire pairs with the release in `refill`: the frame is zeros.
            let order = if cfg!(seeded = "reserve_take_relaxed") {
                Relaxed
            } else {
                Acquire
            };
            let frame = slot.swap(0, order);
            if frame != 0 {
                // Release pairs with the acquire in `refill`: who sees this sees that the slot is empty.
                // A swap, because loom, unlike the hardware, may order a store before a swap that was earlier.
                self.lacks.swap(true, Release);
                return Some(frame);
            }
        }
        None
    }

    /// Fills it up with what `source` gives. What is too much goes to `sink`.
    pub fn refill(&self, mut source: impl FnMut() -> Option<u64>, mut sink: impl FnMut(u64)) {
        // First: whatever is taken from here on says so anew. Acquire pairs with `take`.
        let late = cfg!(seeded = "reserve_content_too_late");
        if !late {
            self.lacks.swap(false, Acquire);
        }
        for slot in &self.frames {
            if slot.load(Relaxed) != 0 {
                continue;
            }
            let Some(frame) = source() else {
                self.lacks.swap(true, Relaxed);
                return;
            };
            if cfg!(seeded = "reserve_filled_twice") {
                slot.store(frame, Release);
                continue;
            }
            // Release pairs with the acquire in `take`.
            if slot.compare_exchange(0, frame, Release, Relaxed).is_err() {
                sink(frame);
            }
        }
        if late {
            self.lacks.swap(false, Acquire);
        }
    }

    /// Whether it is to be filled.
    #[inline]
    pub fn lacks(&self) -> bool {
        self.lacks.load(Relaxed)
    }

    /// How many frames it has.
    pub fn count(&self) -> usize {
        let there = |slot: &&AtomicU64| slot.load(Relaxed) != 0;
        self.frames.iter().filter(there).count()
    }
}
