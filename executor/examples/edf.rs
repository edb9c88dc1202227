//! Earliest deadline first: a scheduling policy as a user writes one, outside
//! the crate. Run it with `cargo run -p spindle-executor --example edf`.
//!
//! Each task's tag is its deadline. Of what is runnable, the most urgent runs
//! next; tasks without a deadline run when no other wants to, the oldest first.

use executor::{
    Runtime,
    scheduler::policy::{Policy, Reason, Runnable},
    task::{Builder, yield_now},
};
use hal::sync::Lock;
use std::{
    cmp::Ordering,
    collections::BinaryHeap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The policy: a heap.
#[derive(Default)]
pub struct EarliestDeadlineFirst(Lock<State>);

#[derive(Default)]
struct State {
    heap: BinaryHeap<Entry>,
    /// How many came so far.
    count: u64,
}

/// What waits in the heap.
struct Entry {
    deadline: u64,
    /// Of two with the same deadline, the one that came first goes first.
    number: u64,
    task: Runnable,
}

impl Ord for Entry {
    /// The most urgent is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.deadline, other.number).cmp(&(self.deadline, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl Policy for EarliestDeadlineFirst {
    fn push(&self, task: Runnable, _: Reason) {
        let deadline = match task.tag() {
            0 => u64::MAX,
            deadline => deadline,
        };
        let mut state = self.0.lock();
        state.count += 1;
        let number = state.count;
        state.heap.push(Entry {
            deadline,
            number,
            task,
        });
    }

    fn pop(&self) -> Option<Runnable> {
        self.0.lock().heap.pop().map(|entry| entry.task)
    }

    fn is_empty(&self) -> bool {
        self.0.lock().heap.is_empty()
    }
}

/// Something that must be finished in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// How long it takes.
    pub cost: u64,
    /// When it is to be finished, after the start of all.
    pub deadline: u64,
}

/// Together they fill the time until the last deadline, and they come in the wrong order.
pub const JOBS: [Job; 4] = [
    Job {
        cost: 40,
        deadline: 100,
    },
    Job {
        cost: 30,
        deadline: 60,
    },
    Job {
        cost: 20,
        deadline: 30,
    },
    Job {
        cost: 10,
        deadline: 10,
    },
];

/// Runs all jobs at once on a runtime of one core, on which a unit of work is a
/// unit of time; returns those that were late.
pub fn late_jobs(runtime: &Runtime, jobs: &[Job]) -> Vec<Job> {
    let clock = Arc::new(AtomicU64::new(0));
    runtime.block_on(async {
        let mut handles = Vec::new();
        for &job in jobs {
            let clock = clock.clone();
            let work = async move {
                for _ in 0..job.cost {
                    clock.fetch_add(1, Relaxed);
                    yield_now().await;
                }
                clock.load(Relaxed) > job.deadline
            };
            handles.push(Builder::new().tag(job.deadline).spawn(work));
        }
        let mut late = Vec::new();
        for (handle, job) in handles.into_iter().zip(jobs) {
            if handle.await.unwrap() {
                late.push(*job);
            }
        }
        late
    })
}

#[allow(dead_code, reason = "tests use the rest of this file")]
fn main() {
    let usual = Runtime::builder().workers(1).build().unwrap();
    println!("late by default: {:?}", late_jobs(&usual, &JOBS));
    let own = Runtime::builder()
        .workers(1)
        .policy(|_core| Box::new(EarliestDeadlineFirst::default()))
        .build()
        .unwrap();
    println!(
        "late by earliest deadline first: {:?}",
        late_jobs(&own, &JOBS)
    );
}
