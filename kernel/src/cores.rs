//! What cores do: sleep, until there is a job for them.
//!
//! A job is a function that every core runs once. That is enough for tests and
//! the tour; the executor brings real work.

use core::sync::atomic::{AtomicUsize, Ordering::*};
use hal::{
    cores::{self, MAX_CORES},
    irq,
    sync::Lock,
};

/// Work for all cores, on the stack of the core that hands it out.
struct Job<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    /// Cores that have not finished.
    left: AtomicUsize,
    /// Who waits.
    origin: usize,
}

/// A job that is waited for, without its lifetime.
#[derive(Clone, Copy)]
struct JobPointer(*const Job<'static>);
// SAFETY: a job is shared by design; `on_all` keeps it alive until every core is done with it.
unsafe impl Send for JobPointer {}

static JOBS: [Lock<Option<JobPointer>>; MAX_CORES] = [const { Lock::new(None) }; MAX_CORES];

/// Runs `work(core)` on every core that is up, and returns when all are done.
/// One at a time, and not from an interrupt.
pub fn on_all(work: &(dyn Fn(usize) + Sync)) {
    let origin = cores::this_core();
    let others = cores::online().without(origin);
    let job = Job {
        work,
        left: AtomicUsize::new(others.len()),
        origin,
    };
    let pointer = JobPointer((&raw const job).cast());
    for core in others.iter() {
        let before = JOBS[core].lock().replace(pointer);
        assert!(before.is_none(), "one job at a time");
        cores::kick(core);
    }
    work(origin);
    loop {
        let masked = irq::mask();
        // Acquire pairs with the release in `run_job`: what the others did is seen.
        if job.left.load(Acquire) == 0 {
            return;
        }
        // The last core kicks; masked since the look, so the kick is not missed.
        irq::wait(&masked);
    }
}

/// Runs the job that waits for this core, if there is one.
fn run_job(core: usize) -> bool {
    let Some(JobPointer(job)) = JOBS[core].lock().take() else {
        return false;
    };
    // SAFETY: `on_all` does not return, so the job lives, before `left` is 0; this core counts in it.
    let job = unsafe { &*job };
    let origin = job.origin;
    (job.work)(core);
    // Release pairs with the acquire in `on_all`. The job may be gone from here on.
    if job.left.fetch_sub(1, Release) == 1 {
        cores::kick(origin);
    }
    true
}

/// What a core does from the time it is up.
pub fn idle() -> ! {
    irq::enable_each_core();
    let core = cores::this_core();
    loop {
        if run_job(core) {
            continue;
        }
        let masked = irq::mask();
        // Look again: a job that came before the mask has sent its kick already.
        if JOBS[core].lock().is_none() {
            irq::wait(&masked);
        }
    }
}
