//! What the image does when hal reports a trap.

use crate::failure;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use hal::{
    context::{ContextBlock, Frame},
    cores::{self, MAX_CORES},
    irq::Line,
    traps::{Fault, Switch, Upcalls},
};

/// Counts of one core; written by its interrupts.
#[repr(align(128))]
#[derive(Default)]
pub struct Counts {
    /// Timer interrupts.
    pub timers: AtomicU64,
    /// Kicks from other cores.
    pub kicks: AtomicU64,
    /// Device interrupts.
    pub lines: AtomicU64,
}

static COUNTS: [Counts; MAX_CORES] = [const {
    Counts {
        timers: AtomicU64::new(0),
        kicks: AtomicU64::new(0),
        lines: AtomicU64::new(0),
    }
}; MAX_CORES];

/// What core `core` has seen.
pub fn counts(core: usize) -> &'static Counts {
    &COUNTS[core]
}

fn bump(counter: &AtomicU64) {
    // Only this core's interrupts write it, and they do not nest.
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// What tests hang into an interrupt. 0: nothing.
static ON_TIMER: AtomicUsize = AtomicUsize::new(0);
static ON_EXIT: AtomicUsize = AtomicUsize::new(0);

/// Chooses the context that an interrupt resumes, given the one it came from.
pub type OnExit = fn(&'static ContextBlock) -> Option<Switch>;

/// Calls `hook` in each timer interrupt from here on.
pub fn set_timer_hook(hook: Option<fn()>) {
    ON_TIMER.store(hook.map_or(0, |hook| hook as usize), Relaxed);
}

/// Calls `hook` at the end of each interrupt from here on.
pub fn set_exit_hook(hook: Option<OnExit>) {
    ON_EXIT.store(hook.map_or(0, |hook| hook as usize), Relaxed);
}

struct Image;

impl Upcalls for Image {
    fn on_timer(&self) {
        executor::trace::interrupt();
        bump(&counts(cores::this_core()).timers);
        executor::upcalls::on_timer();
        let hook = ON_TIMER.load(Relaxed);
        if hook != 0 {
            // SAFETY: only `set_timer_hook` writes it, and writes a `fn()`.
            let hook = unsafe { core::mem::transmute::<usize, fn()>(hook) };
            hook();
        }
    }

    fn on_kick(&self) {
        executor::trace::interrupt();
        bump(&counts(cores::this_core()).kicks);
    }

    fn on_line(&self, line: Line) {
        executor::trace::interrupt();
        bump(&counts(cores::this_core()).lines);
        if !executor::io::lines::on_line(line) {
            // Nobody asked for it: were it left on, it might come for ever.
            hal::irq::disable_line(line);
            log::warn!("interrupt line {} belongs to no driver: disabled", line.0);
        }
    }

    fn on_exit(&self, interrupted: &'static ContextBlock) -> Option<Switch> {
        let hook = ON_EXIT.load(Relaxed);
        if hook == 0 {
            return executor::upcalls::on_exit(interrupted);
        }
        // SAFETY: only `set_exit_hook` writes it, and writes an `OnExit`.
        let hook = unsafe { core::mem::transmute::<usize, OnExit>(hook) };
        hook(interrupted)
    }

    fn give_way(&self) {
        executor::upcalls::give_way();
    }

    fn after_marked_guard(&self) {
        executor::upcalls::after_marked_guard();
    }

    fn on_fault(&self, fault: &Fault, frame: &Frame) -> Switch {
        failure::on_fault(fault, frame)
    }
}

/// Starts to listen to hal.
pub fn register() {
    static IMAGE: &dyn Upcalls = &Image;
    hal::traps::register(&IMAGE);
}
