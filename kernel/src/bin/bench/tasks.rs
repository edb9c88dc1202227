//! What tasks cost: on one core, with the others asleep in the lot.

use crate::{measure, report};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{
    cell::Cell,
    future::Future,
    hint::black_box,
    ptr::NonNull,
    task::{Context, Poll, Waker},
};
use executor::{
    Runtime,
    queue::Deque,
    task::{self, spawn, yield_now},
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
    // What is made once is made before anything is counted.
    run_task(&runtime, spawn_run_join(100));
    measure("spawn_run_join", 1000, || {
        run_task(&runtime, spawn_run_join(1000))
    });
    measure("yield_among_2", 2000, || {
        run_task(&runtime, yields(2, 1000))
    });
    measure("yield_among_1000", 100_000, || {
        run_task(&runtime, yields(1000, 100))
    });
    measure("wake_to_poll", 2000, || run_task(&runtime, ping_pong()));
    steal();
    memory(&runtime);
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

/// Half a full queue, at once.
fn steal() {
    let from = Deque::<u64>::new(256);
    let to = Deque::<u64>::new(256);
    let mut item = 0u64;
    for _ in 0..256 {
        assert!(from.push(NonNull::from(&mut item)).is_ok());
    }
    measure("steal_half_per_task", 128, || {
        let (_, moved) = from
            .steal_into(&to, usize::MAX)
            .expect("nobody else steals");
        assert_eq!(moved, 128);
    });
}

/// What an idle task with a future of 64 bytes takes.
fn memory(runtime: &Runtime) {
    const COUNT: usize = 10_000;
    let before = mem::heap().stats().live_bytes();
    let state = Arc::new(());
    let handles: Vec<_> = (0..COUNT)
        .map(|_| {
            runtime.spawn(async move {
                let state = black_box([1u64; 6]);
                core::future::pending::<()>().await;
                black_box(state);
            })
        })
        .collect();
    drop(state);
    runtime.block_on(async { task::yield_now().await });
    let list = handles.capacity() * size_of_val(&handles[0]);
    let after = mem::heap().stats().live_bytes();
    report(
        "bytes_per_idle_task",
        (after - before - list) / COUNT,
        "bytes",
    );
    for handle in &handles {
        handle.cancel();
    }
}
