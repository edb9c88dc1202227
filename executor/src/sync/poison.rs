//! Locks that are not given: because they are taken, or because who had them is lost.

use super::{
    permits::{Closed, Home, Take},
    waits::{self, Lockable},
};
use core::{
    error, fmt,
    pin::Pin,
    task::{Context, Poll},
};

/// Somebody has the lock, or waits for it; or it is poisoned.
///
/// ```
/// use executor::sync::{Mutex, TryLockError};
///
/// fn take(mutex: &Mutex<u32>) -> Result<u32, TryLockError> {
///     Ok(std::mem::take(&mut *mutex.try_lock()?))
/// }
/// let mutex = Mutex::new(1);
/// assert_eq!(take(&mutex), Ok(1));
/// let _guard = mutex.try_lock().unwrap();
/// assert_eq!(take(&mutex).unwrap_err().to_string(), "the lock is taken");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TryLockError {
    is_poisoned: bool,
}

impl TryLockError {
    /// Of this lock, just now.
    #[cold]
    pub(super) fn of(lock: &dyn Lockable) -> Self {
        let is_poisoned = waits::is_poisoned(lock);
        Self { is_poisoned }
    }

    /// Whether it is poisoned: it will not be given to anybody.
    ///
    /// ```
    /// let mutex = executor::sync::Mutex::new(1);
    /// let _guard = mutex.try_lock().unwrap();
    /// assert!(!mutex.try_lock().unwrap_err().is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.is_poisoned
    }
}

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_poisoned {
            true => fmt::Display::fmt(&Poisoned { what: "lock" }, f),
            false => f.write_str("the lock is taken"),
        }
    }
}

impl error::Error for TryLockError {}

/// A task that had the lock is lost: nobody gets it any more.
///
/// On the image nothing unwinds, so a task that panics or faults while it has a lock never unlocks it. It is not handed
/// on, because a guard may have been sent elsewhere and be in use. Who knows better can `clear_poison`.
///
/// ```
/// use executor::{block_on_simple, sync::{Mutex, Poisoned}};
///
/// async fn add(mutex: &Mutex<u32>) -> Result<(), Poisoned> {
///     *mutex.lock().unless_poisoned().await? += 1;
///     Ok(())
/// }
/// let mutex = Mutex::new(1);
/// block_on_simple(add(&mutex))?;
/// assert_eq!(mutex.into_inner(), 2);
/// # Ok::<(), Poisoned>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Poisoned {
    what: &'static str,
}

impl Poisoned {
    pub(super) fn of(what: &'static str) -> Self {
        Self { what }
    }
}

impl fmt::Display for Poisoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the {} is poisoned: a task that had locked it is lost",
            self.what
        )
    }
}

impl error::Error for Poisoned {}

/// A future that locks something.
pub trait Locks: Sized {
    /// The lock, and how it is asked for.
    type Home: Home;
    /// What holds it then.
    type Guard;

    /// What it locks.
    const WHAT: &'static str;

    /// What it waits with.
    fn take(self: Pin<&mut Self>) -> Pin<&mut Take<Self::Home>>;

    /// It is locked.
    fn guard(home: Self::Home, hold: <Self::Home as Home>::Hold) -> Self::Guard;

    /// Polls it. Closed: it is poisoned.
    #[inline]
    fn poll_lock(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Guard, Closed>> {
        match self.as_mut().take().take_now(cx) {
            Some((home, hold)) => Poll::Ready(Ok(Self::guard(home, hold))),
            None => self.poll_slowly(cx),
        }
    }

    #[cold]
    #[inline(never)]
    fn poll_slowly(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Guard, Closed>> {
        let taken = self.take().poll_slowly(cx);
        taken.map_ok(|(home, hold)| Self::guard(home, hold))
    }

    /// The same for who does not expect it to be poisoned.
    #[inline]
    fn poll_or_panic(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Guard> {
        match self.as_mut().take().take_now(cx) {
            Some((home, hold)) => Poll::Ready(Self::guard(home, hold)),
            None => self.poll_slowly_or_panic(cx),
        }
    }

    #[cold]
    #[inline(never)]
    fn poll_slowly_or_panic(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Guard> {
        match self.as_mut().poll_slowly(cx) {
            Poll::Ready(Ok(guard)) => Poll::Ready(guard),
            Poll::Ready(Err(Closed)) => {
                let take = self.take();
                waits::refused(take.home().and_then(Home::lockable), Self::WHAT)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Future of `unless_poisoned`, of [`Lock`](super::Lock) and others.
///
/// ```
/// use executor::{block_on_simple, sync::{Mutex, RwLock}};
///
/// let (mutex, lock) = (Mutex::new(1), RwLock::new(2));
/// block_on_simple(async {
///     assert_eq!(*mutex.lock().unless_poisoned().await.unwrap(), 1);
///     assert_eq!(*lock.read().unless_poisoned().await.unwrap(), 2);
/// });
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct UnlessPoisoned<L>(pub(super) L);

impl<L: Locks> Future for UnlessPoisoned<L> {
    type Output = Result<L::Guard, Poisoned>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: it is pinned with the whole, which has no `Drop`, and never moved out of it.
        let polled = unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll_lock(cx);
        polled.map_err(|Closed| Poisoned::of(L::WHAT))
    }
}
