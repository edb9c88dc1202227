//! A place for one waker, between a future and an interrupt.

use core::task::Waker;
use hal::sync::Lock;

/// Where a future leaves its waker for an interrupt to find.
///
/// The future registers first and looks a second time after that; the interrupt
/// makes true what the future looks for, and wakes after that. So one of
/// them sees the other: no wake is lost.
///
/// The lock masks interrupts for a few instructions; wakers are cloned before,
/// woken and dropped after, because all of that is foreign code. It allocates nothing
/// and works without a runtime.
///
/// ```
/// use executor::{block_on_simple, sync::WakerSlot};
/// use std::{future::poll_fn, sync::atomic::{AtomicBool, Ordering::{Acquire, Release}}, task::Poll};
///
/// static ARRIVED: AtomicBool = AtomicBool::new(false);
/// static SLOT: WakerSlot = WakerSlot::new();
///
/// fn on_interrupt() {
///     ARRIVED.store(true, Release);
///     SLOT.wake();
/// }
/// # let interrupt = std::thread::spawn(on_interrupt);
/// block_on_simple(poll_fn(|cx| {
///     SLOT.register(cx.waker());
///     if ARRIVED.load(Acquire) { Poll::Ready(()) } else { Poll::Pending }
/// }));
/// # interrupt.join().unwrap();
/// ```
pub struct WakerSlot(Lock<Option<Waker>>);

impl WakerSlot {
    /// Nobody waits.
    ///
    /// ```
    /// use executor::sync::WakerSlot;
    ///
    /// static SLOT: WakerSlot = WakerSlot::new();
    /// SLOT.wake();
    /// ```
    pub const fn new() -> Self {
        Self(Lock::new(None))
    }

    /// Sees to it that the next [`wake`](Self::wake) wakes `waker`. One that was
    /// registered before is forgotten: there is one place.
    ///
    /// ```
    /// use executor::sync::WakerSlot;
    /// # use std::{sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}}, task::{Wake, Waker}};
    /// # #[derive(Default)]
    /// # struct Counter(AtomicU32);
    /// # impl Wake for Counter {
    /// #     fn wake(self: Arc<Self>) {
    /// #         self.0.fetch_add(1, Relaxed);
    /// #     }
    /// # }
    ///
    /// // Each counts how often it is woken.
    /// let (first, second) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    /// let slot = WakerSlot::new();
    /// slot.register(&Waker::from(first.clone()));
    /// slot.register(&Waker::from(second.clone()));
    /// slot.wake();
    /// assert_eq!((first.0.load(Relaxed), second.0.load(Relaxed)), (0, 1));
    /// ```
    pub fn register(&self, waker: &Waker) {
        let is_same = |own: &Waker| own.will_wake(waker);
        if self.0.lock().as_ref().is_some_and(is_same) {
            return;
        }
        let new = waker.clone();
        let before = self.0.lock().replace(new);
        drop(before);
    }

    /// Wakes whoever has registered, once. From any context, interrupts too.
    ///
    /// ```
    /// use executor::sync::WakerSlot;
    /// # use std::{sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}}, task::{Wake, Waker}};
    /// # #[derive(Default)]
    /// # struct Counter(AtomicU32);
    /// # impl Wake for Counter {
    /// #     fn wake(self: Arc<Self>) {
    /// #         self.0.fetch_add(1, Relaxed);
    /// #     }
    /// # }
    ///
    /// // It counts how often it is woken.
    /// let counter = Arc::new(Counter::default());
    /// let slot = WakerSlot::new();
    /// slot.register(&Waker::from(counter.clone()));
    /// slot.wake();
    /// slot.wake();
    /// assert_eq!(counter.0.load(Relaxed), 1);
    /// ```
    pub fn wake(&self) {
        let waker = self.0.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Forgets whoever has registered.
    ///
    /// ```
    /// use executor::sync::WakerSlot;
    /// # use std::{sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}}, task::{Wake, Waker}};
    /// # #[derive(Default)]
    /// # struct Counter(AtomicU32);
    /// # impl Wake for Counter {
    /// #     fn wake(self: Arc<Self>) {
    /// #         self.0.fetch_add(1, Relaxed);
    /// #     }
    /// # }
    ///
    /// // It counts how often it is woken.
    /// let counter = Arc::new(Counter::default());
    /// let slot = WakerSlot::new();
    /// slot.register(&Waker::from(counter.clone()));
    /// slot.clear();
    /// slot.wake();
    /// assert_eq!(counter.0.load(Relaxed), 0);
    /// ```
    pub fn clear(&self) {
        let waker = self.0.lock().take();
        drop(waker);
    }
}

impl Default for WakerSlot {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
        task::Wake,
    };

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_registered_waker_is_woken_once() {
        let slot = WakerSlot::new();
        let count = Arc::new(Count::default());
        slot.wake();
        slot.register(&Waker::from(count.clone()));
        slot.wake();
        slot.wake();
        assert_eq!(count.0.load(Relaxed), 1);
        assert_eq!(Arc::strong_count(&count), 1, "the slot keeps nothing");
    }

    #[test]
    fn the_last_one_registered_counts() {
        let slot = WakerSlot::new();
        let [first, second] = [0, 1].map(|_| Arc::new(Count::default()));
        let waker = Waker::from(second.clone());
        slot.register(&Waker::from(first.clone()));
        slot.register(&waker);
        slot.register(&waker);
        assert_eq!(
            Arc::strong_count(&first),
            1,
            "what was forgotten is dropped"
        );
        assert_eq!(
            Arc::strong_count(&second),
            3,
            "the same one is not cloned again"
        );
        slot.wake();
        assert_eq!(first.0.load(Relaxed), 0);
        assert_eq!(second.0.load(Relaxed), 1);
        slot.register(&waker);
        slot.clear();
        slot.wake();
        assert_eq!(second.0.load(Relaxed), 1);
    }

    #[test]
    fn a_waker_may_come_back_to_the_slot_while_it_is_dropped() {
        struct Nosy(Arc<WakerSlot>);
        impl Wake for Nosy {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Nosy {
            fn drop(&mut self) {
                self.0.clear();
            }
        }
        let slot = Arc::new(WakerSlot::new());
        slot.register(&Waker::from(Arc::new(Nosy(slot.clone()))));
        slot.register(Waker::noop());
        slot.register(&Waker::from(Arc::new(Nosy(slot.clone()))));
        slot.wake();
    }
}
