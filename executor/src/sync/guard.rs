//! Guards of a part of what a lock guards, and of what is only read.
//!
//! Each has a pointer to that part, and something that holds the lock and lets go of it when it is dropped.
//! So what it is a part of is no longer said by its type, and it can be made smaller again.

use core::{
    ops::{Deref, DerefMut},
    ptr,
};

/// Has a part of what a lock guards, alone; `H` holds the lock.
///
/// Made by `map`, for example [`MutexGuard::map`](super::MutexGuard::map). It cannot be downgraded: the whole may be
/// one that must not be read while its part is borrowed.
///
/// ```
/// use executor::sync::{MappedGuard, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
///
/// fn raise<H>(mut number: MappedGuard<H, u32>) {
///     *number += 1;
/// }
/// let (mutex, lock) = (Mutex::new((1, 'a')), RwLock::new((2, 'b')));
/// raise(MutexGuard::map(mutex.try_lock().unwrap(), |pair| &mut pair.0));
/// raise(RwLockWriteGuard::map(lock.try_write().unwrap(), |pair| &mut pair.0));
/// assert_eq!((mutex.into_inner().0, lock.into_inner().0), (2, 3));
/// ```
#[must_use = "a guard that is dropped unlocks at once"]
pub struct MappedGuard<H, U: ?Sized> {
    value: Unique<U>,
    hold: H,
}

/// Reads what a lock guards, or a part of it; `H` holds the lock.
///
/// ```
/// use executor::sync::{ReadGuard, RwLock};
/// use std::sync::Arc;
///
/// fn length<H>(text: ReadGuard<H, String>) -> usize {
///     text.len()
/// }
/// let lock = Arc::new(RwLock::new("four".to_string()));
/// assert_eq!(length(lock.try_read().unwrap()), 4);
/// assert_eq!(length(lock.try_read_owned().unwrap()), 4);
/// ```
#[must_use = "a guard that is dropped unlocks at once"]
pub struct ReadGuard<H, U: ?Sized> {
    value: Shared<U>,
    hold: H,
}

/// A pointer that is as good as a `&mut`.
struct Unique<U: ?Sized>(*mut U);

// SAFETY: it is used as a `&mut U` would be, which can be sent then.
unsafe impl<U: ?Sized + Send> Send for Unique<U> {}
// SAFETY: as above.
unsafe impl<U: ?Sized + Sync> Sync for Unique<U> {}

/// A pointer that is as good as a `&`.
struct Shared<U: ?Sized>(*const U);

// SAFETY: it is used as a `&U` would be, which can be sent then.
unsafe impl<U: ?Sized + Sync> Send for Shared<U> {}
// SAFETY: as above.
unsafe impl<U: ?Sized + Sync> Sync for Shared<U> {}

impl<H, U: ?Sized> MappedGuard<H, U> {
    /// # Safety
    /// As long as `hold` is, the value is there and nobody else touches it.
    #[inline]
    pub(super) unsafe fn new(hold: H, value: *mut U) -> Self {
        let value = Unique(value);
        Self { value, hold }
    }

    /// Keeps only a part of it.
    ///
    /// ```
    /// use executor::sync::{MappedMutexGuard, Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new(((1, 2), 3));
    /// let pair = MutexGuard::map(mutex.try_lock().unwrap(), |all| &mut all.0);
    /// let mut second = MappedMutexGuard::map(pair, |pair| &mut pair.1);
    /// *second += 5;
    /// drop(second);
    /// assert_eq!(mutex.into_inner(), ((1, 7), 3));
    /// ```
    pub fn map<V: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut U) -> &mut V,
    ) -> MappedGuard<H, V> {
        let value = ptr::from_mut(part(&mut this));
        // SAFETY: the part is there as long as the whole.
        unsafe { MappedGuard::new(this.hold, value) }
    }

    /// Keeps only a part of it, if there is one.
    ///
    /// ```
    /// use executor::sync::{MappedMutexGuard, Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new((vec![1, 2], "list"));
    /// let list = MutexGuard::map(mutex.try_lock().unwrap(), |pair| &mut pair.0);
    /// let list = MappedMutexGuard::try_map(list, |list| list.get_mut(5)).unwrap_err();
    /// let last = MappedMutexGuard::try_map(list, |list| list.last_mut()).unwrap();
    /// assert_eq!(*last, 2);
    /// ```
    pub fn try_map<V: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut U) -> Option<&mut V>,
    ) -> Result<MappedGuard<H, V>, Self> {
        match part(&mut this).map(ptr::from_mut) {
            // SAFETY: as in `map`.
            Some(value) => Ok(unsafe { MappedGuard::new(this.hold, value) }),
            None => Err(this),
        }
    }

    /// What holds the lock.
    #[cfg(feature = "alloc")]
    pub(super) fn hold(this: &Self) -> &H {
        &this.hold
    }
}

impl<H, U: ?Sized> ReadGuard<H, U> {
    /// # Safety
    /// As long as `hold` is, the value is there and nobody changes it.
    #[inline]
    pub(super) unsafe fn new(hold: H, value: *const U) -> Self {
        let value = Shared(value);
        Self { value, hold }
    }

    /// Keeps only a part of it.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::{RwLock, RwLockReadGuard}};
    ///
    /// let lock = RwLock::new((1, "one"));
    /// let name = RwLockReadGuard::map(block_on_simple(lock.read()), |pair| pair.1);
    /// assert_eq!(&*name, "one");
    /// ```
    pub fn map<V: ?Sized>(this: Self, part: impl FnOnce(&U) -> &V) -> ReadGuard<H, V> {
        let value = ptr::from_ref(part(&this));
        // SAFETY: the part is there as long as the whole.
        unsafe { ReadGuard::new(this.hold, value) }
    }

    /// Keeps only a part of it, if there is one.
    ///
    /// ```
    /// use executor::sync::{RwLock, RwLockReadGuard};
    ///
    /// let lock = RwLock::new(vec![1, 2]);
    /// let list = lock.try_read().unwrap();
    /// let list = RwLockReadGuard::try_map(list, |list| list.get(5)).unwrap_err();
    /// let last = RwLockReadGuard::try_map(list, |list| list.last()).unwrap();
    /// assert_eq!(*last, 2);
    /// ```
    pub fn try_map<V: ?Sized>(
        this: Self,
        part: impl FnOnce(&U) -> Option<&V>,
    ) -> Result<ReadGuard<H, V>, Self> {
        match part(&this).map(ptr::from_ref) {
            // SAFETY: as in `map`.
            Some(value) => Ok(unsafe { ReadGuard::new(this.hold, value) }),
            None => Err(this),
        }
    }

    /// What holds the lock.
    #[cfg(feature = "alloc")]
    pub(super) fn hold(this: &Self) -> &H {
        &this.hold
    }
}

impl<H, U: ?Sized> Deref for MappedGuard<H, U> {
    type Target = U;

    #[inline]
    fn deref(&self) -> &U {
        // SAFETY: as promised to `new`.
        unsafe { &*self.value.0 }
    }
}

impl<H, U: ?Sized> DerefMut for MappedGuard<H, U> {
    #[inline]
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: as promised to `new`.
        unsafe { &mut *self.value.0 }
    }
}

impl<H, U: ?Sized> Deref for ReadGuard<H, U> {
    type Target = U;

    #[inline]
    fn deref(&self) -> &U {
        // SAFETY: as promised to `new`.
        unsafe { &*self.value.0 }
    }
}

/// Guards are shown as what they guard.
macro_rules! show {
    ([$($generics:tt)*] $guard:ty, $value:ident) => {
        impl<$($generics)* $value: ?Sized + ::core::fmt::Debug> ::core::fmt::Debug for $guard {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&**self, f)
            }
        }

        impl<$($generics)* $value: ?Sized + ::core::fmt::Display> ::core::fmt::Display for $guard {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(&**self, f)
            }
        }
    };
}
pub(crate) use show;

show!([H,] MappedGuard<H, U>, U);
show!([H,] ReadGuard<H, U>, U);
