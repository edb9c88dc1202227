//! A task, whatever its type: who it is, and what anybody may ask of it.

use super::{cell::Header, extra::Extra, handle, state::Wake, waker};
use crate::{
    Priority,
    scheduler::{context::Context, inherit, registry::Entry, schedule},
};
use core::{fmt, ptr::NonNull, sync::atomic::Ordering::*};

/// Names a task. No other task of the runtime has it as long as this one lives,
/// and very likely none ever had: it is made of where the task was spawned, its
/// slot in the list there, and how many had that slot before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(u64);

/// What is left of 31 bits when 64 cores and the outside are told apart.
const INDEX_BITS: u32 = 24;

impl TaskId {
    /// No task.
    pub(crate) const NONE: Self = Self(0);

    /// In no task's id.
    pub(crate) const SPARE: u64 = 1 << 31;

    /// What is added for each task in the same slot.
    pub(crate) const COUNT: u64 = 1 << 32;

    /// That of the task before the first in a slot.
    pub(crate) fn new(part: usize, index: u32) -> Self {
        debug_assert!(index < 1 << INDEX_BITS && part < 1 << (31 - INDEX_BITS));
        Self((part as u64) << INDEX_BITS | u64::from(index))
    }

    #[inline]
    pub(crate) fn from_u64(id: u64) -> Self {
        Self(id)
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.0 as u32 & ((1 << INDEX_BITS) - 1)
    }

    pub(crate) fn part(self) -> usize {
        (self.0 as u32 >> INDEX_BITS) as usize
    }

    /// As a number.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// Core, slot, count: `2.17.4211`.
impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.part(), self.index(), self.0 >> 32)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::str::FromStr for TaskId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.splitn(3, '.').map(|number| number.parse::<u32>());
        let mut next = || numbers.next().and_then(Result::ok).ok_or(());
        let (part, index, count) = (next()?, next()?, next()?);
        if index >= 1 << INDEX_BITS || part >= 1 << (31 - INDEX_BITS) {
            return Err(());
        }
        Ok(Self(
            Self::new(part as usize, index).0 + u64::from(count) * Self::COUNT,
        ))
    }
}

/// A task, whatever its type. May be kept after the task has ended.
pub struct Task {
    task: NonNull<Header>,
    /// Kept here, as the slot that knows it is another's once the task has ended.
    id: TaskId,
}

// SAFETY: only the header is looked at, of which any thread may do so.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}

impl Task {
    /// # Safety
    /// The caller has a reference, or the task cannot end meanwhile.
    pub(crate) unsafe fn retain(task: NonNull<Header>, id: TaskId) -> Self {
        // SAFETY: the caller's promise.
        unsafe { task.as_ref() }.state.retain();
        Self { task, id }
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: its own reference keeps it.
        unsafe { self.task.as_ref() }
    }

    /// The task that runs here.
    pub(crate) fn try_current() -> Option<Self> {
        let header = waker::own_header()?;
        // SAFETY: the task is being polled, or waits for the function that runs here: it cannot end meanwhile.
        Some(unsafe { Self::retain(header.into(), header.id()) })
    }

    /// Which one it is.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// What it was called when it was spawned.
    pub fn name(&self) -> Option<&str> {
        self.header().extra()?.name.as_deref()
    }

    /// The task that spawned it, if that is known: of those with a name, a
    /// parent group, or in a runtime that tracks its tasks.
    pub fn parent(&self) -> Option<TaskId> {
        self.header().extra()?.parent
    }

    /// Its priority, or that of the highest who waits for it, if that is higher.
    ///
    /// ```
    /// use executor::{Priority, Runtime, task};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let low = task::Builder::new().priority(Priority::Low);
    ///     let low = low.spawn(async { task::current().priority() });
    ///     assert_eq!(low.task().priority(), Priority::Low);
    ///     // What `block_on` runs is of normal priority, and lends it to whom it waits for.
    ///     assert_eq!(low.await.unwrap(), Priority::Normal);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn priority(&self) -> Priority {
        Priority::from_level(self.header().state.now().level())
    }

    /// Gives it another priority, from here on, also if it waits in a queue.
    ///
    /// ```
    /// use executor::{Priority, Runtime, spawn, task::yield_now};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let task = spawn(yield_now()).task();
    ///     task.set_priority(Priority::High);
    ///     assert_eq!(task.priority(), Priority::High);
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn set_priority(&self, priority: Priority) {
        inherit::set_base(self, priority as usize);
    }

    /// Makes it fail, as if it panicked where it is: at its next poll if it waits, at once if it does not await, or waits in the middle of a
    /// poll. A last resort, and for trying out what happens then: unlike a task that is [cancelled](Self::cancel), one that is left in the middle of
    /// something keeps what it has for ever, and others may wait for it. False: it has ended, or it is what a `block_on` runs.
    ///
    /// On the host one that neither awaits nor waits goes on.
    ///
    /// ```
    /// use executor::{Runtime, TaskError, spawn};
    ///
    /// # let runtime = Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let task = spawn(std::future::pending::<()>());
    ///     assert!(task.task().fail());
    ///     assert!(matches!(task.await, Err(TaskError::Panicked(_))));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn fail(&self) -> bool {
        let header = self.header();
        if self.is_main() {
            return false;
        }
        match header.state.doom() {
            Wake::Queue(word) => schedule(header, word),
            Wake::Requeued(word) => inherit::requeued(header, word),
            // If it waits in the middle of its poll, its context comes out of a queue.
            Wake::Nothing => inherit::wake_contexts_of(header),
            Wake::Done => return false,
        }
        true
    }

    /// Asks it to end; see [`TaskHandle::cancel`](super::TaskHandle::cancel).
    pub fn cancel(&self) -> bool {
        handle::cancel(self.header())
    }

    /// Makes it runnable, as a waker does.
    pub fn wake(&self) {
        waker::wake_task(self.header());
    }

    /// Whether it was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.header().state.now().was_cancelled()
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.header().state.is_done()
    }

    pub(crate) fn is_main(&self) -> bool {
        self.header().state.now().is_main()
    }
}

impl Clone for Task {
    fn clone(&self) -> Self {
        // SAFETY: this one is a reference.
        unsafe { Self::retain(self.task, self.id) }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // SAFETY: its own reference.
        unsafe { waker::release(self.header()) };
    }
}

impl PartialEq for Task {
    fn eq(&self, other: &Self) -> bool {
        self.task == other.task
    }
}

impl Eq for Task {}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({}", self.id())?;
        if let Some(name) = self.name() {
            write!(f, " {name}")?;
        }
        f.write_str(")")
    }
}

impl Header {
    /// Which task it is, or which is polled in it if it is a context. Before it has ended.
    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        self.task().own_id()
    }

    /// The task itself, or the one that is polled in it if it is a context, which is queued.
    #[inline]
    pub(crate) fn task(&self) -> &Self {
        if !self.state.now().is_context() {
            return self;
        }
        // SAFETY: it is one, and left in the middle of a poll: else nobody would have it.
        unsafe { Context::of(self).task() }
    }

    #[inline]
    fn own_id(&self) -> TaskId {
        self.id_in_entry()
    }

    #[inline]
    pub(crate) fn entry(&self) -> &Entry {
        // SAFETY: its home lives as long as the task, and the slot as long as that. A context has its task's, before anybody
        // has its waker.
        unsafe { &*self.entry.load(Relaxed) }
    }

    /// The same as [`id`](Self::id), for a task, and for a context whose waker somebody has.
    #[inline]
    pub(crate) fn id_in_entry(&self) -> TaskId {
        self.entry().id()
    }

    /// Which task it is, and whether what it did before is lost; for who locks something.
    #[inline]
    pub(crate) fn word_in_entry(&self) -> u64 {
        self.entry().word()
    }

    /// It is lost, or was and has ended. It is still in the list.
    #[cold]
    pub(crate) fn set_lost_in_entry(&self, is_lost: bool) {
        self.entry().set_lost(is_lost);
    }

    /// Asks it to end; see [`TaskHandle::cancel`](super::TaskHandle::cancel).
    pub(crate) fn cancel(&self) -> bool {
        handle::cancel(self)
    }

    /// What not every task has.
    #[inline]
    pub(crate) fn extra(&self) -> Option<&Extra> {
        // Acquire pairs with the release in `extra_or_new`.
        let extra = self.extra.load(Acquire);
        // SAFETY: null, or a box that stays as long as the task.
        unsafe { extra.as_ref() }
    }

    /// The same, if the task is tracked.
    pub(crate) fn tracked(&self) -> Option<&Extra> {
        self.extra().filter(|_| self.state.now().is_tracked())
    }

    /// The same, made if there is none. Called by the task itself.
    ///
    /// # Panics
    /// If there is no memory.
    #[track_caller]
    pub(crate) fn extra_or_new(&self) -> &Extra {
        self.try_extra()
            .expect("there is no memory for what not every task has")
    }

    /// The same; None: there is no memory.
    pub(crate) fn try_extra(&self) -> Option<&Extra> {
        if let Some(extra) = self.extra() {
            return Some(extra);
        }
        let extra = Extra::new().try_box()?;
        // Release pairs with the acquire in `extra`.
        self.extra.store(extra, Release);
        // SAFETY: a box that stays as long as the task.
        Some(unsafe { &*extra })
    }
}

/// The task that runs here.
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn current() -> Task {
    Task::try_current().expect("no task runs here")
}

/// The task that runs here, if one does.
pub fn try_current() -> Option<Task> {
    Task::try_current()
}

/// Id of the task that runs here.
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn id() -> TaskId {
    waker::own_header().expect("no task runs here").id()
}

/// The task that spawned the one that runs here, if that is known.
pub fn parent() -> Option<TaskId> {
    waker::own_header()?.extra()?.parent
}

/// Whether the task that runs here was asked to end.
pub fn is_cancelled() -> bool {
    waker::own_header().is_some_and(|header| header.state.now().was_cancelled())
}

/// A place where a long computation lets itself be cancelled: goes on at once,
/// unless the task was asked to end; then it ends here.
pub async fn check_cancelled() {
    if waker::current_header().is_some_and(|header| header.state.now().is_cancelled()) {
        // The core drops the future at its next await, which is this.
        core::future::pending::<()>().await;
    }
}

/// Says what the task that runs here waits for, for [`tasks`](crate::stats::tasks):
/// called by futures of the user's own when they return `Pending`.
#[inline]
pub fn waits_for(what: &'static &'static str) {
    if let Some(header) = waker::current_header()
        && header.state.now().is_tracked()
        && let Some(extra) = header.extra()
    {
        extra.set_waits_for(what);
    }
}
