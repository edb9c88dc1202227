//! The mutex: its own way in, and handing it on.

use super::{
    items::Steps,
    kept::{Kept, block_on},
};
use executor::sync::Mutex;
use loom::{cell::UnsafeCell, thread};
use std::{
    sync::Arc,
    task::{Poll, Waker},
};

/// A mutex whose value loom watches.
type Watched = Mutex<UnsafeCell<usize>>;

fn touch(value: &UnsafeCell<usize>) {
    // SAFETY: it is locked; loom checks that.
    value.with_mut(|value| unsafe { *value += 1 });
}

fn touched(mutex: Arc<Watched>) -> usize {
    let mutex = Arc::try_unwrap(mutex).ok().expect("all others have ended");
    // SAFETY: nobody else has it.
    mutex.into_inner().with(|value| unsafe { *value })
}

/// Two lock it, and wait if they must.
#[test]
fn lock_against_lock() {
    loom::model(|| {
        let mutex = Arc::new(Watched::new(UnsafeCell::new(0)));
        let turn = |mutex: &Watched| touch(&block_on(&mut Kept::new(mutex.lock())));
        let other = {
            let mutex = mutex.clone();
            thread::spawn(move || turn(&mutex))
        };
        turn(&mutex);
        other.join().unwrap();
        assert_eq!(touched(mutex), 2);
    });
}

/// One only tries, while it is handed from one to another.
#[test]
fn try_lock_against_handing_on() {
    loom::model(|| {
        let mutex = Arc::new(Watched::new(UnsafeCell::new(0)));
        let steps = Arc::new(Steps::new());
        let guard = mutex.try_lock().unwrap();
        let mut waits = Kept::new(mutex.lock());
        assert!(waits.poll(Waker::noop()).is_pending());
        let other = {
            let (mutex, steps) = (mutex.clone(), steps.clone());
            thread::spawn(move || {
                steps.step();
                match mutex.try_lock() {
                    Ok(guard) => touch(&guard),
                    Err(_) => return 0,
                }
                1
            })
        };
        touch(&guard);
        steps.step();
        drop(guard);
        let Poll::Ready(guard) = waits.poll(Waker::noop()) else {
            panic!("it was its turn");
        };
        touch(&guard);
        steps.step();
        drop(guard);
        waits.drop();
        let tried = other.join().unwrap();
        assert_eq!(touched(mutex), 2 + tried);
    });
}

/// Who waits gives up, while it is handed to him: the one behind him has it.
#[test]
fn giving_up_against_handing_on() {
    loom::model(|| {
        let mutex = Arc::new(Watched::new(UnsafeCell::new(0)));
        let guard = mutex.clone().try_lock_owned().unwrap();
        let mut first = Kept::new(mutex.lock());
        let mut second = Kept::new(mutex.lock());
        assert!(first.poll(Waker::noop()).is_pending());
        assert!(second.poll(Waker::noop()).is_pending());
        let other = thread::spawn(move || {
            touch(&guard);
            drop(guard);
        });
        first.drop();
        touch(&block_on(&mut second));
        other.join().unwrap();
        drop((first, second));
        assert_eq!(touched(mutex), 2);
    });
}
