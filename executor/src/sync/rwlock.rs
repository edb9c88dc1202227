//! A value that many read, or one writes.

use super::TryLockError;
use super::permits::{Closed, Home, Permits, Take};
use crate::shim::const_unless_loom;
#[cfg(feature = "alloc")]
use alloc::sync::Arc;
use core::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    pin::Pin,
    ptr,
    task::{Context, Poll},
};

/// How many may read at once. Each has a permit; who writes has them all.
const READERS: usize = u32::MAX as usize >> 3;

/// A value that many tasks read at once, or one writes, also across an `.await`.
///
/// First come, first served: who wants to read waits behind one who waits to write, so
/// neither is starved. For the same reason a task that reads must not ask to read once more
/// while it does: if a writer waits, both wait for ever.
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
    permits: Permits,
    /// Read by who has a permit, written by who has all.
    value: UnsafeCell<T>,
}

// SAFETY: the value goes from one writer to the next.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: as above; and it is read by several at once.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    const_unless_loom! {
        /// A value that nobody reads or writes.
        pub const fn new(value: T) -> Self {
            Self {
                permits: Permits::new(READERS),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks it to read, and waits while somebody writes or waits to.
    #[inline]
    pub fn read(&self) -> Read<&Self> {
        Read(Take::new(self, 1))
    }

    /// Locks it to write, and waits until nobody else reads or writes.
    #[inline]
    pub fn write(&self) -> Write<&Self> {
        Write(Take::new(self, READERS))
    }

    /// Locks it to read if nobody writes or waits. In interrupts too.
    #[inline]
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        try_take(self, 1).map(ReadGuard::new)
    }

    /// Locks it to write if nobody has it or waits. In interrupts too.
    #[inline]
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        try_take(self, READERS).map(WriteGuard::new)
    }

    /// The value, which nobody else can have: no lock is needed.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

#[cfg(not(loom))]
impl<T: ?Sized> RwLock<T> {
    /// Locks it to read, in code that is not async; see [`Mutex::lock_blocking`](super::Mutex::lock_blocking).
    #[track_caller]
    pub fn read_blocking(&self) -> RwLockReadGuard<'_, T> {
        self.try_read()
            .unwrap_or_else(|_| super::block_on(self.read()))
    }

    /// Locks it to write, in code that is not async; see [`Mutex::lock_blocking`](super::Mutex::lock_blocking).
    #[track_caller]
    pub fn write_blocking(&self) -> RwLockWriteGuard<'_, T> {
        self.try_write()
            .unwrap_or_else(|_| super::block_on(self.write()))
    }
}

#[cfg(all(feature = "alloc", not(loom)))]
impl<T: ?Sized> RwLock<T> {
    /// As [`read`](Self::read), but gives up after a while.
    ///
    /// # Panics
    /// If it has to wait where no [`Runtime`](crate::Runtime) runs: no timer would wake it.
    pub async fn read_timeout(
        &self,
        limit: core::time::Duration,
    ) -> Result<RwLockReadGuard<'_, T>, crate::time::Elapsed> {
        match crate::time::timeout(limit, self.read()).await {
            Ok(guard) => Ok(guard),
            // It may have been pending only to let others run.
            Err(elapsed) => self.try_read().map_err(|_| elapsed),
        }
    }

    /// As [`write`](Self::write), but gives up after a while.
    ///
    /// # Panics
    /// As [`read_timeout`](Self::read_timeout).
    pub async fn write_timeout(
        &self,
        limit: core::time::Duration,
    ) -> Result<RwLockWriteGuard<'_, T>, crate::time::Elapsed> {
        match crate::time::timeout(limit, self.write()).await {
            Ok(guard) => Ok(guard),
            Err(elapsed) => self.try_write().map_err(|_| elapsed),
        }
    }
}

#[cfg(feature = "alloc")]
impl<T: ?Sized> RwLock<T> {
    /// As [`read`](Self::read), with a guard that keeps the lock and so borrows nothing.
    pub fn read_owned(self: Arc<Self>) -> Read<Arc<Self>> {
        Read(Take::new(self, 1))
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
    pub fn write_owned(self: Arc<Self>) -> Write<Arc<Self>> {
        Write(Take::new(self, READERS))
    }

    /// As [`try_read`](Self::try_read), with a guard that borrows nothing.
    pub fn try_read_owned(self: Arc<Self>) -> Result<OwnedRwLockReadGuard<T>, TryLockError> {
        try_take(self, 1).map(ReadGuard::new)
    }

    /// As [`try_write`](Self::try_write), with a guard that borrows nothing.
    pub fn try_write_owned(self: Arc<Self>) -> Result<OwnedRwLockWriteGuard<T>, TryLockError> {
        try_take(self, READERS).map(WriteGuard::new)
    }
}

#[inline]
fn try_take<L: Home>(lock: L, count: usize) -> Result<L, TryLockError> {
    match lock.permits().try_take(count) {
        Ok(()) => Ok(lock),
        Err(_) => Err(TryLockError::NEW),
    }
}

// SAFETY: a reference is to the same lock, which outlives it and does not move meanwhile.
unsafe impl<T: ?Sized> Home for &RwLock<T> {
    const WHAT: &'static &'static str = &"rwlock";

    #[inline]
    fn permits(&self) -> &Permits {
        &self.permits
    }
}

// SAFETY: what it shares stays where it is as long as it lives.
#[cfg(feature = "alloc")]
unsafe impl<T: ?Sized> Home for Arc<RwLock<T>> {
    const WHAT: &'static &'static str = &"rwlock";

    fn permits(&self) -> &Permits {
        &self.permits
    }
}

/// Future of [`RwLock::read`] and [`read_owned`](RwLock::read_owned); `L` refers to the lock.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Read<L: Home>(Take<L>);

/// Future of [`RwLock::write`] and [`write_owned`](RwLock::write_owned); `L` refers to the lock.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Write<L: Home>(Take<L>);

impl<T: ?Sized, L: Home + Deref<Target = RwLock<T>>> Future for Read<L> {
    type Output = ReadGuard<L, T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: it is pinned with the whole, which has no `Drop`, and never moved out of it.
        let take = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
        take.poll(cx).map(|taken| ReadGuard::new(had(taken)))
    }
}

impl<T: ?Sized, L: Home + Deref<Target = RwLock<T>>> Future for Write<L> {
    type Output = WriteGuard<L, T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: as for `Read`.
        let take = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
        take.poll(cx).map(|taken| WriteGuard::new(had(taken)))
    }
}

/// Somebody's turn has come.
#[inline]
fn had<L>(taken: Result<L, Closed>) -> L {
    match taken {
        Ok(lock) => lock,
        Err(Closed) => unreachable!("nobody closes a lock"),
    }
}

/// Reads the value of a [`RwLock`], to which `L` refers.
#[must_use = "a guard that is dropped unlocks at once"]
pub struct ReadGuard<L: Deref<Target = RwLock<T>>, T: ?Sized> {
    lock: L,
    /// It can be sent and shared if that can.
    _value: PhantomData<T>,
}

/// Writes the value of a [`RwLock`], to which `L` refers.
#[must_use = "a guard that is dropped unlocks at once"]
pub struct WriteGuard<L: Deref<Target = RwLock<T>>, T: ?Sized> {
    lock: L,
    /// It can be sent and shared if that can.
    _value: PhantomData<T>,
}

/// Reads a value whose lock it borrows.
pub type RwLockReadGuard<'a, T> = ReadGuard<&'a RwLock<T>, T>;
/// Writes a value whose lock it borrows.
pub type RwLockWriteGuard<'a, T> = WriteGuard<&'a RwLock<T>, T>;
/// Reads a value whose lock it keeps.
#[cfg(feature = "alloc")]
pub type OwnedRwLockReadGuard<T> = ReadGuard<Arc<RwLock<T>>, T>;
/// Writes a value whose lock it keeps.
#[cfg(feature = "alloc")]
pub type OwnedRwLockWriteGuard<T> = WriteGuard<Arc<RwLock<T>>, T>;

impl<L: Deref<Target = RwLock<T>>, T: ?Sized> ReadGuard<L, T> {
    /// For who has one permit.
    #[inline]
    fn new(lock: L) -> Self {
        let _value = PhantomData;
        Self { lock, _value }
    }
}

impl<L: Deref<Target = RwLock<T>>, T: ?Sized> WriteGuard<L, T> {
    /// For who has all permits.
    #[inline]
    fn new(lock: L) -> Self {
        let _value = PhantomData;
        Self { lock, _value }
    }

    /// Goes on reading, and lets others do so. Nobody writes in between.
    pub fn downgrade(self) -> ReadGuard<L, T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: it is not dropped, so this is the only use of its lock.
        let lock = unsafe { ptr::read(&this.lock) };
        let keeps = usize::from(!cfg!(seeded = "rwlock_downgrade_keeps_none"));
        lock.permits.give(READERS - keeps);
        ReadGuard::new(lock)
    }
}

impl<L: Deref<Target = RwLock<T>>, T: ?Sized> Deref for ReadGuard<L, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: who has a permit may read: nobody has all of them.
        unsafe { &*self.lock.value.get() }
    }
}

impl<L: Deref<Target = RwLock<T>>, T: ?Sized> Deref for WriteGuard<L, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: nobody else has a permit.
        unsafe { &*self.lock.value.get() }
    }
}

impl<L: Deref<Target = RwLock<T>>, T: ?Sized> DerefMut for WriteGuard<L, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: nobody else has a permit.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<L: Deref<Target = RwLock<T>>, T: ?Sized> Drop for ReadGuard<L, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.permits.give(1);
    }
}

impl<L: Deref<Target = RwLock<T>>, T: ?Sized> Drop for WriteGuard<L, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.permits.give(READERS);
    }
}

impl<L: Deref<Target = RwLock<T>>, T: ?Sized + fmt::Debug> fmt::Debug for ReadGuard<L, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<L: Deref<Target = RwLock<T>>, T: ?Sized + fmt::Debug> fmt::Debug for WriteGuard<L, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => lock.field("value", &&*guard),
            Err(_) => lock.field("value", &format_args!("<locked>")),
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
