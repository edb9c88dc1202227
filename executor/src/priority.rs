//! Which tasks go first.

/// How urgent a task is. A core runs what is more urgent first, but nothing
/// runnable waits longer than [`BOUND`](crate::scheduler::fair::BOUND) turns for its queue's turn or, where less urgent polls are interrupted,
/// [`LOWER_BOUND`](crate::scheduler::fair::LOWER_BOUND) ticks.
///
/// A task that somebody waits for, because it has a lock or because he joins it, is as urgent as he is, as long as he waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(u8)]
pub enum Priority {
    /// What can wait.
    Low = 0,
    /// Almost everything.
    #[default]
    Normal = 1,
    /// What somebody waits for.
    High = 2,
    /// What must not wait: short, and rare.
    Critical = 3,
}

impl Priority {
    /// All of them, the least urgent first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Critical];

    #[cfg(not(loom))]
    pub(crate) fn from_level(level: usize) -> Self {
        Self::ALL[level]
    }
}
