//! Locks for code that does not await: `Mutex` and `RwLock` of threads.
//!
//! They are those of [`sync`](crate::sync), with other guards. Whoever waits for one suspends only his context,
//! and stands in the same queue as everywhere.

use super::held::Held;
use crate::{
    sync::{self, Poisoned, TryLockError},
    task,
    time::{Duration, Elapsed},
};
use core::{
    fmt,
    ops::{Deref, DerefMut},
};

/// A value that one thread has at a time, and not across an `.await`.
///
/// It is locked in turn, as a [`sync::Mutex`], and only the thread or the task that waits for it does so, never
/// its core. A panic while it is locked unlocks it, where panics unwind.
///
/// Its guard is not `Send`. So a task that keeps one while it awaits cannot be [spawned](crate::spawn); and what does
/// so elsewhere panics with debug assertions, naming the task and where it locked. For that is [`sync::Mutex`].
///
/// ```
/// use executor::{Runtime, thread::{self, Mutex}};
///
/// static SUM: Mutex<u32> = Mutex::new(0);
///
/// # let runtime = Runtime::builder().workers(2).build()?;
/// runtime.block_on(async {
///     let adders = [1, 2, 3].map(|number| thread::spawn(move || *SUM.lock() += number));
///     for adder in adders {
///         adder.await.unwrap();
///     }
///     assert_eq!(*SUM.lock(), 6);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// In a task that awaits, what is done under the lock goes into a block of its own, or a function:
///
/// ```
/// use executor::{spawn, task::yield_now, thread::Mutex};
///
/// static SUM: Mutex<u32> = Mutex::new(0);
/// # async fn example() {
/// spawn(async {
///     {
///         let mut sum = SUM.lock();
///         *sum += 1;
///     }
///     yield_now().await;
/// });
/// # }
/// ```
///
/// This does not compile:
///
/// ```compile_fail
/// use executor::{spawn, task::yield_now, thread::Mutex};
///
/// static SUM: Mutex<u32> = Mutex::new(0);
/// # async fn example() {
/// spawn(async {
///     let mut sum = SUM.lock();
///     yield_now().await;
///     *sum += 1;
/// });
/// # }
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// A value that many threads read, or one writes, and none of them across an `.await`; see [`Mutex`].
///
/// As for a [`sync::RwLock`], who reads waits behind one who waits to write, so a thread must not ask
/// to read once more while it reads.
///
/// ```
/// use executor::thread::RwLock;
///
/// static LIMITS: RwLock<[u32; 2]> = RwLock::new([1, 2]);
///
/// LIMITS.write()[0] = 5;
/// assert_eq!(*LIMITS.read(), [5, 2]);
/// ```
///
/// This does not compile:
///
/// ```compile_fail
/// use executor::{spawn, task::yield_now, thread::RwLock};
///
/// static LIMITS: RwLock<u32> = RwLock::new(0);
/// # async fn example() {
/// spawn(async {
///     let limits = LIMITS.read();
///     yield_now().await;
///     drop(limits);
/// });
/// # }
/// ```
#[derive(Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> Mutex<T> {
    /// A value that is not locked.
    ///
    /// ```
    /// use executor::thread::Mutex;
    ///
    /// static SUM: Mutex<u32> = Mutex::new(0);
    /// assert_eq!(*SUM.lock(), 0);
    /// ```
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// The value.
    ///
    /// ```
    /// let mutex = executor::thread::Mutex::new(1);
    /// *mutex.lock() += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks it, and waits until it is this one's turn.
    ///
    /// ```
    /// let mutex = executor::thread::Mutex::new(1);
    /// *mutex.lock() += 1;
    /// assert_eq!(*mutex.lock(), 2);
    /// ```
    ///
    /// # Panics
    /// If it has to wait, as [`task::wait`] does.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        Guard::new(self.0.lock_blocking())
    }

    /// Locks it if nobody has it, or waits for it.
    ///
    /// ```
    /// let mutex = executor::thread::Mutex::new(1);
    /// let guard = mutex.lock();
    /// assert!(mutex.try_lock().is_err());
    /// drop(guard);
    /// assert!(mutex.try_lock().is_ok());
    /// ```
    #[track_caller]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        Ok(Guard::new(self.0.try_lock()?))
    }

    /// As [`lock`](Self::lock), but gives up after a while.
    ///
    /// ```
    /// use executor::{Runtime, thread::Mutex, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (mutex, limit) = (Mutex::new(1), Duration::from_millis(1));
    ///     let guard = mutex.lock();
    ///     assert!(mutex.lock_timeout(limit).is_err());
    ///     drop(guard);
    ///     assert!(mutex.lock_timeout(limit).is_ok());
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`lock`](Self::lock), and if it has to wait where no [`Runtime`](crate::Runtime) runs.
    #[track_caller]
    pub fn lock_timeout(&self, limit: Duration) -> Result<MutexGuard<'_, T>, Elapsed> {
        Ok(Guard::new(task::wait(self.0.lock_timeout(limit))?))
    }

    /// As [`lock`](Self::lock), but an error instead of a panic if it is poisoned.
    ///
    /// ```
    /// let lock = executor::thread::Mutex::new(1);
    /// assert_eq!(*lock.lock_unless_poisoned().unwrap(), 1);
    /// ```
    ///
    /// # Panics
    /// If it has to wait, as [`task::wait`].
    #[track_caller]
    pub fn lock_unless_poisoned(&self) -> Result<MutexGuard<'_, T>, Poisoned> {
        if let Ok(guard) = self.try_lock() {
            return Ok(guard);
        }
        Ok(Guard::new(task::wait(self.0.lock().unless_poisoned())?))
    }

    /// Whether a task or thread that had it locked is lost; see [`Poisoned`].
    ///
    /// ```
    /// assert!(!executor::thread::Mutex::new(1).is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.0.is_poisoned()
    }

    /// Unlocks a poisoned lock. It does nothing if it is not poisoned.
    ///
    /// # Safety
    /// As for [`sync::Mutex::clear_poison`].
    pub unsafe fn clear_poison(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.clear_poison() };
    }

    /// The value, which nobody else can have: no lock is needed.
    ///
    /// ```
    /// let mut mutex = executor::thread::Mutex::new(1);
    /// *mutex.get_mut() += 1;
    /// assert_eq!(*mutex.lock(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T> RwLock<T> {
    /// A value that nobody reads or writes.
    ///
    /// ```
    /// use executor::thread::RwLock;
    ///
    /// static LIMIT: RwLock<u32> = RwLock::new(5);
    /// assert_eq!(*LIMIT.read(), 5);
    /// ```
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// The value.
    ///
    /// ```
    /// let lock = executor::thread::RwLock::new(1);
    /// *lock.write() += 1;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks it to read, and waits while somebody writes or waits to.
    ///
    /// ```
    /// let lock = executor::thread::RwLock::new(1);
    /// let reader = lock.read();
    /// assert_eq!(*reader, 1);
    /// assert!(lock.try_read().is_ok());
    /// assert!(lock.try_write().is_err());
    /// ```
    ///
    /// # Panics
    /// As [`Mutex::lock`].
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        Guard::new(self.0.read_blocking())
    }

    /// Locks it to write, and waits until nobody else reads or writes.
    ///
    /// ```
    /// let lock = executor::thread::RwLock::new(1);
    /// let mut writer = lock.write();
    /// *writer += 1;
    /// assert!(lock.try_read().is_err());
    /// ```
    ///
    /// # Panics
    /// As [`Mutex::lock`].
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        Guard::new(self.0.write_blocking())
    }

    /// Locks it to read if nobody writes or waits.
    ///
    /// ```
    /// let lock = executor::thread::RwLock::new(1);
    /// assert_eq!(*lock.try_read().unwrap(), 1);
    /// let writer = lock.write();
    /// assert!(lock.try_read().is_err());
    /// ```
    #[track_caller]
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        Ok(Guard::new(self.0.try_read()?))
    }

    /// Locks it to write if nobody has it or waits.
    ///
    /// ```
    /// let lock = executor::thread::RwLock::new(1);
    /// *lock.try_write().unwrap() += 1;
    /// let reader = lock.read();
    /// assert!(lock.try_write().is_err());
    /// ```
    #[track_caller]
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        Ok(Guard::new(self.0.try_write()?))
    }

    /// As [`read`](Self::read), but gives up after a while.
    ///
    /// ```
    /// use executor::{Runtime, thread::RwLock, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (lock, limit) = (RwLock::new(1), Duration::from_millis(1));
    ///     let writer = lock.write();
    ///     assert!(lock.read_timeout(limit).is_err());
    ///     drop(writer);
    ///     assert!(lock.read_timeout(limit).is_ok());
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Mutex::lock_timeout`].
    #[track_caller]
    pub fn read_timeout(&self, limit: Duration) -> Result<RwLockReadGuard<'_, T>, Elapsed> {
        Ok(Guard::new(task::wait(self.0.read_timeout(limit))?))
    }

    /// As [`write`](Self::write), but gives up after a while.
    ///
    /// ```
    /// use executor::{Runtime, thread::RwLock, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (lock, limit) = (RwLock::new(1), Duration::from_millis(1));
    ///     let reader = lock.read();
    ///     assert!(lock.write_timeout(limit).is_err());
    ///     drop(reader);
    ///     assert!(lock.write_timeout(limit).is_ok());
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Mutex::lock_timeout`].
    #[track_caller]
    pub fn write_timeout(&self, limit: Duration) -> Result<RwLockWriteGuard<'_, T>, Elapsed> {
        Ok(Guard::new(task::wait(self.0.write_timeout(limit))?))
    }

    /// As [`read`](Self::read), but an error instead of a panic if it is poisoned.
    ///
    /// ```
    /// let lock = executor::thread::RwLock::new(1);
    /// assert_eq!(*lock.read_unless_poisoned().unwrap(), 1);
    /// ```
    ///
    /// # Panics
    /// If it has to wait, as [`task::wait`].
    #[track_caller]
    pub fn read_unless_poisoned(&self) -> Result<RwLockReadGuard<'_, T>, Poisoned> {
        if let Ok(guard) = self.try_read() {
            return Ok(guard);
        }
        Ok(Guard::new(task::wait(self.0.read().unless_poisoned())?))
    }

    /// As [`write`](Self::write), but an error instead of a panic if it is poisoned.
    ///
    /// ```
    /// let lock = executor::thread::RwLock::new(1);
    /// assert_eq!(*lock.write_unless_poisoned().unwrap(), 1);
    /// ```
    ///
    /// # Panics
    /// If it has to wait, as [`task::wait`].
    #[track_caller]
    pub fn write_unless_poisoned(&self) -> Result<RwLockWriteGuard<'_, T>, Poisoned> {
        if let Ok(guard) = self.try_write() {
            return Ok(guard);
        }
        Ok(Guard::new(task::wait(self.0.write().unless_poisoned())?))
    }

    /// Whether a task or thread that had it locked is lost; see [`Poisoned`].
    ///
    /// ```
    /// assert!(!executor::thread::RwLock::new(1).is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.0.is_poisoned()
    }

    /// Unlocks a poisoned lock. It does nothing if it is not poisoned.
    ///
    /// # Safety
    /// As for [`sync::RwLock::clear_poison`].
    pub unsafe fn clear_poison(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.clear_poison() };
    }

    /// The value, which nobody else can have: no lock is needed.
    ///
    /// ```
    /// let mut lock = executor::thread::RwLock::new(1);
    /// *lock.get_mut() += 1;
    /// assert_eq!(*lock.read(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// A guard of `sync`'s, `G`, that is not kept across an `.await`.
///
/// ```
/// use executor::thread::{Guard, Mutex, RwLock};
/// use std::ops::Deref;
///
/// fn double<G: Deref<Target = u32>>(guard: &Guard<G>) -> u32 {
///     **guard * 2
/// }
/// assert_eq!(double(&Mutex::new(1).lock()), 2);
/// assert_eq!(double(&RwLock::new(2).read()), 4);
/// ```
#[must_use = "a guard that is dropped unlocks at once"]
pub struct Guard<G> {
    guard: G,
    held: Held,
}

/// Has the value of a [`Mutex`]; dropped, it hands it on.
///
/// ```
/// use executor::thread::{Mutex, MutexGuard};
///
/// let mutex = Mutex::new(1);
/// let guard: MutexGuard<'_, u32> = mutex.lock();
/// drop(guard);
/// assert!(mutex.try_lock().is_ok());
/// ```
pub type MutexGuard<'a, T> = Guard<sync::MutexGuard<'a, T>>;
/// Reads the value of a [`RwLock`].
///
/// ```
/// use executor::thread::{RwLock, RwLockReadGuard};
///
/// let lock = RwLock::new(1);
/// let readers: [RwLockReadGuard<'_, u32>; 2] = [lock.read(), lock.try_read().unwrap()];
/// assert_eq!(*readers[0] + *readers[1], 2);
/// ```
pub type RwLockReadGuard<'a, T> = Guard<sync::RwLockReadGuard<'a, T>>;
/// Writes the value of a [`RwLock`].
///
/// ```
/// use executor::thread::{RwLock, RwLockWriteGuard};
///
/// let lock = RwLock::new(1);
/// let mut writer: RwLockWriteGuard<'_, u32> = lock.write();
/// *writer += 1;
/// drop(writer);
/// assert_eq!(*lock.read(), 2);
/// ```
pub type RwLockWriteGuard<'a, T> = Guard<sync::RwLockWriteGuard<'a, T>>;

impl<G> Guard<G> {
    #[track_caller]
    pub(super) fn new(guard: G) -> Self {
        let held = Held::new();
        Self { guard, held }
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The mutex that it is of, as `sync` knows it.
    pub(super) fn mutex(this: &Self) -> &'a sync::Mutex<T> {
        sync::MutexGuard::mutex(&this.guard)
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Goes on reading, and lets others do so. Nobody writes in between.
    ///
    /// ```
    /// let lock = executor::thread::RwLock::new(1);
    /// let mut writer = lock.write();
    /// *writer += 1;
    /// let reader = writer.downgrade();
    /// assert_eq!((*reader, *lock.try_read().unwrap()), (2, 2));
    /// ```
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        let Self { guard, held } = self;
        let guard = guard.downgrade();
        Guard { guard, held }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

impl<G: fmt::Debug> fmt::Debug for Guard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

impl<G: fmt::Display> fmt::Display for Guard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
