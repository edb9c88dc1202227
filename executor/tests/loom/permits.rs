//! Permits, as semaphores have them: given back, waited for, given up.

use super::{
    count::Count,
    items::Steps,
    kept::{Kept, block_on},
};
use executor::sync::Semaphore;
use loom::{cell::UnsafeCell, sync::Arc, thread};
use std::task::{Poll, Waker};

/// A value that is read and written by who has a permit: loom finds two at once, and one who does
/// not see what the one before did.
struct Shared {
    semaphore: Semaphore,
    value: UnsafeCell<usize>,
    steps: Steps,
}

impl Shared {
    fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            semaphore: Semaphore::new(permits),
            value: UnsafeCell::new(0),
            steps: Steps::new(),
        })
    }

    fn touch(&self) {
        // SAFETY: loom checks that no two do so at once.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn touched(&self) -> usize {
        // SAFETY: as above.
        self.value.with(|value| unsafe { *value })
    }
}

// SAFETY: loom checks the accesses to the value.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Two take turns with one permit.
#[test]
fn one_at_a_time() {
    loom::model(|| {
        let shared = Shared::new(1);
        let turn = |shared: &Shared| {
            let permit = block_on(&mut Kept::new(shared.semaphore.acquire())).unwrap();
            shared.touch();
            drop(permit);
        };
        let other = {
            let shared = shared.clone();
            thread::spawn(move || turn(&shared))
        };
        turn(&shared);
        other.join().unwrap();
        assert_eq!(shared.touched(), 2);
        assert_eq!(shared.semaphore.available_permits(), 1);
    });
}

/// Three, so that one may wait behind another, or come while a permit is handed on.
#[test]
fn three_in_turn() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(2, |bound| bound.min(2)));
    builder.check(|| {
        let shared = Shared::new(1);
        let turn = |shared: &Shared| {
            let permit = block_on(&mut Kept::new(shared.semaphore.acquire())).unwrap();
            shared.touch();
            drop(permit);
        };
        let others = [(); 2].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || turn(&shared))
        });
        turn(&shared);
        others.map(|other| other.join().unwrap());
        assert_eq!(shared.touched(), 3);
        assert_eq!(shared.semaphore.available_permits(), 1);
    });
}

/// A permit is given back while somebody comes and tries once: he sees it, or is woken.
#[test]
fn give_against_wait() {
    loom::model(|| {
        let shared = Shared::new(0);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.touch();
                shared.steps.step();
                shared.semaphore.add_permits(1);
            })
        };
        let (count, waker) = Count::new();
        let mut acquire = Kept::new(shared.semaphore.acquire());
        shared.steps.step();
        let first = acquire.poll(&waker);
        other.join().unwrap();
        let permit = match first {
            Poll::Ready(permit) => permit.unwrap(),
            Poll::Pending => {
                assert_eq!(count.get(), 1, "a wake-up was lost");
                match acquire.poll(&waker) {
                    Poll::Ready(permit) => permit.unwrap(),
                    Poll::Pending => panic!("it was woken without a permit"),
                }
            }
        };
        assert_eq!(shared.touched(), 1);
        drop(permit);
        acquire.drop();
    });
}

/// Who waits first gives up while it is given the permit: then the second has it.
#[test]
fn leave_against_give() {
    loom::model(|| {
        let shared = Shared::new(0);
        let ((_, unused), (count, waker)) = (Count::new(), Count::new());
        let mut first = Kept::new(shared.semaphore.acquire());
        let mut second = Kept::new(shared.semaphore.acquire());
        assert!(first.poll(&unused).is_pending());
        assert!(second.poll(&waker).is_pending());
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.touch();
                shared.steps.step();
                shared.semaphore.add_permits(1);
            })
        };
        shared.steps.step();
        first.drop();
        other.join().unwrap();
        assert_eq!(count.get(), 1, "a permit was lost");
        assert!(second.poll(&waker).is_ready());
        second.drop();
        assert_eq!(shared.touched(), 1);
        assert_eq!(shared.semaphore.available_permits(), 1);
    });
}

/// Two permits come one by one while he who waits for both gives up, with one of them.
#[test]
fn leave_with_a_part() {
    loom::model(|| {
        let shared = Shared::new(1);
        let (_, waker) = Count::new();
        let mut both = Kept::new(shared.semaphore.acquire_many(2));
        assert!(both.poll(&waker).is_pending());
        assert_eq!(shared.semaphore.available_permits(), 0);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.steps.step();
                shared.semaphore.add_permits(1);
            })
        };
        shared.steps.step();
        both.drop();
        other.join().unwrap();
        assert_eq!(shared.semaphore.available_permits(), 2);
        assert!(shared.semaphore.try_acquire_many(2).is_ok());
    });
}

/// It is closed while somebody comes: he hears of it, now or later.
#[test]
fn close_against_wait() {
    loom::model(|| {
        let shared = Shared::new(1);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.steps.step();
                shared.semaphore.close();
            })
        };
        let (count, waker) = Count::new();
        let mut both = Kept::new(shared.semaphore.acquire_many(2));
        shared.steps.step();
        let first = both.poll(&waker);
        other.join().unwrap();
        if first.is_pending() {
            assert_eq!(count.get(), 1);
            assert!(matches!(both.poll(&waker), Poll::Ready(Err(_))));
        }
        both.drop();
        assert_eq!(shared.semaphore.available_permits(), 1);
        assert!(shared.semaphore.is_closed());
    });
}

/// More are given than are woken at once, while one more comes.
#[test]
fn many_are_given() {
    loom::model(|| {
        let shared = Shared::new(0);
        let (count, waker) = Count::new();
        let mut early = [(); 3].map(|()| Kept::new(shared.semaphore.acquire()));
        for acquire in &mut early {
            assert!(acquire.poll(&waker).is_pending());
        }
        let other = {
            let shared = shared.clone();
            thread::spawn(move || shared.semaphore.add_permits(3))
        };
        let mut late = Kept::new(shared.semaphore.acquire());
        assert!(late.poll(&waker).is_pending(), "others were first");
        other.join().unwrap();
        assert_eq!(count.get(), 3);
        for acquire in &mut early {
            match acquire.poll(&waker) {
                Poll::Ready(permit) => permit.unwrap().forget(),
                Poll::Pending => panic!("a permit was lost"),
            }
            acquire.drop();
        }
        shared.semaphore.add_permits(1);
        assert!(late.poll(&waker).is_ready());
        late.drop();
    });
}

/// Two give one each; who comes second may hand out both. Who gets them sees what both have done.
#[test]
fn handed_out_by_another() {
    loom::model(|| {
        let shared = Shared::new(0);
        let mut both = Kept::new(shared.semaphore.acquire_many(2));
        assert!(both.poll(Waker::noop()).is_pending());
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.touch();
                shared.steps.step();
                shared.semaphore.add_permits(1);
            })
        };
        shared.steps.step();
        shared.semaphore.add_permits(1);
        let early = both.poll(Waker::noop());
        if early.is_ready() {
            assert_eq!(shared.touched(), 1);
        }
        other.join().unwrap();
        assert!(early.is_ready() || both.poll(Waker::noop()).is_ready());
        both.drop();
    });
}
