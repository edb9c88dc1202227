//! A machine made of threads.

use super::{interrupts, pool, threads::Seat};
use crate::{
    board::{self, Board, Interrupts, Platform, Power, Uart},
    cores, flush,
};
use core::sync::atomic::{AtomicBool, Ordering::*};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Barrier, Mutex, PoisonError},
    thread,
};

pub use super::paging::flushes_of;
pub use super::{counter, halt as stay_out};
pub use interrupts::raise_line;

/// Which cores are up, who hears of interrupts: there is one of each in a process, so one machine at a time.
static MACHINE: Mutex<()> = Mutex::new(());
/// A core of the machine has panicked.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Runs `main(core)` on `count` threads, as cores 0 and up, once all of them
/// are up; returns when all have come back from it. As on a real machine,
/// `main` begins with interrupts masked.
///
/// There can be up to 32: the numbers above are for the lot.
///
/// If `main` panics on one core, others that wait for it do so too, and so
/// does this function.
pub fn start(count: usize, main: impl Fn(usize) + Sync) {
    assert!(count <= pool::FIRST, "a machine of threads has 32 cores");
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    board::set(Platform {
        board: Board::Host,
        interrupts: Interrupts::Host,
        uart: Uart::Host,
        power: Power::Host,
        takes_status: false,
    });
    let all_up = Barrier::new(count);
    let core = |id: usize| {
        let seat = Seat::take(id).expect("threads of no machine left this number free");
        init_each_core();
        assert!(cores::arrival(id).arrive(), "nobody gives up on a thread");
        flush::flush_point();
        all_up.wait();
        let result = panic::catch_unwind(AssertUnwindSafe(|| main(id)));
        if result.is_err() {
            // Release pairs with the acquire in `panic_if_another_core_did`.
            HAS_FAILED.store(true, Release);
            (0..count)
                .filter(|&other| other != id)
                .for_each(interrupts::nudge);
        }
        // Nobody leaves while another may still kick it.
        all_up.wait();
        cores::arrival(id).leave();
        drop(seat);
        result
    };
    let results: Vec<_> = thread::scope(|scope| {
        let spawn = |id| {
            let thread = thread::Builder::new().name(format!("core {id}"));
            let core = &core;
            thread
                .spawn_scoped(scope, move || core(id))
                .expect("the OS has threads")
        };
        let threads: Vec<_> = (0..count).map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().and_then(|result| result))
            .collect()
    });
    HAS_FAILED.store(false, Relaxed);
    if let Some(problem) = results.into_iter().find_map(Result::err) {
        panic::resume_unwind(problem);
    }
}

/// Sets up the rest of this core.
pub fn init_each_core() {
    flush::join_each_core();
}

/// A core that waits for one that panicked would wait for ever: it panics too.
pub(super) fn panic_if_another_core_did() {
    // Acquire pairs with the release in `start`.
    let has_failed = HAS_FAILED.load(Acquire);
    if has_failed && is_of_machine(super::this_core()) && !thread::panicking() {
        panic!("another core has panicked");
    }
}

fn is_of_machine(core: usize) -> bool {
    core < pool::FIRST && cores::arrival(core).is_up()
}
