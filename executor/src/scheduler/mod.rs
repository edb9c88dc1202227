//! Who runs which task, when and where.
//!
//! | | |
//! |---|---|
//! | `worker` | one core: its queues |
//! | `turn` | its loop |
//! | `search` | what it does without work: steal, sleep |
//! | `mail` | what comes to it from elsewhere |
//! | `finish` | the end of a task |
//! | `context`, `switching` | the stacks it runs on, and how it goes from one to another |
//! | `tick` | preemption |
//! | `watch` | what goes on no more |
//! | `lost` | polls that cannot go on |
//! | `locals` | tasks that stay on one core, one at a time |
//! | `shared` | what the cores of a runtime share |
//! | `idle` | who sleeps, who searches, whom to kick |
//! | `offers` | work that becomes a task when somebody takes it |
//! | `fair` | turns that go out of order, so that nothing waits for ever |
//! | `policy`, `own` | another order than work stealing |
//! | `counter` | what each core counts, and how many tasks live |
//! | `registry`, `slot` | the list of all tasks, and one place in it |
//!
//! A woken task goes, by `schedule`, to the next slot of the core that woke
//! it; from an interrupt, to that core's inbox; from outside, to the injector;
//! a pinned one, to its own core.

#[cfg(not(loom))]
pub(crate) mod counter;
#[cfg(loom)]
pub mod counter;
pub mod idle;
#[cfg(not(loom))]
mod slot;
#[cfg(loom)]
pub mod slot;

#[cfg(not(loom))]
pub(crate) mod context;
#[cfg(not(loom))]
pub(crate) mod cycles;
#[cfg(not(loom))]
pub mod fair;
#[cfg(not(loom))]
mod finish;
#[cfg(not(loom))]
pub(crate) mod inherit;
#[cfg(not(loom))]
mod locals;
#[cfg(not(loom))]
pub(crate) mod lost;
#[cfg(not(loom))]
pub(crate) mod mail;
#[cfg(not(loom))]
pub(crate) mod offers;
#[cfg(not(loom))]
mod own;
#[cfg(not(loom))]
pub mod policy;
#[cfg(not(loom))]
pub(crate) mod registry;
#[cfg(not(loom))]
mod schedule;
#[cfg(not(loom))]
mod search;
#[cfg(not(loom))]
pub(crate) mod shared;
#[cfg(not(loom))]
pub(crate) mod switching;
#[cfg(not(loom))]
pub mod tick;
#[cfg(not(loom))]
mod turn;
#[cfg(not(loom))]
pub mod watch;
#[cfg(not(loom))]
pub(crate) mod worker;

#[cfg(not(loom))]
pub(crate) use schedule::schedule;
