//! What loom replaces when it checks the models of this crate: the cell whose
//! accesses it watches, and the lock, which in the models is hal's spin flag
//! without the interrupt mask. And how bugs are seeded for it to find.

#[cfg(not(loom))]
pub use hal::sync::{Lock, LockGuard as Guard};
#[cfg(loom)]
pub use loom::cell::UnsafeCell;

/// An ordering; `Relaxed` if the named bug is built in.
macro_rules! ordering {
    ($order:ident unless seeded = $bug:literal) => {
        if cfg!(seeded = $bug) { Relaxed } else { $order }
    };
}
pub(crate) use ordering;

/// A function that is `const`, except in the models: loom's atomics and cells cannot be made so.
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* $visibility:vis const fn $($function:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attribute])* $visibility const fn $($function)*
        #[cfg(loom)]
        $(#[$attribute])* $visibility fn $($function)*
    };
}
pub(crate) use const_unless_loom;

/// Wakes somebody of whom nothing is known. A panic in it must not keep others
/// from being woken; on the host it has printed itself.
pub fn wake(waker: core::task::Waker) {
    Panics::default().hold(|| waker.wake());
}

/// Drops a waker of which nothing is known, or none. As for [`wake`]: what else is to be done is done.
#[inline]
pub fn discard(waker: impl Into<Option<core::task::Waker>>) {
    if let Some(waker) = waker.into() {
        Panics::default().hold(|| drop(waker));
    }
}

/// Panics of foreign code that are held back until all that is to be done is done. On the host they have printed themselves.
/// In the models a panic ends the model.
#[derive(Default)]
pub struct Panics(#[cfg(not(loom))] Option<hal::unwind::Payload>);

impl Panics {
    /// Does something; if it panics, that is for later.
    #[inline]
    pub fn hold(&mut self, what: impl FnOnce()) {
        #[cfg(not(loom))]
        if let Err(panic) = hal::unwind::catch(what) {
            self.0.get_or_insert(panic);
        }
        #[cfg(loom)]
        what();
    }

    /// Goes on with the first panic, if there was one, and none is under way already.
    #[cfg_attr(
        not(feature = "alloc"),
        allow(dead_code, reason = "only what is on the heap drops many")
    )]
    #[inline]
    pub fn go_on(self) {
        #[cfg(not(loom))]
        if let Some(panic) = self.0
            && !hal::unwind::is_panicking()
        {
            hal::unwind::resume(panic);
        }
    }
}

/// Puts a value where it stays for ever; None: there is no memory.
#[cfg(all(feature = "alloc", not(loom)))]
pub fn try_leak<T>(value: T) -> Option<&'static T> {
    const { assert!(size_of::<T>() != 0) };
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc::alloc::alloc(core::alloc::Layout::new::<T>()) }.cast::<T>();
    if memory.is_null() {
        return None;
    }
    // SAFETY: fresh memory of this layout, and nobody else's; never freed.
    unsafe {
        memory.write(value);
        Some(&*memory)
    }
}

/// A cell with loom's interface, and nothing else to it.
#[cfg(not(loom))]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    #[cfg_attr(
        not(feature = "alloc"),
        allow(dead_code, reason = "only timers look without changing")
    )]
    #[inline]
    pub fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    #[inline]
    pub fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}

/// The lock of the models.
#[cfg(loom)]
pub struct Lock<T> {
    flag: hal::sync::flag::Flag,
    value: UnsafeCell<T>,
}

// SAFETY: the flag lets in one at a time, and loom checks that in each model.
#[cfg(loom)]
unsafe impl<T: Send> Sync for Lock<T> {}

#[cfg(loom)]
impl<T> Lock<T> {
    pub fn new(value: T) -> Self {
        Self {
            flag: hal::sync::flag::Flag::new(),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        self.flag.lock(loom::thread::yield_now);
        self.guard()
    }

    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.flag.try_lock().then(|| self.guard())
    }

    fn guard(&self) -> Guard<'_, T> {
        Guard {
            flag: &self.flag,
            value: Some(self.value.get_mut()),
        }
    }
}

/// Holds the lock of the models.
#[cfg(loom)]
pub struct Guard<'a, T> {
    flag: &'a hal::sync::flag::Flag,
    value: Option<loom::cell::MutPtr<T>>,
}

#[cfg(loom)]
impl<T> core::ops::Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        let value = self.value.as_ref().expect("taken only by drop");
        // SAFETY: the flag is held as long as the guard lives.
        unsafe { value.deref() }
    }
}

#[cfg(loom)]
impl<T> core::ops::DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        let value = self.value.as_ref().expect("taken only by drop");
        // SAFETY: as for `deref`.
        unsafe { value.deref() }
    }
}

#[cfg(loom)]
impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // Loom's view of the access ends before others are let in.
        self.value = None;
        self.flag.unlock();
    }
}
