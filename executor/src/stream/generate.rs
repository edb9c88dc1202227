//! Streams from async code.
//!
//! [`Generate`] is the code's future, and beside it the slot through which its values pass. What the code
//! holds of the slot is a [`Giver`], whose lifetime is chosen by nobody: so it cannot leave the code, and the code is
//! in the same pinned place as the slot. The slot is touched only while that place is polled: by the code, which is
//! polled, and after it by whoever polls it. No lock, no allocation.

use core::{
    cell::UnsafeCell,
    fmt,
    future::Future,
    marker::{PhantomData, PhantomPinned},
    mem,
    pin::Pin,
    ptr::{self, NonNull},
    task::{Context, Poll, Waker},
};
use futures_core::{FusedStream, Stream};

/// A stream of what `code` gives away, which ends when that does.
///
/// The code runs within the polls of the stream: not before the first, and after a value was given
/// not until the next is asked for. It may wait for anything. Dropping the stream drops it where it is.
/// There is no allocation; the stream is pinned before it is polled (`pin!`, `Box::pin`).
///
/// ```
/// use executor::{Runtime, stream::{Stream, StreamNext, generate}, time::{Duration, sleep}};
/// use std::pin::pin;
///
/// fn countdown(from: u32) -> impl Stream<Item = u32> + Send {
///     generate(async move |mut out| {
///         for left in (1..=from).rev() {
///             out.give(left).await;
///             sleep(Duration::from_secs(1)).await;
///         }
///     })
/// }
///
/// # let runtime = Runtime::builder().workers(1).virtual_clock().build()?;
/// runtime.block_on(async {
///     let mut countdown = pin!(countdown(2));
///     assert_eq!(countdown.next().await, Some(2));
///     assert_eq!(countdown.next().await, Some(1));
///     assert_eq!(countdown.next().await, None);
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
///
/// The giver cannot leave the code:
///
/// ```compile_fail
/// use executor::stream::{Giver, generate};
///
/// let mut escaped = None;
/// let stream = generate(async |mut out: Giver<'_, u8>| escaped = Some(out));
/// ```
pub fn generate<T, C>(code: C) -> impl FusedStream<Item = T> + use<T, C>
where
    C: AsyncFnOnce(Giver<'_, T>),
{
    Generate::new(move |slot: SlotPointer<T>| async move {
        // SAFETY: this runs in the future beside that slot. Its lifetime is any to `code`.
        code(unsafe { slot.giver() }).await;
        None
    })
}

/// A stream of what `code` gives away, each as an `Ok`; if it fails, the error is the last.
///
/// ```
/// use executor::{block_on_simple, stream::{StreamNext, try_generate}};
/// use std::pin::pin;
///
/// let numbers = try_generate(async |mut out| {
///     for text in ["1", "2", "three", "4"] {
///         out.give(text.parse::<u8>()?).await;
///     }
///     Ok::<_, std::num::ParseIntError>(())
/// });
/// block_on_simple(async {
///     let mut numbers = pin!(numbers);
///     assert_eq!(numbers.next().await, Some(Ok(1)));
///     assert_eq!(numbers.next().await, Some(Ok(2)));
///     assert!(numbers.next().await.unwrap().is_err());
///     assert!(numbers.next().await.is_none());
/// });
/// ```
pub fn try_generate<T, E, C>(code: C) -> impl FusedStream<Item = Result<T, E>> + use<T, E, C>
where
    C: AsyncFnOnce(TryGiver<'_, T, E>) -> Result<(), E>,
{
    Generate::new(move |slot: SlotPointer<Result<T, E>>| async move {
        // SAFETY: as in `generate`.
        let out = TryGiver(unsafe { slot.giver() });
        let outcome = code(out).await;
        outcome.err().map(Err)
    })
}

/// Gives values away, in the code of a [`generate`].
///
/// ```
/// use executor::{block_on_simple, stream::{Giver, StreamNext, generate}};
/// use std::pin::pin;
///
/// async fn give_all(out: &mut Giver<'_, char>, text: &str) {
///     for letter in text.chars() {
///         out.give(letter).await;
///     }
/// }
/// let mut letters = pin!(generate(async |mut out| give_all(&mut out, "ab").await));
/// assert_eq!(block_on_simple(letters.next()), Some('a'));
/// assert_eq!(block_on_simple(letters.next()), Some('b'));
/// ```
pub struct Giver<'a, T> {
    slot: SlotPointer<T>,
    _slot: PhantomData<&'a Slot<T>>,
}

// SAFETY: what it points to is touched by whoever polls what it is in, and values are all that passes through it.
unsafe impl<T: Send> Send for Giver<'_, T> {}

impl<T> Giver<'_, T> {
    /// Gives a value to whoever asks for the next one, and waits until the one after that is asked for.
    ///
    /// The value is given away by the first poll. If the future is dropped after that, it is not taken back.
    ///
    /// ```
    /// use executor::{block_on_simple, stream::{StreamNext, generate}};
    /// use std::{cell::Cell, pin::pin};
    ///
    /// let given = Cell::new(0);
    /// let mut numbers = pin!(generate(async |mut out| {
    ///     out.give(1).await;
    ///     given.set(1);
    /// }));
    /// assert_eq!(block_on_simple(numbers.next()), Some(1));
    /// assert_eq!(given.get(), 0);
    /// assert_eq!(block_on_simple(numbers.next()), None);
    /// assert_eq!(given.get(), 1);
    /// ```
    #[inline]
    pub fn give(&mut self, value: T) -> Give<'_, T> {
        Give {
            value: Some(value),
            slot: self.slot,
            _giver: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Giver<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Giver").finish_non_exhaustive()
    }
}

/// Gives values away, in the code of a [`try_generate`].
///
/// ```
/// use executor::{block_on_simple, stream::{StreamNext, TryGiver, try_generate}};
/// use std::{num::ParseIntError, pin::pin};
///
/// async fn parse(out: &mut TryGiver<'_, u8, ParseIntError>, text: &str) -> Result<(), ParseIntError> {
///     out.give(text.parse()?).await;
///     Ok(())
/// }
/// let mut numbers = pin!(try_generate(async |mut out| parse(&mut out, "1").await));
/// assert_eq!(block_on_simple(numbers.next()), Some(Ok(1)));
/// ```
#[derive(Debug)]
pub struct TryGiver<'a, T, E>(Giver<'a, Result<T, E>>);

impl<T, E> TryGiver<'_, T, E> {
    /// Gives a value away, as an `Ok`; see [`Giver::give`].
    ///
    /// ```
    /// use executor::{block_on_simple, stream::{StreamNext, try_generate}};
    /// use std::pin::pin;
    ///
    /// let mut stream = pin!(try_generate(async |mut out| {
    ///     out.give(1).await;
    ///     Err("no more")
    /// }));
    /// assert_eq!(block_on_simple(stream.next()), Some(Ok(1)));
    /// assert_eq!(block_on_simple(stream.next()), Some(Err("no more")));
    /// ```
    #[inline]
    pub fn give(&mut self, value: T) -> Give<'_, Result<T, E>> {
        self.0.give(Ok(value))
    }
}

/// Future of [`Giver::give`].
///
/// ```
/// use executor::{block_on_simple, stream::{Give, Giver, StreamNext, generate}};
/// use std::pin::pin;
///
/// fn give_half<'a>(out: &'a mut Giver<'_, u8>, number: u8) -> Give<'a, u8> {
///     out.give(number / 2)
/// }
/// let mut stream = pin!(generate(async |mut out| give_half(&mut out, 4).await));
/// assert_eq!(block_on_simple(stream.next()), Some(2));
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Give<'a, T> {
    /// None: it is in the slot, or was taken from there.
    value: Option<T>,
    slot: SlotPointer<T>,
    _giver: PhantomData<&'a mut ()>,
}

// The value is not pinned.
impl<T> Unpin for Give<'_, T> {}
// SAFETY: as for `Giver`.
unsafe impl<T: Send> Send for Give<'_, T> {}

impl<T> Future for Give<'_, T> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the slot outlives it, by the giver's lifetime; it is polled within a poll of the stream, which
        // touches the slot before and after that only; nothing is called that comes back here.
        let slot = unsafe { &mut *self.slot.0.as_ref().0.get() };
        if slot.value.is_none() {
            match self.value.take() {
                None => return Poll::Ready(()),
                value => slot.value = value,
            }
        }
        slot.wait(cx.waker())
    }
}

/// Where a value is, between the code and whoever asks for it.
struct Slot<T>(UnsafeCell<Inside<T>>);

struct Inside<T> {
    value: Option<T>,
    /// The waker with which the stream is polled, to compare with.
    polled_by: (usize, usize),
    /// Whom to wake when the value was taken, if that is not who polls the stream.
    waits: Option<Waker>,
}

impl<T> Inside<T> {
    /// Somebody waits until it is empty. Who polls the stream polls the code too; but in the code may be something
    /// that polls only what was woken.
    #[inline]
    fn wait(&mut self, waker: &Waker) -> Poll<()> {
        if identity(waker) != self.polled_by {
            self.wait_elsewhere(waker);
        }
        Poll::Pending
    }

    #[cold]
    fn wait_elsewhere(&mut self, waker: &Waker) {
        match &mut self.waits {
            Some(waits) => waits.clone_from(waker),
            waits => *waits = Some(waker.clone()),
        }
    }
}

#[inline]
fn identity(waker: &Waker) -> (usize, usize) {
    (waker.data().addr(), ptr::from_ref(waker.vtable()).addr())
}

/// A slot, for the code that is beside it.
struct SlotPointer<T>(NonNull<Slot<T>>);

impl<T> Clone for SlotPointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for SlotPointer<T> {}

// SAFETY: as for `Giver`.
unsafe impl<T: Send> Send for SlotPointer<T> {}

impl<T> SlotPointer<T> {
    /// # Safety
    /// The slot outlives `'a`, and what has the giver is polled by nobody but the stream that has the slot.
    unsafe fn giver<'a>(self) -> Giver<'a, T> {
        Giver {
            slot: self,
            _slot: PhantomData,
        }
    }
}

/// The stream of [`generate`] and [`try_generate`].
struct Generate<T, M, F> {
    // Before the slot, as it is dropped before it.
    code: Code<T, M, F>,
    slot: Slot<T>,
    _pinned: PhantomPinned,
}

enum Code<T, M, F> {
    /// What makes the future, once the slot is where it stays.
    New(M),
    /// Pinned with the whole.
    Running(F),
    /// With what comes last.
    Ended(Option<T>),
}

impl<T, M, F> Generate<T, M, F>
where
    M: FnOnce(SlotPointer<T>) -> F,
    F: Future<Output = Option<T>>,
{
    fn new(make: M) -> Self {
        Self {
            code: Code::New(make),
            slot: Slot(UnsafeCell::new(Inside {
                value: None,
                polled_by: (0, 0),
                waits: None,
            })),
            _pinned: PhantomPinned,
        }
    }
}

impl<T, M, F> Stream for Generate<T, M, F>
where
    M: FnOnce(SlotPointer<T>) -> F,
    F: Future<Output = Option<T>>,
{
    type Item = T;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        // SAFETY: the slot is never moved, nor the future once it was polled: it is dropped where it is.
        let this = unsafe { self.get_unchecked_mut() };
        let slot = SlotPointer(NonNull::from(&this.slot));
        // SAFETY: the code touches it only while it is polled, below; this reference ends before that.
        let waits = unsafe {
            let inside = &mut *this.slot.0.get();
            inside.polled_by = identity(cx.waker());
            inside.waits.take()
        };
        if let Some(waits) = waits {
            waits.wake();
        }
        if matches!(this.code, Code::New(_))
            && let Code::New(make) = mem::replace(&mut this.code, Code::Ended(None))
        {
            this.code = Code::Running(make(slot));
        }
        if let Code::Running(future) = &mut this.code {
            // SAFETY: a part of what is pinned.
            if let Poll::Ready(last) = unsafe { Pin::new_unchecked(future) }.poll(cx) {
                this.code = Code::Ended(last);
            }
        }
        // SAFETY: as above.
        let value = unsafe { &mut *this.slot.0.get() }.value.take();
        match &mut this.code {
            _ if value.is_some() => Poll::Ready(value),
            Code::Ended(last) => Poll::Ready(last.take()),
            _ => Poll::Pending,
        }
    }
}

impl<T, M, F> FusedStream for Generate<T, M, F>
where
    M: FnOnce(SlotPointer<T>) -> F,
    F: Future<Output = Option<T>>,
{
    fn is_terminated(&self) -> bool {
        // SAFETY: nobody polls it: that takes it exclusively.
        let is_empty = unsafe { &*self.slot.0.get() }.value.is_none();
        is_empty && matches!(self.code, Code::Ended(None))
    }
}
