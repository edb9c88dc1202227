//! The way of a task that has become runnable to a queue.

use super::{policy::Reason, worker::Worker};
use crate::task::{cell::Header, state::Word};
use core::ptr::NonNull;
use hal::{cores, preempt};

/// Puts a task that was just woken into a queue. Any core, any context.
#[inline]
pub(crate) fn schedule(header: &Header, word: Word) {
    let guard = preempt::guard();
    // SAFETY: whoever wakes a task holds a reference to it, and with it to its home.
    let home = unsafe { header.home.as_ref() };
    match Worker::here(&guard) {
        Some(here) if here.takes_wakes_of(home) && !word.is_pinned() => {
            here.push_woken(header.into(), word);
        }
        here => schedule_elsewhere(header.into(), word, home, here),
    }
    guard.release(());
}

/// Pinned, from an interrupt, from outside, or by a policy of the user's own.
#[inline(never)]
fn schedule_elsewhere(task: NonNull<Header>, word: Word, home: &Worker, here: Option<&Worker>) {
    let shared = home.shared();
    let here = here.filter(|here| here.shared == home.shared);
    if let Some(core) = word.pinned_to() {
        let target = &shared.cores()[core];
        match here {
            Some(here) if core::ptr::eq(here, target) => match here.policy() {
                None => here.push_back(task, word),
                Some(policy) => here.push_custom(task, policy, Reason::Woken),
            },
            _ => {
                target.post_from_afar(task, word);
            }
        }
        return;
    }
    if let Some(here) = here {
        let policy = here.policy().expect("else it was the usual case");
        return here.push_custom(task, policy, Reason::Woken);
    }
    match interrupted(home) {
        Some(here) => {
            here.post(task, word);
            // If this core was asleep, the interrupt has woken it, and it looks at its mail.
            if shared.idle.sleepers() & (1 << here.index) == 0 {
                shared.notify();
            }
        }
        None => {
            shared.inject(task, word);
        }
    }
}

/// The worker that this interrupt interrupted, if it is one of the task's runtime.
fn interrupted(home: &Worker) -> Option<&Worker> {
    let worker = cores::local().cast::<Worker>();
    // SAFETY: set while the core serves it, and an interrupt ends before that does.
    let worker = unsafe { worker.as_ref() }?;
    (worker.shared == home.shared).then_some(worker)
}
