//! A block of slots, and how one slot is passed from who writes it to who reads it. [`Blocks`](super::blocks::Blocks)
//! says who may do that, and when.

use crate::shim::{UnsafeCell, ordering};
use alloc::alloc::{alloc, dealloc};
use core::{
    alloc::Layout,
    mem::MaybeUninit,
    ptr::{self, NonNull},
};
use hal::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// Slots of a block. With 31 of 16 bytes it has 512 bytes.
pub(super) const SLOTS: usize = if cfg!(loom) { 2 } else { 31 };

/// Index of the last slot.
pub(super) const LAST: usize = SLOTS - 1;

/// Addresses of blocks are multiples of this. More than there are slots: `head` counts up to `SLOTS`.
const ALIGN: usize = 64;
const _: () = assert!(SLOTS < ALIGN && align_of::<Block<()>>() == ALIGN);

/// The block.
#[repr(C, align(64))]
pub(super) struct Block<T> {
    /// First, so that their addresses are sums of two.
    slots: [Slot<T>; SLOTS],
    /// The block after it. Written by who claims the last slot to write it; read by who claims it to read it.
    pub(super) next: UnsafeCell<*mut Block<T>>,
    /// How many slots were not read yet. Whoever counts the last has the block to himself.
    pub(super) unread: AtomicU32,
}

/// A place for one value.
pub(super) struct Slot<T> {
    /// Before it is published: of who has claimed it to write it. Then, of who has claimed it to read it.
    value: UnsafeCell<MaybeUninit<T>>,
    /// Set by who has written it, cleared by who has read it.
    is_published: AtomicBool,
}

/// A place in the queue. A number, not a pointer: between a look and a claim the block may be freed and another
/// made at the same address, and then the claim must lead to that one.
#[inline]
pub(super) fn place<T>(block: NonNull<Block<T>>) -> usize {
    block.as_ptr().expose_provenance()
}

/// The index of a place's slot.
#[inline]
pub(super) const fn index(place: usize) -> usize {
    place % ALIGN
}

/// The block of a place.
#[inline]
pub(super) fn block<T>(place: usize) -> *mut Block<T> {
    ptr::with_exposed_provenance_mut(place - index(place))
}

/// The slot of a place.
///
/// # Safety
/// The caller has claimed it, and neither published nor counted it since: that keeps the block.
#[inline]
pub(super) unsafe fn slot<T>(place: usize) -> *mut Slot<T> {
    // SAFETY: the caller's promise; only indices of slots are claimed.
    unsafe {
        let slots = &raw mut (*block::<T>(place)).slots;
        slots.cast::<Slot<T>>().add(index(place))
    }
}

impl<T> Slot<T> {
    /// Writes a value and publishes it. After that the block may be gone.
    ///
    /// # Safety
    /// The caller has claimed it to write it.
    #[inline]
    pub(super) unsafe fn publish(slot: *mut Self, value: T) {
        // SAFETY: the caller's claim keeps the block until it is published, and nobody else touches the value.
        unsafe {
            (*slot).value.with_mut(|place| (*place).write(value));
            // Release pairs with the acquire in `is_published`.
            let order = ordering!(Release unless seeded = "blocks_published_relaxed");
            (*slot).is_published.store(true, order);
        }
    }

    /// Whether it is published; then it can be read.
    ///
    /// # Safety
    /// The caller has claimed it to read it.
    #[inline]
    pub(super) unsafe fn is_published(slot: *const Self) -> bool {
        // Acquire pairs with the release in `publish`.
        let order = ordering!(Acquire unless seeded = "blocks_published_seen_relaxed");
        // SAFETY: the caller's claim keeps the block.
        unsafe { (*slot).is_published.load(order) }
    }

    /// Takes the value out and leaves the slot clean.
    ///
    /// # Safety
    /// The caller has claimed it to read it, it is published, and it was not read yet.
    #[inline]
    pub(super) unsafe fn read(slot: *mut Self) -> T {
        // SAFETY: the caller's promise: it was written, nobody else touches it, and the claim keeps the block.
        unsafe {
            let value = (*slot).value.with(|value| (*value).assume_init_read());
            if !cfg!(seeded = "blocks_not_cleared") {
                (*slot).is_published.store(false, Relaxed);
            }
            value
        }
    }
}

impl<T> Block<T> {
    pub(super) const LAYOUT: Layout = Layout::new::<Self>();

    /// A clean block. None: there is no memory.
    pub(super) fn allocate() -> Option<NonNull<Self>> {
        #[cfg(test)]
        if super::blocks::tests::is_out_of_memory() {
            return None;
        }
        // SAFETY: the layout is not empty.
        let block = NonNull::new(unsafe { alloc(Self::LAYOUT) }.cast::<Self>())?;
        let this = block.as_ptr();
        // In place: with large values it may be too large for the stack.
        // SAFETY: fresh memory of this layout; a value that is not there needs no care.
        unsafe {
            (&raw mut (*this).next).write(UnsafeCell::new(ptr::null_mut()));
            (&raw mut (*this).unread).write(AtomicU32::new(SLOTS as u32));
            for index in 0..SLOTS {
                let slot = &raw mut (*this).slots[index];
                #[cfg(loom)]
                (&raw mut (*slot).value).write(UnsafeCell::new(MaybeUninit::uninit()));
                (&raw mut (*slot).is_published).write(AtomicBool::new(false));
            }
        }
        Some(block)
    }

    /// Frees a block with no values in it.
    ///
    /// # Safety
    /// It was made by `allocate`, and nobody else knows of it.
    #[cold]
    pub(super) unsafe fn free(block: NonNull<Self>) {
        let this = block.as_ptr();
        // SAFETY: the caller's promise.
        unsafe {
            // Loom sees here whether somebody may still be at it.
            #[cfg(loom)]
            for slot in &(*this).slots {
                slot.value.with_mut(|_| ());
            }
            this.drop_in_place();
            dealloc(this.cast(), Self::LAYOUT);
        }
    }
}
