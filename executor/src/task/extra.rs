//! What not every task has: a name, a parent, counts, finalizers. A block of
//! its own, made when it is asked for and freed with the task.

use super::{TaskError, TaskId, blocking::TurnPermit, finalizers::Finalizer, group::Children};
use crate::{memory::Counted, scheduler::context::OwnContext, sync::WakerSlot, thread::Parking};
use alloc::{borrow::Cow, vec::Vec};
use core::{
    alloc::Layout,
    cell::UnsafeCell,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
    },
    task::Waker,
};

/// Whether a task that is in the middle of a poll was left there.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Left {
    /// It runs.
    No = 0,
    /// It could go on.
    GaveWay = 1,
    /// It waits.
    Waits = 2,
}

/// The block.
pub(crate) struct Extra {
    // Fixed at birth:
    /// What the user called it.
    pub(crate) name: Option<Cow<'static, str>>,
    /// The task that spawned it.
    pub(crate) parent: Option<TaskId>,
    /// A number of the user's, for a policy.
    pub(crate) tag: u64,
    /// When it was spawned.
    pub(crate) born: u64,

    // Written by the core that runs the task, read by any:
    /// How often it was polled.
    pub(crate) polls: AtomicU64,
    /// Whoever waits within its poll, and is to hear when it is cancelled.
    pub(super) on_cancel: WakerSlot,
    /// Whether it is parked, as threads are.
    pub(crate) parking: Parking,
    /// Whether it is lost, and who waits to hear of that.
    pub(crate) loss: Loss,
    /// The context that it is to be polled in, until it is; None: any.
    pub(crate) own_context: OwnContext,
    /// A [`Left`].
    pub(super) left: AtomicU8,
    /// Bytes of stack in use when it was last left in the middle of a poll; 0: never.
    pub(super) stack_used: AtomicUsize,
    /// How many had memory.
    pub(super) stack_memory: AtomicUsize,
    /// Nanoseconds spent in polls.
    pub(crate) running: AtomicU64,
    /// Core that polled it last.
    pub(crate) core: AtomicU32,
    /// What it waits for, as the last primitive said.
    pub(super) waits_for: AtomicPtr<&'static str>,

    // The core that runs the task only, or whoever has its function meanwhile:
    /// The turn of a blocking function that runs: it is given back if that is lost, too.
    pub(super) turn: UnsafeCell<Option<TurnPermit>>,
    pub(crate) finalizers: UnsafeCell<Vec<Finalizer>>,
    /// Scopes that it is in, or was when it was lost; the innermost last.
    pub(super) scopes: UnsafeCell<Vec<Counted<dyn Children>>>,
}

// SAFETY: `turn`, `finalizers` and `scopes` are touched by the core that runs the task only, one at a time by
// its state; they are `Send`, or the task is local and that core always the same.
unsafe impl Sync for Extra {}

impl Extra {
    pub(crate) fn new() -> Self {
        Self {
            name: None,
            parent: None,
            tag: 0,
            born: 0,
            polls: AtomicU64::new(0),
            on_cancel: WakerSlot::new(),
            parking: Parking::default(),
            loss: Loss::default(),
            own_context: OwnContext::default(),
            left: AtomicU8::new(Left::No as u8),
            stack_used: AtomicUsize::new(0),
            stack_memory: AtomicUsize::new(0),
            running: AtomicU64::new(0),
            core: AtomicU32::new(0),
            waits_for: AtomicPtr::new(core::ptr::null_mut()),
            turn: UnsafeCell::new(None),
            finalizers: UnsafeCell::new(Vec::new()),
            scopes: UnsafeCell::new(Vec::new()),
        }
    }

    /// Gives it memory of its own; None: there is none.
    pub(crate) fn try_box(self) -> Option<*mut Self> {
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc::alloc::alloc(Layout::new::<Self>()) }.cast::<Self>();
        if memory.is_null() {
            return None;
        }
        // SAFETY: fresh memory of this layout, as a box has it.
        unsafe { memory.write(self) };
        Some(memory)
    }

    /// Counts a poll. By the core that runs the task.
    pub(crate) fn count_poll(&self, core: usize) {
        self.polls.store(self.polls.load(Relaxed) + 1, Relaxed);
        self.set_core(core);
    }

    /// Counts time that it ran. By the core that runs the task, and its interrupts.
    pub(crate) fn count_time(&self, nanos: u64) {
        self.running.fetch_add(nanos, Relaxed);
    }

    /// The core that runs it.
    pub(crate) fn set_core(&self, core: usize) {
        self.core.store(core as u32, Relaxed);
    }

    /// Says whether it was left in the middle of a poll.
    pub(crate) fn set_left(&self, left: Left) {
        self.left.store(left as u8, Relaxed);
    }

    /// Whether it was.
    pub(crate) fn left(&self) -> Left {
        match self.left.load(Relaxed) {
            0 => Left::No,
            1 => Left::GaveWay,
            _ => Left::Waits,
        }
    }

    /// The task was left in the middle of a poll, with so much of its stack in use and with memory.
    pub(crate) fn set_stack_use(&self, (used, memory): (usize, usize)) {
        self.stack_used.store(used, Relaxed);
        self.stack_memory.store(memory, Relaxed);
    }

    /// How much that was when it was last so.
    pub(crate) fn stack_use(&self) -> Option<(usize, usize)> {
        let used = self.stack_used.load(Relaxed);
        (used != 0).then(|| (used, self.stack_memory.load(Relaxed)))
    }

    /// Says what the task waits for.
    pub(crate) fn set_waits_for(&self, what: &'static &'static str) {
        let what = core::ptr::from_ref(what).cast_mut();
        self.waits_for.store(what, Relaxed);
    }

    /// What it waits for.
    pub(crate) fn waits_for(&self) -> &'static str {
        let what = self.waits_for.load(Relaxed);
        // SAFETY: null, or a `&'static &'static str` from `set_waits_for`.
        unsafe { what.as_ref() }.map_or("", |what| what)
    }
}

/// Whether a task is lost: its poll was left for good. For who waits for what that was to do, and not
/// for the task's end.
#[derive(Default)]
pub(crate) struct Loss {
    /// Whether `why` is written.
    is_set: AtomicBool,
    why: UnsafeCell<Option<TaskError>>,
    waiting: WakerSlot,
}

// SAFETY: `why` is written once, before `is_set`, and only read after that.
unsafe impl Sync for Loss {}
// SAFETY: an error may be sent.
unsafe impl Send for Loss {}

impl Loss {
    /// It is. By the core that ran it. The first time counts: a finalizer may be lost, too.
    pub(crate) fn set(&self, why: &TaskError) {
        if self.is_set.load(Relaxed) {
            return;
        }
        // SAFETY: nobody looks at it yet.
        unsafe { *self.why.get() = why.of_loss() };
        // Release pairs with the acquire in `why`. The slot's lock orders it with the look after `register`.
        self.is_set.store(true, Release);
        self.waiting.wake();
    }

    /// Why it is, if it is.
    pub(crate) fn why(&self) -> Option<TaskError> {
        // Acquire pairs with the release in `set`.
        if !self.is_set.load(Acquire) {
            return None;
        }
        // SAFETY: written, and never again.
        unsafe { &*self.why.get() }.as_ref()?.of_loss()
    }

    /// Wakes this when it is. It looks again after that.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waiting.register(waker);
    }

    /// Nobody waits any more.
    pub(crate) fn clear(&self) {
        self.waiting.clear();
    }
}
