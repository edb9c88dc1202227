//! A core with nothing to do: looks at the injector and at the other cores, and
//! sleeps if there is nothing.

use super::{
    mail,
    worker::{DEQUE, LEVELS, RING, Worker},
};
use crate::{
    task::{TaskId, cell::Header},
    trace,
};
use core::ptr::NonNull;

impl Worker {
    /// Looks at the injector and the other cores; sleeps if there is nothing.
    /// None: there is mail.
    #[cold]
    pub(super) fn search(&self) -> Option<NonNull<Header>> {
        let shared = self.shared();
        self.fairness.publish();
        mail::reap();
        shared.idle.search();
        loop {
            if let Some(task) = self.find() {
                shared.found(self);
                self.start_ticks();
                return Some(task);
            }
            if !self.has_mail() {
                self.sleep();
            }
            if self.has_mail() {
                // The loop opens it; what comes out of it is for us.
                shared.found(self);
                self.start_ticks();
                return None;
            }
        }
    }

    /// Searching, and nothing found: sleeps until there may be something, and
    /// is searching again.
    fn sleep(&self) {
        let shared = self.shared();
        let counters = &self.counters.0;
        trace::event(trace::Kind::Park, || TaskId::NONE);
        let masked = hal::irq::mask();
        // The last look, with interrupts masked: what comes later interrupts the sleep.
        let is_work = || self.has_mail() || shared.has_work(self);
        if shared.idle.announce(self.index, is_work) && !shared.clock.advance(self) {
            counters.fall_asleep(shared.clock.now());
            self.stop_ticks(true);
            self.arm();
            hal::irq::wait(&masked);
            counters.wake_up(shared.clock.now());
        }
        shared.idle.retract(self.index);
        drop(masked);
        // Who has no interrupt that says so finds out here.
        if self.next_timer() <= shared.clock.now() {
            self.post_mail(mail::TIMER);
        }
        self.ask_for_spare();
        trace::event(trace::Kind::Unpark, || TaskId::NONE);
    }

    /// Something to run from the injector or from other cores, best level first.
    fn find(&self) -> Option<NonNull<Header>> {
        if let Some(policy) = self.policy() {
            // Another core may have put something there.
            return self.pick_own(policy).or_else(|| self.take_offer());
        }
        let shared = self.shared();
        for level in (0..LEVELS).rev() {
            if let Some(task) = self.pop_injector(level) {
                return Some(task);
            }
        }
        if !shared.config.stealing {
            return None;
        }
        let cores = shared.cores();
        let start = self.random() as usize % cores.len();
        let (after, before) = (&cores[start..], &cores[..start]);
        let victims = || {
            after
                .iter()
                .chain(before)
                .filter(|victim| victim.index != self.index)
        };
        for level in (0..LEVELS).rev() {
            for victim in victims() {
                if let Some(task) = self.steal(victim, level) {
                    return Some(task);
                }
            }
        }
        // What came for a core that is busy with something else.
        victims()
            .find_map(|victim| self.steal_inbox(victim))
            .or_else(|| self.take_offer())
    }

    fn steal(&self, victim: &Worker, level: usize) -> Option<NonNull<Header>> {
        let (from, to) = (&victim.levels[level], &self.levels[level]);
        let most = self.shared().config.steal_batch;
        let counters = &self.counters.0;
        if from.deque.is_empty() && from.ring.is_empty() {
            return None;
        }
        counters.steals_tried.add(1);
        let deque = || Some((from.deque.steal_into(&to.deque, most)?, DEQUE));
        let ring = || Some((from.ring.steal_into(&to.ring, most)?, RING));
        let ((task, moved), kind) = deque().or_else(ring)?;
        if moved > 1 {
            self.mark(level, kind);
        }
        counters.steals.add(1);
        counters.stolen.add(moved as u64);
        // SAFETY: it is queued, and out of the queue it was in: it lives, and is ours.
        trace::event(trace::Kind::Steal, || unsafe { task.as_ref() }.id());
        Some(task)
    }

    fn steal_inbox(&self, victim: &Worker) -> Option<NonNull<Header>> {
        if victim.inbox.0.is_empty() {
            return None;
        }
        self.counters.0.steals_tried.add(1);
        let mut tasks = victim.inbox.0.take_all();
        let first = tasks.pop_front()?;
        let mut moved = 1;
        for task in tasks {
            // SAFETY: it is queued, so it lives, and it is ours now.
            let word = unsafe { task.as_ref() }.state.now();
            self.push_back(task, word);
            moved += 1;
        }
        self.counters.0.steals.add(1);
        self.counters.0.stolen.add(moved);
        Some(first)
    }

    /// One from the injector, and some more into the ring.
    pub(super) fn pop_injector(&self, level: usize) -> Option<NonNull<Header>> {
        let shared = self.shared();
        let injector = &shared.injectors[level];
        if injector.is_empty() {
            return None;
        }
        if let Some(policy) = self.policy() {
            return self.pick_own(policy);
        }
        let most = shared.share_of(injector.len());
        let (task, more) = injector.pop_into(&self.levels[level].ring, most)?;
        if more > 0 {
            self.mark(level, RING);
            shared.notify();
        }
        Some(task)
    }

    /// Whether there is something that another core could take, or this one.
    pub(super) fn has_stealable(&self) -> bool {
        !self.inbox.0.is_empty()
            || !self.offers.is_empty()
            || self
                .levels
                .iter()
                .any(|level| !level.deque.is_empty() || !level.ring.is_empty())
    }

    /// Whether there is something that this core could take by its policy.
    pub(super) fn has_own(&self) -> bool {
        self.policy().is_some_and(|policy| !policy.is_empty())
    }

    /// Xorshift.
    fn random(&self) -> u32 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        random
    }
}
