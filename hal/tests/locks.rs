//! Tests of locks, masks and sets of cores on the host.
#![cfg(not(loom))]

use hal::{
    bring_up,
    cores::{self, Arrival, CoreSet},
    irq, preempt,
    sync::{Lock, Rank, assert_none_held, ranked},
};
use std::{
    cell::UnsafeCell,
    collections::HashSet,
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering::*},
    },
    thread,
};

#[test]
fn a_lock_lets_in_one_at_a_time() {
    const TURNS: usize = 20_000;
    // Two words that are equal whenever nobody is inside.
    let lock = Lock::new((0, 0));
    bring_up::start(4, |_| {
        for _ in 0..TURNS {
            let mut pair = lock.lock();
            assert_eq!(pair.0, pair.1);
            pair.0 += 1;
            std::hint::black_box(&mut *pair);
            pair.1 += 1;
        }
    });
    assert_eq!(*lock.lock(), (4 * TURNS, 4 * TURNS));
}

#[test]
fn trying_never_waits_and_lets_in_one_at_a_time_too() {
    let (lock, tries) = (Lock::new(0), Lock::new(0));
    bring_up::start(4, |_| {
        let mut entered = 0;
        for _ in 0..20_000 {
            if let Some(mut inside) = lock.try_lock() {
                *inside += 1;
                entered += 1;
            }
        }
        *tries.lock() += entered;
    });
    let (entered, tries) = (lock.into_inner(), tries.into_inner());
    assert_eq!(entered, tries);
    assert!(entered > 0);
}

#[test]
fn interrupts_are_masked_while_a_lock_is_held() {
    let lock = Lock::new(());
    assert!(irq::are_enabled());
    let held = lock.lock();
    assert!(!irq::are_enabled());
    assert!(lock.try_lock().is_none());
    assert!(!irq::are_enabled(), "a try in vain lets nothing in early");
    drop(held);
    assert!(irq::are_enabled());
}

#[test]
fn masks_and_locks_may_be_dropped_in_any_order() {
    let (a, b) = (ranked(Rank::Stacks, ()), Lock::new(()));
    let first = irq::mask();
    let second = a.lock();
    let third = irq::mask();
    let fourth = b.lock();
    drop(first);
    assert!(!irq::are_enabled());
    drop(fourth);
    assert!(!irq::are_enabled());
    drop(second);
    assert!(!irq::are_enabled());
    drop(third);
    assert!(irq::are_enabled());
}

#[test]
fn a_mask_inside_masked_code_does_not_enable() {
    bring_up::start(1, |_| {
        assert!(!irq::are_enabled(), "a core comes up masked");
        drop(irq::mask());
        assert!(!irq::are_enabled());
        irq::enable_each_core();
        drop(irq::mask());
        assert!(irq::are_enabled());
    });
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "this core holds the lock already"]
fn taking_a_lock_twice_on_one_core_is_named() {
    let lock = Lock::new(());
    let _held = lock.lock();
    let _again = lock.lock();
}

#[test]
fn a_lock_is_known_to_be_held_here_only_where_it_is() {
    let lock = Lock::new(());
    let held = lock.lock();
    // SAFETY: only asks.
    assert!(unsafe { lock.raw() }.is_held_here());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: only asks.
            assert!(!unsafe { lock.raw() }.is_held_here());
        });
    });
    drop(held);
    // SAFETY: only asks.
    assert!(!unsafe { lock.raw() }.is_held_here());
}

#[test]
fn guards_are_counted() {
    assert!(preempt::is_allowed());
    let (first, second) = (preempt::guard(), preempt::guard());
    drop(first);
    assert!(!preempt::is_allowed());
    assert_eq!(second.release(7), 7);
    assert!(preempt::is_allowed());
}

#[test]
fn threads_of_no_machine_are_cores_of_their_own() {
    /// A word that each thread has to itself as long as it runs.
    struct PerCore([UnsafeCell<usize>; ROWS]);
    // SAFETY: each element is touched by the thread that plays its core only.
    unsafe impl Sync for PerCore {}
    // With those of other tests that run now.
    const ROWS: usize = cores::MAX_CORES + 2 * THREADS;
    let words = PerCore([const { UnsafeCell::new(0) }; ROWS]);
    let words = &words;
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for thread in 0..20 {
                scope.spawn(move || {
                    let _guard = preempt::guard();
                    for turn in 0..1000 {
                        // SAFETY: as above.
                        unsafe {
                            *words.0[cores::this_core()].get() = thread * 1000 + turn;
                            assert_eq!(*words.0[cores::this_core()].get(), thread * 1000 + turn);
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn a_machine_has_the_cores_that_were_started_while_it_runs() {
    bring_up::start(3, |core| {
        assert_eq!(cores::this_core(), core);
        assert_eq!(cores::online(), CoreSet(0b111));
    });
    bring_up::start(1, |_| assert_eq!(cores::online(), CoreSet(1)));
}

#[test]
fn a_panic_on_one_core_ends_the_machine() {
    let result = std::panic::catch_unwind(|| {
        bring_up::start(3, |core| {
            if core == 1 {
                panic!("on purpose");
            }
            let masked = irq::mask();
            irq::wait(&masked);
        });
    });
    assert!(result.is_err());
    bring_up::start(3, |_| drop(irq::mask()));
}

#[test]
fn sets_of_cores_hold_what_was_put_in() {
    let set: CoreSet = [63, 0, 5, 5].into_iter().collect();
    assert_eq!(set.len(), 3);
    assert_eq!(set.iter().collect::<Vec<_>>(), [0, 5, 63]);
    assert!(set.contains(63) && !set.contains(1));
    assert_eq!(
        set.without(5).without(5).iter().collect::<Vec<_>>(),
        [0, 63]
    );
    assert!(CoreSet::EMPTY.is_empty() && !set.is_empty());
    assert_eq!(CoreSet(u64::MAX).iter().count(), 64);
    assert_eq!(format!("{set:?}"), "{0, 5, 63}");
}

#[test]
fn a_core_arrives_or_is_given_up() {
    let on_time = Arrival::new();
    assert!(!on_time.is_up());
    assert!(on_time.arrive() && on_time.is_up());
    assert!(!on_time.give_up(), "it has arrived after all");
    let late = Arrival::new();
    assert!(late.give_up());
    assert!(!late.arrive() && !late.is_up());
}

#[test]
fn any_number_of_threads_may_take_locks_and_be_kicked() {
    for _ in 0..3 {
        let numbers = numbers_of_busy_threads();
        assert_eq!(numbers.len(), THREADS, "each has a number of its own");
        let most = cores::MAX_CORES + THREADS + 50;
        let is_used_again = |&number: &usize| number < most;
        assert!(numbers.iter().all(is_used_again), "numbers come back");
    }
}

const THREADS: usize = 200;

/// Numbers of so many threads that live at once, take a lock, and sleep until they are kicked.
fn numbers_of_busy_threads() -> HashSet<usize> {
    let (numbers, all_in) = (&Lock::new(HashSet::new()), &Barrier::new(THREADS + 1));
    let (count, turn) = (&Lock::new(0), &AtomicUsize::new(0));
    let play = || {
        let me = cores::this_core();
        numbers.lock().insert(me);
        all_in.wait();
        for _ in 0..100 {
            *count.lock() += 1;
        }
        // Each is kicked in its turn only, and would sleep for ever otherwise.
        let masked = irq::mask();
        while turn.load(Acquire) != me {
            irq::wait(&masked);
        }
        turn.store(usize::MAX, Release);
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(play)).collect();
        all_in.wait();
        for &core in numbers.lock().clone().iter() {
            turn.store(core, Release);
            cores::kick(core);
            while turn.load(Acquire) != usize::MAX {
                thread::yield_now();
            }
        }
        // Waits for their destructors, too.
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(*count.lock(), THREADS * 100);
    numbers.lock().clone()
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "a lock of rank Stacks is taken under one of rank 31"]
fn taking_locks_in_the_wrong_order_is_named_though_nobody_waits() {
    let (outer, inner) = (ranked(Rank::Stacks, ()), Lock::new(()));
    let _held = inner.lock();
    drop(outer.lock());
}

#[test]
#[cfg(debug_assertions)]
fn locks_that_were_tried_are_given_back_in_any_order() {
    let (a, b) = (Lock::new(()), Lock::new(()));
    let first = a.lock();
    let second = b.try_lock();
    drop(first);
    drop(second);
    assert_none_held();
    drop(ranked(Rank::Stacks, ()).lock());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "locks are held here"]
fn a_held_lock_is_noticed_before_code_of_others_is_called() {
    let lock = Lock::new(());
    let _held = lock.lock();
    assert_none_held();
}
