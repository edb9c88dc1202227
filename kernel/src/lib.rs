//! The image: boot order, trap wiring, heap, console, shell, tests.
//!
//! Every image (the shell, the tests, the benches) begins with [`start`], which
//! brings the machine up, and then goes its own way.

#![cfg_attr(target_os = "none", no_std)]

extern crate alloc;

pub mod mem;

#[cfg(all(target_os = "none", feature = "kernel-test"))]
pub mod aside;
#[cfg(target_os = "none")]
pub mod console;
#[cfg(target_os = "none")]
pub mod cores;
#[cfg(target_os = "none")]
pub mod devices;
#[cfg(target_os = "none")]
pub mod failure;
#[cfg(target_os = "none")]
pub mod files;
#[cfg(target_os = "none")]
pub mod network;
#[cfg(target_os = "none")]
pub mod shell;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
pub mod symbols;
#[cfg(target_os = "none")]
pub mod test_main;
#[cfg(all(target_os = "none", feature = "kernel-test"))]
mod tests;
#[cfg(target_os = "none")]
pub mod tour;
#[cfg(target_os = "none")]
pub mod upcalls;

#[cfg(target_os = "none")]
pub mod watchdog;

#[cfg(target_os = "none")]
pub use start::{Machine, boot_info, start};

/// Does nothing, for ever, and lets its core sleep: to measure what that costs.
#[cfg(target_os = "none")]
pub async fn idle() -> ! {
    loop {
        core::future::pending::<()>().await;
    }
}
