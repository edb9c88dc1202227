//! What comes to a core from elsewhere: tasks from interrupts and other cores,
//! timers that are due, tasks to free, the end. All of it is announced by bits
//! of one word, which the core looks at once a turn.

use super::{
    policy::Reason,
    registry::Cursor,
    shared::Phase,
    worker::{Worker, release_memory},
};
use crate::{
    Priority,
    queue::Inbox,
    task::{cell::Header, state::Word},
};
use core::{
    ptr::NonNull,
    sync::atomic::{Ordering::*, fence},
};
use hal::cores;

/// There is something in the inbox, or in that for pinned tasks.
pub(super) const INBOX: u32 = 1;
/// A timer is due, or one that is due before all others was put here by another core.
pub(super) const TIMER: u32 = 2;
/// The loop is to return.
pub(crate) const STOP: u32 = 4;
/// There are tasks to free.
const REAP: u32 = 8;
/// The runtime has begun to shut down.
pub(super) const DRAIN: u32 = 16;
/// There is no spare context, or there are more contexts than are kept.
pub(super) const SPARE: u32 = 32;
/// A poll was left for good.
pub(super) const LOST: u32 = 64;
/// Something in there is of more than normal priority.
pub(super) const URGENT: u32 = 256;
/// Somebody who is boosted may wait in a queue of a lower level.
pub(super) const BOOST: u32 = 128;

/// Tasks whose last reference was dropped in an interrupt. Of no runtime: theirs may be shut down.
static REAPER: Inbox<Header> = Inbox::new();

/// Frees a task that nobody refers to, but not in this interrupt.
pub(crate) fn reap_later(task: NonNull<Header>) {
    // SAFETY: nobody refers to it, so it is in no queue.
    unsafe { REAPER.push(task) };
    let worker = cores::local().cast::<Worker>();
    // SAFETY: set while the core serves it, and an interrupt ends before that does. If it serves none,
    // the next core that does will see to it.
    if let Some(worker) = unsafe { worker.as_ref() } {
        worker.post_mail(REAP);
    }
}

/// Frees what interrupts have left.
pub(crate) fn reap() {
    if REAPER.is_empty() {
        return;
    }
    for task in REAPER.take_all() {
        // SAFETY: its last reference was dropped by who put it there.
        unsafe { release_memory(task) };
    }
}

impl Worker {
    /// Tasks for this core from elsewhere. Any core, any context.
    pub(crate) fn post(&self, task: NonNull<Header>, word: Word) {
        let inbox = if word.is_pinned() {
            &self.pinned_inbox.0
        } else {
            &self.inbox.0
        };
        // SAFETY: just woken, so it is in no queue yet.
        if unsafe { inbox.push(task) } {
            self.post_mail(INBOX);
        }
        if word.level() > Priority::Normal as usize {
            self.post_mail(URGENT);
        }
    }

    /// The same from another core: if this one is in a poll that is less urgent, it is to look up.
    pub(crate) fn post_from_afar(&self, task: NonNull<Header>, word: Word) {
        self.post(task, word);
        let is_urgent = word.level() > Priority::Normal as usize
            || word.level() > Priority::Low as usize && self.is_in_low.load(Relaxed);
        // One that nobody serves yet finds it when it begins. If it is just about to begin a poll of low priority, the
        // next tick sees to it.
        if is_urgent && self.is_served.load(Relaxed) {
            cores::kick(self.core());
        }
        self.shared().notify_core(self.index);
    }

    /// Announces something.
    #[inline]
    pub(crate) fn post_mail(&self, what: u32) {
        // Release pairs with the acquire in `open_mail`.
        self.mail.0.fetch_or(what, Release);
    }

    /// Whether there is something. Relaxed: `open_mail` acquires.
    #[inline]
    pub(super) fn has_mail(&self) -> bool {
        self.mail.0.load(Relaxed) != 0
    }

    /// Whether there is some of these.
    pub(super) fn has_mail_of(&self, kinds: u32) -> bool {
        self.mail.0.load(Relaxed) & kinds != 0
    }

    /// Looks after what was posted; whether the loop is to return.
    #[cold]
    pub(super) fn open_mail(&self) -> bool {
        // Acquire pairs with the release in `post_mail`.
        let mail = self.mail.0.swap(0, Acquire);
        if mail & TIMER != 0 {
            self.expire_timers();
        }
        if mail & INBOX != 0 {
            self.drain_inbox();
        }
        if mail & REAP != 0 {
            reap();
        }
        if mail & LOST != 0 {
            self.bury();
        }
        if mail & BOOST != 0 {
            self.refresh_boosts();
        }
        if mail & SPARE != 0 {
            // Without memory there is none; who wants to leave a poll tries again.
            let _ = self.find_spare().and_then(|()| self.find_last());
        }
        if mail & DRAIN != 0 {
            self.enter_phase(self.shared().phase());
        }
        mail & STOP != 0
    }

    fn enter_phase(&self, phase: Phase) {
        self.phase.set(phase);
        self.is_plain.set(false);
        // Ends are counted, and looked at, one by one from here on.
        self.usual_home.set(core::ptr::null());
        if phase == Phase::Cancelling {
            self.cancel_part();
        }
        self.shared().check_drained();
    }

    /// Sorts what came from elsewhere into the levels.
    #[inline(never)]
    pub(super) fn drain_inbox(&self) {
        let mut count = 0;
        for inbox in [&self.inbox.0, &self.pinned_inbox.0] {
            for task in inbox.take_all() {
                // SAFETY: it is queued, so it lives, and it is ours now.
                let word = unsafe { task.as_ref() }.state.now();
                self.push(task, word, Reason::Woken);
                count += u32::from(!word.is_pinned());
            }
        }
        // One of them is for us.
        if count > 1 {
            self.shared().notify();
        }
    }

    /// To the back, by whichever policy there is.
    pub(super) fn push(&self, task: NonNull<Header>, word: Word, reason: Reason) {
        match self.policy() {
            None => self.push_back(task, word),
            Some(policy) => _ = self.push_own(task, policy, reason),
        }
    }

    /// Cancels all tasks that are at home here. No more come.
    pub(super) fn cancel_part(&self) {
        let mut cursor = Cursor::default();
        while let Some(task) = self.registry.next(&mut cursor) {
            if !task.is_main() {
                task.cancel();
            }
        }
    }

    // ---- time ----

    /// The first worker, if nobody serves it and this one has to look after its
    /// timers: what waits for them may be any task, wherever it runs.
    fn ward(&self) -> Option<&Worker> {
        if self.index != 1 {
            return None;
        }
        let first = &self.shared().cores()[0];
        // Relaxed: who changes it sends mail after that.
        (!first.is_served.load(Relaxed)).then_some(first)
    }

    /// When there is a timer to look after; `u64::MAX`: never.
    pub(super) fn next_timer(&self) -> u64 {
        let ward = self.ward().map_or(u64::MAX, |ward| ward.timers.next());
        self.timers.next().min(ward)
    }

    pub(super) fn expire_timers(&self) {
        let now = self.shared().clock.now();
        self.timers.expire(now);
        if let Some(ward) = self.ward() {
            ward.timers.expire(now);
        }
        self.arm();
    }

    /// Another core has put a timer here that is due before all others.
    pub(crate) fn look_at_timers(&self) {
        self.post_mail(TIMER);
        // Its fence pairs with that in `leave_timers`: whoever left is seen to have, or has seen the timer.
        self.shared().notify_core(self.index);
        if self.index == 0 && !self.is_served.load(Relaxed) {
            self.tell_deputy();
        }
    }

    /// Nobody serves this worker for now: its timers are another's.
    pub(super) fn leave_timers(&self) {
        self.is_served.store(false, Relaxed);
        // Pairs with the fence of `notify_core` in `look_at_timers`.
        fence(SeqCst);
        if self.index == 0 && self.timers.next() != u64::MAX {
            self.tell_deputy();
        }
    }

    fn tell_deputy(&self) {
        let shared = self.shared();
        if let Some(deputy) = shared.cores().get(1) {
            deputy.post_mail(TIMER);
            shared.notify_core(deputy.index);
        }
    }

    /// Sets the hardware's timer to the next deadline.
    pub(crate) fn arm(&self) {
        let clock = &self.shared().clock;
        match self.next_timer().min(self.next_tick()) {
            u64::MAX => {
                // What somebody else may have set it to is not ours.
                if self.is_armed.replace(false) {
                    clock.disarm();
                }
            }
            next => {
                self.is_armed.set(true);
                clock.arm(next);
            }
        }
    }
}
