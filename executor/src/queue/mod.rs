//! Where runnable tasks wait. Nothing here knows what a task is: queues hold
//! pointers, and hand each one out exactly once.
//!
//! | queue | order | who puts in | who takes out |
//! |---|---|---|---|
//! | [`Deque`] | owner newest first, thieves oldest first | owner | anyone |
//! | [`Ring`] | oldest first | owner | anyone |
//! | [`Inbox`] | all at once, as they arrived | anyone, interrupts too | anyone |
//! | [`Injector`] | oldest first | anyone | anyone |
//! | [`List`] | oldest first | whoever has `&mut` | whoever has `&mut` |
//!
//! The *owner* of a queue is one core, outside of interrupts: what is said to be
//! the owner's must never run twice at the same time. The deque and the ring
//! store pointers in an array; the others link the items themselves,
//! so that they need no memory and have no bound.

mod deque;
mod inbox;
#[cfg(not(loom))]
mod injector;
mod list;
mod ring;
mod slots;

pub use deque::Deque;
pub use inbox::Inbox;
#[cfg(not(loom))]
pub use injector::Injector;
pub use list::List;
pub use ring::Ring;

use core::ops::Deref;
use hal::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// An item that has room for one link, by which it can wait in an [`Inbox`], an
/// [`Injector`] or a [`List`] without an allocation.
///
/// # Safety
///
/// 1. `link` always returns the same field of the same item, and the item's
///    owner leaves it alone while the item is in a queue.
/// 2. `link` may be called on any core, whatever else happens to the item.
pub unsafe trait Linked: Sized {
    /// The link. In at most one queue at a time.
    fn link(&self) -> &AtomicPtr<Self>;
}

/// A value on cache lines of its own, so that who writes it does not slow down
/// who reads its neighbours. Two lines of 64 bytes: x86 fetches them in pairs.
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

pub(crate) use crate::shim::ordering;

/// Two counters in one word, to be compared and exchanged together.
#[inline]
const fn pack(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

#[inline]
const fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Exchanges a word that is still what was seen. `BITS` are compared: all, unless
/// a bug is seeded, as if counters were so narrow that they soon come around.
#[inline]
fn compare_exchange_bits<const BITS: u64>(
    word: &AtomicU64,
    seen: u64,
    next: u64,
    success: Ordering,
    failure: Ordering,
) -> Result<u64, u64> {
    match word.compare_exchange_weak(seen, next, success, failure) {
        Err(now) if BITS != u64::MAX && (now ^ seen) & BITS == 0 => {
            let next = now.wrapping_add(next.wrapping_sub(seen));
            word.compare_exchange(now, next, success, failure)
        }
        exchanged => exchanged,
    }
}

/// How many wait between two positions that were not read at the same moment:
/// the difference may be too large, and it may be negative.
#[inline]
fn distance(head: u32, tail: u32, capacity: usize) -> usize {
    let waiting = tail.wrapping_sub(head) as i32;
    usize::try_from(waiting).map_or(0, |waiting| waiting.min(capacity))
}
