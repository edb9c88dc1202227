//! Stacks of contexts: address space for all of their room, memory as far as
//! it is used.
//!
//! Each takes one or more slots of 1 MiB, whose page tables are made with the
//! first stack there and stay. A page fault in the room gives that page memory
//! ([`grow`]). When a stack is dropped, its frames and slots wait until every
//! core has forgotten the pages ([`Generations`]).

use crate::{
    arch,
    context::{self, ContextBlock},
    cores::{self, MAX_CORES},
    flush::{self, Ticket},
    layout::{self, PAGE},
    paging::{self, sparse},
    preempt,
    reserve::Reserve,
    stack::{
        Bounds, FIRST, NoMemory,
        generations::{Generations, Links},
        slots::Slots,
    },
    sync::{Lock, Rank, ranked},
};
use core::sync::atomic::Ordering::Relaxed;

const SLOT: usize = 1 << 20;
/// 16384 slots: 16 GiB of address space.
const WORDS: usize = 256;
/// Below its room a stack gets memory only under a guard or a mask, so that what is guarded comes to its
/// end. It has overflowed then, and is told so when the last guard is dropped.
pub const BELOW: usize = READY * PAGE;
/// All of a slot but the guard page, and what is above that.
pub const DEFAULT_SIZE: usize = SLOT - PAGE - BELOW;
/// How many stacks are given back at a time, so that nobody pays for all of a generation.
const AT_ONCE: usize = 8;
/// When this many wait for their ticket to be drawn, the cores that hold up the last one are kicked:
/// one that sleeps might hold it up for ever.
const MANY: usize = 64;
/// How far a context may grow under a guard, in pages: as much as each core keeps ready.
pub const READY: usize = 4;

/// What is taken, and what waits to be given back.
struct Room {
    slots: Slots<WORDS>,
    /// Stacks that are gone, by their topmost frame; see [`Remains`].
    gone: Generations<Ticket>,
    /// How many cores are giving one back.
    busy: usize,
}

static ROOM: Lock<Room> = ranked(
    Rank::Stacks,
    Room {
        slots: Slots::new(),
        gone: Generations::new(),
        busy: 0,
    },
);

static RESERVES: [Reserve<READY>; MAX_CORES] = [const { Reserve::new() }; MAX_CORES];

/// Makes a stack above a page that is never there.
pub fn reserve(size: usize) -> Result<Bounds, NoMemory> {
    give_back_some();
    loop {
        match try_reserve(size) {
            Err(NoMemory) if wait_for_some() => {}
            result => return result,
        }
    }
}

fn try_reserve(size: usize) -> Result<Bounds, NoMemory> {
    let count = size
        .checked_add(PAGE + BELOW)
        .ok_or(NoMemory)?
        .div_ceil(SLOT);
    let first = ROOM.lock().slots.take(count).ok_or(NoMemory)?;
    let high = layout::STACK_SLOTS + (first + count) * SLOT;
    let low = high - size;
    match furnish(low - BELOW, high) {
        Ok(()) => Ok(Bounds { low, high }),
        Err(error) => {
            ROOM.lock().slots.give_back(first, count);
            Err(error)
        }
    }
}

/// Makes the tables of all the room, and gives memory to the first pages.
fn furnish(low: usize, high: usize) -> Result<(), NoMemory> {
    let sink = paging::sink().ok_or(NoMemory)?;
    sparse::prepare(low, high - low).map_err(|_| NoMemory)?;
    let mut frames = [0; FIRST / PAGE];
    for i in 0..frames.len() {
        let Some(frame) = paging::frame() else {
            frames[..i].iter().for_each(|&frame| sink(frame));
            return Err(NoMemory);
        };
        frames[i] = frame;
    }
    for (page, frame) in (high - FIRST..high).step_by(PAGE).zip(frames) {
        sparse::fill(page, frame).expect("the tables are there, and the slot is empty");
    }
    Ok(())
}

/// Gives it back, once every core has forgotten it.
///
/// # Safety
/// It is from [`reserve`], and nobody's any more.
pub unsafe fn release(bounds: Bounds) {
    let mut chain = 0;
    // SAFETY: the caller's promise.
    unsafe {
        sparse::clear(
            bounds.low - BELOW,
            bounds.high - bounds.low + BELOW,
            |frame| {
                Remains(frame).write(Remains::BELOW, chain);
                chain = frame;
            },
        );
    }
    // The highest page came last.
    let remains = Remains(chain);
    let count = (bounds.high - bounds.low + PAGE + BELOW).div_ceil(SLOT);
    let first = (bounds.high - layout::STACK_SLOTS) / SLOT - count;
    remains.write(Remains::FIRST_SLOT, first as u64);
    remains.write(Remains::SLOTS, count as u64);
    let mut room = ROOM.lock();
    let hurry = room.gone.add(&Chained, remains.0) == MANY;
    let ticket = room.gone.ticket().filter(|_| hurry);
    drop(room);
    if let Some(ticket) = ticket {
        ticket.hurry();
    }
    give_back_some();
}

/// How much of it has memory.
pub fn memory(bounds: Bounds) -> usize {
    sparse::count(bounds.low - BELOW, bounds.high - bounds.low + BELOW) * PAGE
}

/// The topmost frame of a stack that is gone. In its first words it keeps what
/// is to be given back; those below it are chained by their first word.
struct Remains(u64);

impl Remains {
    /// The next frame of the same stack.
    const BELOW: usize = 0;
    /// The next stack.
    const NEXT: usize = 1;
    const FIRST_SLOT: usize = 2;
    const SLOTS: usize = 3;

    fn read(&self, word: usize) -> u64 {
        let words = layout::phys_to_virt(self.0) as *const [u64; 4];
        // SAFETY: the frame was unmapped from its stack and is nobody's; the direct map has it.
        unsafe { (*words)[word] }
    }

    fn write(&self, word: usize, value: u64) {
        let words = layout::phys_to_virt(self.0) as *mut [u64; 4];
        // SAFETY: as above.
        unsafe { (*words)[word] = value }
    }
}

/// Stacks that are gone, one behind the other.
struct Chained;

impl Links for Chained {
    fn next(&self, node: u64) -> u64 {
        Remains(node).read(Remains::NEXT)
    }

    fn set_next(&self, node: u64, next: u64) {
        Remains(node).write(Remains::NEXT, next);
    }
}

/// Gives back a few of the stacks that no core can reach any more.
fn give_back_some() {
    for _ in 0..AT_ONCE {
        // Others wait for who is busy, so that must not be switched away.
        let _guard = preempt::guard();
        let mut room = ROOM.lock();
        // All of them were unmapped before they were added, so a ticket that is drawn now covers them.
        let is_done = |ticket: Ticket| ticket.is_done() || cfg!(broken = "stack_reused_at_once");
        room.gone.advance(&Chained, flush::issue, is_done);
        let Some(gone) = room.gone.take(&Chained) else {
            return;
        };
        room.busy += 1;
        drop(room);
        let gone = Remains(gone);
        let (first, count) = (gone.read(Remains::FIRST_SLOT), gone.read(Remains::SLOTS));
        let sink = paging::sink().expect("there was a sink when it was made");
        let mut frame = gone.0;
        while frame != 0 {
            let below = Remains(frame).read(Remains::BELOW);
            sink(frame);
            frame = below;
        }
        let mut room = ROOM.lock();
        room.slots.give_back(first as usize, count as usize);
        room.busy -= 1;
    }
}

/// Waits until all is given back.
pub fn collect() {
    while wait_for_some() {}
}

/// Waits for the oldest of what is to be given back, and gives back some. False: all was.
fn wait_for_some() -> bool {
    let room = ROOM.lock();
    let ticket = room.gone.ticket();
    let is_over = room.gone.is_empty() && room.busy == 0;
    drop(room);
    if is_over {
        return false;
    }
    match ticket {
        Some(ticket) => ticket.wait(),
        None => crate::pause(),
    }
    give_back_some();
    true
}

/// Gives memory to the page at `address`, which is missing, if it is in the
/// room of the current context's stack; says whether it is. In the fault
/// handler, and only if that has interrupted the context itself.
///
/// Nothing else can be under way with this page: a stack is touched below what
/// was ever used by nobody but the context that runs on it. And the context
/// can be saved: while one block is current and another context's registers
/// are in use, in `context::switch`, no stack grows.
pub fn grow(address: usize) -> Result<bool, NoMemory> {
    let context = context::current();
    let window = layout::STACK_SLOTS..layout::STACK_SLOTS + Slots::<WORDS>::COUNT * SLOT;
    let room = context.stack();
    if !window.contains(&address) || !window.contains(&room.low) {
        return Ok(false);
    }
    if !room.contains(address) {
        if context.is_free() || !(room.low - BELOW..room.low).contains(&address) {
            return Ok(false);
        }
        preempt::ask(context, preempt::OVERFLOW);
        // As for a frame of the reserve, below: a mask is dropped without a look.
        if context.masks.load(Relaxed) != 0 {
            arch::kick_self();
        }
    }
    let page = layout::page_down(address as u64) as usize;
    if !sparse::is_filled(page) {
        let frame = frame_for(context).ok_or(NoMemory)?;
        sparse::fill(page, frame).expect("its tables are there");
    }
    Ok(true)
}

/// A frame for the stack of `context`, which runs here.
fn frame_for(context: &ContextBlock) -> Option<u64> {
    if context.is_free() {
        // It may be waited for, though this is a handler: whoever holds the frame allocator's lock is
        // another core, because the interrupted context holds none.
        return paging::frame();
    }
    let core = cores::this_core();
    let frame = RESERVES[core].take();
    assert!(
        frame.is_some(),
        "the stack has grown by more than {READY} pages under a guard: core {core} has no page left for it"
    );
    // Filled again when the last guard is dropped. Who masks need not hold one, but lets
    // interrupts in: then this one comes, and its end is the time.
    preempt::ask(context, preempt::REFILL);
    if context.masks.load(Relaxed) != 0 {
        arch::kick_self();
    }
    frame
}

/// The current context has overflowed its stack under a guard, and holds none any more: does so again.
pub fn overflow() {
    let below = below(context::current());
    // SAFETY: a word of the guard page, which is never there: who calls this is left for good.
    unsafe { (below as *const usize).read_volatile() };
}

/// The first word that a context's stack can never have.
pub fn below(context: &ContextBlock) -> usize {
    context.stack().low - BELOW - size_of::<usize>()
}

/// Whether this core's reserve is to be filled. With interrupts masked.
pub fn lacks() -> bool {
    RESERVES[cores::this_core()].lacks()
}

/// Fills this core's reserve. The caller holds no lock; a handler, if what it interrupted holds none.
pub fn refill() {
    let Some(sink) = paging::sink() else { return };
    // The reserve may be empty: where the frame allocator's lock is held, the stack must not grow.
    arch::touch_below::<PAGE>();
    RESERVES[cores::this_core()].refill(paging::frame, sink);
}

/// How many frames this core's reserve has.
pub fn ready() -> usize {
    RESERVES[cores::this_core()].count()
}
