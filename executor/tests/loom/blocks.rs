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
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    iter,
    mem::ManuallyDrop,
};

thread_local! {
    /// How many blocks there are. All threads of a model are on one of the system's.
    static BLOCKS: Cell<isize> = const { Cell::new(0) };
}

/// Counts blocks, which it knows by their alignment: as large as they are. Not loom's way to count, which looks at them when
/// a model has failed, too, and then aborts.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(layout: Layout, blocks: isize) {
    if layout.align() >= 64 && layout.align() == layout.size() {
        // None, if the thread is about to end: then it has no model.
        let _ = BLOCKS.try_with(|count| count.set(count.get() + blocks));
    }
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Not loom's: they count, and must not order anything.
type Dropped = std::sync::Arc<std::sync::atomic::AtomicUsize>;

/// A queue and its permits, which order nothing here: what the queue needs, it has to see to itself.
struct Shared {
    queue: ManuallyDrop<Blocks<Message>>,
    permits: AtomicUsize,
    steps: Steps,
    dropped: Dropped,
}

/// A number, and how many such were dropped.
struct Message(usize, Dropped);

impl Drop for Message {
    fn drop(&mut self) {
        self.1.fetch_add(1, Relaxed);
    }
}

impl Shared {
    fn new() -> Arc<Self> {
        BLOCKS.set(0);
        Arc::new(Self {
            queue: ManuallyDrop::new(Blocks::new()),
            permits: AtomicUsize::new(0),
            steps: Steps::new(),
            dropped: Dropped::default(),
        })
    }

    fn push(&self, number: usize) {
        self.steps.step();
        self.queue.push(Message(number, self.dropped.clone()));
        self.permits.fetch_add(1, Relaxed);
    }

    /// Takes one, if a push is done that none was taken for.
    fn try_pop(&self) -> Option<usize> {
        self.steps.step();
        let less = |permits: usize| permits.checked_sub(1);
        self.permits.fetch_update(Relaxed, Relaxed, less).ok()?;
        // SAFETY: each permit is for a push that is done.
        Some(unsafe { self.queue.pop() }.0)
    }

    /// Takes all, when nobody pushes any more.
    fn pop_all(&self) -> Vec<usize> {
        iter::from_fn(|| self.try_pop()).collect()
    }

    /// As if it had been used for a while: so many went through, and a block is spare.
    fn used(before: usize) -> Arc<Self> {
        let shared = Self::new();
        for _ in 0..before {
            shared.push(0);
            assert_eq!(shared.try_pop(), Some(0));
        }
        shared
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Relaxed)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What a model that has failed leaves is in no state to be dropped.
        if !std::thread::panicking() {
            // SAFETY: nobody uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.queue) };
        }
    }
}

/// Drops it, as the last one: all that was pushed is dropped, once, and no block is lost.
fn end(shared: Arc<Shared>, pushes: usize) {
    let dropped = shared.dropped.clone();
    drop(shared);
    assert_eq!(dropped.load(Relaxed), pushes);
    assert_eq!(BLOCKS.get(), 0);
}

fn spawn<R: 'static>(
    shared: &Arc<Shared>,
    run: impl FnOnce(&Shared) -> R + 'static,
) -> thread::JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || run(&shared))
}

/// Loom, where there are three threads or many steps.
fn fewer_switches(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(2, |bound| bound.min(2)));
    builder.check(run);
}

fn assert_all(mut values: Vec<usize>, expected: &[usize]) {
    values.sort();
    assert_eq!(values, expected, "each is taken once");
}

/// Two push: to no block, to a slot of a block that the other has made, to its last, to the end.
#[test]
fn push_against_push() {
    loom::model(|| {
        let shared = Shared::new();
        let other = spawn(&shared, |shared| shared.push(1));
        shared.push(2);
        shared.push(3);
        other.join().unwrap();
        let popped = shared.pop_all();
        let at = |number| popped.iter().position(|one| *one == number);
        assert!(at(2) < at(3), "what one pushes stays in order");
        assert_all(popped, &[1, 2, 3]);
        end(shared, 3);
    });
}

/// Two are at the end of a block, and want the one spare.
#[test]
fn push_against_push_at_the_end() {
    loom::model(|| {
        let shared = Shared::used(3);
        let other = spawn(&shared, |shared| shared.push(1));
        shared.push(2);
        other.join().unwrap();
        (3..6).for_each(|number| shared.push(number));
        assert_all(shared.pop_all(), &[1, 2, 3, 4, 5]);
        end(shared, 8);
    });
}

/// One pushes, one takes what is there, in the order in which it was pushed.
#[test]
fn push_against_pop() {
    loom::model(|| {
        let shared = Shared::new();
        let other = spawn(&shared, |shared| {
            (1..4).for_each(|number| shared.push(number))
        });
        let mut popped: Vec<_> = (0..3).filter_map(|_| shared.try_pop()).collect();
        other.join().unwrap();
        popped.extend(shared.pop_all());
        assert_eq!(popped, [1, 2, 3]);
        end(shared, 3);
    });
}

/// The push that is done is not the one whose value is next: that one is waited for.
fn pop_against_an_earlier_push(before: usize) {
    fewer_switches(move || {
        let shared = Shared::used(before);
        let others = [1, 2].map(|number| spawn(&shared, move |shared| shared.push(number)));
        let mut popped: Vec<_> = shared.try_pop().into_iter().collect();
        for other in others {
            other.join().unwrap();
        }
        popped.extend(shared.pop_all());
        assert_all(popped, &[1, 2]);
        end(shared, before + 2);
    });
}

#[test]
fn pop_against_an_earlier_push_of_all() {
    pop_against_an_earlier_push(0);
}

/// In a block that has been used before: nothing in it looks as if it were published.
#[test]
fn pop_against_an_earlier_push_to_a_used_block() {
    pop_against_an_earlier_push(4);
}

#[test]
fn pop_against_an_earlier_push_at_the_end() {
    pop_against_an_earlier_push(1);
}

/// Two take, across the end of a block; each sees the blocks that somebody else has made.
#[test]
fn pop_against_pop() {
    fewer_switches(|| {
        let shared = Shared::new();
        let other = spawn(&shared, |shared| {
            (0..2).filter_map(|_| shared.try_pop()).collect::<Vec<_>>()
        });
        (1..4).for_each(|number| shared.push(number));
        let mut popped: Vec<_> = shared.try_pop().into_iter().collect();
        popped.extend(other.join().unwrap());
        popped.extend(shared.pop_all());
        assert_all(popped, &[1, 2, 3]);
        end(shared, 3);
    });
}

/// Three take what was there before.
#[test]
fn pop_against_two_pops() {
    fewer_switches(|| {
        let shared = Shared::new();
        (1..4).for_each(|number| shared.push(number));
        let others = [(); 2].map(|()| spawn(&shared, |shared| shared.try_pop()));
        let mut popped: Vec<_> = shared.try_pop().into_iter().collect();
        for other in others {
            popped.extend(other.join().unwrap());
        }
        assert_all(popped, &[1, 2, 3]);
        end(shared, 3);
    });
}

/// Two read the two slots of a block, and one of them pushes again: to that block, if both have read it.
#[test]
fn push_to_a_block_that_was_just_read() {
    loom::model(|| {
        let shared = Shared::new();
        (1..4).for_each(|number| shared.push(number));
        let other = spawn(&shared, |shared| shared.try_pop());
        let mut popped: Vec<_> = shared.try_pop().into_iter().collect();
        (4..6).for_each(|number| shared.push(number));
        popped.extend(other.join().unwrap());
        popped.extend(shared.pop_all());
        assert_all(popped, &[1, 2, 3, 4, 5]);
        end(shared, 5);
    });
}

/// What is left is dropped, once; and no block is lost.
#[test]
fn dropped_with_what_is_left() {
    for (pushes, pops) in (0..6).flat_map(|pushes| (0..=pushes).map(move |pops| (pushes, pops))) {
        loom::model(move || {
            let shared = Shared::new();
            (0..pushes).for_each(|number| shared.push(number));
            (0..pops).for_each(|number| assert_eq!(shared.try_pop(), Some(number)));
            assert_eq!(shared.dropped(), pops);
            end(shared, pushes);
        });
    }
}

/// What came from another is dropped too.
#[test]
fn dropped_after_others() {
    loom::model(|| {
        let shared = Shared::new();
        let other = spawn(&shared, |shared| {
            (1..4).for_each(|number| shared.push(number))
        });
        let popped = shared.try_pop();
        other.join().unwrap();
        assert_eq!(shared.dropped(), popped.into_iter().count());
        end(shared, 3);
    });
}
