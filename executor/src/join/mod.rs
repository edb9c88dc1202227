//! All of several futures: `join!`, `try_join!`, `join_all`.
//!
//! | | |
//! |---|---|
//! | [`join!`](crate::join!), [`try_join!`](crate::try_join!) | any number of any futures |
//! | [`join_all`], [`try_join_all`] | a collection |
//!
//! All polling is done by the task that waits. When it is woken, all that are not ready are polled: which of them woke it is
//! not known. That is cheap for a few and a waste for very many: let each of those be a task of its own in a
//! [`TaskGroup`](crate::task::TaskGroup), which is woken by itself and runs on any core.
//!
//! Beneath: `macros` writes the lists, `parts` is what they become, `done` is a future or its output.

mod done;
mod macros;
#[doc(hidden)]
pub mod parts;

#[cfg(feature = "alloc")]
mod all;

#[cfg(feature = "alloc")]
pub use all::{JoinAll, TryJoinAll, join_all, try_join_all};
