//! Guards against being switched away.
//!
//! The count lives in the context's block. Dropping the last guard gives way
//! if an interrupt has asked for it meanwhile, or does what else waits for that.

use crate::{
    arch,
    context::{self, ContextBlock},
    irq, traps,
};
use core::{
    marker::PhantomData,
    sync::atomic::{Ordering::*, compiler_fence},
};

// What a context may be asked to do when it drops its last guard.
/// Anything. The sign of the word.
pub(crate) const ASKED: u32 = 1 << 31;
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

/// Say so: the guard was held at a tick, and this is the mark of that.
const MARKED: u32 = 8;

/// The current context stays on its core while this lives.
pub struct Guard(PhantomData<*const ()>);

/// Keeps the current context on its core until the guard is dropped.
#[inline]
pub fn guard() -> Guard {
    let context = context::current();
    if cfg!(broken = "guards_in_core") {
        portable::enter(context);
    } else {
        arch::enter(context);
    }
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
    if cfg!(broken = "guards_in_core") {
        portable::leave(context)
    } else {
        arch::leave(context)
    }
}

/// What each architecture has to say of the context that runs, if it does not know better.
#[cfg_attr(
    all(target_os = "none", target_arch = "x86_64"),
    allow(dead_code, reason = "that one does")
)]
pub(crate) mod portable {
    use super::*;

    /// Counts a guard.
    #[inline]
    pub fn enter(context: &ContextBlock) {
        // Only this context writes its count, so load and store need not be one step;
        // an interrupt in between leaves it as it found it.
        let guards = context.guards();
        guards.store(guards.load(Relaxed) + 1, Relaxed);
    }

    /// Counts a guard down; whether the context was asked for anything.
    #[inline]
    pub fn leave(context: &ContextBlock) -> bool {
        let guards = context.guards();
        guards.store(guards.load(Relaxed) - 1, Relaxed);
        // The count first, then the look: an interrupt in between sees that it may switch itself.
        compiler_fence(SeqCst);
        context.need_resched.load(Relaxed) != 0
    }

    /// Whether it is to hear that its poll takes long.
    #[inline]
    pub fn is_told(context: &ContextBlock) -> bool {
        context.soft.load(Relaxed) & TOLD != 0
    }
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
        if asked & MARKED != 0 && !cfg!(broken = "marked_in_vain") {
            traps::upcalls().after_marked_guard();
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

/// Asks a context that this core runs for something when it drops its last guard.
pub(crate) fn ask(context: &ContextBlock, what: u32) {
    context.need_resched.fetch_or(ASKED | what, Relaxed);
}

/// Whether a context that this core runs was asked to be left for good; asked again, it was not.
#[cfg(target_os = "none")]
pub(crate) fn takes_overflow(context: &ContextBlock) -> bool {
    let asked = context.need_resched.load(Relaxed);
    if asked & OVERFLOW == 0 {
        return false;
    }
    let rest = match asked & !(OVERFLOW | ASKED) {
        0 => 0,
        rest => rest | ASKED,
    };
    // Only interrupts on this core ask, and this is one, masked.
    context.need_resched.store(rest, Relaxed);
    true
}

/// Asks the current context to give way when it drops its last guard. For
/// interrupt handlers.
pub fn request() {
    ask(context::current(), GIVE_WAY);
}

/// Marks the outermost guard of the current context, if it holds one; whether that was marked before. The drop of the last one takes
/// the mark away, and [tells](traps::Upcalls::after_marked_guard) of it. For interrupt handlers.
pub fn mark_guard() -> bool {
    let context = context::current();
    context.guards().load(Relaxed) != 0
        && (context.need_resched.fetch_or(ASKED | MARKED, Relaxed) & MARKED != 0
            || cfg!(broken = "any_guard_marked"))
}

// What is said of a poll, in its context's block. The context changes it by a load and a store, and an interrupt in
// between may change it too: then one of the two is lost. `HELD` is the context's alone, so that is
// what interrupts say, and it is a hint: the next tick gives it again.
/// It is to hear that it takes long.
pub(crate) const TOLD: u8 = 1;
/// It was found in the same poll for long.
const LONG: u8 = 2;
/// It is not to hear of that now,
const HELD: u8 = 4;
/// or in no case.
const FIRMLY: u8 = 8;
/// It was found so once more while that was held.
const ONCE: u8 = 16;
const TIMES: u8 = !(TOLD | LONG | HELD | FIRMLY);
/// So many times, and it hears of it all the same: else a future that is ready again and again would keep whoever
/// holds from ever asking the others.
const PATIENCE: u8 = 8 * ONCE;

/// Says that the current context has been in the same poll for long, or that it has
/// not. For interrupt handlers.
pub fn set_soft(soft: bool) {
    let flags = &context::current().soft;
    let before = flags.load(Relaxed);
    let held = before & (HELD | FIRMLY);
    let now = match (soft, before & TIMES) {
        (false, _) => held,
        (true, _) if held == 0 => LONG | TOLD,
        (true, times) if times < PATIENCE => held | LONG | (times + ONCE),
        (true, times) if held == HELD => held | LONG | times | TOLD,
        (true, times) => held | LONG | times,
    };
    flags.store(now, Relaxed);
}

/// Whether the current context has been in the same poll for long; asked again, it has not.
#[inline]
pub fn take_soft() -> bool {
    let context = context::current();
    let is_told = arch::is_told(context);
    if is_told {
        let flags = &context.soft;
        flags.store(flags.load(Relaxed) & (HELD | FIRMLY), Relaxed);
    }
    is_told
}

/// Whether [`take_soft`] would say yes.
#[inline]
pub fn is_soft() -> bool {
    arch::is_told(context::current())
}

/// Until this is dropped, [`take_soft`] says no, also if an interrupt sets the flag meanwhile. After
/// that it says what it would have said.
#[must_use = "it holds only while it lives"]
pub struct SoftHold {
    /// How somebody further out holds it.
    outer: u8,
    /// It is of this context.
    _context: PhantomData<*const ()>,
}

/// For whoever asks several futures whether they are ready, and must not take one for pending that only gives way:
/// `firmly` in no case, else not at once, but if it was set many times.
///
/// The flag is the context's: a preempted one takes it along, and what runs here meanwhile has its own.
#[inline]
pub fn hold_soft(firmly: bool) -> SoftHold {
    let flags = &context::current().soft;
    let before = flags.load(Relaxed);
    let outer = before & (HELD | FIRMLY);
    let (kept, added) = match (firmly, outer) {
        (true, _) => (!TOLD, HELD | FIRMLY),
        (false, 0) => (LONG, HELD),
        (false, _) => (!0, 0),
    };
    flags.store(before & kept | added, Relaxed);
    SoftHold {
        outer,
        _context: PhantomData,
    }
}

impl Drop for SoftHold {
    #[inline]
    fn drop(&mut self) {
        let flags = &context::current().soft;
        let now = flags.load(Relaxed);
        let next = match (self.outer, now & LONG) {
            (0, 0) => 0,
            (0, _) => LONG | TOLD,
            (outer, _) => now & !FIRMLY | outer,
        };
        flags.store(next, Relaxed);
    }
}
