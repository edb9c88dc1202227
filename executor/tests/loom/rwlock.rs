//! The reader-writer lock: loom sees a write beside a read.

use super::{
    items::Steps,
    kept::{Kept, block_on},
};
use executor::sync::RwLock;
use loom::{cell::UnsafeCell, thread};
use std::{
    sync::Arc,
    task::{Poll, Waker},
};

/// A lock whose value loom watches.
struct Watched {
    lock: RwLock<Value>,
    steps: Steps,
}

struct Value(UnsafeCell<usize>);

// SAFETY: loom checks the accesses.
unsafe impl Sync for Value {}
// SAFETY: as above.
unsafe impl Send for Value {}

impl Value {
    fn read(&self) -> usize {
        // SAFETY: it is locked; loom checks that nobody writes.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self) {
        // SAFETY: it is locked; loom checks that nobody else is there.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }
}

impl Watched {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: RwLock::new(Value(UnsafeCell::new(0))),
            steps: Steps::new(),
        })
    }
}

/// One reads, one writes.
#[test]
fn read_against_write() {
    loom::model(|| {
        let watched = Watched::new();
        let other = {
            let watched = watched.clone();
            thread::spawn(move || {
                watched.steps.step();
                block_on(&mut Kept::new(watched.lock.write())).write();
            })
        };
        watched.steps.step();
        let seen = block_on(&mut Kept::new(watched.lock.read())).read();
        assert!(seen < 2);
        other.join().unwrap();
        assert_eq!(block_on(&mut Kept::new(watched.lock.read())).read(), 1);
    });
}

/// A writer goes on reading while another tries to write and to read.
#[test]
fn downgrade_against_write() {
    loom::model(|| {
        let watched = Watched::new();
        let guard = watched.lock.try_write().ok().expect("nobody has it");
        let other = {
            let watched = watched.clone();
            thread::spawn(move || {
                watched.steps.step();
                if let Ok(guard) = watched.lock.try_read() {
                    assert_ne!(guard.read(), 0);
                }
                watched.steps.step();
                if let Ok(guard) = watched.lock.try_write() {
                    guard.write();
                }
            })
        };
        guard.write();
        watched.steps.step();
        let guard = guard.downgrade();
        watched.steps.step();
        assert_eq!(guard.read(), 1, "nobody wrote meanwhile");
        watched.steps.step();
        drop(guard);
        other.join().unwrap();
    });
}

/// A writer waits behind a reader and gives up while that ends: readers behind it go on.
#[test]
fn giving_up_to_write_against_the_end_of_reading() {
    loom::model(|| {
        let watched = Watched::new();
        let guard = watched.lock.try_read().ok().expect("nobody has it");
        let mut write = Kept::new(watched.lock.write());
        let mut read = Kept::new(watched.lock.read());
        assert!(write.poll(Waker::noop()).is_pending());
        assert!(read.poll(Waker::noop()).is_pending());
        let other = {
            let watched = watched.clone();
            thread::spawn(move || {
                watched.steps.step();
                if let Ok(guard) = watched.lock.try_write() {
                    guard.write();
                }
            })
        };
        watched.steps.step();
        drop(guard);
        watched.steps.step();
        write.drop();
        let Poll::Ready(guard) = read.poll(Waker::noop()) else {
            panic!("nobody is before it");
        };
        guard.read();
        drop(guard);
        read.drop();
        other.join().unwrap();
    });
}
