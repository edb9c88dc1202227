//! Messages on their way from who sent them to whoever comes for them, in memory that was made before.

use alloc::boxed::Box;
use core::ptr::NonNull;

/// A message, or room for one.
pub struct Parcel<T> {
    value: Option<T>,
    next: Option<NonNull<Self>>,
}

impl<T> Parcel<T> {
    /// Room for one.
    pub fn new() -> Self {
        Self {
            value: None,
            next: None,
        }
    }
}

/// Messages, the oldest first. Whoever owns this owns all of them.
pub struct Parcels<T> {
    first: Option<NonNull<Parcel<T>>>,
    /// If there is a first, the last.
    last: Option<NonNull<Parcel<T>>>,
    len: usize,
}

impl<T> Parcels<T> {
    pub fn new() -> Self {
        Self {
            first: None,
            last: None,
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Puts in a message, behind all others.
    pub fn push(&mut self, mut parcel: Box<Parcel<T>>, value: T) {
        parcel.value = Some(value);
        parcel.next = None;
        let parcel = NonNull::from_mut(Box::leak(parcel));
        match self.first {
            None => self.first = Some(parcel),
            Some(_) => {
                let last = self.last.expect("there is a first");
                // SAFETY: it was leaked here, and is in the list, which is borrowed mutably.
                unsafe { (*last.as_ptr()).next = Some(parcel) };
            }
        }
        self.last = Some(parcel);
        self.len += 1;
    }

    /// Takes out the oldest, and what it was in.
    pub fn pop(&mut self) -> Option<(T, Box<Parcel<T>>)> {
        let first = self.first?;
        // SAFETY: it was leaked when it was put in, and is taken out here, once.
        let mut parcel = unsafe { Box::from_raw(first.as_ptr()) };
        self.first = parcel.next.take();
        self.len -= 1;
        let value = parcel.value.take().expect("a message was put in");
        Some((value, parcel))
    }

    /// Puts in a message behind all others, and takes out the oldest.
    pub fn exchange(&mut self, value: T) -> T {
        match self.pop() {
            None => value,
            Some((oldest, parcel)) => {
                self.push(parcel, value);
                oldest
            }
        }
    }
}

impl<T> Drop for Parcels<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Arc, vec::Vec};

    #[test]
    fn messages_come_out_in_order_and_none_is_left_behind() {
        let mut parcels = Parcels::new();
        assert_eq!(parcels.exchange(0), 0, "it was empty");
        let mut spare = Vec::new();
        for number in 0..10 {
            parcels.push(Box::new(Parcel::new()), number);
        }
        for number in 0..5 {
            assert_eq!(parcels.exchange(10 + number), number);
        }
        for number in 5..12 {
            let (value, parcel) = parcels.pop().expect("there are ten");
            assert_eq!(value, number);
            spare.push(parcel);
        }
        for parcel in spare {
            parcels.push(parcel, 99);
        }
        assert_eq!(parcels.len(), 10);
        assert_eq!(parcels.pop().map(|(value, _)| value), Some(12));

        let message = Arc::new(());
        let mut parcels = Parcels::new();
        for _ in 0..3 {
            parcels.push(Box::new(Parcel::new()), message.clone());
        }
        drop(parcels);
        assert_eq!(Arc::strong_count(&message), 1);
    }
}
