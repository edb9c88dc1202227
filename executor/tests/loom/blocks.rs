//! The queue of unbounded channels. In the models a block has two slots, so nearly each push and pop is at the
//! end of a block.

use super::items::Steps;
use executor::sync::channel::blocks::Blocks;
use loom::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
    thread,
};
// Not loom's: they count, and must not order anything.
use std::sync::atomic::AtomicUsize as Count;

/// A queue and its permits, which order nothing here: what the queue needs, it has to see to itself.
struct Shared {
    queue: Blocks<Message>,
    permits: AtomicUsize,
    steps: Steps,
    dropped: Count,
}

/// A number that is read once.
struct Message {
    number: usize,
    dropped: *const Count,
}

// SAFETY: the counter is atomic, and lives as long as the model.
unsafe impl Send for Message {}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: the queue is dropped before the counter.
        unsafe { &*self.dropped }.fetch_add(1, Relaxed);
    }
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Blocks::new(),
            permits: AtomicUsize::new(0),
            steps: Steps::new(),
            dropped: Count::new(0),
        })
    }

    fn push(&self, number: usize) {
        self.steps.step();
        self.queue.push(Message {
            number,
            dropped: &raw const self.dropped,
        });
        self.permits.fetch_add(1, Relaxed);
    }

    /// Waits for a permit.
    fn pop(&self) -> usize {
        loop {
            match self.try_pop() {
                Some(number) => return number,
                None => thread::yield_now(),
            }
        }
    }

    fn try_pop(&self) -> Option<usize> {
        self.steps.step();
        let less = |permits: usize| permits.checked_sub(1);
        self.permits.fetch_update(Relaxed, Relaxed, less).ok()?;
        // SAFETY: each permit is for a push that is done.
        Some(unsafe { self.queue.pop() }.number)
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Relaxed)
    }
}

fn spawn<R: 'static>(
    shared: &Arc<Shared>,
    run: impl FnOnce(&Shared) -> R + 'static,
) -> thread::JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || run(&shared))
}

/// Loom with this many switches at most.
fn model(most: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let bound = builder.preemption_bound.map_or(most, |bound| bound.min(most));
    builder.preemption_bound = Some(bound);
    builder.check(run);
}

/// One of `values` comes before another.
fn comes_before(values: &[usize], first: usize, second: usize) -> bool {
    let at = |value| values.iter().position(|one| *one == value);
    at(first).unwrap() < at(second).unwrap()
}

fn assert_all(mut values: Vec<usize>, expected: &[usize]) {
    values.sort();
    assert_eq!(values, expected, "each is taken once");
}

/// Two push, one pops what he can get meanwhile: each sees his own order.
#[test]
fn two_push_one_pops() {
    model(3, || {
        let shared = Shared::new();
        let first = spawn(&shared, |shared| {
            shared.push(1);
            shared.push(2);
        });
        let second = spawn(&shared, |shared| shared.push(3));
        let mut popped: Vec<_> = (0..2).filter_map(|_| shared.try_pop()).collect();
        first.join().unwrap();
        second.join().unwrap();
        popped.extend(std::iter::from_fn(|| shared.try_pop()));
        assert!(comes_before(&popped, 1, 2));
        assert_all(popped, &[1, 2, 3]);
        assert_eq!(shared.dropped(), 3);
    });
}
