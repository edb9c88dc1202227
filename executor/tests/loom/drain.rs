//! How a runtime finds out that its last task has ended.
//!
//! The model is what the worker and `Shared` do when a runtime drains: each core
//! counts what began and what ended there, and whoever ends a task looks
//! whether that was all.

use executor::scheduler::counter::{Counter, live, live_after_end};
use loom::{
    cell::UnsafeCell,
    sync::{
        Mutex, Notify,
        atomic::{AtomicBool, Ordering::*},
    },
    thread,
};
use std::sync::Arc;

struct Core {
    begun: Counter,
    ended: Counter,
    /// Written by each task that ends here.
    work: UnsafeCell<usize>,
}

struct Runtime {
    cores: [Core; 2],
    /// Whether somebody waits for the end.
    drained: Mutex<bool>,
    wake: Notify,
    /// A task for the other core.
    queue: AtomicBool,
}

impl Runtime {
    /// With so many tasks on each core.
    fn new(tasks: [u64; 2]) -> Arc<Self> {
        let core = |tasks| {
            let core = Core {
                begun: Counter::new(),
                ended: Counter::new(),
                work: UnsafeCell::new(0),
            };
            core.begun.add(tasks);
            core
        };
        Arc::new(Self {
            cores: tasks.map(core),
            drained: Mutex::new(false),
            wake: Notify::new(),
            queue: AtomicBool::new(false),
        })
    }

    fn end_task(&self, core: usize) {
        let at = &self.cores[core];
        // SAFETY: the core's own until all have ended.
        at.work.with_mut(|work| unsafe { *work += 1 });
        at.ended.add(1);
        let (ended, begun) = (self.ended(), self.begun());
        if live_after_end(ended, begun) == 0 && std::mem::take(&mut *self.drained.lock().unwrap()) {
            self.wake.notify();
        }
    }

    fn ended(&self) -> impl Iterator<Item = &Counter> {
        self.cores.iter().map(|core| &core.ended)
    }

    fn begun(&self) -> impl Iterator<Item = &Counter> {
        self.cores.iter().map(|core| &core.begun)
    }

    fn is_drained(&self) -> bool {
        live(self.ended(), self.begun()) == 0
    }

    /// Waits until all have ended; then all that they did is seen.
    fn drain(&self) -> usize {
        loop {
            *self.drained.lock().unwrap() = true;
            if self.is_drained() {
                return self.work();
            }
            self.wake.wait();
        }
    }

    fn work(&self) -> usize {
        // SAFETY: no task lives; loom checks that.
        let work = |core: &Core| core.work.with(|work| unsafe { *work });
        self.cores.iter().map(work).sum()
    }
}

// Loom compares a store with the last access to the same atomic only. A counter's own look before it
// stores hides the looks of others before that, so those who only look are spawned last: then the
// stores come first, and the looks that come after them make loom try all orders.

/// Two cores end the last two tasks at the same time: whoever waits is woken.
#[test]
fn the_last_two_tasks_end_at_once() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(2, |bound| bound.min(2)));
    builder.check(|| {
        let runtime = Runtime::new([1, 1]);
        let other = spawn(&runtime, |runtime| runtime.end_task(1));
        let waits = spawn(&runtime, |runtime| assert_eq!(runtime.drain(), 2));
        runtime.end_task(0);
        other.join().unwrap();
        waits.join().unwrap();
    });
}

/// A task spawns another, which goes to another core, and ends: there is no
/// moment when none seems to live.
#[test]
fn a_task_spawns_another_and_ends() {
    loom::model(|| {
        let runtime = Runtime::new([1, 0]);
        let thief = spawn(&runtime, |runtime| {
            let stolen = runtime.queue.load(Acquire);
            if stolen {
                runtime.end_task(1);
            }
            stolen
        });
        let looks = spawn(&runtime, |runtime| {
            if runtime.is_drained() {
                assert_eq!(runtime.work(), 2);
            }
        });
        runtime.cores[0].begun.add(1);
        // What a queue does for who takes a task out.
        runtime.queue.store(true, Release);
        runtime.end_task(0);
        looks.join().unwrap();
        let ended = 1 + usize::from(thief.join().unwrap());
        assert_eq!(runtime.is_drained(), ended == 2);
        assert_eq!(runtime.work(), ended);
    });
}

fn spawn<R: 'static>(
    runtime: &Arc<Runtime>,
    act: impl FnOnce(&Runtime) -> R + 'static,
) -> thread::JoinHandle<R> {
    let runtime = runtime.clone();
    thread::spawn(move || act(&runtime))
}
