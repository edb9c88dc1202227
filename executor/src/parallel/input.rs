//! What can be worked on in pieces: slices, vectors, ranges.
//!
//! [`Input`] is what callers give, [`Piece`] a stretch of it. A piece is cut where
//! the engine says, and gone through by the plain iterator of what it is, so
//! that the compiler sees the loop that it knows.

use alloc::{boxed::Box, vec::Vec};
use core::{
    marker::PhantomData,
    mem::{self, ManuallyDrop},
    ops::Range,
    ptr::NonNull,
};

/// What the functions of [`parallel`](super) work on: `&[T]`, `&mut [T]`, `Vec<T>` and references to
/// it, arrays, and ranges of numbers (`a..b`).
///
/// ```
/// # use executor::{Runtime, parallel::par_map};
/// # Runtime::builder().workers(2).build().unwrap().block_on(async {
/// let mut words = vec![String::from("one"), String::from("three")];
/// assert_eq!(par_map(&words, |word| word.len()), [3, 5]);
/// par_map(&mut words, |word| word.push('!'));
/// assert_eq!(par_map(words, |word| word), ["one!", "three!"]);
/// assert_eq!(par_map(0..3, |number| number * number), [0, 1, 4]);
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be worked on in pieces",
    note = "give a slice, a vector or a reference to it, an array, or a range `a..b`; not an iterator"
)]
pub trait Input {
    /// What the function is called with.
    type Item;
    #[doc(hidden)]
    type Piece: Piece<Item = Self::Item>;
    /// What the pieces need, as long as there are any.
    #[doc(hidden)]
    type Keep;
    /// What the pieces need, and all of it, as one piece.
    #[doc(hidden)]
    fn whole(self, _: Token) -> (Self::Keep, Self::Piece);
}

/// Who cannot name it, in this module, can neither call nor write what takes it: pieces must not outlive what they need.
///
/// ```compile_fail,E0061
/// use executor::parallel::Input;
/// let (keep, piece) = vec![String::new()].whole();
/// ```
pub struct Token(pub(super) ());

/// A stretch of items in order. Nobody outside can name it, so nobody else makes such things: the engine
/// relies on there being as many items as it says.
pub trait Piece: Send {
    type Item;
    fn len(&self) -> usize;
    /// Cuts off the first `count`, of as many at least.
    fn take_front(&mut self, count: usize) -> Self;
    /// All that is left.
    fn items(self) -> impl Iterator<Item = Self::Item>;
}

impl<'a, T: Sync> Piece for &'a [T] {
    type Item = &'a T;

    #[inline]
    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    #[inline]
    fn take_front(&mut self, count: usize) -> Self {
        let (front, rest) = self.split_at(count);
        *self = rest;
        front
    }

    #[inline]
    fn items(self) -> impl Iterator<Item = &'a T> {
        self.iter()
    }
}

impl<'a, T: Send> Piece for &'a mut [T] {
    type Item = &'a mut T;

    #[inline]
    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    #[inline]
    fn take_front(&mut self, count: usize) -> Self {
        let (front, rest) = mem::take(self).split_at_mut(count);
        *self = rest;
        front
    }

    #[inline]
    fn items(self) -> impl Iterator<Item = &'a mut T> {
        self.iter_mut()
    }
}

/// Items of a vector, whose memory somebody else keeps. What is left of them is dropped with it.
pub struct Owned<T> {
    first: NonNull<T>,
    len: usize,
    items: PhantomData<T>,
}

// SAFETY: it owns its items, and nobody else touches them.
unsafe impl<T: Send> Send for Owned<T> {}

impl<T: Send> Piece for Owned<T> {
    type Item = T;

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn take_front(&mut self, count: usize) -> Self {
        assert!(count <= self.len, "there are not so many items");
        let front = Self {
            first: self.first,
            len: count,
            items: PhantomData,
        };
        // SAFETY: within the items, or behind the last.
        self.first = unsafe { self.first.add(count) };
        self.len -= count;
        front
    }

    #[inline]
    fn items(self) -> impl Iterator<Item = T> {
        OwnedItems {
            piece: ManuallyDrop::new(self),
            next: 0,
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: its own items, and this is the end of them.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.len).drop_in_place() };
    }
}

struct OwnedItems<T> {
    piece: ManuallyDrop<Owned<T>>,
    /// Those before it are somebody else's.
    next: usize,
}

impl<T> Iterator for OwnedItems<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.next == self.piece.len {
            return None;
        }
        // SAFETY: below the length, and given away once.
        let item = unsafe { self.piece.first.add(self.next).read() };
        self.next += 1;
        Some(item)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.piece.len - self.next;
        (left, Some(left))
    }
}

impl<T> Drop for OwnedItems<T> {
    fn drop(&mut self) {
        // SAFETY: what was not given away is its own.
        unsafe {
            let first = self.piece.first.add(self.next);
            let left = self.piece.len - self.next;
            NonNull::slice_from_raw_parts(first, left).drop_in_place();
        }
    }
}

impl<T: Send> Input for Vec<T> {
    type Item = T;
    type Piece = Owned<T>;
    type Keep = Vec<T>;

    fn whole(mut self, _: Token) -> (Vec<T>, Owned<T>) {
        let len = self.len();
        // SAFETY: the items are the piece's from here on, and the vector has its memory only.
        unsafe { self.set_len(0) };
        // From a pointer to all of the memory, not from a reference to no item.
        let first = NonNull::new(self.as_mut_ptr()).expect("a vector's pointer is not null");
        let items = PhantomData;
        (self, Owned { first, len, items })
    }
}

impl<T: Send> Input for Box<[T]> {
    type Item = T;
    type Piece = Owned<T>;
    type Keep = Vec<T>;

    fn whole(self, token: Token) -> (Vec<T>, Owned<T>) {
        self.into_vec().whole(token)
    }
}

impl<T: Send, const N: usize> Input for [T; N] {
    type Item = T;
    type Piece = Owned<T>;
    type Keep = Vec<T>;

    fn whole(self, token: Token) -> (Vec<T>, Owned<T>) {
        Vec::from(self).whole(token)
    }
}

impl<'a, T: Sync> Input for &'a [T] {
    type Item = &'a T;
    type Piece = Self;
    type Keep = ();

    fn whole(self, _: Token) -> ((), Self) {
        ((), self)
    }
}

impl<'a, T: Send> Input for &'a mut [T] {
    type Item = &'a mut T;
    type Piece = Self;
    type Keep = ();

    fn whole(self, _: Token) -> ((), Self) {
        ((), self)
    }
}

/// References to what derefs to a slice.
macro_rules! borrowed {
    ($([$($generic:tt)*] $kind:ty),*) => {$(
        impl<'a, T: Sync, $($generic)*> Input for &'a $kind {
            type Item = &'a T;
            type Piece = &'a [T];
            type Keep = ();

            fn whole(self, _: Token) -> ((), &'a [T]) {
                ((), self)
            }
        }

        impl<'a, T: Send, $($generic)*> Input for &'a mut $kind {
            type Item = &'a mut T;
            type Piece = &'a mut [T];
            type Keep = ();

            fn whole(self, _: Token) -> ((), &'a mut [T]) {
                ((), self)
            }
        }
    )*};
}

borrowed!([] Vec<T>, [] Box<[T]>, [const N: usize] [T; N]);

macro_rules! ranges {
    ($($number:ty),*) => {$(
        impl Piece for Range<$number> {
            type Item = $number;

            #[inline]
            fn len(&self) -> usize {
                let len = if self.is_empty() { 0 } else { self.end.abs_diff(self.start) };
                usize::try_from(len).expect("a range of more numbers than there are addresses")
            }

            #[inline]
            fn take_front(&mut self, count: usize) -> Self {
                // Not more than there are, so if this wraps, it comes back: -100_i8 + 200 is 100.
                let middle = self.start.wrapping_add(count as $number);
                let front = self.start..middle;
                self.start = middle;
                front
            }

            #[inline]
            fn items(self) -> impl Iterator<Item = $number> {
                self
            }
        }

        impl Input for Range<$number> {
            type Item = $number;
            type Piece = Self;
            type Keep = ();

            fn whole(self, _: Token) -> ((), Self) {
                ((), self)
            }
        }
    )*};
}

ranges!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);
