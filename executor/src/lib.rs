//! Async tasks on every core.
//!
//! A portable scheduler: it knows hal's names only, and so runs on the image,
//! where cores are cores, and on the host, where they are threads.
//!
//! ```
//! use executor::{Runtime, spawn, time::{Duration, sleep}};
//!
//! let runtime = Runtime::builder().workers(2).build()?;
//! let sum: u32 = runtime.block_on(async {
//!     let squares = [1, 2, 3].map(|number| {
//!         spawn(async move {
//!             sleep(Duration::from_millis(1)).await;
//!             number * number
//!         })
//!     });
//!     let mut sum = 0;
//!     for square in squares {
//!         sum += square.await.expect("nobody cancels it");
//!     }
//!     sum
//! });
//! assert_eq!(sum, 14);
//! # Ok::<(), executor::BuildError>(())
//! ```
//!
//! The package is `spindle-executor`, the library `executor`. `examples/edf.rs` has a scheduling
//! policy of one's own.
//!
//! | | |
//! |---|---|
//! | [`runtime`] | which cores, how it begins and ends |
//! | [`task`] | what runs |
//! | [`preempt`] | what must not be interrupted by others |
//! | [`thread`] | what runs without awaiting |
//! | [`parallel`] | functions side by side |
//! | [`time`] | what waits for later |
//! | [`scheduler`] | who runs which task, when and where |
//! | [`queue`] | where runnable tasks wait |
//! | [`io`] | devices: from interrupts to tasks |
//! | [`stats`], [`trace`] | seeing it |
//! | [`sync`] | what tasks wait on |
//! | [`mod@select`], [`mod@join`] | several futures at once |
//! | [`stream`] | one value after the other |
//! | [`simple`] | futures without any of that |
//!
//! Without feature `alloc` there are only the last four, which need no memory but their own. Feature
//! `trace` notes what happens on each core, `embassy-time` runs crates that use embassy-time.

#![cfg_attr(not(test), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(feature = "alloc")]
mod memory;
mod shim;

#[cfg(feature = "alloc")]
pub mod io;
#[cfg(feature = "alloc")]
pub mod queue;
#[cfg(feature = "alloc")]
pub mod scheduler;
#[cfg(feature = "alloc")]
pub mod task;
#[cfg(feature = "alloc")]
pub mod time;

#[cfg(all(feature = "alloc", not(loom)))]
mod bomb;
#[cfg(all(feature = "alloc", not(loom)))]
pub mod parallel;
#[cfg(feature = "alloc")]
mod priority;
#[cfg(all(feature = "alloc", not(loom)))]
pub mod runtime;
#[cfg(all(feature = "alloc", not(loom)))]
pub mod stats;
#[cfg(all(feature = "alloc", not(loom)))]
pub mod thread;
#[cfg(all(feature = "alloc", not(loom)))]
pub mod trace;

#[cfg(feature = "alloc")]
pub use {memory::NoMemory, priority::Priority};
#[cfg(not(loom))]
pub mod join;
#[cfg(not(loom))]
mod polite;
#[cfg(not(loom))]
pub mod select;
#[cfg(not(loom))]
pub mod simple;
#[cfg(not(loom))]
pub mod stream;
pub mod sync;

#[cfg(all(feature = "alloc", not(loom)))]
pub use {
    runtime::{BuildError, Runtime},
    task::{TaskError, TaskHandle, TaskId, spawn, spawn_blocking},
};

#[cfg(not(loom))]
pub use simple::{block_on_simple, noop_waker};

/// What the kernel's interrupt handlers tell the executor; see [`hal::traps::Upcalls`].
#[cfg(all(feature = "alloc", not(loom)))]
pub mod upcalls {
    use crate::{
        TaskError,
        scheduler::lost::{self, Cause},
        task::Task,
    };
    use core::panic::PanicInfo;
    use hal::{
        context::ContextBlock,
        traps::{Fault, Switch},
    };

    /// This core's timer has expired.
    pub fn on_timer() {
        crate::scheduler::tick::on_timer();
    }

    /// The end of an interrupt: what to resume, if not the context that was interrupted.
    pub fn on_exit(interrupted: &'static ContextBlock) -> Option<Switch> {
        crate::scheduler::tick::on_exit(interrupted)
    }

    /// A fault that its task cannot survive: ends that task, with [`TaskError::Panicked`] and the fault's registers, and goes
    /// on with others. None: not in a task, in that of a `block_on`, or under a guard; then the machine cannot survive it.
    pub fn on_fault(faulted: &'static ContextBlock, fault: &Fault) -> Option<Switch> {
        lost::abandon(faulted, Cause::Fault(*fault))
    }

    /// The same for a fault that is about its stack, with this error.
    pub fn on_stack_fault(faulted: &'static ContextBlock, error: TaskError) -> Option<Switch> {
        lost::abandon(faulted, Cause::Error(error))
    }

    /// A panic, with the program counter and frame pointer that its backtrace begins with. Ends the
    /// task, goes on with others, and does not come back; unless this is in no task, in that of a `block_on`, under a
    /// guard, or in an interrupt: then the machine cannot survive it.
    pub fn on_panic(info: &PanicInfo<'_>, from: (usize, usize)) {
        lost::on_panic(info, from);
    }

    /// From here on, `hook` hears of each task that is left in the middle of its poll for good, and why. It runs
    /// in the loop of a core, and must not wait. Without one the log does.
    pub fn set_on_loss(hook: fn(&Task, &TaskError)) {
        lost::set_on_loss(hook);
    }

    /// A context has dropped its last guard, and was asked to give way.
    pub fn give_way() {
        crate::scheduler::tick::give_way();
    }

    /// A context has dropped its last guard, which a tick had found.
    pub fn after_marked_guard() {
        crate::scheduler::tick::after_marked_guard();
    }
}

/// What goes on no more: cores that let no interrupt in, guards that are held, queues from which nothing is taken.
#[cfg(all(feature = "alloc", not(loom)))]
pub mod watch {
    pub use crate::scheduler::watch::*;
}

/// Guards against preemption.
#[cfg(all(feature = "alloc", not(loom)))]
pub mod preempt {
    pub use hal::preempt::{Guard, guard};
}

/// The examples in the README and in `docs/` are tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/blocking.md")]
struct Readme;
