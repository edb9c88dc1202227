//! Work for all cores at once: a function that each runs once. Where a runtime
//! has the cores, as a task on each; where none has, as in most tests, as a job.

use alloc::vec::Vec;
use core::{
    future::Future,
    sync::atomic::{AtomicUsize, Ordering::*},
};
use executor::{stats, task::Builder};
use hal::{cores, irq, lot};

/// Runs what `work(index)` makes as a task on each core of the runtime that
/// this runs in, all at once, and returns when all are done, with what they
/// returned. The runtime numbers its cores without holes, from 0.
pub async fn on_each<F>(name: &'static str, work: impl Fn(usize) -> F) -> Vec<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let spawn = |index| Builder::new().name(name).core(index).spawn(work(index));
    let count = stats::stats().cores.len();
    let tasks: Vec<_> = (0..count).map(spawn).collect();
    let mut outputs = Vec::with_capacity(count);
    for task in tasks {
        outputs.push(task.await.expect("nobody cancels it"));
    }
    outputs
}

/// Work for all cores, on the stack of the core that hands it out.
struct Job<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    /// Cores that have not finished.
    left: AtomicUsize,
    /// Who waits.
    origin: usize,
}

/// Runs `work(core)` on every core that is up, and returns when all are done.
/// One at a time, and not from an interrupt.
pub fn on_all(work: &(dyn Fn(usize) + Sync)) {
    let origin = cores::this_core();
    let others = cores::online().without(origin);
    assert_eq!(lot::claim(others.len()), others, "one job at a time");
    let job = Job {
        work,
        left: AtomicUsize::new(others.len()),
        origin,
    };
    for core in others.iter() {
        lot::run(core, run_job, (&raw const job).expose_provenance());
    }
    work(origin);
    loop {
        let masked = irq::mask();
        // Acquire pairs with the release in `run_job`: what the others did is seen.
        if job.left.load(Acquire) == 0 {
            break;
        }
        // The last core kicks; masked since the look, so the kick is not missed.
        irq::wait(&masked);
    }
    // They are on their way back; whoever calls this next finds them there.
    while lot::free().0 & others.0 != others.0 {
        hal::pause();
    }
}

/// Does this core's part of a job.
fn run_job(job: usize) {
    // SAFETY: `on_all` does not return, so the job lives, before `left` is 0; this core counts in it.
    let job = unsafe { &*core::ptr::with_exposed_provenance::<Job<'_>>(job) };
    let origin = job.origin;
    (job.work)(cores::this_core());
    // Release pairs with the acquire in `on_all`. The job may be gone from here on.
    if job.left.fetch_sub(1, Release) == 1 {
        cores::kick(origin);
    }
}

/// What a core does from the time it is up: waits in the lot for jobs. A
/// function of the kernel's own, so that a backtrace says what the core did.
pub fn idle() -> ! {
    lot::wait()
}
