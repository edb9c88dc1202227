//! A value that is made once: who sees it sees all of it, and somebody makes it in the end.

use super::{
    items::Steps,
    kept::{Kept, block_on},
};
use executor::sync::OnceCell;
use loom::{cell::UnsafeCell, thread};
use std::{
    future::pending,
    sync::{
        Arc,
        // Not loom's: it counts, and must not order anything.
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Waker,
};

/// A value whose making loom sees.
struct Value(UnsafeCell<usize>);

// SAFETY: loom checks the accesses.
unsafe impl Sync for Value {}
// SAFETY: as above.
unsafe impl Send for Value {}

impl Value {
    fn new() -> Self {
        let value = UnsafeCell::new(0);
        // SAFETY: nobody else has it yet.
        value.with_mut(|value| unsafe { *value = 7 });
        Self(value)
    }

    fn check(&self) {
        // SAFETY: nobody writes it any more; loom checks that.
        assert_eq!(self.0.with(|value| unsafe { *value }), 7);
    }
}

#[derive(Default)]
struct Shared {
    cell: OnceCell<Value>,
    made: AtomicUsize,
    steps: Steps,
}

impl Shared {
    async fn get(&self) {
        let make = async || {
            self.made.fetch_add(1, Relaxed);
            Value::new()
        };
        self.cell.get_or_init(make).await.check();
    }
}

/// Two want to make it: one does, both have it.
#[test]
fn two_make_it() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.steps.step();
                block_on(&mut Kept::new(shared.get()));
            })
        };
        shared.steps.step();
        block_on(&mut Kept::new(shared.get()));
        other.join().unwrap();
        assert_eq!(shared.made.load(Relaxed), 1);
    });
}

/// One makes it while another only looks.
#[test]
fn get_against_set() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                let value = Value::new();
                shared.steps.step();
                assert!(shared.cell.set(value).is_ok());
            })
        };
        shared.steps.step();
        if let Some(value) = shared.cell.get() {
            value.check();
        }
        other.join().unwrap();
        shared.cell.get().expect("it was set").check();
    });
}

/// One that makes it is dropped in the middle, while another comes: that one makes it.
#[test]
fn dropped_against_get() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let mut dropped = Kept::new(shared.cell.get_or_init(pending::<Value>));
        assert!(dropped.poll(Waker::noop()).is_pending());
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.steps.step();
                block_on(&mut Kept::new(shared.get()));
            })
        };
        shared.steps.step();
        dropped.drop();
        other.join().unwrap();
        assert_eq!(shared.made.load(Relaxed), 1);
        shared.cell.get().expect("it was made").check();
    });
}
