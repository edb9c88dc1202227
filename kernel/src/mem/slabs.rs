//! Where the objects of one class come from when a core's cache has none, and
//! where they go when it has too many: blocks of pages cut into objects.
//!
//! A free object's first word leads to the next one. Its state is in the
//! descriptor of the slab's first page, which is found from an object by
//! rounding down, because a block of the buddy allocator is aligned to its
//! size. Objects that were never handed out are not linked, only counted, so a
//! new slab costs nothing to prepare.

use super::{
    classes::Class,
    frames::Frames,
    pages::{List, Page, PageMap},
};
use core::{
    ptr::{NonNull, null_mut},
    sync::atomic::Ordering::Relaxed,
};
use hal::layout::PAGE;

/// Empty slabs that a class keeps, lest a single object that comes and goes
/// takes a slab from the frame allocator and returns it each time.
const RESERVE: usize = 2;

/// A free object. What is in the memory of one:
#[repr(C)]
struct FreeObject {
    next: *mut u8,
    /// With debug assertions: [`seal`] of its address, to tell freeing twice and
    /// writing after freeing. The smallest object has just room for it.
    seal: usize,
}

/// What a free object holds in its second word: no program's data by chance.
fn seal(object: NonNull<u8>) -> usize {
    object.addr().get() ^ 0x6672_6565_6672_6565
}

/// Marks an object as free. Asked for with debug assertions only.
///
/// # Safety
/// The object is the caller's, of some class.
#[inline]
pub unsafe fn close(object: NonNull<u8>) {
    let free = object.cast::<FreeObject>().as_ptr();
    // SAFETY: an object has at least 16 bytes, aligned to 16, and is the caller's.
    unsafe {
        assert!((*free).seal != seal(object), "freed twice: {object:p}");
        (*free).seal = seal(object);
    }
}

/// Marks an object as in use, if nobody wrote to it since [`close`].
///
/// # Safety
/// As for [`close`].
#[inline]
pub unsafe fn open(object: NonNull<u8>) {
    let free = object.cast::<FreeObject>().as_ptr();
    // SAFETY: as in `close`.
    unsafe {
        assert!(
            (*free).seal == seal(object),
            "written after it was freed: {object:p}"
        );
        (*free).seal = 0;
    }
}

/// Object that a free one leads to; null: none.
///
/// # Safety
/// The object is free, and the caller's to use.
#[inline]
pub unsafe fn next(object: NonNull<u8>) -> *mut u8 {
    // SAFETY: a free object is a `FreeObject`, by the caller's promise.
    unsafe { (*object.cast::<FreeObject>().as_ptr()).next }
}

/// Makes a free object lead to another.
///
/// # Safety
/// As for [`next`].
#[inline]
pub unsafe fn set_next(object: NonNull<u8>, next: *mut u8) {
    // SAFETY: as for `next`.
    unsafe { (*object.cast::<FreeObject>().as_ptr()).next = next }
}

/// Free objects, each leading to the next.
pub struct Chain {
    /// The first; null: none.
    pub first: *mut u8,
    last: *mut u8,
    /// How many.
    pub count: u32,
}

impl Chain {
    fn new() -> Self {
        Self {
            first: null_mut(),
            last: null_mut(),
            count: 0,
        }
    }

    /// Adds a free object at the end.
    fn push(&mut self, object: NonNull<u8>) {
        // SAFETY: the object is free and was just taken out of its slab, as was the last.
        unsafe {
            set_next(object, null_mut());
            match NonNull::new(self.last) {
                Some(last) => set_next(last, object.as_ptr()),
                None => self.first = object.as_ptr(),
            }
        }
        self.last = object.as_ptr();
        self.count += 1;
    }
}

/// The slabs of one class, which every method is told. All behind the class's lock.
pub struct Slabs {
    /// Slabs with free objects and used ones.
    partial: List,
    /// Slabs of which nothing is used.
    empty: List,
    empty_count: usize,
    /// Objects that are not in a slab: in some cache, or in use.
    pub out: usize,
    /// Slabs that there are.
    pub count: usize,
}

impl Slabs {
    /// No slabs.
    pub const fn new() -> Self {
        Self {
            partial: List::new(),
            empty: List::new(),
            empty_count: 0,
            out: 0,
            count: 0,
        }
    }

    /// Takes over a block that was just allocated with the class's order.
    pub fn add(&mut self, class: Class, map: &PageMap, block: u64) {
        let index = map
            .index_of(block)
            .expect("an allocated frame has a descriptor");
        let page = map.page(index);
        page.class.store(class.index() as u8 + 1, Relaxed);
        reset(page);
        self.empty.push(map, index);
        self.empty_count += 1;
        self.count += 1;
    }

    /// Takes up to `wanted` objects, fewer only if there are no more.
    pub fn take(&mut self, class: Class, map: &PageMap, wanted: u32) -> Chain {
        let mut chain = Chain::new();
        while chain.count < wanted {
            let index = match self.partial.first() {
                Some(index) => index,
                None => {
                    let Some(index) = self.empty.pop(map) else {
                        break;
                    };
                    self.empty_count -= 1;
                    self.partial.push(map, index);
                    index
                }
            };
            let page = map.page(index);
            let base = map.to_virt(map.phys_of(index));
            while chain.count < wanted
                && let Some(object) = Self::take_one(class, page, base)
            {
                chain.push(object);
            }
            let is_full = usize::from(page.used.load(Relaxed)) == class.slab_capacity();
            // One that has nothing though it is not full was written to by a stranger: leaving it in
            // the list would mean looking at it for ever.
            debug_assert!(
                is_full || chain.count == wanted,
                "a slab of {class:?} is damaged"
            );
            if is_full || chain.count < wanted {
                self.partial.remove(map, index);
            }
        }
        self.out += chain.count as usize;
        chain
    }

    fn take_one(class: Class, page: &Page, base: *mut u8) -> Option<NonNull<u8>> {
        let (free, fresh) = (page.free.load(Relaxed), page.fresh.load(Relaxed));
        let object = if free != 0 {
            let object = NonNull::new(base.wrapping_add((usize::from(free) - 1) * 16))?;
            // SAFETY: the slab's free list holds free objects of this slab, guarded by the class's lock.
            let next = unsafe { next(object) };
            page.free.store(position(base, next), Relaxed);
            object
        } else if usize::from(fresh) < class.slab_capacity() {
            let object = NonNull::new(base.wrapping_add(usize::from(fresh) * class.size()))?;
            page.fresh.store(fresh + 1, Relaxed);
            if cfg!(debug_assertions) {
                // SAFETY: nobody has had this object yet; what a former owner of the page left
                // in it may by chance be a seal.
                unsafe {
                    (*object.cast::<FreeObject>().as_ptr()).seal = 0;
                    close(object);
                }
            }
            object
        } else {
            return None;
        };
        page.used.store(page.used.load(Relaxed) + 1, Relaxed);
        Some(object)
    }

    /// Takes back one object. A slab that gets empty goes back to the frame
    /// allocator, apart from a small reserve.
    ///
    /// # Safety
    /// The object is free, of this class, and in no cache any more.
    pub unsafe fn put(&mut self, class: Class, frames: &Frames, object: NonNull<u8>) {
        let map = &frames.map;
        let slab = (PAGE << class.slab_order()) as u64;
        let phys = map.to_phys(object.as_ptr()) & !(slab - 1);
        let index = map.index_of(phys);
        let Some(index) = index.filter(|&index| is_slab(map.page(index), class)) else {
            if cfg!(debug_assertions) {
                panic!("freed with another layout than it was allocated with: {object:p}");
            }
            return;
        };
        let page = map.page(index);
        let base = map.to_virt(phys);
        let free = page.free.load(Relaxed);
        let first = match free {
            0 => null_mut(),
            position => base.wrapping_add((usize::from(position) - 1) * 16),
        };
        // SAFETY: the object is free, by the caller's promise.
        unsafe { set_next(object, first) };
        page.free.store(position(base, object.as_ptr()), Relaxed);
        let used = usize::from(page.used.load(Relaxed));
        page.used.store(used as u16 - 1, Relaxed);
        self.out -= 1;
        if used == class.slab_capacity() {
            self.partial.push(map, index);
        }
        if used == 1 {
            self.partial.remove(map, index);
            reset(page);
            self.empty.push(map, index);
            self.empty_count += 1;
            if self.empty_count > RESERVE {
                self.trim(frames, RESERVE);
            }
        }
    }

    /// Gives empty slabs back to the frame allocator until `keep` are left.
    pub fn trim(&mut self, frames: &Frames, keep: usize) {
        while self.empty_count > keep
            && let Some(index) = self.empty.pop(&frames.map)
        {
            frames.map.page(index).class.store(0, Relaxed);
            frames.free(frames.map.phys_of(index));
            self.empty_count -= 1;
            self.count -= 1;
        }
    }
}

fn is_slab(page: &Page, class: Class) -> bool {
    usize::from(page.class.load(Relaxed)) == class.index() + 1
}

/// Forgets which objects of an empty slab were handed out, and in which order they came back.
fn reset(page: &Page) {
    page.fresh.store(0, Relaxed);
    page.free.store(0, Relaxed);
    page.used.store(0, Relaxed);
}

/// How a descriptor names the object at `object`.
fn position(base: *mut u8, object: *mut u8) -> u16 {
    if object.is_null() {
        return 0;
    }
    ((object.addr() - base.addr()) / 16 + 1) as u16
}
