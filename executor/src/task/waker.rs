//! Wakers of tasks: counted pointers to the header.

use super::{
    cell::Header,
    state::{Wake, Word},
};
use crate::scheduler::{
    inherit, mail, schedule,
    shared::Shared,
    worker::{Worker, release_memory},
};
use crate::trace;
use core::{
    mem::ManuallyDrop,
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};
use hal::{context, preempt, unwind};

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// Set in the context's pointer to its task when that yields.
pub(crate) const YIELDED: usize = 1;

/// Set there while what nobody asks for of the task's outcome is dropped: the task has ended but for that.
pub(crate) const ENDED: usize = 4;

/// A waker that counts for nothing, for as long as the caller owns the task.
#[inline]
pub(crate) fn borrowed(header: &Header) -> ManuallyDrop<Waker> {
    let raw = RawWaker::new(core::ptr::from_ref(header).cast(), &VTABLE);
    // SAFETY: the functions keep the contract of wakers. Not dropped, so nothing is counted; its
    // clones are.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw) })
}

/// The task that runs in this context, if the waker is its own: then what the
/// waker would do through the state can be said to the core directly.
#[inline]
pub(crate) fn is_of_current(waker: &Waker) -> bool {
    core::ptr::eq(waker.vtable(), &VTABLE)
        && core::ptr::eq(waker.data(), context::current().task().cast_const().cast())
}

/// A context's pointer to its task, without what is said of it.
#[inline]
pub(crate) fn untagged(task: *mut ()) -> *mut () {
    task.map_addr(|task| task & !(YIELDED | ENDED))
}

/// The task that runs in this context. The caller lets go of it before that
/// poll ends.
#[inline]
pub(crate) fn current_header<'a>() -> Option<&'a Header> {
    let task = context::current().task();
    if task.addr() & VISITOR != 0 {
        return None;
    }
    let task = untagged(task);
    // SAFETY: set while that task is polled, in this very context, so it lives at least until the poll ends.
    unsafe { task.cast::<Header>().as_ref() }
}

/// The task that a context, maybe another's, says is polled in it.
pub(crate) fn polled_by(task: *mut ()) -> Option<NonNull<Header>> {
    match task.addr() & VISITOR {
        0 => NonNull::new(untagged(task).cast()),
        _ => None,
    }
}

/// Whether the task that runs in this context has ended, but for what is dropped of its outcome.
pub(crate) fn has_ended() -> bool {
    context::current().task().addr() & ENDED != 0
}

/// Set in the context's pointer to its task when that is no task, but somebody
/// from outside, and the pointer is to a [`Visitor`].
const VISITOR: usize = 2;

/// Somebody who uses a runtime, and is on none of its cores: a `block_on` while another
/// thread serves, or a thread that runs a blocking function.
#[derive(Clone, Copy)]
struct Visitor<'a> {
    shared: &'a Shared,
    /// Whose function it runs.
    task: Option<&'a Header>,
}

/// Who visits here, if somebody does.
fn visitor<'a>() -> Option<&'a Visitor<'a>> {
    let visitor = context::current().task();
    if visitor.addr() & VISITOR == 0 {
        return None;
    }
    // SAFETY: set by `visit_as`, in this very context, whose caller keeps all of it.
    unsafe {
        visitor
            .map_addr(|at| at & !VISITOR)
            .cast::<Visitor<'_>>()
            .as_ref()
    }
}

/// The runtime that is visited here.
pub(crate) fn visited<'a>() -> Option<&'a Shared> {
    visitor().map(|visitor| visitor.shared)
}

/// The task that runs here: in this context or, where a blocking function runs on a thread beside
/// the cores, the one that this function is. The caller lets go of it before that ends.
pub(crate) fn own_header<'a>() -> Option<&'a Header> {
    current_header().or_else(|| visitor()?.task)
}

/// Calls `inside` as somebody who visits the runtime.
pub(crate) fn visit<R>(shared: &Shared, inside: impl FnOnce() -> R) -> R {
    let task = visitor().and_then(|visitor| visitor.task);
    visit_as(Visitor { shared, task }, inside)
}

/// Calls the function of a task where none of its runtime's cores is.
pub(crate) fn visit_for<R>(task: &Header, function: impl FnOnce() -> R) -> R {
    // SAFETY: a task's home lives as long as the task.
    let shared = unsafe { task.home.as_ref() }.shared();
    let task = Some(task);
    visit_as(Visitor { shared, task }, function)
}

fn visit_as<R>(visitor: Visitor<'_>, inside: impl FnOnce() -> R) -> R {
    let context = context::current();
    let before = context.task();
    let marked = core::ptr::from_ref(&visitor)
        .cast_mut()
        .map_addr(|at| at | VISITOR);
    context.set_task(marked.cast());
    let result = unwind::catch(inside);
    context.set_task(before);
    result.unwrap_or_else(|panic| unwind::resume(panic))
}

/// The task of a waker, if it is one of ours.
#[inline]
pub(crate) fn task_of(waker: &Waker) -> Option<&Header> {
    // SAFETY: our wakers are references to headers.
    core::ptr::eq(waker.vtable(), &VTABLE).then(|| unsafe { header(waker.data()) })
}

/// A waker's clone, for a task that is to wait for something; without an
/// indirect call if it is one of ours, as nearly all are.
#[inline]
pub(crate) fn clone_to_wait(waker: &Waker, what: &'static &'static str) -> Waker {
    let Some(task) = task_of(waker) else {
        return waker.clone();
    };
    if task.state.retain().is_tracked() {
        note_wait(task, what);
    }
    ManuallyDrop::into_inner(borrowed(task))
}

#[cold]
fn note_wait(task: &Header, what: &'static &'static str) {
    if let Some(extra) = task.extra() {
        extra.set_waits_for(what);
    }
}

/// # Safety
/// `data` is a header that a reference keeps alive.
#[inline]
unsafe fn header<'a>(data: *const ()) -> &'a Header {
    // SAFETY: the caller's promise.
    unsafe { &*data.cast() }
}

#[inline(always)]
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: a waker is a reference.
    unsafe { header(data) }.state.retain();
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: a waker is a reference.
    wake_task(unsafe { header(data) });
}

unsafe fn wake(data: *const ()) {
    // SAFETY: a waker is a reference.
    let task = unsafe { header(data) };
    let guard = preempt::guard();
    // The usual case: parked, woken by what runs on a core of its runtime. Nothing but that core, which
    // is ours, is touched after the step, so the reference need not be kept.
    if let Some(here) = Worker::here(&guard)
        // SAFETY: the reference keeps its home.
        && here.takes_wakes_of(unsafe { task.home.as_ref() })
        && let Some(word) = task.state.wake_and_release()
    {
        trace::event_by(trace::Kind::Wake, || task.id());
        return match here.swap_next(task.into(), word) {
            None => guard.release(()),
            Some(before) => displace(here.into(), before, word, guard),
        };
    }
    // SAFETY: as above, and this one is ours to drop.
    unsafe { wake_elsewhere(task, guard) };
}

/// What was to come next goes where others can see it.
#[inline(never)]
fn displace(here: NonNull<Worker>, before: NonNull<Header>, word: Word, guard: preempt::Guard) {
    // SAFETY: the worker of this core, by the caller's guard, which is still held.
    unsafe { here.as_ref() }.push_spawned(before, word.level());
    drop(guard);
}

/// # Safety
/// The caller's reference is used up.
#[inline(never)]
unsafe fn wake_elsewhere(task: &Header, guard: preempt::Guard) {
    drop(guard);
    // The reference is kept until the task is in a queue and its core is kicked: it keeps the runtime.
    wake_task(task);
    // SAFETY: the caller's.
    unsafe { release(task) };
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: a waker is a reference, and this one is ours to drop.
    unsafe { release(header(data)) };
}

#[inline]
pub(crate) fn wake_task(header: &Header) {
    match header.state.wake() {
        Wake::Queue(word) => {
            trace::event_by(trace::Kind::Wake, || header.id());
            schedule(header, word);
        }
        Wake::Requeued(word) => inherit::requeued(header, word),
        Wake::Nothing | Wake::Done => {}
    }
}

/// Drops a reference.
///
/// # Safety
/// It is the caller's, and not used any more.
#[inline]
pub(crate) unsafe fn release(header: &Header) {
    if header.state.release() {
        // SAFETY: that was the last.
        unsafe { free_out_of_line(header.into()) };
    }
}

/// The same for a handle, of which nearly all are the last reference.
///
/// # Safety
/// It is the caller's, and not used any more.
#[inline]
pub(super) unsafe fn release_handle(header: &Header) {
    if header.state.release() {
        // SAFETY: that was the last.
        unsafe { free(header.into()) };
    }
}

/// # Safety
/// The last reference is gone.
#[inline(never)]
unsafe fn free_out_of_line(task: NonNull<Header>) {
    // SAFETY: the caller's promise.
    unsafe { free(task) };
}

/// # Safety
/// The last reference is gone.
#[inline]
unsafe fn free(task: NonNull<Header>) {
    if hal::irq::in_handler() {
        // An interrupt frees nothing: it may have come in the middle of the allocator.
        mail::reap_later(task);
    } else {
        // SAFETY: the caller's promise; not an interrupt.
        unsafe { release_memory(task) };
    }
}
