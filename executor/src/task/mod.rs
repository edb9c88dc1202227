//! Tasks: futures that run by themselves.
//!
//! - to start them: `spawn`, `spawn_with`; `spawn_local`, `spawn_local_on` for what is not `Send`; with `try_`, and from a
//!   `Builder`, those that say so when there is no memory;
//! - a function that blocks: `spawn_blocking`;
//! - to join, cancel or detach them: `TaskHandle`, and `TaskError` for how one ended otherwise;
//! - several as one: `task_group`, `TaskGroup`, `Supervisor`; from code that is not async, and with what they borrow, `nursery`;
//! - in a task: `current`, `id`, `parent`, `yield_now`, `is_cancelled`, `check_cancelled`, `on_exit`;
//! - in code that is not async: `wait`, `try_wait`.
//!
//! Within:
//!
//! | | |
//! |---|---|
//! | `spawn`, `builder`, `start` | how one is made |
//! | `state` | the word that says who may do what |
//! | `cell` | the allocation: header, future, outcome |
//! | `waker` | counted pointers that make it runnable |
//! | `reference` | a task whatever its type, its id, the one that runs here |
//! | `handle` | what whoever spawned it holds |
//! | `error` | how one ended otherwise |
//! | `extra`, `finalizers` | what only some have |
//! | `local` | values that follow a task |
//! | `group`, `supervise` | several tasks as one |
//! | `call` | a function as a task |
//! | `blocking` | a function that blocks, as a task |
//! | `wait` | waiting in code that is not async |

pub mod state;

#[cfg(not(loom))]
pub(crate) mod blocking;
#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
mod call;
#[cfg(not(loom))]
pub(crate) mod cell;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
pub(crate) mod extra;
#[cfg(not(loom))]
mod finalizers;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
pub(crate) mod local;
#[cfg(not(loom))]
mod reference;
#[cfg(not(loom))]
mod spawn;
#[cfg(not(loom))]
mod start;
#[cfg(not(loom))]
mod supervise;
#[cfg(not(loom))]
mod wait;
#[cfg(not(loom))]
pub(crate) mod waker;
#[cfg(not(loom))]
mod yielding;

#[cfg(not(loom))]
pub(crate) use call::Call;
#[cfg(not(loom))]
pub(crate) use start::{Origin, Start, expect, make, start, start_thread};
#[cfg(not(loom))]
pub(crate) use wait::{assert_may_wait, may_wait, wait_for_part, wait_in_task, wait_outside};
#[cfg(not(loom))]
pub use {
    blocking::{spawn_blocking, try_spawn_blocking},
    builder::Builder,
    error::{Location, Panic, TaskError},
    finalizers::{on_exit, on_exit_local, try_on_exit},
    group::{ChildError, GroupHandle, Scope, TaskGroup, nursery, nursery_independent, task_group},
    handle::TaskHandle,
    local::{LocalKey, LocalScope, NotInScope},
    reference::{
        Task, TaskId, check_cancelled, current, id, is_cancelled, parent, try_current, waits_for,
    },
    spawn::{
        SpawnError, spawn, spawn_local, spawn_local_on, spawn_with, try_spawn, try_spawn_local,
    },
    supervise::{GaveUp, Strategy, Supervisor},
    wait::{try_wait, wait},
    yielding::{YieldNow, poll_proceed, yield_now},
};
