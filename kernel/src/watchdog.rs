//! The watchdog: looks every now and then for what goes on no more, and says so.
//!
//! What it sees: tasks and threads that wait for each other's locks, in a circle. One that is still there after a second is named, with
//! who waits for whom and, of those that wait in the middle of a poll, where. What happens then is for `watchdog=` to say.

use crate::symbols;
use alloc::vec::Vec;
use boot::command_line::Watchdog;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use executor::{
    TaskHandle, stats,
    task::{Builder, Task, TaskId},
    time::{Duration, sleep},
};

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(250);
/// What is so for so many looks in a row is not about to end.
const LOOKS: usize = 4;

static ALARMS: AtomicU64 = AtomicU64::new(0);

/// How often it had something to say.
pub fn alarms() -> u64 {
    ALARMS.load(Relaxed)
}

/// Starts it, unless it is to be off. In a task. It goes on until it is cancelled.
pub fn start(action: Watchdog) -> Option<TaskHandle<()>> {
    let watchdog = Builder::new().name("watchdog");
    (action != Watchdog::Off).then(|| watchdog.spawn(run(action)))
}

async fn run(action: Watchdog) {
    let mut before: Option<Vec<TaskId>> = None;
    let mut looks = 0;
    loop {
        sleep(PERIOD).await;
        let circle = stats::lock_cycle();
        looks = match circle.is_some() && circle == before {
            true => looks + 1,
            false => 1,
        };
        if looks == LOOKS
            && let Some(circle) = &circle
        {
            alarm(circle, action);
        }
        before = circle;
    }
}

fn alarm(circle: &[TaskId], action: Watchdog) {
    ALARMS.fetch_add(1, Relaxed);
    let tasks: Vec<Task> = circle.iter().copied().filter_map(stats::find).collect();
    let Some(first) = tasks.first() else {
        return;
    };
    log::error!(
        "watchdog: {} tasks wait for each other's locks, in a circle:",
        tasks.len()
    );
    for (task, next) in tasks.iter().zip(tasks.iter().cycle().skip(1)) {
        log::error!("watchdog: {task:?} waits for a lock that {next:?} has");
        for (depth, address) in task.backtrace().into_iter().enumerate() {
            log::error!("{} {depth:2}: {}", task.id(), symbols::Address(address));
        }
    }
    match action {
        Watchdog::Off | Watchdog::Report => {}
        Watchdog::Kill => {
            log::error!("watchdog: {first:?} is made to fail, so that the others hear of it");
            first.fail();
        }
        Watchdog::Panic => panic!("tasks wait for each other's locks, in a circle"),
    }
}
