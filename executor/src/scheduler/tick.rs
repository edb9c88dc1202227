//! The tick: a core that has something to do is interrupted each millisecond,
//! one that has not is left alone.
//!
//! A tick that finds the same poll as the one before tells it so: our own
//! futures then give way once ([`poll_proceed`](crate::task::poll_proceed)),
//! and what it has woken is shown to other cores. One that finds it for the
//! whole of its quantum, while there is something else for the core to do,
//! preempts it; and so does any interrupt that finds something of a higher priority in the core's queues: at the end of the interrupt the core goes on with its loop in
//! another context, and the poll, with its stack, goes to the back of the queue.
//!
//! A poll is not preempted
//! - under a guard: it gives way itself as it drops the last one;
//! - if there is no spare context: that is counted;
//! - outside of a poll, in the loop: it is about to look for itself.

use super::{
    context::Context,
    lost::{Cause, abandon},
    mail::{INBOX, TIMER, URGENT},
    switching,
    worker::{KINDS, Worker},
};
use crate::{
    Priority,
    task::{cell::Header, waker},
};
use core::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use hal::{context::ContextBlock, cores, preempt, traps::Switch};

/// Never.
const NEVER: u64 = u64::MAX;

/// What a core knows of its ticks. For its interrupts, and its owner with interrupts masked.
pub(super) struct Ticker {
    /// When the next is due.
    at: Cell<u64>,
    /// The core has something to do.
    is_awake: Cell<bool>,
    /// The turn that the last one found.
    turn: Cell<u64>,
    /// How many in a row found that.
    seen: Cell<u32>,
    /// This interrupt is to end in another context.
    is_due: Cell<bool>,
    /// How many there were.
    count: Cell<u64>,
}

impl Ticker {
    pub(super) const fn new() -> Self {
        Self {
            at: Cell::new(NEVER),
            is_awake: Cell::new(false),
            turn: Cell::new(0),
            seen: Cell::new(0),
            is_due: Cell::new(false),
            count: Cell::new(0),
        }
    }
}

impl Worker {
    /// The core has something to do from here on.
    pub(super) fn start_ticks(&self) {
        let _masked = hal::irq::mask();
        if self.ticker.is_awake.replace(true) {
            return;
        }
        let next = |period| self.shared().clock.now() + period;
        self.set_tick(self.tick_period().map_or(NEVER, next));
        if self.next_tick() != NEVER {
            self.arm();
        }
    }

    /// The core is about to sleep, or to serve no more; who calls this sets its timer.
    pub(super) fn stop_ticks(&self, to_sleep: bool) {
        self.ticker.is_awake.set(false);
        self.ticker.at.set(NEVER);
        self.watch_asleep(to_sleep);
    }

    fn set_tick(&self, at: u64) {
        self.ticker.at.set(at);
        self.watch_awake(at);
    }

    /// When the next is due, of these or of the watch.
    pub(super) fn next_tick(&self) -> u64 {
        self.ticker.at.get().min(self.watch.at.get())
    }

    /// Whether this core has something to do.
    pub(super) fn is_awake(&self) -> bool {
        self.ticker.is_awake.get()
    }

    /// Ticks so far.
    pub(super) fn ticks(&self) -> u64 {
        self.ticker.count.get()
    }

    /// Whether there will be more.
    pub(super) fn ticks_now(&self) -> bool {
        self.ticker.at.get() != NEVER && !torture::is_on()
    }

    /// None: this runtime does not tick.
    fn tick_period(&self) -> Option<u64> {
        if torture::is_on() {
            return Some(torture::next());
        }
        let config = &self.shared().config;
        (hal::PREEMPTS && !config.virtual_clock && config.quantum.is_some())
            .then_some(config.tick.as_nanos() as u64)
    }

    /// Ticks that a poll may be seen for.
    fn quantum(&self) -> u32 {
        let config = &self.shared().config;
        let quantum = config.quantum.unwrap_or_default().as_nanos();
        (quantum / config.tick.as_nanos()).max(1) as u32
    }

    /// This core's timer has expired.
    fn on_timer(&self) {
        let now = self.shared().clock.now();
        let timer = self.next_timer();
        if timer <= now {
            // The loop looks which tasks that is for.
            self.post_mail(TIMER);
        }
        if self.ticker.at.get() <= now {
            self.tick(now);
            let period = self.tick_period();
            self.set_tick(period.map_or(NEVER, |period| now + period));
        }
        self.on_watch_timer(now);
        // One that is due is the loop's, which sets the timer for the next.
        let timer = if timer <= now { NEVER } else { timer };
        let next = timer.min(self.next_tick());
        self.is_armed.set(next != NEVER);
        if next != NEVER {
            self.shared().clock.arm(next);
        }
    }

    fn tick(&self, now: u64) {
        let ticker = &self.ticker;
        ticker.count.set(ticker.count.get() + 1);
        self.counters.0.ticks.add(1);
        self.count_time(now);
        self.on_watched_tick(now, self.shared().config.tick.as_nanos() as u64);
        let turn = self.fairness.turn();
        let is_same = ticker.turn.replace(turn) == turn;
        ticker
            .seen
            .set(if is_same { ticker.seen.get() + 1 } else { 0 });
        self.ask_for_spare();
        if torture::is_on() {
            return ticker.is_due.set(true);
        }
        match ticker.seen.get() {
            0 => preempt::set_soft(false),
            seen => {
                preempt::set_soft(true);
                self.show_next();
                ticker
                    .is_due
                    .set(seen >= self.quantum() && self.has_other_work());
            }
        }
    }

    /// A poll that takes for ever is seen to.
    fn count_time(&self, now: u64) {
        // This core serves a worker, so it is not a visitor's.
        if let Some(extra) = waker::current_header().and_then(Header::tracked) {
            Context::current().count_to(extra, now);
            extra.set_core(self.index);
        }
    }

    /// What was woken last waits for a poll that takes long: others may have it.
    fn show_next(&self) {
        // A poll that holds no guard is not in the middle of anything that is the owner's.
        if self.has_next()
            && is_in_poll(hal::context::current())
            && !cfg!(broken = "next_slot_not_shown")
        {
            self.flush();
        }
    }

    /// Whether this core has anything to do but the poll that it is in.
    fn has_other_work(&self) -> bool {
        // What a policy of the user's own has, an interrupt must not ask it.
        self.ready.get() != 0
            || self.has_mail()
            || self.policy().is_some()
            || self.shared().has_injected()
    }

    /// Whether something of a higher level waits for this core than the poll that it is in; as far as an interrupt can see.
    fn is_outranked(&self) -> bool {
        if !self.ticks_now() || self.policy().is_some() {
            return false;
        }
        let Some(task) = waker::current_header() else {
            return false;
        };
        let level = task.state.now().level();
        // Who posts does not say for whom; but hardly anything is below the lowest level.
        let mail = match Priority::from_level(level) {
            Priority::Low => INBOX | TIMER | URGENT,
            Priority::Normal => URGENT,
            Priority::High | Priority::Critical => 0,
        };
        self.ready.get() >> ((level as u32 + 1) * KINDS) != 0 || self.has_mail_of(mail)
    }

    /// The end of an interrupt: the context to go on with, if it is to be another.
    fn preempts(&self, block: &'static ContextBlock) -> Option<Switch> {
        if block.task().is_null() {
            self.ticker.is_due.set(false);
            return None;
        }
        // SAFETY: a poll is in it, as it has a task.
        if unsafe { Context::of_block(block).task() }
            .state
            .now()
            .is_doomed()
            && let Some(switch) = abandon(block, Cause::Doomed)
        {
            return Some(switch);
        }
        let is_due = self.ticker.is_due.take();
        if !is_due && !self.is_outranked() {
            return None;
        }
        if !is_in_poll(block) && !cfg!(broken = "guard_passed_by") {
            preempt::request();
            return None;
        }
        let Some(next) = self.take_spare() else {
            self.counters.0.unpreempted.add(1);
            return None;
        };
        self.counters.0.preemptions.add(1);
        if is_due && !torture::is_on() && !cfg!(broken = "no_fair_turn_after_preemption") {
            // Turns that last a quantum each are few: what waits elsewhere must not wait for 61 of them.
            self.fairness.make_due();
        }
        // SAFETY: what runs on a core that serves a worker runs in the block of a context.
        let context = unsafe { Context::of_block(block) };
        // SAFETY: a spare one is there.
        Some((unsafe { next.as_ref() }.block(), context.left_by_trap()))
    }
}

/// Whether a poll runs in this context that may be left where it is.
pub(super) fn is_in_poll(block: &ContextBlock) -> bool {
    !block.task().is_null() && block.is_free()
}

/// The worker that this interrupt has interrupted.
fn interrupted<'a>() -> Option<&'a Worker> {
    // SAFETY: set while the core serves it, and an interrupt ends before that does.
    unsafe { cores::local().cast::<Worker>().as_ref() }
}

/// This core's timer has expired. In its interrupt.
pub(crate) fn on_timer() {
    if let Some(worker) = interrupted() {
        worker.on_timer();
    }
}

/// The end of an interrupt: the context to go on with, if it is to be another
/// than the one that was interrupted.
pub(crate) fn on_exit(block: &'static ContextBlock) -> Option<Switch> {
    interrupted()?.preempts(block)
}

/// A context has dropped its last guard, and was to be preempted meanwhile.
pub(crate) fn give_way() {
    if waker::current_header().is_some() {
        // Without memory for another stack, nobody else can have the core.
        let _ = switching::suspend(switching::Leave::ToGiveWay);
    }
}

/// A context has dropped its last guard, under which a tick could not look at what this core has to do.
pub(crate) fn after_marked_guard() {
    let is_in_poll = is_in_poll(hal::context::current());
    let _masked = hal::irq::mask();
    // It may be on another core by now; but in its poll, wherever that is.
    if is_in_poll && let Some(worker) = interrupted() {
        worker.on_marked_guard_dropped();
    }
}

/// Preemption at every moment there is, for tests.
pub mod torture {
    use super::*;

    /// State of the random numbers; 0: off.
    static STATE: AtomicU64 = AtomicU64::new(0);
    static SHORTEST: AtomicU64 = AtomicU64::new(0);
    static LONGEST: AtomicU64 = AtomicU64::new(1);

    /// From here on, a core that runs a poll is preempted after a random number of nanoseconds in
    /// these bounds, whether or not there is anything else to do; and again, and again. 0: not any more.
    pub fn start(seed: u64, shortest: u64, longest: u64) {
        SHORTEST.store(shortest, Relaxed);
        LONGEST.store(longest.max(shortest + 1), Relaxed);
        STATE.store(seed, Relaxed);
    }

    /// Whether that is so.
    #[inline]
    pub fn is_on() -> bool {
        STATE.load(Relaxed) != 0
    }

    /// Xorshift. Cores that draw at once may draw the same.
    pub(super) fn next() -> u64 {
        let mut state = STATE.load(Relaxed);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        STATE.store(state.max(1), Relaxed);
        let shortest = SHORTEST.load(Relaxed);
        shortest + state % (LONGEST.load(Relaxed) - shortest)
    }
}
