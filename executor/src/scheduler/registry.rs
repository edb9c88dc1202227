//! The list of all live tasks, in parts: one for each core, where a task gets
//! its slot when it is spawned there, and one for spawns from outside.
//!
//! It is what `tasks()` walks and what a shutdown cancels. Taking a slot is for
//! the owner alone and costs a few plain instructions; giving it back is for any
//! core. Whoever walks the list locks one slot at a time, for the few
//! instructions it takes to count a reference to the task in it.

use super::{slot::Slot, worker::Worker};
use crate::{
    NoMemory,
    task::{Task, TaskId, cell::Header},
};
use alloc::alloc::{alloc_zeroed, dealloc};
use core::{
    alloc::Layout,
    cell::Cell,
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, AtomicU64, Ordering::*},
};

/// The place of a task in the list.
pub(crate) struct Entry {
    /// The task, or the next free entry.
    slot: Slot,
    /// Of the task in it or of the last that was. Written by the owner of the list.
    id: AtomicU64,
}

impl Entry {
    pub(crate) const fn as_ptr(&'static self) -> *mut Self {
        ptr::from_ref(self).cast_mut()
    }

    /// Of the task in it.
    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        TaskId::from_u64(self.word() & !LOST)
    }

    /// The same, and with it whether the task's poll was left for good.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        // Relaxed: whoever has the task got it from whom wrote this.
        self.id.load(Relaxed)
    }

    /// The task in it is lost, or was and has ended.
    pub(crate) fn set_lost(&self, is_lost: bool) {
        let id = self.id().as_u64();
        self.id.store(if is_lost { id | LOST } else { id }, Relaxed);
    }
}

/// The task in it is lost: what it does from here on, in its finalizers, is not what it did before.
const LOST: u64 = TaskId::SPARE;

/// That of what is no task, or is none any more: its word is that of somebody outside.
pub(crate) static NOBODYS: Entry = Entry {
    slot: Slot::new(),
    id: AtomicU64::new(1),
};

/// Entries in the first segment; each further segment has as many as all before it, and these.
const FIRST: usize = 64;
/// So many that ids have room for all slots.
const SEGMENTS: usize = 18;

/// One part of the list.
pub(crate) struct Registry {
    // Owner only:
    /// First of the free slots.
    free: Cell<*const Entry>,
    /// Slots that were ever used.
    used: Cell<u32>,

    // Any core:
    /// Free slots that other cores gave back.
    returned: AtomicPtr<Entry>,
    /// Made as they are needed, by the owner.
    segments: [AtomicPtr<Entry>; SEGMENTS],
}

// SAFETY: the cells are for the owner alone, by the contract of `insert` and `remove_own`.
unsafe impl Sync for Registry {}
// SAFETY: nothing in it knows which thread made it.
unsafe impl Send for Registry {}

impl Registry {
    pub(crate) const fn new() -> Self {
        Self {
            free: Cell::new(ptr::null()),
            used: Cell::new(0),
            returned: AtomicPtr::new(ptr::null_mut()),
            segments: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS],
        }
    }

    /// Which segment a slot is in, and where in it.
    fn place(index: u32) -> (usize, usize) {
        let number = index as usize + FIRST;
        let segment = (number.ilog2() - FIRST.ilog2()) as usize;
        (segment, number - (FIRST << segment))
    }

    /// The slot with this number, if it exists.
    fn slot(&self, index: u32) -> Option<&Entry> {
        let (segment, offset) = Self::place(index);
        // Acquire pairs with the release in `more`: the zeros are seen.
        let slots = self.segments.get(segment)?.load(Acquire);
        // SAFETY: null, or a segment of which this is a part, and which stays until the end.
        unsafe {
            slots.as_ref()?;
            Some(&*slots.add(offset))
        }
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
    ) -> Result<TaskId, NoMemory> {
        let mut slot = self.free.get();
        if slot.is_null() {
            slot = self.more(part)?;
        }
        // SAFETY: an entry of this list.
        let entry = unsafe { &*slot };
        self.free
            .set(ptr::with_exposed_provenance(entry.slot.next_free()));
        let id = entry.id.load(Relaxed).wrapping_add(TaskId::COUNT);
        entry.id.store(id, Relaxed);
        // SAFETY: the task is not shared yet.
        unsafe {
            (*task.as_ptr()).entry = AtomicPtr::new(slot.cast_mut());
            (*task.as_ptr()).home = home;
        }
        entry.slot.fill(task.as_ptr().expose_provenance());
        Ok(TaskId::from_u64(id))
    }

    /// More free slots: those that others gave back, or one that is new. The
    /// owner only.
    #[cold]
    fn more(&self, part: usize) -> Result<*const Entry, NoMemory> {
        // Acquire pairs with the release in `remove`: the chain in the slots is seen.
        let returned = self.returned.swap(ptr::null_mut(), Acquire);
        if !returned.is_null() {
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
            // Release pairs with the acquire in `slot`: the zeros are seen.
            self.segments[segment].store(slots.cast(), Release);
        }
        self.used.set(index + 1);
        let slot = self.slot(index).expect("it was just made");
        slot.id.store(TaskId::new(part, index).as_u64(), Relaxed);
        // As if it had been the only one in the list of free ones.
        slot.slot.set_free(0);
        Ok(slot)
    }

    fn layout(segment: usize) -> Layout {
        Layout::array::<Entry>(FIRST << segment).expect("segments are few")
    }

    /// The task has ended: nobody finds it here any more.
    ///
    /// # Safety
    /// The caller is the owner, as in `insert`, and the task is in this part.
    #[inline]
    pub(crate) unsafe fn remove_own(&self, task: &Header) {
        let entry = task.entry();
        entry.clear(task, self.free.get());
        self.free.set(entry);
    }

    /// The same, from any core.
    pub(crate) fn remove(&self, task: &Header) {
        let entry = task.entry();
        let mut first = self.returned.load(Relaxed);
        entry.clear(task, first);
        // Release pairs with the acquire in `more`.
        while let Err(now) = self.returned.compare_exchange_weak(
            first,
            ptr::from_ref(entry).cast_mut(),
            Release,
            Relaxed,
        ) {
            first = now;
            entry.slot.set_free(first.expose_provenance());
        }
    }

    /// The next task after the cursor, which moves on. Tasks that come and go
    /// meanwhile may be seen or not; all others are.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Option<Task> {
        loop {
            let slot = self.slot(cursor.0)?;
            cursor.0 += 1;
            if let Some(task) = slot.look_up() {
                return Some(task);
            }
        }
    }

    /// The task with this id, if it lives.
    pub(crate) fn find(&self, id: TaskId) -> Option<Task> {
        let task = self.slot(id.index())?.look_up()?;
        (task.id() == id).then_some(task)
    }
}

impl Entry {
    #[inline]
    fn clear(&self, task: &Header, next: *const Entry) {
        let task = ptr::from_ref(task).addr();
        self.slot.clear(task, next.expose_provenance(), hal::pause);
    }

    /// The task in it, if there is one.
    fn look_up(&self) -> Option<Task> {
        // Not interrupted while it is locked: whoever wants to clear it waits.
        self.slot.look_up(hal::irq::mask, hal::pause, |task| {
            let task = ptr::with_exposed_provenance_mut::<Header>(task);
            // SAFETY: a task stays until its slot is cleared, and that waits for us.
            unsafe { Task::retain(NonNull::new_unchecked(task), self.id()) }
        })
    }
}

/// Where a walk through the list has come to.
#[derive(Default)]
pub(crate) struct Cursor(u32);

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
