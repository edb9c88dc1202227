//! The list of all live tasks, in parts: one for each core, where a task gets
//! its slot when it is spawned there, and one for spawns from outside.
//!
//! It is what `tasks()` walks and what a shutdown cancels. Taking a slot is for
//! the owner alone and costs a few plain instructions; giving it back is for any
//! core. Whoever walks the list locks one slot at a time, for the few
//! instructions it takes to count a reference to the task in it.

use super::worker::Worker;
use crate::task::{Task, TaskId, cell::Header};
use alloc::alloc::{alloc_zeroed, dealloc};
use core::{
    alloc::Layout,
    cell::Cell,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*},
};

// A slot is 0 (never used), a task's address, or free: then it holds the number of the next free one.
const FREE: usize = 1;
/// Somebody is counting a reference to the task in this slot.
const LOCKED: usize = 2;
const INDEX_SHIFT: u32 = 2;
/// No slot.
const NONE: u32 = u32::MAX;

/// Slots in the first segment; each further segment has as many as all before it, and these.
const FIRST: usize = 64;
const SEGMENTS: usize = 20;

/// One part of the list.
pub(crate) struct Registry {
    // Owner only:
    /// First of the free slots.
    free: Cell<u32>,
    /// Slots that were ever used.
    used: Cell<u32>,
    /// Tasks spawned here.
    count: Cell<u32>,

    // Any core:
    /// Free slots that other cores gave back.
    returned: AtomicU32,
    /// Made as they are needed, by the owner.
    segments: [AtomicPtr<AtomicUsize>; SEGMENTS],
}

// SAFETY: the cells are for the owner alone, by the contract of `insert` and `remove_own`.
unsafe impl Sync for Registry {}

/// There is no memory for more slots.
#[derive(Debug)]
pub(crate) struct NoMemory;

impl Registry {
    pub(crate) const fn new() -> Self {
        Self {
            free: Cell::new(NONE),
            used: Cell::new(0),
            count: Cell::new(0),
            returned: AtomicU32::new(NONE),
            segments: [const { AtomicPtr::new(core::ptr::null_mut()) }; SEGMENTS],
        }
    }

    /// Which segment a slot is in, and where in it.
    #[inline]
    fn place(index: u32) -> (usize, usize) {
        let number = index as usize + FIRST;
        let segment = (number.ilog2() - FIRST.ilog2()) as usize;
        (segment, number - (FIRST << segment))
    }

    #[inline]
    fn slot(&self, index: u32) -> &AtomicUsize {
        let (segment, offset) = Self::place(index);
        // Relaxed: whoever has the number of a slot got it from the owner, who made the segment before.
        let slots = self.segments[segment].load(Relaxed);
        // SAFETY: numbers are given out only for slots that exist, and segments stay until the end.
        unsafe { &*slots.add(offset) }
    }

    /// Gives the task a slot and with it its id.
    ///
    /// # Safety
    /// 1. The caller is the owner: this part's core under a guard, or the holder of the lock of the outside part.
    /// 2. The task is not shared yet, and stays valid until it is removed.
    #[inline]
    pub(crate) unsafe fn insert(
        &self,
        part: usize,
        home: NonNull<Worker>,
        task: NonNull<Header>,
    ) -> Result<(), NoMemory> {
        let mut index = self.free.get();
        if index == NONE {
            index = self.more()?;
        }
        let slot = self.slot(index);
        self.free.set((slot.load(Relaxed) >> INDEX_SHIFT) as u32);
        let count = self.count.get().wrapping_add(1);
        self.count.set(count);
        // SAFETY: the task is not shared yet.
        unsafe {
            (*task.as_ptr()).id = TaskId::new(part, index, count);
            (*task.as_ptr()).home = home;
        }
        // Release pairs with the acquire in `look_up`: the task is seen whole.
        slot.store(task.as_ptr().expose_provenance(), Release);
        Ok(())
    }

    /// More free slots: those that others gave back, or one that is new. The
    /// owner only.
    #[cold]
    fn more(&self) -> Result<u32, NoMemory> {
        // Acquire pairs with the release in `remove`: the chain in the slots is seen.
        let returned = self.returned.swap(NONE, Acquire);
        if returned != NONE {
            return Ok(returned);
        }
        let index = self.used.get();
        let (segment, _) = Self::place(index);
        if segment == SEGMENTS {
            return Err(NoMemory);
        }
        if self.segments[segment].load(Relaxed).is_null() {
            // SAFETY: the layout is not empty.
            let slots = unsafe { alloc_zeroed(Self::layout(segment)) };
            if slots.is_null() {
                return Err(NoMemory);
            }
            // Release pairs with the acquire in `look_up`: the zeros are seen.
            self.segments[segment].store(slots.cast(), Release);
        }
        self.used.set(index + 1);
        // As if it had been the only one in the list of free ones.
        self.slot(index).store(free(NONE), Relaxed);
        Ok(index)
    }

    fn layout(segment: usize) -> Layout {
        Layout::array::<AtomicUsize>(FIRST << segment).expect("segments are few")
    }

    /// The task has ended: nobody finds it here any more.
    ///
    /// # Safety
    /// The caller is the owner, as in `insert`, and the task is in this part.
    #[inline]
    pub(crate) unsafe fn remove_own(&self, id: TaskId, task: &Header) {
        let index = id.index();
        self.clear(index, task, self.free.get());
        self.free.set(index);
    }

    /// The same, from any core.
    pub(crate) fn remove(&self, id: TaskId, task: &Header) {
        let index = id.index();
        let slot = self.slot(index);
        let mut first = self.returned.load(Relaxed);
        self.clear(index, task, first);
        // Release pairs with the acquire in `more`.
        while let Err(now) = self
            .returned
            .compare_exchange_weak(first, index, Release, Relaxed)
        {
            first = now;
            slot.store(free(first), Relaxed);
        }
    }

    #[inline]
    fn clear(&self, index: u32, task: &Header, next: u32) {
        let slot = self.slot(index);
        let task = core::ptr::from_ref(task).addr();
        // Acquire pairs with the release in `look_up`: the reference that was counted there is seen
        // before this one is dropped.
        while slot
            .compare_exchange_weak(task, free(next), Acquire, Relaxed)
            .is_err()
        {
            // Locked, for a few instructions.
            hal::pause();
        }
    }

    /// The next task after the cursor, which moves on. Tasks that come and go
    /// meanwhile may be seen or not; all others are.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Option<Task> {
        loop {
            let (segment, offset) = Self::place(cursor.0);
            // Acquire pairs with the release in `more`.
            let slots = self.segments.get(segment)?.load(Acquire);
            if slots.is_null() {
                return None;
            }
            cursor.0 += 1;
            // SAFETY: within the segment.
            let slot = unsafe { &*slots.add(offset) };
            if let Some(task) = look_up(slot) {
                return Some(task);
            }
        }
    }

    /// The task with this id, if it lives.
    pub(crate) fn find(&self, id: TaskId) -> Option<Task> {
        let (segment, offset) = Self::place(id.index());
        // As in `next`.
        let slots = self.segments.get(segment)?.load(Acquire);
        if slots.is_null() {
            return None;
        }
        // SAFETY: within the segment.
        let task = look_up(unsafe { &*slots.add(offset) })?;
        (task.id() == id).then_some(task)
    }
}

/// Where a walk through the list has come to.
#[derive(Default)]
pub(crate) struct Cursor(u32);

/// The task in a slot, if there is one.
fn look_up(slot: &AtomicUsize) -> Option<Task> {
    loop {
        if !is_task(slot.load(Relaxed) & !LOCKED) {
            return None;
        }
        // Not interrupted while it is locked: whoever wants to clear it waits.
        let masked = hal::irq::mask();
        let word = slot.load(Relaxed) & !LOCKED;
        if is_task(word)
            && slot
                // Acquire pairs with the release in `insert`.
                .compare_exchange(word, word | LOCKED, Acquire, Relaxed)
                .is_ok()
        {
            let task = core::ptr::with_exposed_provenance_mut::<Header>(word);
            // SAFETY: a task stays until its slot is cleared, and that waits for us.
            let task = unsafe { Task::retain(NonNull::new_unchecked(task)) };
            // Release pairs with the acquire in `clear`.
            slot.store(word, Release);
            return Some(task);
        }
        drop(masked);
        // Somebody else looks, or it went just now.
        hal::pause();
    }
}

fn free(next: u32) -> usize {
    (next as usize) << INDEX_SHIFT | FREE
}

fn is_task(word: usize) -> bool {
    word != 0 && word & (FREE | LOCKED) == 0
}

impl Drop for Registry {
    fn drop(&mut self) {
        for (number, segment) in self.segments.iter_mut().enumerate() {
            let slots = *segment.get_mut();
            if !slots.is_null() {
                // SAFETY: allocated with this layout by `more`; nobody else is left.
                unsafe { dealloc(slots.cast(), Self::layout(number)) };
            }
        }
    }
}
