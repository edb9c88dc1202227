//! The cores of the machine: numbers, sets, coming up, kicks.
//!
//! Cores are numbered 0.. as the firmware lists them; core 0 booted. One that
//! never comes up leaves a hole, so "all cores" is a [`CoreSet`], not a count.

#[cfg(not(loom))]
use crate::arch;
use crate::sync::atomic::{AtomicU8, Ordering::*};

/// Most cores that are used. A set of them is one word.
pub const MAX_CORES: usize = 64;

/// Number of the core this runs on. It may be another by the time it is used,
/// unless interrupts are masked or a guard is held.
///
/// Below [`MAX_CORES`]; but on the host, where any thread is a core, those that
/// are too many for it have higher numbers. They can be kicked, and are in no set.
#[cfg(not(loom))]
#[inline]
pub fn this_core() -> usize {
    arch::this_core()
}

/// The word that the executor keeps for this core; null until it is set. The
/// caller has interrupts masked or holds a guard: else it may be another core's
/// by the time it is used.
#[cfg(not(loom))]
#[inline]
pub fn local() -> *mut () {
    arch::local()
}

/// Keeps a word for this core, with interrupts masked or under a guard.
#[cfg(not(loom))]
#[inline]
pub fn set_local(local: *mut ()) {
    arch::set_local(local);
}

/// Makes an idle core look for work, or a busy one take an interrupt.
#[cfg(not(loom))]
pub fn kick(core: usize) {
    arch::kick(core);
}

/// A set of cores.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreSet(pub u64);

impl CoreSet {
    /// No core.
    pub const EMPTY: Self = Self(0);

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `core` is one of them.
    pub fn contains(self, core: usize) -> bool {
        core < MAX_CORES && self.0 & (1 << core) != 0
    }

    /// The same without `core`.
    pub fn without(self, core: usize) -> Self {
        match self.contains(core) {
            true => Self(self.0 & !(1 << core)),
            false => self,
        }
    }

    /// The cores, lowest number first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let core = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(core)
        })
    }
}

impl FromIterator<usize> for CoreSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cores: I) -> Self {
        Self(cores.into_iter().fold(0, |set, core| set | 1 << core))
    }
}

impl core::fmt::Debug for CoreSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// How far one core has come. Both sides may decide, exactly one does: the
/// core by [`arrive`](Arrival::arrive), whoever waits for it by [`give_up`](Arrival::give_up).
/// So a core that comes too late never joins a machine that goes on without it.
pub struct Arrival(AtomicU8);

const ABSENT: u8 = 0;
const UP: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Arrival {
    /// Not there yet.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU8::new(ABSENT))
    }

    #[cfg(loom)]
    /// Not there yet.
    pub fn new() -> Self {
        Self(AtomicU8::new(ABSENT))
    }

    /// The core says that it is up. False: too late, it must stay out.
    #[must_use = "a core that is too late must not go on"]
    pub fn arrive(&self) -> bool {
        if cfg!(seeded = "arrival_without_exchange") {
            let absent = self.0.load(Acquire) == ABSENT;
            self.0.store(UP, Release);
            return absent;
        }
        // Release pairs with the acquire in `is_up` and `give_up`: what the core set up is seen by
        // who sees it up.
        let order = if cfg!(seeded = "arrival_relaxed") {
            Relaxed
        } else {
            Release
        };
        self.0.compare_exchange(ABSENT, UP, order, Relaxed).is_ok()
    }

    /// Stops waiting for it. False: it has arrived after all.
    #[must_use = "the core may have arrived at the last moment"]
    pub fn give_up(&self) -> bool {
        // Acquire pairs with `arrive`, for when it fails because the core is up.
        let order = if cfg!(seeded = "arrival_give_up_relaxed") {
            Relaxed
        } else {
            Acquire
        };
        self.0
            .compare_exchange(ABSENT, GIVEN_UP, Relaxed, order)
            .is_ok()
    }

    /// Whether the core is up.
    pub fn is_up(&self) -> bool {
        // Acquire pairs with `arrive`.
        self.0.load(Acquire) == UP
    }

    /// The core is gone and may come again, as only threads that play cores do.
    #[cfg(all(not(target_os = "none"), not(loom)))]
    pub(crate) fn leave(&self) {
        // Release pairs with the acquire in `is_up`, though who asks learns only that it is not.
        self.0.store(ABSENT, Release);
    }
}

impl Default for Arrival {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(loom))]
static ARRIVALS: [Arrival; MAX_CORES] = [const { Arrival::new() }; MAX_CORES];

/// How far core `core` has come.
#[cfg(not(loom))]
pub fn arrival(core: usize) -> &'static Arrival {
    &ARRIVALS[core]
}

/// The cores that are up.
#[cfg(not(loom))]
pub fn online() -> CoreSet {
    (0..MAX_CORES)
        .filter(|&core| ARRIVALS[core].is_up())
        .collect()
}
