//! `top`: what runs now, drawn anew every second.

use super::tasks;
use crate::print;
use alloc::{collections::BTreeMap, vec::Vec};
use core::cmp::Reverse;
use executor::{
    stats::{self, TaskInfo},
    task::TaskId,
    time::{Duration, sleep},
};

/// From one frame to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// Tasks that are shown: a terminal of 24 lines holds them.
const ROWS: usize = 18;

/// What the last frame was drawn from. At first nothing: so the first frame
/// shows all that was since the runtime was built.
#[derive(Default)]
struct Seen {
    age: Duration,
    polls: u64,
    idle: Vec<Duration>,
    running: BTreeMap<TaskId, Duration>,
}

/// Draws until it is cancelled.
pub(super) async fn top() {
    let mut seen = Seen::default();
    // Clears the screen once; from then on each line is written over.
    print!("\x1b[2J");
    loop {
        seen = frame(&seen);
        sleep(PERIOD).await;
    }
}

/// Draws one frame; what the next is compared with.
fn frame(last: &Seen) -> Seen {
    let (stats, mut tasks) = (stats::stats(), stats::tasks());
    let elapsed = stats.age - last.age;
    let since = |now: Duration, before: Option<&Duration>| {
        now.saturating_sub(before.copied().unwrap_or_default())
    };
    print!("\x1b[Hcores:");
    for (index, core) in stats.cores.iter().enumerate() {
        let idle = since(core.idle, last.idle.get(index));
        print!("  {index} {:3} %", 100 - tasks::per_cent(idle, elapsed));
    }
    let polls = (stats.total.polls - last.polls) as u128 * 1_000_000;
    print!("\x1b[K\n");
    print!(
        "tasks:  {} live, {} polls a second, in the last {}\x1b[K\n",
        stats.live,
        polls / elapsed.as_micros().max(1),
        tasks::span(elapsed)
    );
    let used = |task: &TaskInfo| since(task.running, last.running.get(&task.id));
    tasks.sort_by_key(|task| Reverse(used(task)));
    print!(
        "  share  {:<12} {:<10} {:<9} {:<8} {:>8}  waits for\x1b[K\n",
        "id", "name", "state", "core", "polls"
    );
    for task in tasks.iter().take(ROWS) {
        print!(
            "  {:3} %  {:<12} {:<10} {:<9} {:<8} {:>8}  {}\x1b[K\n",
            tasks::per_cent(used(task), elapsed),
            alloc::format!("{}", task.id),
            tasks::name(task),
            tasks::state(task),
            tasks::core(task),
            task.polls,
            task.waits_for
        );
    }
    print!("any key ends it\x1b[K\x1b[J");
    Seen {
        age: stats.age,
        polls: stats.total.polls,
        idle: stats.cores.iter().map(|core| core.idle).collect(),
        running: tasks.iter().map(|task| (task.id, task.running)).collect(),
    }
}
