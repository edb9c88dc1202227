//! A core under a policy of the user's own: what goes to it, and what comes of it.
//!
//! A policy is safe code that anybody may write, and what it is given can be
//! brought anywhere. So nothing here relies on it: a task that comes out of one
//! on a core that may not run it goes on to the core that may.

use super::{
    policy::{Policy, Reason, Runnable},
    worker::{Level, Worker},
};
use crate::task::cell::Header;
use core::ptr::NonNull;

impl Worker {
    /// A task for the policy, from this core; others are told if they can take it.
    pub(super) fn push_custom(&self, task: NonNull<Header>, policy: &dyn Policy, reason: Reason) {
        if self.push_own(task, policy, reason) && policy.is_shared() {
            self.shared().notify();
        }
    }

    /// A task for the policy, from this core; false: for this core only.
    pub(super) fn push_own(
        &self,
        task: NonNull<Header>,
        policy: &dyn Policy,
        reason: Reason,
    ) -> bool {
        // SAFETY: it is queued, so it lives, and it is ours now.
        let word = unsafe { task.as_ref() }.state.now();
        if word.was_cancelled() {
            // The policy may have dropped it, and would again, and again while its finalizers run.
            self.push_pinned(task, word.level());
            return false;
        }
        if word.is_pinned() && policy.is_shared() {
            // Another core would get it, and could not run it.
            self.push_back(task, word);
            return false;
        }
        // SAFETY: a queued task that nobody else has.
        policy.push(unsafe { Runnable::new(task) }, reason);
        true
    }

    /// The next task by the policy or, every other turn, of those that do not go through it.
    pub(super) fn pick_own(&self, policy: &dyn Policy) -> Option<NonNull<Header>> {
        self.take_injected(policy);
        if self.fairness.alternates() {
            self.pop_bound().or_else(|| self.pop_own(policy))
        } else {
            self.pop_own(policy).or_else(|| self.pop_bound())
        }
    }

    /// What does not go through the policy, the best level first.
    fn pop_bound(&self) -> Option<NonNull<Header>> {
        // SAFETY: the owner.
        let pop = |level: &Level| unsafe { (*level.pinned.get()).pop_front() };
        self.levels.iter().rev().find_map(pop)
    }

    fn pop_own(&self, policy: &dyn Policy) -> Option<NonNull<Header>> {
        loop {
            let task = policy.pop()?.into_inner();
            // SAFETY: it is queued, so it lives, and with it its home.
            let (word, home) = unsafe { (task.as_ref().state.now(), task.as_ref().home.as_ref()) };
            let is_elsewhere = word.pinned_to().is_some_and(|core| core != self.index);
            if home.shared == self.shared && !is_elsewhere {
                return Some(task);
            }
            home.shared().inject(task, word);
        }
    }

    /// This core's share of what came from outside goes through the policy like all else.
    fn take_injected(&self, policy: &dyn Policy) {
        let shared = self.shared();
        for injector in shared.injectors.iter().rev() {
            if injector.is_empty() {
                continue;
            }
            for _ in 0..shared.share_of(injector.len()) {
                let Some(task) = injector.pop() else {
                    break;
                };
                self.push_own(task, policy, Reason::Woken);
            }
            shared.notify();
        }
    }
}
