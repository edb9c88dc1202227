//! Two functions side by side.

use super::{
    job::{Ended, Job, Work},
    scope,
};
use crate::task::{self, cell::Header};
use hal::unwind;

/// Where a call finds itself.
pub(super) enum Here<'a> {
    /// In a task, which others can help.
    Task(&'a Header),
    /// In a `block_on` that only visits its runtime.
    Visit,
    /// Where nobody helps: outside a runtime, or where it must not wait for anybody.
    Alone,
}

impl Here<'_> {
    #[inline]
    pub(super) fn now() -> Self {
        match task::waker::current_header() {
            _ if !task::may_wait() => Self::Alone,
            Some(task) => Self::Task(task),
            None if task::waker::visited().is_some() => Self::Visit,
            None => Self::Alone,
        }
    }
}

/// Calls two functions side by side, and returns what they returned.
///
/// The first is called here, while the second is offered to other cores. If none has taken it when the
/// first returns, it is called here, too; so this is cheap enough for small functions. If the first
/// waits, the second becomes a task at once: the first may wait for something that the second does.
///
/// Outside a runtime, and under a guard or a lock, one is called after the other.
///
/// ```
/// # use executor::{Runtime, parallel::join};
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() <= 100 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = join(|| sum(left), || sum(right));
///     left + right
/// }
/// # let runtime = Runtime::builder().workers(2).build().unwrap();
/// # runtime.block_on(async {
/// let numbers: Vec<u64> = (1..=1000).collect();
/// assert_eq!(sum(&numbers), 500_500);
/// # });
/// ```
///
/// # Panics
/// If one of the functions does, when both have ended; if the stack of one was too small; and if there is
/// no memory for a stack to go on with while the second is waited for, or for a task of it when the first waits.
#[track_caller]
pub fn join<A, B>(a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B)
where
    B: Send,
{
    match Here::now() {
        Here::Task(task) => join_in_task(task, a, b),
        Here::Visit => join_in_scope(a, b),
        Here::Alone => both(unwind::catch(a), || unwind::catch(b)),
    }
}

#[track_caller]
#[inline]
fn join_in_task<A, B>(task: &Header, a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B)
where
    B: Send,
{
    let job = Job::new(Function(b), true);
    // SAFETY: it stays here, and `end` comes next: nothing in between returns or unwinds.
    let (first, second) = unsafe {
        job.begin(task);
        (unwind::catch(a), job.end())
    };
    both(first, || match second {
        Ended::Back(Function(b)) => unwind::catch(b),
        Ended::Done(result) => result,
    })
}

/// The second always ends, too; then the panic of the first goes on, or its own.
#[inline]
fn both<A, B>(
    first: Result<A, unwind::Payload>,
    second: impl FnOnce() -> Result<B, unwind::Payload>,
) -> (A, B) {
    match (first, second()) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(panic), _) | (_, Err(panic)) => unwind::resume(panic),
    }
}

#[track_caller]
fn join_in_scope<A, B: Send>(a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B) {
    let mut second = None;
    let first = scope(|scope| {
        scope.spawn(|| second = Some(b()));
        a()
    });
    let second = second.expect("what is spawned runs, and a panic has gone on");
    (first, second)
}

struct Function<F>(F);

impl<R: Send, F: FnOnce() -> R + Send> Work for Function<F> {
    type Output = R;

    fn run(self) -> R {
        (self.0)()
    }
}
