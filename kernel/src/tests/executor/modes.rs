//! One async function, unchanged, in every mode there is.

use super::on;
use crate::{upcalls, watchdog};
use alloc::boxed::Box;
use core::{
    future::poll_fn,
    sync::atomic::{AtomicUsize, Ordering::*},
    task::Poll,
};
use executor::{
    Runtime, block_on_simple,
    runtime::Builder,
    scheduler::{policy::Fifo, tick::torture},
    sync::WakerSlot,
};
use hal::clock;
use testing::kernel_test;

static TICKS: AtomicUsize = AtomicUsize::new(0);
static WAITING: WakerSlot = WakerSlot::new();

fn on_tick() {
    // Release pairs with the acquire in `wait_for_ticks`.
    TICKS.fetch_add(1, Release);
    WAITING.wake();
}

/// Waits for so many timer interrupts, whoever runs it: it knows of futures and
/// wakers only.
async fn wait_for_ticks(count: usize) -> usize {
    let mut seen = TICKS.load(Acquire);
    for _ in 0..count {
        clock::arm(clock::now() + 100_000);
        poll_fn(|context| {
            WAITING.register(context.waker());
            match TICKS.load(Acquire) == seen {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        })
        .await;
        seen = TICKS.load(Acquire);
    }
    // A waker that stays keeps its task, and with it the runtime.
    WAITING.clear();
    count
}

#[kernel_test(limit = 120)]
fn one_async_function_runs_unchanged_in_every_mode() {
    const COUNT: usize = 50;
    if torture::is_on() {
        return; // it has the timer
    }
    let _unwatched = watchdog::leave_timers();
    upcalls::set_timer_hook(Some(on_tick));
    fn fifo(builder: Builder) -> Builder {
        builder.policy(|_| Box::new(Fifo::new()))
    }
    let builders: [fn(Builder) -> Builder; 5] = [
        |usual| usual,
        |usual| usual.workers(1),
        |usual| usual.stealing(false),
        fifo,
        |usual| fifo(usual.workers(1)),
    ];
    for builder in builders {
        // The tick would set the timer as it likes.
        on(builder(Runtime::builder().quantum(None)), async {
            assert_eq!(wait_for_ticks(COUNT).await, COUNT);
            let task = executor::spawn(wait_for_ticks(COUNT));
            assert!(task.await.is_ok_and(|count| count == COUNT));
        });
    }
    assert_eq!(block_on_simple(wait_for_ticks(COUNT)), COUNT);
    upcalls::set_timer_hook(None);
}
