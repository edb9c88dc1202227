//! One value's way from a sender to a receiver: the word, and what each of its bits allows.
//!
//! | what | whose it is |
//! |---|---|
//! | the value | the sender's until `DONE`; from then on the receiver's, if `VALUE` says that there is one |
//! | the receiver's waker | the receiver's while `RECEIVER_WAITS` is clear; else that of who clears it |
//! | the sender's waker | the sender's while `SENDER_WAITS` is clear; else that of who clears it |
//! | the memory | of who comes second to say that he is gone |
//!
//! The sender ends in one step, with `DONE`. If a waker is to be taken, it does so between that step and
//! the one that says `SENDER_GONE`; if none is, both are one step, and it is the last time that the sender
//! touches the memory. The receiver does the same with `CLOSED` and `RECEIVER_GONE`. Each
//! sees in its own step what the other has done: a waker is left before the other's end, and then taken by it, or after, and
//! then its owner takes it back; the bit is set for nothing then. So whoever waits is woken, and each waker is dropped once.

use crate::{
    memory::{NoMemory, try_box},
    shim::{UnsafeCell, discard, ordering, wake},
    sync::clone_waker,
};
use alloc::boxed::Box;
use core::{mem::MaybeUninit, ptr::NonNull, task::Waker};
use hal::sync::atomic::{AtomicU8, Ordering::*};

/// The receiver's waker is in its place.
pub const RECEIVER_WAITS: u8 = 1;
/// The sender's waker is in its place.
pub const SENDER_WAITS: u8 = 2;
/// The sender has sent, or was dropped.
pub const DONE: u8 = 4;
/// It has sent. Comes with `DONE`.
pub const VALUE: u8 = 8;
/// The receiver wants nothing any more, unless it was sent before.
pub const CLOSED: u8 = 16;
/// The sender touches nothing any more.
const SENDER_GONE: u8 = 32;
/// The receiver touches nothing any more.
const RECEIVER_GONE: u8 = 64;

/// What both ends share.
pub struct Shared<T> {
    word: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
    receiver: Place,
    sender: Place,
    /// Tells loom that it is to be freed.
    #[cfg(loom)]
    _freed: loom::alloc::Track<()>,
}

/// Where the waker of one end is left for the other.
struct Place(UnsafeCell<MaybeUninit<Waker>>);

impl Place {
    /// # Safety
    /// The place is the caller's, and there is nothing in it.
    unsafe fn put(&self, waker: Waker) {
        // SAFETY: nobody else is at it.
        self.0.with_mut(|place| unsafe { (*place).write(waker) });
    }

    /// # Safety
    /// The place is the caller's, and there is a waker in it, which is taken.
    unsafe fn take(&self) -> Waker {
        // SAFETY: nobody else is at it, and it is not used again.
        self.0
            .with_mut(|place| unsafe { (*place).assume_init_read() })
    }
}

/// The wakers that an end has found in their places.
struct Taken {
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

impl<T> Shared<T> {
    /// For a sender and a receiver; the second of them to leave frees it.
    pub fn try_new() -> Result<NonNull<Self>, NoMemory> {
        let place = || Place(UnsafeCell::new(MaybeUninit::uninit()));
        let shared = try_box(Self {
            word: AtomicU8::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
            receiver: place(),
            sender: place(),
            #[cfg(loom)]
            _freed: loom::alloc::Track::new(()),
        });
        let shared = shared.map_err(|_| NoMemory)?;
        Ok(NonNull::from(Box::leak(shared)))
    }

    /// The word.
    #[inline]
    pub fn word(&self) -> u8 {
        // Acquire pairs with the releases in `finish`, `close` and `release`: who sees that the other has ended
        // sees what it left.
        let order = ordering!(Acquire unless seeded = "oneshot_look_relaxed");
        self.word.load(order)
    }

    /// Leaves the receiver's waker to be woken at the sender's end. False: that has come.
    ///
    /// # Safety
    /// By the receiver.
    pub unsafe fn wait_to_receive(&self, waker: &Waker) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.wait(&self.receiver, RECEIVER_WAITS, DONE, waker) }
    }

    /// Leaves the sender's waker to be woken when the receiver closes. False: it has.
    ///
    /// # Safety
    /// By the sender.
    pub unsafe fn wait_for_close(&self, waker: &Waker) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.wait(&self.sender, SENDER_WAITS, CLOSED, waker) }
    }

    /// # Safety
    /// By the end whose place and bit these are; `over` is the other's end.
    unsafe fn wait(&self, place: &Place, waits: u8, over: u8, waker: &Waker) -> bool {
        let word = self.word();
        if word & over != 0 {
            return false;
        }
        let mut own = None;
        if word & waits != 0 {
            // Acquire pairs with the release of the other's end.
            let before = if cfg!(seeded = "oneshot_place_not_taken_back") {
                word
            } else {
                self.word.fetch_and(!waits, Acquire)
            };
            if before & over != 0 {
                // The waker was there before that end, so the other one has it.
                return false;
            }
            // SAFETY: the bit was set and no end has come; it was cleared by this.
            own = Some(unsafe { place.take() });
        }
        let waker = match own {
            Some(own) if own.will_wake(waker) => own,
            // Foreign code; and the old one is dropped after it.
            _ => clone_waker(waker, &"oneshot"),
        };
        // SAFETY: the bit is clear, so it is this end's, and nothing is in it.
        unsafe { place.put(waker) };
        // Release pairs with the acquires in `finish` and `close`: who takes the waker sees it. Acquire pairs with their
        // releases.
        let order = ordering!(AcqRel unless seeded = "oneshot_wait_relaxed");
        if self.word.fetch_or(waits, order) & over == 0 {
            return true;
        }
        if !cfg!(seeded = "oneshot_late_waker_kept") {
            // SAFETY: the end came while the bit was clear, so it has left the place alone.
            discard(unsafe { place.take() });
        }
        false
    }

    /// The sender's end, with a value or without. Err: the receiver has closed before.
    ///
    /// # Safety
    /// By the sender, once, as the last that it does.
    #[inline]
    pub unsafe fn finish(this: NonNull<Self>, value: Option<T>) -> Result<(), Option<T>> {
        // SAFETY: the sender has not left.
        let shared = unsafe { this.as_ref() };
        let done = if value.is_some() { DONE | VALUE } else { DONE };
        if let Some(value) = value {
            // SAFETY: it is the sender's until `DONE`.
            shared
                .value
                .with_mut(|place| unsafe { (*place).write(value) });
        }
        let mut word = shared.word.load(Relaxed);
        loop {
            if word & CLOSED != 0 {
                // SAFETY: it was written above, and nobody looks for it: it is not done.
                let value = (done & VALUE != 0).then(|| unsafe { shared.take_value() });
                // SAFETY: the sender's last touch.
                unsafe { Self::release(this, SENDER_GONE) };
                return Err(value);
            }
            let waiting = word & (RECEIVER_WAITS | SENDER_WAITS);
            let gone = if waiting == 0 { SENDER_GONE } else { 0 };
            // Release pairs with the acquires in `word`, `wait` and `close`, for the value. Acquire pairs with the
            // release in `wait`, for the wakers.
            let order = ordering!(AcqRel unless seeded = "oneshot_finish_relaxed");
            let next = word & !waiting | done | gone;
            match shared
                .word
                .compare_exchange_weak(word, next, order, Relaxed)
            {
                Ok(_) if waiting == 0 => return Ok(()),
                Ok(_) => {
                    // SAFETY: this has cleared the bits.
                    let taken = unsafe { shared.take_wakers(waiting) };
                    // SAFETY: the sender's last touch.
                    unsafe { Self::release(this, SENDER_GONE) };
                    discard(taken.sender);
                    taken.receiver.into_iter().for_each(wake);
                    return Ok(());
                }
                Err(now) => word = now,
            }
        }
    }

    /// The receiver wants nothing from now on. If it is also `leaving`, that is the last that it does.
    ///
    /// # Safety
    /// By the receiver.
    pub unsafe fn close(this: NonNull<Self>, leaving: bool) {
        // SAFETY: the receiver has not left.
        let shared = unsafe { this.as_ref() };
        let mut word = shared.word();
        while word & DONE == 0 {
            // If it stays, it may wait on: it is not woken by its own hand.
            let mine = if leaving { RECEIVER_WAITS } else { 0 };
            // What was left there after it had closed before is none of its business.
            let is_first = word & CLOSED == 0 || cfg!(seeded = "oneshot_taken_by_second_close");
            let theirs = if is_first { SENDER_WAITS } else { 0 };
            let waiting = word & (theirs | mine);
            // The last step, unless a waker is to be taken, or the sender has left it to this one to free.
            let is_all = waiting == 0
                && (word & SENDER_GONE == 0 || cfg!(seeded = "oneshot_left_to_nobody"));
            let gone = if leaving && is_all { RECEIVER_GONE } else { 0 };
            // Release pairs with the acquires in `finish` and `release`; acquire with the releases in `wait` and `finish`.
            let order = ordering!(AcqRel unless seeded = "oneshot_close_relaxed");
            let next = word & !waiting | CLOSED | gone;
            match shared
                .word
                .compare_exchange_weak(word, next, order, Acquire)
            {
                Ok(_) => {
                    // SAFETY: this has cleared the bits.
                    let taken = unsafe { shared.take_wakers(waiting) };
                    if leaving && !is_all {
                        // SAFETY: the receiver's last touch.
                        unsafe { Self::release(this, RECEIVER_GONE) };
                    }
                    discard(taken.receiver);
                    taken.sender.into_iter().for_each(wake);
                    return;
                }
                Err(now) => word = now,
            }
        }
        if leaving {
            // SAFETY: it is done, and the receiver asks once.
            drop(unsafe { Self::receive(this, word) });
        }
    }

    /// Takes the value, if there is one, as the last that the receiver does.
    ///
    /// # Safety
    /// By the receiver, which has seen `DONE` in `word`.
    #[inline]
    pub unsafe fn receive(this: NonNull<Self>, word: u8) -> Option<T> {
        debug_assert_ne!(word & DONE, 0);
        // SAFETY: the receiver has not left.
        let shared = unsafe { this.as_ref() };
        // SAFETY: the sender is done, and says that there is one.
        let value = (word & VALUE != 0).then(|| unsafe { shared.take_value() });
        // SAFETY: the receiver's last touch.
        unsafe {
            match word & SENDER_GONE {
                0 => Self::release(this, RECEIVER_GONE),
                _ => Self::free(this),
            }
        }
        value
    }

    /// # Safety
    /// It is the caller's, was written, and is not used again.
    unsafe fn take_value(&self) -> T {
        // SAFETY: the caller's promise.
        self.value
            .with_mut(|place| unsafe { (*place).assume_init_read() })
    }

    /// # Safety
    /// The caller has cleared these bits, which were set.
    unsafe fn take_wakers(&self, bits: u8) -> Taken {
        // SAFETY: where a bit was set, there is a waker, and it is of who clears the bit.
        unsafe {
            Taken {
                receiver: (bits & RECEIVER_WAITS != 0).then(|| self.receiver.take()),
                sender: (bits & SENDER_WAITS != 0).then(|| self.sender.take()),
            }
        }
    }

    /// One end leaves. The second one frees the memory, in which there is nothing any more.
    ///
    /// # Safety
    /// By the end whose bit `gone` is, as its last touch.
    unsafe fn release(this: NonNull<Self>, gone: u8) {
        // SAFETY: this end has not left yet.
        let shared = unsafe { this.as_ref() };
        // Release and acquire pair with each other: who frees it does so after all that the other has done.
        let order = ordering!(AcqRel unless seeded = "oneshot_release_relaxed");
        let other = (SENDER_GONE | RECEIVER_GONE) & !gone;
        if shared.word.fetch_or(gone, order) & other != 0 {
            // SAFETY: both have left.
            unsafe { Self::free(this) };
        }
    }

    /// # Safety
    /// Both ends have left.
    unsafe fn free(this: NonNull<Self>) {
        #[cfg(not(loom))]
        if hal::irq::in_handler() {
            // SAFETY: nobody refers to it, and it has nothing to drop.
            unsafe { super::left::bury(this) };
            return;
        }
        // As whoever uses the memory for something else would: loom finds out if anybody still looks.
        #[cfg(loom)]
        // SAFETY: both ends have left.
        unsafe {
            this.as_ref().value.with_mut(|_| {});
            this.as_ref().receiver.0.with_mut(|_| {});
            this.as_ref().sender.0.with_mut(|_| {});
        }
        // SAFETY: it came from a box, and nobody refers to it; the value and the wakers were taken.
        drop(unsafe { Box::from_raw(this.as_ptr()) });
    }
}
