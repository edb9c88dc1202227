//! A block of slots, and how one slot is passed from who writes it to who reads it. [`Blocks`](super::blocks::Blocks)
//! says who may do that, and when.

use crate::shim::{UnsafeCell, ordering};
use alloc::alloc::{alloc, dealloc};
use core::{
    alloc::Layout,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::{self, NonNull},
};
use hal::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// What comes first in a block; its slots are at its end, so the last one ends where the block does. A block's size is a
/// power of two, and so is its address a multiple of that.
#[repr(C)]
pub(super) struct Block<T> {
    /// The block after it. Written by who claims the last slot to write it; read by who claims it to read it.
    pub(super) next: UnsafeCell<*mut Block<T>>,
    /// How many slots were not read yet. Whoever counts the last has the block to himself.
    pub(super) unread: AtomicU32,
    slots: [Slot<T>; 0],
}

/// A place for one value.
pub(super) struct Slot<T> {
    /// Before it is published: of who has claimed it to write it. Then, of who has claimed it to read it.
    value: UnsafeCell<MaybeUninit<T>>,
    /// Set by who has written it, cleared by who has read it.
    is_published: AtomicBool,
}

/// A place in the queue: the address of a slot. A number, not a pointer: between a look and a claim the block may be freed and
/// another made at the same address, and then the claim must lead to that one.
pub(super) struct Place<T>(usize, PhantomData<*mut Slot<T>>);

impl<T> Clone for Place<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> Place<T> {
    /// No slot. It looks like the last of a block, so that who looks for those finds it.
    pub(super) const NONE: usize = 0usize.wrapping_sub(size_of::<Slot<T>>());

    #[inline]
    pub(super) fn new(place: usize) -> Self {
        Self(place, PhantomData)
    }

    /// The place after this one in the same block. None: it is the last, or no slot at all.
    #[inline]
    pub(super) fn next(self) -> Option<usize> {
        let next = self.0.wrapping_add(size_of::<Slot<T>>());
        (!next.is_multiple_of(Block::<T>::SIZE)).then_some(next)
    }

    /// The block that it is in.
    #[inline]
    pub(super) fn block(self) -> *mut Block<T> {
        ptr::with_exposed_provenance_mut(self.0 & !(Block::<T>::SIZE - 1))
    }

    #[inline]
    pub(super) fn slot(self) -> *mut Slot<T> {
        ptr::with_exposed_provenance_mut(self.0)
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
    /// With 31 slots of 16 bytes it is 512. With large ones there are fewer in it.
    pub(super) const SIZE: usize = {
        let (head, slot) = (size_of::<Self>(), size_of::<Slot<T>>());
        let few = 4096usize.saturating_sub(head) / slot;
        let slots = match few {
            _ if cfg!(loom) => 2,
            0..3 => 3,
            3..31 => few,
            _ => 31,
        };
        (head + slots * slot).next_power_of_two()
    };

    /// How many slots it has: what there is room for.
    pub(super) const SLOTS: usize = match cfg!(loom) {
        true => 2,
        false => (Self::SIZE - size_of::<Self>()) / size_of::<Slot<T>>(),
    };

    pub(super) const LAYOUT: Layout = match Layout::from_size_align(Self::SIZE, Self::SIZE) {
        Ok(layout) => layout,
        Err(_) => panic!("a message is too large"),
    };

    /// The first of its slots.
    #[inline]
    pub(super) fn first(block: NonNull<Self>) -> usize {
        let slots = Self::SLOTS * size_of::<Slot<T>>();
        block.as_ptr().expose_provenance() + Self::SIZE - slots
    }

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
            (&raw mut (*this).unread).write(AtomicU32::new(Self::SLOTS as u32));
            for slot in Self::slots(block) {
                #[cfg(loom)]
                (&raw mut (*slot).value).write(UnsafeCell::new(MaybeUninit::uninit()));
                (&raw mut (*slot).is_published).write(AtomicBool::new(false));
            }
        }
        Some(block)
    }

    /// Its slots, the first first.
    fn slots(block: NonNull<Self>) -> impl Iterator<Item = *mut Slot<T>> {
        let first = ptr::with_exposed_provenance_mut::<Slot<T>>(Self::first(block));
        (0..Self::SLOTS).map(move |index| first.wrapping_add(index))
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
            for slot in Self::slots(block) {
                (*slot).value.with_mut(|_| ());
                slot.drop_in_place();
            }
            this.drop_in_place();
            dealloc(this.cast(), Self::LAYOUT);
        }
    }
}
