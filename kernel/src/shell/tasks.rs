//! What the executor does: `tasks`, `stats`, `spawn`, `hog`, `kill`, `prio`, `panic <task>`.

use crate::{println, watchdog};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use executor::{
    Priority,
    stats::{self, Activity, CoreStats, TaskInfo},
    sync::Semaphore,
    task::{Builder, Task, yield_now},
    time::{Duration, Instant, sleep},
};
use hal::cores::{MAX_CORES, this_core};

/// Rows of a table, at most.
const MOST_ROWS: usize = 40;
/// Tasks that `spawn` makes, at most: all fit into 64 MiB.
const MOST_TASKS: usize = 100_000;

/// Every task, the oldest first.
pub(super) fn tasks() {
    let mut tasks = stats::tasks();
    tasks.sort_unstable_by_key(|task| core::cmp::Reverse(task.age));
    println!(
        "  {:<12} {:<10} {:<9} {:<8} {:<8} {:>8} {:>8} {:>8} {:>14}  waits for",
        "id", "name", "state", "core", "priority", "age", "polls", "running", "stack"
    );
    for task in tasks.iter().take(MOST_ROWS) {
        println!(
            "  {:<12} {:<10} {:<9} {:<8} {:<8} {:>8} {:>8} {:>8} {:>14}  {}",
            format!("{}", task.id),
            name(task),
            state(task),
            core(task),
            format!("{:?}", task.priority),
            task.age.map_or(String::new(), span),
            task.polls,
            span(task.running),
            task.stack.map_or(String::from("-"), stack),
            task.waits_for
        );
    }
    if tasks.len() > MOST_ROWS {
        println!("  and {} more", tasks.len() - MOST_ROWS);
    }
}

pub(super) fn name(task: &TaskInfo) -> &str {
    task.name.as_deref().unwrap_or("-")
}

pub(super) fn state(task: &TaskInfo) -> &'static str {
    match task.activity {
        _ if task.is_cancelled => "ending",
        Activity::Running => "running",
        Activity::Preempted => "preempted",
        Activity::Runnable => "runnable",
        Activity::Waiting => "waiting",
        Activity::Finished => "finished",
    }
}

/// The core that polled it last, or the one it is bound to.
pub(super) fn core(task: &TaskInfo) -> String {
    match (task.pinned, task.core) {
        (Some(core), _) => format!("{core} pinned"),
        (None, Some(core)) => format!("{core}"),
        (None, None) => String::from("-"),
    }
}

/// Bytes of stack that were in use when it was last left in the middle of a poll, and KiB with memory.
fn stack((used, memory): (usize, usize)) -> String {
    format!("{used} B/{} KiB", memory / 1024)
}

/// A duration in few characters.
pub(super) fn span(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..10_000 => format!("{micros} us"),
        10_000..10_000_000 => format!("{} ms", micros / 1000),
        _ => format!("{} s", micros / 1_000_000),
    }
}

/// So many per cent of a whole.
pub(super) fn per_cent(part: Duration, whole: Duration) -> u128 {
    (part.as_nanos() * 100 / whole.as_nanos().max(1)).min(100)
}

/// What each core has done, and all of them together.
pub(super) fn stats() {
    let stats = stats::stats();
    println!(
        "   core      polls    spawned  tried steals  moved  kicks  parks  idle  depth  overflow"
    );
    let row = |what: &str, core: &CoreStats, whole: Duration| {
        println!(
            "  {what:>5} {:10} {:10} {:6} {:6} {:6} {:6} {:6} {:3} % {:6} {:9}",
            core.polls,
            core.spawned,
            core.steals_tried,
            core.steals,
            core.stolen,
            core.kicks,
            core.parks,
            per_cent(core.idle, whole),
            core.depth,
            core.overflows
        );
    };
    for (index, core) in stats.cores.iter().enumerate() {
        row(&format!("{index}"), core, stats.age);
    }
    row("all", &stats.total, stats.age * stats.cores.len() as u32);
    let total = &stats.total;
    println!(
        "  left in the middle of a poll: {} waited or gave way, {} were preempted, {} could not be",
        total.suspensions, total.preemptions, total.unpreempted
    );
    println!(
        "  quarantine: {} tasks that failed, with {} KiB of stack",
        total.lost,
        total.lost_bytes / 1024
    );
    println!(
        "  watchdog: {}; {} looks at the cores, {} samples",
        watchdog::alarms(),
        executor::watch::looks(),
        executor::watch::samples()
    );
    let by_cores: u64 = stats.cores.iter().map(|core| core.spawned).sum();
    println!(
        "  spawned from outside: {}; live tasks: {}, waiting for any core: {}; counted for {}",
        stats.total.spawned - by_cores,
        stats.live,
        stats.injected,
        span(stats.age)
    );
}

/// The task of this id or name; of several with that name the oldest.
fn find(which: &str) -> Option<Task> {
    if let Ok(id) = which.parse() {
        return stats::find(id);
    }
    let tasks = stats::tasks();
    let named = tasks
        .iter()
        .filter(|task| task.name.as_deref() == Some(which));
    stats::find(named.max_by_key(|task| task.age)?.id)
}

/// The same; says so if there is none.
fn find_or_tell(which: &str) -> Option<Task> {
    let task = find(which);
    match (&task, which) {
        (Some(_), _) => {}
        (None, "") => println!("  which task? its id or name, as `tasks` shows them"),
        (None, _) => println!("  no task is called `{which}`: `tasks` shows those there are"),
    }
    task
}

/// Cancels a task.
pub(super) fn kill(which: &str) {
    let Some(task) = find_or_tell(which) else {
        return;
    };
    match task.cancel() {
        true => println!("  {task:?} is to end at its next await"),
        false => println!("  {task:?} cannot be cancelled: it is the shell's, or has ended"),
    }
}

/// Makes a task fail.
pub(super) fn fail(which: &str) {
    let Some(task) = find_or_tell(which) else {
        return;
    };
    match task.fail() {
        true => println!("  {task:?} is to fail; `stats` shows what is in quarantine"),
        false => println!("  {task:?} cannot fail alone: it is the shell's, or has ended"),
    }
}

/// Gives a task another priority.
pub(super) fn prio(argument: &str) {
    let (which, level) = argument.split_once(' ').unwrap_or((argument, ""));
    let level = level.trim();
    let is_it = |priority: &&Priority| format!("{priority:?}").eq_ignore_ascii_case(level);
    let Some(priority) = Priority::ALL.iter().find(is_it) else {
        println!("  prio <task> low|normal|high|critical");
        return;
    };
    if let Some(task) = find_or_tell(which) {
        let before = task.priority();
        task.set_priority(*priority);
        println!(
            "  {task:?} was {before:?}, and is {:?} now",
            task.priority()
        );
    }
}

/// Leaves a task on each core that never awaits, and returns when all of them run.
pub(super) async fn hog(argument: &str) {
    let seconds = argument.parse::<u32>().ok();
    let Some(seconds) = seconds.filter(|seconds| (1..=3600).contains(seconds)) else {
        println!("  hog <seconds>: for how long, from 1 to 3600");
        return;
    };
    let end = Instant::now() + Duration::from_secs(seconds.into());
    let cores = stats::stats().cores.len();
    let running = Arc::new(Semaphore::new(0));
    for core in 0..cores {
        let running = running.clone();
        let busy = async move {
            running.add_permits(1);
            while Instant::now() < end {
                hal::pause();
            }
        };
        Builder::new().name("hog").core(core).spawn(busy).detach();
    }
    let all = running.acquire_many(cores as u32).await;
    all.expect("nobody closes it").forget();
    println!("  a task `hog` on each core for {seconds} s: look with `tasks` and `top`");
}

/// Does nothing for a while.
pub(super) async fn sleep_for(argument: &str) {
    match argument.parse::<u32>() {
        Ok(seconds) => sleep(Duration::from_secs(seconds.into())).await,
        Err(_) => println!("  sleep <seconds>: how many"),
    }
}

/// Spawns tasks: either waits for them and tells where they ended, or lets them live for a while.
pub(super) async fn spawn(argument: &str) {
    let (count, seconds) = argument.split_once(' ').unwrap_or((argument, "0"));
    let (count, seconds) = (count.parse().ok(), seconds.trim().parse::<u32>().ok());
    let count = count.filter(|count| (1..=MOST_TASKS).contains(count));
    match (count, seconds) {
        (Some(count), Some(0)) => spawn_and_wait(count).await,
        (Some(count), Some(seconds)) => spawn_for_a_while(count, seconds),
        _ => {
            println!("  spawn <n>: how many tasks, from 1 to {MOST_TASKS}");
            println!("  spawn <n> <seconds>: and for how long they live");
        }
    }
}

async fn spawn_and_wait(count: usize) {
    let (before, begin) = (stats::stats().total, Instant::now());
    let spawn = |number| Builder::new().name("demo").spawn(demo(number));
    let tasks: Vec<_> = (0..count).map(spawn).collect();
    let mut ended = [0; MAX_CORES];
    for task in tasks {
        ended[task.await.expect("nobody cancels it")] += 1;
    }
    let (after, elapsed) = (stats::stats().total, begin.elapsed());
    for core in hal::cores::online().iter() {
        println!("  core {core}: {} tasks ended here", ended[core]);
    }
    println!(
        "  {count} tasks in {} us; {} were stolen, in {} steals; {} found a queue full and went to all",
        elapsed.as_micros(),
        after.stolen - before.stolen,
        after.steals - before.steals,
        after.overflows - before.overflows
    );
}

fn spawn_for_a_while(count: usize, seconds: u32) {
    let end = Instant::now() + Duration::from_secs(seconds.into());
    // Together they are polled no more than 10,000 times a second.
    let period = Duration::from_micros(100) * count as u32;
    let period = period.max(Duration::from_millis(10));
    for number in 0..count {
        let task = Builder::new().name("demo");
        task.spawn(live(number, period, end)).detach();
    }
    println!("  {count} tasks `demo` live for {seconds} s: look with `tasks` and `top`");
}

/// Works and sleeps by turns; some work more than others.
async fn live(number: usize, period: Duration, end: Instant) {
    while Instant::now() < end {
        for _ in 0..number % 8 * 100 {
            hal::pause();
        }
        sleep(period).await;
    }
}

/// Yields, works and sleeps a little; the core that it ended on.
async fn demo(number: usize) -> usize {
    for _ in 0..3 {
        yield_now().await;
    }
    for _ in 0..100 {
        hal::pause();
    }
    sleep(Duration::from_micros((number % 1000) as u64)).await;
    this_core()
}
