//! A function in a context of its own: for tests that want another stack.

use core::ptr::NonNull;
use hal::{
    context::{self, AfterSwitch, ContextBlock},
    irq,
    stack::{Bounds, Stack},
};

struct Call<'a> {
    work: &'a dyn Fn(),
    home: NonNull<ContextBlock>,
}

/// Runs `work` in a new context on `stack`, on this core, and returns when it has.
pub fn run(stack: &Stack, work: &dyn Fn()) {
    run_from(stack, stack.bounds().high, work);
}

/// The same on what `stack` has below `top`.
pub fn run_from(stack: &Stack, top: usize, work: &dyn Fn()) {
    let block = ContextBlock::new();
    let call = Call {
        work,
        home: NonNull::from(context::current()),
    };
    let bounds = Bounds {
        high: top,
        ..stack.bounds()
    };
    // SAFETY: it does not run yet, and the stack is nobody else's.
    unsafe { block.prepare(bounds, enter, (&raw const call).expose_provenance()) };
    let _masked = irq::mask();
    // SAFETY: interrupts are masked, the context is fresh, and all of it lives until we are back.
    unsafe { context::switch(NonNull::from(&block), AfterSwitch::NOTHING) };
}

extern "C" fn enter(call: usize) -> ! {
    // SAFETY: `run` keeps it until it is resumed.
    let call = unsafe { &*core::ptr::with_exposed_provenance::<Call<'_>>(call) };
    irq::enable_after_start();
    (call.work)();
    core::mem::forget(irq::mask());
    // SAFETY: interrupts are masked, and `run` waits to be resumed.
    unsafe { context::switch(call.home, AfterSwitch::NOTHING) };
    unreachable!("nobody resumes it")
}
