//! What `join!` and `try_join!` become: a list of futures, as a type, which turn into their outputs.
//!
//! Public for the macros only.

use super::done::MaybeDone;
use core::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

/// A list of futures.
pub trait Parts {
    /// Their outputs, as nested pairs.
    type Outputs;

    /// Polls one of them if it is not done. True: it is.
    fn poll_part(self: Pin<&mut Self>, number: usize, cx: &mut Context<'_>) -> bool;

    /// The outputs, once all are done.
    fn take(self: Pin<&mut Self>) -> Self::Outputs;
}

/// A list of futures whose outputs are results with this error.
pub trait TryParts<E> {
    /// What they succeed with, as nested pairs.
    type Outputs;

    /// Polls one of them if it is not done. True: it is.
    fn try_poll_part(self: Pin<&mut Self>, number: usize, cx: &mut Context<'_>) -> Result<bool, E>;

    /// The outputs, once all are done.
    fn try_take(self: Pin<&mut Self>) -> Self::Outputs;
}

/// A future, and those after it.
pub struct Part<F: Future, R> {
    future: MaybeDone<F>,
    rest: R,
}

impl<F: Future, R> Part<F, R> {
    #[inline]
    pub fn new<I: IntoFuture<IntoFuture = F, Output = F::Output>>(future: I, rest: R) -> Self {
        Self {
            future: MaybeDone::new(future.into_future()),
            rest,
        }
    }

    #[inline]
    fn project(self: Pin<&mut Self>) -> (Pin<&mut MaybeDone<F>>, Pin<&mut R>) {
        // SAFETY: 1. neither field is ever moved out of a pinned `Part`; 2. it has no `Drop`, and is not
        // packed; 3. it is `Unpin` only if both fields are.
        unsafe {
            let this = self.get_unchecked_mut();
            (
                Pin::new_unchecked(&mut this.future),
                Pin::new_unchecked(&mut this.rest),
            )
        }
    }
}

/// No more futures.
pub struct End;

impl<F: Future, R: Parts> Parts for Part<F, R> {
    type Outputs = (F::Output, R::Outputs);

    #[inline]
    fn poll_part(self: Pin<&mut Self>, number: usize, cx: &mut Context<'_>) -> bool {
        let (future, rest) = self.project();
        match number {
            0 => future.poll_done(cx),
            _ => rest.poll_part(number - 1, cx),
        }
    }

    #[inline]
    fn take(self: Pin<&mut Self>) -> Self::Outputs {
        let (future, rest) = self.project();
        (future.take(), rest.take())
    }
}

impl Parts for End {
    type Outputs = End;

    #[inline]
    fn poll_part(self: Pin<&mut Self>, _: usize, _: &mut Context<'_>) -> bool {
        true
    }

    #[inline]
    fn take(self: Pin<&mut Self>) -> End {
        End
    }
}

impl<T, E, F: Future<Output = Result<T, E>>, R: TryParts<E>> TryParts<E> for Part<F, R> {
    type Outputs = (T, R::Outputs);

    #[inline]
    fn try_poll_part(self: Pin<&mut Self>, number: usize, cx: &mut Context<'_>) -> Result<bool, E> {
        let (future, rest) = self.project();
        match number {
            0 => future.try_poll_done(cx),
            _ => rest.try_poll_part(number - 1, cx),
        }
    }

    #[inline]
    fn try_take(self: Pin<&mut Self>) -> Self::Outputs {
        let (future, rest) = self.project();
        (future.take_ok(), rest.try_take())
    }
}

impl<E> TryParts<E> for End {
    type Outputs = End;

    #[inline]
    fn try_poll_part(self: Pin<&mut Self>, _: usize, _: &mut Context<'_>) -> Result<bool, E> {
        Ok(true)
    }

    #[inline]
    fn try_take(self: Pin<&mut Self>) -> End {
        End
    }
}

/// Which of `COUNT` is polled first: another each time, unless it is `BIASED`.
struct Turn<const BIASED: bool, const COUNT: usize>(usize);

impl<const BIASED: bool, const COUNT: usize> Turn<BIASED, COUNT> {
    /// All their numbers, from the first of this turn on.
    #[inline]
    fn next(&mut self) -> impl Iterator<Item = usize> + use<BIASED, COUNT> {
        let start = if BIASED { 0 } else { self.0 };
        if !BIASED {
            self.0 = if start + 1 < COUNT { start + 1 } else { 0 };
        }
        (start..COUNT).chain(0..start)
    }
}

/// The future that a `join!` awaits.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Join<const BIASED: bool, const COUNT: usize, P> {
    turn: Turn<BIASED, COUNT>,
    parts: P,
}

impl<const BIASED: bool, const COUNT: usize, P: Parts> Join<BIASED, COUNT, P> {
    /// The array says how many there are.
    #[inline]
    pub fn new(_: [(); COUNT], parts: P) -> Self {
        Self {
            turn: Turn(0),
            parts,
        }
    }
}

impl<const BIASED: bool, const COUNT: usize, P: Parts> Future for Join<BIASED, COUNT, P> {
    type Output = P::Outputs;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<P::Outputs> {
        // SAFETY: as in `Part::project`.
        let (mut parts, turn) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.parts), &mut this.turn)
        };
        let mut are_done = true;
        for number in turn.next() {
            are_done &= parts.as_mut().poll_part(number, cx);
        }
        match are_done {
            true => Poll::Ready(parts.take()),
            false => Poll::Pending,
        }
    }
}

/// The future that a `try_join!` awaits.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct TryJoin<const BIASED: bool, const COUNT: usize, P, E> {
    turn: Turn<BIASED, COUNT>,
    parts: P,
    _error: PhantomData<fn() -> E>,
}

impl<const BIASED: bool, const COUNT: usize, E, P: TryParts<E>> TryJoin<BIASED, COUNT, P, E> {
    /// The array says how many there are.
    #[inline]
    pub fn new(_: [(); COUNT], parts: P) -> Self {
        Self {
            turn: Turn(0),
            parts,
            _error: PhantomData,
        }
    }
}

impl<const BIASED: bool, const COUNT: usize, E, P: TryParts<E>> Future
    for TryJoin<BIASED, COUNT, P, E>
{
    type Output = Result<P::Outputs, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: as in `Part::project`.
        let (mut parts, turn) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.parts), &mut this.turn)
        };
        let mut are_done = true;
        for number in turn.next() {
            match parts.as_mut().try_poll_part(number, cx) {
                Ok(is_done) => are_done &= is_done,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        match are_done {
            true => Poll::Ready(Ok(parts.try_take())),
            false => Poll::Pending,
        }
    }
}
