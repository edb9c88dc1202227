//! Threads for the lot.
//!
//! They take the numbers from 32 up and keep them: a machine
//! ([`bring_up::start`](super::bring_up::start)) has those below, so neither
//! ever waits for the other, however tests come together in one process.
//! Threads that are lent a number (`threads`) have those from 63 down to 48.

use super::threads::{self, Seat};
use crate::{
    cores::{CoreSet, MAX_CORES},
    lot, unwind,
};
use core::{convert::Infallible, num::NonZero};
use std::{io::Write, process, thread};

/// The lot's first number: machines stay below.
pub const FIRST: usize = 32;

/// There are no threads yet. Each is claimed from birth, by who makes it.
pub const FREE_AT_START: CoreSet = CoreSet::EMPTY;

/// Whoever is in the lot waits there.
pub fn usable() -> CoreSet {
    CoreSet(u64::MAX)
}

/// As many as the OS runs at once for this process.
pub fn usual() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Makes a thread that plays another core of the lot. None: there is no number
/// for it, or the OS has no thread.
pub fn add_core() -> Option<usize> {
    let id = (FIRST..MAX_CORES).find(|&id| threads::reserve(id))?;
    let thread = thread::Builder::new().name(format!("core {id}"));
    if thread.spawn(move || play(id)).is_err() {
        threads::release(id);
        return None;
    }
    Some(id)
}

fn play(id: usize) {
    let _seat = Seat::sit_down(id);
    let Err(payload) = unwind::catch(|| -> Infallible { lot::serve(id) });
    // Nobody waits for this thread, and who waits for its job would do so for ever. Not by
    // `eprintln!`, which the test harness keeps to itself.
    let message = payload.message().unwrap_or("(not a text)");
    let _ = writeln!(
        std::io::stderr(),
        "a job panicked on core {id}, and nobody can go on for it: {message}"
    );
    process::abort()
}
