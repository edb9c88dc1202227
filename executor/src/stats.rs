//! Counters, and every live task with what is known of it.

use crate::{
    Priority,
    runtime::Runtime,
    scheduler::{counter::Counter, registry::Cursor, shared::Shared, worker::Worker},
    task::{
        Task, TaskId,
        extra::{Extra, Left},
    },
    time::Duration,
};
use alloc::{string::String, vec::Vec};
use core::{
    ptr,
    sync::atomic::{AtomicU64, Ordering::*},
};
use hal::preempt;

/// What one core counts.
pub(crate) struct Counters {
    pub(crate) spawned: Counter,
    pub(crate) finished: Counter,
    pub(crate) steals_tried: Counter,
    pub(crate) steals: Counter,
    pub(crate) stolen: Counter,
    pub(crate) overflows: Counter,
    pub(crate) parks: Counter,
    pub(crate) suspensions: Counter,
    pub(crate) preemptions: Counter,
    pub(crate) unpreempted: Counter,
    pub(crate) resumes: Counter,
    pub(crate) ticks: Counter,
    pub(crate) lost: Counter,
    pub(crate) lost_bytes: Counter,
    idle: Counter,
    /// When it fell asleep, plus one; 0: it is awake.
    asleep_since: AtomicU64,
    /// By whichever core kicks.
    pub(crate) kicks: Counter,
}

impl Counters {
    pub(crate) const fn new() -> Self {
        Self {
            spawned: Counter::new(),
            finished: Counter::new(),
            steals_tried: Counter::new(),
            steals: Counter::new(),
            stolen: Counter::new(),
            overflows: Counter::new(),
            parks: Counter::new(),
            suspensions: Counter::new(),
            preemptions: Counter::new(),
            unpreempted: Counter::new(),
            resumes: Counter::new(),
            ticks: Counter::new(),
            lost: Counter::new(),
            lost_bytes: Counter::new(),
            idle: Counter::new(),
            asleep_since: AtomicU64::new(0),
            kicks: Counter::new(),
        }
    }

    /// The core is about to sleep.
    pub(crate) fn fall_asleep(&self, now: u64) {
        self.asleep_since.store(now + 1, Relaxed);
    }

    /// It has woken up.
    pub(crate) fn wake_up(&self, now: u64) {
        let since = self.asleep_since.load(Relaxed) - 1;
        self.parks.add(1);
        // In this order, and looked at in the other: one sleep is never counted twice.
        self.asleep_since.store(0, Relaxed);
        // Its release pairs with the acquire in `idle`.
        self.idle.add(now.saturating_sub(since));
    }

    /// How long it has slept, the sleep that it is in included: one that sleeps
    /// for an hour has not been busy meanwhile.
    fn idle(&self, now: u64) -> Duration {
        let before = self.idle.get();
        let since = self.asleep_since.load(Relaxed);
        let still = match since {
            0 => 0,
            since => now.saturating_sub(since - 1),
        };
        Duration::from_nanos(before + still)
    }
}

/// What one core has done so far.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct CoreStats {
    /// Polls. Exact for a core that sleeps, one that nobody serves, and the one that asks; another adds
    /// them up only now and then, so that up to 60 are still to come.
    pub polls: u64,
    /// Tasks spawned here.
    pub spawned: u64,
    /// Tasks that ended here.
    pub finished: u64,
    /// Looks at another core's queue that had something in it.
    pub steals_tried: u64,
    /// Of those, the ones that got something.
    pub steals: u64,
    /// Tasks that came with them.
    pub stolen: u64,
    /// Tasks that found no room in the queue and went to the injector.
    pub overflows: u64,
    /// Kicks it got because it slept and there was work.
    pub kicks: u64,
    /// Times it slept.
    pub parks: u64,
    /// Polls that were left in the middle because they waited or gave way.
    pub suspensions: u64,
    /// Polls that were left in the middle because they had run for too long.
    pub preemptions: u64,
    /// Polls that should have been, but there was no stack to go on with.
    pub unpreempted: u64,
    /// Polls that went on after they had been left.
    pub resumes: u64,
    /// Times it was interrupted to look whether it is still in the same poll.
    pub ticks: u64,
    /// Polls that could never go on, because they panicked, met a fault or had too small a stack. What they had is in
    /// quarantine: it is neither dropped nor used again.
    pub lost: u64,
    /// Bytes of the stacks of those.
    pub lost_bytes: u64,
    /// How long it slept, up to now if it does.
    pub idle: Duration,
    /// Tasks in its queues now.
    pub depth: usize,
}

impl CoreStats {
    fn of(worker: &Worker) -> Self {
        let counters = &worker.counters.0;
        Self {
            polls: worker.polls(),
            spawned: counters.spawned.get(),
            finished: counters.finished.get(),
            steals_tried: counters.steals_tried.get(),
            steals: counters.steals.get(),
            stolen: counters.stolen.get(),
            overflows: counters.overflows.get(),
            kicks: counters.kicks.get(),
            parks: counters.parks.get(),
            suspensions: counters.suspensions.get(),
            preemptions: counters.preemptions.get(),
            unpreempted: counters.unpreempted.get(),
            resumes: counters.resumes.get(),
            ticks: counters.ticks.get(),
            lost: counters.lost.get(),
            lost_bytes: counters.lost_bytes.get(),
            idle: counters.idle(worker.shared().clock.now()),
            depth: worker.depth(),
        }
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            polls: self.polls + other.polls,
            spawned: self.spawned + other.spawned,
            finished: self.finished + other.finished,
            steals_tried: self.steals_tried + other.steals_tried,
            steals: self.steals + other.steals,
            stolen: self.stolen + other.stolen,
            overflows: self.overflows + other.overflows,
            kicks: self.kicks + other.kicks,
            parks: self.parks + other.parks,
            suspensions: self.suspensions + other.suspensions,
            preemptions: self.preemptions + other.preemptions,
            unpreempted: self.unpreempted + other.unpreempted,
            resumes: self.resumes + other.resumes,
            ticks: self.ticks + other.ticks,
            lost: self.lost + other.lost,
            lost_bytes: self.lost_bytes + other.lost_bytes,
            idle: self.idle + other.idle,
            depth: self.depth + other.depth,
        }
    }
}

/// What a runtime has done so far.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Each core.
    pub cores: Vec<CoreStats>,
    /// All of them together, with what was spawned from outside.
    pub total: CoreStats,
    /// Tasks that wait in the injector.
    pub injected: usize,
    /// Tasks that live. One that was joined just now may still be counted: that is the last its core does for it.
    pub live: u64,
    /// Blocking functions that have their turn; see [`spawn_blocking`](crate::task::spawn_blocking).
    pub blocking: usize,
    /// Threads of the OS that are there for them, busy or not. None on the image.
    pub blocking_threads: usize,
    /// How long ago it was built.
    pub age: Duration,
}

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// A core polls it.
    Running,
    /// It is in the middle of a poll, and was preempted or gave way, if it is tracked.
    Preempted,
    /// It could run.
    Runnable,
    /// It waits for a waker.
    Waiting,
    /// It has ended, just now.
    Finished,
}

/// What is known of a task. What a runtime keeps only if it tracks its tasks is
/// None or 0 elsewhere.
#[derive(Clone, Debug)]
pub struct TaskInfo {
    /// Which one it is.
    pub id: TaskId,
    /// What it was called.
    pub name: Option<String>,
    /// What it does.
    pub activity: Activity,
    /// It was asked to end.
    pub is_cancelled: bool,
    /// Its priority.
    pub priority: Priority,
    /// The core it is bound to.
    pub pinned: Option<usize>,
    /// The task that spawned it.
    pub parent: Option<TaskId>,
    /// The core that polled it last, if it is tracked.
    pub core: Option<usize>,
    /// How long it has lived, if it is tracked.
    pub age: Option<Duration>,
    /// How often it was polled, if it is tracked.
    pub polls: u64,
    /// How long it ran, if it is tracked.
    pub running: Duration,
    /// What it waits for, if it is tracked and that is known.
    pub waits_for: &'static str,
    /// Bytes of stack that it had in use when it was last left in the middle of a poll, and bytes that
    /// had memory, if it is tracked and ever was.
    pub stack: Option<(usize, usize)>,
}

impl TaskInfo {
    fn of(task: &Task, now: u64) -> Self {
        let header = task.header();
        let word = header.state.now();
        let extra = header.extra();
        let tracked = extra.filter(|_| word.is_tracked());
        let left = tracked.map_or(Left::No, Extra::left);
        let activity = if word.is_done() {
            Activity::Finished
        } else if word.is_running() {
            match left {
                Left::No => Activity::Running,
                Left::GaveWay => Activity::Preempted,
                Left::Waits => Activity::Waiting,
            }
        } else if word.is_queued() {
            Activity::Runnable
        } else {
            Activity::Waiting
        };
        Self {
            id: task.id(),
            name: task.name().map(String::from),
            activity,
            is_cancelled: word.was_cancelled(),
            priority: Priority::from_level(word.level()),
            pinned: word.pinned_to(),
            parent: task.parent(),
            core: tracked.map(|extra| extra.core.load(Relaxed) as usize),
            age: tracked.map(|extra| Duration::from_nanos(now.saturating_sub(extra.born))),
            polls: tracked.map_or(0, |extra| extra.polls.load(Relaxed)),
            running: Duration::from_nanos(tracked.map_or(0, |extra| extra.running.load(Relaxed))),
            waits_for: match (activity, tracked) {
                (Activity::Waiting, Some(extra)) => extra.waits_for(),
                _ => "",
            },
            stack: tracked.and_then(Extra::stack_use),
        }
    }
}

impl Shared {
    fn stats(&self) -> Stats {
        let guard = preempt::guard();
        if let Some(here) = Worker::here(&guard)
            && ptr::eq(here.shared(), self)
        {
            here.publish_polls();
        }
        drop(guard);
        let cores: Vec<CoreStats> = self.cores().iter().map(CoreStats::of).collect();
        let outside = CoreStats::of(self.outsider());
        Stats {
            total: cores.iter().fold(outside, CoreStats::plus),
            cores,
            injected: self.injected(),
            live: self.live(),
            blocking: self.blocking.running(),
            blocking_threads: self.blocking.threads(),
            age: Duration::from_nanos(self.clock.now() - self.born),
        }
    }

    fn tasks(&self) -> Vec<TaskInfo> {
        let now = self.clock.now();
        let mut tasks = Vec::new();
        for part in self.parts() {
            let mut cursor = Cursor::default();
            while let Some(task) = part.registry.next(&mut cursor) {
                tasks.push(TaskInfo::of(&task, now));
            }
        }
        tasks
    }

    pub(crate) fn find(&self, id: TaskId) -> Option<Task> {
        self.parts().get(id.part())?.registry.find(id)
    }
}

impl Runtime {
    /// What its cores have done so far.
    pub fn stats(&self) -> Stats {
        self.shared().stats()
    }

    /// Every task that lives.
    pub fn tasks(&self) -> Vec<TaskInfo> {
        self.shared().tasks()
    }

    /// The task with this id, if it lives.
    pub fn find(&self, id: TaskId) -> Option<Task> {
        self.shared().find(id)
    }
}

/// [`Runtime::stats`] of the runtime that this runs in.
///
/// # Panics
/// Where none runs.
#[track_caller]
pub fn stats() -> Stats {
    crate::runtime::with_current(Shared::stats)
}

/// [`Runtime::tasks`] of the runtime that this runs in.
///
/// # Panics
/// Where none runs.
#[track_caller]
pub fn tasks() -> Vec<TaskInfo> {
    crate::runtime::with_current(Shared::tasks)
}

pub use crate::scheduler::cycles::lock_cycle;

/// [`Runtime::find`] in the runtime that this runs in.
///
/// # Panics
/// Where none runs.
#[track_caller]
pub fn find(id: TaskId) -> Option<Task> {
    crate::runtime::with_current(|shared| shared.find(id))
}
