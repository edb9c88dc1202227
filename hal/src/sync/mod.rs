//! Locks for code that no scheduler looks after: hal itself, the allocator,
//! the console. Above the executor, tasks use the executor's locks.

pub mod flag;

#[cfg(not(loom))]
mod lock;
#[cfg(not(loom))]
pub use lock::{Lock, LockGuard, Rank, RawLock, assert_none_held, ranked};

/// Atomics that loom replaces when it checks a model.
pub mod atomic {
    #[cfg(not(loom))]
    pub use core::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    #[cfg(loom)]
    pub use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}
