//! The engine: goes through a piece, and shares it as long as others take of it.

use super::{
    input::Piece,
    job::{Ended, Job, Work},
    join::Here,
    scope,
};
use crate::task::waker;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use hal::{
    clock,
    sync::Lock,
    unwind::{self, Payload},
};

/// What is done with items.
pub(super) trait Fold<P: Piece>: Sync {
    /// What comes of a stretch of them.
    type Part: Send;
    /// Of none, at this place among all.
    fn begin(&self, at: usize) -> Self::Part;
    /// Of some more, which follow.
    fn go_on(&self, part: Self::Part, items: P) -> Self::Part;
    /// Of two stretches, of which one follows the other.
    fn join(&self, left: Self::Part, right: Self::Part) -> Self::Part;
}

/// Nanoseconds. What takes less is not worth sharing: making a task of it, waking a core for it and
/// waiting for that costs about as much.
const WORTH: u64 = 20_000;

/// While something is offered, a piece is gone through in so many stretches at least; after each comes a
/// look whether it was taken.
const LOOKS: usize = 16;

/// Does it with all items of a piece.
#[track_caller]
pub(super) fn fold_all<P: Piece, F: Fold<P>>(fold: &F, piece: P) -> F::Part {
    match Here::now() {
        Here::Alone => fold.go_on(fold.begin(0), piece),
        Here::Task(_) => in_task(fold, piece),
        Here::Visit => {
            let mut part = None;
            scope(|scope| scope.spawn(|| part = Some(in_task(fold, piece))));
            part.expect("what is spawned runs, and a panic has gone on")
        }
    }
}

fn in_task<P: Piece, F: Fold<P>>(fold: &F, piece: P) -> F::Part {
    let call = Call {
        fold,
        is_stopped: AtomicBool::new(false),
        panic: Lock::new(None),
    };
    let part = call.work_on(piece, 0);
    match (part, call.panic.into_inner()) {
        (Some(part), None) => part,
        (_, Some(panic)) => unwind::resume(panic),
        (None, None) => unreachable!("what stops a piece is a panic"),
    }
}

/// One call, which all that work for it share.
struct Call<'a, F> {
    fold: &'a F,
    /// Somebody has panicked: the rest is in vain.
    is_stopped: AtomicBool,
    /// Of the first that did.
    panic: Lock<Option<Payload>>,
}

impl<F> Call<'_, F> {
    /// Calls it; None also if it panics.
    #[inline]
    fn guarded<R>(&self, function: impl FnOnce() -> Option<R>) -> Option<R> {
        unwind::catch(function).unwrap_or_else(|panic| self.keep(panic))
    }

    #[cold]
    fn keep<R>(&self, panic: Payload) -> Option<R> {
        self.is_stopped.store(true, Relaxed);
        // Dropped after the lock: it may be anything.
        let _unwanted = {
            let mut first = self.panic.lock();
            match *first {
                None => first.replace(panic),
                Some(_) => Some(panic),
            }
        };
        None
    }

    /// Works on a piece that begins at this place. None: somebody has panicked.
    fn work_on<P: Piece>(&self, mut rest: P, mut at: usize) -> Option<F::Part>
    where
        F: Fold<P>,
    {
        let task = waker::current_header().expect("what works on pieces is a task");
        let mut part = self.guarded(|| Some(self.fold.begin(at)))?;
        loop {
            let len = rest.len();
            if len < 2 {
                return self.guarded(|| Some(self.fold.go_on(part, rest)));
            }
            let count = len.div_ceil(2);
            let front = rest.take_front(count);
            let began = clock::now();
            let job = Job::new(
                Half {
                    call: self,
                    piece: rest,
                    at: at + count,
                },
                false,
            );
            // SAFETY: it stays here, and `end` comes next: nothing in between returns or unwinds.
            let (left, half) = unsafe {
                job.begin(task);
                let left = self.guarded(|| self.go_through(part, front, at, &job));
                (left, job.end())
            };
            match (left, half) {
                (Some(left), Ended::Back(half)) => {
                    (part, rest, at) = (left, half.piece, half.at);
                    part = self.guarded(|| self.go_on_alone(part, &mut rest, &mut at, began))?;
                }
                (Some(left), Ended::Done(Ok(Some(right)))) => {
                    return self.guarded(|| Some(self.fold.join(left, right)));
                }
                (left, Ended::Done(Err(panic))) => {
                    drop(left);
                    return self.keep(panic);
                }
                // Somebody has panicked. Destructors of items and of results may, too.
                (left, half) => {
                    return self.guarded(|| {
                        drop((left, half));
                        None
                    });
                }
            }
        }
    }

    /// Goes through a piece while the half behind it is offered.
    #[inline]
    fn go_through<P: Piece>(
        &self,
        mut part: F::Part,
        mut piece: P,
        mut at: usize,
        offered: &Job<Half<'_, P, F>>,
    ) -> Option<F::Part>
    where
        F: Fold<P>,
    {
        let most = (piece.len() / LOOKS).max(1);
        // Who takes the half does so soon, if somebody is idle; so the looks are close together at first.
        let mut stretch = 1;
        while piece.len() > 0 {
            if self.is_stopped.load(Relaxed) {
                return None;
            }
            if offered.is_taken() && piece.len() > 1 {
                // There may be more who are idle.
                let rest = self.work_on(piece, at)?;
                return Some(self.fold.join(part, rest));
            }
            let count = stretch.min(piece.len());
            part = self.fold.go_on(part, piece.take_front(count));
            at += count;
            stretch = (stretch * 2).min(most);
        }
        Some(part)
    }

    /// If a half took less than is worth sharing, goes on with the rest until that much is done.
    #[inline]
    fn go_on_alone<P: Piece>(
        &self,
        mut part: F::Part,
        rest: &mut P,
        at: &mut usize,
        began: u64,
    ) -> Option<F::Part>
    where
        F: Fold<P>,
    {
        let mut stretch = 1;
        while rest.len() > 0 && clock::now().saturating_sub(began) < WORTH {
            if self.is_stopped.load(Relaxed) {
                return None;
            }
            let count = stretch.min(rest.len());
            part = self.fold.go_on(part, rest.take_front(count));
            *at += count;
            stretch *= 2;
        }
        Some(part)
    }
}

/// The second half of a piece, which is offered.
struct Half<'a, P, F> {
    call: &'a Call<'a, F>,
    piece: P,
    at: usize,
}

impl<P: Piece, F: Fold<P>> Work for Half<'_, P, F> {
    type Output = Option<F::Part>;

    fn run(self) -> Option<F::Part> {
        self.call.work_on(self.piece, self.at)
    }
}
