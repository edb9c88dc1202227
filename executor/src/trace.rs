//! What happened when, core by core: spawns, polls, wakes, steals, sleeps,
//! interrupts, in a ring for each core that keeps the latest.
//!
//! Compiled in by the feature `trace`; without it, every call here is nothing.
//! With it, a core that notes nothing looks at one word and goes on.
//!
//! A ring is written by its core alone, but also by interrupts on that core, in
//! the middle of anything: each event first takes a slot of its own, then fills
//! it, and says so last. Whoever reads meanwhile leaves out what is not said to
//! be complete.

use crate::task::TaskId;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A task was spawned; by another, if that is given.
    Spawn = 1,
    /// A poll began.
    PollBegin = 2,
    /// A poll ended.
    PollEnd = 3,
    /// A task was woken; by another, if that is given.
    Wake = 4,
    /// Tasks were stolen; one of them is given.
    Steal = 5,
    /// The core fell asleep.
    Park = 6,
    /// The core woke.
    Unpark = 7,
    /// An interrupt came.
    Interrupt = 8,
}

#[cfg(feature = "trace")]
pub use ring::{Event, events, is_on, start, stop};
#[cfg(feature = "trace")]
pub(crate) use ring::{event, event_by};

/// Notes that an interrupt came. For the kernel's interrupt handlers.
#[inline]
pub fn interrupt() {
    event(Kind::Interrupt, || TaskId::NONE);
}

/// Notes an event of a task.
#[cfg(not(feature = "trace"))]
#[inline(always)]
pub(crate) fn event(_kind: Kind, _task: impl FnOnce() -> TaskId) {}

/// Notes an event that the task which runs here made happen to another.
#[cfg(not(feature = "trace"))]
#[inline(always)]
pub(crate) fn event_by(_kind: Kind, _task: impl FnOnce() -> TaskId) {}

#[cfg(feature = "trace")]
mod ring {
    use super::Kind;
    use crate::task::{TaskId, waker};
    use alloc::{boxed::Box, vec::Vec};
    use core::{
        ptr,
        sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*, fence},
    };
    use hal::{
        clock,
        cores::{self, MAX_CORES},
        preempt,
    };

    static IS_ON: AtomicBool = AtomicBool::new(false);
    /// Of each core that has noted something; made by `start`, never freed: an interrupt may be writing.
    static RINGS: [AtomicPtr<Ring>; MAX_CORES] =
        [const { AtomicPtr::new(ptr::null_mut()) }; MAX_CORES];

    struct Ring {
        slots: Box<[Slot]>,
        /// Events so far. Written by its core and the interrupts on it.
        count: AtomicU64,
    }

    #[derive(Default)]
    struct Slot {
        /// Number of the event plus one, once it is complete; 0 while it is written.
        stamp: AtomicU64,
        time: AtomicU64,
        kind: AtomicU64,
        task: AtomicU64,
        by: AtomicU64,
    }

    /// Something that happened.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Event {
        /// The how manieth event of its core it is.
        pub number: u64,
        /// When, as `hal::clock::now` counts.
        pub time: u64,
        /// What.
        pub kind: Kind,
        /// To which task.
        pub task: Option<TaskId>,
        /// The task that made it happen.
        pub by: Option<TaskId>,
    }

    /// Begins to note what happens, from the start. Each core's ring keeps the
    /// latest `capacity` events; the capacity of the first call counts.
    pub fn start(capacity: usize) {
        IS_ON.store(false, Relaxed);
        for ring in &RINGS {
            // Acquire pairs with the release below.
            match unsafe_ring(ring.load(Acquire)) {
                Some(ring) => ring
                    .slots
                    .iter()
                    .for_each(|slot| slot.stamp.store(0, Relaxed)),
                None => {
                    let slots = (0..capacity.max(1)).map(|_| Slot::default()).collect();
                    let made = Box::new(Ring {
                        slots,
                        count: AtomicU64::new(0),
                    });
                    // Release pairs with the acquire in `event_with`.
                    ring.store(Box::into_raw(made), Release);
                }
            }
        }
        IS_ON.store(true, Release);
    }

    /// Notes nothing more. What was noted stays.
    pub fn stop() {
        IS_ON.store(false, Relaxed);
    }

    /// Whether events are noted.
    pub fn is_on() -> bool {
        IS_ON.load(Relaxed)
    }

    fn unsafe_ring<'a>(ring: *mut Ring) -> Option<&'a Ring> {
        // SAFETY: null, or a box that is never freed.
        unsafe { ring.as_ref() }
    }

    /// Notes an event of a task.
    #[inline(always)]
    pub(crate) fn event(kind: Kind, task: impl FnOnce() -> TaskId) {
        if IS_ON.load(Relaxed) {
            note(kind, task(), TaskId::NONE);
        }
    }

    /// Notes an event that the task which runs here made happen to another.
    #[inline(always)]
    pub(crate) fn event_by(kind: Kind, task: impl FnOnce() -> TaskId) {
        if IS_ON.load(Relaxed) {
            let in_task = !hal::irq::in_handler();
            let by = waker::current_header().filter(|_| in_task);
            note(kind, task(), by.map_or(TaskId::NONE, |by| by.id()));
        }
    }

    #[cold]
    fn note(kind: Kind, task: TaskId, by: TaskId) {
        let _guard = preempt::guard();
        // Acquire pairs with the release in `start`.
        let ring = RINGS.get(cores::this_core());
        let Some(ring) = ring.and_then(|ring| unsafe_ring(ring.load(Acquire))) else {
            return;
        };
        // One step, as an interrupt may come in between and note something too.
        let number = ring.count.fetch_add(1, Relaxed);
        let slot = &ring.slots[(number % ring.slots.len() as u64) as usize];
        slot.stamp.store(0, Relaxed);
        // Pairs with the fence in `read`: who sees any of what follows sees that it is being written.
        fence(Release);
        slot.time.store(clock::now(), Relaxed);
        slot.kind.store(kind as u64, Relaxed);
        slot.task.store(task.as_u64(), Relaxed);
        slot.by.store(by.as_u64(), Relaxed);
        // Release pairs with the acquire in `read`.
        slot.stamp.store(number + 1, Release);
    }

    impl Slot {
        fn read(&self) -> Option<Event> {
            // Acquire pairs with the release in `note`.
            let stamp = self.stamp.load(Acquire);
            let id = |id: &AtomicU64| {
                let id = id.load(Relaxed);
                (id != 0).then(|| TaskId::from_u64(id))
            };
            let event = Event {
                number: stamp.checked_sub(1)?,
                time: self.time.load(Relaxed),
                kind: kind_of(self.kind.load(Relaxed))?,
                task: id(&self.task),
                by: id(&self.by),
            };
            // Pairs with the fence in `note`: if it was written again meanwhile, the stamp says so.
            fence(Acquire);
            (self.stamp.load(Relaxed) == stamp).then_some(event)
        }
    }

    fn kind_of(number: u64) -> Option<Kind> {
        use Kind::*;
        [
            Spawn, PollBegin, PollEnd, Wake, Steal, Park, Unpark, Interrupt,
        ]
        .into_iter()
        .find(|kind| *kind as u64 == number)
    }

    /// The latest events of a core of the machine, the oldest first, and how
    /// many more there were before them.
    pub fn events(core: usize) -> (Vec<Event>, u64) {
        // Acquire pairs with the release in `start`.
        let Some(ring) = unsafe_ring(RINGS[core].load(Acquire)) else {
            return (Vec::new(), 0);
        };
        let mut events: Vec<Event> = ring.slots.iter().filter_map(Slot::read).collect();
        events.sort_unstable_by_key(|event| event.number);
        let lost = events.first().map_or(0, |event| event.number);
        (events, lost)
    }
}
