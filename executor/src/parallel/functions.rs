//! One function for all items of something.

use super::{
    input::{Input, Piece, Token},
    pieces::{Fold, fold_all},
};
use alloc::vec::Vec;
use core::{
    marker::PhantomData,
    mem,
    ptr::{self, NonNull},
};

/// Calls a function for each item, side by side, and returns what it returned, in the order of the items.
///
/// ```
/// # use executor::{Runtime, parallel::par_map};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let words = ["one", "two", "three"];
/// assert_eq!(par_map(&words, |word| word.len()), [3, 3, 5]);
/// assert_eq!(par_map(1..5, |number| number * number), [1, 4, 9, 16]);
/// # });
/// ```
///
/// # Panics
/// If the function does, see [the module](super); and as [`join`](super::join()).
#[track_caller]
pub fn par_map<I: Input, R: Send>(input: I, function: impl Fn(I::Item) -> R + Sync) -> Vec<R> {
    let (keep, piece) = input.whole(Token(()));
    let len = piece.len();
    let mut results = Vec::with_capacity(len);
    let map = Map {
        function,
        results: Room(NonNull::new(results.as_mut_ptr()).expect("a vector's pointer is not null")),
    };
    let written = fold_all(&map, piece);
    assert_eq!(written.len, len, "each item has a result");
    mem::forget(written);
    // SAFETY: all are written, and nobody else's any more.
    unsafe { results.set_len(len) };
    drop(keep);
    results
}

/// The items for which a function says yes, in their order.
///
/// ```
/// # use executor::{Runtime, parallel::par_filter};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let is_prime = |number: &i32| (2..*number).all(|other| number % other != 0);
/// assert_eq!(par_filter(2..20, is_prime), [2, 3, 5, 7, 11, 13, 17, 19]);
/// let words = vec![String::from("one"), String::from("three")];
/// assert_eq!(par_filter(words, |word| word.len() > 3), ["three"]);
/// # });
/// ```
///
/// # Panics
/// As [`par_map`].
#[track_caller]
pub fn par_filter<I: Input>(input: I, function: impl Fn(&I::Item) -> bool + Sync) -> Vec<I::Item>
where
    I::Item: Send,
{
    let (_keep, piece) = input.whole(Token(()));
    fold_all(&Filter(function), piece)
}

/// Makes one value of all items: `fold` adds an item to a value, `reduce` makes one of two.
///
/// Pieces of the items are folded side by side, each beginning with an `identity`, and what comes of them is reduced in
/// their order. How they are cut is not said. So the result is that of a plain
/// `fold` if the identity changes nothing and it makes no difference where parentheses are:
/// `reduce(a, reduce(b, c))` is `reduce(reduce(a, b), c)`, and to fold items into `a` is to reduce `a` and what they
/// fold to. The order may matter. (So sums of floating-point numbers may differ in the last
/// digits from one call to the next.)
///
/// ```
/// # use executor::{Runtime, parallel::par_reduce};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let numbers = [1, 2, 3, 4];
/// let sum = par_reduce(&numbers, || 0, |sum, number| sum + number, |a, b| a + b);
/// assert_eq!(sum, 10);
/// let text = par_reduce(1..5, String::new, |text, number| format!("{text}{number}"), |a, b| a + &b);
/// assert_eq!(text, "1234");
/// # });
/// ```
///
/// # Panics
/// As [`par_map`].
#[track_caller]
pub fn par_reduce<I: Input, R: Send>(
    input: I,
    identity: impl Fn() -> R + Sync,
    fold: impl Fn(R, I::Item) -> R + Sync,
    reduce: impl Fn(R, R) -> R + Sync,
) -> R {
    let (_keep, piece) = input.whole(Token(()));
    let fold = Reduce {
        identity,
        fold,
        reduce,
    };
    fold_all(&fold, piece)
}

/// Calls a function for each item, side by side, in no order.
///
/// ```
/// # use executor::{Runtime, parallel::par_for_each};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let mut numbers = [1, 2, 3, 4];
/// par_for_each(&mut numbers, |number| *number *= 10);
/// assert_eq!(numbers, [10, 20, 30, 40]);
/// # });
/// ```
///
/// # Panics
/// As [`par_map`].
#[track_caller]
pub fn par_for_each<I: Input>(input: I, function: impl Fn(I::Item) + Sync) {
    let (_keep, piece) = input.whole(Token(()));
    fold_all(&ForEach(function), piece);
}

struct Map<R, F> {
    function: F,
    results: Room<R>,
}

/// Memory for the results. Each is written once, by whoever has its item.
struct Room<R>(NonNull<R>);

// SAFETY: those who share it write to different places, and read none.
unsafe impl<R: Send> Sync for Room<R> {}

/// Results that were written, one after the other. Their owner: dropped, they are.
struct Written<R> {
    first: NonNull<R>,
    len: usize,
    results: PhantomData<R>,
}

// SAFETY: it owns its results, and nobody else touches them.
unsafe impl<R: Send> Send for Written<R> {}

impl<R> Drop for Written<R> {
    fn drop(&mut self) {
        // SAFETY: written, and its own.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.len).drop_in_place() };
    }
}

impl<P: Piece, R: Send, F: Fn(P::Item) -> R + Sync> Fold<P> for Map<R, F> {
    type Part = Written<R>;

    fn begin(&self, at: usize) -> Written<R> {
        Written {
            // SAFETY: there is room for as many results as items, and this is the place of one, or
            // behind the last.
            first: unsafe { self.results.0.add(at) },
            len: 0,
            results: PhantomData,
        }
    }

    #[inline]
    fn go_on(&self, mut part: Written<R>, items: P) -> Written<R> {
        for item in items.items() {
            let result = (self.function)(item);
            // SAFETY: the place of the item's result, and who has the item is the only one to write
            // there: a part begins at the place of its piece, and these items follow those that are in it.
            unsafe { part.first.add(part.len).write(result) };
            part.len += 1;
        }
        part
    }

    fn join(&self, mut left: Written<R>, right: Written<R>) -> Written<R> {
        // SAFETY: behind its last, within the room or at its end.
        let end = unsafe { left.first.add(left.len) };
        assert!(
            ptr::eq(end.as_ptr(), right.first.as_ptr()),
            "one follows the other"
        );
        left.len += right.len;
        mem::forget(right);
        left
    }
}

struct Filter<F>(F);

impl<P: Piece, F: Fn(&P::Item) -> bool + Sync> Fold<P> for Filter<F>
where
    P::Item: Send,
{
    type Part = Vec<P::Item>;

    fn begin(&self, _: usize) -> Self::Part {
        Vec::new()
    }

    #[inline]
    fn go_on(&self, mut part: Self::Part, items: P) -> Self::Part {
        part.extend(items.items().filter(|item| (self.0)(item)));
        part
    }

    fn join(&self, mut left: Self::Part, mut right: Self::Part) -> Self::Part {
        left.append(&mut right);
        left
    }
}

struct Reduce<I, F, R> {
    identity: I,
    fold: F,
    reduce: R,
}

impl<P, T, I, F, R> Fold<P> for Reduce<I, F, R>
where
    P: Piece,
    T: Send,
    I: Fn() -> T + Sync,
    F: Fn(T, P::Item) -> T + Sync,
    R: Fn(T, T) -> T + Sync,
{
    type Part = T;

    fn begin(&self, _: usize) -> T {
        (self.identity)()
    }

    #[inline]
    fn go_on(&self, part: T, items: P) -> T {
        items.items().fold(part, &self.fold)
    }

    fn join(&self, left: T, right: T) -> T {
        (self.reduce)(left, right)
    }
}

struct ForEach<F>(F);

impl<P: Piece, F: Fn(P::Item) + Sync> Fold<P> for ForEach<F> {
    type Part = ();

    fn begin(&self, _: usize) {}

    #[inline]
    fn go_on(&self, (): (), items: P) {
        items.items().for_each(&self.0);
    }

    fn join(&self, (): (), (): ()) {}
}
