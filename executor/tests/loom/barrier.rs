//! The barrier: some come while others leave.

use super::{count::Count, kept::Kept};
use executor::sync::{Barrier, BarrierWaitResult};
use loom::{cell::UnsafeCell, thread};
use std::{
    sync::Arc,
    task::{Poll, Waker},
};

fn is_leader(poll: Poll<BarrierWaitResult>) -> Option<bool> {
    match poll {
        Poll::Ready(result) => Some(result.is_leader()),
        Poll::Pending => None,
    }
}

/// What each did before is seen by the other after; one of them leads.
#[test]
fn two_meet() {
    struct Shared {
        barrier: Barrier,
        values: [UnsafeCell<usize>; 2],
    }
    // SAFETY: loom checks the accesses to the values.
    unsafe impl Sync for Shared {}
    // SAFETY: as above.
    unsafe impl Send for Shared {}

    /// Whether it led.
    fn meet(shared: &Shared, number: usize) -> bool {
        // SAFETY: its own, until both have met.
        shared.values[number].with_mut(|value| unsafe { *value = 1 });
        let result = super::kept::block_on(&mut Kept::new(shared.barrier.wait()));
        // SAFETY: both have met, and nobody writes any more.
        let other = shared.values[1 - number].with(|value| unsafe { *value });
        assert_eq!(other, 1);
        result.is_leader()
    }

    loom::model(|| {
        let shared = Arc::new(Shared {
            barrier: Barrier::new(2),
            values: [0, 0].map(UnsafeCell::new),
        });
        let other = {
            let shared = shared.clone();
            thread::spawn(move || meet(&shared, 1))
        };
        let leads = meet(&shared, 0);
        assert_ne!(leads, other.join().unwrap());
    });
}

/// One leaves while another comes: they have met, or the other waits alone.
#[test]
fn leave_against_arrival() {
    loom::model(|| {
        let barrier = Arc::new(Barrier::new(2));
        let mut first = Kept::new(barrier.wait());
        assert!(first.poll(Waker::noop()).is_pending());
        let other = {
            let barrier = barrier.clone();
            thread::spawn(move || {
                let mut second = Kept::new(barrier.wait());
                let met = is_leader(second.poll(Waker::noop())).is_some();
                second.drop();
                met
            })
        };
        first.drop();
        let _ = other.join().unwrap();
        // Whatever happened, the next two meet.
        let (count, waker) = Count::new();
        let mut next = [(); 2].map(|()| Kept::new(barrier.wait()));
        let led = next.each_mut().map(|next| is_leader(next.poll(&waker)));
        assert_eq!(led, [None, Some(true)]);
        assert_eq!(count.get(), 1);
        next.iter_mut().for_each(Kept::drop);
    });
}

/// One leaves after the round is over, but before it was told so: the next round is whole.
#[test]
fn leave_against_the_end_of_a_round() {
    loom::model(|| {
        let barrier = Arc::new(Barrier::new(4));
        let mut waiting = [(); 3].map(|()| Kept::new(barrier.wait()));
        for wait in &mut waiting {
            assert!(wait.poll(Waker::noop()).is_pending());
        }
        let other = {
            let barrier = barrier.clone();
            thread::spawn(move || {
                let mut last = Kept::new(barrier.wait());
                let led = is_leader(last.poll(Waker::noop()));
                last.drop();
                led
            })
        };
        waiting[2].drop();
        let led = other.join().unwrap();
        for wait in &mut waiting[..2] {
            assert_eq!(is_leader(wait.poll(Waker::noop())).is_some(), led.is_some());
            wait.drop();
        }
        let mut next = [(); 4].map(|()| Kept::new(barrier.wait()));
        let led = next
            .each_mut()
            .map(|next| is_leader(next.poll(Waker::noop())));
        assert_eq!(led, [None, None, None, Some(true)]);
        next.iter_mut().for_each(Kept::drop);
    });
}
