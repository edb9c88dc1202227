//! Polls that need more stack than there is: they end, and only they.

use super::{deeper, join, spawn, spawn_on};
use alloc::{boxed::Box, sync::Arc};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use executor::{
    Runtime, TaskError, stats,
    task::{self, spawn_local_on, yield_now},
    thread,
    time::{Duration, sleep},
};
use hal::context;
use testing::kernel_test;

#[kernel_test(limit = 120)]
fn a_stack_overflow_ends_only_its_task_or_thread() {
    // What they had is never given back: the test does not look for it.
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        let finalized = Arc::new(AtomicUsize::new(0));
        let beats = spawn(async {
            for _ in 0..20 {
                sleep(Duration::from_millis(1)).await;
            }
        });
        for _ in 0..3 {
            let counted = finalized.clone();
            let task = spawn(async move {
                task::on_exit(async move {
                    yield_now().await;
                    counted.fetch_add(1, Relaxed);
                });
                deeper(0)
            });
            assert!(matches!(task.await, Err(TaskError::StackOverflow)));
            let thread = thread::Builder::new().stack_size(64 << 10);
            let thread = thread.spawn(|| deeper(0)).expect("memory for a thread");
            assert!(matches!(thread.await, Err(TaskError::StackOverflow)));
            // A local one lets the others of its core go on.
            let local = spawn_local_on(0, || async { deeper(0) });
            assert!(matches!(local.await, Err(TaskError::StackOverflow)));
            assert_eq!(spawn_local_on(0, || async { 5 }).await.unwrap(), 5);
        }
        assert_eq!(finalized.load(Relaxed), 3);
        assert_eq!(stats::stats().total.lost, 9);
        join([beats]).await;
    });
    runtime.shutdown();
}

/// Takes about as many bytes of stack as it is told.
#[inline(never)]
fn down(bytes: usize) -> usize {
    let room = core::hint::black_box([1u8; 1024]);
    match bytes.checked_sub(1024) {
        None => 0,
        Some(rest) => down(rest) + usize::from(room[5]),
    }
}

#[kernel_test(limit = 120)]
fn a_thread_that_asks_for_a_larger_stack_has_it() {
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        for _ in 0..3 {
            let large = thread::Builder::new().stack_size(4 << 20);
            let large = large.spawn(|| down(3 << 20)).expect("memory for a thread");
            assert_eq!(large.await.expect("it has room"), 3 << 10);
            let usual = thread::spawn(|| down(3 << 20));
            assert!(matches!(usual.await, Err(TaskError::StackOverflow)));
        }
    });
    runtime.shutdown();
}

#[kernel_test(limit = 120)]
fn a_lost_poll_ends_after_the_children_of_its_scopes() {
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        for _ in 0..3 {
            let is_over = Arc::new(AtomicBool::new(false));
            let too_late = Arc::new(AtomicUsize::new(0));
            let borrowed = AtomicUsize::new(0);
            let (over, late) = (is_over.clone(), too_late.clone());
            let outcome = task::nursery(|outer| {
                let borrowed = &borrowed;
                outer.spawn(async move {
                    let _ = task::nursery(|inner| {
                        // Borrows what is not its parent's, whose end must therefore wait for it.
                        inner.spawn(async move {
                            loop {
                                borrowed.fetch_add(1, Relaxed);
                                late.fetch_add(usize::from(over.load(Relaxed)), Relaxed);
                                yield_now().await;
                            }
                            #[allow(unreachable_code, reason = "for its type")]
                            Ok::<_, ()>(())
                        });
                        // One that has not begun would not begin any more.
                        while borrowed.load(Relaxed) == 0 {
                            thread::yield_now();
                        }
                        deeper(0);
                    });
                    Ok::<_, ()>(())
                });
            });
            is_over.store(true, Relaxed);
            assert!(outcome.is_err());
            sleep(Duration::from_millis(10)).await;
            assert_eq!(too_late.load(Relaxed), 0, "it is used after its loan");
            assert!(borrowed.into_inner() > 0);
        }
    });
    runtime.shutdown();
}

/// Never ends either, and overflows in the allocator or elsewhere: that depends on how large its frame is.
#[inline(never)]
#[allow(unconditional_recursion, reason = "that is the point")]
fn allocate_deeper<const WORDS: usize>(depth: u64) -> u64 {
    let room = core::hint::black_box([depth; WORDS]);
    let boxed = core::hint::black_box(Box::new(depth));
    allocate_deeper::<WORDS>(*boxed + 1) + *boxed + room.iter().sum::<u64>()
}

#[kernel_test(limit = 120)]
fn an_overflow_in_the_allocator_ends_only_its_task() {
    let runtime = Runtime::builder().stack(64 << 10).build();
    let runtime = runtime.expect("no other runtime has the cores");
    runtime.block_on(async {
        let bodies: [fn(u64) -> u64; 12] = [
            allocate_deeper::<0>,
            allocate_deeper::<1>,
            allocate_deeper::<2>,
            allocate_deeper::<3>,
            allocate_deeper::<4>,
            allocate_deeper::<5>,
            allocate_deeper::<6>,
            allocate_deeper::<7>,
            allocate_deeper::<8>,
            allocate_deeper::<9>,
            allocate_deeper::<10>,
            allocate_deeper::<11>,
        ];
        for _ in 0..4 {
            for body in bodies {
                let lost = spawn(async move { body(0) });
                assert!(matches!(lost.await, Err(TaskError::StackOverflow)));
            }
        }
        assert_eq!(stats::stats().total.lost, 48);
    });
    runtime.shutdown();
}

/// Writes to a page below what the caller has used.
#[inline(never)]
fn touch_a_page() {
    core::hint::black_box(&mut [1u8; 4096]);
}

/// Goes down to the last few bytes of the stack's room, and from there below it with interrupts masked, but under no guard.
#[inline(never)]
fn dip() {
    let here = core::hint::black_box([0u8; 256]);
    if here.as_ptr().addr() - context::current().stack().low > 2048 {
        dip();
    } else {
        let masked = hal::irq::mask();
        touch_a_page();
        drop(masked);
    }
    core::hint::black_box(&here);
}

#[kernel_test(limit = 120)]
fn an_overflow_under_a_mask_is_its_own_tasks() {
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        for round in 1..=6 {
            // The next poll on that core takes a guard, and would be taken for the one that was too deep.
            let lost = spawn_on(0, async { dip() });
            let next = spawn_on(0, async { drop(hal::preempt::guard()) });
            assert!(matches!(lost.await, Err(TaskError::StackOverflow)));
            assert!(next.await.is_ok());
            assert_eq!(stats::stats().total.lost, round);
        }
    });
    runtime.shutdown();
}

/// Cannot be dropped to its end.
struct Deep;

impl Drop for Deep {
    fn drop(&mut self) {
        deeper(0);
    }
}

#[kernel_test(limit = 120)]
fn an_outcome_that_nobody_asks_for_may_overflow_as_it_is_dropped() {
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        for round in 1..=6 {
            let is_alone = Arc::new(AtomicBool::new(false));
            let alone = is_alone.clone();
            let ends = async move {
                while !alone.load(Relaxed) {
                    yield_now().await;
                }
                Deep
            };
            if round % 2 == 0 {
                spawn_local_on(0, || ends).detach();
            } else {
                spawn(ends).detach();
            }
            is_alone.store(true, Relaxed);
            while stats::stats().total.lost < round || stats::stats().live > 1 {
                yield_now().await;
            }
            assert_eq!(spawn_local_on(0, || async { 5 }).await.unwrap(), 5);
        }
    });
    runtime.shutdown();
}

#[kernel_test(limit = 120)]
fn who_joins_a_scoped_thread_hears_of_its_overflow() {
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        let joined = spawn(async {
            let mut numbers = [1, 2];
            let (first, second) = numbers.split_at_mut(1);
            thread::scope(|scope| {
                let lost = scope.spawn(|| deeper(first[0]));
                let usual = scope.spawn(|| second[0] += 40);
                assert!(matches!(lost.join(), Err(TaskError::StackOverflow)));
                usual.join().unwrap();
            });
            numbers[1]
        });
        assert_eq!(joined.await.unwrap(), 42);
    });
    runtime.shutdown();
}
