//! How a task is to be spawned: its name, its priority, its core.

use super::{
    SpawnError, TaskHandle, TaskId,
    extra::Extra,
    start::{Origin, Start, expect, start},
};
use crate::{Priority, scheduler::inherit};
use alloc::borrow::Cow;
use core::future::Future;

/// How a task is to be spawned.
///
/// ```
/// # use executor::{Priority, Runtime, task::{self, Builder}};
/// # Runtime::builder().workers(1).build().unwrap().block_on(async {
/// let reader = Builder::new()
///     .name("reader")
///     .priority(Priority::High)
///     .spawn(async { 6 * 7 });
/// assert_eq!(reader.await.unwrap(), 42);
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    /// What it is called in lists of tasks.
    pub name: Option<Cow<'static, str>>,
    /// Which tasks it goes before.
    pub priority: Priority,
    /// The core of the runtime, from 0, that alone may run it.
    pub core: Option<usize>,
    /// A number for a scheduling policy of the user's own, such as a deadline.
    pub tag: u64,
}

impl Builder {
    /// A task of normal priority, on any core, without a name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls it something.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Gives it a priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        if priority != Priority::Normal {
            // Here, as it may wake others, which nobody should wait for while he spawns.
            inherit::note_levels();
        }
        self.priority = priority;
        self
    }

    /// Binds it to a core of the runtime, numbered from 0. On core 0 it runs only
    /// while some thread is in [`Runtime::block_on`](crate::Runtime::block_on).
    pub fn core(mut self, core: usize) -> Self {
        self.core = Some(core);
        self
    }

    /// Gives it a number, for a policy.
    pub fn tag(mut self, tag: u64) -> Self {
        self.tag = tag;
        self
    }

    /// Spawns it; see [`spawn`](super::spawn).
    ///
    /// # Panics
    /// As [`spawn_with`](super::spawn_with).
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        expect(self.try_spawn(future))
    }

    /// As [`spawn`](Self::spawn), but says so when there is no memory; the future is then dropped.
    ///
    /// ```
    /// # use executor::{Runtime, task::{Builder, SpawnError}};
    /// # Runtime::builder().workers(1).build().unwrap().block_on(async {
    /// let reader = Builder::new().name("reader").try_spawn(async { 6 * 7 })?;
    /// assert_eq!(reader.await.unwrap(), 42);
    /// # Ok::<(), SpawnError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// Where no runtime runs, and if the runtime has no such core.
    #[track_caller]
    pub fn try_spawn<F>(self, future: F) -> Result<TaskHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: the future and its output are `Send`.
        unsafe { start(Origin::current(), self.into(), future) }
    }

    /// Spawns a future that is not `Send` on [`core`](Self::core); see [`spawn_local_on`](super::spawn_local_on).
    ///
    /// # Panics
    /// If no core was chosen, and as [`spawn_local_on`](super::spawn_local_on).
    #[track_caller]
    pub fn spawn_local<F>(
        self,
        factory: impl FnOnce() -> F + Send + 'static,
    ) -> TaskHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        expect(self.try_spawn_local(factory))
    }

    /// As [`spawn_local`](Self::spawn_local), but says so when there is no memory; the function is then dropped.
    ///
    /// ```
    /// # use executor::{Runtime, task::{Builder, SpawnError}};
    /// # use std::rc::Rc;
    /// # Runtime::builder().workers(1).build().unwrap().block_on(async {
    /// let local = Builder::new().core(0).try_spawn_local(|| async { *Rc::new(42) })?;
    /// assert_eq!(local.await.unwrap(), 42);
    /// # Ok::<(), SpawnError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// If no core was chosen, where no runtime runs, and if the runtime has no such core.
    #[track_caller]
    pub fn try_spawn_local<F>(
        self,
        factory: impl FnOnce() -> F + Send + 'static,
    ) -> Result<TaskHandle<F::Output>, SpawnError>
    where
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        assert!(self.core.is_some(), "a local task needs a core: `.core(n)`");
        let how = Start {
            builder: self,
            local: true,
            ..Start::default()
        };
        let future = async move { factory().await };
        // SAFETY: the factory is `Send`; what it makes is made on the core it stays on.
        unsafe { start(Origin::current(), how, future) }
    }

    pub(super) fn extra(self, parent: Option<TaskId>, born: u64) -> Extra {
        Extra {
            name: self.name,
            parent,
            tag: self.tag,
            born,
            ..Extra::new()
        }
    }
}
