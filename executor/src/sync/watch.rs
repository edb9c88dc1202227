//! A value that changes, and those who want to know: each sees the latest, and that it has changed.
//!
//! ```
//! use executor::{Runtime, spawn, sync::watch};
//!
//! # let runtime = Runtime::builder().workers(2).build()?;
//! runtime.block_on(async {
//!     let (sender, mut receiver) = watch::channel(0);
//!     let reader = spawn(async move {
//!         let mut seen = vec![*receiver.borrow_and_update()];
//!         while receiver.changed().await.is_ok() {
//!             seen.push(*receiver.borrow_and_update());
//!         }
//!         seen
//!     });
//!     for number in 1..100 {
//!         sender.send(number).unwrap();
//!     }
//!     drop(sender);
//!     let seen = reader.await.unwrap();
//!     assert_eq!(seen.last(), Some(&99));
//!     assert!(seen.is_sorted());
//! });
//! # Ok::<(), executor::BuildError>(())
//! ```
//!
//! A receiver knows which version of the value it has seen. At first that is the one that is there when it is made.
//!
//! # Waiting for the value itself
//!
//! Whoever looks at the value keeps senders from changing it, and whoever changes it keeps others from looking. So
//! [`borrow`](Receiver::borrow) and the functions that send may have to wait: in a task its poll is suspended and
//! the core goes on, elsewhere the thread or the core sleeps. Do not keep a [`Ref`] for long, and do not send, or look once more,
//! while the same task has one: it may wait for itself. In an interrupt, under a guard, or in a waker, waiting panics.

pub mod error;
mod shared;

use self::{
    error::{RecvError, SendError},
    shared::{Shared, Version},
};
use super::{RwLockReadGuard, proceed};
use crate::memory::Counted;
use core::{fmt, future::poll_fn, marker::PhantomData, mem, ops::Deref};
use hal::sync::atomic::Ordering::Relaxed;

/// Makes a channel with a first value, which counts as seen.
///
/// ```
/// let (sender, receiver) = executor::sync::watch::channel("hello");
/// assert_eq!(*receiver.borrow(), "hello");
/// sender.send("world").unwrap();
/// assert_eq!(*receiver.borrow(), "world");
/// ```
///
/// # Panics
/// If there is no memory for it; [`try_channel`] says so instead.
#[track_caller]
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// As [`channel`], but gives the value back when there is no memory.
///
/// ```
/// let (sender, receiver) = executor::sync::watch::try_channel(1)?;
/// sender.send(2).unwrap();
/// assert_eq!(*receiver.borrow(), 2);
/// # Ok::<(), i32>(())
/// ```
///
/// # Errors
/// There is no memory for it, and here is the value again.
pub fn try_channel<T>(value: T) -> Result<(Sender<T>, Receiver<T>), T> {
    let sender = Sender::try_new(value)?;
    let receiver = sender.subscribe();
    Ok((sender, receiver))
}

/// Changes the value.
///
/// ```
/// let (sender, receiver) = executor::sync::watch::channel(1);
/// let other = sender.clone();
/// sender.send(2).unwrap();
/// other.send(3).unwrap();
/// assert_eq!(*receiver.borrow(), 3);
/// ```
pub struct Sender<T> {
    shared: Counted<Shared<T>>,
}

impl<T> Sender<T> {
    /// A value that nobody watches yet.
    ///
    /// ```
    /// use executor::sync::watch::Sender;
    ///
    /// let sender = Sender::new(1);
    /// assert!(sender.send(2).is_err());
    /// let receiver = sender.subscribe();
    /// assert_eq!(*receiver.borrow(), 1);
    /// ```
    ///
    /// # Panics
    /// If there is no memory for it; [`try_new`](Self::try_new) says so instead.
    #[track_caller]
    pub fn new(value: T) -> Self {
        match Self::try_new(value) {
            Ok(sender) => sender,
            Err(_) => panic!("there is no memory for a channel"),
        }
    }

    /// As [`new`](Self::new), but gives the value back when there is no memory.
    ///
    /// ```
    /// use executor::sync::watch::Sender;
    ///
    /// let sender = Sender::try_new(1)?;
    /// assert_eq!(*sender.borrow(), 1);
    /// # Ok::<(), i32>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for it, and here is the value again.
    pub fn try_new(value: T) -> Result<Self, T> {
        let shared = Counted::try_new(Shared::new(value)).map_err(Shared::into_value)?;
        Ok(Self { shared })
    }

    /// Replaces the value, and wakes all who wait for a change. Err: nobody watches, and nothing has changed.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// drop(receiver);
    /// assert_eq!(sender.send(3).unwrap_err().0, 3);
    /// assert_eq!(*sender.borrow(), 2);
    /// ```
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError(value));
        }
        drop(self.send_replace(value));
        Ok(())
    }

    /// Changes the value where it is, and wakes all who wait for a change; also if nobody watches.
    ///
    /// If `modify` panics, nobody hears of a change, but what was changed before is changed.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::watch::channel(vec![1]);
    /// sender.send_modify(|list| list.push(2));
    /// assert_eq!(*receiver.borrow(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.shared.change(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value where it is, or not, and wakes all who wait for a change if `modify` says so: what it said.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::watch::channel(1);
    /// let raise = |to: u32| sender.send_if_modified(|value| to > std::mem::replace(value, to.max(*value)));
    /// assert!(raise(3));
    /// assert!(!raise(2));
    /// assert_eq!(*receiver.borrow(), 3);
    /// ```
    #[track_caller]
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        self.shared.change(modify)
    }

    /// Replaces the value, and wakes all who wait for a change; also if nobody watches. Returns the old value.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::watch::channel(1);
    /// assert_eq!(sender.send_replace(2), 1);
    /// assert_eq!(sender.send_replace(3), 2);
    /// ```
    #[track_caller]
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|old| mem::swap(old, &mut value));
        value
    }

    /// Looks at the value. See [above](self#waiting-for-the-value-itself).
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::watch::channel(1);
    /// assert_eq!(*sender.borrow(), 1);
    /// ```
    #[track_caller]
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref::new(self.shared.read(), false)
    }

    /// Whether nobody watches.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::watch::channel(1);
    /// assert!(!sender.is_closed());
    /// drop(receiver);
    /// assert!(sender.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }

    /// Waits until nobody watches. Whether it is so for a moment only may or may not be noticed.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::watch};
    ///
    /// let (sender, receiver) = watch::channel(1);
    /// drop(receiver);
    /// block_on_simple(sender.closed());
    /// ```
    pub async fn closed(&self) {
        poll_fn(proceed).await;
        loop {
            // Made before the look, so it hears of who leaves after it.
            let notified = self.shared.unwatched.notified();
            if self.is_closed() {
                return;
            }
            notified.await;
        }
    }

    /// A receiver that has seen the value as it is now.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// let late = sender.subscribe();
    /// assert_eq!(late.has_changed(), Ok(false));
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(&self.shared, self.shared.now().version())
    }

    /// How many receivers there are.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::watch::channel(1);
    /// let other = receiver.clone();
    /// assert_eq!(sender.receiver_count(), 2);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.shared.receivers.load(Relaxed)
    }

    /// How many senders there are.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::watch::channel(1);
    /// let other = sender.clone();
    /// assert_eq!(sender.sender_count(), 2);
    /// ```
    pub fn sender_count(&self) -> usize {
        self.shared.senders.load(Relaxed)
    }

    /// Whether both are about the same value.
    ///
    /// ```
    /// let (sender, _receiver) = executor::sync::watch::channel(1);
    /// assert!(sender.same_channel(&sender.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Counted::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.senders.fetch_add(1, Relaxed);
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.remove_sender();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("receiver_count", &self.receiver_count())
            .finish_non_exhaustive()
    }
}

/// Looks at the value, and waits for it to change.
///
/// ```
/// let (sender, mut receiver) = executor::sync::watch::channel(1);
/// sender.send(2).unwrap();
/// let other = receiver.clone();
/// assert_eq!(*receiver.borrow_and_update(), 2);
/// assert_eq!((receiver.has_changed(), other.has_changed()), (Ok(false), Ok(true)));
/// ```
pub struct Receiver<T> {
    shared: Counted<Shared<T>>,
    /// What it has seen.
    seen: Version,
}

impl<T> Receiver<T> {
    fn new(shared: &Counted<Shared<T>>, seen: Version) -> Self {
        // Relaxed: it is a number, and whoever counts down to 0 was counted before.
        shared.receivers.fetch_add(1, Relaxed);
        Self {
            shared: shared.clone(),
            seen,
        }
    }

    /// Looks at the value, and does not count it as seen. See [above](self#waiting-for-the-value-itself).
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*receiver.borrow(), 2);
    /// assert_eq!(receiver.has_changed(), Ok(true));
    /// ```
    #[track_caller]
    pub fn borrow(&self) -> Ref<'_, T> {
        let value = self.shared.read();
        // Nobody changes it meanwhile, so that is what is read.
        let has_changed = self.shared.now().version() != self.seen;
        Ref::new(value, has_changed)
    }

    /// Looks at the value, and counts it as seen. See [above](self#waiting-for-the-value-itself).
    ///
    /// ```
    /// let (sender, mut receiver) = executor::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*receiver.borrow_and_update(), 2);
    /// assert_eq!(receiver.has_changed(), Ok(false));
    /// ```
    #[track_caller]
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.read();
        // As in `borrow`.
        let version = self.shared.now().version();
        let has_changed = mem::replace(&mut self.seen, version) != version;
        Ref::new(value, has_changed)
    }

    /// Whether there is a value that it has not seen. Err: all senders were dropped.
    ///
    /// It is the sending that counts: the value may be equal to the one before.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::watch::channel(1);
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.has_changed(), Ok(true));
    /// drop(sender);
    /// assert!(receiver.has_changed().is_err());
    /// ```
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        let now = self.shared.now();
        match now.is_closed() {
            true => Err(RecvError(())),
            false => Ok(now.version() != self.seen),
        }
    }

    /// Counts the value as not seen, whatever it is.
    ///
    /// ```
    /// let (_sender, mut receiver) = executor::sync::watch::channel(1);
    /// receiver.mark_changed();
    /// assert_eq!(receiver.has_changed(), Ok(true));
    /// ```
    pub fn mark_changed(&mut self) {
        self.seen = self.shared.now().version().before();
    }

    /// Counts the value as seen, as it is now.
    ///
    /// ```
    /// let (sender, mut receiver) = executor::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// receiver.mark_unchanged();
    /// assert_eq!(receiver.has_changed(), Ok(false));
    /// ```
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.now().version();
    }

    /// Waits until there is a value that it has not seen, and counts it as seen. Err: it has seen the last one, as
    /// all senders were dropped. Dropped before it is ready, it has seen nothing.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::watch};
    ///
    /// block_on_simple(async {
    ///     let (sender, mut receiver) = watch::channel(1);
    ///     sender.send(2).unwrap();
    ///     drop(sender);
    ///     assert!(receiver.changed().await.is_ok());
    ///     assert_eq!(*receiver.borrow(), 2);
    ///     assert!(receiver.changed().await.is_err());
    /// });
    /// ```
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        poll_fn(proceed).await;
        changed(&self.shared, &mut self.seen).await
    }

    /// Waits for a value of which `is_it` says that it is the one, and looks at it: this one, if it is. It counts as seen,
    /// as do those for which it was asked before. Err: all senders were dropped, and the last value was not the one.
    ///
    /// Values between which there was no time to look are skipped. See also [above](self#waiting-for-the-value-itself).
    ///
    /// ```
    /// use executor::{Runtime, spawn, sync::watch};
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let (sender, mut receiver) = watch::channel(0);
    ///     spawn(async move { (0..10).for_each(|number| sender.send(number).unwrap()) });
    ///     let large = *receiver.wait_for(|number| *number > 5).await.unwrap();
    ///     assert!(large > 5);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub async fn wait_for(
        &mut self,
        mut is_it: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, RecvError> {
        let mut is_closed = false;
        loop {
            let value = self.shared.read_later().await;
            // As in `borrow`.
            let version = self.shared.now().version();
            let has_changed = mem::replace(&mut self.seen, version) != version;
            // It was asked about the last one, unless that came just before the end.
            if (!is_closed || has_changed) && is_it(&value) {
                return Ok(Ref::new(value, has_changed));
            }
            drop(value);
            if is_closed {
                return Err(RecvError(()));
            }
            // A change is left to be seen with the value.
            let mut seen = self.seen;
            is_closed = changed(&self.shared, &mut seen).await.is_err();
        }
    }

    /// Whether both are about the same value.
    ///
    /// ```
    /// let (_sender, receiver) = executor::sync::watch::channel(1);
    /// assert!(receiver.same_channel(&receiver.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Counted::ptr_eq(&self.shared, &other.shared)
    }
}

#[cfg(not(loom))]
impl<T> Receiver<T> {
    /// As [`changed`](Self::changed), but gives up after a while.
    ///
    /// ```
    /// use executor::{Runtime, sync::watch::{self, error::ChangedTimeoutError}, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let (_sender, mut receiver) = watch::channel(1);
    ///     let changed = receiver.changed_timeout(Duration::from_millis(1)).await;
    ///     assert_eq!(changed, Err(ChangedTimeoutError::Elapsed));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If it has to wait where no [`Runtime`](crate::Runtime) runs: no timer would wake it.
    pub async fn changed_timeout(
        &mut self,
        limit: core::time::Duration,
    ) -> Result<(), error::ChangedTimeoutError> {
        match crate::time::timeout(limit, self.changed()).await {
            Ok(changed) => Ok(changed?),
            // It may have been pending only to let others run.
            Err(_) => match look(&self.shared, &mut self.seen) {
                Some(changed) => Ok(changed?),
                None => Err(error::ChangedTimeoutError::Elapsed),
            },
        }
    }
}

/// Whether there is a value that was not seen, which then is, or never will be. None: not yet.
fn look<T>(shared: &Shared<T>, seen: &mut Version) -> Option<Result<(), RecvError>> {
    let now = shared.now();
    if now.version() != *seen {
        *seen = now.version();
        return Some(Ok(()));
    }
    now.is_closed().then_some(Err(RecvError(())))
}

async fn changed<T>(shared: &Shared<T>, seen: &mut Version) -> Result<(), RecvError> {
    loop {
        // Made before the look, so it hears of what changes after it.
        #[cfg_attr(not(loom), allow(unused_mut, reason = "a bug may be seeded"))]
        let mut notified = shared.changed.notified();
        if let Some(changed) = look(shared, seen) {
            return changed;
        }
        #[cfg(loom)]
        if cfg!(seeded = "watch_waits_after_the_look") {
            // Loom would not try this by itself: who notifies looks before, and so hides it.
            loom::thread::yield_now();
            notified = shared.changed.notified();
        }
        notified.await;
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self::new(&self.shared, self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.remove_receiver();
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("has_changed", &self.has_changed())
            .finish_non_exhaustive()
    }
}

/// The value, which does not change while somebody looks at it.
///
/// ```
/// use executor::sync::watch::{self, Ref};
///
/// let (sender, receiver) = watch::channel(1);
/// let value: Ref<'_, u8> = receiver.borrow();
/// assert_eq!(*value, 1);
/// drop(value);
/// sender.send(2).unwrap();
/// ```
///
/// It stays in its task: kept across an `.await`, it would keep senders waiting for as long as that takes.
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<executor::sync::watch::Ref<'static, u8>>();
/// ```
pub struct Ref<'a, T> {
    value: RwLockReadGuard<'a, T>,
    has_changed: bool,
    _stays: PhantomData<*const ()>,
}

// SAFETY: what is shared of it is the guard and a flag.
unsafe impl<'a, T> Sync for Ref<'a, T> where RwLockReadGuard<'a, T>: Sync {}

impl<'a, T> Ref<'a, T> {
    fn new(value: RwLockReadGuard<'a, T>, has_changed: bool) -> Self {
        Self {
            value,
            has_changed,
            _stays: PhantomData,
        }
    }

    /// Whether the receiver had not seen this value before; for a sender, no.
    ///
    /// ```
    /// let (sender, mut receiver) = executor::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert!(receiver.borrow_and_update().has_changed());
    /// assert!(!receiver.borrow().has_changed());
    /// assert!(!sender.borrow().has_changed());
    /// ```
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ref")
            .field("value", &**self)
            .field("has_changed", &self.has_changed)
            .finish()
    }
}
