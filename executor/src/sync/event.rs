//! Something that has happened, or not yet.

use super::notify::{Notified, Notify};
use crate::shim::{const_unless_loom, ordering};
use core::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};
use hal::sync::atomic::{AtomicBool, Ordering::*};

/// Something that has happened or not: all wait until it has, and nobody after that, until it is
/// [cleared](Self::clear).
///
/// Whoever waited when it was set goes on, even if it is cleared before he is polled. Setting and
/// clearing work in interrupts too.
///
/// ```
/// use executor::{Runtime, spawn, sync::Event};
///
/// static OPEN: Event = Event::new();
///
/// # let runtime = Runtime::builder().workers(2).build()?;
/// runtime.block_on(async {
///     let guests = [1, 2, 3].map(|_| spawn(OPEN.wait()));
///     OPEN.set();
///     for guest in guests {
///         guest.await.unwrap();
///     }
///     OPEN.wait().await;
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct Event {
    is_set: AtomicBool,
    notify: Notify,
}

impl Event {
    const_unless_loom! {
        /// It has not happened.
        ///
        /// ```
        /// use executor::sync::Event;
        ///
        /// static OPEN: Event = Event::new();
        /// assert!(!OPEN.is_set());
        /// ```
        pub const fn new() -> Self {
            Self::new_with(false)
        }
    }

    const_unless_loom! {
        /// It has happened, or not.
        pub(super) const fn new_with(is_set: bool) -> Self {
            Self {
                is_set: AtomicBool::new(is_set),
                notify: Notify::new(),
            }
        }
    }

    /// It has happened: wakes all who wait. What was done before is seen by whoever waited, or comes later.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Event};
    ///
    /// let event = Event::new();
    /// event.set();
    /// block_on_simple(event.wait());
    /// assert!(event.is_set());
    /// ```
    pub fn set(&self) {
        // Release pairs with the acquire in `is_set`. Before those are woken who did not see it: see `Wait`.
        let order = ordering!(Release unless seeded = "event_set_relaxed");
        self.is_set.store(true, order);
        self.notify.notify_waiters();
    }

    /// It has not happened: who comes from now on waits.
    ///
    /// ```
    /// let event = executor::sync::Event::new();
    /// event.set();
    /// event.clear();
    /// assert!(!event.is_set());
    /// ```
    pub fn clear(&self) {
        self.is_set.store(false, Relaxed);
    }

    /// Whether it has happened.
    ///
    /// ```
    /// let event = executor::sync::Event::new();
    /// assert!(!event.is_set());
    /// event.set();
    /// assert!(event.is_set());
    /// ```
    #[inline]
    pub fn is_set(&self) -> bool {
        // Acquire pairs with the release in `set`.
        let order = ordering!(Acquire unless seeded = "event_read_relaxed");
        self.is_set.load(order)
    }

    /// Waits until it has happened.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Event};
    ///
    /// static DONE: Event = Event::new();
    ///
    /// let worker = std::thread::spawn(|| DONE.set());
    /// block_on_simple(DONE.wait());
    /// assert!(DONE.is_set());
    /// # worker.join().unwrap();
    /// ```
    #[inline]
    pub fn wait(&self) -> Wait<'_> {
        // Made before the look at the flag: if that is set after the look, this hears of it.
        let notified = self.notify.notified();
        Wait {
            is_set: self.is_set(),
            notified,
        }
    }
}

impl Default for Event {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("is_set", &self.is_set())
            .finish_non_exhaustive()
    }
}

/// Future of [`Event::wait`]. What happens from that call on counts, not only from the first poll.
///
/// ```
/// use executor::{block_on_simple, sync::{Event, Wait}};
///
/// let event = Event::new();
/// let wait: Wait<'_> = event.wait();
/// event.set();
/// event.clear();
/// // It has happened since.
/// block_on_simple(wait);
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[derive(Debug)]
pub struct Wait<'a> {
    /// It was set when this was made.
    is_set: bool,
    notified: Notified<'a>,
}

impl Future for Wait<'_> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_set {
            return super::proceed(cx);
        }
        // SAFETY: it is pinned with the whole, which has no `Drop`, and never moved out of it.
        unsafe { self.map_unchecked_mut(|this| &mut this.notified) }.poll(cx)
    }
}
