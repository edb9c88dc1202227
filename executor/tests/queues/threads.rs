//! Many threads: every item is taken exactly once, and in the promised order.
//! The work is bounded, not the time.

use crate::{all_taken_once, items, take};
use executor::queue::{Deque, Inbox, Injector, List, Ring};
use hal::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::{
    ptr::{self, NonNull},
    sync::Barrier,
    thread,
};

const THREADS: usize = 4;
const EACH: usize = 50_000;

/// Each of four threads has a queue, fills it, empties it and robs the others,
/// until it has nothing left. None waits for another, so that a lost item is
/// found missing and not waited for.
macro_rules! all_rob_all {
    ($queue:ident, $take_oldest:expr) => {{
        let items = items(THREADS * EACH);
        // Small, so that it is often full and often empty, and wraps soon.
        let queues: Vec<_> = (0..THREADS)
            .map(|_| $queue::starting_at(16, u32::MAX - 1000))
            .collect();
        let (start, stolen) = (Barrier::new(THREADS), AtomicUsize::new(0));
        thread::scope(|scope| {
            for me in 0..THREADS {
                let (items, queues, start, stolen) = (&items, &queues, &start, &stolen);
                scope.spawn(move || {
                    let mut mine = items[me * EACH..][..EACH].iter().map(NonNull::from);
                    let queue = &queues[me];
                    for item in mine.by_ref().take(8) {
                        queue.push(item).expect("room for 16");
                    }
                    // Whoever comes first finds something to steal.
                    start.wait();
                    for turn in me.. {
                        if mine.len() == 0 && queue.is_empty() {
                            break;
                        }
                        if turn % 32 == 0 {
                            thread::yield_now();
                        }
                        for item in mine.by_ref().take(turn % 7) {
                            if let Err(item) = queue.push(item) {
                                take(item);
                                queue.take_half(turn % 20, |item| _ = take(item));
                            }
                        }
                        for _ in 0..turn % 5 {
                            queue.pop().map(take);
                        }
                        if turn % 61 == 0 {
                            $take_oldest(queue).map(take);
                        }
                        let victim = &queues[turn % THREADS];
                        if !ptr::eq(queue, victim)
                            && let Some((item, count)) = victim.steal_into(queue, turn % 11)
                        {
                            take(item);
                            stolen.fetch_add(count, Relaxed);
                        }
                    }
                });
            }
        });
        all_taken_once(&items);
        assert!(queues.iter().all($queue::is_empty));
        assert_ne!(stolen.into_inner(), 0, "they never met");
    }};
}

#[test]
fn deques_that_rob_each_other_lose_and_double_nothing() {
    all_rob_all!(Deque, Deque::take_oldest);
}

#[test]
fn rings_that_rob_each_other_lose_and_double_nothing() {
    all_rob_all!(Ring, Ring::pop);
}

/// Ends the thieves' work, also if the owner panics.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// One owner pushes numbers that grow, and pops some; what each thief gets must grow too.
macro_rules! thieves_see_order {
    ($queue:ident) => {{
        let items = items(THREADS * EACH);
        let queue = $queue::starting_at(64, u32::MAX - 1000);
        let (start, is_over) = (Barrier::new(THREADS), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 1..THREADS {
                scope.spawn(|| {
                    let mine = $queue::new(8);
                    let mut newest = None;
                    start.wait();
                    while !is_over.load(Relaxed) {
                        let Some((oldest, count)) = queue.steal_into(&mine, 9) else {
                            thread::yield_now();
                            continue;
                        };
                        let mut batch = vec![take(oldest)];
                        while mine.take_half(1, |item| batch.push(take(item))) > 0 {}
                        assert_eq!(batch.len(), count);
                        for number in batch {
                            assert!(Some(number) > newest, "{number} came after {newest:?}");
                            newest = Some(number);
                        }
                    }
                });
            }
            start.wait();
            let _over = SetWhenDropped(&is_over);
            for item in &items {
                if let Err(item) = queue.push(NonNull::from(item)) {
                    thread::yield_now();
                    // In vain: nobody has made room. It does not matter who takes it.
                    _ = queue.push(item).map_err(take);
                }
                if item.number % 3 == 0 {
                    queue.pop().map(take);
                }
            }
            while queue.pop().map(take).is_some() {}
        });
        all_taken_once(&items);
    }};
}

#[test]
fn thieves_of_a_deque_take_the_oldest_first() {
    thieves_see_order!(Deque);
}

#[test]
fn thieves_of_a_ring_take_the_oldest_first() {
    thieves_see_order!(Ring);
}

#[test]
fn an_inbox_keeps_the_order_of_each_pusher() {
    const PUSHERS: usize = THREADS - 1;
    let items = items(PUSHERS * EACH);
    let inbox = Inbox::new();
    let (pushing, firsts) = (AtomicUsize::new(PUSHERS), AtomicUsize::new(0));
    let mut batches = 0;
    thread::scope(|scope| {
        for chunk in items.chunks(EACH) {
            let (inbox, pushing, firsts) = (&inbox, &pushing, &firsts);
            scope.spawn(move || {
                for item in chunk {
                    // SAFETY: `items` outlive the inbox, and each is pushed once.
                    if unsafe { inbox.push(NonNull::from(item)) } {
                        firsts.fetch_add(1, Relaxed);
                    }
                }
                // Pairs with the load below: what was pushed is seen.
                pushing.fetch_sub(1, Release);
            });
        }
        let mut newest = [None; PUSHERS];
        // Acquire pairs with the release above.
        while pushing.load(Acquire) > 0 || !inbox.is_empty() {
            let arrived = inbox.take_all();
            batches += usize::from(!arrived.is_empty());
            for number in arrived.map(take) {
                let newest = &mut newest[number / EACH];
                assert!(Some(number) > *newest, "{number} came after {newest:?}");
                *newest = Some(number);
            }
        }
    });
    assert_eq!(
        firsts.into_inner(),
        batches,
        "of each batch, one found the inbox empty"
    );
    all_taken_once(&items);
}

#[test]
fn an_injector_serves_all_cores() {
    let items = items(THREADS * EACH);
    let injector = Injector::new();
    hal::bring_up::start(THREADS, |core| {
        let ring = Ring::new(16);
        let mut mine = items[core * EACH..][..EACH].chunks(7);
        // Who has pushed all and finds nothing can go: others see to theirs.
        while mine.len() > 0 || !injector.is_empty() {
            let mut list = List::new();
            for item in mine.next().into_iter().flatten() {
                // SAFETY: `items` outlive the injector, and each is pushed once.
                unsafe { list.push_back(NonNull::from(item)) };
            }
            injector.push_all(list);
            if let Some((item, count)) = injector.pop_into(&ring, 10) {
                take(item);
                assert_eq!(ring.len(), count - 1);
                while ring.pop().map(take).is_some() {}
            }
        }
    });
    all_taken_once(&items);
}
