//! A value that many read, or one writes.

mod guards;

use self::guards::{Keeper, Reading, Writing};
#[cfg(feature = "alloc")]
pub use self::guards::{OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
pub use self::guards::{RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard, WriteGuard};
#[cfg(all(feature = "alloc", not(loom)))]
use super::owner::Owner;
use super::{
    guard::ReadGuard,
    owner::{Holders, Place, Seat, Who},
    permits::{Home, Permits, Take},
    poison::{Locks, TryLockError, UnlessPoisoned},
    waits::{self, Lockable, Name, Wait},
};
use crate::shim::const_unless_loom;
#[cfg(feature = "alloc")]
use alloc::sync::Arc;
use core::{
    cell::UnsafeCell,
    fmt,
    ops::Deref,
    pin::Pin,
    task::{Context, Poll},
};

/// How many may read at once, at most. Each has a permit; who writes has them all.
const READERS: u32 = u32::MAX >> 3;

/// A value that many tasks read at once, or one writes, also across an `.await`.
///
/// First come, first served: who wants to read waits behind one who waits to write, so
/// neither is starved. For the same reason a task that reads must not ask to read once more
/// while it does: if a writer waits, both wait for ever.
///
/// With debug assertions it knows some of the tasks that have it: one that waits for itself is named in the log, as
/// for a [`Mutex`](super::Mutex).
///
/// There is no read lock that can become a write lock: see [`downgrade`](WriteGuard::downgrade) for
/// the other direction.
///
/// ```
/// use executor::{block_on_simple, sync::RwLock};
///
/// static LIMITS: RwLock<[u32; 2]> = RwLock::new([1, 2]);
///
/// block_on_simple(async {
///     {
///         let (one, other) = (LIMITS.read().await, LIMITS.read().await);
///         assert_eq!(one[0] + other[1], 3);
///     }
///     LIMITS.write().await[0] = 5;
///     assert_eq!(*LIMITS.read().await, [5, 2]);
/// });
/// ```
pub struct RwLock<T: ?Sized> {
    raw: Raw,
    /// Read by who has a permit, written by who has all.
    value: UnsafeCell<T>,
}

/// A lock without its value.
pub struct Raw {
    permits: Permits,
    /// How many permits there are.
    readers: usize,
    holders: Holders,
    #[cfg_attr(
        any(loom, not(feature = "alloc")),
        allow(dead_code, reason = "nothing is noted")
    )]
    name: Name,
}

impl Raw {
    /// Gives so many permits back.
    #[inline]
    fn give(&self, count: usize) {
        if self.permits.add(count) {
            waits::hand_on(self);
        }
    }
}

// SAFETY: the value goes from one writer to the next.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: as above; and it is read by several at once.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    const_unless_loom! {
        /// A value that nobody reads or writes.
        ///
        /// ```
        /// use executor::sync::RwLock;
        ///
        /// static LIMIT: RwLock<u32> = RwLock::new(1);
        /// assert_eq!(*LIMIT.try_read().unwrap(), 1);
        /// ```
        #[doc(alias = "const_new")]
        pub const fn new(value: T) -> Self {
            Self::with_max_readers(value, READERS)
        }
    }

    const_unless_loom! {
        /// A value that so many may read at once. One more waits, as for a writer.
        ///
        /// ```
        /// use executor::sync::RwLock;
        ///
        /// let lock = RwLock::with_max_readers(1, 2);
        /// let (_first, second) = (lock.try_read().unwrap(), lock.try_read().unwrap());
        /// assert!(lock.try_read().is_err());
        /// drop(second);
        /// assert!(lock.try_read().is_ok());
        /// ```
        ///
        /// # Panics
        /// If that is none, or more than `u32::MAX >> 3`.
        #[doc(alias = "const_with_max_readers")]
        pub const fn with_max_readers(value: T, readers: u32) -> Self {
            assert!(readers <= READERS, "a lock cannot have so many readers");
            assert!(readers != 0, "nobody could read");
            let readers = readers as usize;
            Self {
                raw: Raw {
                    permits: Permits::new(readers),
                    readers,
                    holders: Holders::nobody(),
                    name: Name::none(),
                },
                value: UnsafeCell::new(value),
            }
        }
    }

    /// The value.
    ///
    /// ```
    /// let lock = executor::sync::RwLock::new(1);
    /// *lock.try_write().unwrap() += 1;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks it to read, and waits while somebody writes or waits to.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::RwLock};
    ///
    /// let lock = RwLock::new(1);
    /// block_on_simple(async {
    ///     let value = lock.read().await;
    ///     assert_eq!(*value, 1);
    ///     assert!(lock.try_write().is_err());
    /// });
    /// ```
    #[inline]
    #[track_caller]
    pub fn read(&self) -> Read<&Self> {
        Read(Take::new(At::here(self), 1))
    }

    /// Locks it to write, and waits until nobody else reads or writes.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::RwLock};
    ///
    /// let lock = RwLock::new(vec![1]);
    /// block_on_simple(async {
    ///     lock.write().await.push(2);
    ///     assert_eq!(*lock.read().await, [1, 2]);
    /// });
    /// ```
    #[inline]
    #[track_caller]
    pub fn write(&self) -> Write<&Self> {
        Write(Take::new(At::here(self), self.raw.readers))
    }

    /// Locks it to read if nobody writes or waits. In interrupts too.
    ///
    /// ```
    /// let lock = executor::sync::RwLock::new(1);
    /// let reader = lock.try_read().unwrap();
    /// assert!(lock.try_read().is_ok());
    /// drop(reader);
    /// let writer = lock.try_write().unwrap();
    /// assert!(lock.try_read().is_err());
    /// # drop(writer);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        At::here(self).try_read()
    }

    /// Locks it to write if nobody has it or waits. In interrupts too.
    ///
    /// ```
    /// let lock = executor::sync::RwLock::new(1);
    /// let reader = lock.try_read().unwrap();
    /// assert!(lock.try_write().is_err());
    /// drop(reader);
    /// *lock.try_write().unwrap() += 1;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        At::here(self).try_write()
    }

    /// Whether a task that had it locked is lost, whether to write or to read. Of many who read, it knows the first few. Never on the
    /// host, where a panic unlocks it.
    ///
    /// ```
    /// let lock = executor::sync::RwLock::new(1);
    /// assert!(!lock.is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        waits::is_poisoned(&self.raw)
    }

    /// Unlocks a poisoned lock, for a value that is good enough as the lost task left it, or is mended by the next to lock it.
    /// It does nothing if it is not poisoned.
    ///
    /// # Safety
    /// No guard of it is in use: neither the lost task's, which it may have given to somebody else, nor another reader's.
    pub unsafe fn clear_poison(&self) {
        if self.is_poisoned() {
            // SAFETY: the caller's promise.
            unsafe { waits::clear_poison(&self.raw, self.raw.readers) };
        }
    }

    /// The value, which nobody else can have: no lock is needed.
    ///
    /// ```
    /// let mut lock = executor::sync::RwLock::new(1);
    /// *lock.get_mut() += 1;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

#[cfg(not(loom))]
impl<T: ?Sized> RwLock<T> {
    /// Locks it to read, in code that is not async; see [`Mutex::lock_blocking`](super::Mutex::lock_blocking).
    ///
    /// ```
    /// use executor::sync::RwLock;
    ///
    /// static LOCK: RwLock<u32> = RwLock::new(1);
    ///
    /// let writer = LOCK.try_write().unwrap();
    /// let reader = std::thread::spawn(|| *LOCK.read_blocking());
    /// drop(writer);
    /// assert_eq!(reader.join().unwrap(), 1);
    /// ```
    #[doc(alias = "blocking_read")]
    #[track_caller]
    pub fn read_blocking(&self) -> RwLockReadGuard<'_, T> {
        match self.try_read() {
            Ok(guard) => guard,
            Err(_) => super::block_on(self.read()),
        }
    }

    /// Locks it to write, in code that is not async; see [`Mutex::lock_blocking`](super::Mutex::lock_blocking).
    ///
    /// ```
    /// use executor::sync::RwLock;
    ///
    /// static LOCK: RwLock<u32> = RwLock::new(1);
    ///
    /// let reader = LOCK.try_read().unwrap();
    /// let writer = std::thread::spawn(|| *LOCK.write_blocking() += 1);
    /// assert_eq!(*reader, 1);
    /// drop(reader);
    /// writer.join().unwrap();
    /// assert_eq!(*LOCK.read_blocking(), 2);
    /// ```
    #[doc(alias = "blocking_write")]
    #[track_caller]
    pub fn write_blocking(&self) -> RwLockWriteGuard<'_, T> {
        match self.try_write() {
            Ok(guard) => guard,
            Err(_) => super::block_on(self.write()),
        }
    }
}

#[cfg(all(feature = "alloc", not(loom)))]
impl<T: ?Sized> RwLock<T> {
    /// As [`read`](Self::read), but gives up after a while.
    ///
    /// ```
    /// use executor::{Runtime, sync::RwLock, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// static LOCK: RwLock<u32> = RwLock::new(1);
    /// let writer = LOCK.try_write().unwrap();
    /// runtime.block_on(async {
    ///     assert!(LOCK.read_timeout(Duration::from_millis(1)).await.is_err());
    ///     drop(writer);
    ///     assert!(LOCK.read_timeout(Duration::from_millis(1)).await.is_ok());
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If it has to wait where no [`Runtime`](crate::Runtime) runs: no timer would wake it.
    #[track_caller]
    pub fn read_timeout(
        &self,
        limit: core::time::Duration,
    ) -> impl Future<Output = Result<RwLockReadGuard<'_, T>, crate::time::Elapsed>> {
        let lock = self.read();
        async move {
            match crate::time::timeout(limit, lock).await {
                Ok(guard) => Ok(guard),
                // It may have been pending only to let others run.
                Err(elapsed) => self.try_read().map_err(|_| elapsed),
            }
        }
    }

    /// As [`write`](Self::write), but gives up after a while.
    ///
    /// ```
    /// use executor::{Runtime, sync::RwLock, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// static LOCK: RwLock<u32> = RwLock::new(1);
    /// let reader = LOCK.try_read().unwrap();
    /// runtime.block_on(async {
    ///     assert!(LOCK.write_timeout(Duration::from_millis(1)).await.is_err());
    ///     drop(reader);
    ///     assert!(LOCK.write_timeout(Duration::from_millis(1)).await.is_ok());
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`read_timeout`](Self::read_timeout).
    #[track_caller]
    pub fn write_timeout(
        &self,
        limit: core::time::Duration,
    ) -> impl Future<Output = Result<RwLockWriteGuard<'_, T>, crate::time::Elapsed>> {
        let lock = self.write();
        async move {
            match crate::time::timeout(limit, lock).await {
                Ok(guard) => Ok(guard),
                Err(elapsed) => self.try_write().map_err(|_| elapsed),
            }
        }
    }
}

#[cfg(feature = "alloc")]
impl<T: ?Sized> RwLock<T> {
    /// As [`read`](Self::read), with a guard that keeps the lock and so borrows nothing.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::RwLock};
    /// use std::sync::Arc;
    ///
    /// let lock = Arc::new(RwLock::new(1));
    /// let guard = block_on_simple(lock.clone().read_owned());
    /// assert!(lock.try_write().is_err());
    /// drop(lock);
    /// assert_eq!(*guard, 1);
    /// ```
    #[doc(alias = "read_arc")]
    #[track_caller]
    pub fn read_owned(self: Arc<Self>) -> Read<Arc<Self>> {
        Read(Take::new(At::here(self), 1))
    }

    /// As [`write`](Self::write), with a guard that keeps the lock and so borrows nothing.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::RwLock};
    /// use std::sync::Arc;
    ///
    /// let lock = Arc::new(RwLock::new(1));
    /// let mut guard = block_on_simple(lock.clone().write_owned());
    /// *guard += 1;
    /// let guard = guard.downgrade();
    /// assert_eq!((*guard, *lock.try_read().unwrap()), (2, 2));
    /// ```
    #[doc(alias = "write_arc")]
    #[track_caller]
    pub fn write_owned(self: Arc<Self>) -> Write<Arc<Self>> {
        let readers = self.raw.readers;
        Write(Take::new(At::here(self), readers))
    }

    /// As [`try_read`](Self::try_read), with a guard that borrows nothing. Not in interrupts: it may be the last to keep
    /// the lock, and frees it then.
    ///
    /// ```
    /// use executor::sync::RwLock;
    /// use std::sync::Arc;
    ///
    /// let lock = Arc::new(RwLock::new(1));
    /// let guard = lock.clone().try_read_owned().unwrap();
    /// assert!(lock.try_write().is_err());
    /// drop(lock);
    /// assert_eq!(*guard, 1);
    /// ```
    #[doc(alias = "try_read_arc")]
    #[track_caller]
    pub fn try_read_owned(self: Arc<Self>) -> Result<OwnedRwLockReadGuard<T>, TryLockError> {
        At::here(self).try_read()
    }

    /// As [`try_write`](Self::try_write), with a guard that borrows nothing. Not in interrupts, as that of
    /// [`try_read_owned`](Self::try_read_owned).
    ///
    /// ```
    /// use executor::sync::RwLock;
    /// use std::sync::Arc;
    ///
    /// let lock = Arc::new(RwLock::new(1));
    /// let mut guard = lock.clone().try_write_owned().unwrap();
    /// assert!(lock.clone().try_write_owned().is_err());
    /// *guard += 1;
    /// drop(guard);
    /// assert_eq!(*lock.try_read().unwrap(), 2);
    /// ```
    #[doc(alias = "try_write_arc")]
    #[track_caller]
    pub fn try_write_owned(self: Arc<Self>) -> Result<OwnedRwLockWriteGuard<T>, TryLockError> {
        At::here(self).try_write()
    }
}

/// A lock that somebody asks for, at a place in the source; `L` refers to it.
pub struct At<L, const WRITES: bool> {
    lock: L,
    place: Place,
}

/// To read it.
pub type ToRead<L> = At<L, false>;
/// To write it.
pub type ToWrite<L> = At<L, true>;

impl<L: Keeper, const WRITES: bool> At<L, WRITES> {
    /// This one has it.
    #[inline]
    fn hold_by(&self, who: Who) -> Seat {
        let holders = &self.lock.raw().holders;
        if WRITES {
            holders.writer.set(who, self.place);
            return Seat::None;
        }
        holders.sit(who, self.place)
    }
}

impl<L, const WRITES: bool> At<L, WRITES> {
    #[inline]
    #[track_caller]
    fn here(lock: L) -> Self {
        let place = Place::here();
        Self { lock, place }
    }
}

impl<T: ?Sized, L: Keeper + Deref<Target = RwLock<T>>> ToRead<L> {
    #[inline]
    fn try_read(self) -> Result<ReadGuard<Reading<L::Raw>, T>, TryLockError> {
        match self.lock.raw.permits.try_take(1) {
            Ok(()) => {
                let seat = self.hold_by(Who::here());
                Ok(self.into_guard(seat))
            }
            Err(_) => Err(TryLockError::of(&self.lock.raw)),
        }
    }

    /// For who has one permit.
    #[inline]
    fn into_guard(self, seat: Seat) -> ReadGuard<Reading<L::Raw>, T> {
        let value = self.lock.value.get().cast_const();
        // SAFETY: nobody writes as long as somebody has a permit, and the lock is kept as long as that.
        unsafe { ReadGuard::new(Reading::new(self.lock.into_raw(), seat), value) }
    }
}

impl<T: ?Sized, L: Keeper + Deref<Target = RwLock<T>>> ToWrite<L> {
    #[inline]
    fn try_write(self) -> Result<WriteGuard<L, T>, TryLockError> {
        match self.lock.raw.permits.try_take(self.lock.raw.readers) {
            Ok(()) => {
                let seat = self.hold_by(Who::here());
                Ok(self.into_guard(seat))
            }
            Err(_) => Err(TryLockError::of(&self.lock.raw)),
        }
    }

    /// For who has all permits.
    #[inline]
    fn into_guard(self, _: Seat) -> WriteGuard<L, T> {
        WriteGuard::new(Writing::new(self.lock))
    }
}

// SAFETY: a reference, or an `Arc`: that is to the same lock, which is there as long and does not move meanwhile.
unsafe impl<L: Keeper, const WRITES: bool> Home for At<L, WRITES> {
    const WHAT: &'static &'static str = &"rwlock";

    #[inline]
    fn permits(&self) -> &Permits {
        &self.lock.raw().permits
    }

    type Note = Wait;
    type Hold = Seat;

    #[inline]
    fn hold(&self, cx: &Context<'_>) -> Seat {
        self.hold_by(Who::polls(cx))
    }

    fn lockable(&self) -> Option<&dyn Lockable> {
        Some(self.lock.raw())
    }

    fn on_wait(&self) {
        let holders = &self.lock.raw().holders;
        holders.report_self(Self::WHAT, self.place);
    }
}

impl Lockable for Raw {
    fn permits(&self) -> &Permits {
        &self.permits
    }

    #[cfg(all(feature = "alloc", not(loom)))]
    fn name(&self) -> &Name {
        &self.name
    }

    #[cfg(all(feature = "alloc", not(loom)))]
    fn each_owner(&self, visit: &mut dyn FnMut(&Owner)) {
        self.holders.all().for_each(visit);
    }

    #[cfg(all(feature = "alloc", not(loom)))]
    fn has_strangers(&self) -> bool {
        self.holders.has_strangers()
    }

    #[cfg(all(feature = "alloc", not(loom)))]
    fn forget_owners(&self) {
        self.holders.forget();
    }
}

/// Future of [`RwLock::read`] and [`read_owned`](RwLock::read_owned); `L` refers to the lock.
///
/// ```
/// use executor::{block_on_simple, sync::{Read, RwLock}};
///
/// async fn first(list: Read<&RwLock<Vec<u32>>>) -> u32 {
///     list.await[0]
/// }
/// let lock = RwLock::new(vec![1, 2]);
/// assert_eq!(block_on_simple(first(lock.read())), 1);
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Read<L: Keeper>(Take<ToRead<L>>);

/// Future of [`RwLock::write`] and [`write_owned`](RwLock::write_owned); `L` refers to the lock.
///
/// ```
/// use executor::sync::{RwLock, Write};
/// use std::{pin::Pin, task::{Context, Waker}};
///
/// let lock = RwLock::new(1);
/// let _reader = lock.try_read().unwrap();
/// let mut writer: Pin<Box<Write<&RwLock<u32>>>> = Box::pin(lock.write());
/// assert!(writer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
/// assert!(lock.try_read().is_err(), "it would be after the writer");
/// drop(writer);
/// assert!(lock.try_read().is_ok());
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Write<L: Keeper>(Take<ToWrite<L>>);

/// What both futures do.
macro_rules! locks {
    ($future:ident, $at:ident, $guard:ty) => {
        impl<T: ?Sized, L: Keeper + Deref<Target = RwLock<T>>> Locks for $future<L> {
            type Home = $at<L>;
            type Guard = $guard;

            const WHAT: &'static str = "rwlock";

            #[inline]
            fn take(self: Pin<&mut Self>) -> Pin<&mut Take<Self::Home>> {
                // SAFETY: it is pinned with the whole, which has no `Drop`, and never moved out of it.
                unsafe { self.map_unchecked_mut(|this| &mut this.0) }
            }

            #[inline]
            fn guard(at: Self::Home, seat: Seat) -> $guard {
                at.into_guard(seat)
            }
        }

        impl<T: ?Sized, L: Keeper + Deref<Target = RwLock<T>>> Future for $future<L> {
            type Output = $guard;

            #[inline]
            fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                self.poll_or_panic(cx)
            }
        }

        impl<L: Keeper> $future<L> {
            /// Locks it; an error instead of a panic if it is [poisoned](crate::sync::Poisoned).
            pub fn unless_poisoned(self) -> UnlessPoisoned<Self> {
                UnlessPoisoned(self)
            }
        }
    };
}

locks!(Read, ToRead, ReadGuard<Reading<L::Raw>, T>);
locks!(Write, ToWrite, WriteGuard<L, T>);

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => lock.field("data", &&*guard),
            Err(_) => lock.field("data", &format_args!("<locked>")),
        };
        lock.finish()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
