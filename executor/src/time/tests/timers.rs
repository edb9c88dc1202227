//! The timers of a core: memory, batches, foreign code outside the lock, and
//! many threads at once.

use super::{
    super::{
        timers::{Moved, Node, Timers},
        *,
    },
    *,
};
use core::sync::atomic::{AtomicBool, AtomicU64};
use std::{sync::Mutex, thread};

#[test]
fn a_core_without_timers_has_no_wheel() {
    let core = StandIn::new(0);
    assert!(size_of::<Timers>() <= 128);
    assert!(!core.timers.has_wheel());
    assert_eq!(core.timers.expire(1000), 0);
    assert!(!core.timers.has_wheel());
    core.enter(|| {
        assert!(poll(pin!(sleep(Duration::from_secs(1))), Waker::noop()).is_pending());
    });
    assert!(core.timers.has_wheel());
}

#[test]
fn all_that_is_due_fires_in_one_call_however_much_it_is() {
    let core = StandIn::new(0);
    let (count, waker) = Count::new();
    core.enter(|| {
        let mut sleeps: Vec<_> = (0..1000)
            .map(|id| Box::pin(sleep_until(Instant::from_nanos(1 + id % 500))))
            .collect();
        for sleep in &mut sleeps {
            assert!(poll(sleep.as_mut(), &waker).is_pending());
        }
        assert_eq!(core.timers.expire(400), 800);
        assert_eq!(count.get(), 800);
        assert_eq!(core.timers.next(), 401);
        let ended = sleeps
            .iter_mut()
            .filter_map(|sleep| poll(sleep.as_mut(), &waker).is_ready().then_some(()));
        assert_eq!(ended.count(), 800);
    });
}

/// A waker that locks the timers it was registered at, whatever is done with it.
struct Locks(Mutex<Vec<Pin<Box<Sleep>>>>);

impl Locks {
    fn lock_timers(&self) {
        if let Some(mut sleep) = self.0.lock().unwrap().pop() {
            sleep.as_mut().reset(Instant::from_nanos(999));
        }
    }
}

impl Wake for Locks {
    fn wake(self: Arc<Self>) {
        self.lock_timers();
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.lock_timers();
    }
}

/// The lock's debug assertion finds a waker that is woken or dropped under it.
#[test]
fn wakers_are_woken_and_dropped_after_unlocking() {
    let core = StandIn::new(0);
    core.enter(|| {
        let inner = || {
            let mut sleep = Box::pin(sleep_until(Instant::from_nanos(500)));
            assert!(poll(sleep.as_mut(), Waker::noop()).is_pending());
            sleep
        };
        let locks = || Waker::from(Arc::new(Locks(Mutex::new(vec![inner(), inner()]))));
        let start = |waker| {
            let mut sleep = Box::pin(sleep_until(Instant::from_nanos(100)));
            assert!(poll(sleep.as_mut(), &waker).is_pending());
            sleep
        };
        // Each is the only clone, so it is dropped by what is done here.
        let cancelled = start(locks());
        drop(cancelled);
        let mut updated = start(locks());
        assert!(poll(updated.as_mut(), Waker::noop()).is_pending());
        let fired = start(locks());
        assert_eq!(core.timers.expire(100), 2);
        drop((fired, updated));
        assert_eq!(core.timers.next(), u64::MAX);
    });
}

#[test]
fn moving_says_whether_it_fired_before() {
    let timers = Timers::new();
    let node = Box::pin(Node::idle());
    // SAFETY: it is registered nowhere, and cancelled before it is dropped.
    assert!(unsafe { timers.register(node.as_ref(), 100, Waker::noop().clone()) }.unwrap());
    // SAFETY: it was registered here.
    unsafe {
        assert_eq!(timers.reset(node.as_ref(), 200), Moved::Later);
        assert_eq!(timers.reset(node.as_ref(), 50), Moved::Earliest);
        assert_eq!(timers.expire(60), 1);
        assert_eq!(timers.reset(node.as_ref(), 70), Moved::HasFired);
        assert!(!timers.update_waker(node.as_ref(), Waker::noop()));
        timers.cancel(node.as_ref());
    }
    assert_eq!(timers.next(), u64::MAX);
}

/// Threads register, wait, reset and drop; one is the core and expires.
#[test]
fn threads_cancel_and_reset_while_the_core_fires() {
    const THREADS: u64 = 3;
    const TURNS: u64 = 3000;
    let core = StandIn::new(0);
    let is_over = AtomicBool::new(false);
    let waited = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                core.stall(50);
                core.timers.expire(core.now());
                thread::yield_now();
            }
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (core, waited) = (&core, &waited);
                scope.spawn(move || {
                    core.enter(|| {
                        for turn in 0..TURNS {
                            let counts = [Count::new(), Count::new()];
                            let woken = || counts[0].0.get() + counts[1].0.get();
                            let deadline = core.now() + (turn * 7 + thread) % 1000;
                            let mut sleep = Box::pin(sleep_until(Instant::from_nanos(deadline)));
                            let mut seen = woken();
                            let mut is_over = poll(sleep.as_mut(), &counts[0].1).is_ready();
                            match turn % 4 {
                                0 => {
                                    let later = Instant::from_nanos(deadline + turn % 300);
                                    sleep.as_mut().reset(later);
                                    is_over = false;
                                }
                                1 => continue,
                                2 if !is_over => {
                                    seen = woken();
                                    is_over = poll(sleep.as_mut(), &counts[1].1).is_ready();
                                }
                                _ => {}
                            }
                            // One that was over when it was reset is not woken until it is polled.
                            if turn % 4 == 0 && poll(sleep.as_mut(), &counts[0].1).is_ready() {
                                is_over = true;
                            }
                            while !is_over {
                                while woken() == seen {
                                    thread::yield_now();
                                }
                                seen = woken();
                                is_over =
                                    poll(sleep.as_mut(), &counts[turn as usize % 2].1).is_ready();
                                waited.fetch_add(1, Relaxed);
                            }
                            assert!(core.now() >= sleep.deadline().as_nanos());
                        }
                    })
                })
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Relaxed);
        results.into_iter().for_each(Result::unwrap);
    });
    assert!(waited.load(Relaxed) > 0);
    assert_eq!(core.timers.next(), u64::MAX);
}
