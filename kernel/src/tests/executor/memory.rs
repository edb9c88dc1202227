//! As many tasks as the machine holds.

use super::live_bytes;
use core::{
    future::pending,
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use executor::{Runtime, task};
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
