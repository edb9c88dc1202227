//! Async tasks on every core.
//!
//! A portable scheduler: it knows hal's names only, and so runs on the image,
//! where cores are cores, and on the host, where they are threads.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod queue;
pub mod time;
