//! Waiting until something under a mutex has changed.

use super::lock::{Guard, MutexGuard};
use crate::{
    sync::condvar::Queue,
    task,
    time::{self, Duration, Instant},
};
use core::{fmt, pin::pin};

/// Where threads wait until what a [`Mutex`](super::Mutex) guards is as they need it.
///
/// Whoever waits unlocks it meanwhile, in one step with beginning to wait: a change that is made under the
/// lock after that, and [notified](Self::notify_one), is not missed. Who waits longest is notified first. Nothing is
/// stored for who comes later; and between the notification and the lock others may have been there, so what was
/// waited for is looked at again: [`wait_while`](Self::wait_while) does.
///
/// ```
/// use executor::{Runtime, thread::{self, Condvar, Mutex}};
///
/// static QUEUE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
/// static FILLED: Condvar = Condvar::new();
///
/// # let runtime = Runtime::builder().workers(2).build()?;
/// runtime.block_on(async {
///     let taker = thread::spawn(|| {
///         let mut queue = FILLED.wait_while(QUEUE.lock(), |queue| queue.is_empty());
///         queue.pop()
///     });
///     QUEUE.lock().push(5);
///     FILLED.notify_one();
///     assert_eq!(taker.await.unwrap(), Some(5));
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct Condvar(Queue);

impl Condvar {
    /// Nobody waits.
    ///
    /// ```
    /// use executor::thread::Condvar;
    ///
    /// static CHANGED: Condvar = Condvar::new();
    /// // Nobody waits, so nobody hears it.
    /// CHANGED.notify_all();
    /// ```
    pub const fn new() -> Self {
        Self(Queue::new())
    }

    /// Unlocks, waits until it is notified, and locks again.
    ///
    /// ```
    /// use executor::{Runtime, thread::{self, Condvar, Mutex}};
    ///
    /// static OPEN: Mutex<bool> = Mutex::new(false);
    /// static CHANGED: Condvar = Condvar::new();
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     thread::spawn(|| {
    ///         *OPEN.lock() = true;
    ///         CHANGED.notify_one();
    ///     });
    ///     let mut open = OPEN.lock();
    ///     while !*open {
    ///         open = CHANGED.wait(open);
    ///     }
    ///     assert!(*open);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`task::wait`].
    #[track_caller]
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = MutexGuard::mutex(&guard);
        let mut waiting = pin!(self.0.waiting());
        waiting.as_mut().begin();
        drop(guard);
        task::wait(waiting);
        Guard::new(mutex.lock_blocking())
    }

    /// Waits as long as `condition` holds, which is looked at under the lock.
    ///
    /// ```
    /// use executor::{Runtime, thread::{self, Condvar, Mutex}};
    ///
    /// static OPEN: Mutex<bool> = Mutex::new(false);
    /// static CHANGED: Condvar = Condvar::new();
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     thread::spawn(|| {
    ///         *OPEN.lock() = true;
    ///         CHANGED.notify_one();
    ///     });
    ///     let open = CHANGED.wait_while(OPEN.lock(), |open| !*open);
    ///     assert!(*open);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`task::wait`].
    #[track_caller]
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// As [`wait`](Self::wait), but no longer than that; to lock again may take longer.
    ///
    /// ```
    /// use executor::{Runtime, thread::{self, Condvar, Mutex}, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    /// # runtime.block_on(async {
    /// let (_guard, result) = condvar.wait_timeout(mutex.lock(), Duration::from_millis(1));
    /// assert!(result.timed_out());
    /// # });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`task::wait`], and where no [`Runtime`](crate::Runtime) runs: no timer would wake it.
    #[track_caller]
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let mutex = MutexGuard::mutex(&guard);
        let mut waiting = pin!(self.0.waiting());
        waiting.as_mut().begin();
        drop(guard);
        let notified = task::wait(time::timeout(limit, waiting.as_mut())).is_ok();
        // It may have been notified in the last moment; then nobody else was. From here on others are.
        let timed_out = !notified && !waiting.end();
        (
            Guard::new(mutex.lock_blocking()),
            WaitTimeoutResult(timed_out),
        )
    }

    /// As [`wait_while`](Self::wait_while), but no longer than that in all. It timed out only if the condition still
    /// holds.
    ///
    /// ```
    /// use executor::{Runtime, thread::{Condvar, Mutex}, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (open, changed) = (Mutex::new(false), Condvar::new());
    ///     let limit = Duration::from_millis(1);
    ///     let (guard, result) = changed.wait_timeout_while(open.lock(), limit, |open| !*open);
    ///     assert!(!*guard && result.timed_out());
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// As [`wait_timeout`](Self::wait_timeout).
    #[track_caller]
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let end = Instant::now().saturating_add(limit);
        loop {
            if !condition(&mut guard) {
                return (guard, WaitTimeoutResult(false));
            }
            let left = end - Instant::now();
            if left.is_zero() {
                return (guard, WaitTimeoutResult(true));
            }
            guard = self.wait_timeout(guard, left).0;
        }
    }

    /// Wakes the one who has waited longest, if anybody waits.
    ///
    /// ```
    /// use executor::{Runtime, thread::{self, Condvar, Mutex}};
    ///
    /// static COINS: Mutex<u32> = Mutex::new(0);
    /// static CHANGED: Condvar = Condvar::new();
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let taker = thread::spawn(|| *CHANGED.wait_while(COINS.lock(), |coins| *coins == 0) -= 1);
    ///     // It begins to wait.
    ///     thread::yield_now();
    ///     *COINS.lock() += 1;
    ///     CHANGED.notify_one();
    ///     taker.await.unwrap();
    ///     assert_eq!(*COINS.lock(), 0);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all who wait.
    ///
    /// ```
    /// use executor::{Runtime, thread::{self, Condvar, Mutex}};
    ///
    /// static OPEN: Mutex<bool> = Mutex::new(false);
    /// static CHANGED: Condvar = Condvar::new();
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let waiting = [(); 3].map(|()| thread::spawn(|| *CHANGED.wait_while(OPEN.lock(), |open| !*open)));
    ///     // They begin to wait.
    ///     thread::yield_now();
    ///     *OPEN.lock() = true;
    ///     CHANGED.notify_all();
    ///     for thread in waiting {
    ///         assert!(thread.await.unwrap());
    ///     }
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

/// Whether a wait ended because the time was over.
///
/// ```
/// use executor::{Runtime, thread::{Condvar, Mutex, WaitTimeoutResult}, time::Duration};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let (mutex, condvar) = (Mutex::new(()), Condvar::new());
///     let result: WaitTimeoutResult = condvar.wait_timeout(mutex.lock(), Duration::from_millis(1)).1;
///     assert!(result.timed_out());
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was over, and nobody had notified it.
    ///
    /// ```
    /// use executor::{Runtime, thread::{Condvar, Mutex}, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (open, changed) = (Mutex::new(true), Condvar::new());
    ///     let limit = Duration::from_millis(1);
    ///     let (guard, result) = changed.wait_timeout_while(open.lock(), limit, |open| !*open);
    ///     assert!(*guard && !result.timed_out());
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn timed_out(&self) -> bool {
        self.0
    }
}
