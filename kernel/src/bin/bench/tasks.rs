//! What tasks cost: on one core, with the others asleep in the lot.

use crate::{measure, report};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{
    cell::Cell,
    future::Future,
    hint::black_box,
    pin::pin,
    ptr::NonNull,
    task::{Context, Poll, Waker},
};
use executor::{
    Runtime,
    queue::Deque,
    task::{self, spawn, yield_now},
    time::{Duration, Sleep, sleep},
};
use kernel::mem;

pub fn run() {
    let runtime = Runtime::builder()
        .workers(1)
        .build()
        .expect("one core is there");
    measure("alloc_free_128", 1000, || {
        for _ in 0..1000 {
            black_box(Box::new([0u64; 16]));
        }
    });
    bare();
    spawn_yield_wake(
        &runtime,
        ["spawn_run_join", "yield_among_2", "wake_to_poll"],
    );
    measure("yield_among_1000", 100_000, || {
        run_task(&runtime, yields(1000, 100))
    });
    measure("spawn_batch_of_100", 100, || {
        run_task(&runtime, spawn_batches(1))
    });
    measure("cancel_parked", 1000, || run_task(&runtime, cancels(1000)));
    steal();
    memory(&runtime);
    drop(runtime);
    // The same without preemption: tasks that await pay nothing for it.
    let builder = Runtime::builder().workers(1).quantum(None);
    let names = ["spawn_unpreempted", "yield_unpreempted", "wake_unpreempted"];
    spawn_yield_wake(&builder.build().expect("one core is there"), names);
    timers();
}

fn spawn_yield_wake(runtime: &Runtime, [spawn, yields_to, wake]: [&str; 3]) {
    // What is made once is made before anything is counted.
    run_task(runtime, spawn_run_join(100));
    measure(spawn, 1000, || run_task(runtime, spawn_run_join(1000)));
    measure(yields_to, 2000, || run_task(runtime, yields(2, 1000)));
    measure(wake, 2000, || run_task(runtime, ping_pong()));
}

/// The same futures, polled by hand in a loop: what they cost without any executor.
fn bare() {
    let waker = Waker::noop();
    let mut futures = [0; 2].map(|_| black_box(Box::pin(yielding(1000)) as BoxedFuture));
    measure("yield_bare", 2000, || poll_in_turn(&mut futures, waker));
    let table = Arc::new(Table::default());
    let mut futures = [0, 1].map(|me| black_box(Box::pin(Player::new(&table, me)) as BoxedFuture));
    measure("wake_bare", 2000, || poll_in_turn(&mut futures, waker));
}

type BoxedFuture = core::pin::Pin<Box<dyn Future<Output = ()>>>;

fn poll_in_turn(futures: &mut [BoxedFuture; 2], waker: &Waker) {
    let mut pending = true;
    while pending {
        for future in &mut *futures {
            pending = future
                .as_mut()
                .poll(&mut Context::from_waker(waker))
                .is_pending();
        }
    }
}

async fn yielding(turns: usize) {
    for _ in 0..turns {
        yield_now().await;
    }
}

/// Runs a future as a task like any other; what `block_on` runs itself is pinned.
fn run_task(runtime: &Runtime, future: impl Future<Output = ()> + Send + 'static) {
    let task = runtime.spawn(future);
    assert!(runtime.block_on(task).is_ok());
}

async fn spawn_run_join(count: u64) {
    for number in 0..count {
        let output = spawn(async move { black_box(number) }).await;
        assert!(output.is_ok_and(|output| output == number));
    }
}

/// A hundred at a time, and then all of them joined.
async fn spawn_batches(count: usize) {
    for _ in 0..count {
        let handles: Vec<_> = (0..100)
            .map(|number| spawn(async move { number }))
            .collect();
        for handle in handles {
            let _ = handle.await;
        }
    }
}

/// Spawned, polled once, cancelled, joined.
async fn cancels(count: usize) {
    for _ in 0..count {
        let handle = spawn(core::future::pending::<()>());
        yield_now().await;
        handle.cancel();
        assert!(handle.await.is_err());
    }
}

async fn yields(tasks: usize, turns: usize) {
    let handles: Vec<_> = (0..tasks).map(|_| spawn(yielding(turns))).collect();
    for handle in handles {
        let _ = handle.await;
    }
}

/// Two that wake each other in turn, by wakers that they leave on a table.
async fn ping_pong() {
    let table = Arc::new(Table::default());
    let players = [0, 1].map(|me| spawn(Player::new(&table, me)));
    for player in players {
        let _ = player.await;
    }
}

#[derive(Default)]
struct Table {
    waiting: [Cell<Option<Waker>>; 2],
}

// SAFETY: the runtime has one core.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

struct Player {
    table: Arc<Table>,
    me: usize,
    left: usize,
}

impl Player {
    fn new(table: &Arc<Table>, me: usize) -> Self {
        let table = table.clone();
        Self {
            table,
            me,
            left: 1000,
        }
    }
}

impl Future for Player {
    type Output = ();

    fn poll(mut self: core::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waiting = &self.table.waiting;
        if let Some(other) = waiting[(self.me + 1) % 2].take() {
            other.wake();
        }
        if self.left == 0 {
            return Poll::Ready(());
        }
        waiting[self.me % 2].set(Some(context.waker().clone()));
        self.left -= 1;
        Poll::Pending
    }
}

/// One task, and half a full queue at once.
fn steal() {
    let (from, to) = (Deque::<u64>::new(256), Deque::<u64>::new(256));
    let mut item = 0u64;
    for _ in 0..256 {
        assert!(from.push(NonNull::from(&mut item)).is_ok());
    }
    measure("steal_one", 1, || {
        let (_, moved) = from.steal_into(&to, 1).expect("nobody else steals");
        assert_eq!(moved, 1);
    });
    assert!(from.push(NonNull::from(&mut item)).is_ok());
    measure("steal_half_per_task", 128, || {
        let (_, moved) = from
            .steal_into(&to, usize::MAX)
            .expect("nobody else steals");
        assert_eq!(moved, 128);
    });
}

/// A future of exactly 64 bytes that never ends.
struct Idle([u64; 8]);

impl Future for Idle {
    type Output = ();

    fn poll(self: core::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        black_box(&self.0);
        Poll::Pending
    }
}

/// What an idle task with a future of 64 bytes takes: its own allocation, and
/// the same with its place in the list of tasks, which grows by doubling.
fn memory(runtime: &Runtime) {
    const COUNT: usize = 10_000;
    for name in ["bytes_per_idle_task_and_list", "bytes_per_idle_task"] {
        let mut tasks = Vec::with_capacity(COUNT);
        let before = mem::heap().stats().live_bytes();
        tasks.extend((0..COUNT).map(|_| runtime.spawn(Idle([1; 8]))));
        runtime.block_on(task::yield_now());
        let after = mem::heap().stats().live_bytes();
        report(name, (after - before) / COUNT, "bytes");
        // The list keeps its size.
        runtime.block_on(async {
            for task in tasks {
                task.cancel();
                let _ = task.await;
            }
        });
    }
}

/// Timers, with ten thousand others outstanding. On a virtual clock, so that
/// nothing waits for the hardware's.
fn timers() {
    const HOUR: Duration = Duration::from_secs(3600);
    let runtime = Runtime::builder().workers(1).virtual_clock().build();
    let runtime = runtime.expect("one core is there");
    runtime.block_on(async {
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = |sleep: &mut BoxedSleep| sleep.as_mut().poll(&mut context).is_pending();
        let mut others: Vec<BoxedSleep> = (0..10_000)
            .map(|number| Box::pin(sleep(HOUR + Duration::from_millis(number))))
            .collect();
        assert!(others.iter_mut().all(&mut poll));
        measure("timer_insert_cancel", 1000, || {
            for number in 0..1000 {
                let mut sleep = pin!(sleep(HOUR + Duration::from_micros(number)));
                assert!(sleep.as_mut().poll(&mut context).is_pending());
            }
        });
        let begin = hal::clock::cycles();
        for number in 1..=1000 {
            sleep(Duration::from_nanos(number)).await;
        }
        let cycles = hal::clock::cycles() - begin;
        report("timer_insert_fire_poll", cycles / 1000, "instructions");
    });
}

type BoxedSleep = core::pin::Pin<Box<Sleep>>;
