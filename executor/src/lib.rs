//! Async tasks on every core.
//!
//! A portable scheduler: it knows hal's names only, and so runs on the image,
//! where cores are cores, and on the host, where they are threads.
//!
//! | | |
//! |---|---|
//! | [`runtime`] | which cores, how it begins and ends |
//! | [`task`] | what runs |
//! | [`time`] | what waits for later |
//! | [`sync`] | what tasks wait on |
//! | [`scheduler`] | who runs which task, when and where |
//! | [`queue`] | where runnable tasks wait |
//! | [`stats`], [`trace`] | seeing it |
//! | [`simple`] | futures without any of that |

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod queue;
pub mod scheduler;
pub mod task;
pub mod time;

mod priority;
#[cfg(not(loom))]
pub mod runtime;
#[cfg(not(loom))]
pub mod simple;
#[cfg(not(loom))]
pub mod stats;
#[cfg(not(loom))]
pub mod sync;
#[cfg(not(loom))]
pub mod trace;

pub use priority::Priority;
#[cfg(not(loom))]
pub use {
    runtime::{BuildError, Runtime},
    simple::{block_on_simple, noop_waker},
    task::{TaskError, TaskHandle, TaskId, spawn},
};

/// This core's timer has expired. For the kernel's interrupt handler.
#[cfg(not(loom))]
pub fn on_timer() {
    scheduler::on_timer();
}
