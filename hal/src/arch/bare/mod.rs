//! What all architectures without an operating system have in common.

pub mod stack;

use crate::cores::{self, CoreSet};
use core::{convert::Infallible, time::Duration};

/// Interrupts come between any two instructions.
pub const PREEMPTS: bool = true;

/// All but the boot core wait in the lot, from their arrival on.
pub const FREE_AT_START: CoreSet = CoreSet(!1);

/// Cores that can take a job: those whose traps are ready.
pub fn usable() -> CoreSet {
    cores::online()
}

/// All that are up.
pub fn usual() -> usize {
    cores::online().len()
}

/// There are as many cores as there are.
pub fn add_core() -> Option<usize> {
    None
}

/// Threads for functions that block: there is no OS to have any from.
pub struct Threads(());

impl Threads {
    /// None.
    pub fn new(_most: usize) -> Self {
        Self(())
    }

    /// The job comes back.
    pub fn run<J: Send + 'static>(
        &self,
        job: J,
        _call: fn(J),
        _stack: usize,
        _idle: Duration,
    ) -> Result<(), J> {
        Err(job)
    }

    /// None.
    pub fn count(&self) -> usize {
        0
    }

    /// There is nothing to end.
    pub fn end(&self) {}
}

/// A panic ends the machine, so there is never one to catch.
pub type Payload = Infallible;

/// Calls `f`.
#[inline(always)]
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    Ok(f())
}

/// Nobody can call this.
pub fn resume(payload: Payload) -> ! {
    match payload {}
}

/// Nobody can call this.
pub fn message(payload: &Payload) -> Option<&str> {
    match *payload {}
}

/// Nothing unwinds.
pub fn is_panicking() -> bool {
    false
}
