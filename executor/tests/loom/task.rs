//! The state of a task: wakers, pollers, cancellations, a handle that joins.
//!
//! The model is what `cell`, `waker`, `handle` and the worker do with a state,
//! but whoever queues the task polls it, at once: a queue that orders nothing
//! by itself, so that only the state can. What the state's bits give access to
//! is in cells that loom watches. Every access looks at the task's memory, too,
//! and whoever frees the task writes it: loom finds accesses after that.

#[path = "task/boosting.rs"]
mod boosting;
#[path = "task/ending.rs"]
mod ending;
#[path = "task/waking.rs"]
mod waking;

use executor::task::state::{Change, End, Pause, Place, Settled, State, Wake, Word};
use loom::{
    cell::UnsafeCell,
    sync::{
        Notify,
        atomic::{AtomicBool, Ordering::*},
    },
    thread,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

/// What the future waits for: written, without any order, by who then wakes it.
type Event = AtomicBool;

/// How a model's task behaves.
#[derive(Default, Clone, Copy)]
struct Script {
    /// The future is ready once it has seen so many events.
    awaits: usize,
    /// Its finalizer is: how many more. None: it has none.
    finalizer_awaits: Option<usize>,
    /// It yields so often first.
    yields: usize,
    /// It is not a usual task, so `pause` says what becomes of it.
    with_care: bool,
}

/// What is in the task's place for it.
#[derive(PartialEq, Debug)]
enum Stage {
    Future,
    Outcome(Outcome),
    Empty,
}

#[derive(PartialEq, Clone, Copy, Debug)]
enum Outcome {
    Output,
    Cancelled,
}

/// A join waker: the task keeps its number.
#[derive(Default)]
struct Joiner {
    wake: Notify,
    written: AtomicUsize,
    taken: AtomicUsize,
}

/// What has happened. Not loom's: it orders nothing.
#[derive(Default)]
struct Counts {
    polls: AtomicUsize,
    futures_dropped: AtomicUsize,
    outcomes_taken: AtomicUsize,
    outcomes_dropped: AtomicUsize,
    finalized: AtomicUsize,
    freed: AtomicUsize,
    taken: Mutex<Option<Outcome>>,
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, SeqCst);
}

struct Task {
    state: State,
    script: Script,
    events: [Event; 2],
    /// Written before a cancellation.
    reason: AtomicBool,
    stage: UnsafeCell<Stage>,
    /// Times it has yielded. The owner's, as the future is.
    yielded: UnsafeCell<usize>,
    /// Number of the join waker, plus one.
    joiner: UnsafeCell<usize>,
    joiners: [Joiner; 2],
    memory: UnsafeCell<()>,
    counts: Arc<Counts>,
}

impl Task {
    fn new(script: Script) -> Arc<Self> {
        Arc::new(Self {
            state: State::new(Place::default()),
            script,
            events: [Event::new(false), Event::new(false)],
            reason: AtomicBool::new(false),
            stage: UnsafeCell::new(Stage::Future),
            yielded: UnsafeCell::new(0),
            joiner: UnsafeCell::new(0),
            joiners: Default::default(),
            memory: UnsafeCell::new(()),
            counts: Arc::default(),
        })
    }

    /// The state, for an access that must come before the task is freed.
    fn state(&self) -> &State {
        self.memory.with(|_| ());
        &self.state
    }

    fn free(&self) {
        self.memory.with_mut(|_| ());
        count(&self.counts.freed);
    }

    fn release(&self) {
        if self.state().release() {
            self.free();
        }
    }

    fn replace_stage(&self, next: Stage) -> Stage {
        // SAFETY: the caller's by the state, which is what loom checks.
        self.stage
            .with_mut(|stage| std::mem::replace(unsafe { &mut *stage }, next))
    }

    fn seen(&self) -> usize {
        let seen = |event: &&Event| event.load(Relaxed);
        self.events.iter().filter(seen).count()
    }

    // ---- the worker ----

    /// It was queued by the caller, who now takes it out of the queue.
    fn run(&self) {
        while self.poll_once() {}
    }

    /// Whether it is queued again.
    fn poll_once(&self) -> bool {
        let mut started = self.state().start();
        if started.is_stale() {
            match self.state().settle() {
                Settled::Started(word) => started = word,
                Settled::Dropped => return false,
                Settled::Free => {
                    self.free();
                    return false;
                }
            }
        }
        self.poll_started(started, self.script.with_care)
    }

    /// A second entry came out of a queue: whoever comes first polls it.
    fn run_by_proxy(&self) {
        if let Some(claimed) = self.state().claim()
            && self.poll_started(claimed, true)
        {
            self.run();
        }
    }

    /// Whether it is queued again.
    fn poll_started(&self, started: Word, with_care: bool) -> bool {
        if started.is_cancelled() {
            return self.drop_future();
        }
        if started.is_final() {
            return self.poll_finalizer();
        }
        let (is_ready, yielded) = self.poll_future();
        if is_ready {
            self.drop_stage(Outcome::Output);
            return self.finish();
        }
        if with_care {
            return self.pause(yielded);
        }
        // As `turns_by_stealing` does.
        if yielded {
            self.state().yields();
            return true;
        }
        self.state().parks().is_some()
    }

    /// Whether it is ready, and whether it yielded.
    fn poll_future(&self) -> (bool, bool) {
        count(&self.counts.polls);
        self.stage.with_mut(|stage| {
            // SAFETY: the caller's by the state, which is what loom checks.
            assert_eq!(unsafe { &*stage }, &Stage::Future);
            // SAFETY: as above.
            let yields = self.yielded.with_mut(|yielded| unsafe {
                *yielded += 1;
                *yielded <= self.script.yields
            });
            (!yields && self.seen() >= self.script.awaits, yields)
        })
    }

    fn pause(&self, yielded: bool) -> bool {
        match self.state().pause(yielded) {
            Pause::Parked => false,
            Pause::Requeued(_) => {
                // An entry that is in a queue already is another's to take out.
                self.memory.with(|_| ());
                self.release();
                false
            }
            Pause::Again(_) => true,
            Pause::Cancelled => self.drop_future(),
        }
    }

    fn drop_future(&self) -> bool {
        assert!(
            self.reason.load(Relaxed),
            "what came before the cancellation is seen"
        );
        self.drop_stage(Outcome::Cancelled);
        self.finish()
    }

    fn drop_stage(&self, outcome: Outcome) {
        assert_eq!(self.replace_stage(Stage::Outcome(outcome)), Stage::Future);
        count(&self.counts.futures_dropped);
    }

    fn finish(&self) -> bool {
        if self.script.finalizer_awaits.is_some() {
            self.state().finalize();
            return self.poll_finalizer();
        }
        self.end();
        false
    }

    fn poll_finalizer(&self) -> bool {
        let awaits = self.script.finalizer_awaits.unwrap();
        // SAFETY: the caller's by the state, which is what loom checks.
        let is_ready = self.yielded.with_mut(|_| self.seen() >= awaits);
        if !is_ready {
            return self.pause(false);
        }
        count(&self.counts.finalized);
        self.end();
        false
    }

    fn end(&self) {
        // What the loop tries first, as `end_usual` does.
        if self.state().end_joined() {
            return self.wake_joiner();
        }
        let mut kept = self.state().has_handle();
        if !kept {
            self.drop_outcome();
        }
        let end = loop {
            match self.state().end(kept) {
                Some(end) => break end,
                None => {
                    kept = false;
                    self.drop_outcome();
                }
            }
        };
        match end {
            End::Quiet => {}
            End::Free => self.free(),
            End::WakeJoiner => self.wake_joiner(),
        }
    }

    fn wake_joiner(&self) {
        self.memory.with(|_| ());
        self.take_joiner().wake.notify();
        self.release();
    }

    fn drop_outcome(&self) {
        let outcome = self.replace_stage(Stage::Empty);
        assert!(matches!(outcome, Stage::Outcome(_)), "{outcome:?}");
        count(&self.counts.outcomes_dropped);
    }

    fn take_joiner(&self) -> &Joiner {
        // A read, as in `cell`: the handle may compare it at the same time.
        // SAFETY: it is there, by the state, which is what loom checks.
        let number = self.joiner.with(|joiner| unsafe { *joiner });
        let joiner = &self.joiners[number - 1];
        count(&joiner.taken);
        joiner
    }

    // ---- wakers ----

    fn wake_by_ref(&self) {
        if let Wake::Queue(_) = self.state().wake() {
            self.run();
        }
    }

    fn wake(&self) {
        if self.state().wake_and_release().is_some() {
            return self.run();
        }
        self.wake_by_ref();
        self.release();
    }

    fn cancel(&self) -> bool {
        self.reason.store(true, Relaxed);
        match self.state().cancel() {
            Wake::Queue(_) => self.run(),
            Wake::Nothing | Wake::Requeued(_) => {}
            Wake::Done => return false,
        }
        true
    }

    /// Another reference, for whoever gets the task next.
    fn retained(self: &Arc<Self>) -> Arc<Self> {
        self.state().retain();
        self.clone()
    }

    /// All threads have ended and all references are gone.
    fn check(&self) {
        let count = |counter: &AtomicUsize| counter.load(SeqCst);
        let counts = &self.counts;
        assert!(self.state.now().is_done(), "a wake was lost");
        assert!(
            !self.state.now().is_queued(),
            "a task that ended looks queued"
        );
        assert_eq!(count(&counts.futures_dropped), 1);
        let (taken, dropped) = (&counts.outcomes_taken, &counts.outcomes_dropped);
        assert_eq!(count(taken) + count(dropped), 1, "the outcome has one end");
        assert_eq!(count(&counts.freed), 1);
        for joiner in &self.joiners {
            assert_eq!(count(&joiner.written), count(&joiner.taken));
        }
        let finalizers = usize::from(self.script.finalizer_awaits.is_some());
        assert_eq!(count(&counts.finalized), finalizers);
    }

    fn polls(&self) -> usize {
        self.counts.polls.load(SeqCst)
    }

    fn outcome(&self) -> Option<Outcome> {
        *self.counts.taken.lock().unwrap()
    }
}

// ---- the handle ----

#[derive(PartialEq)]
enum Progress {
    Idle,
    Waiting,
    Taken,
}

struct Handle {
    task: Arc<Task>,
    progress: Progress,
}

impl Handle {
    fn new(task: &Arc<Task>) -> Self {
        Self {
            task: task.clone(),
            progress: Progress::Idle,
        }
    }

    fn take(&mut self) -> bool {
        assert!(self.progress != Progress::Taken);
        self.progress = Progress::Taken;
        match self.task.replace_stage(Stage::Empty) {
            Stage::Outcome(outcome) => *self.task.counts.taken.lock().unwrap() = Some(outcome),
            stage => panic!("{stage:?} is no outcome"),
        }
        count(&self.task.counts.outcomes_taken);
        true
    }

    /// Whether it is ready, and then the outcome is taken.
    fn poll(&mut self, number: usize) -> bool {
        let task = self.task.clone();
        if task.state().is_done() {
            return self.take();
        }
        if self.progress == Progress::Waiting {
            // SAFETY: offered, so it is there; whoever ends the task only reads it.
            if task.joiner.with(|joiner| unsafe { *joiner }) == number + 1 {
                return false;
            }
            if !task.state().withdraw_joiner() {
                return self.take();
            }
            task.take_joiner();
            self.progress = Progress::Idle;
        }
        // SAFETY: the handle's, as nothing is offered, which is what loom checks.
        task.joiner
            .with_mut(|joiner| unsafe { *joiner = number + 1 });
        count(&task.joiners[number].written);
        if !task.state().offer_joiner() {
            task.take_joiner();
            return self.take();
        }
        self.progress = Progress::Waiting;
        false
    }

    /// Awaits the task, with the waker of this number.
    fn wait(&mut self, number: usize) {
        while !self.poll(number) {
            self.task.joiners[number].wake.wait();
        }
    }

    fn drop(self) {
        let state = self.task.state();
        if self.progress == Progress::Waiting && state.withdraw_joiner() {
            self.task.take_joiner();
        }
        if self.progress != Progress::Taken && state.forget() {
            self.task.drop_outcome();
        }
        self.task.release();
    }
}

/// Lets go of the handle without a look.
fn detach(task: &Arc<Task>) {
    Handle::new(task).drop();
}

/// Calls `act` on a thread, with a reference of its own that it uses up.
fn spawn(task: &Arc<Task>, act: impl FnOnce(&Task) + 'static) -> thread::JoinHandle<()> {
    let task = task.retained();
    thread::spawn(move || act(&task))
}

/// A waker's event, then the wake, by reference.
fn fire(number: usize) -> impl FnOnce(&Task) {
    move |task| {
        task.events[number].store(true, Relaxed);
        task.wake_by_ref();
        task.release();
    }
}

/// The same, by value.
fn fire_by_value(number: usize) -> impl FnOnce(&Task) {
    move |task| {
        task.events[number].store(true, Relaxed);
        task.wake();
    }
}

/// Models of three threads have so many orders that fewer switches must do.
fn three_threads(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.map(|bound| bound.min(2));
    builder.check(model);
}

/// As a usual task, and as one that is not.
fn in_both_ways(model: impl Fn(bool)) {
    model(false);
    model(true);
}
