//! Futures without a runtime: no tasks, no queues, no memory but the stack.
//!
//! For an image that does one thing, and for boot code. An interrupt handler
//! wakes what waits here as it wakes a task.
//!
//! There is no runtime, so that `spawn` panics here, and so do the futures of
//! `time`: who waits for time, arms the core's timer and is woken by its interrupt,
//! as the image `blink` does.

#[cfg(feature = "alloc")]
use crate::thread::held::poll_checked;
use core::{
    future::Future,
    pin::{Pin, pin},
    sync::atomic::{AtomicUsize, Ordering::*},
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

/// How often what waits on a core was woken. Counted, so that several can wait by one row (one within
/// another, and threads of the host with numbers beyond): none takes a wake away from another.
static WAKES: [AtomicUsize; MAX_CORES] = [const { AtomicUsize::new(0) }; MAX_CORES];

fn wakes_of(core: usize) -> &'static AtomicUsize {
    &WAKES[core % MAX_CORES]
}

/// Runs a future to its end on this core, which sleeps while the future waits.
/// It needs no runtime, allocates nothing and runs nothing else.
///
/// Within a task of a runtime it would hold the core, and the task may be moved to
/// another; there it is `task::wait`. What the future spawns or sleeps for panics
/// elsewhere: see [the module](self).
///
/// # Panics
/// In a task as `task::wait`; and if the future has to wait in a waker or a policy
/// that a core of a runtime calls, or in an interrupt.
#[track_caller]
pub fn block_on_simple<F: Future>(future: F) -> F::Output {
    let future = pin!(future);
    #[cfg(all(feature = "alloc", not(loom)))]
    return match crate::task::waker::current_header() {
        Some(task) => crate::task::wait_in_task(task, future),
        None => crate::task::wait_outside(future),
    };
    #[cfg(not(all(feature = "alloc", not(loom))))]
    block(future)
}

/// The same, where no task runs.
#[track_caller]
pub(crate) fn block<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let core = cores::this_core();
    let wakes = wakes_of(core);
    // The core itself is the waker's data: it has nothing to outlive. A wake that is meant for another
    // future is taken for one of this: which then is polled once too often.
    // SAFETY: the functions below keep the contract of wakers for any number of a core.
    let waker = unsafe { Waker::from_raw(RawWaker::new(core as *const (), &VTABLE)) };
    let mut context = Context::from_waker(&waker);
    loop {
        // Acquire pairs with the release in `wake`: what was written before the wake is seen.
        let seen = wakes.load(Acquire);
        if let Poll::Ready(output) = poll_checked(|| future.as_mut().poll(&mut context)) {
            return output;
        }
        assert!(
            cores::local().is_null() && !irq::in_handler(),
            "a waker, a policy or an interrupt is to wait for a future, but its core would stand still meanwhile"
        );
        loop {
            let masked = irq::mask();
            // Relaxed: it is looked at again above.
            if wakes.load(Relaxed) != seen {
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
    wakes_of(core).fetch_add(1, Release);
    // In its own handler, that core is awake and looks again anyway.
    if core != cores::this_core() || !irq::in_handler() {
        cores::kick(core);
    }
}

/// Without threads there are no locks of theirs.
#[cfg(not(feature = "alloc"))]
fn poll_checked<R>(poll: impl FnOnce() -> Poll<R>) -> Poll<R> {
    poll()
}
