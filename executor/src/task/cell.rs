//! The task itself: one allocation, a header that everybody may look at, and
//! behind it the future or, once that is gone, the outcome.
//!
//! [`Header`] is all that queues and wakers know. The functions that know the
//! future's type are reached through its [`VTable`].

use super::{TaskError, extra::Extra, state::State, waker};
use crate::{
    memory::try_box,
    queue::Linked,
    scheduler::{
        context,
        registry::{Entry, NOBODYS},
        worker::Worker,
    },
    thread::held::poll_checked,
};
use alloc::{
    alloc::{alloc, dealloc},
    boxed::Box,
};
use core::{
    alloc::Layout,
    cell::{Cell, UnsafeCell},
    future::Future,
    mem::{ManuallyDrop, MaybeUninit},
    pin::Pin,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
    task::{Context, Poll, Waker},
};
use hal::unwind;

/// What is known of a task whose type is not. One cache line.
#[repr(C, align(8))]
pub(crate) struct Header {
    /// Who may do what; see [`state`](super::state).
    pub(crate) state: State,
    /// What knows the type.
    vtable: Cell<&'static VTable>,
    /// Next in whichever queue it is in, which guards it.
    link: AtomicPtr<Header>,
    /// Its place in the list of all tasks, until it has ended. Of a context that waits: that of the task that waits in it.
    pub(crate) entry: AtomicPtr<Entry>,
    /// Where it was spawned: that list is there. Counted, so it outlives the task.
    pub(crate) home: NonNull<Worker>,
    /// What not every task has. Null, or made once and freed with the task.
    pub(super) extra: AtomicPtr<Extra>,
    /// The join waker; the state says whose it is.
    joiner: UnsafeCell<MaybeUninit<Waker>>,
}

const _: () = assert!(size_of::<Header>() <= 64);

// SAFETY: a task is in at most one queue at a time: only the step to QUEUED lets it into one, and
// only the step from QUEUED to RUNNING, by whoever took it out, lets it be queued again.
unsafe impl Linked for Header {
    #[inline]
    fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }
}

pub(crate) struct VTable {
    /// Polls the future with the task's own waker; if that is the end of it, drops it and writes the outcome.
    poll: unsafe fn(NonNull<Header>) -> bool,
    /// Drops the future where it stands and writes this outcome.
    abort: unsafe fn(NonNull<Header>, TaskError),
    drop_outcome: unsafe fn(NonNull<Header>),
    /// Leaves the future where it stands for good, and writes this outcome elsewhere.
    lose: unsafe fn(NonNull<Header>, TaskError, NonNull<context::Context>),
    /// Gives the memory back.
    dealloc: unsafe fn(NonNull<Header>),
    /// Where the outcome is, from the header on.
    outcome: usize,
    /// Which context it was lost in.
    lost_in: Option<NonNull<context::Context>>,
}

// SAFETY: nothing in it changes; and of the context only the core that runs the task makes use.
unsafe impl Sync for VTable {}

#[repr(C)]
struct Memory<F: Future> {
    header: Header,
    stage: UnsafeCell<Stage<F>>,
}

#[repr(C)]
union Stage<F: Future> {
    future: ManuallyDrop<F>,
    outcome: ManuallyDrop<Result<F::Output, TaskError>>,
}

impl<F: Future> Memory<F> {
    const VTABLE: VTable = VTable {
        poll: poll::<F>,
        abort: abort::<F>,
        drop_outcome: drop_outcome::<F>,
        lose: lose::<F>,
        dealloc: dealloc_cell::<F>,
        outcome: core::mem::offset_of!(Self, stage),
        lost_in: None,
    };

    // Outcomes that need no memory.
    const TOO_DEEP: *const Result<F::Output, TaskError> = &Err(TaskError::StackOverflow);
    const NO_MEMORY: *const Result<F::Output, TaskError> = &Err(TaskError::NoMemory);
}

impl VTable {
    /// For what is no task, and has no future.
    pub(crate) const fn of_context(dealloc: unsafe fn(NonNull<Header>)) -> Self {
        Self {
            poll: |_| unreachable!("a context is resumed, not polled"),
            abort: |_, _| unreachable!("a context has no future"),
            drop_outcome: |_| unreachable!("a context has no outcome"),
            lose: |_, _, _| unreachable!("a context has no outcome"),
            dealloc,
            outcome: 0,
            lost_in: None,
        }
    }
}

/// Bytes of a task with this future.
pub(super) fn memory_of<F: Future>() -> usize {
    size_of::<Memory<F>>()
}

/// Makes a task, but for its slot and its home, without which it is not to be
/// used. Err: no memory; the future comes back.
#[inline]
pub(crate) fn allocate<F: Future>(
    future: F,
    state: State,
    extra: *mut Extra,
) -> Result<NonNull<Header>, F> {
    let layout = Layout::new::<Memory<F>>();
    // SAFETY: a cell is not of size 0, it has a header.
    let Some(cell) = NonNull::new(unsafe { alloc(layout) }.cast::<Memory<F>>()) else {
        return Err(future);
    };
    // SAFETY: fresh memory of the right layout, and nobody else's yet. Field by field, so that the
    // future is moved once.
    unsafe {
        let cell = cell.as_ptr();
        let header = &raw mut (*cell).header;
        (&raw mut (*header).state).write(state);
        (&raw mut (*header).vtable).write(Cell::new(const { &Memory::<F>::VTABLE }));
        (&raw mut (*header).link).write(AtomicPtr::new(core::ptr::null_mut()));
        (&raw mut (*header).extra).write(AtomicPtr::new(extra));
        (&raw mut (*cell).stage).cast::<F>().write(future);
    }
    Ok(cell.cast())
}

/// The future, where it stays.
///
/// # Safety
/// The caller owns it, it is an `F`, and it is there as long as this is used.
pub(super) unsafe fn future<'a, F: Future>(task: NonNull<Header>) -> Pin<&'a mut F> {
    // SAFETY: the header is the first field of the cell, which never moves until it is freed; the future is
    // there and the caller's.
    unsafe {
        let stage = (*task.cast::<Memory<F>>().as_ptr()).stage.get();
        Pin::new_unchecked(&mut *stage.cast::<F>())
    }
}

/// # Safety
/// The caller owns the future (the task is RUNNING by its doing), and it has neither ended nor been aborted.
unsafe fn poll<F: Future>(task: NonNull<Header>) -> bool {
    // SAFETY: the header is the first field of the cell, which is pinned: it never moves until freed.
    let stage = unsafe { (*task.cast::<Memory<F>>().as_ptr()).stage.get() };
    // Made here, where the future's code is known, and not by whoever calls: so the compiler sees whose
    // waker it is, and what a future does with it needs no indirect call, and often no waker at all.
    // SAFETY: the caller owns the task, which lives at least as long as this poll.
    let waker = waker::borrowed(unsafe { task.as_ref() });
    let mut context = Context::from_waker(&waker);
    // SAFETY: the caller owns the future.
    let future = unsafe { Pin::new_unchecked(&mut *stage.cast::<F>()) };
    let outcome = match unwind::catch(|| poll_checked(|| future.poll(&mut context))) {
        Ok(Poll::Pending) => return false,
        Ok(Poll::Ready(output)) => Ok(output),
        Err(panic) => Err(TaskError::Panicked(panic.into())),
    };
    // SAFETY: as above; the future has ended and is dropped once, here.
    unsafe { replace::<F>(stage, outcome) };
    true
}

/// Drops the future and writes the outcome in its place.
///
/// # Safety
/// The caller owns the stage, and a future is in it.
unsafe fn replace<F: Future>(stage: *mut Stage<F>, mut outcome: Result<F::Output, TaskError>) {
    // SAFETY: the caller's promise; it is not used again, also if its drop panics.
    let dropped = unwind::catch(|| unsafe { stage.cast::<F>().drop_in_place() });
    if let Err(panic) = dropped
        && outcome.is_ok()
    {
        outcome = Err(TaskError::Panicked(panic.into()));
    }
    // SAFETY: the place is the caller's, and nothing that needs dropping is in it.
    unsafe { stage.cast::<Result<F::Output, TaskError>>().write(outcome) };
}

/// # Safety
/// As for [`poll`].
unsafe fn abort<F: Future>(task: NonNull<Header>, why: TaskError) {
    // SAFETY: as in `poll`.
    unsafe {
        let stage = (*task.cast::<Memory<F>>().as_ptr()).stage.get();
        replace::<F>(stage, Err(why));
    }
}

/// # Safety
/// The caller owns the future, which is in the middle of a poll in this context that nobody goes on with.
unsafe fn lose<F: Future>(
    task: NonNull<Header>,
    why: TaskError,
    context: NonNull<context::Context>,
) {
    // Others may have pointers into the future: its memory stays as it is, for ever. There may be none for
    // the outcome: this is the core's loop, which cannot fail.
    let (outcome, drop_outcome): (_, unsafe fn(NonNull<Header>)) =
        match try_box(Err::<F::Output, _>(why)) {
            Ok(outcome) => (Box::into_raw(outcome).cast_const(), |task| {
                // SAFETY: the caller's promise, and the outcome is where the table says.
                unsafe { task.as_ref().outcome::<F::Output>().drop_in_place() };
            }),
            Err(Err(TaskError::StackOverflow)) => (Memory::<F>::TOO_DEEP, |_| {}),
            Err(_) => (Memory::<F>::NO_MEMORY, |_| {}),
        };
    let at = outcome.expose_provenance();
    let table = VTable {
        outcome: at.wrapping_sub(task.as_ptr().expose_provenance()),
        drop_outcome,
        lost_in: Some(context),
        ..Memory::<F>::VTABLE
    };
    // SAFETY: the context stays as it is for ever, and is lost once. The task lives.
    unsafe { task.as_ref().vtable.set(context.as_ref().set_table(table)) };
}

/// # Safety
/// Nothing that needs dropping is in it, and nobody looks at it any more.
unsafe fn dealloc_cell<F: Future>(task: NonNull<Header>) {
    // SAFETY: allocated with this layout by `allocate`.
    unsafe { dealloc(task.as_ptr().cast(), Layout::new::<Memory<F>>()) };
}

/// # Safety
/// The outcome is there and the caller's.
unsafe fn drop_outcome<F: Future>(task: NonNull<Header>) {
    // SAFETY: the caller's promise.
    let stage = unsafe { (*task.cast::<Memory<F>>().as_ptr()).stage.get() };
    // A panic in it has nobody left to go to: on the host it has printed itself.
    let _ = unwind::catch(|| {
        // SAFETY: as above.
        unsafe { stage.cast::<Result<F::Output, TaskError>>().drop_in_place() }
    });
}

impl Header {
    /// Of a context that is at home at `home`, which counts it.
    pub(crate) fn of_context(vtable: &'static VTable, home: NonNull<Worker>) -> Self {
        Self {
            state: State::of_context(),
            vtable: Cell::new(vtable),
            link: AtomicPtr::new(core::ptr::null_mut()),
            entry: AtomicPtr::new(NOBODYS.as_ptr()),
            home,
            extra: AtomicPtr::new(core::ptr::null_mut()),
            joiner: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Of a second entry for `target`, which is counted, and so is its home.
    pub(crate) fn of_proxy(vtable: &'static VTable, state: State, target: &Self) -> Self {
        Self {
            state,
            // Also of a context: that of the task that was left in it.
            entry: AtomicPtr::new(target.entry.load(Relaxed)),
            ..Self::of_context(vtable, target.home)
        }
    }

    /// # Safety
    /// The caller owns the future, and it is there.
    #[inline]
    pub(crate) unsafe fn poll(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (self.vtable.get().poll)(self.into()) }
    }

    /// # Safety
    /// The caller owns the future, and it is there.
    pub(crate) unsafe fn abort(&self, why: TaskError) {
        // SAFETY: the caller's promise.
        unsafe { (self.vtable.get().abort)(self.into(), why) }
    }

    /// Leaves the future as it is, for ever, with this outcome.
    ///
    /// # Safety
    /// The caller owns the future, which is in the middle of a poll in this context that nobody goes on
    /// with; and keeps the context, and a reference, for ever.
    pub(crate) unsafe fn lose(&self, why: TaskError, context: &context::Context) {
        // SAFETY: the caller's promise.
        unsafe { (self.vtable.get().lose)(self.into(), why, context.into()) }
    }

    /// The context that its poll was lost in, if it was.
    pub(crate) fn lost_in(&self) -> Option<&context::Context> {
        let context = self.vtable.get().lost_in?;
        // SAFETY: it stays as it is for ever.
        Some(unsafe { context.as_ref() })
    }

    /// # Safety
    /// The outcome is there, the caller's, and a `Result<T, TaskError>`.
    #[inline]
    pub(super) unsafe fn read_outcome<T>(&self) -> Result<T, TaskError> {
        // SAFETY: the caller's promise.
        unsafe { self.outcome::<T>().read() }
    }

    /// Where the outcome is: behind the header in the same allocation, unless the task is lost.
    #[inline]
    fn outcome<T>(&self) -> *mut Result<T, TaskError> {
        let this = core::ptr::from_ref(self).expose_provenance();
        core::ptr::with_exposed_provenance_mut(this.wrapping_add(self.vtable.get().outcome))
    }

    /// # Safety
    /// The outcome is there and the caller's.
    pub(crate) unsafe fn drop_outcome(&self) {
        // SAFETY: the caller's promise.
        unsafe { (self.vtable.get().drop_outcome)(self.into()) }
    }

    /// Leaves the join waker. Its place is the handle's now.
    ///
    /// # Safety
    /// The caller is the handle, and no join waker is there.
    #[inline]
    pub(super) unsafe fn write_joiner(&self, waker: Waker) {
        // SAFETY: the caller's promise.
        unsafe { (*self.joiner.get()).write(waker) };
    }

    /// Takes the join waker out.
    ///
    /// # Safety
    /// It is there, and the caller's by the state.
    #[inline]
    pub(crate) unsafe fn take_joiner(&self) -> Waker {
        // SAFETY: the caller's promise.
        unsafe { (*self.joiner.get()).assume_init_read() }
    }

    /// The join waker, to compare it.
    ///
    /// # Safety
    /// It is there; the caller is the handle, or the state says that it is the caller's.
    #[inline]
    pub(super) unsafe fn joiner(&self) -> &Waker {
        // SAFETY: the caller's promise. Whoever ends the task only reads it, too.
        unsafe { (*self.joiner.get()).assume_init_ref() }
    }
}

/// Frees a task.
///
/// # Safety
/// Nobody refers to it, and neither future nor outcome is in it.
#[inline]
pub(crate) unsafe fn free(task: NonNull<Header>) {
    // SAFETY: it is there until it is freed below. Not as `&mut`: `task` may come from a shared reference.
    let header = unsafe { task.as_ref() };
    let dealloc = header.vtable.get().dealloc;
    let extra = header.extra.load(Relaxed);
    if !extra.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { free_with_extra(task, extra) };
    }
    // SAFETY: the caller's promise.
    unsafe { dealloc(task) };
}

/// # Safety
/// As for [`free`]; `extra` is the task's.
#[cold]
unsafe fn free_with_extra(task: NonNull<Header>, extra: *mut Extra) {
    // SAFETY: the caller's promise; made by `Box::into_raw`, and freed with the task only.
    unsafe {
        drop(Box::from_raw(extra));
        (task.as_ref().vtable.get().dealloc)(task);
    }
}
