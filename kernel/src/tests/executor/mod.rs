//! The executor on real cores, with real interrupts.
//!
//! Each test builds a runtime, runs, shuts it down, and checks that it left no
//! task and no byte behind. Nothing here waits by the clock: what never
//! happens hangs, and the runner says so.
//!
//! | | |
//! |---|---|
//! | `wakes` | wakes and spawns across cores |
//! | `timers` | many tasks asleep |
//! | `storm` | interrupts that wake |
//! | `fairness` | who waits how long |
//! | `pinned` | tasks that stay on their core |
//! | `priorities` | who waits lends his priority |
//! | `preemption` | polls that never await |
//! | `blocking` | functions that block |
//! | `lost` | polls whose stack is too small |
//! | `failures` | tasks that panic or fault |
//! | `watchdog` | what goes on no more |
//! | `migration` | polls and loops that go on on another core |
//! | `parallel` | one piece of work on many cores |
//! | `lifecycle` | building and shutting down |
//! | `modes` | the same function in every mode |
//! | `sync` | locks and signals with all cores at them |
//! | `memory` | as many tasks and threads as the machine holds |
//! | `memory_failures` | no memory for another |
//! | `poison` | what a lost task had locked or waited for |

mod blocking;
mod failures;
mod fairness;
mod lifecycle;
mod lost;
mod memory;
mod memory_failures;
mod migration;
mod modes;
mod parallel;
mod pinned;
mod poison;
mod preemption;
mod priorities;
mod storm;
mod sync;
mod timers;
mod wakes;
mod watchdog;

use crate::mem;
use alloc::vec::Vec;
use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::*},
    task::{Context, Poll},
};
use executor::{
    Runtime, TaskHandle,
    runtime::Builder,
    scheduler::tick::torture,
    stats,
    sync::WakerSlot,
    task::{self, yield_now},
};
use hal::cores;

/// As many as in a usual run; less under torture, where all takes longer.
fn scaled(count: usize) -> usize {
    if torture::is_on() {
        (count / 200).max(4)
    } else {
        count
    }
}

/// Never ends, but in an overflow.
#[inline(never)]
#[allow(unconditional_recursion, reason = "that is the point")]
fn deeper(depth: u64) -> u64 {
    let room = core::hint::black_box([depth; 16]);
    deeper(depth + 1) + room[3]
}

/// Bytes in use on the heap. While no other core is at work.
fn live_bytes() -> usize {
    mem::heap().drain();
    mem::heap().stats().live_bytes()
}

/// Runs `main` on a runtime of all cores, and sees to it that nothing stays behind.
fn on_all_cores(main: impl Future<Output = ()>) {
    on(Runtime::builder(), main);
}

/// The same on a runtime that is not as usual.
fn on(builder: Builder, main: impl Future<Output = ()>) {
    let before = live_bytes();
    let runtime = builder.build().expect("no other runtime has the cores");
    runtime.block_on(async {
        main.await;
        // What ended has woken its joiner a little before it is counted.
        while stats::stats().live > 1 {
            yield_now().await;
        }
    });
    runtime.shutdown();
    assert_eq!(
        live_bytes(),
        before,
        "bytes in use, after and before the runtime"
    );
}

/// The machine's number of each core of a runtime on all cores.
fn machine_cores() -> Vec<usize> {
    cores::online().iter().collect()
}

/// A future that notices if two cores poll it at once.
struct Watched<F> {
    inside: AtomicBool,
    future: F,
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Acquire pairs with the release below.
        let was_inside = self.inside.swap(true, Acquire);
        assert!(!was_inside, "two cores poll one task");
        // SAFETY: the future stays where it is: it is reached through the pinned whole only.
        let poll =
            unsafe { self.as_mut().map_unchecked_mut(|this| &mut this.future) }.poll(context);
        // Release pairs with the acquire above.
        self.inside.store(false, Release);
        poll
    }
}

fn watched<F: Future>(future: F) -> Watched<F> {
    Watched {
        inside: AtomicBool::new(false),
        future,
    }
}

/// Spawns a task with a flag that two polls at once would trip over.
fn spawn<F>(future: F) -> TaskHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    task::spawn(watched(future))
}

/// The same, on one core of the runtime.
fn spawn_on<F>(core: usize, future: F) -> TaskHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    task::Builder::new().core(core).spawn(watched(future))
}

/// Awaits all of them.
async fn join<T>(handles: impl IntoIterator<Item = TaskHandle<T>>) {
    for handle in handles {
        assert!(handle.await.is_ok(), "nobody cancels it");
    }
}

/// Two players in turn. Whoever does not have the turn sleeps until it is woken.
struct Table {
    turn: AtomicUsize,
    seats: [WakerSlot; 2],
}

impl Table {
    const fn new() -> Self {
        Self {
            turn: AtomicUsize::new(0),
            seats: [const { WakerSlot::new() }; 2],
        }
    }

    /// Waits for a turn of this player.
    async fn turn(&self, player: usize, turn: usize) {
        core::future::poll_fn(|context| {
            // Acquire pairs with the release in `pass`.
            if self.turn.load(Acquire) == turn {
                return Poll::Ready(());
            }
            self.seats[player].register(context.waker());
            match self.turn.load(Acquire) == turn {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// The turn is the other player's.
    fn pass(&self, player: usize, turn: usize) {
        // Release pairs with the acquire in `turn`.
        self.turn.store(turn + 1, Release);
        self.seats[1 - player].wake();
    }

    /// One player's game, until `turns` are played by both together.
    async fn play(&self, player: usize, turns: usize) {
        for turn in (player..turns).step_by(2) {
            self.turn(player, turn).await;
            self.pass(player, turn);
        }
    }
}
