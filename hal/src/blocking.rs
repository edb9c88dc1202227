//! Threads beside the cores, for functions that would hold one.
//!
//! On the host nothing takes a function off the thread that plays a core: one that waits in
//! the OS, or computes for long, is better called elsewhere. An image has no such threads, and
//! needs none: the tick takes whatever runs off its core.

pub use crate::arch::Threads;
