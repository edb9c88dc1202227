//! Guards against being switched away.
//!
//! The count lives in the context's block. Dropping the last guard gives way
//! if an interrupt has asked for it meanwhile, or does what else waits for that.

use crate::{arch, context, irq, traps};
use core::{
    marker::PhantomData,
    sync::atomic::{Ordering::*, compiler_fence},
};

// What a context may be asked to do when it drops its last guard.
/// Give way.
const GIVE_WAY: u32 = 1;
/// Fill the reserve from which its stack has grown.
pub(crate) const REFILL: u32 = 2;
/// Be left for good: it has overflowed its stack meanwhile. For what the executor polls; if that
/// has come to its end all the same, so be it.
#[cfg_attr(
    not(target_os = "none"),
    allow(dead_code, reason = "the host's stacks are the OS's")
)]
pub(crate) const OVERFLOW: u32 = 4;

/// The current context stays on its core while this lives.
pub struct Guard(PhantomData<*const ()>);

/// Keeps the current context on its core until the guard is dropped.
#[inline]
pub fn guard() -> Guard {
    let context = context::current();
    // Only this context writes its count, so load and store need not be one step;
    // an interrupt in between leaves it as it found it.
    let guards = context.guards();
    guards.store(guards.load(Relaxed) + 1, Relaxed);
    // For the compiler: nothing that is guarded moves out. The core itself sees its own order.
    compiler_fence(SeqCst);
    Guard(PhantomData)
}

impl Guard {
    /// Drops the guard as the last thing before `value` is returned. The same
    /// as letting it drop, but the compiler need not save `value` for the rare
    /// case that the context gives way: for the allocator, where that counts.
    #[inline]
    pub fn release<T>(self, value: T) -> T {
        core::mem::forget(self);
        if leave() { was_asked(value) } else { value }
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if leave() {
            was_asked(());
        }
    }
}

/// Counts one guard down; whether the context was asked for anything. That
/// question comes before "was it the last?", because its answer is almost
/// always no: one comparison on the way that all take.
#[inline]
fn leave() -> bool {
    compiler_fence(SeqCst);
    let context = context::current();
    let guards = context.guards();
    guards.store(guards.load(Relaxed) - 1, Relaxed);
    // The count first, then the look: an interrupt in between sees that it may switch itself.
    compiler_fence(SeqCst);
    context.need_resched.load(Relaxed) != 0
}

/// Does what it was asked if no guard is left, and this is neither a handler,
/// which ends by giving way itself, nor under a lock, which others would wait
/// for, nor between two contexts: then whoever drops a guard next is asked again.
#[cold]
#[inline(never)]
fn was_asked<T>(value: T) -> T {
    let context = context::current();
    // In an action after a switch the context that is about to go on may hold nothing, and be asked.
    if context.is_free() && !irq::in_handler() && irq::are_enabled() {
        let asked = context.need_resched.swap(0, Relaxed);
        if asked & REFILL != 0 {
            arch::stack::refill();
        }
        if asked & OVERFLOW != 0 && !context.task().is_null() {
            arch::stack::overflow();
        }
        if asked & GIVE_WAY != 0 && !cfg!(broken = "asked_in_vain") {
            traps::upcalls().give_way();
        }
    }
    value
}

/// Whether the current context holds no guard.
#[inline]
pub fn is_allowed() -> bool {
    context::current().guards().load(Relaxed) == 0
}

/// Asks the current context to give way when it drops its last guard. For
/// interrupt handlers.
pub fn request() {
    context::current().need_resched.fetch_or(GIVE_WAY, Relaxed);
}

// What is said of a poll, in its context's block. The context changes it by a load and a store, and an interrupt in
// between may change it too: then one of the two is lost. `HELD` is the context's alone, so that is
// `LONG`, and it is a hint: the next tick gives it again.
/// It was found in the same poll for long.
const LONG: u8 = 1;
/// It is not to hear of that now.
const HELD: u8 = 2;

/// Says that the current context has been in the same poll for long, or that it has
/// not. For interrupt handlers.
pub fn set_soft(soft: bool) {
    let flags = &context::current().soft;
    let held = flags.load(Relaxed) & HELD;
    flags.store(held | if soft { LONG } else { 0 }, Relaxed);
}

/// Whether the current context has been in the same poll for long; asked again, it has not.
#[inline]
pub fn take_soft() -> bool {
    let flags = &context::current().soft;
    let is_told = flags.load(Relaxed) == LONG;
    if is_told {
        flags.store(0, Relaxed);
    }
    is_told
}

/// Until this is dropped, [`take_soft`] says no, also if an interrupt sets the flag meanwhile. After
/// that it says what it would have said.
#[must_use = "it holds only while it lives"]
pub struct SoftHold {
    /// `HELD` if somebody further out holds it too.
    before: u8,
    /// It is of this context.
    _context: PhantomData<*const ()>,
}

/// For whoever asks several futures whether they are ready, and must not take one for pending that only gives way.
///
/// The flag is the context's: a preempted one takes it along, and what runs here meanwhile has its own.
#[inline]
pub fn hold_soft() -> SoftHold {
    let flags = &context::current().soft;
    let before = flags.load(Relaxed);
    flags.store(before | HELD, Relaxed);
    SoftHold {
        before: before & HELD,
        _context: PhantomData,
    }
}

impl Drop for SoftHold {
    #[inline]
    fn drop(&mut self) {
        let flags = &context::current().soft;
        flags.store(flags.load(Relaxed) & LONG | self.before, Relaxed);
    }
}
