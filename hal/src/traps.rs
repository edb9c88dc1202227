//! Traps, and who above hal is told of them.
//!
//! hal takes the trap on its own stack, saves the frame, claims and completes
//! interrupts; what they mean is for the kernel to say, through [`Upcalls`].

use crate::{
    arch,
    context::{self, AfterSwitch, ContextBlock, Frame},
    flush,
    irq::Line,
    preempt,
};
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicPtr, Ordering::*},
};

/// What kind of fault a core met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Load from a page that is not there or not readable.
    Read,
    /// Store to a page that is not there or not writable.
    Write,
    /// Jump to a page that is not there or not executable.
    Execute,
    /// An instruction the core does not have.
    IllegalInstruction,
    /// Division by zero or overflow of a quotient.
    Divide,
    /// An address that is not aligned as it must be.
    Alignment,
    /// A breakpoint nobody set.
    Breakpoint,
    /// A fault while another was being delivered.
    Double,
    /// A stack had room to grow, but there was no memory for it.
    NoMemory,
    /// Anything else; the number is the architecture's.
    Other(u64),
}

/// A fault, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// The address that could not be accessed, if it was about one.
    pub address: usize,
    /// Whether it hit a trap or interrupt handler.
    pub in_handler: bool,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let at = self.address;
        match self.kind {
            FaultKind::Read => write!(f, "invalid read of {at:#x}")?,
            FaultKind::Write => write!(f, "invalid write to {at:#x}")?,
            FaultKind::Execute => write!(f, "jump to {at:#x}, which is not code")?,
            FaultKind::IllegalInstruction => write!(f, "illegal instruction")?,
            FaultKind::Divide => write!(f, "divide error")?,
            FaultKind::Alignment => write!(f, "unaligned access to {at:#x}")?,
            FaultKind::Breakpoint => write!(f, "breakpoint")?,
            FaultKind::Double => write!(f, "double fault")?,
            FaultKind::NoMemory => write!(f, "out of memory for the stack to grow to {at:#x}")?,
            FaultKind::Other(number) => write!(f, "trap {number:#x}")?,
        }
        if self.in_handler {
            write!(f, " in an interrupt handler")?;
        }
        Ok(())
    }
}

/// The context to go on with instead of the one that was interrupted, and what is to be done once
/// that is left.
pub type Switch = (NonNull<ContextBlock>, AfterSwitch);

/// What hal tells the kernel. All but the last two run in interrupt context, on
/// a trap stack, with interrupts masked.
pub trait Upcalls: Sync {
    /// This core's one-shot timer has expired.
    fn on_timer(&self);
    /// Another core kicked this one.
    fn on_kick(&self);
    /// A device asks for attention.
    fn on_line(&self, line: Line);
    /// A fault that hal cannot mend. `frame` is where it happened. If it comes
    /// back, the context that met it is left for good; not if that is a handler.
    fn on_fault(&self, fault: &Fault, frame: &Frame) -> Switch;
    /// The last thing of an interrupt: whether to resume another context than
    /// the one interrupted, whose registers are saved by now.
    fn on_exit(&self, _interrupted: &'static ContextBlock) -> Option<Switch> {
        None
    }
    /// A context dropped its last guard and was asked to give way. Not in interrupt context.
    fn give_way(&self) {}
    /// A context dropped its last guard, and [`preempt::mark_guard`] has marked that. Not in interrupt context.
    fn after_marked_guard(&self) {}
}

struct Nobody;

impl Upcalls for Nobody {
    fn on_timer(&self) {}
    fn on_kick(&self) {}
    fn on_line(&self, _: Line) {}
    fn on_fault(&self, fault: &Fault, _: &Frame) -> Switch {
        panic!("{fault} before the kernel was ready")
    }
}

/// A `&dyn` is two words: what is shared is a pointer to one.
static REGISTERED: AtomicPtr<&'static dyn Upcalls> = AtomicPtr::new(core::ptr::null_mut());

/// From here on, `upcalls` hears of traps.
pub fn register(upcalls: &'static &'static dyn Upcalls) {
    // Release pairs with the acquire in `upcalls`.
    REGISTERED.store(core::ptr::from_ref(upcalls).cast_mut(), Release);
}

/// Who hears of traps.
#[inline]
pub(crate) fn upcalls() -> &'static dyn Upcalls {
    // Acquire pairs with the release in `register`.
    let registered = REGISTERED.load(Acquire);
    // SAFETY: null, or a `&'static &'static dyn Upcalls` from `register`.
    match unsafe { registered.as_ref() } {
        Some(upcalls) => *upcalls,
        None => &Nobody,
    }
}

/// A fault: mended if it is about a page that a stack can still get, else the
/// kernel's to name. `is_missing`: about data on a page that is not there. Returns the frame to resume.
// Never inlined, as `leave`.
#[cfg(target_os = "none")]
#[inline(never)]
pub(crate) fn on_fault(
    mut kind: FaultKind,
    address: usize,
    is_missing: bool,
    frame: &mut Frame,
) -> *const Frame {
    let in_handler = core::ptr::from_mut(frame) != context::current().frame.get();
    if is_missing && !in_handler {
        match arch::stack::grow(address) {
            Ok(true) => return frame,
            Ok(false) => {}
            Err(_) => kind = FaultKind::NoMemory,
        }
    }
    let fault = Fault {
        kind,
        address,
        in_handler,
    };
    let switch = upcalls().on_fault(&fault, frame);
    assert!(!in_handler, "a handler cannot be left");
    go_on_with(switch)
}

/// Leaves the interrupted context, which is saved: the frame to resume.
#[cfg_attr(
    not(target_os = "none"),
    allow(dead_code, reason = "the host takes no traps")
)]
fn go_on_with((next, after): Switch) -> *const Frame {
    // SAFETY: interrupts are masked, and the kernel hands over a saved context.
    unsafe { arch::set_current(next) };
    // This is the trap stack: nothing of the interrupted context is in use.
    // The action is another function, so it finds `next` current: it comes from the kernel
    // through a pointer, of which nothing is known here, and cannot be inlined.
    (after.run)(after.argument);
    // SAFETY: as above; a block lives as long as its context.
    unsafe { next.as_ref() }.frame.get()
}

/// The end of an interrupt that was saved in `frame`: a flush point, and then
/// which frame to resume. On the trap stack, interrupts masked.
// Never inlined: no read of `context::current` in the handler may be moved behind `set_current`.
#[cfg_attr(
    not(target_os = "none"),
    allow(dead_code, reason = "the host takes no traps")
)]
#[inline(never)]
pub(crate) fn leave(frame: *mut Frame) -> *const Frame {
    flush::flush_point();
    let interrupted = context::current_anew();
    // A frame of the core itself: a handler was interrupted, and is resumed.
    if frame != interrupted.frame.get() {
        return frame;
    }
    if arch::stack::lacks() {
        if interrupted.is_free() {
            arch::stack::refill();
        } else {
            preempt::ask(interrupted, preempt::REFILL);
        }
    }
    #[cfg(target_os = "none")]
    if interrupted.is_free()
        && preempt::takes_overflow(interrupted)
        && !interrupted.task().is_null()
    {
        // It was under a mask, and nobody has looked since; now it is as if it came just here.
        let fault = Fault {
            kind: FaultKind::Write,
            address: arch::stack::below(interrupted),
            in_handler: false,
        };
        // SAFETY: saved, as it is the frame of the interrupted context.
        return go_on_with(upcalls().on_fault(&fault, unsafe { &*frame }));
    }
    match upcalls().on_exit(interrupted) {
        None => frame,
        Some(switch) => go_on_with(switch),
    }
}
