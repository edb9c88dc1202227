//! Models of the executor's lock-free protocols: loom tries every order in which
//! threads can run and every value that an atomic load may see. `tools/loom`
//! runs them, and then again with each seeded bug, which some model must find.
#![cfg(loom)]

#[path = "loom/idle.rs"]
mod idle;
#[path = "loom/inbox.rs"]
mod inbox;
#[path = "loom/items.rs"]
mod items;
#[path = "loom/stealing.rs"]
mod stealing;
#[path = "loom/task.rs"]
mod task;
#[path = "loom/timer.rs"]
mod timer;
