//! Guards of a reader-writer lock.

use super::{
    super::{
        guard::{MappedGuard, ReadGuard, show},
        owner::Seat,
    },
    Raw, RwLock,
};
#[cfg(feature = "alloc")]
use alloc::sync::Arc;
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    ptr,
};

/// What keeps a lock where it is: a reference, or an `Arc`.
///
/// # Safety
/// It is always the same lock, wherever this is moved, and it lives and stays where it is as long as this.
pub unsafe trait Keeper {
    /// What keeps it without knowing of its value, if that is not needed.
    type Raw: Keeper;

    /// The lock without its value.
    fn raw(&self) -> &Raw;

    /// The same, without the value if that is not needed.
    fn into_raw(self) -> Self::Raw;
}

// SAFETY: a reference is to the same lock, which outlives it and does not move meanwhile.
unsafe impl Keeper for &Raw {
    type Raw = Self;

    #[inline]
    fn raw(&self) -> &Raw {
        self
    }

    #[inline]
    fn into_raw(self) -> Self {
        self
    }
}

// SAFETY: as above.
unsafe impl<'a, T: ?Sized> Keeper for &'a RwLock<T> {
    type Raw = &'a Raw;

    #[inline]
    fn raw(&self) -> &Raw {
        &self.raw
    }

    #[inline]
    fn into_raw(self) -> &'a Raw {
        &self.raw
    }
}

// SAFETY: what it shares stays where it is as long as it lives.
#[cfg(feature = "alloc")]
unsafe impl<T: ?Sized> Keeper for Arc<RwLock<T>> {
    type Raw = Self;

    fn raw(&self) -> &Raw {
        &self.raw
    }

    fn into_raw(self) -> Self {
        self
    }
}

/// Holds a lock to read; `K` keeps it.
pub struct Reading<K: Keeper> {
    keeper: K,
    seat: Seat,
}

impl<K: Keeper> Reading<K> {
    #[inline]
    pub(super) fn new(keeper: K, seat: Seat) -> Self {
        Self { keeper, seat }
    }
}

impl<K: Keeper> Drop for Reading<K> {
    #[inline]
    fn drop(&mut self) {
        let raw = self.keeper.raw();
        raw.holders.rise(&self.seat);
        raw.give(1);
    }
}

/// Holds a lock to write; `K` keeps it.
pub struct Writing<K: Keeper>(K);

impl<K: Keeper> Writing<K> {
    #[inline]
    pub(super) fn new(keeper: K) -> Self {
        Self(keeper)
    }

    /// What keeps the lock, which stays locked.
    #[inline]
    fn into_keeper(self) -> K {
        let this = ManuallyDrop::new(self);
        // SAFETY: it is not dropped, so this is the only use of what it has.
        unsafe { ptr::read(&this.0) }
    }
}

impl<K: Keeper> Drop for Writing<K> {
    #[inline]
    fn drop(&mut self) {
        let raw = self.0.raw();
        raw.holders.writer.clear();
        raw.give(raw.readers);
    }
}

/// Writes the value of a [`RwLock`], to which `L` refers.
///
/// ```
/// use executor::sync::{RwLock, WriteGuard};
/// use std::sync::Arc;
///
/// let lock = Arc::new(RwLock::new(1));
/// let borrowed: WriteGuard<&RwLock<u32>, u32> = lock.try_write().unwrap();
/// assert!(lock.try_read().is_err());
/// drop(borrowed);
/// let mut owned: WriteGuard<Arc<RwLock<u32>>, u32> = lock.clone().try_write_owned().unwrap();
/// *owned += 1;
/// drop(owned);
/// assert_eq!(*lock.try_read().unwrap(), 2);
/// ```
#[must_use = "a guard that is dropped unlocks at once"]
pub struct WriteGuard<L: Keeper, T: ?Sized> {
    hold: Writing<L>,
    /// It can be sent and shared if that can.
    _value: PhantomData<T>,
}

/// Reads a value, or a part of it, whose lock it borrows.
///
/// ```
/// use executor::sync::{RwLock, RwLockReadGuard};
///
/// fn sum(list: RwLockReadGuard<'_, Vec<u32>>) -> u32 {
///     list.iter().sum()
/// }
/// let lock = RwLock::new(vec![1, 2]);
/// assert_eq!(sum(lock.try_read().unwrap()), 3);
/// // It was dropped there.
/// assert!(lock.try_write().is_ok());
/// ```
pub type RwLockReadGuard<'a, T> = ReadGuard<Reading<&'a Raw>, T>;
/// Writes a value whose lock it borrows.
///
/// ```
/// use executor::sync::{RwLock, RwLockWriteGuard};
///
/// fn double(mut number: RwLockWriteGuard<'_, u32>) {
///     *number *= 2;
/// }
/// let lock = RwLock::new(21);
/// double(lock.try_write().unwrap());
/// assert_eq!(*lock.try_read().unwrap(), 42);
/// ```
pub type RwLockWriteGuard<'a, T> = WriteGuard<&'a RwLock<T>, T>;
/// Writes a part of a value whose lock it borrows.
///
/// ```
/// use executor::sync::{RwLock, RwLockMappedWriteGuard, RwLockWriteGuard};
///
/// fn first(list: &RwLock<Vec<u32>>) -> RwLockMappedWriteGuard<'_, u32> {
///     RwLockWriteGuard::map(list.try_write().unwrap(), |list| &mut list[0])
/// }
/// let list = RwLock::new(vec![1, 2]);
/// *first(&list) += 5;
/// assert_eq!(list.into_inner(), [6, 2]);
/// ```
pub type RwLockMappedWriteGuard<'a, U> = MappedGuard<Writing<&'a Raw>, U>;
/// Reads a value, or a part of it, whose lock it keeps.
///
/// ```
/// use executor::sync::{OwnedRwLockReadGuard, RwLock};
/// use std::sync::Arc;
///
/// fn first(list: Arc<RwLock<Vec<u32>>>) -> OwnedRwLockReadGuard<Vec<u32>, u32> {
///     let list: OwnedRwLockReadGuard<Vec<u32>> = list.try_read_owned().unwrap();
///     OwnedRwLockReadGuard::map(list, |list| &list[0])
/// }
/// assert_eq!(*first(Arc::new(RwLock::new(vec![1, 2]))), 1);
/// ```
#[cfg(feature = "alloc")]
pub type OwnedRwLockReadGuard<T, U = T> = ReadGuard<Reading<Arc<RwLock<T>>>, U>;
/// Writes a value whose lock it keeps.
///
/// ```
/// use executor::sync::{OwnedRwLockWriteGuard, RwLock};
/// use std::sync::Arc;
///
/// struct Editor(OwnedRwLockWriteGuard<String>);
///
/// let text = Arc::new(RwLock::new(String::new()));
/// let mut editor = Editor(text.clone().try_write_owned().unwrap());
/// editor.0.push_str("hello");
/// drop(editor);
/// assert_eq!(*text.try_read().unwrap(), "hello");
/// ```
#[cfg(feature = "alloc")]
pub type OwnedRwLockWriteGuard<T> = WriteGuard<Arc<RwLock<T>>, T>;
/// Writes a part of a value whose lock it keeps.
///
/// ```
/// use executor::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
/// use std::sync::Arc;
///
/// fn first(list: Arc<RwLock<Vec<u32>>>) -> OwnedRwLockMappedWriteGuard<Vec<u32>, u32> {
///     OwnedRwLockWriteGuard::map(list.try_write_owned().unwrap(), |list| &mut list[0])
/// }
/// let list = Arc::new(RwLock::new(vec![1, 2]));
/// *first(list.clone()) += 5;
/// assert_eq!(*list.try_read().unwrap(), [6, 2]);
/// ```
#[cfg(feature = "alloc")]
pub type OwnedRwLockMappedWriteGuard<T, U = T> = MappedGuard<Writing<Arc<RwLock<T>>>, U>;

impl<T: ?Sized, L: Keeper + Deref<Target = RwLock<T>>> WriteGuard<L, T> {
    /// For who has all permits.
    #[inline]
    pub(super) fn new(hold: Writing<L>) -> Self {
        let _value = PhantomData;
        Self { hold, _value }
    }

    /// Goes on reading, and lets others do so. Nobody writes in between.
    ///
    /// ```
    /// let lock = executor::sync::RwLock::new(1);
    /// let mut writer = lock.try_write().unwrap();
    /// *writer += 1;
    /// let reader = writer.downgrade();
    /// assert_eq!((*reader, *lock.try_read().unwrap()), (2, 2));
    /// assert!(lock.try_write().is_err());
    /// ```
    pub fn downgrade(self) -> ReadGuard<Reading<L::Raw>, T> {
        let value = ptr::from_ref(&*self);
        // SAFETY: the whole is a part of itself.
        unsafe { self.downgrade_to(value) }
    }

    /// Goes on reading only a part of it, and lets others read. Nobody writes in between.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::{RwLock, RwLockWriteGuard}};
    ///
    /// let lock = RwLock::new(vec![1, 2]);
    /// let mut list = block_on_simple(lock.write());
    /// list.push(3);
    /// let last = RwLockWriteGuard::downgrade_map(list, |list| list.last().unwrap());
    /// assert_eq!((*last, lock.try_read().unwrap().len()), (3, 3));
    /// ```
    pub fn downgrade_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&T) -> &U,
    ) -> ReadGuard<Reading<L::Raw>, U> {
        let value = ptr::from_ref(part(&this));
        // SAFETY: a part of it.
        unsafe { this.downgrade_to(value) }
    }

    /// The same, if there is such a part.
    ///
    /// ```
    /// use executor::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(vec![1, 2]);
    /// let list = lock.try_write().unwrap();
    /// let list = RwLockWriteGuard::try_downgrade_map(list, |list| list.get(5)).unwrap_err();
    /// assert!(lock.try_read().is_err(), "it still writes");
    /// let last = RwLockWriteGuard::try_downgrade_map(list, |list| list.last()).unwrap();
    /// assert_eq!((*last, lock.try_read().unwrap().len()), (2, 2));
    /// ```
    pub fn try_downgrade_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&T) -> Option<&U>,
    ) -> Result<ReadGuard<Reading<L::Raw>, U>, Self> {
        match part(&this).map(ptr::from_ref) {
            // SAFETY: a part of it.
            Some(value) => Ok(unsafe { this.downgrade_to(value) }),
            None => Err(this),
        }
    }

    /// # Safety
    /// `value` is a part of what this guards.
    unsafe fn downgrade_to<U: ?Sized>(self, value: *const U) -> ReadGuard<Reading<L::Raw>, U> {
        let keeper = self.hold.into_keeper().into_raw();
        let raw = keeper.raw();
        let seat = raw.holders.downgrade();
        let keeps = usize::from(!cfg!(seeded = "rwlock_downgrade_keeps_none"));
        raw.give(raw.readers - keeps);
        // SAFETY: one permit was kept, so nobody writes; the part is there as long as the whole.
        unsafe { ReadGuard::new(Reading::new(keeper, seat), value) }
    }

    /// Keeps only a part of it, which stays locked as a whole.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::{RwLock, RwLockWriteGuard}};
    ///
    /// let lock = RwLock::new((1, 2));
    /// let mut second = RwLockWriteGuard::map(block_on_simple(lock.write()), |pair| &mut pair.1);
    /// *second += 1;
    /// assert!(lock.try_read().is_err());
    /// ```
    #[doc(alias = "into_mapped")]
    pub fn map<U: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> MappedGuard<Writing<L::Raw>, U> {
        let value = ptr::from_mut(part(&mut this));
        // SAFETY: a part of it.
        unsafe { this.into_part(value) }
    }

    /// The same, if there is such a part.
    ///
    /// ```
    /// use executor::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(vec![1, 2]);
    /// let list = lock.try_write().unwrap();
    /// let list = RwLockWriteGuard::try_map(list, |list| list.get_mut(5)).unwrap_err();
    /// let last = RwLockWriteGuard::try_map(list, |list| list.last_mut()).unwrap();
    /// assert_eq!(*last, 2);
    /// ```
    pub fn try_map<U: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedGuard<Writing<L::Raw>, U>, Self> {
        match part(&mut this).map(ptr::from_mut) {
            // SAFETY: a part of it.
            Some(value) => Ok(unsafe { this.into_part(value) }),
            None => Err(this),
        }
    }

    /// # Safety
    /// `value` is a part of what this guards.
    unsafe fn into_part<U: ?Sized>(self, value: *mut U) -> MappedGuard<Writing<L::Raw>, U> {
        let keeper = self.hold.into_keeper().into_raw();
        // SAFETY: nobody else has a permit; the part is there as long as the whole.
        unsafe { MappedGuard::new(Writing::new(keeper), value) }
    }
}

#[cfg(feature = "alloc")]
impl<T: ?Sized> OwnedRwLockWriteGuard<T> {
    /// The lock that it is of.
    ///
    /// ```
    /// use executor::sync::{OwnedRwLockWriteGuard, RwLock};
    /// use std::sync::Arc;
    ///
    /// let guard = Arc::new(RwLock::new(1)).try_write_owned().unwrap();
    /// let lock = OwnedRwLockWriteGuard::rwlock(&guard).clone();
    /// assert!(lock.try_read().is_err());
    /// drop(guard);
    /// assert_eq!(*lock.try_read().unwrap(), 1);
    /// ```
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &this.hold.0
    }
}

#[cfg(feature = "alloc")]
impl<T: ?Sized, U: ?Sized> OwnedRwLockMappedWriteGuard<T, U> {
    /// The lock that it is of.
    ///
    /// ```
    /// use executor::sync::{OwnedRwLockMappedWriteGuard, OwnedRwLockWriteGuard, RwLock};
    /// use std::sync::Arc;
    ///
    /// let pair = Arc::new(RwLock::new((1, 2))).try_write_owned().unwrap();
    /// let second = OwnedRwLockWriteGuard::map(pair, |pair| &mut pair.1);
    /// let lock = OwnedRwLockMappedWriteGuard::rwlock(&second).clone();
    /// assert!(lock.try_read().is_err());
    /// drop(second);
    /// assert_eq!(*lock.try_read().unwrap(), (1, 2));
    /// ```
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &Self::hold(this).0
    }
}

#[cfg(feature = "alloc")]
impl<T: ?Sized, U: ?Sized> OwnedRwLockReadGuard<T, U> {
    /// The lock that it is of.
    ///
    /// ```
    /// use executor::sync::{OwnedRwLockReadGuard, RwLock};
    /// use std::sync::Arc;
    ///
    /// let guard = Arc::new(RwLock::new(1)).try_read_owned().unwrap();
    /// let lock = OwnedRwLockReadGuard::rwlock(&guard).clone();
    /// assert!(lock.try_write().is_err());
    /// drop(guard);
    /// assert!(lock.try_write().is_ok());
    /// ```
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T>> {
        &Self::hold(this).keeper
    }
}

impl<T: ?Sized, L: Keeper + Deref<Target = RwLock<T>>> Deref for WriteGuard<L, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: nobody else has a permit.
        unsafe { &*self.hold.0.value.get() }
    }
}

impl<T: ?Sized, L: Keeper + Deref<Target = RwLock<T>>> DerefMut for WriteGuard<L, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: nobody else has a permit.
        unsafe { &mut *self.hold.0.value.get() }
    }
}

show!([L: Keeper + Deref<Target = RwLock<T>>,] WriteGuard<L, T>, T);
