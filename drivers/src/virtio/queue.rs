//! A split virtqueue: a table of descriptors, a ring of chains that are available to the device, a ring of those that it has used.
//!
//! The memory of all three is the device's to write, also where it must not. So the queue keeps in memory of its own which descriptors are free, which
//! chains the device has and how long they are, and both indices; of the shared memory it reads only the words that are the device's: the used
//! index, the used entries, its wish not to be notified. What the device says is used must be a chain that it has, and what it says it has written
//! must have had room.

use super::Wrong;
use crate::dma::Dma;
use alloc::vec::Vec;
use executor::NoMemory;
use hal::dma::order;

/// Most pieces of a chain.
pub const MOST_PIECES: usize = 3;

/// Bytes of a descriptor, and where its parts are.
const DESCRIPTOR: usize = 16;
const HAS_NEXT: u16 = 1;
const IS_WRITTEN: u16 = 2;
/// The used ring begins at a boundary of this: legacy devices want it so.
const ALIGN: usize = 4096;

const NO_INTERRUPT: u16 = 1;
const NO_NOTIFY: u16 = 1;

/// A piece of memory for the device.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Where it is.
    pub physical: u64,
    /// How many bytes.
    pub length: u32,
    /// Whether the device writes it, and does not read it.
    pub is_written: bool,
}

/// Where the parts of a queue are.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The descriptors.
    pub descriptors: u64,
    /// What is available.
    pub available: u64,
    /// What is used.
    pub used: u64,
}

/// A chain that the device has.
struct Chain<T> {
    token: T,
    descriptors: [u16; MOST_PIECES],
    count: u8,
    /// How many bytes the device may write to it.
    room: u32,
}

/// A queue. `T` says whose each chain is.
pub struct Queue<T> {
    index: u16,
    size: u16,
    /// Each side says at which entry it wants to hear again.
    has_events: bool,

    // Shared with the device:
    memory: Dma,
    available: usize,
    used: usize,

    // Our own:
    free: Vec<u16>,
    /// By their first descriptor.
    chains: Vec<Option<Chain<T>>>,
    in_flight: u16,
    next_available: u16,
    next_used: u16,
    /// `next_available` when the device was last notified.
    notified: u16,
    wrong: Option<Wrong>,
}

impl<T> Queue<T> {
    /// A queue of `size` entries, which is a power of two.
    pub fn new(index: u16, size: u16, has_events: bool) -> Result<Self, NoMemory> {
        assert!(size.is_power_of_two(), "no size of a queue");
        let entries = usize::from(size);
        let available = DESCRIPTOR * entries;
        let used = (available + 4 + 2 * entries + 2).next_multiple_of(ALIGN);
        let memory = Dma::new(used + 4 + 8 * entries + 2)?;
        let mut free = Vec::new();
        free.try_reserve_exact(entries).map_err(|_| NoMemory)?;
        free.extend((0..size).rev());
        let mut chains = Vec::new();
        chains.try_reserve_exact(entries).map_err(|_| NoMemory)?;
        chains.extend((0..size).map(|_| None));
        let mut queue = Self {
            index,
            size,
            has_events,
            memory,
            available,
            used,
            free,
            chains,
            in_flight: 0,
            next_available: 0,
            next_used: 0,
            notified: 0,
            wrong: None,
        };
        queue.disable_interrupts();
        Ok(queue)
    }

    /// Its number at the device.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// How many entries it has.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// How many chains the device has.
    pub fn in_flight(&self) -> u16 {
        self.in_flight
    }

    /// Where the device finds its parts.
    pub fn places(&self) -> Places {
        Places {
            descriptors: self.memory.physical(0),
            available: self.memory.physical(self.available),
            used: self.memory.physical(self.used),
        }
    }

    /// Whether a chain of so many pieces can be added.
    pub fn has_room(&self, pieces: usize) -> bool {
        pieces <= self.free.len()
    }

    /// Gives a chain to the device: it is the device's until [`pop`](Self::pop) returns the token. If there is no room, that is returned now.
    pub fn add(&mut self, pieces: &[Piece], token: T) -> Result<(), T> {
        let count = pieces.len();
        if count == 0 || count > MOST_PIECES || !self.has_room(count) {
            return Err(token);
        }
        let mut descriptors = [0; MOST_PIECES];
        for at in descriptors[..count].iter_mut() {
            // There are as many, it was just seen.
            *at = self.free.pop().unwrap_or_default();
        }
        let mut room = 0u32;
        for (at, piece) in pieces.iter().enumerate() {
            let place = DESCRIPTOR * usize::from(descriptors[at]);
            let mut flags = 0;
            if piece.is_written {
                flags |= IS_WRITTEN;
                room = room.saturating_add(piece.length);
            }
            if at + 1 < count {
                flags |= HAS_NEXT;
                self.memory.write16(place + 14, descriptors[at + 1]);
            }
            self.memory.write64(place, piece.physical);
            self.memory.write32(place + 8, piece.length);
            self.memory.write16(place + 12, flags);
        }
        let first = descriptors[0];
        self.chains[usize::from(first)] = Some(Chain {
            token,
            descriptors,
            count: count as u8,
            room,
        });
        self.in_flight += 1;
        let entry = usize::from(self.next_available % self.size);
        self.memory.write16(self.available + 4 + 2 * entry, first);
        self.next_available = self.next_available.wrapping_add(1);
        // The chain before the index: the device reads them the other way round.
        order();
        self.memory.write16(self.available + 2, self.next_available);
        Ok(())
    }

    /// Whether the device is to be notified of what was added since this was last asked.
    #[must_use]
    pub fn needs_notify(&mut self) -> bool {
        let (new, old) = (self.next_available, self.notified);
        if new == old {
            return false;
        }
        self.notified = new;
        // The index before its wish: the device writes that, and then looks at the index again.
        order();
        if self.has_events {
            let wanted = self
                .memory
                .read16(self.used + 4 + 8 * usize::from(self.size));
            new.wrapping_sub(wanted).wrapping_sub(1) < new.wrapping_sub(old)
        } else {
            self.memory.read16(self.used) & NO_NOTIFY == 0
        }
    }

    /// How many chains the device says it has used and were not taken yet.
    fn pending(&mut self) -> Result<u16, Wrong> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let used = self.memory.read16(self.used + 2);
        let pending = used.wrapping_sub(self.next_used);
        if pending > self.in_flight {
            return self.fail("it has used more than it was given");
        }
        Ok(pending)
    }

    fn fail<U>(&mut self, what: &'static str) -> Result<U, Wrong> {
        self.wrong = Some(Wrong(what));
        Err(Wrong(what))
    }

    /// Whether there is something to [`pop`](Self::pop).
    pub fn has_used(&mut self) -> Result<bool, Wrong> {
        Ok(self.pending()? != 0)
    }

    /// Takes back a chain that the device has used: whose it is, and how many bytes the device has written to it.
    pub fn pop(&mut self) -> Result<Option<(T, u32)>, Wrong> {
        if self.pending()? == 0 {
            return Ok(None);
        }
        // The index before the entry, and before all that the device has written to the chain.
        order();
        let entry = self.used + 4 + 8 * usize::from(self.next_used % self.size);
        let first = self.memory.read32(entry);
        let written = self.memory.read32(entry + 4);
        let chain = usize::try_from(first)
            .ok()
            .and_then(|first| self.chains.get_mut(first));
        let Some(slot) = chain else {
            return self.fail("it has used a descriptor that is not there");
        };
        let Some(chain) = slot.take_if(|chain| written <= chain.room) else {
            let what = match slot {
                Some(_) => "it has written more than there is room for",
                None => "it has used what it was not given",
            };
            return self.fail(what);
        };
        for at in &chain.descriptors[..usize::from(chain.count)] {
            self.free.push(*at);
        }
        self.in_flight -= 1;
        self.next_used = self.next_used.wrapping_add(1);
        Ok(Some((chain.token, written)))
    }

    /// The device interrupts when it uses a chain from here on; for what it used before, look afterwards.
    pub fn enable_interrupts(&mut self) {
        if self.has_events {
            let event = self.available + 4 + 2 * usize::from(self.size);
            self.memory.write16(event, self.next_used);
        } else {
            self.memory.write16(self.available, 0);
        }
        // Before the look: the device looks at this after it has written the used index.
        order();
    }

    /// The device need not interrupt. It may.
    pub fn disable_interrupts(&mut self) {
        if self.has_events {
            // At an entry that is far away.
            let event = self.available + 4 + 2 * usize::from(self.size);
            self.memory.write16(event, self.next_used.wrapping_sub(1));
        } else {
            self.memory.write16(self.available, NO_INTERRUPT);
        }
    }

    /// The memory is left to the device, which does not stop to use it.
    pub fn leak(self) {
        self.memory.leak();
    }
}
