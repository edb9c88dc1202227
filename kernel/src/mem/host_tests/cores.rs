//! Tests of the heap on several cores, and in interrupts.

use super::{Machine, layout};
use crate::mem::stress::{self, Shelf};
use hal::{bring_up, irq};
use std::sync::{
    atomic::{AtomicUsize, Ordering::*},
    mpsc,
};

#[test]
fn a_million_operations_on_four_cores_lose_corrupt_and_leak_nothing() {
    const ROUNDS: usize = 10;
    let machine = Machine::with_pages(8192);
    let shelf = Shelf::new(256);
    let arrived = AtomicUsize::new(0);
    // Cores meet by pausing, not in a barrier of the OS: a core that panicked would never come.
    let meet = |times: usize| {
        arrived.fetch_add(1, AcqRel);
        while arrived.load(Acquire) < 4 * times {
            hal::pause();
        }
    };
    let pages = hal::sync::Lock::new(Vec::new());
    bring_up::start(4, |core| {
        for round in 0..ROUNDS {
            shelf
                .work(
                    machine.heap,
                    (round * 4 + core) as u64,
                    1_000_000 / ROUNDS / 4,
                )
                .unwrap();
            meet(round + 1);
            if core == 0 {
                let now = machine.heap.stats().pages;
                pages.lock().push(now);
            }
        }
        meet(ROUNDS + 1);
        if core == 0 {
            shelf.clear(machine.heap).unwrap();
        }
        meet(ROUNDS + 2);
        machine.heap.drain();
    });
    machine.assert_all_is_back();
    let pages = pages.into_inner();
    let (early, late) = pages.split_at(ROUNDS / 2);
    assert!(
        late.iter().max() <= early.iter().max().map(|most| 2 * most).as_ref(),
        "the heap grows: {pages:?}"
    );
    let (hits, misses) = machine.heap.stats().hits_and_misses();
    assert!(hits > 4 * misses, "{hits} hits, {misses} misses");
}

#[test]
fn what_one_core_allocates_and_another_frees_does_not_pile_up() {
    let machine = Machine::with_pages(1024);
    let (sender, receiver) = mpsc::sync_channel(100);
    let (sender, receiver) = (
        std::sync::Mutex::new(Some(sender)),
        std::sync::Mutex::new(receiver),
    );
    bring_up::start(2, |core| {
        if core == 0 {
            let sender = sender.lock().unwrap().take().unwrap();
            for turn in 0..100_000 {
                let layout = layout([16, 128, 1024][turn % 3]);
                sender
                    .send(
                        stress::make(machine.heap, layout)
                            .unwrap()
                            .expose_provenance(),
                    )
                    .unwrap();
            }
        } else {
            for block in receiver.lock().unwrap().iter() {
                // SAFETY: the other core made it, and sent it here only.
                unsafe {
                    stress::destroy(machine.heap, std::ptr::with_exposed_provenance_mut(block))
                        .unwrap()
                };
            }
        }
        machine.heap.drain();
    });
    let most = machine.heap.stats().peak_pages;
    assert!(
        most < 100,
        "{most} pages for never more than 200 blocks in use"
    );
    machine.assert_all_is_back();
}

#[test]
#[cfg(debug_assertions)]
fn allocating_in_an_interrupt_handler_is_named() {
    use hal::{
        context::Frame,
        traps::{self, Fault, Switch, Upcalls},
    };
    struct Allocating;
    impl Upcalls for Allocating {
        fn on_timer(&self) {}
        fn on_kick(&self) {
            Machine::with_pages(64).alloc(layout(64));
        }
        fn on_line(&self, _: irq::Line) {}
        fn on_fault(&self, _: &Fault, _: &Frame) -> Switch {
            unreachable!()
        }
    }
    traps::register(&(&Allocating as &dyn Upcalls));
    let result = std::panic::catch_unwind(|| {
        bring_up::start(1, |core| {
            irq::enable_each_core();
            hal::cores::kick(core);
        });
    });
    let problem = result.expect_err("it panics");
    assert_eq!(
        problem.downcast_ref::<&str>(),
        Some(&"allocation in an interrupt handler")
    );
}
