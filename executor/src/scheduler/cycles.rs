//! Tasks that wait for each other's locks, in a circle.

use super::shared::Shared;
use crate::{
    Runtime,
    sync::waits::{self, Loan},
    task::{Task, TaskId},
};
use alloc::vec::Vec;

impl Shared {
    fn lock_cycle(&self) -> Option<Vec<TaskId>> {
        let mut loans = Vec::new();
        waits::loans(self, &mut loans).ok()?;
        let circle = find(loans)?;
        // What they know of who has the locks may be old: they look again, and who asks the next time knows better.
        waits::wake_those(&circle, self);
        Some(circle)
    }
}

/// A circle of those who wait, each for the next, and the last for the first.
fn find(mut loans: Vec<Loan>) -> Option<Vec<TaskId>> {
    // Who waits for somebody who waits for nobody is in none; and so on.
    loop {
        let mut waiting: Vec<TaskId> = loans.iter().map(|loan| loan.from).collect();
        waiting.sort_unstable();
        let before = loans.len();
        loans.retain(|loan| waiting.binary_search(&loan.to).is_ok());
        if loans.len() == before {
            break;
        }
    }
    // From here on, whoever one comes to waits for somebody.
    let mut path = Vec::new();
    let mut next = loans.first()?.from;
    loop {
        if let Some(begin) = path.iter().position(|&task| task == next) {
            let mut circle = path.split_off(begin);
            // Always the same one first, so that the same circle is known again.
            let first = (0..circle.len()).min_by_key(|&index| circle[index])?;
            circle.rotate_left(first);
            return Some(circle);
        }
        path.push(next);
        next = loans.iter().find(|loan| loan.from == next)?.to;
    }
}

impl Runtime {
    /// Tasks that wait for each other's locks, in a circle: each for one that the next has, the last for one of the first. If the
    /// same is still so after a while, they wait for ever, unless a wait of theirs has a time limit, or is one of several at once.
    pub fn lock_cycle(&self) -> Option<Vec<TaskId>> {
        self.shared().lock_cycle()
    }
}

/// [`Runtime::lock_cycle`] of the runtime that this runs in.
///
/// # Panics
/// Where none runs.
#[track_caller]
pub fn lock_cycle() -> Option<Vec<TaskId>> {
    crate::runtime::with_current(Shared::lock_cycle)
}

impl Task {
    /// Addresses in the code: where it waits in the middle of its poll, who has called that, and so on. Empty if it is not in the
    /// middle of one. If it goes on meanwhile, it may be anything.
    pub fn backtrace(&self) -> Vec<usize> {
        const DEEPEST: usize = 64;
        let header = self.header();
        // SAFETY: a task's home lives as long as the task.
        let shared = unsafe { header.home.as_ref() }.shared();
        let mut steps = Vec::with_capacity(DEEPEST);
        shared.contexts.each(|context| {
            if context.polls(header) && !context.header().state.now().is_running() {
                context.backtrace(|address| {
                    if steps.len() < DEEPEST {
                        steps.push(address);
                    }
                });
            }
        });
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(loans: &[(u64, u64)]) -> Option<Vec<u64>> {
        let loan = |&(from, to)| Loan {
            from: TaskId::from_u64(from),
            to: TaskId::from_u64(to),
            less: 0,
        };
        let found = find(loans.iter().map(loan).collect())?;
        Some(found.into_iter().map(TaskId::as_u64).collect())
    }

    #[test]
    fn a_circle_is_found_among_chains_and_trees() {
        assert_eq!(circle(&[]), None);
        assert_eq!(circle(&[(1, 2), (2, 3), (4, 3)]), None);
        assert_eq!(circle(&[(2, 1), (1, 2)]), Some(vec![1, 2]));
        assert_eq!(
            circle(&[(9, 7), (5, 6), (6, 7), (7, 5), (8, 5)]),
            Some(vec![5, 6, 7])
        );
        // One who waits for several.
        assert_eq!(
            circle(&[(1, 2), (1, 3), (3, 4), (4, 1)]),
            Some(vec![1, 3, 4])
        );
    }

    #[test]
    fn the_same_circle_is_known_again() {
        let steps = [(1, 2), (2, 3), (3, 1)];
        for first in 0..3 {
            let mut steps = steps;
            steps.rotate_left(first);
            assert_eq!(circle(&steps), Some(vec![1, 2, 3]));
        }
    }
}
