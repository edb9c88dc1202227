//! Waiting until all are there.

use super::{
    clone_waker,
    wait_list::{Answer, WaitList, Waiter},
};
use crate::shim::{const_unless_loom, discard};
use core::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};
use hal::sync::atomic::{AtomicUsize, Ordering::*};

/// All are there.
const GO: Answer = 1;

/// Where tasks wait until a number of them are there; then all go on, and the next round begins.
///
/// The one that comes last is the round's leader. One that is dropped while it waits was not
/// there, and another has to come for it.
///
/// ```
/// use executor::{Runtime, spawn, sync::Barrier};
///
/// static START: Barrier = Barrier::new(3);
///
/// # let runtime = Runtime::builder().workers(2).build()?;
/// runtime.block_on(async {
///     let runners = [1, 2, 3].map(|_| spawn(START.wait()));
///     let mut leaders = 0;
///     for runner in runners {
///         leaders += u32::from(runner.await.unwrap().is_leader());
///     }
///     assert_eq!(leaders, 1);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct Barrier {
    size: usize,
    /// How many wait in this round. Under the list's lock, as the next; so relaxed.
    arrived: AtomicUsize,
    /// Which round it is.
    round: AtomicUsize,
    waiters: WaitList,
}

impl Barrier {
    const_unless_loom! {
        /// A barrier for this many; for none it is as for one.
        ///
        /// ```
        /// use executor::{block_on_simple, sync::Barrier};
        ///
        /// for size in [0, 1] {
        ///     let barrier = Barrier::new(size);
        ///     assert!(block_on_simple(barrier.wait()).is_leader());
        /// }
        /// ```
        pub const fn new(size: usize) -> Self {
            Self {
                size,
                arrived: AtomicUsize::new(0),
                round: AtomicUsize::new(0),
                waiters: WaitList::new(),
            }
        }
    }

    /// Waits until all are there. It counts from the first poll.
    ///
    /// ```
    /// use executor::{block_on_simple, join, sync::Barrier};
    ///
    /// let barrier = Barrier::new(2);
    /// let both = block_on_simple(async { join!(biased; barrier.wait(), barrier.wait()) });
    /// assert!(!both.0.is_leader());
    /// assert!(both.1.is_leader());
    /// ```
    pub fn wait(&self) -> BarrierWait<'_> {
        BarrierWait {
            barrier: self,
            waiter: Waiter::new(),
        }
    }
}

#[cfg(not(loom))]
impl Barrier {
    /// As [`wait`](Self::wait), in code that is not async; see [`Mutex::lock_blocking`](super::Mutex::lock_blocking).
    ///
    /// ```
    /// use executor::sync::Barrier;
    ///
    /// static BARRIER: Barrier = Barrier::new(2);
    ///
    /// let other = std::thread::spawn(|| BARRIER.wait_blocking());
    /// let this = BARRIER.wait_blocking();
    /// assert_ne!(this.is_leader(), other.join().unwrap().is_leader());
    /// ```
    #[track_caller]
    pub fn wait_blocking(&self) -> BarrierWaitResult {
        super::block_on(self.wait())
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("size", &self.size)
            .field("arrived", &self.arrived.load(Relaxed))
            .finish()
    }
}

/// Future of [`Barrier::wait`]. Polled after it was ready, it takes part once more.
///
/// ```
/// use executor::sync::{Barrier, BarrierWait};
/// use std::{pin::{Pin, pin}, task::{Context, Waker}};
///
/// let barrier = Barrier::new(2);
/// let mut cx = Context::from_waker(Waker::noop());
/// let mut first: Pin<Box<BarrierWait<'_>>> = Box::pin(barrier.wait());
/// assert!(first.as_mut().poll(&mut cx).is_pending());
/// drop(first);
/// // The first was not there: this one waits too.
/// assert!(pin!(barrier.wait()).poll(&mut cx).is_pending());
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct BarrierWait<'a> {
    barrier: &'a Barrier,
    waiter: Waiter,
}

impl Future for BarrierWait<'_> {
    type Output = BarrierWaitResult;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BarrierWaitResult> {
        // SAFETY: nothing that is pinned is moved out of it; that is `waiter` alone.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: it is a part of what is pinned.
        let waiter = unsafe { Pin::new_unchecked(&mut this.waiter) };
        let Barrier {
            size,
            arrived,
            round,
            waiters: list,
        } = this.barrier;
        if waiter.is_waiting() {
            // SAFETY: it waits there.
            let answered =
                unsafe { waiter.poll(list, cx.waker(), |waker| clone_waker(waker, &"barrier")) };
            return match answered {
                Some(_) => Poll::Ready(BarrierWaitResult(false)),
                None => Poll::Pending,
            };
        }
        // Foreign code, so without the lock.
        let waker = clone_waker(cx.waker(), &"barrier");
        let mut waiters = list.lock();
        let now = arrived.load(Relaxed) + 1;
        let this_round = round.load(Relaxed);
        if now < *size {
            arrived.store(now, Relaxed);
            // SAFETY: 1. it does not wait; 2. it borrows the list's owner, and `drop` makes it leave.
            unsafe { waiter.join(&mut waiters, this_round, Some(waker)) };
            return Poll::Pending;
        }
        arrived.store(0, Relaxed);
        round.store(this_round.wrapping_add(1), Relaxed);
        list.answer_all(waiters, GO);
        discard(waker);
        Poll::Ready(BarrierWaitResult(true))
    }
}

impl Drop for BarrierWait<'_> {
    fn drop(&mut self) {
        if !self.waiter.is_waiting() {
            return;
        }
        let barrier = self.barrier;
        // One of a round that is over may still be without its answer: it does not count any more.
        let uncount = |round: usize| {
            if round == barrier.round.load(Relaxed) || cfg!(seeded = "barrier_uncounts_any_round") {
                let arrived = &barrier.arrived;
                arrived.store(arrived.load(Relaxed).wrapping_sub(1), Relaxed);
            }
        };
        // SAFETY: it waits, so it is pinned, and it does so in this list.
        unsafe { Pin::new_unchecked(&mut self.waiter).leave(&barrier.waiters, uncount) };
    }
}

/// What [`Barrier::wait`] returns.
///
/// ```
/// use executor::{block_on_simple, sync::{Barrier, BarrierWaitResult}};
///
/// fn role(result: BarrierWaitResult) -> &'static str {
///     if result.is_leader() { "leads" } else { "follows" }
/// }
/// assert_eq!(role(block_on_simple(Barrier::new(1).wait())), "leads");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Whether this one came last. That is one in each round.
    ///
    /// ```
    /// use executor::{block_on_simple, join, sync::Barrier};
    ///
    /// let barrier = Barrier::new(3);
    /// let (a, b, c) = block_on_simple(async { join!(barrier.wait(), barrier.wait(), barrier.wait()) });
    /// assert_eq!([a, b, c].iter().filter(|result| result.is_leader()).count(), 1);
    /// ```
    pub fn is_leader(&self) -> bool {
        self.0
    }
}
