//! All that touches the CPU or an interrupt controller.
//!
//! Above hal, nothing knows which machine it runs on: every architecture
//! defines the same names, chosen in one place (`arch/mod.rs`), and every
//! board answers the same questions, told apart in one place (`board/mod.rs`).
//! The host is an architecture too, with OS threads for cores, so that all
//! above hal can be tested natively.
//!
//! Calls go down into hal; what comes up (an interrupt, a fault) goes through
//! [`traps::Upcalls`], which the kernel registers.

#![cfg_attr(target_os = "none", no_std)]

pub mod cores;
pub mod flush;
pub mod reserve;
pub mod sync;

#[cfg(not(loom))]
mod arch;
#[cfg(not(loom))]
pub mod backtrace;
#[cfg(not(loom))]
pub mod blocking;
#[cfg(not(loom))]
pub mod board;
#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod context;
#[cfg(not(loom))]
pub mod dma;
#[cfg(not(loom))]
pub mod io;
#[cfg(not(loom))]
pub mod irq;
#[cfg(not(loom))]
pub mod layout;
#[cfg(not(loom))]
pub mod lot;
#[cfg(not(loom))]
pub mod mmio;
#[cfg(not(loom))]
pub mod paging;
#[cfg(not(loom))]
pub mod power;
#[cfg(not(loom))]
pub mod preempt;
#[cfg(not(loom))]
pub mod probe;
#[cfg(not(loom))]
pub mod sample;
#[cfg(not(loom))]
pub mod stack;
#[cfg(not(loom))]
pub mod stop;
#[cfg(not(loom))]
pub mod traps;
#[cfg(not(loom))]
pub mod unwind;

#[cfg(not(loom))]
pub use arch::{PREEMPTS, bring_up, pause};

#[cfg(all(feature = "kernel-test", target_os = "none"))]
mod tests;
