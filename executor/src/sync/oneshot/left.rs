//! What interrupts leave to be freed.
//!
//! An interrupt may have come in the middle of the allocator, so it frees nothing. If it was the last to
//! have to do with a channel, it leaves the memory here; whoever makes the next channel frees it.

use crate::queue::{Inbox, Linked};
use alloc::boxed::Box;
use core::{
    mem,
    ptr::{self, NonNull},
    sync::atomic::AtomicPtr,
};

/// What such memory has in it.
struct Left {
    link: AtomicPtr<Self>,
    free: unsafe fn(NonNull<Self>),
}

// SAFETY: always the same field, which nothing else uses, and which is atomic.
unsafe impl Linked for Left {
    fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }
}

static LEFT: Inbox<Left> = Inbox::new();

/// Leaves a box to be freed. In interrupts too.
///
/// # Safety
/// It came from a box, nobody refers to it, and it need not be dropped.
pub unsafe fn bury<B>(memory: NonNull<B>) {
    const {
        assert!(size_of::<B>() >= size_of::<Left>());
        assert!(align_of::<B>() >= align_of::<Left>());
        assert!(!mem::needs_drop::<B>());
    }
    /// # Safety
    /// It was a `B`, in a box.
    unsafe fn free<B>(memory: NonNull<Left>) {
        // SAFETY: the caller's promise; a `B` that need not be dropped may be anything.
        drop(unsafe { Box::from_raw(memory.as_ptr().cast::<mem::MaybeUninit<B>>()) });
    }
    let left = memory.cast::<Left>();
    // SAFETY: 1. it is large enough, and the caller's alone; 2. it stays until it is taken out.
    unsafe {
        left.write(Left {
            link: AtomicPtr::new(ptr::null_mut()),
            free: free::<B>,
        });
        LEFT.push(left);
    }
}

/// Frees what was left.
#[inline]
pub fn free() {
    if !LEFT.is_empty() {
        free_all();
    }
}

#[cold]
fn free_all() {
    for left in LEFT.take_all() {
        // SAFETY: it was put there by `bury`, and taken out once.
        unsafe { (left.as_ref().free)(left) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// There is one list for all.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    #[test]
    fn what_is_left_is_freed_once() {
        let _turn = ONE_AT_A_TIME.lock();
        for size in 1..4u64 {
            // SAFETY: leaked here, and of numbers.
            unsafe {
                bury(NonNull::from(Box::leak(Box::new([size; 8]))));
                bury(NonNull::from(Box::leak(Box::new([size; 32]))));
            }
        }
        assert!(!LEFT.is_empty());
        free();
        assert!(LEFT.is_empty());
        free();
    }
}
