//! A mutex that makes who has it urgent.

use super::{Mutex, MutexGuard, TryLockError};
use crate::{Priority, scheduler::inherit, task::Task};
use core::{
    fmt,
    ops::{Deref, DerefMut},
};

/// A [`Mutex`] with a priority ceiling: whoever has it is of that priority at least, from the moment he gets it until he unlocks it.
///
/// Inheritance makes an owner urgent when somebody urgent comes to wait; a ceiling does so before that, so that
/// who comes finds him done sooner, and nobody of a priority in between gets ahead of him. It is to be the highest priority of those who use it; and
/// as it holds others up, it is for few instructions.
///
/// ```
/// use executor::{Priority, Runtime, sync::CeilingMutex, task};
///
/// static COUNT: CeilingMutex<u32> = CeilingMutex::new(Priority::High, 0);
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let mut count = COUNT.lock().await;
///     assert_eq!(task::current().priority(), Priority::High);
///     *count += 1;
///     drop(count);
///     assert_eq!(task::current().priority(), Priority::Normal);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct CeilingMutex<T: ?Sized> {
    ceiling: Priority,
    mutex: Mutex<T>,
}

impl<T> CeilingMutex<T> {
    /// A value that is not locked.
    pub const fn new(ceiling: Priority, value: T) -> Self {
        Self {
            ceiling,
            mutex: Mutex::new(value),
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.mutex.into_inner()
    }
}

impl<T: ?Sized> CeilingMutex<T> {
    /// Locks it, and waits until it is this one's turn.
    ///
    /// # Panics
    /// If it is poisoned, as [`Mutex::lock`].
    pub async fn lock(&self) -> CeilingMutexGuard<'_, T> {
        self.raise(self.mutex.lock().await)
    }

    /// Locks it if nobody has it, or waits for it. Not in interrupts.
    ///
    /// ```
    /// use executor::{Priority, sync::CeilingMutex};
    ///
    /// let mutex = CeilingMutex::new(Priority::High, 1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(mutex.try_lock().is_err());
    /// drop(guard);
    /// assert_eq!(mutex.into_inner(), 1);
    /// ```
    pub fn try_lock(&self) -> Result<CeilingMutexGuard<'_, T>, TryLockError> {
        Ok(self.raise(self.mutex.try_lock()?))
    }

    fn raise<'a>(&'a self, guard: MutexGuard<'a, T>) -> CeilingMutexGuard<'a, T> {
        let level = self.ceiling as usize;
        CeilingMutexGuard {
            guard,
            _held: Held {
                task: inherit::hold_ceiling(level),
                level,
            },
        }
    }

    /// What whoever has it is at least.
    pub fn ceiling(&self) -> Priority {
        self.ceiling
    }
}

/// Has the value of a [`CeilingMutex`].
#[must_use = "a guard that is dropped unlocks at once"]
pub struct CeilingMutexGuard<'a, T: ?Sized> {
    // Dropped in this order: unlocked first.
    guard: MutexGuard<'a, T>,
    _held: Held,
}

/// Somebody is urgent for it.
struct Held {
    task: Option<Task>,
    level: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            inherit::drop_ceiling(task, self.level);
        }
    }
}

impl<T: ?Sized> Deref for CeilingMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for CeilingMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for CeilingMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CeilingMutex")
            .field("ceiling", &self.ceiling)
            .field("mutex", &&self.mutex)
            .finish()
    }
}
