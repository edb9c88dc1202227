//! The first of several futures: `select!`, `race`.
//!
//! | | |
//! |---|---|
//! | [`select!`](crate::select!) | any number of any futures, with a body for each |
//! | [`race!`](crate::race!), [`race`] | the output of the first |
//! | [`race_all`], [`select_all`] | of a collection |
//!
//! All polling is done by the task that waits. When it is woken, all that are not ready are polled: which of them woke it is
//! not known. For very many, let each be a task of its own in a [`TaskGroup`](crate::task::TaskGroup).
//!
//! Beneath: `macros` reads the arms, `arms` is what they become, `random` is where to start.

#[doc(hidden)]
pub mod arms;
mod macros;
mod race;
mod random;

#[cfg(feature = "alloc")]
mod all;

#[cfg(feature = "alloc")]
pub use all::{RaceAll, SelectAll, race_all, select_all};
pub use race::{Race, race};
