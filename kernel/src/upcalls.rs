//! What the image does when hal reports a trap.

use crate::{console, failure};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use hal::{
    board,
    context::Frame,
    cores::{self, MAX_CORES},
    irq::Line,
    traps::{Fault, Upcalls},
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

/// Called in each timer interrupt, with the core; for tests. 0: none.
static TIMER_HOOK: AtomicUsize = AtomicUsize::new(0);

/// Calls `hook` in each timer interrupt from here on.
pub fn set_timer_hook(hook: Option<fn()>) {
    TIMER_HOOK.store(hook.map_or(0, |hook| hook as usize), Relaxed);
}

struct Image;

impl Upcalls for Image {
    fn on_timer(&self) {
        bump(&counts(cores::this_core()).timers);
        let hook = TIMER_HOOK.load(Relaxed);
        if hook != 0 {
            // SAFETY: only `set_timer_hook` writes it, and writes a `fn()`.
            let hook = unsafe { core::mem::transmute::<usize, fn()>(hook) };
            hook();
        }
    }

    fn on_kick(&self) {
        bump(&counts(cores::this_core()).kicks);
    }

    fn on_line(&self, line: Line) {
        bump(&counts(cores::this_core()).lines);
        if drivers::serial::line(board::platform().uart) == Some(line) {
            console::on_receive();
        }
    }

    fn on_fault(&self, fault: &Fault, frame: &Frame) -> ! {
        failure::on_fault(fault, frame)
    }
}

/// Starts to listen to hal.
pub fn register() {
    static IMAGE: &dyn Upcalls = &Image;
    hal::traps::register(&IMAGE);
}
