//! Channels.

#![allow(dead_code, unused_imports, reason = "the channels are to come")]

#[cfg(feature = "alloc")]
mod block;
#[cfg(all(feature = "alloc", not(loom)))]
mod blocks;
#[cfg(all(feature = "alloc", loom))]
pub mod blocks;
mod published;
