//! Who sleeps, who searches, whom to kick.
//!
//! The model is what the worker and `Shared` do with an [`Idle`]. Queues are
//! counters that order nothing. A core that has found work is busy with it for
//! ever: its thread ends. So there are as many pieces of work as cores that can
//! do them, and if one lies about while a core sleeps, that core sleeps for
//! ever, which loom reports as a deadlock. A sleep may end by itself, once.

use executor::scheduler::idle::Idle;
use loom::{
    sync::{
        Notify,
        atomic::{AtomicUsize, Ordering::*},
    },
    thread,
};
use std::sync::Arc;

/// A counter as a queue: what is in it is only counted.
struct Queue(AtomicUsize);

impl Queue {
    fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn push(&self, count: usize) {
        self.0.fetch_add(count, Relaxed);
    }

    fn is_empty(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// Takes at most so many.
    fn take(&self, most: usize) -> usize {
        if self.is_empty() {
            return 0;
        }
        let take = |count: usize| Some(count - count.min(most));
        let before = self.0.fetch_update(Relaxed, Relaxed, take).unwrap();
        before.min(most)
    }
}

struct Core {
    /// Its number in the machine, known when it begins to serve.
    number: AtomicUsize,
    /// What others may steal.
    queue: Queue,
    /// What is for it alone.
    mail: Queue,
    interrupt: Notify,
}

struct Machine {
    idle: Idle,
    injector: Queue,
    cores: Vec<Core>,
}

impl Machine {
    fn new(cores: usize) -> Arc<Self> {
        let core = |_| Core {
            number: AtomicUsize::new(usize::MAX),
            queue: Queue::new(),
            mail: Queue::new(),
            interrupt: Notify::new(),
        };
        Arc::new(Self {
            idle: Idle::new(),
            injector: Queue::new(),
            cores: (0..cores).map(core).collect(),
        })
    }

    // ---- what makes work ----

    fn kick(&self, core: Option<usize>) {
        if let Some(core) = core {
            let core = &self.cores[core];
            assert_ne!(core.number.load(Relaxed), usize::MAX, "which core is it?");
            core.interrupt.notify();
        }
    }

    /// Work for any core.
    fn inject(&self) {
        self.injector.push(1);
        self.kick(self.idle.notify());
    }

    /// Work for one core.
    fn post(&self, core: usize) {
        self.cores[core].mail.push(1);
        self.posted(core);
    }

    /// There is some already, of which it has not been told.
    fn posted(&self, core: usize) {
        self.kick(self.idle.notify_core(core));
    }

    // ---- a core ----

    /// It has begun to serve, and found nothing yet.
    fn begin(&self, core: usize) {
        self.cores[core].number.store(core, Relaxed);
        self.idle.search();
    }

    /// A core that begins, finds something and is busy with it.
    fn serve(&self, core: usize) {
        self.begin(core);
        self.find(core);
    }

    /// Already searching.
    fn find(&self, core: usize) {
        let mail = &self.cores[core].mail;
        loop {
            // First, as nobody else can be busy with it.
            if !mail.is_empty() {
                assert_eq!(mail.take(1), 1, "its mail is its own");
                return self.found();
            }
            if self.steal(core) {
                return self.found();
            }
            self.sleep(core);
        }
    }

    fn found(&self) {
        self.kick(self.idle.found(|| self.is_work()));
    }

    /// From the injector; from others all they have, of which the rest goes to
    /// its own queue, where others may steal it.
    fn steal(&self, thief: usize) -> bool {
        if self.injector.take(1) == 1 {
            return true;
        }
        for (index, victim) in self.cores.iter().enumerate() {
            let stolen = if index == thief {
                0
            } else {
                victim.queue.take(usize::MAX)
            };
            if stolen > 1 {
                self.cores[thief].queue.push(stolen - 1);
            }
            if stolen > 0 {
                return true;
            }
        }
        false
    }

    fn is_work(&self) -> bool {
        !self.injector.is_empty() || self.cores.iter().any(|core| !core.queue.is_empty())
    }

    fn sleep(&self, core: usize) {
        let is_work = || !self.cores[core].mail.is_empty() || self.is_work();
        if self.idle.announce(core, is_work) {
            self.cores[core].interrupt.wait();
        }
        self.idle.retract(core);
    }

    /// A core that found nothing, by the thread that sets the model up.
    fn asleep(&self, core: usize) {
        self.begin(core);
        assert!(self.idle.announce(core, || self.is_work()));
    }

    /// That core, which now wakes by itself and finds something to be busy with.
    fn wakes(&self, core: usize) {
        self.idle.retract(core);
        self.find(core);
    }

    /// That core, which sleeps until it is kicked.
    fn sleeps(&self, core: usize) {
        self.cores[core].interrupt.wait();
        self.wakes(core);
    }

    /// All cores are busy, nobody else does anything.
    fn check(&self) {
        assert!(!self.is_work(), "work is left");
        assert!(self.cores.iter().all(|core| core.mail.is_empty()));
        assert_eq!(self.idle.sleepers(), 0);
        assert_eq!(self.idle.searchers(), 0, "counted as searching, and busy");
    }
}

fn spawn(machine: &Arc<Machine>, act: impl FnOnce(&Machine) + 'static) -> thread::JoinHandle<()> {
    let machine = machine.clone();
    thread::spawn(move || act(&machine))
}

/// Models of more than two threads have so many orders that fewer switches must do.
fn many_threads(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(2, |bound| bound.min(2)));
    builder.check(model);
}

// ---- work for any core ----

#[test]
fn work_against_a_core_that_falls_asleep() {
    loom::model(|| {
        let machine = Machine::new(1);
        let core = spawn(&machine, |machine| machine.serve(0));
        machine.inject();
        core.join().unwrap();
        machine.check();
    });
}

/// One core does both pieces, one after the other.
#[test]
fn two_pieces_from_two_for_one_core() {
    many_threads(|| {
        let machine = Machine::new(1);
        let core = spawn(&machine, |machine| {
            machine.serve(0);
            machine.serve(0);
        });
        let other = spawn(&machine, Machine::inject);
        machine.inject();
        other.join().unwrap();
        core.join().unwrap();
        machine.check();
    });
}

#[test]
fn two_pieces_for_two_cores_that_fall_asleep() {
    many_threads(|| {
        let machine = Machine::new(2);
        let cores = [0, 1].map(|core| spawn(&machine, move |machine| machine.serve(core)));
        machine.inject();
        machine.inject();
        cores.into_iter().for_each(|core| core.join().unwrap());
        machine.check();
    });
}

/// One core sleeps, one searches: whoever brings a second piece kicks nobody,
/// as one searches; that one finds the first, and kicks the other for the second.
#[test]
fn a_searcher_that_finds_other_work_kicks_the_next() {
    many_threads(|| {
        let machine = Machine::new(2);
        machine.asleep(1);
        machine.begin(0);
        machine.injector.push(1);
        let searcher = spawn(&machine, |machine| machine.find(0));
        let sleeper = spawn(&machine, |machine| machine.sleeps(1));
        machine.inject();
        searcher.join().unwrap();
        sleeper.join().unwrap();
        machine.check();
    });
}

/// Two search; one takes all that there is and leaves a piece in its own queue.
/// If it is not the last that searches, the other must see that piece; if it
/// is, it must see the other asleep.
#[test]
fn a_searcher_leaves_work_for_the_other() {
    loom::model(|| {
        let machine = Machine::new(3);
        // A third is busy, and had two.
        machine.cores[2].queue.push(2);
        machine.begin(0);
        machine.begin(1);
        let other = spawn(&machine, |machine| machine.find(1));
        machine.find(0);
        other.join().unwrap();
        machine.check();
    });
}

// ---- work for one core ----

#[test]
fn mail_against_a_core_that_falls_asleep() {
    loom::model(|| {
        let machine = Machine::new(1);
        let core = spawn(&machine, |machine| machine.serve(0));
        machine.post(0);
        core.join().unwrap();
        machine.check();
    });
}

/// Mail kicks a core, which counts as searching then: work for any core may rely on it.
#[test]
fn mail_for_one_core_and_work_for_the_other() {
    many_threads(|| {
        let machine = Machine::new(2);
        machine.asleep(0);
        machine.asleep(1);
        machine.cores[0].mail.push(1);
        let cores = [0, 1].map(|core| spawn(&machine, move |machine| machine.sleeps(core)));
        machine.posted(0);
        machine.inject();
        cores.into_iter().for_each(|core| core.join().unwrap());
        machine.check();
    });
}

// ---- whom to kick has woken by itself ----

/// A core wakes by itself while it is claimed, and has something else to be
/// busy with; another falls asleep meanwhile. A second piece relied on the first
/// notifier, which seemed to search: that one must look again.
#[test]
fn the_only_sleeper_wakes_by_itself_against_work() {
    many_threads(|| {
        let machine = Machine::new(2);
        machine.asleep(0);
        // Its own business.
        machine.cores[0].mail.push(1);
        let first = spawn(&machine, |machine| machine.kick(machine.idle.notify()));
        let early = spawn(&machine, |machine| machine.wakes(0));
        let late = spawn(&machine, |machine| machine.serve(1));
        early.join().unwrap();
        machine.inject();
        first.join().unwrap();
        late.join().unwrap();
        machine.check();
    });
}

/// The same, where the first is mail for the core that wakes by itself.
#[test]
fn the_only_sleeper_wakes_by_itself_against_mail() {
    many_threads(|| {
        let machine = Machine::new(2);
        machine.asleep(0);
        machine.asleep(1);
        machine.cores[0].mail.push(1);
        let first = spawn(&machine, |machine| machine.posted(0));
        let early = spawn(&machine, |machine| machine.wakes(0));
        let late = spawn(&machine, |machine| machine.sleeps(1));
        machine.inject();
        first.join().unwrap();
        early.join().unwrap();
        late.join().unwrap();
        machine.check();
    });
}
