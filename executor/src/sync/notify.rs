//! Telling others that something has happened, without saying what.
//!
//! One word says whether a permit is stored, whether somebody waits, and how often
//! all were notified. A permit is stored only while nobody waits, in the same step that finds
//! that out; whoever begins to wait says so under the list's lock, in a step that sees no
//! permit. So one of them sees the other.

use super::{
    clone_waker, proceed,
    wait_list::{Answer, SKIPPED, WaitList, Waiter, Woken},
};
use crate::shim::{const_unless_loom, discard, ordering};
#[cfg(feature = "alloc")]
use alloc::sync::Arc;
use core::{
    fmt,
    ops::Deref,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use hal::sync::atomic::{AtomicUsize, Ordering::*};

/// Somebody waits; see `wait_list`.
const WAITERS: usize = 1;
/// The next who comes need not wait.
const PERMIT: usize = 2;
/// One call of `notify_waiters`. They are counted in the rest of the word, and may wrap around.
const CALL: usize = 4;
const CALLS: usize = !(WAITERS | PERMIT);

// What a waiter is told: by whom.
const ONE: Answer = 1;
const LAST: Answer = 2;
const ALL: Answer = 3;

/// Wakes tasks, one or all; and remembers one call for who comes too late to be woken.
///
/// It says only that there is something to look at. Whoever waits looks again after each
/// [`notified`](Self::notified); who makes something true calls [`notify_one`](Self::notify_one) after that. No
/// notification is lost: if nobody waits, one is stored, and the next [`notified`](Self::notified) is
/// ready at once. More than one is not stored.
///
/// Notifying works in interrupts too. What was done before it is seen by who is notified.
///
/// ```
/// use executor::{Runtime, spawn, sync::Notify};
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// static READY: Notify = Notify::new();
/// static VALUE: AtomicU32 = AtomicU32::new(0);
///
/// # let runtime = Runtime::builder().workers(2).build()?;
/// runtime.block_on(async {
///     spawn(async {
///         VALUE.store(5, Relaxed);
///         READY.notify_one();
///     });
///     READY.notified().await;
///     assert_eq!(VALUE.load(Relaxed), 5);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct Notify {
    word: AtomicUsize,
    waiters: WaitList,
}

impl Notify {
    const_unless_loom! {
        /// Nobody waits, nothing is stored.
        ///
        /// ```
        /// use executor::sync::Notify;
        /// use std::pin::pin;
        ///
        /// static NOTIFY: Notify = Notify::new();
        /// assert!(!pin!(NOTIFY.notified()).enable());
        /// ```
        #[doc(alias = "const_new")]
        pub const fn new() -> Self {
            Self {
                word: AtomicUsize::new(0),
                waiters: WaitList::new(),
            }
        }
    }

    /// Waits to be notified.
    ///
    /// The future takes part in [`notify_waiters`](Self::notify_waiters) from this call on, in
    /// [`notify_one`](Self::notify_one) from its first poll, or [`enable`](Notification::enable).
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Notify};
    ///
    /// static NOTIFY: Notify = Notify::new();
    ///
    /// let notifier = std::thread::spawn(|| NOTIFY.notify_one());
    /// block_on_simple(NOTIFY.notified());
    /// # notifier.join().unwrap();
    /// ```
    #[inline]
    pub fn notified(&self) -> Notified<'_> {
        Notification::new(self)
    }

    /// As [`notified`](Self::notified), with a future that keeps this and so borrows nothing.
    ///
    /// ```
    /// use executor::{Runtime, spawn, sync::Notify};
    /// use std::sync::Arc;
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let notify = Arc::new(Notify::new());
    ///     let waiting = spawn(notify.clone().notified_owned());
    ///     notify.notify_one();
    ///     waiting.await.unwrap();
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    #[cfg(feature = "alloc")]
    pub fn notified_owned(self: Arc<Self>) -> OwnedNotified {
        Notification::new(self)
    }

    /// Wakes the one who has waited longest. If nobody waits, the next who comes is
    /// notified at once; called twice before that, it is still only one.
    ///
    /// ```
    /// use executor::sync::Notify;
    /// use std::pin::pin;
    ///
    /// let notify = Notify::new();
    /// notify.notify_one();
    /// notify.notify_one();
    /// // One is stored.
    /// assert!(pin!(notify.notified()).enable());
    /// assert!(!pin!(notify.notified()).enable());
    /// ```
    #[inline]
    pub fn notify_one(&self) {
        if !self.store_permit() {
            self.notify_waiting(ONE);
        }
    }

    /// As [`notify_one`](Self::notify_one), but wakes the one who came last.
    ///
    /// ```
    /// use executor::sync::Notify;
    /// use std::pin::pin;
    ///
    /// let notify = Notify::new();
    /// let (mut first, mut last) = (pin!(notify.notified()), pin!(notify.notified()));
    /// assert!(!first.as_mut().enable() && !last.as_mut().enable());
    /// notify.notify_last();
    /// assert!(last.enable());
    /// assert!(!first.enable());
    /// ```
    pub fn notify_last(&self) {
        if !self.store_permit() {
            self.notify_waiting(LAST);
        }
    }

    /// Wakes all who wait, and nobody who comes later: nothing is stored, and what is stored stays.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Notify};
    /// use std::pin::pin;
    ///
    /// let notify = Notify::new();
    /// let (first, second) = (notify.notified(), notify.notified());
    /// notify.notify_waiters();
    /// block_on_simple(first);
    /// block_on_simple(second);
    /// assert!(!pin!(notify.notified()).enable(), "this one comes later");
    /// ```
    pub fn notify_waiters(&self) {
        // Release pairs with the acquires in `notified` and `take`.
        let order = ordering!(Release unless seeded = "notify_call_relaxed");
        let nobody_waits = |word: usize| (word & WAITERS == 0).then(|| word.wrapping_add(CALL));
        if self.word.fetch_update(order, Relaxed, nobody_waits).is_ok() {
            return;
        }
        let waiters = self.waiters.lock();
        let call = |word: usize| Some(word.wrapping_add(CALL) & !WAITERS);
        let _ = self.word.fetch_update(order, Relaxed, call);
        self.waiters.answer_all(waiters, ALL);
    }

    /// Stores a permit if nobody waits. Also if there is one: whoever takes it sees what was done before this.
    #[inline]
    fn store_permit(&self) -> bool {
        // Release pairs with the acquire in `take`.
        let order = ordering!(Release unless seeded = "notify_store_relaxed");
        if cfg!(seeded = "notify_store_looks_first") && self.word.load(Relaxed) & WAITERS == 0 {
            self.word.fetch_or(PERMIT, order);
            return true;
        }
        let store = |word: usize| (word & WAITERS == 0).then_some(word | PERMIT);
        self.word.fetch_update(order, Relaxed, store).is_ok()
    }

    /// Wakes one of those who wait.
    #[cold]
    #[inline(never)]
    fn notify_waiting(&self, which: Answer) {
        let mut woken = Woken::new();
        let mut waiters = self.waiters.lock();
        waiters.skip_lost();
        let is_answered = match which {
            LAST => waiters.answer_last(LAST, &mut woken),
            _ => waiters.answer_first(ONE, &mut woken),
        };
        if waiters.is_empty() {
            // Nobody begins to wait meanwhile.
            let permit = if is_answered { 0 } else { PERMIT };
            let step = |word: usize| Some((word & !WAITERS) | permit);
            // Release as in `store_permit`.
            let _ = self.word.fetch_update(Release, Relaxed, step);
        }
        drop(waiters);
        woken.wake();
    }

    /// Takes the permit that is stored, or sees that all were notified after `calls`.
    #[inline]
    fn take(&self, calls: usize) -> bool {
        let order = ordering!(Acquire unless seeded = "notify_take_relaxed");
        // Acquire pairs with the release in `notify_waiters`.
        let mut word = self.word.load(order);
        loop {
            // Looked at first: who was notified with all others needs no permit, and leaves it to the next.
            if word & CALLS != calls {
                return true;
            }
            if word & PERMIT == 0 {
                return false;
            }
            // Acquire pairs with the release in `store_permit`.
            let next = word & !PERMIT;
            match self.word.compare_exchange_weak(word, next, order, order) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// The same, with the list locked; if there is nothing to take, somebody waits from now on.
    fn take_or_wait(&self, calls: usize) -> bool {
        let mut is_taken = false;
        let step = |word: usize| {
            is_taken = true;
            if word & CALLS != calls && !cfg!(seeded = "notify_call_missed") {
                return Some(word);
            }
            if word & PERMIT != 0 {
                return Some(word & !PERMIT);
            }
            is_taken = false;
            Some(word | WAITERS)
        };
        // Acquire as in `take`.
        let _ = self.word.fetch_update(Acquire, Acquire, step);
        is_taken
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Relaxed);
        f.debug_struct("Notify")
            .field("is_stored", &(word & PERMIT != 0))
            .finish_non_exhaustive()
    }
}

/// Future of [`Notify::notified`] and [`notified_owned`](Notify::notified_owned); `N` refers to the [`Notify`]. Once
/// ready, it stays so.
///
/// Dropped after [`notify_one`](Notify::notify_one) has chosen it and before it was polled, it passes that on to the next.
///
/// ```
/// use executor::sync::{Notification, Notify};
/// use std::{ops::Deref, pin::{Pin, pin}, sync::Arc};
///
/// fn begin<N: Deref<Target = Notify>>(waiting: Pin<&mut Notification<N>>) {
///     assert!(!waiting.enable());
/// }
/// let notify = Arc::new(Notify::new());
/// let mut first = Box::pin(notify.clone().notified_owned());
/// let mut second = pin!(notify.notified());
/// begin(first.as_mut());
/// begin(second.as_mut());
/// notify.notify_one();
/// drop(first);
/// assert!(second.enable(), "it was passed on");
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Notification<N: Deref<Target = Notify>> {
    /// A reference or an `Arc`: always the same one, which lives as long as this.
    notify: N,
    /// How often all were notified when it was made.
    calls: usize,
    is_done: bool,
    waiter: Waiter,
}

/// Waits for a [`Notify`] that it borrows.
///
/// ```
/// use executor::{block_on_simple, sync::{Notified, Notify}};
///
/// async fn look_again(changed: Notified<'_>, look: impl Fn() -> u32) -> u32 {
///     changed.await;
///     look()
/// }
/// let notify = Notify::new();
/// notify.notify_one();
/// assert_eq!(block_on_simple(look_again(notify.notified(), || 5)), 5);
/// ```
pub type Notified<'a> = Notification<&'a Notify>;
/// Waits for a [`Notify`] that it keeps.
///
/// ```
/// use executor::{block_on_simple, sync::{Notify, OwnedNotified}};
/// use std::sync::Arc;
///
/// let notify = Arc::new(Notify::new());
/// let notified: OwnedNotified = notify.clone().notified_owned();
/// notify.notify_waiters();
/// drop(notify);
/// block_on_simple(notified);
/// ```
#[cfg(feature = "alloc")]
pub type OwnedNotified = Notification<Arc<Notify>>;

impl<N: Deref<Target = Notify>> Notification<N> {
    #[inline]
    fn new(notify: N) -> Self {
        Self {
            // Acquire pairs with the release in `notify_waiters`: who counts a call sees what was done before it.
            calls: notify.word.load(Acquire) & CALLS,
            notify,
            is_done: false,
            waiter: Waiter::new(),
        }
    }

    /// Begins to wait without a poll, so that a [`notify_one`](Notify::notify_one) from here on is for this one if it
    /// is its turn. True: it is ready already.
    ///
    /// ```
    /// use executor::sync::Notify;
    /// use std::pin::pin;
    ///
    /// let notify = Notify::new();
    /// let mut notified = pin!(notify.notified());
    /// assert!(!notified.as_mut().enable());
    /// notify.notify_one();
    /// assert!(notified.enable());
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        // SAFETY: nothing that is pinned is moved out of it; that is `waiter` alone.
        let this = unsafe { self.get_unchecked_mut() };
        if this.is_done {
            return true;
        }
        if !this.waiter.is_waiting() {
            return this.take() || this.wait(None);
        }
        // SAFETY: pinned, and it waits there.
        let answered = unsafe { Pin::new_unchecked(&mut this.waiter).look() };
        if answered
            .as_ref()
            .is_some_and(|answered| answered.answer == Some(SKIPPED))
        {
            return this.take() || this.wait(None);
        }
        this.is_done = answered.is_some();
        this.is_done
    }

    #[inline]
    fn take(&mut self) -> bool {
        self.is_done = self.notify.take(self.calls);
        self.is_done
    }

    /// Goes behind all others who wait. True: it was notified meanwhile.
    #[cold]
    #[inline(never)]
    fn wait(&mut self, waker: Option<&Waker>) -> bool {
        // Foreign code, so without the lock.
        let waker = waker.map(|waker| clone_waker(waker, &"notify"));
        let notify = &*self.notify;
        let mut waiters = notify.waiters.lock();
        self.is_done = notify.take_or_wait(self.calls);
        if !self.is_done {
            // SAFETY: 1. pinned, as it is in all that call this, and they saw that it does not wait.
            // 2. it keeps the list's owner, and `drop` makes it leave.
            unsafe { Pin::new_unchecked(&mut self.waiter).join(&mut waiters, 0, waker) };
            return false;
        }
        drop(waiters);
        discard(waker);
        true
    }

    #[cold]
    #[inline(never)]
    fn poll_waiting(&mut self, waker: &Waker) -> bool {
        // SAFETY: pinned, as only `poll` calls this; and it waits there, as that has asked.
        let answered = unsafe {
            Pin::new_unchecked(&mut self.waiter).poll(&self.notify.waiters, waker, |waker| {
                clone_waker(waker, &"notify")
            })
        };
        if answered
            .as_ref()
            .is_some_and(|answered| answered.answer == Some(SKIPPED))
        {
            return self.take() || self.wait(Some(waker));
        }
        self.is_done = answered.is_some();
        self.is_done
    }

    /// It is dropped while it waits.
    #[cold]
    #[inline(never)]
    fn leave(&mut self) {
        let notify = &*self.notify;
        // SAFETY: it waits, so it is pinned, and it does so in this list.
        let left = unsafe { Pin::new_unchecked(&mut self.waiter).leave(&notify.waiters, |_| {}) };
        match left.answer {
            Some(ONE) if !cfg!(seeded = "notify_drop_keeps") => notify.notify_one(),
            Some(LAST) => notify.notify_last(),
            _ => {}
        }
    }
}

impl<N: Deref<Target = Notify>> Future for Notification<N> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing that is pinned is moved out of it; that is `waiter` alone.
        let this = unsafe { self.get_unchecked_mut() };
        let is_ready = if this.waiter.is_waiting() {
            this.poll_waiting(cx.waker())
        } else if this.is_done {
            true
        } else if proceed(cx).is_pending() {
            false
        } else {
            this.take() || this.wait(Some(cx.waker()))
        };
        match is_ready {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl<N: Deref<Target = Notify>> Drop for Notification<N> {
    #[inline]
    fn drop(&mut self) {
        if self.waiter.is_waiting() {
            self.leave();
        }
    }
}

impl<N: Deref<Target = Notify>> fmt::Debug for Notification<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notified")
            .field("is_done", &self.is_done)
            .finish_non_exhaustive()
    }
}
