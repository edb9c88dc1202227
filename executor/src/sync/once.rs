//! Values that are made once, by whoever comes first.

use super::{
    event::Event,
    semaphore::{Semaphore, SemaphorePermit},
};
use crate::shim::const_unless_loom;
use core::{cell::UnsafeCell, error, fmt, mem};

/// A value that is set once, and then read by all without waiting.
///
/// Of several who want to make it, one does, and the others wait for it. If that one is
/// dropped, panics or fails before it is done, the next one tries.
///
/// ```
/// use executor::{block_on_simple, sync::OnceCell};
///
/// static NAME: OnceCell<String> = OnceCell::new();
///
/// block_on_simple(async {
///     assert!(NAME.get().is_none());
///     let name = NAME.get_or_init(async || "spindle".to_string()).await;
///     assert_eq!(name, "spindle");
///     assert_eq!(NAME.get_or_init(async || unreachable!()).await, "spindle");
/// });
/// ```
pub struct OnceCell<T> {
    /// The right to set the value: one permit. Closed once it is set.
    right: Semaphore,
    /// There is a value.
    is_set: Event,
    /// Written once, by who has the right, before `is_set`; read by all after.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is owned.
unsafe impl<T: Send> Send for OnceCell<T> {}
// SAFETY: it is set by one, and may be dropped by another; and it is read by several at once.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}

impl<T> OnceCell<T> {
    const_unless_loom! {
        /// Without a value.
        ///
        /// ```
        /// use executor::sync::OnceCell;
        ///
        /// static NAME: OnceCell<String> = OnceCell::new();
        /// assert_eq!(NAME.get(), None);
        /// ```
        #[doc(alias = "const_new")]
        pub const fn new() -> Self {
            Self {
                right: Semaphore::new(1),
                is_set: Event::new(),
                value: UnsafeCell::new(None),
            }
        }
    }

    const_unless_loom! {
        /// With a value, or without.
        ///
        /// ```
        /// use executor::sync::OnceCell;
        ///
        /// static PORT: OnceCell<u16> = OnceCell::new_with(Some(80));
        /// assert_eq!(PORT.get(), Some(&80));
        /// ```
        #[doc(alias = "const_new_with")]
        pub const fn new_with(value: Option<T>) -> Self {
            let is_set = value.is_some();
            Self {
                // Nobody looks for the right where there is a value.
                right: Semaphore::new(1),
                is_set: Event::new_with(is_set),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Whether there is a value.
    ///
    /// ```
    /// let cell = executor::sync::OnceCell::new();
    /// assert!(!cell.initialized());
    /// cell.set(1).unwrap();
    /// assert!(cell.initialized());
    /// ```
    #[doc(alias = "is_initialized")]
    #[inline]
    pub fn initialized(&self) -> bool {
        // Who sees that it is set sees the value.
        self.is_set.is_set()
    }

    /// The value, if there is one.
    ///
    /// ```
    /// let cell = executor::sync::OnceCell::new();
    /// assert_eq!(cell.get(), None);
    /// cell.set(1).unwrap();
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if !self.initialized() {
            return None;
        }
        // SAFETY: it is set, so nobody writes it any more as long as it is shared.
        unsafe { &*self.value.get() }.as_ref()
    }

    /// The value, if there is one.
    ///
    /// ```
    /// let mut cell = executor::sync::OnceCell::from(1);
    /// *cell.get_mut().unwrap() += 1;
    /// assert_eq!(cell.get(), Some(&2));
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// Sets the value, if there is none and nobody is about to make it.
    ///
    /// ```
    /// use executor::sync::{OnceCell, SetError};
    ///
    /// let cell = OnceCell::new();
    /// assert_eq!(cell.set(1), Ok(()));
    /// assert_eq!(cell.set(2), Err(SetError::AlreadyInitializedError(2)));
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    pub fn set(&self, value: T) -> Result<(), SetError<T>> {
        if self.initialized() {
            return Err(SetError::AlreadyInitializedError(value));
        }
        match self.right.try_acquire() {
            Ok(right) => {
                self.set_by(right, value);
                Ok(())
            }
            Err(_) if self.initialized() => Err(SetError::AlreadyInitializedError(value)),
            Err(_) => Err(SetError::InitializingError(value)),
        }
    }

    /// Waits until there is a value, and makes none.
    ///
    /// ```
    /// use executor::{Runtime, spawn, sync::OnceCell};
    ///
    /// static PORT: OnceCell<u16> = OnceCell::new();
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let client = spawn(async { *PORT.wait().await });
    ///     PORT.set(80).unwrap();
    ///     assert_eq!(client.await.unwrap(), 80);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub async fn wait(&self) -> &T {
        self.is_set.wait().await;
        self.get().expect("it is set")
    }

    /// The value; if there is none, `make` makes it, or another one who came before.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::OnceCell};
    ///
    /// let cell = OnceCell::new();
    /// block_on_simple(async {
    ///     assert_eq!(*cell.get_or_init(async || 1).await, 1);
    ///     assert_eq!(*cell.get_or_init(async || 2).await, 1);
    /// });
    /// ```
    pub async fn get_or_init<F: Future<Output = T>>(&self, make: impl FnOnce() -> F) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        if let Ok(right) = self.right.acquire().await {
            // Dropped in here, the right goes to the next.
            let value = make().await;
            self.set_by(right, value);
        }
        self.get().expect("closed, so it is set")
    }

    /// The same, with a `make` that may fail: then there is still no value, and the next one tries.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::OnceCell};
    ///
    /// let cell = OnceCell::new();
    /// block_on_simple(async {
    ///     assert_eq!(cell.get_or_try_init(async || Err("not yet")).await, Err("not yet"));
    ///     assert_eq!(cell.get_or_try_init(async || Ok::<_, ()>(1)).await, Ok(&1));
    /// });
    /// ```
    pub async fn get_or_try_init<E, F: Future<Output = Result<T, E>>>(
        &self,
        make: impl FnOnce() -> F,
    ) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        if let Ok(right) = self.right.acquire().await {
            let value = make().await?;
            self.set_by(right, value);
        }
        Ok(self.get().expect("closed, so it is set"))
    }

    /// Sets it, by who has the right to, which is used up.
    fn set_by(&self, right: SemaphorePermit<'_>, value: T) {
        debug_assert_eq!(right.num_permits(), 1);
        right.forget();
        // SAFETY: there is one permit, which is gone; and nobody reads the value before it is set.
        unsafe { *self.value.get() = Some(value) };
        self.is_set.set();
        // Tells those who wait for the right.
        self.right.close();
    }

    /// Takes the value out, and leaves none.
    ///
    /// ```
    /// let mut cell = executor::sync::OnceCell::from(1);
    /// assert_eq!(cell.take(), Some(1));
    /// assert_eq!(cell.set(2), Ok(()));
    /// ```
    pub fn take(&mut self) -> Option<T> {
        mem::take(self).into_inner()
    }

    /// The value, if there is one.
    ///
    /// ```
    /// let cell = executor::sync::OnceCell::from("value".to_string());
    /// assert_eq!(cell.into_inner().as_deref(), Some("value"));
    /// ```
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

#[cfg(not(loom))]
impl<T> OnceCell<T> {
    /// As [`get_or_init`](Self::get_or_init), in code that is not async; see
    /// [`Mutex::lock_blocking`](super::Mutex::lock_blocking).
    ///
    /// ```
    /// use executor::sync::OnceCell;
    ///
    /// static TABLE: OnceCell<Vec<u32>> = OnceCell::new();
    /// assert_eq!(TABLE.get_or_init_blocking(|| (0..4).collect())[3], 3);
    /// ```
    #[track_caller]
    pub fn get_or_init_blocking(&self, make: impl FnOnce() -> T) -> &T {
        super::block_on(self.get_or_init(async || make()))
    }

    /// As [`get_or_try_init`](Self::get_or_try_init), in code that is not async.
    ///
    /// ```
    /// use executor::sync::OnceCell;
    ///
    /// let cell = OnceCell::new();
    /// assert!(cell.get_or_try_init_blocking(|| "x".parse::<u32>()).is_err());
    /// assert_eq!(cell.get_or_try_init_blocking(|| "7".parse::<u32>()), Ok(&7));
    /// ```
    #[track_caller]
    pub fn get_or_try_init_blocking<E>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&T, E> {
        super::block_on(self.get_or_try_init(async || make()))
    }

    /// As [`wait`](Self::wait), in code that is not async.
    ///
    /// ```
    /// use executor::sync::OnceCell;
    ///
    /// static PORT: OnceCell<u16> = OnceCell::new();
    ///
    /// let client = std::thread::spawn(|| *PORT.wait_blocking());
    /// PORT.set(80).unwrap();
    /// assert_eq!(client.join().unwrap(), 80);
    /// ```
    #[track_caller]
    pub fn wait_blocking(&self) -> &T {
        super::block_on(self.wait())
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        Self::new_with(Some(value))
    }
}

/// A cell of its own, with the value that this has by now.
impl<T: Clone> Clone for OnceCell<T> {
    fn clone(&self) -> Self {
        Self::new_with(self.get().cloned())
    }
}

impl<T: PartialEq> PartialEq for OnceCell<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceCell<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceCell").field(&self.get()).finish()
    }
}

/// Why a value could not be set; it is given back.
///
/// ```
/// use executor::{block_on_simple, sync::{OnceCell, SetError}};
///
/// let cell = OnceCell::new();
/// block_on_simple(cell.get_or_init(async || {
///     assert_eq!(cell.set(2), Err(SetError::InitializingError(2)));
///     1
/// }));
/// assert_eq!(cell.set(3), Err(SetError::AlreadyInitializedError(3)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetError<T> {
    /// There is one.
    AlreadyInitializedError(T),
    /// Somebody is about to make one.
    InitializingError(T),
}

impl<T> SetError<T> {
    /// Whether there is one.
    ///
    /// ```
    /// let cell = executor::sync::OnceCell::from(1);
    /// assert!(cell.set(2).unwrap_err().is_already_init_err());
    /// ```
    pub fn is_already_init_err(&self) -> bool {
        matches!(self, Self::AlreadyInitializedError(_))
    }

    /// Whether somebody is about to make one.
    ///
    /// ```
    /// use executor::sync::OnceCell;
    ///
    /// let cell = OnceCell::new();
    /// cell.get_or_init_blocking(|| {
    ///     assert!(cell.set(2).unwrap_err().is_initializing_err());
    ///     1
    /// });
    /// ```
    pub fn is_initializing_err(&self) -> bool {
        matches!(self, Self::InitializingError(_))
    }
}

impl<T> fmt::Display for SetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyInitializedError(_) => "there is a value already",
            Self::InitializingError(_) => "a value is being made",
        })
    }
}

impl<T: fmt::Debug> error::Error for SetError<T> {}

/// A value that is made when it is first asked for, by an async function.
///
/// ```
/// use executor::{block_on_simple, sync::Lazy};
///
/// let answer = Lazy::new(async || 6 * 7);
/// assert_eq!(*block_on_simple(answer.get()), 42);
/// ```
pub struct Lazy<T, F> {
    cell: OnceCell<T>,
    /// May be called more than once: one that is dropped or panics before it is done was in vain.
    make: F,
}

impl<T, F> Lazy<T, F> {
    const_unless_loom! {
        /// A value that `make` makes.
        ///
        /// ```
        /// use executor::{block_on_simple, sync::Lazy};
        /// use std::future::{Ready, ready};
        ///
        /// static ANSWER: Lazy<u32, fn() -> Ready<u32>> = Lazy::new(|| ready(6 * 7));
        /// assert_eq!(*block_on_simple(ANSWER.get()), 42);
        /// ```
        pub const fn new(make: F) -> Self {
            Self {
                cell: OnceCell::new(),
                make,
            }
        }
    }

    /// The value; the first who asks makes it, the others wait for it.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Lazy};
    /// use std::cell::Cell;
    ///
    /// let made = Cell::new(0);
    /// let lazy = Lazy::new(|| {
    ///     made.set(made.get() + 1);
    ///     async { "value" }
    /// });
    /// assert_eq!(block_on_simple(async { (*lazy.get().await, *lazy.get().await) }), ("value", "value"));
    /// assert_eq!(made.get(), 1);
    /// ```
    pub async fn get<M: Future<Output = T>>(&self) -> &T
    where
        F: Fn() -> M,
    {
        self.cell.get_or_init(&self.make).await
    }

    /// The value, if it was made.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Lazy};
    ///
    /// let lazy = Lazy::new(async || 1);
    /// assert_eq!(lazy.try_get(), None);
    /// block_on_simple(lazy.get());
    /// assert_eq!(lazy.try_get(), Some(&1));
    /// ```
    pub fn try_get(&self) -> Option<&T> {
        self.cell.get()
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Lazy<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lazy").field(&self.try_get()).finish()
    }
}

/// Work that is done once.
///
/// ```
/// use executor::{block_on_simple, sync::Once};
///
/// static SETUP: Once = Once::new();
///
/// block_on_simple(async {
///     SETUP.call_once(async || println!("once")).await;
///     SETUP.call_once(async || unreachable!()).await;
/// });
/// assert!(SETUP.is_completed());
/// ```
#[derive(Debug, Default)]
pub struct Once(OnceCell<()>);

impl Once {
    const_unless_loom! {
        /// Work that nobody has done.
        ///
        /// ```
        /// use executor::sync::Once;
        ///
        /// static SETUP: Once = Once::new();
        /// assert!(!SETUP.is_completed());
        /// ```
        pub const fn new() -> Self {
            Self(OnceCell::new())
        }
    }

    /// Returns when the work is done; the first who comes does it. If that one is dropped or panics before, the
    /// next does it.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Once};
    /// use std::cell::Cell;
    ///
    /// let (once, calls) = (Once::new(), Cell::new(0));
    /// block_on_simple(async {
    ///     for _ in 0..3 {
    ///         once.call_once(async || calls.set(calls.get() + 1)).await;
    ///     }
    /// });
    /// assert_eq!(calls.get(), 1);
    /// ```
    pub async fn call_once<F: Future<Output = ()>>(&self, work: impl FnOnce() -> F) {
        self.0.get_or_init(work).await;
    }

    /// Whether it is done.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Once};
    ///
    /// let once = Once::new();
    /// block_on_simple(once.call_once(async || assert!(!once.is_completed())));
    /// assert!(once.is_completed());
    /// ```
    pub fn is_completed(&self) -> bool {
        self.0.initialized()
    }
}
