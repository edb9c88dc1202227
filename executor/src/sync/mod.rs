//! What tasks wait on.
//!
//! | | |
//! |---|---|
//! | [`Mutex`] | a value that one has at a time |
//! | [`RwLock`] | a value that many read, or one writes |
//! | [`channel`] | messages, from many to many |
//! | [`Notify`] | "look again", for one or for all |
//! | [`Event`] | has it happened? |
//! | [`Semaphore`] | a number of permits |
//! | [`Barrier`] | all are here |
//! | [`OnceCell`], [`SetOnce`], [`Lazy`], [`Once`] | a value, or work, that is made or done once |
//! | [`oneshot`] | one value, from one to one |
//! | [`broadcast`] | values that each receiver gets, the slow ones with gaps |
//! | [`watch`] | a value that changes, and who wants to know |
//! | [`WakerSlot`] | the one waker of whoever waits for an interrupt |
//!
//! All are served in the order they came. A future that waits may be dropped at any time: it leaves
//! the queue, and what it was granted meanwhile goes to the next. But for channels (of which there is [`StaticChannel`](channel::StaticChannel)) they allocate
//! nothing and can be made in a `static`; and they work wherever futures are polled, with or without a runtime; only what ends
//! with `_timeout` needs the timers of one, and what ends with `_owned` an `Arc`. The time of a limit begins with the first poll.
//!
//! A task that finds them ready again and again gives way now and then: the future is pending once. (Not so a value that was made once
//! and is there, nor the last who comes to a barrier.)
//!
//! # Sharing a value
//!
//! A value that tasks change in turn is an `Arc<Mutex<T>>`, or a `static` [`Mutex`]; there is no type of its own for
//! it, as it would say no more. Nor is there one for a value that nobody changes any more: that is an `Arc<T>`, which
//! costs a count to share and nothing to read, and gives out no `&mut` while others have it. (What has cells or locks inside
//! can still change; Rust has no way yet to ask for a type without them.) To go from one to the other, take the value out:
//!
//! ```
//! use executor::{Runtime, spawn, sync::Mutex};
//! use std::{collections::BTreeMap, sync::Arc};
//!
//! # let runtime = Runtime::builder().workers(2).build()?;
//! runtime.block_on(async {
//!     // Made by several, each in turn...
//!     let table = Arc::new(Mutex::new(BTreeMap::new()));
//!     let makers = [1, 2, 3].map(|number| {
//!         let table = table.clone();
//!         spawn(async move { table.lock().await.insert(number, number * number) })
//!     });
//!     for maker in makers {
//!         maker.await.unwrap();
//!     }
//!     // ... and from here on read by all, without a lock.
//!     let frozen = Arc::new(Arc::into_inner(table).expect("they have ended").into_inner());
//!     let readers = [1, 2, 3].map(|number| {
//!         let frozen = frozen.clone();
//!         spawn(async move { frozen[&number] })
//!     });
//!     for (reader, square) in readers.into_iter().zip([1, 4, 9]) {
//!         assert_eq!(reader.await.unwrap(), square);
//!     }
//! });
//! # Ok::<(), executor::BuildError>(())
//! ```
//!
//! One that is replaced as a whole now and then is an [`RwLock`]`<Arc<T>>`: who reads clones the `Arc` and keeps no lock.
//!
//! Beneath: `wait_list` is who waits, for all of them; `permits` is what is taken and given back.

mod barrier;
#[cfg(feature = "alloc")]
pub mod broadcast;
#[cfg(all(feature = "alloc", not(loom)))]
mod ceiling;
pub mod channel;
#[cfg(loom)]
pub mod condvar;
#[cfg(all(feature = "alloc", not(loom)))]
pub(crate) mod condvar;
mod event;
mod guard;
mod mutex;
mod notify;
mod once;
#[cfg(feature = "alloc")]
pub mod oneshot;
mod owner;
mod permits;
mod poison;
mod rwlock;
mod semaphore;
mod set_once;
#[cfg(not(loom))]
mod wait_list;
#[cfg(loom)]
pub mod wait_list;
pub(crate) mod waits;
#[cfg(not(loom))]
mod waker_slot;
#[cfg(feature = "alloc")]
pub mod watch;

pub use barrier::{Barrier, BarrierWait, BarrierWaitResult};
#[cfg(all(feature = "alloc", not(loom)))]
pub use ceiling::{CeilingMutex, CeilingMutexGuard};
pub use event::{Event, Wait};
pub use guard::{MappedGuard, ReadGuard};
pub use mutex::{Lock, MappedMutexGuard, Mutex, MutexGuard};
#[cfg(feature = "alloc")]
pub use mutex::{LockOwned, OwnedMappedMutexGuard, OwnedMutexGuard};
#[cfg(feature = "alloc")]
pub use notify::OwnedNotified;
pub use notify::{Notification, Notified, Notify};
pub use once::{Lazy, Once, OnceCell, SetError};
pub use poison::{Poisoned, TryLockError, UnlessPoisoned};
#[cfg(feature = "alloc")]
pub use rwlock::{OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
pub use rwlock::{
    Read, RwLock, RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard, Write, WriteGuard,
};
#[cfg(all(feature = "alloc", not(loom)))]
pub use semaphore::AcquireTimeoutError;
#[cfg(feature = "alloc")]
pub use semaphore::OwnedSemaphorePermit;
pub use semaphore::{Acquire, AcquireError, Permit, Semaphore, SemaphorePermit, TryAcquireError};
pub use set_once::{SetOnce, SetOnceError};
#[cfg(not(loom))]
pub use waker_slot::WakerSlot;

use core::task::{Context, Poll, Waker};

/// For futures that are ready: `Pending`, once, if others should have their turn. Where no tasks are, nobody is.
#[inline]
pub(crate) fn proceed(cx: &mut Context<'_>) -> Poll<()> {
    #[cfg(all(feature = "alloc", not(loom)))]
    return crate::task::poll_proceed(cx);
    #[cfg(not(all(feature = "alloc", not(loom))))]
    {
        let _ = cx;
        Poll::Ready(())
    }
}

/// Whether [`proceed`] would be ready.
#[inline]
fn may_proceed() -> bool {
    #[cfg(all(feature = "alloc", not(loom)))]
    return !hal::preempt::is_soft();
    #[cfg(not(all(feature = "alloc", not(loom))))]
    true
}

/// A waker's clone, for somebody who is to wait for `what`.
fn clone_waker(waker: &Waker, what: &'static &'static str) -> Waker {
    #[cfg(all(feature = "alloc", not(loom)))]
    return crate::task::waker::clone_to_wait(waker, what);
    #[cfg(not(all(feature = "alloc", not(loom))))]
    {
        let _ = what;
        waker.clone()
    }
}

/// Waits for a future in code that is not async, wherever that is.
#[cfg(not(loom))]
#[track_caller]
fn block_on<F: Future>(future: F) -> F::Output {
    #[cfg(feature = "alloc")]
    return crate::task::wait(future);
    #[cfg(not(feature = "alloc"))]
    crate::block_on_simple(future)
}

/// What must not be sent or shared:
///
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<executor::sync::MutexGuard<'static, std::cell::Cell<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<executor::sync::OwnedMutexGuard<std::cell::Cell<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<executor::sync::Mutex<std::rc::Rc<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<executor::sync::RwLock<std::cell::Cell<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<executor::sync::RwLockReadGuard<'static, std::cell::Cell<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<executor::sync::OnceCell<std::cell::Cell<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<executor::sync::MappedMutexGuard<'static, std::cell::Cell<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<executor::sync::RwLockMappedWriteGuard<'static, std::rc::Rc<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<executor::sync::RwLockWriteGuard<'static, std::cell::Cell<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<executor::thread::MutexGuard<'static, u8>>();
/// ```
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<executor::thread::RwLockReadGuard<'static, u8>>();
/// ```
/// A future that waits is not moved:
///
/// ```compile_fail,E0277
/// fn is_unpin<T: Unpin>() {}
/// is_unpin::<executor::sync::Lock<'static, u8>>();
/// ```
#[cfg(doctest)]
struct Bounds;
