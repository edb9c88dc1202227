//! A value that one has at a time.

mod guards;

pub use self::guards::{MappedMutexGuard, MutexGuard};
#[cfg(feature = "alloc")]
pub use self::guards::{OwnedMappedMutexGuard, OwnedMutexGuard};
use super::{
    owner::{Owner, Place, Who},
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
    pin::Pin,
    task::{Context, Poll},
};

/// A value that one task has at a time, and may keep across an `.await`.
///
/// It is handed on in the order in which it was asked for: unlocking gives it to the one who has waited
/// longest, and nobody who comes meanwhile is faster. A panic while it is locked
/// unlocks it, where panics unwind; what became of the value is for the next to see. Where they do not, on the image, the
/// task that panics is lost with all it has, and the mutex is *poisoned*: it stays locked, and to lock it panics too, or
/// is an error for who [asks](Lock::unless_poisoned) first.
///
/// It knows which task has it; with debug assertions one that waits for what it has
/// itself is named in the log, with both places. It may yet be no mistake (another part of the
/// task may unlock it, or the wait may have a time limit), so it goes on waiting.
///
/// ```
/// use executor::{Runtime, spawn, sync::Mutex};
///
/// static SUM: Mutex<u32> = Mutex::new(0);
///
/// # let runtime = Runtime::builder().workers(2).build()?;
/// runtime.block_on(async {
///     let adders = [1, 2, 3].map(|number| spawn(async move { *SUM.lock().await += number }));
///     for adder in adders {
///         adder.await.unwrap();
///     }
///     assert_eq!(*SUM.lock().await, 6);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct Mutex<T: ?Sized> {
    raw: Raw,
    /// Touched by who has the permit.
    value: UnsafeCell<T>,
}

/// A mutex without its value.
struct Raw {
    /// One: it is not locked.
    permits: Permits,
    owner: Owner,
    #[cfg_attr(
        any(loom, not(feature = "alloc")),
        allow(dead_code, reason = "nothing is noted")
    )]
    name: Name,
}

impl Raw {
    /// For whoever had it.
    #[inline]
    fn unlock(&self) {
        self.owner.clear();
        if self.permits.add(1) {
            waits::hand_on(self);
        }
    }
}

// SAFETY: the value goes from one to the next, who has it alone.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    const_unless_loom! {
        /// A value that is not locked.
        ///
        /// ```
        /// use executor::sync::Mutex;
        ///
        /// static COUNT: Mutex<u32> = Mutex::new(1);
        /// assert_eq!(*COUNT.try_lock().unwrap(), 1);
        /// ```
        #[doc(alias = "const_new")]
        pub const fn new(value: T) -> Self {
            Self {
                raw: Raw {
                    permits: Permits::new(1),
                    owner: Owner::nobody(),
                    name: Name::none(),
                },
                value: UnsafeCell::new(value),
            }
        }
    }

    /// The value.
    ///
    /// ```
    /// let mutex = executor::sync::Mutex::new(1);
    /// *mutex.try_lock().unwrap() += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks it, and waits until it is this one's turn.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Mutex};
    ///
    /// let mutex = Mutex::new(vec![1]);
    /// block_on_simple(async {
    ///     mutex.lock().await.push(2);
    ///     assert_eq!(*mutex.lock().await, [1, 2]);
    /// });
    /// ```
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> Lock<'_, T> {
        let place = Place::here();
        Lock(Take::new(At { mutex: self, place }, 1))
    }

    /// Locks it if nobody has it, or waits for it. In interrupts too.
    ///
    /// ```
    /// let mutex = executor::sync::Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(mutex.try_lock().is_err());
    /// drop(guard);
    /// assert!(mutex.try_lock().is_ok());
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        let place = Place::here();
        match self.raw.permits.try_take_only() {
            true => {
                self.raw.owner.set(Who::here(), place);
                Ok(At { mutex: self, place }.into())
            }
            false => Err(TryLockError::of(&self.raw)),
        }
    }

    /// Locks it, in code that is not async: only the poll or thread that calls it waits, never its core;
    /// see `task::wait`.
    ///
    /// ```
    /// use executor::{Runtime, sync::Mutex, thread};
    ///
    /// static LINES: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let writer = thread::spawn(|| LINES.lock_blocking().push("from a thread"));
    ///     LINES.lock().await.push("from a task");
    ///     writer.await.unwrap();
    /// });
    /// assert_eq!(LINES.lock_blocking().len(), 2);
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If it has to wait, as `task::wait` does.
    #[doc(alias = "blocking_lock")]
    #[cfg(not(loom))]
    #[track_caller]
    pub fn lock_blocking(&self) -> MutexGuard<'_, T> {
        match self.try_lock() {
            Ok(guard) => guard,
            Err(_) => super::block_on(self.lock()),
        }
    }

    /// As [`lock`](Self::lock), but gives up after a while.
    ///
    /// ```
    /// use executor::{Runtime, sync::Mutex, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// static MUTEX: Mutex<u32> = Mutex::new(1);
    /// let guard = MUTEX.try_lock().unwrap();
    /// runtime.block_on(async {
    ///     assert!(MUTEX.lock_timeout(Duration::from_millis(1)).await.is_err());
    ///     drop(guard);
    ///     assert!(MUTEX.lock_timeout(Duration::from_millis(1)).await.is_ok());
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If it has to wait where no [`Runtime`](crate::Runtime) runs: no timer would wake it.
    #[cfg(all(feature = "alloc", not(loom)))]
    #[track_caller]
    pub fn lock_timeout(
        &self,
        limit: core::time::Duration,
    ) -> impl Future<Output = Result<MutexGuard<'_, T>, crate::time::Elapsed>> {
        let lock = self.lock();
        async move {
            match crate::time::timeout(limit, lock).await {
                Ok(guard) => Ok(guard),
                // It may have been pending only to let others run.
                Err(elapsed) => self.try_lock().map_err(|_| elapsed),
            }
        }
    }

    /// Whether a task that had it locked is lost. Never on the host, where a panic unlocks it.
    ///
    /// ```
    /// let mutex = executor::sync::Mutex::new(1);
    /// assert!(!mutex.is_poisoned());
    /// ```
    pub fn is_poisoned(&self) -> bool {
        waits::is_poisoned(&self.raw)
    }

    /// Unlocks a poisoned mutex, for a value that is good enough as the lost task left it, or is mended by the next to lock it.
    /// It does nothing if it is not poisoned.
    ///
    /// # Safety
    /// No guard of it is in use: the lost task has not given its own to anybody else, to another task or to an interrupt.
    pub unsafe fn clear_poison(&self) {
        if self.is_poisoned() {
            // SAFETY: the caller's promise.
            unsafe { waits::clear_poison(&self.raw, 1) };
        }
    }

    /// The value, which nobody else can have: no lock is needed.
    ///
    /// ```
    /// let mut mutex = executor::sync::Mutex::new(1);
    /// *mutex.get_mut() += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

#[cfg(feature = "alloc")]
impl<T: ?Sized> Mutex<T> {
    /// As [`lock`](Self::lock), with a guard that keeps the mutex and so borrows nothing.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Mutex};
    /// use std::sync::Arc;
    ///
    /// let mutex = Arc::new(Mutex::new(5));
    /// let guard = block_on_simple(mutex.clone().lock_owned());
    /// assert!(mutex.try_lock().is_err());
    /// drop(guard);
    /// assert_eq!(Arc::into_inner(mutex).unwrap().into_inner(), 5);
    /// ```
    #[doc(alias = "lock_arc")]
    #[track_caller]
    pub fn lock_owned(self: Arc<Self>) -> LockOwned<T> {
        let place = Place::here();
        LockOwned(Take::new(At { mutex: self, place }, 1))
    }

    /// As [`try_lock`](Self::try_lock), with a guard that borrows nothing. Not in interrupts: it may be the last to keep
    /// the mutex, and frees it then.
    ///
    /// ```
    /// use executor::sync::Mutex;
    /// use std::sync::Arc;
    ///
    /// let mutex = Arc::new(Mutex::new(5));
    /// let guard = mutex.clone().try_lock_owned().unwrap();
    /// assert!(mutex.clone().try_lock_owned().is_err());
    /// drop(mutex);
    /// assert_eq!(*guard, 5);
    /// ```
    #[doc(alias = "try_lock_arc")]
    #[track_caller]
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        let place = Place::here();
        match self.raw.permits.try_take_only() {
            true => {
                self.raw.owner.set(Who::here(), place);
                Ok(At { mutex: self, place }.into())
            }
            false => Err(TryLockError::of(&self.raw)),
        }
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
        visit(&self.owner);
    }

    #[cfg(all(feature = "alloc", not(loom)))]
    fn forget_owners(&self) {
        self.owner.clear();
    }
}

/// A mutex that somebody asks for, at a place in the source.
pub struct At<M> {
    mutex: M,
    place: Place,
}

// SAFETY: a reference is to the same mutex, which outlives it and does not move meanwhile.
unsafe impl<T: ?Sized> Home for At<&Mutex<T>> {
    const WHAT: &'static &'static str = &"mutex";

    #[inline]
    fn permits(&self) -> &Permits {
        &self.mutex.raw.permits
    }

    #[inline]
    fn try_take(&self, _: usize) -> bool {
        self.mutex.raw.permits.try_take_only()
    }

    type Note = Wait;
    type Hold = ();

    #[inline]
    fn hold(&self, cx: &Context<'_>) {
        self.mutex.raw.owner.set(Who::polls(cx), self.place);
    }

    fn lockable(&self) -> Option<&dyn Lockable> {
        Some(&self.mutex.raw)
    }

    fn on_wait(&self) {
        let owner = &self.mutex.raw.owner;
        owner.report_self(Self::WHAT, self.place);
    }
}

// SAFETY: what it shares stays where it is as long as it lives.
#[cfg(feature = "alloc")]
unsafe impl<T: ?Sized> Home for At<Arc<Mutex<T>>> {
    const WHAT: &'static &'static str = &"mutex";

    fn permits(&self) -> &Permits {
        &self.mutex.raw.permits
    }

    type Note = Wait;
    type Hold = ();

    #[inline]
    fn hold(&self, cx: &Context<'_>) {
        self.mutex.raw.owner.set(Who::polls(cx), self.place);
    }

    fn lockable(&self) -> Option<&dyn Lockable> {
        Some(&self.mutex.raw)
    }

    fn on_wait(&self) {
        let owner = &self.mutex.raw.owner;
        owner.report_self(Self::WHAT, self.place);
    }
}

/// Future of [`Mutex::lock`].
///
/// ```
/// use executor::sync::{Lock, Mutex};
/// use std::{pin::Pin, task::{Context, Waker}};
///
/// let mutex = Mutex::new(1);
/// let guard = mutex.try_lock().unwrap();
/// let mut next: Pin<Box<Lock<'_, u32>>> = Box::pin(mutex.lock());
/// assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
/// drop(guard);
/// assert!(mutex.try_lock().is_err(), "it is the next one's turn");
/// drop(next);
/// assert!(mutex.try_lock().is_ok());
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Lock<'a, T: ?Sized>(Take<At<&'a Mutex<T>>>);

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_or_panic(cx)
    }
}

/// Future of [`Mutex::lock_owned`].
///
/// ```
/// use executor::{block_on_simple, sync::{LockOwned, Mutex}};
/// use std::sync::Arc;
///
/// fn ask(mutex: &Arc<Mutex<u32>>) -> LockOwned<u32> {
///     mutex.clone().lock_owned()
/// }
/// let asked = ask(&Arc::new(Mutex::new(5)));
/// assert_eq!(*block_on_simple(asked), 5);
/// ```
#[cfg(feature = "alloc")]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct LockOwned<T: ?Sized>(Take<At<Arc<Mutex<T>>>>);

#[cfg(feature = "alloc")]
impl<T: ?Sized> Future for LockOwned<T> {
    type Output = OwnedMutexGuard<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_or_panic(cx)
    }
}

/// What both futures do.
macro_rules! locks {
    ($future:ty, $mutex:ty, $guard:ty, $($lifetime:lifetime)?) => {
        impl<$($lifetime,)? T: ?Sized> Locks for $future {
            type Home = At<$mutex>;
            type Guard = $guard;

            const WHAT: &'static str = "mutex";

            #[inline]
            fn take(self: Pin<&mut Self>) -> Pin<&mut Take<Self::Home>> {
                // SAFETY: it is pinned with the whole, which has no `Drop`, and never moved out of it.
                unsafe { self.map_unchecked_mut(|this| &mut this.0) }
            }

            #[inline]
            fn guard(at: Self::Home, (): ()) -> $guard {
                at.into()
            }
        }

        impl<$($lifetime,)? T: ?Sized> $future {
            /// Locks it; an error instead of a panic if it is [poisoned](crate::sync::Poisoned).
            pub fn unless_poisoned(self) -> UnlessPoisoned<Self> {
                UnlessPoisoned(self)
            }
        }
    };
}

locks!(Lock<'a, T>, &'a Mutex<T>, MutexGuard<'a, T>, 'a);
#[cfg(feature = "alloc")]
locks!(LockOwned<T>, Arc<Mutex<T>>, OwnedMutexGuard<T>,);

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut mutex = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => mutex.field("data", &&*guard),
            Err(_) => mutex.field("data", &format_args!("<locked>")),
        };
        mutex.finish()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
