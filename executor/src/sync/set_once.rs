//! A value that somebody else sets.

use super::once::{OnceCell, SetError};
use crate::shim::const_unless_loom;
use core::{error, fmt};

/// A value that is set once, for all who wait for it: a [`OnceCell`] that nobody makes by asking.
///
/// ```
/// use executor::{Runtime, spawn, sync::SetOnce};
///
/// static ADDRESS: SetOnce<[u8; 4]> = SetOnce::new();
///
/// # let runtime = Runtime::builder().workers(2).build()?;
/// runtime.block_on(async {
///     let clients = [1, 2].map(|_| spawn(async { ADDRESS.wait().await[3] }));
///     ADDRESS.set([10, 0, 0, 7]).unwrap();
///     for client in clients {
///         assert_eq!(client.await.unwrap(), 7);
///     }
///     assert!(ADDRESS.set([0; 4]).is_err());
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SetOnce<T>(OnceCell<T>);

impl<T> SetOnce<T> {
    const_unless_loom! {
        /// Without a value.
        ///
        /// ```
        /// use executor::sync::SetOnce;
        ///
        /// static ADDRESS: SetOnce<[u8; 4]> = SetOnce::new();
        /// assert_eq!(ADDRESS.get(), None);
        /// ```
        #[doc(alias = "const_new")]
        pub const fn new() -> Self {
            Self(OnceCell::new())
        }
    }

    const_unless_loom! {
        /// With a value, or without.
        ///
        /// ```
        /// use executor::sync::SetOnce;
        ///
        /// static PORT: SetOnce<u16> = SetOnce::new_with(Some(80));
        /// assert_eq!(PORT.get(), Some(&80));
        /// ```
        #[doc(alias = "const_new_with")]
        pub const fn new_with(value: Option<T>) -> Self {
            Self(OnceCell::new_with(value))
        }
    }

    /// Whether there is a value.
    ///
    /// ```
    /// let value = executor::sync::SetOnce::new();
    /// assert!(!value.initialized());
    /// value.set(1).unwrap();
    /// assert!(value.initialized());
    /// ```
    pub fn initialized(&self) -> bool {
        self.0.initialized()
    }

    /// The value, if there is one.
    ///
    /// ```
    /// let value = executor::sync::SetOnce::new();
    /// assert_eq!(value.get(), None);
    /// value.set(1).unwrap();
    /// assert_eq!(value.get(), Some(&1));
    /// ```
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Sets the value, and lets all go on who wait for it. Err: somebody else has, or is just doing so.
    ///
    /// ```
    /// let value = executor::sync::SetOnce::new();
    /// assert!(value.set(1).is_ok());
    /// assert!(value.set(2).is_err());
    /// assert_eq!(value.get(), Some(&1));
    /// ```
    pub fn set(&self, value: T) -> Result<(), SetOnceError<T>> {
        self.0.set(value).map_err(|error| match error {
            SetError::AlreadyInitializedError(value) | SetError::InitializingError(value) => {
                SetOnceError(value)
            }
        })
    }

    /// Waits until there is a value.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::SetOnce};
    ///
    /// static VALUE: SetOnce<u32> = SetOnce::new();
    ///
    /// let setter = std::thread::spawn(|| VALUE.set(1));
    /// assert_eq!(*block_on_simple(VALUE.wait()), 1);
    /// # setter.join().unwrap().unwrap();
    /// ```
    pub async fn wait(&self) -> &T {
        self.0.wait().await
    }

    /// The value, if there is one.
    ///
    /// ```
    /// let value = executor::sync::SetOnce::new();
    /// value.set("value".to_string()).unwrap();
    /// assert_eq!(value.into_inner().as_deref(), Some("value"));
    /// ```
    pub fn into_inner(self) -> Option<T> {
        self.0.into_inner()
    }
}

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for SetOnce<T> {
    fn from(value: T) -> Self {
        Self::new_with(Some(value))
    }
}

impl<T: fmt::Debug> fmt::Debug for SetOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetOnce").field(&self.get()).finish()
    }
}

/// There is a value already; the other is given back.
///
/// ```
/// use executor::sync::{SetOnce, SetOnceError};
///
/// let value = SetOnce::from(1);
/// let SetOnceError(other) = value.set(2).unwrap_err();
/// assert_eq!(other, 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetOnceError<T>(pub T);

impl<T> fmt::Display for SetOnceError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is a value already")
    }
}

impl<T: fmt::Debug> error::Error for SetOnceError<T> {}
