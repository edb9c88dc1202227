//! Contexts: the stacks that the loops of cores run on, and polls with them.
//!
//! A loop keeps nothing on its stack between turns, so it can go on from any.
//! When a poll has to wait, or is preempted, the stack it is on stays with it,
//! and its core goes on with the loop on another. From then on that context is
//! something runnable, as a task is: it has a header of its own, with the same
//! word of state, so it is woken, queued and stolen like a task; who takes it
//! out of a queue resumes it instead of polling it.
//!
//! The word of a context says RUNNING while it runs, and while nobody uses it:
//! a waker that was left over from an earlier poll then finds nothing to queue.

use super::{
    lost::Mark,
    offers::Offer,
    registry::NOBODYS,
    shared::Shared,
    worker::{Worker, release_memory},
};
use crate::task::{
    cell::{Header, VTable},
    extra::Extra,
    waker,
};
use alloc::alloc::{alloc, dealloc};
use core::{
    alloc::Layout,
    cell::{Cell, UnsafeCell},
    mem::{MaybeUninit, offset_of},
    ptr::NonNull,
    sync::atomic::Ordering::Relaxed,
};
use hal::{
    context::{self, AfterSwitch, ContextBlock, Frame},
    stack::{NoMemory, Stack},
    sync::{Lock, Rank, ranked},
};

/// A stack, what is saved of the registers, and what queues know of it.
#[repr(C)]
pub(crate) struct Context {
    /// First, as queues and wakers know only this.
    header: Header,
    block: ContextBlock,
    /// None: it has been given back.
    stack: UnsafeCell<Option<Stack>>,
    /// Of the usual size, so that any loop may run on it.
    is_usual: bool,
    /// It is left because others are to run, not because it waits. Written by who leaves it.
    gave_way: Cell<bool>,
    /// How often its poll was left. Written by who leaves it.
    times_left: Cell<usize>,
    /// Up to when its time was counted, if its task is tracked.
    counted_to: Cell<u64>,
    /// The last of what its poll has offered and not taken back. Written by itself.
    offers: Cell<Option<NonNull<Offer>>>,
    /// Of the poll that was left for good in it.
    mark: Mark,
    /// The next in the pool, whose lock guards this. Not the header's link: an entry that does not count may still be in a queue.
    next: Cell<Option<NonNull<Context>>>,
    /// Its neighbours among all of its runtime, whose lock guards this.
    neighbours: [Cell<*const Context>; 2],
    /// If the poll in it is lost: what knows its task's type from then on.
    table: UnsafeCell<MaybeUninit<VTable>>,
}

static VTABLE: VTable = VTable::of_context(free_memory);

/// # Safety
/// Nobody refers to it, and its stack has been given back.
unsafe fn free_memory(header: NonNull<Header>) {
    // SAFETY: allocated by `new` with this layout, and nothing in it needs dropping any more.
    unsafe { dealloc(header.as_ptr().cast(), Layout::new::<Context>()) };
}

impl Context {
    /// A context whose first instruction is the beginning of `entry`.
    pub(super) fn new(
        home: &Worker,
        size: usize,
        is_usual: bool,
        (entry, argument): (extern "C" fn(usize) -> !, usize),
    ) -> Result<NonNull<Self>, NoMemory> {
        let stack = Stack::new(size)?;
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(Layout::new::<Self>()) }.cast::<Self>();
        let this = NonNull::new(memory).ok_or(NoMemory)?;
        let bounds = stack.bounds();
        // SAFETY: fresh memory of this layout; then a context that does not run, with a stack of its own.
        unsafe {
            this.write(Self {
                header: Header::of_context(&VTABLE, home.into()),
                block: ContextBlock::new(),
                stack: UnsafeCell::new(Some(stack)),
                is_usual,
                gave_way: Cell::new(false),
                times_left: Cell::new(0),
                counted_to: Cell::new(0),
                offers: Cell::new(None),
                mark: Mark::new(),
                next: Cell::new(None),
                neighbours: [const { Cell::new(core::ptr::null()) }; 2],
                table: UnsafeCell::new(MaybeUninit::uninit()),
            });
            this.as_ref().block.prepare(bounds, entry, argument);
        }
        home.retain();
        // SAFETY: just made.
        unsafe { home.shared().contexts.add(this.as_ref()) };
        Ok(this)
    }

    /// The context that runs here. On a core that serves a worker, with the loop's home left.
    #[inline]
    pub(crate) fn current<'a>() -> &'a Self {
        // SAFETY: what runs on a core that serves a worker runs in the block of one of these.
        unsafe { Self::of_block(context::current()) }
    }

    /// The context that a block belongs to.
    ///
    /// # Safety
    /// It does belong to one.
    pub(super) unsafe fn of_block(block: &ContextBlock) -> &Self {
        let block = core::ptr::from_ref(block);
        // SAFETY: the caller's promise.
        unsafe { &*block.byte_sub(offset_of!(Self, block)).cast() }
    }

    /// The context of a header whose word says that it is one.
    ///
    /// # Safety
    /// It does.
    #[inline]
    pub(crate) unsafe fn of(header: &Header) -> &Self {
        // SAFETY: the header is its first field.
        unsafe { &*core::ptr::from_ref(header).cast() }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn block(&self) -> NonNull<ContextBlock> {
        (&self.block).into()
    }

    /// Of the usual size.
    pub(super) fn is_usual(&self) -> bool {
        self.is_usual
    }

    /// The task that is polled in it.
    ///
    /// # Safety
    /// It is in the middle of a poll, and stays so.
    pub(crate) unsafe fn task(&self) -> &Header {
        let task = waker::untagged(self.block.task());
        // SAFETY: the task that is polled lives.
        unsafe { &*task.cast::<Header>() }
    }

    /// Where it waits, and who has called that; innermost first. If it goes on meanwhile, it may be anything.
    pub(super) fn backtrace(&self, visit: impl FnMut(usize)) {
        if let Some((program_counter, frame_pointer)) = self.block.look_at_place() {
            hal::backtrace::walk(program_counter, frame_pointer, visit);
        }
    }

    /// Whether this task is polled in it, at this moment.
    pub(super) fn polls(&self, task: &Header) -> bool {
        core::ptr::eq(waker::untagged(self.block.task()).cast(), task)
    }

    /// Whether that has ended but for what is dropped of its outcome.
    pub(super) fn task_has_ended(&self) -> bool {
        self.block.task().addr() & waker::ENDED != 0
    }

    /// Who has its waker finds the task by it that waits in it; one that has ended has no place in the list any more.
    pub(crate) fn take_entry_of(&self, task: &Header) {
        let entry = match self.task_has_ended() {
            true => NOBODYS.as_ptr(),
            false => task.entry.load(Relaxed),
        };
        self.header.entry.store(entry, Relaxed);
    }

    /// Says whether it is left only for others to run.
    pub(super) fn set_gave_way(&self, gave_way: bool) {
        self.gave_way.set(gave_way);
    }

    /// Its poll was left; whether only for others to run.
    pub(super) fn count_left(&self) -> bool {
        let gave_way = self.gave_way.get();
        if gave_way && !cfg!(broken = "wait_though_it_gave_way")
            || !gave_way && !cfg!(broken = "wait_though_it_waited")
        {
            self.times_left.set(self.times_left.get().wrapping_add(1));
        }
        gave_way
    }

    /// How often its poll was left. Whoever waits asks this before he looks for what he waits for. If it
    /// is the same when he has found nothing, a wake that came meanwhile is still in the context's word. Else it may
    /// not be: being queued and being woken are one bit, which is cleared when the context goes on, maybe from
    /// a wait within what he looked at.
    #[inline]
    pub(crate) fn times_left(&self) -> usize {
        self.times_left.get()
    }

    /// What its poll has offered.
    #[inline]
    pub(super) fn offers(&self) -> &Cell<Option<NonNull<Offer>>> {
        &self.offers
    }

    /// Keeps a table for the task whose poll was lost in it.
    ///
    /// # Safety
    /// The context stays for ever, and this is called once.
    pub(crate) unsafe fn set_table(&self, table: VTable) -> &'static VTable {
        // SAFETY: the caller's promise: nobody else is at it, then or later.
        unsafe { (*self.table.get()).write(table) }
    }

    /// From here on its time counts.
    pub(super) fn count_from(&self, now: u64) {
        self.counted_to.set(now);
    }

    /// Counts its time up to now as its task's, which is tracked. By itself, or its core's interrupts.
    pub(super) fn count_to(&self, extra: &Extra, now: u64) {
        let before = self.counted_to.replace(now);
        extra.count_time(now.saturating_sub(before));
    }

    /// Bytes of stack in use, as it was saved, and bytes that have memory.
    pub(super) fn stack_use(&self) -> (usize, usize) {
        // SAFETY: it is saved, so nobody writes its frame.
        let frame = unsafe { self.block.frame() };
        let top = self.block.stack().high;
        (
            top.saturating_sub(frame.stack_pointer()),
            self.stack_memory(),
        )
    }

    /// The registers that it was left with.
    ///
    /// # Safety
    /// It does not run.
    pub(super) unsafe fn saved(&self) -> &Frame {
        // SAFETY: the caller's promise.
        unsafe { self.block.frame() }
    }

    /// Bytes of memory that its stack has.
    pub(super) fn stack_memory(&self) -> usize {
        // SAFETY: the stack is given back only when nobody uses it.
        let stack = unsafe { &*self.stack.get() };
        stack.as_ref().map_or(0, Stack::memory)
    }

    /// Where its loss is marked.
    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// What switches to it after `after` is to be told.
    pub(super) fn after(&self, run: extern "C" fn(usize)) -> AfterSwitch {
        AfterSwitch {
            run,
            argument: core::ptr::from_ref(self).expose_provenance(),
        }
    }

    /// What an action after a switch was told.
    ///
    /// # Safety
    /// It was told by [`after`](Self::after), and the context has not been freed.
    pub(super) unsafe fn told<'a>(argument: usize) -> &'a Self {
        // SAFETY: the caller's promise.
        unsafe { &*core::ptr::with_exposed_provenance(argument) }
    }

    /// Gives its stack back and, once no waker is left, its memory.
    ///
    /// # Safety
    /// Nobody uses it, and it is in no list. Not in an interrupt.
    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: the caller's promise.
        let context = unsafe { this.as_ref() };
        // SAFETY: its home lives as long as it.
        let shared = unsafe { context.header.home.as_ref() }.shared();
        shared.contexts.remove(context);
        // SAFETY: the caller's promise.
        drop(unsafe { (*context.stack.get()).take() });
        if context.header.state.release() {
            // SAFETY: that was the last reference.
            unsafe { release_memory(context.header().into()) };
        }
    }
}

/// All contexts of a runtime.
pub(super) struct Contexts(Lock<First>);

struct First(*const Context);

// SAFETY: what it leads to is touched under its lock.
unsafe impl Send for First {}

impl Contexts {
    pub(super) const fn new() -> Self {
        Self(ranked(Rank::Contexts, First(core::ptr::null())))
    }

    fn add(&self, context: &Context) {
        let mut first = self.0.lock();
        context.neighbours[1].set(first.0);
        // SAFETY: null, or in the list, whose lock is held.
        if let Some(next) = unsafe { first.0.as_ref() } {
            next.neighbours[0].set(context);
        }
        first.0 = context;
    }

    fn remove(&self, context: &Context) {
        let mut first = self.0.lock();
        let [previous, next] = &context.neighbours;
        // SAFETY: null, or in the list, whose lock is held.
        unsafe {
            match previous.get().as_ref() {
                Some(previous) => previous.neighbours[1].set(next.get()),
                None => first.0 = next.get(),
            }
            if let Some(next) = next.get().as_ref() {
                next.neighbours[0].set(previous.get());
            }
        }
    }

    /// Visits each, under the lock: it is not freed meanwhile.
    pub(super) fn each(&self, mut visit: impl FnMut(&Context)) {
        let first = self.0.lock();
        let mut next = first.0;
        // SAFETY: null, or in the list, whose lock is held.
        while let Some(context) = unsafe { next.as_ref() } {
            visit(context);
            next = context.neighbours[1].get();
        }
    }
}

/// The context that a task is to be polled in, because it asked for a stack of
/// another size. Written before the task is queued, and by the core that polls it first.
#[derive(Default)]
pub(crate) struct OwnContext(Cell<Option<NonNull<Context>>>);

// SAFETY: one core has it at a time: who spawns the task, who polls it, who frees it.
unsafe impl Sync for OwnContext {}
// SAFETY: as above; a context may be used by any core.
unsafe impl Send for OwnContext {}

impl OwnContext {
    pub(crate) fn set(&self, context: NonNull<Context>) {
        self.0.set(Some(context));
    }

    pub(super) fn take(&self) -> Option<NonNull<Context>> {
        self.0.take()
    }
}

impl Drop for OwnContext {
    /// The task has never run.
    fn drop(&mut self) {
        if let Some(context) = self.take() {
            // SAFETY: nobody else knows of it, and a task's memory is not freed in interrupts.
            unsafe { Context::free(context) };
        }
    }
}

/// Contexts that nobody uses.
pub(crate) struct Pool {
    /// Of the usual size.
    free: Lock<Pile>,
    /// Those to be freed.
    doomed: Lock<Pile>,
}

/// Contexts on top of each other.
struct Pile {
    top: Option<NonNull<Context>>,
    len: usize,
}

// SAFETY: what it leads to is nobody else's.
unsafe impl Send for Pile {}

impl Pile {
    const fn new() -> Self {
        Self { top: None, len: 0 }
    }

    fn push(&mut self, context: &Context) {
        context.next.set(self.top.replace(context.into()));
        self.len += 1;
    }

    fn pop(&mut self) -> Option<NonNull<Context>> {
        let top = self.top?;
        // SAFETY: it is in the pile, so it is there, and nobody else's.
        self.top = unsafe { top.as_ref() }.next.take();
        self.len -= 1;
        Some(top)
    }
}

impl Pool {
    pub(super) const fn new() -> Self {
        Self {
            free: Lock::new(Pile::new()),
            doomed: Lock::new(Pile::new()),
        }
    }

    /// One that nobody uses.
    pub(super) fn take(&self) -> Option<NonNull<Context>> {
        self.free.lock().pop()
    }

    /// Keeps one, or dooms it if `keep` are there. True: there are some to be freed.
    ///
    /// # Safety
    /// It was left for good, by a loop between turns.
    #[must_use]
    pub(super) unsafe fn put(&self, context: &Context, keep: usize) -> bool {
        let mut free = self.free.lock();
        let is_kept = context.is_usual && free.len < keep;
        if is_kept {
            free.push(context);
        } else {
            drop(free);
            self.doomed.lock().push(context);
        }
        !is_kept
    }

    /// Frees the doomed. Not in an interrupt.
    pub(super) fn free_doomed(&self) {
        loop {
            let doomed = self.doomed.lock().pop();
            let Some(context) = doomed else { break };
            // SAFETY: nobody uses it, and it was just taken out of the list.
            unsafe { Context::free(context) };
        }
    }

    /// Frees all. The runtime has ended.
    pub(crate) fn free_all(&self) {
        self.free_doomed();
        while let Some(context) = self.take() {
            // SAFETY: nobody uses it, and it was just taken out of the list.
            unsafe { Context::free(context) };
        }
    }
}

impl Shared {
    /// How many contexts are kept that nobody uses.
    pub(super) fn contexts_kept(&self) -> usize {
        8 * self.cores().len()
    }
}
