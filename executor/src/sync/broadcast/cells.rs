//! Where messages are until all have seen them, and how they are read while they are overwritten.
//!
//! The ring has a slot for each of the last messages, by their numbers, and a slot has a cell, which has
//! the message. All but the messages themselves is under one lock, for a bounded few instructions; cloning and dropping
//! messages is code of others, and done without it. What keeps the two apart is a count in each cell: of
//! receivers who have yet to be done with its message.
//!
//! - Whoever receives says so in the slot, under the lock; clones the message; and is done: one less.
//! - Whoever overwrites a message takes away, under the lock, the share of all who have not come for it yet.
//! - Whoever brings the count to nothing, and nobody else, takes the message out and drops it.
//!
//! If others are still at a message that is to be overwritten, its cell is left to them, and the slot
//! gets a spare one. Each receiver is at one cell at most, and brings a spare one along, so there
//! is always one: sending neither waits nor allocates. The last one at such a cell makes it a spare.

use crate::{
    memory::{NoMemory, try_box, try_slice},
    queue::{Linked, List},
    shim::{Lock, Panics, UnsafeCell, ordering},
    sync::Notify,
};
use alloc::boxed::Box;
use core::{
    mem::{self, MaybeUninit},
    ptr::{self, NonNull},
};
use hal::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

/// What all ends share.
pub struct Shared<T> {
    pub state: Lock<State<T>>,
    /// Something was sent, or there are no more senders.
    pub sent: Notify,
    /// The last receiver has left.
    pub unheard: Notify,
    /// The cells that were made with the channel.
    made: NonNull<[Cell<T>]>,
}

/// What the lock guards.
pub struct State<T> {
    ring: Box<[Slot<T>]>,
    /// How many were sent: the number of the next message.
    pub sent: u64,
    /// Who gets what is sent.
    pub receivers: usize,
    /// Who may be at a cell: receivers, also while they are dropped.
    readers: usize,
    /// How many cells there are, in slots, as spares or left to who reads them.
    cells: usize,
    spares: List<Cell<T>>,
    pub senders: usize,
    pub weak_senders: usize,
}

/// The place for one message after another.
struct Slot<T> {
    cell: NonNull<Cell<T>>,
    /// How many receivers have not come for the message yet.
    unread: usize,
    /// All have seen it, and it was dropped.
    is_vacant: bool,
}

/// The place for one message.
pub struct Cell<T> {
    /// How many receivers are not done with the message.
    count: AtomicUsize,
    /// Written under the lock, while the count is 0; read by those that are counted; taken by who counts down to 0.
    message: UnsafeCell<MaybeUninit<T>>,
    /// To the next spare one.
    link: AtomicPtr<Self>,
    /// It has an allocation of its own.
    is_single: bool,
    /// Tells loom that it is to be freed.
    #[cfg(loom)]
    _freed: loom::alloc::Track<()>,
}

// SAFETY: always the same field, which nothing else uses, and which is atomic.
unsafe impl<T> Linked for Cell<T> {
    fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }
}

// SAFETY: messages come from one and are dropped by another; and several clone one at once.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

/// Why there is no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nothing {
    /// There will be.
    Yet,
    /// There will be none.
    Closed,
    /// So many were overwritten.
    Lagged(u64),
}

impl<T> Cell<T> {
    fn new(is_single: bool) -> Self {
        Self {
            count: AtomicUsize::new(0),
            message: UnsafeCell::new(MaybeUninit::uninit()),
            link: AtomicPtr::new(ptr::null_mut()),
            is_single,
            #[cfg(loom)]
            _freed: loom::alloc::Track::new(()),
        }
    }

    /// So many are done with the message. If they were the last, here it is.
    fn done(&self, count: usize) -> Option<T> {
        // Release: reading comes before; acquire: taking comes after. They pair with each other.
        let order = ordering!(AcqRel unless seeded = "broadcast_done_relaxed");
        if self.count.fetch_sub(count, order) != count {
            return None;
        }
        // SAFETY: it was written when the count was set; nobody else is counted, and this happens once.
        let take = |message: *mut MaybeUninit<T>| unsafe { (*message).assume_init_read() };
        Some(self.message.with_mut(take))
    }
}

impl<T> State<T> {
    fn index(&self, number: u64) -> usize {
        // The ring's length is a power of two; what is cut off is a multiple of it.
        number as usize & (self.ring.len() - 1)
    }

    /// How many messages there can be.
    pub fn capacity(&self) -> usize {
        self.ring.len()
    }

    /// How many messages somebody has yet to come for.
    pub fn len(&self) -> usize {
        // Whoever has come for one has come for all before it.
        let (mut seen, mut end) = (0, self.ring.len());
        while seen < end {
            let middle = seen + (end - seen) / 2;
            let index = self.index(self.sent.wrapping_add(middle as u64));
            match self.ring[index].unread {
                0 => seen = middle + 1,
                _ => end = middle,
            }
        }
        self.ring.len() - seen
    }

    /// Whether all have come for all.
    pub fn is_empty(&self) -> bool {
        self.ring[self.index(self.sent.wrapping_sub(1))].unread == 0
    }

    /// Puts in a message, for all receivers. What it overwrites is to be dropped after unlocking.
    fn put(&mut self, message: T) -> Option<T> {
        let index = self.index(self.sent);
        let slot = &mut self.ring[index];
        // SAFETY: cells live as long as the channel.
        let old = unsafe { slot.cell.as_ref() };
        let overwritten = match slot.unread {
            0 => None,
            _ if cfg!(seeded = "broadcast_share_not_taken") => None,
            unread => old.done(unread),
        };
        if !slot.is_vacant
            && overwritten.is_none()
            && !cfg!(seeded = "broadcast_overwrites_readers")
        {
            slot.cell = self
                .spares
                .pop_front()
                .expect("each who reads has brought one");
        }
        // SAFETY: as above.
        let cell = unsafe { slot.cell.as_ref() };
        // SAFETY: nobody is counted there, and the lock is held.
        cell.message
            .with_mut(|place| unsafe { (*place).write(message) });
        // Seen by those who take the lock after this.
        cell.count.store(self.receivers, Relaxed);
        slot.unread = self.receivers;
        slot.is_vacant = false;
        self.sent += 1;
        overwritten
    }

    /// Comes for the message with this number.
    fn come_for(&mut self, next: &mut u64) -> Result<NonNull<Cell<T>>, Nothing> {
        let behind = self.sent - *next;
        if behind == 0 {
            return Err(match self.senders {
                0 => Nothing::Closed,
                _ => Nothing::Yet,
            });
        }
        let missed = behind.saturating_sub(self.ring.len() as u64);
        if missed != 0 {
            *next += missed;
            return Err(Nothing::Lagged(missed));
        }
        let index = self.index(*next);
        let slot = &mut self.ring[index];
        slot.unread -= 1;
        *next += 1;
        Ok(slot.cell)
    }
}

impl<T> Shared<T> {
    /// A channel with one sender, and no receiver. The capacity is a power of two.
    pub fn try_new(capacity: usize) -> Result<Self, NoMemory> {
        // And a spare one for the first receiver.
        let made = try_slice(capacity + 1, |_| Some(Cell::new(false)))?;
        let made = NonNull::from(Box::leak(made));
        let cell = |index| {
            // SAFETY: there are so many.
            unsafe { made.cast::<Cell<T>>().add(index) }
        };
        let slot = |index| Slot {
            cell: cell(index),
            unread: 0,
            is_vacant: true,
        };
        let Ok(ring) = try_slice(capacity, |index| Some(slot(index))) else {
            // SAFETY: leaked above, and nobody knows of it.
            drop(unsafe { Box::from_raw(made.as_ptr()) });
            return Err(NoMemory);
        };
        let mut spares = List::new();
        // SAFETY: cells stay where they are, and this one is in no list.
        unsafe { spares.push_back(cell(capacity)) };
        Ok(Self {
            state: Lock::new(State {
                ring,
                sent: 0,
                receivers: 0,
                readers: 0,
                cells: capacity + 1,
                spares,
                senders: 1,
                weak_senders: 0,
            }),
            sent: Notify::new(),
            unheard: Notify::new(),
            made,
        })
    }

    /// Sends to all receivers: how many those are.
    pub fn send(&self, message: T) -> Result<usize, T> {
        let mut state = self.state.lock();
        let receivers = state.receivers;
        if receivers == 0 {
            drop(state);
            return Err(message);
        }
        let overwritten = state.put(message);
        drop(state);
        self.sent.notify_waiters();
        drop(overwritten);
        Ok(receivers)
    }

    /// One more receiver: the number of the first message that it gets.
    pub fn add_receiver(&self) -> Result<u64, NoMemory> {
        let mut new = None;
        loop {
            let mut state = self.state.lock();
            let is_enough = state.cells > state.capacity() + state.readers;
            if !is_enough {
                match new.take() {
                    // Made without the lock.
                    None => {
                        drop(state);
                        new = Some(try_box(Cell::new(true)).map_err(|_| NoMemory)?);
                        continue;
                    }
                    Some(cell) => {
                        state.cells += 1;
                        // SAFETY: it stays where it is until the channel is dropped, and is in no list.
                        unsafe { state.spares.push_back(NonNull::from(Box::leak(cell))) };
                    }
                }
            }
            state.readers += 1;
            state.receivers += 1;
            let next = state.sent;
            drop(state);
            return Ok(next);
        }
    }

    /// A receiver leaves that would get `next` next, and all up to now is as if it had.
    pub fn remove_receiver(&self, next: &mut u64) {
        let mut state = self.state.lock();
        state.receivers -= 1;
        let (is_last, end) = (state.receivers == 0, state.sent);
        drop(state);
        if is_last {
            self.unheard.notify_waiters();
        }
        let mut panics = Panics::default();
        while *next < end {
            panics.hold(|| drop(self.come_for(next)));
        }
        // Only now it is at no cell any more.
        self.state.lock().readers -= 1;
        panics.go_on();
    }

    /// A clone of the message with this number, which is then the next one's.
    pub fn receive(&self, next: &mut u64) -> Result<T, Nothing>
    where
        T: Clone,
    {
        Ok(self.come_for(next)?.get())
    }

    fn come_for(&self, next: &mut u64) -> Result<Read<'_, T>, Nothing> {
        let cell = self.state.lock().come_for(next)?;
        Ok(Read {
            shared: self,
            cell,
            number: *next - 1,
        })
    }
}

/// A message, which somebody reads.
struct Read<'a, T> {
    shared: &'a Shared<T>,
    cell: NonNull<Cell<T>>,
    number: u64,
}

impl<T: Clone> Read<'_, T> {
    /// A clone of the message. Code of others: no lock is held.
    fn get(&self) -> T {
        // SAFETY: cells live as long as the channel.
        let cell = unsafe { self.cell.as_ref() };
        // SAFETY: this is one that is counted, so the message is there and nobody changes it.
        let clone =
            |message: *const MaybeUninit<T>| unsafe { (*message).assume_init_ref().clone() };
        cell.message.with(clone)
    }
}

impl<T> Drop for Read<'_, T> {
    fn drop(&mut self) {
        // SAFETY: cells live as long as the channel.
        let Some(message) = (unsafe { self.cell.as_ref() }).done(1) else {
            return;
        };
        let mut state = self.shared.state.lock();
        let index = state.index(self.number);
        let slot = &mut state.ring[index];
        if slot.cell == self.cell {
            slot.is_vacant = true;
        } else if !cfg!(seeded = "broadcast_cell_lost") {
            // It was left to those who read it. It is in no slot until it was a spare one, so it is not mistaken.
            // SAFETY: it is in no list, and stays where it is.
            unsafe { state.spares.push_back(self.cell) };
        }
        drop(state);
        drop(message);
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let ring = mem::take(&mut state.ring);
        let spares = mem::take(&mut state.spares);
        // Memory is freed without the lock.
        drop(state);
        for cell in ring.iter().map(|slot| slot.cell).chain(spares) {
            // SAFETY: 1. it is in one place, and lives until here; 2. there are no receivers any more, so nobody is at
            // it, and there is no message in it.
            unsafe {
                if cell.as_ref().is_single {
                    drop(Box::from_raw(cell.as_ptr()));
                }
            }
        }
        // SAFETY: made as a box; the cells in it are used no more.
        drop(unsafe { Box::from_raw(self.made.as_ptr()) });
    }
}
