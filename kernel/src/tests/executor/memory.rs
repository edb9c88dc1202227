//! As many tasks and threads as the machine holds.

use super::{live_bytes, on, scaled};
use alloc::{sync::Arc, vec::Vec};
use core::{
    future::pending,
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use executor::{Runtime, stats, task, thread};
use hal::layout::PAGE;
use testing::kernel_test;

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A future of 64 bytes that never ends by itself.
async fn idle() {
    let state = black_box([1u64; 6]);
    STARTED.fetch_add(1, Relaxed);
    pending::<()>().await;
    black_box(state);
}

#[kernel_test(limit = 600, long = true)]
fn a_million_tasks_live_at_once() {
    const TASKS: usize = 1_000_000;
    assert!(size_of_val(&idle()) <= 64);
    STARTED.store(0, Relaxed);
    let before = live_bytes();
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        for _ in 0..TASKS {
            task::spawn(idle()).detach();
        }
        while STARTED.load(Relaxed) < TASKS {
            task::yield_now().await;
        }
    });
    assert_eq!(runtime.stats().live, TASKS as u64);
    let each = (live_bytes() - before) / TASKS;
    crate::println!(
        "a million tasks: {each} bytes each, {} MiB are free",
        (crate::mem::frames().stats().free * PAGE) >> 20
    );
    runtime.shutdown_now();
    assert_eq!(live_bytes(), before);
}

/// What a thread keeps on its stack while it waits.
const TOUCHED: usize = 8 << 10;

/// Fills its stack, waits until it may go on, and looks whether all of it is still there.
fn fill_and_wait(number: usize, waiting: &AtomicUsize) {
    let mut fill = [number as u64; TOUCHED / 8];
    black_box(&mut fill);
    waiting.fetch_add(1, Relaxed);
    thread::park();
    assert!(fill.iter().all(|&word| word == number as u64));
}

#[kernel_test(limit = 300)]
fn ten_thousand_threads_live_at_once() {
    let count = scaled(10_000);
    on(Runtime::builder().track(true), async move {
        let before = crate::mem::frames().stats().free;
        let waiting = Arc::new(AtomicUsize::new(0));
        let spawn = |number| {
            let waiting = waiting.clone();
            thread::spawn(move || fill_and_wait(number, &waiting))
        };
        let threads: Vec<_> = (0..count).map(spawn).collect();
        while waiting.load(Relaxed) < count {
            task::yield_now().await;
        }
        // All have filled their stacks. Where each is seen to have done so, it has been left.
        let has_filled =
            |task: &stats::TaskInfo| task.stack.is_some_and(|(used, _)| used >= TOUCHED);
        while stats::tasks()
            .iter()
            .filter(|task| has_filled(task))
            .count()
            < count
        {
            task::yield_now().await;
        }
        let frames = before - crate::mem::frames().stats().free;
        crate::println!("{count} threads: {} bytes each", frames * PAGE / count);
        for thread in &threads {
            thread.thread().unpark();
        }
        for thread in threads {
            thread.await.expect("its stack is as it was");
        }
    });
}
