//! Futures without a runtime: no tasks, no queues, no memory but the stack.
//!
//! For an image that does one thing, and for boot code. An interrupt handler
//! wakes what waits here as it wakes a task.

use core::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicBool, Ordering::*},
    task::{Context, Poll, RawWaker, RawWakerVTable, Waker},
};
use hal::{
    cores::{self, MAX_CORES},
    irq,
};

/// A waker that does nothing, for polling by hand.
pub const fn noop_waker() -> &'static Waker {
    Waker::noop()
}

/// Whether what waits on a core was woken.
static WOKEN: [AtomicBool; MAX_CORES] = [const { AtomicBool::new(false) }; MAX_CORES];

/// Runs a future to its end on this core, which sleeps while the future waits.
/// It needs no runtime, allocates nothing and runs nothing else.
///
/// Within a task of a runtime it would hold the core; await there instead.
pub fn block_on_simple<F: Future>(future: F) -> F::Output {
    let core = cores::this_core();
    // The core itself is the waker's data: it has nothing to outlive. A wake that comes after the
    // future has ended is taken for one of the next: which then is polled once too often.
    // SAFETY: the functions below keep the contract of wakers for any number of a core.
    let waker = unsafe { Waker::from_raw(RawWaker::new(core as *const (), &VTABLE)) };
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            // If this runs within another future that waits so on this core, a wake of that may have
            // been taken for one of this: let it look again.
            WOKEN[core].store(true, Relaxed);
            return output;
        }
        loop {
            let masked = irq::mask();
            // Acquire pairs with the release in `wake`: what was written before the wake is seen.
            if WOKEN[core].swap(false, Acquire) {
                break;
            }
            // Masked since the look: a wake's interrupt that came meanwhile ends the sleep at once.
            irq::wait(&masked);
        }
    }
}

static VTABLE: RawWakerVTable =
    RawWakerVTable::new(|core| RawWaker::new(core, &VTABLE), wake, wake, |_| {});

fn wake(core: *const ()) {
    let core = core.addr();
    // Release pairs with the acquire in `block_on_simple`.
    WOKEN[core].store(true, Release);
    // In its own handler, that core is awake and looks again anyway.
    if core != cores::this_core() || !irq::in_handler() {
        cores::kick(core);
    }
}
