//! Interrupts between threads that play cores.
//!
//! Whoever interrupts a core sets a bit of its `pending` word, and then wakes
//! it; a core that is about to sleep looks at that word under the same mutex,
//! so no interrupt falls between the look and the sleep.

use super::{
    bring_up,
    threads::{Core, core, core_of},
};
use crate::{
    clock, context, flush,
    irq::{Line, Trigger},
    stop, traps,
};
use core::sync::atomic::{AtomicU32, Ordering::*};
use std::{sync::PoisonError, time::Duration};

// Bits of `pending`:
const KICK: u32 = 1;
const STOP: u32 = 2;
const LINES: u32 = 4;
/// Ends a sleep, and means nothing.
const NUDGE: u32 = 8;

/// Core that each line goes to plus one; 0: disabled.
static ROUTES: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

/// Masks interrupts; says whether they were enabled.
pub fn irq_mask() -> bool {
    let core = core();
    let were_enabled = core.is_enabled.load(Relaxed);
    core.is_enabled.store(false, Relaxed);
    were_enabled
}

/// Lets interrupts in.
pub fn irq_enable() {
    core().is_enabled.store(true, Relaxed);
    deliver();
}

/// Whether interrupts can come.
pub fn irq_are_enabled() -> bool {
    core().is_enabled.load(Relaxed)
}

/// Whether this core is in an interrupt handler.
pub fn in_trap() -> bool {
    core().depth.load(Relaxed) != 0
}

/// Tells the OS that this thread is in a spin loop, and lets interrupts in if they are enabled.
pub fn pause() {
    std::thread::yield_now();
    deliver();
}

/// Sleeps until an interrupt, takes it, and masks again.
pub fn wait_for_interrupt() {
    let core = core();
    let mut asleep = core
        .falling_asleep
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    while !is_pending(core) {
        bring_up::panic_if_another_core_did();
        let deadline = core.deadline.load(Relaxed);
        asleep = if deadline == u64::MAX {
            core.wake
                .wait(asleep)
                .unwrap_or_else(PoisonError::into_inner)
        } else {
            let left = Duration::from_nanos(deadline.saturating_sub(clock::now()));
            core.wake
                .wait_timeout(asleep, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0
        };
    }
    drop(asleep);
    interrupt();
}

/// Interrupts a core.
pub fn kick(id: usize) {
    raise(id, KICK);
}

/// Stops a core at the next point where an interrupt can reach it, masked or not.
pub fn send_stop(id: usize) {
    raise(id, STOP);
}

/// Threads have none.
pub fn has_nmi() -> bool {
    false
}

/// Nobody asks for it.
pub fn send_nmi(_: usize) {}

/// Ends a core's sleep without an interrupt.
pub(super) fn nudge(id: usize) {
    raise(id, NUDGE);
}

fn raise(id: usize, what: u32) {
    let target = core_of(id);
    // Release pairs with the acquire in `is_pending` and `take`: what came before is seen by the handler.
    target.pending.fetch_or(what, Release);
    // Whoever falls asleep holds this from its last look on.
    drop(target.falling_asleep.lock());
    target.wake.notify_one();
    if core::ptr::eq(target, core()) {
        deliver();
    }
}

/// Lets the line's interrupts through to `core`.
pub fn enable_line(line: u32, core: usize) {
    ROUTES[line as usize].store(core as u32 + 1, Relaxed);
}

/// A line comes whenever it is raised.
pub fn set_trigger(_: u32, _: Trigger) {}

/// Stops the line's interrupts.
pub fn disable_line(line: u32) {
    ROUTES[line as usize].store(0, Relaxed);
}

/// What a device does: interrupts the core that the line goes to. From any thread.
pub fn raise_line(line: u32) {
    if let Some(id) = ROUTES[line as usize].load(Relaxed).checked_sub(1) {
        // Release pairs with the acquire in `take`.
        core_of(id as usize).lines.fetch_or(1 << line, Release);
        raise(id as usize, LINES);
    }
}

/// Makes this core's timer fire at `deadline`.
pub fn timer_arm(deadline: u64) {
    core().deadline.store(deadline, Relaxed);
    deliver();
}

/// This core's timer does not fire.
pub fn timer_disarm() {
    core().deadline.store(u64::MAX, Relaxed);
}

fn has_expired(core: &Core) -> bool {
    let deadline = core.deadline.load(Relaxed);
    deadline != u64::MAX && clock::now() >= deadline
}

fn is_pending(core: &Core) -> bool {
    // Acquire pairs with the release in `raise`.
    core.pending.load(Acquire) != 0 || has_expired(core)
}

/// Delivers what is pending, if interrupts are enabled, until nothing is.
fn deliver() {
    bring_up::panic_if_another_core_did();
    loop {
        // Looked up each time: the context may go on in another thread than it was interrupted in.
        let core = core();
        if core.pending.load(Relaxed) & STOP != 0 {
            stop::check();
        }
        if !core.is_enabled.load(Relaxed) || !is_pending(core) {
            return;
        }
        core.is_enabled.store(false, Relaxed);
        interrupt();
        self::core().is_enabled.store(true, Relaxed);
    }
}

/// The interrupt, from entry to exit, with interrupts masked. The context may
/// be left here and resumed in another thread.
fn interrupt() {
    let core = core();
    core.depth.store(1, Relaxed);
    // Acquire pairs with the release in `raise`.
    let pending = core.pending.swap(0, Acquire);
    if pending & STOP != 0 {
        stop::check();
    }
    let upcalls = traps::upcalls();
    if has_expired(core) {
        core.deadline.store(u64::MAX, Relaxed);
        upcalls.on_timer();
    }
    if pending & KICK != 0 {
        upcalls.on_kick();
    }
    if pending & LINES != 0 {
        // Acquire pairs with the release in `raise_line`.
        let lines = core.lines.swap(0, Acquire);
        for line in (0..64).filter(|line| lines & (1 << line) != 0) {
            upcalls.on_line(Line(line));
        }
    }
    flush::flush_point();
    let interrupted = context::current();
    let next = upcalls.on_exit(interrupted);
    core.depth.store(0, Relaxed);
    if let Some((next, after)) = next {
        // SAFETY: 1. interrupts are masked; 2. `on_exit` hands over a saved context that nobody else
        // resumes; 3. the interrupted one is saved by the switch before `after` can offer it.
        unsafe { context::switch(next, after) };
    }
}
