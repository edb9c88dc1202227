//! Permits that tasks wait for.

use super::permits::{self, Home, Permits, Refusal, Take};
#[cfg(all(feature = "alloc", not(loom)))]
use crate::memory::Counted;
use crate::shim::const_unless_loom;
#[cfg(feature = "alloc")]
use alloc::sync::Arc;
use core::{
    error, fmt,
    ops::Deref,
    pin::Pin,
    ptr,
    task::{Context, Poll},
};

/// A number of permits, which are taken, waited for and given back.
///
/// First come, first served: while somebody waits, nobody else gets any, even if there would
/// be enough for him; so who asks for many is not starved by those who ask for few. A
/// permit is given back when it is dropped. [`add_permits`](Self::add_permits) and dropping
/// a permit work in interrupts too; not so an owned one, which may free the semaphore.
///
/// ```
/// use executor::{block_on_simple, sync::Semaphore};
///
/// static ROOMS: Semaphore = Semaphore::new(2);
///
/// block_on_simple(async {
///     let first = ROOMS.acquire().await.unwrap();
///     let second = ROOMS.acquire().await.unwrap();
///     assert!(ROOMS.try_acquire().is_err());
///     drop(first);
///     assert_eq!(ROOMS.available_permits(), 1);
/// #   drop(second);
/// });
/// ```
pub struct Semaphore {
    permits: Permits,
}

impl Semaphore {
    /// How many permits there can be.
    ///
    /// ```
    /// use executor::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    /// assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
    /// ```
    pub const MAX_PERMITS: usize = permits::MAX;

    const_unless_loom! {
        /// A semaphore with this many permits.
        ///
        /// ```
        /// use executor::sync::Semaphore;
        ///
        /// static ROOMS: Semaphore = Semaphore::new(2);
        /// assert_eq!(ROOMS.available_permits(), 2);
        /// ```
        ///
        /// # Panics
        /// If there are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
        #[doc(alias = "const_new")]
        pub const fn new(permits: usize) -> Self {
            assert!(permits <= Self::MAX_PERMITS, "a semaphore cannot have so many permits");
            Self {
                permits: Permits::new(permits),
            }
        }
    }

    /// How many permits can be taken now. None while somebody waits: what there is, he has.
    ///
    /// ```
    /// let semaphore = executor::sync::Semaphore::new(3);
    /// let _two = semaphore.try_acquire_many(2).unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn available_permits(&self) -> usize {
        self.permits.available()
    }

    /// Adds permits. In interrupts too.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Semaphore};
    ///
    /// static ARRIVED: Semaphore = Semaphore::new(0);
    ///
    /// let producer = std::thread::spawn(|| ARRIVED.add_permits(2));
    /// block_on_simple(async {
    ///     ARRIVED.acquire().await.unwrap().forget();
    ///     ARRIVED.acquire().await.unwrap().forget();
    /// });
    /// # producer.join().unwrap();
    /// ```
    ///
    /// # Panics
    /// If there are more than [`MAX_PERMITS`](Self::MAX_PERMITS) then.
    pub fn add_permits(&self, count: usize) {
        let sum = self.available_permits().checked_add(count);
        assert!(
            sum.is_some_and(|sum| sum <= Self::MAX_PERMITS),
            "a semaphore cannot have so many permits"
        );
        self.permits.give(count);
    }

    /// Takes up to `count` permits away for good: how many those were.
    ///
    /// ```
    /// let semaphore = executor::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.forget_permits(2), 2);
    /// assert_eq!(semaphore.forget_permits(2), 1);
    /// assert!(semaphore.try_acquire().is_err());
    /// ```
    pub fn forget_permits(&self, count: usize) -> usize {
        self.permits.remove(count)
    }

    /// Takes a permit, and waits for one if there is none.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Semaphore};
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = block_on_simple(semaphore.acquire()).unwrap();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// drop(permit);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    #[inline]
    pub fn acquire(&self) -> Acquire<&Self> {
        self.acquire_many(1)
    }

    /// Takes several permits, all at once, and waits until there are as many.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Semaphore};
    ///
    /// let semaphore = Semaphore::new(3);
    /// let permit = block_on_simple(semaphore.acquire_many(2)).unwrap();
    /// assert_eq!(permit.num_permits(), 2);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    #[inline]
    pub fn acquire_many(&self, count: u32) -> Acquire<&Self> {
        Acquire {
            take: Take::new(self, count as usize),
            count,
        }
    }

    /// Takes a permit if there is one and nobody waits.
    ///
    /// ```
    /// let semaphore = executor::sync::Semaphore::new(1);
    /// let permit = semaphore.try_acquire().unwrap();
    /// assert!(semaphore.try_acquire().is_err());
    /// drop(permit);
    /// assert!(semaphore.try_acquire().is_ok());
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes several permits if there are as many and nobody waits.
    ///
    /// ```
    /// let semaphore = executor::sync::Semaphore::new(3);
    /// assert!(semaphore.try_acquire_many(4).is_err());
    /// assert_eq!(semaphore.try_acquire_many(3).unwrap().num_permits(), 3);
    /// ```
    #[inline]
    pub fn try_acquire_many(&self, count: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.permits.try_take(count as usize)?;
        Ok(Permit {
            semaphore: self,
            count,
        })
    }

    /// As [`acquire`](Self::acquire), in code that is not async; see [`Mutex::lock_blocking`](super::Mutex::lock_blocking).
    ///
    /// ```
    /// use executor::sync::Semaphore;
    ///
    /// static DONE: Semaphore = Semaphore::new(0);
    ///
    /// let worker = std::thread::spawn(|| DONE.add_permits(1));
    /// DONE.acquire_blocking().unwrap().forget();
    /// assert_eq!(DONE.available_permits(), 0);
    /// # worker.join().unwrap();
    /// ```
    #[doc(alias = "blocking_acquire")]
    #[cfg(not(loom))]
    #[track_caller]
    pub fn acquire_blocking(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        super::block_on(self.acquire())
    }

    /// As [`acquire_many`](Self::acquire_many), in code that is not async.
    ///
    /// ```
    /// use executor::sync::Semaphore;
    ///
    /// static DONE: Semaphore = Semaphore::new(0);
    ///
    /// let workers = [1, 2].map(|_| std::thread::spawn(|| DONE.add_permits(1)));
    /// // Waits for both.
    /// DONE.acquire_many_blocking(2).unwrap().forget();
    /// # for worker in workers {
    /// #     worker.join().unwrap();
    /// # }
    /// ```
    #[doc(alias = "blocking_acquire_many")]
    #[cfg(not(loom))]
    #[track_caller]
    pub fn acquire_many_blocking(&self, count: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        super::block_on(self.acquire_many(count))
    }

    /// Lets nobody take permits any more. Whoever waits hears so; permits that were taken remain
    /// what they are.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Semaphore};
    ///
    /// let semaphore = Semaphore::new(1);
    /// semaphore.close();
    /// assert!(block_on_simple(semaphore.acquire()).is_err());
    /// ```
    pub fn close(&self) {
        self.permits.close();
    }

    /// Whether it was closed.
    ///
    /// ```
    /// let semaphore = executor::sync::Semaphore::new(1);
    /// assert!(!semaphore.is_closed());
    /// semaphore.close();
    /// assert!(semaphore.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }
}

#[cfg(all(feature = "alloc", not(loom)))]
impl Semaphore {
    /// As [`acquire`](Self::acquire), but gives up after a while.
    ///
    /// # Panics
    /// If it has to wait where no [`Runtime`](crate::Runtime) runs: no timer would wake it.
    ///
    /// ```
    /// use executor::{Runtime, sync::Semaphore, time::Duration};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let semaphore = Semaphore::new(1);
    ///     let permit = semaphore.acquire_timeout(Duration::from_millis(1)).await.unwrap();
    ///     assert!(semaphore.acquire_timeout(Duration::from_millis(1)).await.is_err());
    ///     drop(permit);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub async fn acquire_timeout(
        &self,
        limit: core::time::Duration,
    ) -> Result<SemaphorePermit<'_>, AcquireTimeoutError> {
        match crate::time::timeout(limit, self.acquire()).await {
            Ok(permit) => Ok(permit?),
            // It may have been pending only to let others run.
            Err(_) => Ok(self.try_acquire()?),
        }
    }
}

#[cfg(feature = "alloc")]
impl Semaphore {
    /// As [`acquire`](Self::acquire), with a permit that keeps the semaphore and so borrows nothing.
    ///
    /// ```
    /// use executor::{Runtime, spawn, sync::Semaphore};
    /// use std::sync::Arc;
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let semaphore = Arc::new(Semaphore::new(3));
    ///     for number in 0..10 {
    ///         let permit = semaphore.clone().acquire_owned().await.unwrap();
    ///         // At most three run at once.
    ///         spawn(async move {
    ///             println!("{number}");
    ///             drop(permit);
    ///         });
    ///     }
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    #[doc(alias = "acquire_arc")]
    pub fn acquire_owned(self: Arc<Self>) -> Acquire<Arc<Self>> {
        self.acquire_many_owned(1)
    }

    /// As [`acquire_many`](Self::acquire_many), with a permit that borrows nothing.
    ///
    /// ```
    /// use executor::{block_on_simple, sync::Semaphore};
    /// use std::sync::Arc;
    ///
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// let permit = block_on_simple(semaphore.clone().acquire_many_owned(2)).unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # drop(permit);
    /// ```
    pub fn acquire_many_owned(self: Arc<Self>, count: u32) -> Acquire<Arc<Self>> {
        Acquire {
            take: Take::new(self, count as usize),
            count,
        }
    }

    /// As [`try_acquire`](Self::try_acquire), with a permit that borrows nothing.
    ///
    /// ```
    /// use executor::sync::Semaphore;
    /// use std::sync::Arc;
    ///
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().try_acquire_owned().unwrap();
    /// assert!(semaphore.clone().try_acquire_owned().is_err());
    /// std::thread::spawn(|| drop(permit)).join().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    #[doc(alias = "try_acquire_arc")]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// As [`try_acquire_many`](Self::try_acquire_many), with a permit that borrows nothing.
    ///
    /// ```
    /// use executor::sync::Semaphore;
    /// use std::sync::Arc;
    ///
    /// let semaphore = Arc::new(Semaphore::new(3));
    /// assert!(semaphore.clone().try_acquire_many_owned(4).is_err());
    /// let permit = semaphore.try_acquire_many_owned(2).unwrap();
    /// assert_eq!(permit.semaphore().available_permits(), 1);
    /// ```
    pub fn try_acquire_many_owned(
        self: Arc<Self>,
        count: u32,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.permits.try_take(count as usize)?;
        Ok(Permit {
            semaphore: self,
            count,
        })
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("permits", &self.available_permits())
            .field("closed", &self.is_closed())
            .finish()
    }
}

// SAFETY: a reference is to the same semaphore, which outlives it and does not move meanwhile.
unsafe impl Home for &Semaphore {
    type Note = ();
    type Hold = ();

    #[inline]
    fn hold(&self, _: &Context<'_>) {}

    const WHAT: &'static &'static str = &"semaphore";

    #[inline]
    fn permits(&self) -> &Permits {
        &self.permits
    }
}

/// Of those who share one.
#[cfg(feature = "alloc")]
macro_rules! home {
    ($keeper:ty) => {
        // SAFETY: what it shares stays where it is as long as it lives.
        unsafe impl Home for $keeper {
            type Note = ();
            type Hold = ();

            #[inline]
            fn hold(&self, _: &Context<'_>) {}

            const WHAT: &'static &'static str = &"semaphore";

            fn permits(&self) -> &Permits {
                &self.permits
            }
        }
    };
}

#[cfg(feature = "alloc")]
home!(Arc<Semaphore>);
#[cfg(all(feature = "alloc", not(loom)))]
home!(Counted<Semaphore>);

#[cfg(all(feature = "alloc", not(loom)))]
impl Semaphore {
    /// As [`acquire_owned`](Self::acquire_owned), of one that is counted in another way.
    pub(crate) fn acquire_counted(this: Counted<Self>) -> Acquire<Counted<Self>> {
        Acquire {
            take: Take::new(this, 1),
            count: 1,
        }
    }
}

/// Future of [`Semaphore::acquire`] and its kin; `S` refers to the semaphore.
///
/// ```
/// use executor::sync::{Acquire, Semaphore};
/// use std::{pin::Pin, task::{Context, Waker}};
///
/// let semaphore = Semaphore::new(1);
/// let mut both: Pin<Box<Acquire<&Semaphore>>> = Box::pin(semaphore.acquire_many(2));
/// assert!(both.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
/// assert!(semaphore.try_acquire().is_err(), "it waits with what there is");
/// drop(both);
/// assert!(semaphore.try_acquire().is_ok());
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Acquire<S: Home> {
    take: Take<S>,
    count: u32,
}

impl<S: Home + Deref<Target = Semaphore>> Acquire<S> {
    #[inline]
    fn take(self: Pin<&mut Self>) -> Pin<&mut Take<S>> {
        // SAFETY: `take` is pinned with the whole, which has no `Drop`, and never moved out of it.
        unsafe { self.map_unchecked_mut(|this| &mut this.take) }
    }

    /// Polls it also if others should have their turn: after the first poll it has its place among those who wait.
    #[cfg(all(feature = "alloc", not(loom)))]
    pub(crate) fn poll_at_once(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Permit<S>, AcquireError>> {
        let taken = self.as_mut().take().poll_at_once(cx);
        taken.map(|taken| permit(taken, self.count))
    }
}

impl<S: Home + Deref<Target = Semaphore>> Future for Acquire<S> {
    type Output = Result<Permit<S>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = self.as_mut().take().poll(cx);
        taken.map(|taken| permit(taken, self.count))
    }
}

/// What came of it.
#[inline]
fn permit<S: Home + Deref<Target = Semaphore>>(
    taken: Result<(S, S::Hold), permits::Closed>,
    count: u32,
) -> Result<Permit<S>, AcquireError> {
    match taken {
        Ok((semaphore, _)) => Ok(Permit { semaphore, count }),
        Err(permits::Closed) => Err(AcquireError(())),
    }
}

/// Permits that were taken from a semaphore, to which `S` refers; dropped, they are given back.
///
/// ```
/// use executor::sync::{Permit, Semaphore};
/// use std::{ops::Deref, sync::Arc};
///
/// fn work<S: Deref<Target = Semaphore>>(permit: Permit<S>) {
///     assert_eq!(permit.semaphore().available_permits(), 0);
/// }
/// let semaphore = Arc::new(Semaphore::new(1));
/// work(semaphore.try_acquire().unwrap());
/// work(semaphore.clone().try_acquire_owned().unwrap());
/// assert_eq!(semaphore.available_permits(), 1);
/// ```
#[must_use = "a permit that is dropped is given back at once"]
#[derive(Debug)]
pub struct Permit<S: Deref<Target = Semaphore>> {
    semaphore: S,
    count: u32,
}

/// Permits of a semaphore that they borrow.
///
/// ```
/// use executor::sync::{Semaphore, SemaphorePermit};
///
/// struct Guest<'a>(SemaphorePermit<'a>);
///
/// let rooms = Semaphore::new(1);
/// let guest = Guest(rooms.try_acquire().unwrap());
/// assert_eq!(rooms.available_permits(), 0);
/// drop(guest);
/// assert_eq!(rooms.available_permits(), 1);
/// ```
pub type SemaphorePermit<'a> = Permit<&'a Semaphore>;

/// Permits that keep their semaphore, and borrow nothing.
///
/// ```
/// use executor::sync::{OwnedSemaphorePermit, Semaphore};
/// use std::sync::Arc;
///
/// struct Guest(OwnedSemaphorePermit);
///
/// let rooms = Arc::new(Semaphore::new(1));
/// let guest = Guest(rooms.clone().try_acquire_owned().unwrap());
/// assert_eq!(rooms.available_permits(), 0);
/// drop(guest);
/// assert_eq!(rooms.available_permits(), 1);
/// ```
#[cfg(feature = "alloc")]
pub type OwnedSemaphorePermit = Permit<Arc<Semaphore>>;

impl<S: Deref<Target = Semaphore>> Permit<S> {
    /// Drops it without giving it back: the semaphore has fewer from now on.
    ///
    /// ```
    /// let semaphore = executor::sync::Semaphore::new(3);
    /// semaphore.try_acquire().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    pub fn forget(mut self) {
        self.count = 0;
    }

    /// Joins another permit of the same semaphore to this.
    ///
    /// ```
    /// let semaphore = executor::sync::Semaphore::new(3);
    /// let mut permit = semaphore.try_acquire().unwrap();
    /// permit.merge(semaphore.try_acquire_many(2).unwrap());
    /// assert_eq!(permit.num_permits(), 3);
    /// drop(permit);
    /// assert_eq!(semaphore.available_permits(), 3);
    /// ```
    ///
    /// # Panics
    /// If it is of another semaphore, or together there are more than fit into a `u32`.
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            ptr::eq(&raw const *self.semaphore, &raw const *other.semaphore),
            "permits of two semaphores were to become one"
        );
        let sum = self.count.checked_add(other.count);
        self.count = sum.expect("a permit cannot be of so many");
        other.count = 0;
    }

    /// Splits so many off, for a permit of their own. None: it has not that many.
    ///
    /// ```
    /// let semaphore = executor::sync::Semaphore::new(3);
    /// let mut permit = semaphore.try_acquire_many(3).unwrap();
    /// drop(permit.split(2).unwrap());
    /// assert_eq!((permit.num_permits(), semaphore.available_permits()), (1, 2));
    /// assert!(permit.split(2).is_none());
    /// ```
    pub fn split(&mut self, count: usize) -> Option<Self>
    where
        S: Clone,
    {
        let count = u32::try_from(count).ok()?;
        self.count = self.count.checked_sub(count)?;
        Some(Self {
            semaphore: self.semaphore.clone(),
            count,
        })
    }

    /// How many permits it stands for.
    ///
    /// ```
    /// let semaphore = executor::sync::Semaphore::new(3);
    /// let permit = semaphore.try_acquire_many(2).unwrap();
    /// assert_eq!(permit.num_permits(), 2);
    /// ```
    pub fn num_permits(&self) -> usize {
        self.count as usize
    }

    /// The semaphore that it is of.
    ///
    /// ```
    /// let semaphore = executor::sync::Semaphore::new(3);
    /// let permit = semaphore.try_acquire().unwrap();
    /// assert_eq!(permit.semaphore().available_permits(), 2);
    /// ```
    pub fn semaphore(&self) -> &S {
        &self.semaphore
    }
}

impl<S: Deref<Target = Semaphore>> Drop for Permit<S> {
    #[inline]
    fn drop(&mut self) {
        if self.count != 0 {
            self.semaphore.permits.give(self.count as usize);
        }
    }
}

/// The semaphore was closed.
///
/// ```
/// use executor::{block_on_simple, sync::{AcquireError, Semaphore}};
///
/// let semaphore = Semaphore::new(1);
/// semaphore.close();
/// let error: AcquireError = block_on_simple(semaphore.acquire()).unwrap_err();
/// assert_eq!(error.to_string(), "the semaphore is closed");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcquireError(());

/// Why a permit could not be taken at once.
///
/// ```
/// use executor::sync::{Semaphore, TryAcquireError};
///
/// let semaphore = Semaphore::new(0);
/// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
/// semaphore.close();
/// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryAcquireError {
    /// The semaphore was closed.
    Closed,
    /// There are not enough permits, or others wait for them.
    NoPermits,
}

/// Why a permit was not taken in time.
///
/// ```
/// use executor::{Runtime, sync::{AcquireTimeoutError, Semaphore}, time::Duration};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let (semaphore, limit) = (Semaphore::new(0), Duration::from_millis(1));
///     let error = semaphore.acquire_timeout(limit).await.unwrap_err();
///     assert_eq!(error, AcquireTimeoutError::Elapsed);
///     semaphore.close();
///     let error = semaphore.acquire_timeout(limit).await.unwrap_err();
///     assert_eq!(error, AcquireTimeoutError::Closed);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
#[cfg(all(feature = "alloc", not(loom)))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcquireTimeoutError {
    /// The semaphore was closed.
    Closed,
    /// The time was over.
    Elapsed,
}

impl From<Refusal> for TryAcquireError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Few => Self::NoPermits,
            Refusal::Closed => Self::Closed,
        }
    }
}

#[cfg(all(feature = "alloc", not(loom)))]
impl From<AcquireError> for AcquireTimeoutError {
    fn from(_: AcquireError) -> Self {
        Self::Closed
    }
}

#[cfg(all(feature = "alloc", not(loom)))]
impl From<TryAcquireError> for AcquireTimeoutError {
    fn from(error: TryAcquireError) -> Self {
        match error {
            TryAcquireError::Closed => Self::Closed,
            TryAcquireError::NoPermits => Self::Elapsed,
        }
    }
}

const CLOSED: &str = "the semaphore is closed";

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CLOSED)
    }
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => CLOSED,
            Self::NoPermits => "the semaphore has not enough permits",
        })
    }
}

#[cfg(all(feature = "alloc", not(loom)))]
impl fmt::Display for AcquireTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => CLOSED,
            Self::Elapsed => "no permit was to be had in time",
        })
    }
}

impl error::Error for AcquireError {}
impl error::Error for TryAcquireError {}
#[cfg(all(feature = "alloc", not(loom)))]
impl error::Error for AcquireTimeoutError {}
