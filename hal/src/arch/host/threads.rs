//! Which core a thread plays.
//!
//! A machine ([`bring_up::start`](super::bring_up::start)) takes the numbers
//! from 0 up, the lot (`pool`) those from 32 up. Any other thread that asks for its core or context, as a test
//! does when it takes a lock, is lent a number from 63 down to 48, with a
//! context of its own and interrupts enabled, and gives it back when it ends.
//! With those taken it gets a number from [`MAX_CORES`] up, of which there are as
//! many as there are threads: locks and kicks work there as anywhere; but no set
//! of cores holds such a number, and no table with a row for each core.

use crate::{context::ContextBlock, cores::MAX_CORES, stack::Bounds};
use core::{
    cell::Cell,
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*},
};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The first number that is lent: those below are left to the lot.
const FIRST_LENT: usize = 48;

/// What belongs to a core.
#[repr(align(128))]
pub struct Core {
    /// Its number.
    pub(super) id: usize,

    // The thread that plays it:
    /// Block of the context that runs.
    pub(super) current: AtomicPtr<ContextBlock>,
    /// Whether interrupts may be delivered.
    pub(super) is_enabled: AtomicBool,
    /// How many interrupt handlers deep it is.
    pub(super) depth: AtomicU32,
    /// When its timer fires; `u64::MAX`: never.
    pub(super) deadline: AtomicU64,
    /// What the executor keeps for it.
    pub(super) local: AtomicPtr<()>,
    /// The context the thread itself is.
    pub(super) first_context: ContextBlock,

    // Any thread:
    /// What is to be delivered; see `interrupts`.
    pub(super) pending: AtomicU32,
    /// Lines that are to be delivered, one bit each.
    pub(super) lines: AtomicU64,
    /// Held between the last look at `pending` and falling asleep.
    pub(super) falling_asleep: Mutex<()>,
    /// Ends its sleep.
    pub(super) wake: Condvar,
}

impl Core {
    const fn new(id: usize) -> Self {
        Self {
            id,
            current: AtomicPtr::new(ptr::null_mut()),
            is_enabled: AtomicBool::new(false),
            depth: AtomicU32::new(0),
            deadline: AtomicU64::new(u64::MAX),
            local: AtomicPtr::new(ptr::null_mut()),
            first_context: ContextBlock::new(),
            pending: AtomicU32::new(0),
            lines: AtomicU64::new(0),
            falling_asleep: Mutex::new(()),
            wake: Condvar::new(),
        }
    }
}

static CORES: [Core; MAX_CORES] = {
    let mut cores = [const { Core::new(0) }; MAX_CORES];
    let mut id = 0;
    while id < MAX_CORES {
        cores[id].id = id;
        id += 1;
    }
    cores
};

/// Cores with numbers from `MAX_CORES` up. They stay when their threads end: others may still kick them.
struct More {
    all: Vec<&'static Core>,
    /// Those that no thread plays.
    free: Vec<&'static Core>,
}

static MORE: Mutex<More> = Mutex::new(More {
    all: Vec::new(),
    free: Vec::new(),
});

fn more() -> MutexGuard<'static, More> {
    MORE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl More {
    fn take(&mut self) -> &'static Core {
        self.free.pop().unwrap_or_else(|| {
            let core = Box::leak(Box::new(Core::new(MAX_CORES + self.all.len())));
            self.all.push(core);
            core
        })
    }
}

/// The core with this number.
pub(super) fn core_of(id: usize) -> &'static Core {
    match CORES.get(id) {
        Some(core) => core,
        None => more().all[id - MAX_CORES],
    }
}

/// Numbers that are in use, one bit each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Takes a number; false: another thread has it.
fn take(id: usize) -> bool {
    // Acquire pairs with the release in `release`: what the former thread did to the core is seen.
    TAKEN.fetch_or(1 << id, Acquire) & (1 << id) == 0
}

/// Takes a number for a thread that is to sit down there. From here on kicks
/// for it are kept. False: another thread has it.
pub(super) fn reserve(id: usize) -> bool {
    let is_ours = take(id);
    if is_ours {
        reset(&CORES[id], false);
    }
    is_ours
}

/// Gives a number back on which nobody sits any more.
pub(super) fn release(id: usize) {
    if id < MAX_CORES {
        // Release pairs with the acquire in `take`.
        TAKEN.fetch_and(!(1 << id), Release);
    } else {
        let core = core_of(id);
        more().free.push(core);
    }
}

thread_local! {
    /// The core that this thread plays; null: none yet.
    static CORE: Cell<*const Core> = const { Cell::new(ptr::null()) };
    /// Gives a lent core back when the thread ends.
    static SEAT: Cell<Option<Seat>> = const { Cell::new(None) };
}

/// The core that this thread plays.
#[inline(never)]
pub(super) fn core() -> &'static Core {
    let core = CORE.get();
    if core.is_null() {
        return lend();
    }
    // SAFETY: not null, so it is in `CORES` or was leaked by `More::take`.
    unsafe { &*core }
}

/// A thread's right to play a core.
pub(super) struct Seat {
    id: usize,
}

impl Seat {
    /// Makes this thread play core `id`, with interrupts masked. None: another thread does.
    pub(super) fn take(id: usize) -> Option<Self> {
        reserve(id).then(|| Self::sit_down(id))
    }

    /// Makes this thread play core `id`, which was reserved for it.
    pub(super) fn sit_down(id: usize) -> Self {
        CORE.set(&CORES[id]);
        Self { id }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        CORE.set(ptr::null());
        release(self.id);
    }
}

/// Lends a core to a thread of no machine.
#[cold]
fn lend() -> &'static Core {
    let core = match (FIRST_LENT..MAX_CORES).rev().find(|&id| take(id)) {
        Some(id) => &CORES[id],
        None => more().take(),
    };
    reset(core, true);
    CORE.set(core);
    // Fails only in a thread that is about to end; then the number stays taken.
    let _ = SEAT.try_with(|seat| seat.set(Some(Seat { id: core.id })));
    core
}

/// Makes a core as new, whoever played it before.
fn reset(core: &'static Core, is_enabled: bool) {
    let first: *const ContextBlock = &raw const core.first_context;
    core.current.store(first.cast_mut(), Relaxed);
    core.is_enabled.store(is_enabled, Relaxed);
    core.depth.store(0, Relaxed);
    core.deadline.store(u64::MAX, Relaxed);
    core.pending.store(0, Relaxed);
    core.lines.store(0, Relaxed);
    core.local.store(ptr::null_mut(), Relaxed);
    let context = &core.first_context;
    context.guards.store(0, Relaxed);
    context.need_resched.store(0, Relaxed);
    context.masks.store(0, Relaxed);
    context.forget_task();
    // SAFETY: nothing runs in it before a thread sits down. Where the OS put its stack is not known.
    unsafe { context.set_stack(Bounds::EMPTY) };
}
