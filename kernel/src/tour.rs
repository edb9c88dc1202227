//! What works, shown: runs by itself when nobody sits at the terminal.

use crate::{Machine, cores, mem, println, shell};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::{
    future::pending,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use executor::{
    Priority,
    runtime::set_inheritance,
    stats,
    sync::{Mutex, Notify},
    task::{Builder, on_exit, spawn, yield_now},
    time::{Duration, Instant, sleep, sleep_until},
};
use hal::{
    cores::{MAX_CORES, online, this_core},
    power, probe,
};

/// Shows everything, then switches off.
pub async fn run(machine: &'static Machine) -> ! {
    println!();
    println!("--- the cores");
    shell::cores(machine).await;
    println!("--- a timer on each of them: asked for 10 ms, slept");
    timers().await;
    println!("--- 1000 tasks, all spawned by one core");
    stealing().await;
    println!("--- 100 tasks asleep at once, for 1 to 10 ms");
    sleeping().await;
    println!("--- a task that waits for ever, cancelled");
    cancelling().await;
    println!(
        "--- a task that never awaits, on each core; 10 others that sleep for 10 ms at a time"
    );
    preempting().await;
    println!(
        "--- low priority has a lock, high priority waits for it, and a third is always busy, all on one core"
    );
    inverting().await;
    println!("--- a task that panics while it has a lock");
    panicking().await;
    println!("--- a stack that is too small");
    overflowing().await;
    println!("--- the heap, from all of them at once");
    heap().await;
    println!("--- memory protection");
    protection();
    println!("--- memory");
    shell::memory(machine);
    println!("--- that is all; switching off");
    crate::console::flush();
    power::exit(power::Status::Success)
}

async fn timers() {
    let sleeper = |_| async {
        let start = Instant::now();
        sleep(Duration::from_millis(10)).await;
        let (core, slept) = (this_core(), start.elapsed());
        println!("  core {core}: {} us", slept.as_micros());
        assert!(slept >= Duration::from_millis(10), "woken too early");
    };
    cores::on_each("sleeper", sleeper).await;
}

async fn stealing() {
    let before = stats::stats().total;
    let work = || {
        spawn(async {
            for _ in 0..100 {
                hal::pause();
            }
            this_core()
        })
    };
    let tasks: Vec<_> = (0..1000).map(|_| work()).collect();
    let mut ran = [0; MAX_CORES];
    for task in tasks {
        ran[task.await.expect("nobody cancels it")] += 1;
    }
    for core in online().iter() {
        println!("  core {core} ran {}", ran[core]);
    }
    let after = stats::stats().total;
    let (stolen, steals) = (after.stolen - before.stolen, after.steals - before.steals);
    let overflows = after.overflows - before.overflows;
    println!(
        "  {stolen} were stolen, in {steals} steals; {overflows} found its queue full and went to all"
    );
    assert_eq!(ran.iter().sum::<usize>(), 1000);
}

async fn sleeping() {
    let begin = Instant::now();
    let sleeper = |number: u64| {
        spawn(async move {
            let deadline = begin + Duration::from_millis(1 + number % 10);
            sleep_until(deadline).await;
            Instant::now() >= deadline
        })
    };
    let tasks: Vec<_> = (0..100).map(sleeper).collect();
    for task in tasks {
        assert!(task.await.expect("nobody cancels it"), "woken too early");
    }
    let micros = begin.elapsed().as_micros();
    println!("  all woke, none too early; the last after {micros} us");
}

async fn cancelling() {
    let begun = Arc::new(AtomicBool::new(false));
    let has_begun = begun.clone();
    let waiting = spawn(async move {
        on_exit(async { println!("  its finalizer runs") });
        begun.store(true, Relaxed);
        pending::<()>().await;
    });
    // Cancelled before that, it would not run at all.
    while !has_begun.load(Relaxed) {
        yield_now().await;
    }
    waiting.cancel();
    let outcome = waiting.await;
    assert!(outcome.is_err_and(|error| error.is_cancelled()));
    println!("  and whoever joined it hears that it was cancelled");
}

/// Tasks that keep time while every core has one that never awaits.
async fn preempting() {
    let is_over = Arc::new(AtomicBool::new(false));
    let before = stats::stats().total.preemptions;
    let hog = |index| {
        let is_over = is_over.clone();
        let count = async move {
            let mut turns = 0u64;
            while !is_over.load(Relaxed) {
                turns += 1;
                hal::pause();
            }
            turns
        };
        Builder::new().name("hog").core(index).spawn(count)
    };
    let hogs: Vec<_> = (0..stats::stats().cores.len()).map(hog).collect();
    let sleepers: Vec<_> = (0..10)
        .map(|_| {
            spawn(async {
                let mut latest = Duration::ZERO;
                for _ in 0..5 {
                    let begin = Instant::now();
                    sleep(Duration::from_millis(10)).await;
                    latest = latest.max(begin.elapsed());
                }
                latest
            })
        })
        .collect();
    let mut latest = Duration::ZERO;
    for sleeper in sleepers {
        latest = latest.max(sleeper.await.expect("nobody cancels it"));
    }
    is_over.store(true, Relaxed);
    for (core, hog) in hogs.into_iter().enumerate() {
        let turns = hog.await.expect("nobody cancels it");
        println!("  core {core}: its loop went round {turns} times");
        assert!(turns > 0, "a loop never had its turn");
    }
    let preemptions = stats::stats().total.preemptions - before;
    println!(
        "  meanwhile each of the others slept 5 times, the longest for {} ms; {preemptions} preemptions",
        latest.as_millis()
    );
    assert!(preemptions > 0, "nobody was preempted");
}

/// What a third gets done while a task of high priority waits for one of low priority: with what that is lent, and without.
async fn inverting() {
    let with = work_of_a_third().await;
    println!("  with inheritance the third did {with} pieces of work meanwhile");
    set_inheritance(false);
    let without = work_of_a_third().await;
    set_inheritance(true);
    println!("  without it, {without}");
    assert!(with < without, "who has the lock was held up");
}

async fn work_of_a_third() -> u64 {
    const CORE: usize = 0;
    let mutex = Arc::new(Mutex::new(()));
    let (is_locked, is_over) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let pieces = Arc::new(AtomicU64::new(0));
    let of = |priority| Builder::new().priority(priority).core(CORE);
    let low = {
        let (mutex, is_locked) = (mutex.clone(), is_locked.clone());
        of(Priority::Low).name("low").spawn(async move {
            let _guard = mutex.lock().await;
            is_locked.notify_one();
            for _ in 0..5 {
                work();
                yield_now().await;
            }
        })
    };
    is_locked.notified().await;
    let third = {
        let (is_over, pieces) = (is_over.clone(), pieces.clone());
        of(Priority::Normal).name("third").spawn(async move {
            while !is_over.load(Relaxed) {
                work();
                pieces.fetch_add(1, Relaxed);
            }
        })
    };
    while pieces.load(Relaxed) == 0 {
        yield_now().await;
    }
    let high = {
        let pieces = pieces.clone();
        of(Priority::High).name("high").spawn(async move {
            let before = pieces.load(Relaxed);
            drop(mutex.lock().await);
            is_over.store(true, Relaxed);
            pieces.load(Relaxed) - before
        })
    };
    let meanwhile = high.await.expect("nobody cancels it");
    third.await.expect("nobody cancels it");
    low.await.expect("nobody cancels it");
    meanwhile
}

/// A piece of work.
fn work() {
    for _ in 0..10_000 {
        hal::pause();
    }
}

/// A task that panics ends, who joins it hears why, and who wants its lock is refused.
async fn panicking() {
    let mutex = Arc::new(Mutex::new(0));
    let locked = mutex.clone();
    let outcome = spawn(async move {
        let _guard = locked.lock().await;
        panic!("on purpose");
    })
    .await;
    println!("  whoever joined it hears: {}", outcome.unwrap_err());
    let refused = mutex.lock().unless_poisoned().await.map(drop);
    println!("  whoever wants the lock: {}", refused.unwrap_err());
}

/// A task that recurses for ever ends, and nothing else does.
async fn overflowing() {
    #[inline(never)]
    #[allow(unconditional_recursion, reason = "that is the point")]
    fn deeper(depth: u64) -> u64 {
        let room = core::hint::black_box([depth; 16]);
        deeper(depth + 1) + room[3]
    }
    let outcome = spawn(async { deeper(0) }).await;
    println!("  whoever joined it hears: {}", outcome.unwrap_err());
}

async fn heap() {
    let boxes = |index| async move {
        let boxes: Vec<Box<u64>> = (0..1000).map(|i| Box::new(index as u64 + i)).collect();
        boxes.iter().map(|number| **number).sum::<u64>()
    };
    let sums = cores::on_each("boxes", boxes).await;
    let (count, sum) = (sums.len() as u64, sums.iter().sum::<u64>());
    drop(sums);
    let expected = count * 499_500 + 1000 * (0..count).sum::<u64>();
    println!("  {count} cores made 1000 boxes each; their sum is {sum}, expected {expected}");
    assert_eq!(sum, expected);
    let bytes = mem::heap().stats().live_bytes();
    println!("  {bytes} bytes are in use now, most of them for the executor's queues");
}

fn protection() {
    let code = protection as *const () as usize;
    let null = probe::read(0).is_err();
    // SAFETY: if it could be written, it would be written with what is there already.
    let write = unsafe { probe::write(code & !7, probe::read(code & !7).unwrap_or(0)) }.is_err();
    let stack = core::hint::black_box([0xc3c3_c3c3_c3c3_c3c3u64; 2]);
    // SAFETY: if it could be called, it would be a return instruction (or a fault that is reported).
    let execute = unsafe { probe::call(stack.as_ptr() as usize) }.is_err();
    for (what, faulted) in [
        ("reading null", null),
        ("writing to code", write),
        ("running the stack", execute),
    ] {
        println!(
            "  {what}: {}",
            if faulted {
                "faults, as it should"
            } else {
                "WORKS, which is wrong"
            }
        );
        assert!(faulted, "{what}");
    }
}
