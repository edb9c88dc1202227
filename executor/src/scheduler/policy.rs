//! A scheduling policy of the user's own.
//!
//! The default, work stealing, is built into the worker's loop and costs
//! nothing for being replaceable. Another policy says in which order each core
//! runs what is runnable there; everything else (task states, interrupts,
//! sleeping and kicking, time) stays the same.
//!
//! Nothing is stolen from a policy. So by default a task stays on the core that
//! spawned it, or that took it in from outside, and one core may sleep while another is
//! busy. A policy that is one for all cores, and says so by [`Policy::is_shared`], balances by itself:
//!
//! ```
//! use executor::{
//!     Runtime, spawn,
//!     scheduler::policy::{Fifo, Policy, Reason, Runnable},
//! };
//! use std::sync::Arc;
//!
//! /// One queue for all cores.
//! struct Common(Arc<Fifo>);
//!
//! impl Policy for Common {
//!     fn push(&self, task: Runnable, reason: Reason) {
//!         self.0.push(task, reason);
//!     }
//!     fn pop(&self) -> Option<Runnable> {
//!         self.0.pop()
//!     }
//!     fn is_empty(&self) -> bool {
//!         self.0.is_empty()
//!     }
//!     fn is_shared(&self) -> bool {
//!         true
//!     }
//! }
//!
//! let queue = Arc::new(Fifo::new());
//! let runtime = Runtime::builder()
//!     .workers(2)
//!     .policy(move |_core| Box::new(Common(queue.clone())))
//!     .build()
//!     .unwrap();
//! assert_eq!(runtime.block_on(async { spawn(async { 7 }).await.unwrap() }), 7);
//! ```
//!
//! `examples/edf.rs` is earliest deadline first, for each core.

use crate::{
    Priority,
    queue::List,
    task::{TaskId, cell::Header},
};
use core::{mem::ManuallyDrop, ptr::NonNull};
use hal::sync::Lock;

/// Why a task is runnable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// It is new.
    Spawned,
    /// A waker fired, or it came from outside.
    Woken,
    /// It ran and can go on.
    Yielded,
}

/// A task that is to be polled. Dropping it ends the task as cancelled.
pub struct Runnable(NonNull<Header>);

// SAFETY: it is the only entry of a queued task, and it gives nothing of that away. Whichever core pops
// it polls it only if it may, see `own`.
unsafe impl Send for Runnable {}

impl Runnable {
    /// # Safety
    /// The task is queued, and this is its only entry.
    pub(crate) unsafe fn new(task: NonNull<Header>) -> Self {
        Self(task)
    }

    pub(crate) fn into_inner(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    fn header(&self) -> &Header {
        // SAFETY: a queued task lives.
        unsafe { self.0.as_ref() }
    }

    /// Which task it is.
    pub fn id(&self) -> TaskId {
        self.header().id()
    }

    /// Its priority.
    pub fn priority(&self) -> Priority {
        Priority::from_level(self.header().state.now().level())
    }

    /// The number it was spawned with ([`Builder::tag`](crate::task::Builder::tag)); 0: none.
    pub fn tag(&self) -> u64 {
        self.header().task().extra().map_or(0, |extra| extra.tag)
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        let header = self.header();
        // Queued already, so nobody is to be told; but the entry must not be lost.
        let _ = header.state.cancel();
        if header.state.now().is_context() {
            // It goes on past the policy, this time; what ends, at its next await, is the task in it.
            header.task().cancel();
        }
        // SAFETY: a task's home lives as long as the task.
        unsafe { header.home.as_ref() }
            .shared()
            .inject(self.0, header.state.now());
    }
}

/// In which order a core runs its tasks. One is made for each core.
///
/// `push` and `pop` are called by that core only, one at a time, never in an
/// interrupt. They must not panic: there is no task to blame, so that ends the program.
///
/// A [`Runnable`] that it drops is the end of that task, as cancelled: its finalizers
/// still run, past the policy. So a policy may refuse work; but what `block_on` runs
/// must come out again, or `block_on` panics.
pub trait Policy: Send + Sync + 'static {
    /// A task has become runnable.
    fn push(&self, task: Runnable, reason: Reason);
    /// The task to poll next.
    fn pop(&self) -> Option<Runnable>;
    /// Whether there is none.
    fn is_empty(&self) -> bool;
    /// Whether what is pushed on one core may be popped on another; a sleeping
    /// core is then kicked, and tasks that are bound to a core do not go through
    /// the policy. No by default.
    fn is_shared(&self) -> bool {
        false
    }
}

/// First come, first served: one queue, priorities count for nothing.
pub struct Fifo(Lock<List<Header>>);

impl Fifo {
    /// An empty queue.
    pub const fn new() -> Self {
        Self(Lock::new(List::new()))
    }
}

impl Default for Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Fifo {
    fn push(&self, task: Runnable, _: Reason) {
        // SAFETY: it was the only entry of the task, so that is in no queue.
        unsafe { self.0.lock().push_back(task.into_inner()) };
    }

    fn pop(&self) -> Option<Runnable> {
        let task = self.0.lock().pop_front()?;
        // SAFETY: `push` put the only entry of a queued task there.
        Some(unsafe { Runnable::new(task) })
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
