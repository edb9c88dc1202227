//! Contexts: something a core can be in the middle of.
//!
//! Each has a block that moves with it from core to core. What code must not
//! lose when it migrates (how often it masked interrupts, its guards, whether
//! it was asked to give way) lives there and not in the core, because code may
//! be moved between reading "my core" and using it.
//!
//! A trap saves the full frame into the block of the context it interrupted,
//! never onto its stack, which may be unmapped. A voluntary [`switch`] saves
//! only what a function call must keep, into the same frame.

use crate::{arch, cores::MAX_CORES, probe, stack::Bounds, sync};
pub use arch::Frame;
use core::{
    cell::UnsafeCell,
    mem::offset_of,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering::Relaxed},
};

/// All that a context is apart from its stack.
#[repr(C, align(64))]
pub struct ContextBlock {
    /// Registers, while it is not running. Written by the core that runs it,
    /// with interrupts masked. Assembly relies on its place.
    pub(crate) frame: UnsafeCell<Frame>,
    /// Core that runs it; written by that core as it resumes it.
    #[cfg_attr(
        not(target_arch = "aarch64"),
        allow(dead_code, reason = "only aarch64 finds its core this way")
    )]
    pub(crate) core: AtomicPtr<arch::Core>,
    /// How many guards against being switched away it holds. Written by itself.
    pub(crate) guards: AtomicU32,
    /// What it is asked to do when the last guard is dropped; see `preempt`. Bits are set by its
    /// core's interrupts, and taken by itself. One word with the count to who looks at 8 bytes.
    pub(crate) need_resched: AtomicU32,
    /// Found in the same poll for long, and whether it is to hear of that; see `preempt`. Written by its
    /// core's interrupts, and by itself.
    pub(crate) soft: AtomicU8,
    /// How often it masked interrupts. Written by itself.
    pub(crate) masks: AtomicU32,
    /// Whether the last unmask lets interrupts in. Written by itself.
    pub(crate) unmask_after: AtomicBool,
    /// Ranks of the locks that it holds, a bit for each; with debug assertions. Written by itself.
    pub(crate) locks: AtomicU32,
    /// Where the locks of threads that it holds were taken, as far as there is room; null: none. For the
    /// executor, with debug assertions. Written by itself.
    pub thread_locks: [AtomicPtr<()>; 4],
    /// What the executor polls in it; null: nothing. Written by itself.
    task: AtomicPtr<()>,
    /// Top of the chain of its task-locals. Written by itself.
    locals: AtomicPtr<()>,
    /// Its stack, for naming an overflow and for backtraces.
    stack: UnsafeCell<Bounds>,
}

// The upper half of one word.
const _: () = {
    let guards = offset_of!(ContextBlock, guards);
    assert!(guards.is_multiple_of(8) && offset_of!(ContextBlock, need_resched) == guards + 4);
};

// SAFETY: `frame` and `stack` are touched only by the core that runs or switches
// the context (one at a time), or when that core is stopped; the rest is atomic.
unsafe impl Sync for ContextBlock {}
// SAFETY: a block holds no reference to the core that made it.
unsafe impl Send for ContextBlock {}

impl ContextBlock {
    /// A block for what runs already, with no stack known.
    pub const fn new() -> Self {
        Self {
            frame: UnsafeCell::new(Frame::EMPTY),
            core: AtomicPtr::new(ptr::null_mut()),
            guards: AtomicU32::new(0),
            need_resched: AtomicU32::new(0),
            soft: AtomicU8::new(0),
            masks: AtomicU32::new(0),
            unmask_after: AtomicBool::new(false),
            locks: AtomicU32::new(0),
            thread_locks: [const { AtomicPtr::new(ptr::null_mut()) }; 4],
            task: AtomicPtr::new(ptr::null_mut()),
            locals: AtomicPtr::new(ptr::null_mut()),
            stack: UnsafeCell::new(Bounds::EMPTY),
        }
    }

    /// Makes the context begin at `entry(argument)` on `stack` when it is first
    /// resumed. It begins with interrupts masked once, so `entry` says when it is ready.
    ///
    /// # Safety
    /// The context does not run, and `stack` is its own for as long as it lives.
    pub unsafe fn prepare(&self, stack: Bounds, entry: extern "C" fn(usize) -> !, argument: usize) {
        // SAFETY: the context does not run, so nobody else touches these cells.
        unsafe {
            *self.stack.get() = stack;
            *self.frame.get() = Frame::start(stack.high, entry, argument);
        }
        self.masks.store(1, Relaxed);
        self.unmask_after.store(true, Relaxed);
        self.forget_task();
    }

    /// How many guards it holds.
    #[inline]
    pub(crate) fn guards(&self) -> &AtomicU32 {
        if cfg!(broken = "guards_in_core") {
            static GUARDS: [AtomicU32; MAX_CORES] = [const { AtomicU32::new(0) }; MAX_CORES];
            return &GUARDS[arch::this_core()];
        }
        &self.guards
    }

    /// Whether it holds no guard and no mask, hence no lock either.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.guards().load(Relaxed) == 0 && self.masks.load(Relaxed) == 0
    }

    /// What the executor polls in this context; null: nothing.
    #[inline]
    pub fn task(&self) -> *mut () {
        self.task.load(Relaxed)
    }

    /// From here on, the executor polls `task` in this context, which calls this itself.
    #[inline]
    pub fn set_task(&self, task: *mut ()) {
        self.task.store(task, Relaxed);
    }

    /// Top of the chain of task-locals of what is polled here.
    #[inline]
    pub fn locals(&self) -> *mut () {
        self.locals.load(Relaxed)
    }

    /// Replaces the chain of task-locals of this context, which calls this itself.
    #[inline]
    pub fn set_locals(&self, top: *mut ()) {
        self.locals.store(top, Relaxed);
    }

    /// Nothing is polled here any more, or yet.
    pub(crate) fn forget_task(&self) {
        self.set_task(ptr::null_mut());
        self.set_locals(ptr::null_mut());
    }

    /// Tells where the stack of a context is that was not made by [`prepare`](Self::prepare).
    ///
    /// # Safety
    /// Called by the context itself or before it runs.
    pub unsafe fn set_stack(&self, stack: Bounds) {
        // SAFETY: nobody else writes the cell, by the caller's promise.
        unsafe { *self.stack.get() = stack }
    }

    /// Where its stack is.
    pub fn stack(&self) -> Bounds {
        // SAFETY: written only before it runs or by itself; a stopped core's is read after the stop.
        unsafe { *self.stack.get() }
    }

    /// Program counter and frame pointer, if it does not run now: for a backtrace of what waits. If it does, or goes on meanwhile, they
    /// may be any numbers.
    pub fn look_at_place(&self) -> Option<(usize, usize)> {
        // By probes: somebody may write to it at this moment.
        let at = |offset| probe::read(self.frame.get().addr() + offset).ok();
        let (pc, fp) = Frame::PLACE;
        Some((at(pc)? as usize, at(fp)? as usize))
    }

    /// The registers it was saved with.
    ///
    /// # Safety
    /// The context does not run now.
    pub unsafe fn frame(&self) -> &Frame {
        // SAFETY: nobody writes the frame of a context that does not run.
        unsafe { &*self.frame.get() }
    }
}

impl Default for ContextBlock {
    fn default() -> Self {
        Self::new()
    }
}

/// What a core does once it has left a context's stack: offer that context to
/// others, commit its park, or free its stack. Exactly one for each switch.
#[derive(Clone, Copy)]
pub struct AfterSwitch {
    /// Runs with interrupts masked, not on the old context's stack. It may not allocate or free: hand
    /// what is left over to somebody who may.
    pub run: extern "C" fn(usize),
    /// Given to it.
    pub argument: usize,
}

impl AfterSwitch {
    /// Nothing is to be done.
    pub const NOTHING: Self = {
        extern "C" fn nothing(_: usize) {}
        Self {
            run: nothing,
            argument: 0,
        }
    };
}

/// The block of the context that runs here.
///
/// The compiler may read it once for a whole function, keep it across calls,
/// and move the read to wherever it likes: to the code of one context its block
/// never changes, on whichever core it goes on. There are two exceptions, and
/// each is a function of its own that is never inlined, so that no read can be
/// moved into it:
/// 1. Between `set_current` and the jump into the next context, code of the old
///    one meets the new block: [`switch`], and the end of an interrupt in
///    `traps::leave`. Inside, `current_anew` reads what is there at that moment.
/// 2. Before `bring_up::claim_core` a core has no block. Who calls that leaves
///    all the rest of its work to another function.
///
/// A handler runs as the context that it interrupted.
#[inline]
pub fn current() -> &'static ContextBlock {
    // SAFETY: every core gets a block before any Rust but boot's runs, and a
    // block lives at least as long as its context runs.
    unsafe { arch::current().as_ref() }
}

/// The block of the context that runs here, read at this very place: for where it changes.
#[inline]
pub(crate) fn current_anew() -> &'static ContextBlock {
    // SAFETY: as for `current`.
    unsafe { arch::current_anew().as_ref() }
}

/// Leaves the current context and goes on in `next`, which some core left
/// before. Returns when somebody resumes the current one.
///
/// # Safety
/// 1. Interrupts are masked.
/// 2. `next` is saved, nobody else resumes it, and its block and stack live until it ends.
/// 3. The current block lives until it is resumed.
// Never inlined: a read of `current` in the caller, before or after, must not be moved in between
// `set_current` and the jump, where it would find `next`.
#[inline(never)]
pub unsafe fn switch(next: NonNull<ContextBlock>, after: AfterSwitch) {
    debug_assert!(!arch::irq_are_enabled());
    sync::assert_none_held();
    // Until the old one is saved, a trap would save over `next`: interrupts are masked, an NMI has a
    // frame of its own, and nothing here may fault and come back. So if the stack grows, it does now.
    arch::touch_below::<256>();
    let old = current_anew();
    // SAFETY: points 1 to 3.
    unsafe {
        arch::set_current(next);
        let next = next.as_ref().frame.get();
        arch::switch(old.frame.get(), next, after.run, after.argument);
    }
}

/// Fills every register with values made from `seed`, spins `turns` times, and
/// says whether all are unchanged. For tests of preemption.
pub fn registers_survive(seed: u64, turns: u64) -> bool {
    arch::registers_survive(seed, turns)
}
