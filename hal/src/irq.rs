//! Masking interrupts, and device interrupt lines.
//!
//! How often this context has masked is counted in its context block, so
//! guards may be dropped in any order: interrupts come back with the last.

use crate::{arch, board, context, mmio::Window};
use core::{marker::PhantomData, sync::atomic::Ordering::Relaxed};

/// Interrupts are masked on this core while this lives.
pub struct Masked(PhantomData<*const ()>);

/// Masks interrupts until the guard is dropped.
#[inline]
pub fn mask() -> Masked {
    let were_enabled = arch::irq_mask();
    let context = context::current();
    let depth = context.masks.load(Relaxed);
    if depth == 0 {
        context.unmask_after.store(were_enabled, Relaxed);
    }
    context.masks.store(depth + 1, Relaxed);
    Masked(PhantomData)
}

impl Drop for Masked {
    #[inline]
    fn drop(&mut self) {
        let context = context::current();
        let depth = context.masks.load(Relaxed) - 1;
        context.masks.store(depth, Relaxed);
        if depth == 0 && context.unmask_after.load(Relaxed) {
            arch::irq_enable();
        }
    }
}

/// Whether interrupts can come now.
#[inline]
pub fn are_enabled() -> bool {
    arch::irq_are_enabled()
}

/// Lets interrupts in on a core that has just come up. Later, only guards do that.
pub fn enable_each_core() {
    debug_assert_eq!(context::current().masks.load(Relaxed), 0);
    arch::irq_enable();
}

/// The first thing of a new context that may be interrupted: gives up the mask
/// with which every context starts.
pub fn enable_after_start() {
    drop(Masked(PhantomData));
}

/// Whether this core is in a trap or interrupt handler.
#[inline]
pub fn in_handler() -> bool {
    arch::in_trap()
}

/// Sleeps until an interrupt comes, without missing one: called with
/// interrupts masked, after a last look at whatever could have made sleep
/// wrong; takes what is pending and returns with interrupts masked again.
#[inline]
pub fn wait(_masked: &Masked) {
    arch::wait_for_interrupt();
}

/// A device interrupt line, numbered as the board's interrupt controller does:
/// a global system interrupt on a PC, an INTID of a GIC, a GPU line of a Pi 3;
/// or beyond those, a message ([`Message`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(pub u32);

/// Lets the line's interrupts through, to `core`; or to that returned, where all lines go to one.
pub fn enable_line(line: Line, core: usize) -> usize {
    board::enable_line(line, core)
}

/// Stops the line's interrupts.
pub fn disable_line(line: Line) {
    board::disable_line(line);
}

/// How a line says that there is something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// It rises.
    Edge,
    /// It is up.
    Level,
}

/// Says how a line comes, where the interrupt controller can be told; the line is disabled then.
pub fn set_trigger(line: Line, trigger: Trigger) {
    arch::set_trigger(line.0, trigger);
}

/// A line of one device, which sends messages instead of having a wire (MSI-X). Given back when this is dropped.
#[derive(Debug)]
pub struct Message(Line);

impl Message {
    /// Takes a free line, and binds it to this entry of the device's table: [`enable_line`] writes there where messages go, and lets them
    /// through; until then, and after [`disable_line`], the entry is masked. `None`: this machine has none, or none left.
    pub fn reserve(entry: Window) -> Option<Self> {
        arch::reserve_message(entry).map(|line| Self(Line(line)))
    }

    /// Its line.
    pub fn line(&self) -> Line {
        self.0
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        arch::release_message(self.0.0);
    }
}
