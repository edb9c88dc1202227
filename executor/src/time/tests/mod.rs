//! Futures of this module on a stand-in core, whose clock the test sets.

#[cfg(feature = "embassy-time")]
mod embassy;
mod interval;
mod sleep;
mod timeout;
mod timers;

use super::driver::stand_in::StandIn;
use core::{
    future::Future,
    pin::{Pin, pin},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    task::{Context, Poll, Waker},
};
use std::{sync::Arc, task::Wake};

const MILLI: u64 = 1_000_000;

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn new() -> (Arc<Self>, Waker) {
        let count = Arc::new(Self::default());
        (count.clone(), Waker::from(count))
    }

    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// Runs a future to its end on a core, which sleeps until its next timer
/// whenever the future waits. What takes the time when it is made, as `sleep`
/// does, is to be made inside.
fn block_on<F: Future>(core: &Arc<StandIn>, future: F) -> F::Output {
    let mut future = pin!(future);
    let (count, waker) = Count::new();
    core.enter(|| {
        loop {
            let before = count.get();
            if let Poll::Ready(output) = poll(future.as_mut(), &waker) {
                return output;
            }
            while count.get() == before {
                let next = core.timers.next();
                assert_ne!(next, u64::MAX, "nothing will ever wake it");
                core.run_until(next);
            }
        }
    })
}
