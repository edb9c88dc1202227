//! Models of the executor's lock-free protocols: loom tries every order in which
//! threads can run and every value that an atomic load may see. `tools/loom`
//! runs them, and then again with each seeded bug, which some model must find.
#![cfg(loom)]
#![allow(
    clippy::arc_with_non_send_sync,
    reason = "loom's threads are not threads, and its own `Arc` would order what the model should not"
)]

#[path = "loom/barrier.rs"]
mod barrier;
#[path = "loom/blocks.rs"]
mod blocks;
#[path = "loom/broadcast.rs"]
mod broadcast;
#[path = "loom/bytes.rs"]
mod bytes;
#[path = "loom/channel.rs"]
mod channel;
#[path = "loom/condvar.rs"]
mod condvar;
#[path = "loom/context.rs"]
mod context;
#[path = "loom/count.rs"]
mod count;
#[path = "loom/drain.rs"]
mod drain;
#[path = "loom/drops.rs"]
mod drops;
#[path = "loom/idle.rs"]
mod idle;
#[path = "loom/inbox.rs"]
mod inbox;
#[path = "loom/items.rs"]
mod items;
#[path = "loom/kept.rs"]
mod kept;
#[path = "loom/mutex.rs"]
mod mutex;
#[path = "loom/notify.rs"]
mod notify;
#[path = "loom/once.rs"]
mod once;
#[path = "loom/oneshot.rs"]
mod oneshot;
#[path = "loom/permits.rs"]
mod permits;
#[path = "loom/rwlock.rs"]
mod rwlock;
#[path = "loom/slot.rs"]
mod slot;
#[path = "loom/stealing.rs"]
mod stealing;
#[path = "loom/task.rs"]
mod task;
#[path = "loom/timer.rs"]
mod timer;
#[path = "loom/wait.rs"]
mod wait;
#[path = "loom/watch.rs"]
mod watch;
