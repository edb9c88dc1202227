//! What `select!` becomes: a list of arms, as a type, and the future that polls them.
//!
//! Public for the macro only. An [`Arm`] has the next in it, and so has what comes out of it, [`Won`]:
//! any number of arms of any types, with no allocation and no call that is not known when it is compiled.

use super::random;
use crate::polite::{hold, proceed};
use core::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, ready},
};

/// Arms, by number.
pub trait Arms {
    /// What the one that won has, and which that is.
    type Output;

    /// Polls one of them. None: it is ready, but not with what its pattern wants.
    fn poll_arm(
        self: Pin<&mut Self>,
        number: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Self::Output>>;
}

/// An arm, and those after it.
pub struct Arm<F, M, R> {
    future: F,
    /// Gives back what its pattern matches.
    matches: M,
    rest: R,
}

impl<F: Future, M: Fn(F::Output) -> Option<F::Output>, R> Arm<F, M, R> {
    #[inline]
    pub fn new<I: IntoFuture<IntoFuture = F, Output = F::Output>>(
        future: I,
        matches: M,
        rest: R,
    ) -> Self {
        Self {
            future: future.into_future(),
            matches,
            rest,
        }
    }
}

/// No more arms.
pub struct End;

/// The output of this arm, or of one after it.
pub enum Won<T, R> {
    This(T),
    Later(R),
}

/// There is none.
pub enum Never {}

impl<F: Future, M: Fn(F::Output) -> Option<F::Output>, R: Arms> Arms for Arm<F, M, R> {
    type Output = Won<F::Output, R::Output>;

    #[inline]
    fn poll_arm(
        self: Pin<&mut Self>,
        number: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Self::Output>> {
        // SAFETY: 1. neither `future` nor `rest` is ever moved out of a pinned `Arm`; 2. it has no `Drop`, and
        // is not packed; 3. it is `Unpin` only if both are.
        let (future, rest, matches) = unsafe {
            let this = self.get_unchecked_mut();
            (
                Pin::new_unchecked(&mut this.future),
                Pin::new_unchecked(&mut this.rest),
                &this.matches,
            )
        };
        if number == 0 {
            let output = matches(ready!(future.poll(cx)));
            return Poll::Ready(output.map(Won::This));
        }
        let won = ready!(rest.poll_arm(number - 1, cx));
        Poll::Ready(won.map(Won::Later))
    }
}

impl Arms for End {
    type Output = Never;

    #[inline]
    fn poll_arm(self: Pin<&mut Self>, _: usize, _: &mut Context<'_>) -> Poll<Option<Never>> {
        // No arm has such a number.
        Poll::Pending
    }
}

/// What is taken if no arm is ready.
pub trait Otherwise {
    /// There is such a thing.
    const EXISTS: bool;
    /// Nobody waits for it.
    const AT_ONCE: bool;

    fn poll_otherwise(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
}

/// Neither `default` nor `timeout`.
pub struct Wait;

impl Otherwise for Wait {
    const EXISTS: bool = false;
    const AT_ONCE: bool = false;

    #[inline]
    fn poll_otherwise(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// `default`.
pub struct AtOnce;

impl Otherwise for AtOnce {
    const EXISTS: bool = true;
    const AT_ONCE: bool = true;

    #[inline]
    fn poll_otherwise(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// `timeout`.
#[cfg(feature = "alloc")]
impl Otherwise for crate::time::Sleep {
    const EXISTS: bool = true;
    const AT_ONCE: bool = false;

    fn poll_otherwise(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx)
    }
}

/// How a `select!` ends.
pub enum Outcome<W> {
    /// By one of its arms.
    Arm(W),
    /// By `default` or `timeout`.
    Otherwise,
    /// No arm is left.
    Disabled,
}

/// The future that a `select!` awaits: `COUNT` arms, polled from the first on or from a random one on.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Select<const BIASED: bool, const HAS_ELSE: bool, const COUNT: usize, A, O> {
    /// Which are polled.
    enabled: [bool; COUNT],
    arms: A,
    otherwise: O,
}

impl<const BIASED: bool, const HAS_ELSE: bool, const COUNT: usize, A, O>
    Select<BIASED, HAS_ELSE, COUNT, A, O>
{
    #[inline]
    pub fn new(enabled: [bool; COUNT], arms: A, otherwise: O) -> Self {
        Self {
            enabled,
            arms,
            otherwise,
        }
    }
}

impl<const BIASED: bool, const HAS_ELSE: bool, const COUNT: usize, A: Arms, O: Otherwise> Future
    for Select<BIASED, HAS_ELSE, COUNT, A, O>
{
    type Output = Outcome<A::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: as in `Arm::poll_arm`.
        let (arms, otherwise, enabled) = unsafe {
            let this = self.get_unchecked_mut();
            (
                Pin::new_unchecked(&mut this.arms),
                Pin::new_unchecked(&mut this.otherwise),
                &mut this.enabled,
            )
        };
        // It gives way as a whole, before it looks: else an arm that gave way would lose to another that is
        // ready too, or to a time limit. And never if it has to say what is ready now.
        if !O::AT_ONCE {
            ready!(proceed(cx));
        }
        let held = hold(O::AT_ONCE);
        let won = poll_arms::<BIASED, COUNT, A>(arms, enabled, cx);
        drop(held);
        match won {
            Poll::Ready(Some(won)) => Poll::Ready(Outcome::Arm(won)),
            Poll::Ready(None) if HAS_ELSE || !O::EXISTS => Poll::Ready(Outcome::Disabled),
            _ => otherwise.poll_otherwise(cx).map(|()| Outcome::Otherwise),
        }
    }
}

/// Polls the arms that are enabled until one has won. None: there is none.
#[inline]
fn poll_arms<const BIASED: bool, const COUNT: usize, A: Arms>(
    mut arms: Pin<&mut A>,
    enabled: &mut [bool; COUNT],
    cx: &mut Context<'_>,
) -> Poll<Option<A::Output>> {
    let start = if BIASED || COUNT < 2 {
        0
    } else {
        random::below(COUNT)
    };
    let mut waits = false;
    for turn in 0..COUNT {
        let mut number = start + turn;
        if number >= COUNT {
            number -= COUNT;
        }
        if !enabled[number] {
            continue;
        }
        match arms.as_mut().poll_arm(number, cx) {
            Poll::Ready(Some(won)) => return Poll::Ready(Some(won)),
            Poll::Ready(None) => enabled[number] = false,
            Poll::Pending => waits = true,
        }
    }
    match waits {
        true => Poll::Pending,
        false => Poll::Ready(None),
    }
}

/// What the macro says if no arm is left and there is no `else`.
#[cold]
#[inline(never)]
#[track_caller]
pub fn all_disabled() -> ! {
    panic!("every arm of this `select!` is disabled, and it has no `else`")
}

/// What the macro says where it never comes: an output matched its pattern when it was polled, and does so still.
#[cold]
#[inline(never)]
#[track_caller]
pub fn not_here() -> ! {
    unreachable!("a pattern of `select!` matches now and then")
}
