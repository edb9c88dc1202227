//! Guards of a mutex.

use super::{
    super::guard::{MappedGuard, show},
    At, Mutex, Raw,
};
#[cfg(feature = "alloc")]
use alloc::sync::Arc;
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    ptr,
};

/// Has the value of a [`Mutex`]; dropped, it hands it on.
///
/// ```
/// use executor::sync::{Mutex, MutexGuard};
///
/// fn double(mut number: MutexGuard<'_, u32>) {
///     *number *= 2;
/// }
/// let mutex = Mutex::new(21);
/// double(mutex.try_lock().unwrap());
/// // It was dropped there.
/// assert_eq!(*mutex.try_lock().unwrap(), 42);
/// ```
#[must_use = "a guard that is dropped unlocks at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// It can be sent and shared if that can.
    _value: PhantomData<&'a mut T>,
}

/// Has the value of a [`Mutex`], which it keeps, and borrows nothing.
///
/// ```
/// use executor::sync::{Mutex, OwnedMutexGuard};
/// use std::sync::Arc;
///
/// struct Turn(OwnedMutexGuard<u32>);
///
/// let mutex = Arc::new(Mutex::new(1));
/// let turn = Turn(mutex.clone().try_lock_owned().unwrap());
/// assert!(mutex.try_lock().is_err());
/// drop(turn);
/// assert!(mutex.try_lock().is_ok());
/// ```
#[cfg(feature = "alloc")]
#[must_use = "a guard that is dropped unlocks at once"]
pub struct OwnedMutexGuard<T: ?Sized> {
    mutex: Arc<Mutex<T>>,
    /// It can be sent and shared if that can.
    _value: PhantomData<T>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The mutex that it is of.
    ///
    /// ```
    /// use executor::sync::{Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(std::ptr::eq(MutexGuard::mutex(&guard), &mutex));
    /// ```
    #[doc(alias = "source")]
    pub fn mutex(this: &Self) -> &'a Mutex<T> {
        this.mutex
    }

    /// Keeps only a part of the value, which stays locked as a whole.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::{Mutex, MutexGuard}};
    ///
    /// let mutex = Mutex::new((1, 2));
    /// let mut second = MutexGuard::map(block_on_simple(mutex.lock()), |pair| &mut pair.1);
    /// *second += 5;
    /// assert!(mutex.try_lock().is_err());
    /// drop(second);
    /// assert_eq!(mutex.into_inner(), (1, 7));
    /// ```
    pub fn map<U: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> MappedMutexGuard<'a, U> {
        let value = ptr::from_mut(part(&mut this));
        // SAFETY: it is locked as long as that is held, and the part is there as long as the whole.
        unsafe { MappedGuard::new(this.into_locked(), value) }
    }

    /// Keeps only a part of the value, if there is one.
    ///
    /// ```
    /// use executor::sync::{Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new(vec![1, 2]);
    /// let list = mutex.try_lock().unwrap();
    /// let list = MutexGuard::try_map(list, |list| list.get_mut(5)).unwrap_err();
    /// let last = MutexGuard::try_map(list, |list| list.last_mut()).unwrap();
    /// assert_eq!(*last, 2);
    /// ```
    pub fn try_map<U: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedMutexGuard<'a, U>, Self> {
        match part(&mut this).map(ptr::from_mut) {
            // SAFETY: as in `map`.
            Some(value) => Ok(unsafe { MappedGuard::new(this.into_locked(), value) }),
            None => Err(this),
        }
    }

    fn into_locked(self) -> Locked<'a> {
        let this = ManuallyDrop::new(self);
        Locked(&this.mutex.raw)
    }
}

/// Holds a mutex, whatever its value is.
pub struct Locked<'a>(&'a Raw);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// Has a part of the value of a [`Mutex`].
///
/// ```
/// use executor::sync::{MappedMutexGuard, Mutex, MutexGuard};
///
/// fn first(list: &Mutex<Vec<u32>>) -> MappedMutexGuard<'_, u32> {
///     MutexGuard::map(list.try_lock().unwrap(), |list| &mut list[0])
/// }
/// let list = Mutex::new(vec![1, 2]);
/// *first(&list) += 5;
/// assert_eq!(list.into_inner(), [6, 2]);
/// ```
pub type MappedMutexGuard<'a, U> = MappedGuard<Locked<'a>, U>;
/// Has a part of the value of a [`Mutex`], which it keeps.
///
/// ```
/// use executor::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};
/// use std::sync::Arc;
///
/// fn first(list: Arc<Mutex<Vec<u32>>>) -> OwnedMappedMutexGuard<Vec<u32>, u32> {
///     OwnedMutexGuard::map(list.try_lock_owned().unwrap(), |list| &mut list[0])
/// }
/// assert_eq!(*first(Arc::new(Mutex::new(vec![1, 2]))), 1);
/// ```
#[cfg(feature = "alloc")]
pub type OwnedMappedMutexGuard<T, U = T> = MappedGuard<OwnedMutexGuard<T>, U>;

#[cfg(feature = "alloc")]
impl<T: ?Sized> OwnedMutexGuard<T> {
    /// The mutex that it is of.
    ///
    /// ```
    /// use executor::sync::{Mutex, OwnedMutexGuard};
    /// use std::sync::Arc;
    ///
    /// let guard = Arc::new(Mutex::new(1)).try_lock_owned().unwrap();
    /// let mutex = OwnedMutexGuard::mutex(&guard).clone();
    /// drop(guard);
    /// assert_eq!(*mutex.try_lock().unwrap(), 1);
    /// ```
    #[doc(alias = "source")]
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        &this.mutex
    }

    /// Keeps only a part of the value, which stays locked as a whole.
    ///
    /// ```
    /// use executor::sync::{Mutex, OwnedMutexGuard};
    /// use std::sync::Arc;
    ///
    /// let mutex = Arc::new(Mutex::new((1, 2)));
    /// let pair = mutex.clone().try_lock_owned().unwrap();
    /// let mut second = OwnedMutexGuard::map(pair, |pair| &mut pair.1);
    /// *second += 5;
    /// assert!(mutex.try_lock().is_err());
    /// drop(second);
    /// assert_eq!(*mutex.try_lock().unwrap(), (1, 7));
    /// ```
    pub fn map<U: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> OwnedMappedMutexGuard<T, U> {
        let value = ptr::from_mut(part(&mut this));
        // SAFETY: as in `MutexGuard::map`; the value stays where it is as long as the guard keeps it.
        unsafe { MappedGuard::new(this, value) }
    }

    /// Keeps only a part of the value, if there is one.
    ///
    /// ```
    /// use executor::sync::{Mutex, OwnedMutexGuard};
    /// use std::sync::Arc;
    ///
    /// let list = Arc::new(Mutex::new(vec![1, 2])).try_lock_owned().unwrap();
    /// let list = OwnedMutexGuard::try_map(list, |list| list.get_mut(5)).unwrap_err();
    /// let last = OwnedMutexGuard::try_map(list, |list| list.last_mut()).unwrap();
    /// assert_eq!(*last, 2);
    /// ```
    pub fn try_map<U: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<OwnedMappedMutexGuard<T, U>, Self> {
        match part(&mut this).map(ptr::from_mut) {
            // SAFETY: as in `map`.
            Some(value) => Ok(unsafe { MappedGuard::new(this, value) }),
            None => Err(this),
        }
    }
}

/// What both guards do.
macro_rules! guard {
    ($mutex:ty, $guard:ty, $($lifetime:lifetime)?) => {
        impl<$($lifetime,)? T: ?Sized> From<At<$mutex>> for $guard {
            #[inline]
            fn from(At { mutex, .. }: At<$mutex>) -> Self {
                Self { mutex, _value: PhantomData }
            }
        }

        impl<$($lifetime,)? T: ?Sized> Deref for $guard {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: who has the guard has the permit.
                unsafe { &*self.mutex.value.get() }
            }
        }

        impl<$($lifetime,)? T: ?Sized> DerefMut for $guard {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: who has the guard has the permit.
                unsafe { &mut *self.mutex.value.get() }
            }
        }

        impl<$($lifetime,)? T: ?Sized> Drop for $guard {
            #[inline]
            fn drop(&mut self) {
                self.mutex.raw.unlock();
            }
        }

        show!([$($lifetime,)?] $guard, T);
    };
}

guard!(&'a Mutex<T>, MutexGuard<'a, T>, 'a);
#[cfg(feature = "alloc")]
guard!(Arc<Mutex<T>>, OwnedMutexGuard<T>,);
