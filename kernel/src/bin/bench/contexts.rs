//! What contexts cost: a switch by itself, threads, and preemption. On one core.

use crate::{measure, report};
use alloc::sync::Arc;
use core::{
    hint::black_box,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*},
};
use executor::{
    Runtime,
    task::{spawn, wait, yield_now},
    thread,
    time::Duration,
};
use hal::{
    clock,
    context::{self, AfterSwitch, ContextBlock},
    irq,
    stack::{DEFAULT_SIZE, Stack},
};

pub fn run() {
    switch();
    let runtime = Runtime::builder().workers(1).build();
    let runtime = runtime.expect("one core is there");
    runtime.block_on(async {
        // What is made once is made before anything is counted.
        threads_yield(10);
        measure("thread_yield_among_2", 2000, || threads_yield(1000));
        measure("thread_spawn_join", 1000, || {
            for number in 0..1000 {
                let thread = thread::spawn(move || black_box(number));
                assert!(thread.join().is_ok_and(|output| output == number));
            }
        });
        measure("wait_for_a_yield", 1000, || {
            for _ in 0..1000 {
                wait(yield_now());
            }
        });
    });
    drop(runtime);
    preemption();
}

/// There and back, with nothing to be done on the way: two switches a turn.
fn switch() {
    const TURNS: u64 = 1000;
    extern "C" fn return_at_once(home: usize) -> ! {
        // SAFETY: `switch` keeps it until this is left for good.
        let home = unsafe { &*(home as *const AtomicPtr<ContextBlock>) };
        loop {
            let home = NonNull::new(home.load(Relaxed)).expect("set before");
            // SAFETY: masked since its start; who came from there waits there.
            unsafe { context::switch(home, AfterSwitch::NOTHING) };
        }
    }
    let (stack, there) = (Stack::new(DEFAULT_SIZE), ContextBlock::new());
    let stack = stack.expect("memory for a stack");
    let home = AtomicPtr::new(core::ptr::from_ref(context::current()).cast_mut());
    // SAFETY: it does not run, and the stack is its own.
    unsafe { there.prepare(stack.bounds(), return_at_once, &raw const home as usize) };
    let masked = irq::mask();
    measure("context_switch", 2 * TURNS, || {
        for _ in 0..TURNS {
            // SAFETY: masked; it is saved, or fresh, and nobody else's; block and stack live on.
            unsafe { context::switch((&there).into(), AfterSwitch::NOTHING) };
        }
    });
    drop(masked);
}

/// Two threads that yield to each other; in a task, which waits for them.
fn threads_yield(turns: usize) {
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || (0..turns).for_each(|_| thread::yield_now()));
        }
    });
}

/// From the last instruction of a poll that does not end to the first of the next task's, with the
/// interrupt and all.
fn preemption() {
    const TURNS: u64 = 100;
    const QUANTUM: Duration = Duration::from_micros(50);
    let builder = Runtime::builder().workers(1).tick(QUANTUM).quantum(QUANTUM);
    let runtime = builder.build().expect("one core is there");
    let last = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let hog = {
        let (last, stop) = (last.clone(), stop.clone());
        async move {
            while !stop.load(Relaxed) {
                last.store(clock::cycles(), Relaxed);
            }
        }
    };
    let sum = runtime.block_on(async {
        let hog = spawn(hog);
        // The first time stacks are made.
        yield_now().await;
        let mut sum = 0;
        for _ in 0..TURNS {
            // Then it is the hog's turn, which ends when that is preempted.
            yield_now().await;
            sum += clock::cycles() - last.load(Relaxed);
        }
        stop.store(true, Relaxed);
        assert!(hog.await.is_ok());
        sum
    });
    report("preemption_to_next_task", sum / TURNS, "instructions");
}
