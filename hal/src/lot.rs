//! The lot: where cores wait that have nothing to do.
//!
//! Whoever has work for whole cores, as the executor has for its workers,
//! claims some, gives each a job, and finds them back here when it has returned.
//! A core that waits sleeps until it is kicked.
//!
//! A core is in the lot from its arrival on ([`cores::Arrival`]), even before
//! it calls [`wait`], so that whoever sees it up can claim it. And it arrives
//! only when its traps and its interrupt controller are ready (`come_up` in
//! boot), so the kick that comes with a job finds somebody to take it. The boot
//! core is not in the lot, unless it calls [`wait`] in the end.
//!
//! On the host, [`claim`] makes threads to play cores, as many as it lacks;
//! they stay and are claimed again. There is one lot for the process, of up to 32. They belong to no machine (they are not
//! [`cores::online`], nobody waits for them to flush), but are cores in all
//! else: kicks, timers, contexts, a number that no other thread has.

use crate::{
    arch, clock, context,
    cores::{self, CoreSet, MAX_CORES},
    irq, preempt,
    sync::Lock,
};
use core::{
    ptr,
    sync::atomic::{AtomicU64, Ordering::*},
};

/// Cores that nobody has claimed, one bit each. Says nothing of those that are not up.
static FREE: AtomicU64 = AtomicU64::new(arch::FREE_AT_START.0);

/// What one core is to do.
struct Slot {
    /// Written by who has claimed the core, taken by the core.
    given: Lock<Given>,
    /// How many jobs have returned. Written by the core.
    returned: AtomicU64,
}

struct Given {
    /// The job that waits for the core.
    job: Option<(fn(usize), usize)>,
    /// How many there were, with this one.
    count: u64,
}

static SLOTS: [Slot; MAX_CORES] = [const {
    Slot {
        given: Lock::new(Given {
            job: None,
            count: 0,
        }),
        returned: AtomicU64::new(0),
    }
}; MAX_CORES];

/// Cores that wait.
pub fn free() -> CoreSet {
    // Acquire pairs with the release in `give_back`.
    CoreSet(FREE.load(Acquire) & arch::usable().0)
}

/// Takes up to `most` cores out of the lot, lowest numbers first. They are the
/// caller's until their jobs return or it gives them back. On the host, threads
/// are made to play those that are lacking.
#[must_use = "a core that is claimed and forgotten never works again"]
pub fn claim(most: usize) -> CoreSet {
    let usable = arch::usable().0;
    let mut claimed = CoreSet::EMPTY;
    // Acquire pairs with the release in `give_back`: what the last job did is seen.
    let _ = FREE.fetch_update(Acquire, Relaxed, |free| {
        claimed = CoreSet(free & usable).iter().take(most).collect();
        Some(free & !claimed.0)
    });
    let added = core::iter::from_fn(arch::add_core).take(most - claimed.len());
    CoreSet(claimed.0 | added.collect::<CoreSet>().0)
}

/// How many cores somebody takes who has no reason for another number, its own
/// included: all of the machine; on the host, where threads play them, as many as the process may run at once.
pub fn usual() -> usize {
    arch::usual()
}

/// Puts claimed cores back that were not run.
pub fn give_back(cores: CoreSet) {
    // Release pairs with the acquire in `claim` and `free`.
    let before = FREE.fetch_or(cores.0, Release);
    assert_eq!(before & cores.0, 0, "a core was given back that is free");
}

/// A job that was given to a core.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    core: usize,
    number: u64,
}

impl Run {
    /// Whether the job has returned and its core gone back to the lot, where
    /// somebody may have claimed it since.
    pub fn is_over(self) -> bool {
        // Acquire pairs with the release in `come_back`.
        SLOTS[self.core].returned.load(Acquire) >= self.number
    }

    /// Waits until it is over, awake: for when the job is about to return, and has said so.
    pub fn wait(self) {
        while !self.is_over() {
            crate::pause();
        }
    }
}

/// Runs `job(argument)` on a claimed core, which goes back to the lot when it returns.
///
/// The job begins with interrupts enabled, and no guard, in the core's first
/// context. It ends so too, on the same core. What it kept in `cores::local`
/// it must not free before it has set that to null: interrupts look there.
pub fn run(core: usize, job: fn(usize), argument: usize) -> Run {
    assert!(
        FREE.load(Relaxed) & (1 << core) == 0,
        "core {core} was not claimed"
    );
    let mut given = SLOTS[core].given.lock();
    assert!(given.job.is_none(), "core {core} has a job already");
    given.job = Some((job, argument));
    given.count += 1;
    let number = given.count;
    drop(given);
    cores::kick(core);
    Run { core, number }
}

/// What a core does from the time it is up.
pub fn wait() -> ! {
    let core = cores::this_core();
    // All others have been in the lot since they arrived, and may be claimed by now.
    if core == 0 {
        give_back(CoreSet(1));
    }
    serve(core)
}

/// Runs the jobs of this core as they come.
pub(crate) fn serve(core: usize) -> ! {
    irq::enable_each_core();
    loop {
        // Masked before the look: a kick that comes after it is still there for the sleep to end.
        let masked = irq::mask();
        let Some((job, argument)) = SLOTS[core].given.lock().job.take() else {
            irq::wait(&masked);
            continue;
        };
        drop(masked);
        job(argument);
        come_back(core);
    }
}

/// A job has returned: this core is as it was before, and free.
fn come_back(core: usize) {
    assert!(
        cores::this_core() == core && irq::are_enabled() && preempt::is_allowed(),
        "a job must end on its core, with interrupts enabled and no guard"
    );
    clock::disarm();
    cores::set_local(ptr::null_mut());
    context::current().forget_task();
    give_back(CoreSet(1 << core));
    let returned = &SLOTS[core].returned;
    // Release pairs with the acquire in `Run::is_over`. Last: who sees it may claim the core at once.
    returned.store(returned.load(Relaxed) + 1, Release);
}
