//! Functions that block, on real cores: each is preempted, and tasks come before it.

use super::{Table, deeper, join, on, on_all_cores, scaled, spawn, spawn_on};
use crate::println;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use executor::{
    Runtime, TaskError, TaskHandle,
    scheduler::tick::torture,
    stats,
    sync::oneshot,
    task::{self, spawn_blocking, wait, yield_now},
    thread,
    time::{Duration, sleep},
};
use hal::{clock, stack};
use testing::kernel_test;

/// Loops that never give way, as functions that block.
struct Loops {
    are_over: Arc<AtomicBool>,
    functions: Vec<TaskHandle<()>>,
}

impl Loops {
    /// Starts so many, and waits until all have begun.
    async fn begin(count: usize) -> Self {
        let are_over = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(AtomicUsize::new(0));
        let function = |_| {
            let (are_over, begun) = (are_over.clone(), begun.clone());
            spawn_blocking(move || {
                begun.fetch_add(1, Relaxed);
                while !are_over.load(Relaxed) {
                    core::hint::spin_loop();
                }
            })
        };
        let functions = (0..count).map(function).collect();
        while begun.load(Relaxed) < count {
            sleep(Duration::from_millis(1)).await;
        }
        Self {
            are_over,
            functions,
        }
    }

    async fn end(self) {
        self.are_over.store(true, Relaxed);
        join(self.functions).await;
    }
}

#[kernel_test(limit = 120)]
fn functions_that_never_give_way_leave_the_cores_to_tasks() {
    on_all_cores(async {
        let loops = Loops::begin(3 * stats::stats().cores.len()).await;
        for _ in 0..20 {
            assert_eq!(spawn(async { 6 * 7 }).await.unwrap(), 42);
            sleep(Duration::from_millis(1)).await;
        }
        // They may wait, spawn, and block on others of their kind, too.
        let nested = spawn_blocking(|| {
            let task = wait(spawn(async { 1 })).unwrap();
            task + wait(spawn_blocking(|| 2)).unwrap()
        });
        assert_eq!(nested.await.unwrap(), 3);
        assert!(stats::stats().blocking >= loops.functions.len());
        loops.end().await;
    });
}

#[kernel_test(limit = 120)]
fn no_more_blocking_functions_run_at_once_than_are_allowed() {
    const MOST: usize = 3;
    let now = Arc::new(AtomicUsize::new(0));
    on(Runtime::builder().blocking_threads(MOST), async {
        let function = |number: usize| {
            let now = now.clone();
            spawn_blocking(move || {
                assert!(now.fetch_add(1, SeqCst) < MOST);
                match number % 2 {
                    0 => thread::yield_now(),
                    _ => thread::sleep(Duration::from_micros(100)),
                }
                now.fetch_sub(1, SeqCst);
            })
        };
        let functions: Vec<_> = (0..scaled(1_000)).map(function).collect();
        join(functions).await;
        assert_eq!(stats::stats().blocking, 0, "all turns were given back");
    });
}

#[kernel_test(limit = 120)]
fn with_one_turn_blocking_functions_run_in_the_order_they_were_spawned() {
    on(Runtime::builder().blocking_threads(1), async {
        let next = Arc::new(AtomicUsize::new(0));
        let function = |number| {
            let next = next.clone();
            spawn_blocking(move || {
                assert_eq!(next.load(SeqCst), number);
                thread::yield_now();
                assert_eq!(next.fetch_add(1, SeqCst), number);
            })
        };
        let functions: Vec<_> = (0..scaled(1_000)).map(function).collect();
        join(functions).await;
    });
}

#[kernel_test(limit = 120)]
fn a_blocking_function_is_cancelled_before_its_turn_and_not_after() {
    on(Runtime::builder().blocking_threads(1), async {
        let (begins, has_begun) = oneshot::channel();
        let (lets_go, let_go) = oneshot::channel::<()>();
        let first = spawn_blocking(move || {
            begins.send(()).unwrap();
            let_go.blocking_recv().unwrap();
            task::is_cancelled()
        });
        has_begun.await.unwrap();
        let second = spawn_blocking(|| unreachable!("it was cancelled"));
        let third = spawn_blocking(|| 3);
        assert!(second.cancel() && first.cancel());
        assert!(second.await.unwrap_err().is_cancelled());
        assert!(!third.is_finished());
        lets_go.send(()).unwrap();
        assert!(first.await.unwrap(), "it can see that it was");
        assert_eq!(third.await.unwrap(), 3);
    });
}

#[kernel_test(limit = 120)]
fn a_blocking_function_whose_stack_is_too_small_gives_its_turn_back() {
    // What it had is never given back: the test does not look for it.
    let runtime = Runtime::builder().blocking_threads(1).build();
    let runtime = runtime.expect("no other runtime has the cores");
    runtime.block_on(async {
        for _ in 0..3 {
            let lost = spawn_blocking(|| deeper(0));
            let next = spawn_blocking(|| 1);
            assert!(matches!(lost.await, Err(TaskError::StackOverflow)));
            assert_eq!(next.await.unwrap(), 1);
        }
    });
    runtime.shutdown();
}

#[kernel_test(limit = 120)]
fn the_stacks_of_many_blocking_functions_are_given_back() {
    if torture::is_on() {
        return; // so few that none is given back
    }
    let count = 500;
    on_all_cores(async move {
        let free = || crate::mem::frames().stats().free;
        let waiting = Arc::new(AtomicUsize::new(0));
        let function = |_| {
            let waiting = waiting.clone();
            let (lets_go, let_go) = oneshot::channel::<()>();
            let function = spawn_blocking(move || {
                waiting.fetch_add(1, Relaxed);
                let _ = let_go.blocking_recv();
            });
            (lets_go, function)
        };
        let (lets_go, functions): (Vec<_>, Vec<_>) = (0..count).map(function).unzip();
        while waiting.load(Relaxed) < count {
            // Awake, it would be more urgent than they are.
            sleep(Duration::from_millis(1)).await;
        }
        let before = free();
        drop(lets_go);
        join(functions).await;
        // Each had two frames at least. Eight stacks for each core are kept.
        let kept = 9 * stats::stats().cores.len();
        while free() < before + count.saturating_sub(kept) {
            yield_now().await;
            // What was freed is there again when somebody asks for it.
            stack::collect();
        }
    });
}

/// What is less than so many per cent of the others.
fn percentile(sorted: &[u64], per_cent: usize) -> u64 {
    sorted[(sorted.len() - 1) * per_cent / 100]
}

/// Two tasks in turn, each pinned to a core or wherever they come to run. Says how long each waits for its
/// turn, that is for both ways, in guest time.
async fn ping_pong(what: &str, turns: usize, cores: Option<[usize; 2]>) {
    let table = Arc::new(Table::new());
    let play = |player: usize| {
        let table = table.clone();
        async move {
            let mut taken = Vec::with_capacity(turns / 2);
            for turn in (player..turns).step_by(2) {
                let began = clock::now();
                table.turn(player, turn).await;
                taken.push(clock::now() - began);
                table.pass(player, turn);
            }
            taken
        }
    };
    let players = [0, 1].map(|player| match cores {
        Some(cores) => spawn_on(cores[player], play(player)),
        None => spawn(play(player)),
    });
    let mut taken = Vec::new();
    for player in players {
        taken.extend(player.await.unwrap());
    }
    assert_eq!(taken.len(), turns, "every turn was played and measured");
    taken.sort_unstable();
    let [half, nearly_all] = [50, 99].map(|per_cent| percentile(&taken, per_cent));
    println!("@@ note ping-pong {what}: P50 {half} ns, P99 {nearly_all} ns of {turns} turns");
}

#[kernel_test(cores = 4, limit = 300)]
fn a_ping_pong_beside_a_hundred_blocking_loops_goes_on_and_its_latency_is_told() {
    beside_loops([scaled(100), scaled(1_000), scaled(100)]);
}

#[kernel_test(cores = 4, limit = 7200, long = true)]
fn a_long_ping_pong_beside_four_hundred_blocking_loops_goes_on() {
    beside_loops([400, 100_000, 10_000]);
}

fn beside_loops([count, turns, across]: [usize; 3]) {
    on_all_cores(async move {
        ping_pong("alone", turns, None).await;
        ping_pong("alone, across two cores", across, Some([1, 2])).await;
        let loops = Loops::begin(count).await;
        ping_pong("beside blocking loops", turns, None).await;
        ping_pong("beside them, across two cores", across, Some([1, 2])).await;
        assert_eq!(stats::stats().blocking, count, "all of them still loop");
        loops.end().await;
    });
}
