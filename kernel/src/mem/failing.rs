//! Allocations that fail on purpose, for tests. Images without tests have none of this.
//!
//! They fail for one task, wherever that goes on, so that loops of cores and other
//! tasks are not disturbed; or for the whole machine.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use hal::context;

const NOBODY: usize = 0;
const EVERYBODY: usize = usize::MAX;

/// Whose allocations count: the address of a task.
static WHOSE: AtomicUsize = AtomicUsize::new(NOBODY);
/// How many are still let through.
static LEFT: AtomicUsize = AtomicUsize::new(0);
/// Not only the next fails, but all that follow.
static IS_FOR_ALL: AtomicBool = AtomicBool::new(false);
/// How many have failed.
static FAILED: AtomicUsize = AtomicUsize::new(0);

/// Which allocations fail, from now on counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The one after so many.
    One(usize),
    /// All after so many.
    All(usize),
}

/// Allocations fail as long as this is there.
#[must_use]
pub struct Failing(());

impl Failing {
    /// Those of the task that runs here.
    pub fn of_this_task(which: Which) -> Self {
        Self::of(this_task(), which)
    }

    /// Those of the whole machine.
    pub fn of_the_machine(which: Which) -> Self {
        Self::of(EVERYBODY, which)
    }

    fn of(whose: usize, which: Which) -> Self {
        let (left, is_for_all) = match which {
            Which::One(left) => (left, false),
            Which::All(left) => (left, true),
        };
        FAILED.store(0, Relaxed);
        LEFT.store(left, Relaxed);
        IS_FOR_ALL.store(is_for_all, Relaxed);
        // Release pairs with the acquire in `fails`.
        let before = WHOSE.swap(whose, AcqRel);
        assert_eq!(before, NOBODY, "one test at a time");
        Self(())
    }

    /// No more fail. For when the task is lost that had what says so.
    pub fn end() {
        WHOSE.store(NOBODY, Relaxed);
    }

    /// How many have failed so far.
    pub fn count(&self) -> usize {
        FAILED.load(Relaxed)
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        WHOSE.store(NOBODY, Relaxed);
    }
}

/// What is polled here, without the marks that the executor makes on its address; nothing: nobody.
fn this_task() -> usize {
    context::current().task().addr() & !7
}

/// Whether this allocation fails.
#[inline]
pub fn fails() -> bool {
    // Acquire pairs with the release in `of`.
    match WHOSE.load(Acquire) {
        NOBODY => false,
        whose => counts(whose),
    }
}

#[cold]
fn counts(whose: usize) -> bool {
    if whose != EVERYBODY && whose != this_task() {
        return false;
    }
    let one_less = |left: usize| left.checked_sub(1);
    if LEFT.fetch_update(Relaxed, Relaxed, one_less).is_ok() {
        return false;
    }
    if IS_FOR_ALL.load(Relaxed) {
        FAILED.fetch_add(1, Relaxed);
        return true;
    }
    FAILED.compare_exchange(0, 1, Relaxed, Relaxed).is_ok()
}
