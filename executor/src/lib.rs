//! Async tasks on every core.
//!
//! A portable scheduler: it knows hal's names only, and so runs on the image,
//! where cores are cores, and on the host, where they are threads.
//!
//! | | |
//! |---|---|
//! | [`runtime`] | which cores, how it begins and ends |
//! | [`task`] | what runs |
//! | [`thread`] | what runs without awaiting |
//! | [`time`] | what waits for later |
//! | [`scheduler`] | who runs which task, when and where |
//! | [`queue`] | where runnable tasks wait |
//! | [`stats`], [`trace`] | seeing it |
//! | [`sync`] | what tasks wait on |
//! | [`simple`] | futures without any of that |
//!
//! Without feature `alloc` there are only the last two, which need no memory but their own.

#![cfg_attr(not(test), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(feature = "alloc")]
pub mod queue;
#[cfg(feature = "alloc")]
pub mod scheduler;
#[cfg(feature = "alloc")]
pub mod task;
#[cfg(feature = "alloc")]
pub mod time;

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
pub use priority::Priority;
#[cfg(not(loom))]
pub mod simple;
#[cfg(not(loom))]
pub mod sync;

#[cfg(all(feature = "alloc", not(loom)))]
pub use {
    runtime::{BuildError, Runtime},
    task::{TaskError, TaskHandle, TaskId, spawn},
};

#[cfg(not(loom))]
pub use simple::{block_on_simple, noop_waker};

/// This core's timer has expired. For the kernel's interrupt handler.
#[cfg(all(feature = "alloc", not(loom)))]
pub fn on_timer() {
    scheduler::on_timer();
}
