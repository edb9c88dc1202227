//! A value that several own: what `alloc::sync::Arc` is, but that there is a form that does not panic
//! without memory. It has no weak references, and so one count.

use alloc::alloc::{alloc, dealloc, handle_alloc_error};
use core::{
    alloc::Layout,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{self, NonNull},
    sync::atomic::{AtomicUsize, Ordering::*, fence},
    task::{RawWaker, RawWakerVTable, Waker},
};

/// One of the owners.
pub struct Counted<T: ?Sized>(NonNull<Inner<T>>);

/// The value, and how many own it.
#[repr(C)]
pub struct Inner<T: ?Sized> {
    count: AtomicUsize,
    value: T,
}

// SAFETY: owners share the value, and the last one, wherever it is, drops it.
unsafe impl<T: ?Sized + Send + Sync> Send for Counted<T> {}
// SAFETY: as above; who has a reference to an owner can make one of his own.
unsafe impl<T: ?Sized + Send + Sync> Sync for Counted<T> {}

impl<T> Counted<T> {
    /// The first owner of a value.
    #[inline]
    pub fn new(value: T) -> Self {
        match Self::try_new(value) {
            Ok(this) => this,
            Err(_) => handle_alloc_error(Layout::new::<Inner<T>>()),
        }
    }

    /// The same. Err: there is no memory, and here is the value again.
    #[inline]
    pub fn try_new(value: T) -> Result<Self, T> {
        // SAFETY: the layout is not empty: there is a count.
        let memory = unsafe { alloc(Layout::new::<Inner<T>>()) }.cast::<Inner<T>>();
        let Some(inner) = NonNull::new(memory) else {
            return Err(value);
        };
        let count = AtomicUsize::new(1);
        // SAFETY: fresh memory of this layout.
        unsafe { inner.write(Inner { count, value }) };
        Ok(Self(inner))
    }
}

impl<T: ?Sized> Counted<T> {
    #[inline]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: this owner keeps it.
        unsafe { self.0.as_ref() }
    }

    /// Whether both own the same.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        ptr::addr_eq(this.0.as_ptr(), other.0.as_ptr())
    }

    /// The owner as a pointer, to be turned into one that knows less of the type.
    pub fn into_raw(this: Self) -> *mut Inner<T> {
        ManuallyDrop::new(this).0.as_ptr()
    }

    /// The owner that the pointer was.
    ///
    /// # Safety
    /// It came from [`into_raw`](Self::into_raw), and comes here once.
    pub unsafe fn from_raw(inner: *mut Inner<T>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { NonNull::new_unchecked(inner) })
    }

    #[cold]
    #[inline(never)]
    fn drop_last(&mut self) {
        // Pairs with the releases of all others: what they did with the value is over.
        fence(Acquire);
        let _memory = Memory(self.0.cast(), Layout::for_value(self.inner()));
        // SAFETY: nobody owns it any more, and it is dropped once, here.
        unsafe { (&raw mut (*self.0.as_ptr()).value).drop_in_place() };
    }
}

/// Is freed when it is dropped: also if the destructor of what was in it panics.
struct Memory(NonNull<u8>, Layout);

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated by `try_new` with this layout, and nothing is in it any more.
        unsafe { dealloc(self.0.as_ptr(), self.1) };
    }
}

impl<T: ?Sized> Clone for Counted<T> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: who makes one has one.
        let before = self.inner().count.fetch_add(1, Relaxed);
        assert!(before <= isize::MAX as usize, "owners were forgotten");
        Self(self.0)
    }
}

impl<T: ?Sized> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: ?Sized> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        // Release pairs with the fence in `drop_last`.
        if self.inner().count.fetch_sub(1, Release) == 1 {
            self.drop_last();
        }
    }
}

/// What a waker can be made of.
pub trait OnWake: Send + Sync + 'static {
    /// It was woken.
    fn on_wake(&self);
}

impl<W: OnWake> From<Counted<W>> for Waker {
    fn from(this: Counted<W>) -> Self {
        // SAFETY: the functions below keep the contract of wakers: each waker is an owner.
        unsafe { Self::from_raw(raw_waker(this)) }
    }
}

fn raw_waker<W: OnWake>(this: Counted<W>) -> RawWaker {
    /// # Safety
    /// It is the data of such a waker, which goes on.
    unsafe fn borrowed<W: OnWake>(data: *const ()) -> ManuallyDrop<Counted<W>> {
        // SAFETY: a waker's data is an owner, which is not dropped here.
        ManuallyDrop::new(unsafe { Counted::from_raw(data.cast_mut().cast()) })
    }
    let vtable = const {
        &RawWakerVTable::new(
            // SAFETY: the contract of wakers, here and below.
            |data| raw_waker(Counted::clone(&*unsafe { borrowed::<W>(data) })),
            // SAFETY: as above; this is the end of the waker.
            |data| ManuallyDrop::into_inner(unsafe { borrowed::<W>(data) }).on_wake(),
            // SAFETY: as above.
            |data| unsafe { borrowed::<W>(data) }.on_wake(),
            // SAFETY: as above; this is the end of the waker.
            |data| drop(ManuallyDrop::into_inner(unsafe { borrowed::<W>(data) })),
        )
    };
    RawWaker::new(Counted::into_raw(this).cast_const().cast(), vtable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{panic::AssertUnwindSafe, sync::Arc};

    #[test]
    fn the_last_owner_drops_the_value() {
        let value = Arc::new(());
        let first = Counted::new(value.clone());
        let second = first.clone();
        assert!(Counted::ptr_eq(&first, &second));
        drop(first);
        assert_eq!(Arc::strong_count(&second), 2);
        drop(second);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn what_knows_less_of_the_type_drops_it_too() {
        let value = Arc::new(7u8);
        let raw = Counted::into_raw(Counted::new(value.clone()));
        let raw: *mut Inner<dyn Send> = raw;
        // SAFETY: it came from `into_raw` just now.
        drop(unsafe { Counted::from_raw(raw) });
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_waker_is_an_owner() {
        struct Count(AtomicUsize);
        impl OnWake for Count {
            fn on_wake(&self) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let count = Counted::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        waker.wake_by_ref();
        let clone = waker.clone();
        assert!(clone.will_wake(&waker));
        waker.wake();
        assert_eq!(count.inner().count.load(Relaxed), 2);
        drop(clone);
        assert_eq!(count.inner().count.load(Relaxed), 1);
        assert_eq!((*count).0.load(Relaxed), 2);
    }

    #[test]
    fn the_memory_goes_also_if_the_destructor_panics() {
        struct Bad;
        impl Drop for Bad {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        let bad = Counted::new(Bad);
        // That nothing leaks is for the address sanitizer to say.
        assert!(std::panic::catch_unwind(AssertUnwindSafe(|| drop(bad))).is_err());
    }
}
