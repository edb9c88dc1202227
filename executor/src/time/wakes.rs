//! Wakers that wait for a moment without a node of their own: what
//! `embassy-time` asks for, whose timers have no place for one.
//!
//! There is one entry for each task, with the earliest of the moments it asked
//! for: once woken, it polls all of its timers, and they ask again. Finding that
//! entry is a search through all that wait on this core, so this is for the
//! dozens of tasks that crates bring along; `sleep` has no such limit.

use super::wheel::NEVER;
use crate::shim::{Lock, wake};
use alloc::vec::Vec;
use core::{
    array, mem,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::Waker,
};

/// How many are woken each time the lock is taken, at most.
const BATCH: usize = 32;

/// The waiting wakers of one core.
pub struct Wakes {
    /// Last to be woken first. No two would wake the same task.
    waiting: Lock<Vec<Wake>>,
    /// When the first is to be woken. Written under the lock, read by anyone;
    /// relaxed, for it says when to come and look, and nothing depends on it.
    next: AtomicU64,
}

struct Wake {
    at: u64,
    waker: Waker,
}

impl Wakes {
    pub const fn new() -> Self {
        Self {
            waiting: Lock::new(Vec::new()),
            next: AtomicU64::new(NEVER),
        }
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Wakes the waker at that moment, or earlier if it was asked for that. True:
    /// it is the earliest now.
    pub fn schedule(&self, at: u64, waker: &Waker) -> bool {
        if at == NEVER {
            return false;
        }
        // Foreign code and the allocator are called without the lock: what is not needed of
        // these is dropped after unlocking.
        let clone = waker.clone();
        let mut room = Vec::new();
        loop {
            let mut waiting = self.waiting.lock();
            let known = waiting.iter().position(|wake| wake.waker.will_wake(waker));
            let wake = match known {
                Some(known) if waiting[known].at <= at => return false,
                Some(known) => waiting.remove(known).at(at),
                None => {
                    let length = waiting.len();
                    if length == waiting.capacity() {
                        if length >= room.capacity() {
                            drop(waiting);
                            room = Vec::new();
                            if room.try_reserve_exact(length * 2 + 8).is_err() {
                                // It is told too early, again and again, until there is memory.
                                clone.wake();
                                return false;
                            }
                            continue;
                        }
                        room.append(&mut waiting);
                        mem::swap(&mut room, &mut waiting);
                    }
                    Wake { at, waker: clone }
                }
            };
            // Before those of the same moment, as the last is woken first.
            let place = waiting.partition_point(|other| other.at > at);
            waiting.insert(place, wake);
            let is_earliest = at < self.next();
            self.note_next(&waiting);
            return is_earliest;
        }
    }

    /// Wakes all whose moment has come; how many those were.
    pub fn expire(&self, now: u64) -> usize {
        let mut woken = 0;
        loop {
            let mut wakers: [Option<Waker>; BATCH] = array::from_fn(|_| None);
            {
                let mut waiting = self.waiting.lock();
                for waker in &mut wakers {
                    *waker = waiting.pop_if(|wake| wake.at <= now).map(|wake| wake.waker);
                }
                self.note_next(&waiting);
            }
            let is_more = wakers[BATCH - 1].is_some();
            for waker in wakers.into_iter().flatten() {
                wake(waker);
                woken += 1;
            }
            if !is_more {
                return woken;
            }
        }
    }

    /// Forgets all.
    pub fn forget(&self) {
        let waiting = {
            let mut waiting = self.waiting.lock();
            self.next.store(NEVER, Relaxed);
            mem::take(&mut *waiting)
        };
        // Foreign code, without the lock.
        drop(waiting);
    }

    fn note_next(&self, waiting: &[Wake]) {
        let next = waiting.last().map_or(NEVER, |wake| wake.at);
        self.next.store(next, Relaxed);
    }
}

impl Wake {
    fn at(self, at: u64) -> Self {
        Self { at, ..self }
    }
}
