//! Tasks that are started again when they fail.
//!
//! A [`Supervisor`] is given its children as functions that make their futures.
//! It starts them in order and, when one ends in error (returns one, or panics),
//! restarts it, or all, or it and those after it, by its [`Strategy`]. If that
//! happens too often in too short a time it gives up: it cancels what is left,
//! waits for that, and returns the error, to be dealt with by whoever runs it,
//! which may be another supervisor.
//!
//! Beneath, `running` is what it does while it runs.

mod running;

use self::running::Running;
use super::{Builder, ChildError, SpawnError, TaskHandle, TaskId, start::spawn_child};
use crate::time::{Duration, Instant};
use alloc::{borrow::Cow, boxed::Box, sync::Arc, vec::Vec};
use core::{fmt, future::Future};

/// Which children are started again when one fails. Those that are done stay so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strategy {
    /// That one.
    #[default]
    OneForOne,
    /// All: the others are cancelled and have ended before any is started.
    OneForAll,
    /// That one and those after it, in the order in which they were given.
    RestForOne,
}

/// When a child is started again after it ended. One that was cancelled never is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Restart {
    OnError,
    Always,
    Never,
}

/// Why a supervisor gave up.
#[derive(Debug)]
pub struct GaveUp<E> {
    /// The child that ended once too often.
    pub child: Cow<'static, str>,
    /// How it ended; None: well, but it was to run for ever.
    pub cause: Option<ChildError<E>>,
}

impl<E: fmt::Display> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ended too often", self.child)?;
        match &self.cause {
            Some(cause) => write!(f, ", last with: {cause}"),
            None => Ok(()),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for GaveUp<E> {}

/// A child that was started.
type Started<E> = Result<TaskHandle<Result<(), E>>, SpawnError>;

/// Starts a child.
type Factory<E> = Box<dyn Fn(Builder, Option<TaskId>) -> Started<E> + Send + Sync>;

/// What a supervisor knows of a child from the beginning.
struct Spec<E> {
    builder: Builder,
    restart: Restart,
    start: Factory<E>,
}

impl<E> Spec<E> {
    fn name(&self) -> Cow<'static, str> {
        self.builder.name.clone().unwrap_or_default()
    }
}

/// Starts tasks, and starts them again when they fail.
///
/// ```
/// # use executor::{Runtime, time::Duration, task::{Strategy, Supervisor}};
/// # use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// # Runtime::builder().workers(1).build().unwrap().block_on(async {
/// static TRIES: AtomicU32 = AtomicU32::new(0);
///
/// let supervisor = Supervisor::new(Strategy::OneForOne)
///     .limit(3, Duration::from_secs(5))
///     .child("flaky", || async {
///         match TRIES.fetch_add(1, Relaxed) {
///             0 | 1 => Err("not yet"),
///             _ => Ok(()),
///         }
///     });
/// assert!(supervisor.run().await.is_ok());
/// assert_eq!(TRIES.load(Relaxed), 3);
/// # });
/// ```
#[must_use = "a supervisor does nothing until it is `run`"]
pub struct Supervisor<E> {
    strategy: Strategy,
    most: usize,
    within: Duration,
    delay: Duration,
    longest_delay: Duration,
    children: Vec<Spec<E>>,
}

impl<E: Send + 'static> Supervisor<E> {
    /// Without children yet; gives up at the fourth restart within five seconds.
    pub fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            most: 3,
            within: Duration::from_secs(5),
            delay: Duration::ZERO,
            longest_delay: Duration::ZERO,
            children: Vec::new(),
        }
    }

    /// Allows `most` restarts within any such time; one more, and it gives up.
    pub fn limit(mut self, most: usize, within: Duration) -> Self {
        self.most = most;
        self.within = within;
        self
    }

    /// Waits before a restart: so long at first, twice as long for each further
    /// restart within the time of the [`limit`](Self::limit), at most `longest`.
    pub fn delay(mut self, first: Duration, longest: Duration) -> Self {
        self.delay = first;
        self.longest_delay = longest.max(first);
        self
    }

    /// A child that is started again when it fails, and is done when it returns `Ok`.
    pub fn child<F>(
        self,
        name: impl Into<Cow<'static, str>>,
        factory: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.add(Builder::new().name(name), Restart::OnError, factory)
    }

    /// A child that is started again however it ends, unless it is cancelled.
    pub fn permanent<F>(
        self,
        name: impl Into<Cow<'static, str>>,
        factory: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.add(Builder::new().name(name), Restart::Always, factory)
    }

    /// A child that is never started again, and whose errors are of no interest.
    pub fn temporary<F>(
        self,
        name: impl Into<Cow<'static, str>>,
        factory: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.add(Builder::new().name(name), Restart::Never, factory)
    }

    /// As [`child`](Self::child), with a priority or a core too.
    pub fn child_with<F>(
        self,
        builder: Builder,
        factory: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.add(builder, Restart::OnError, factory)
    }

    fn add<F>(
        mut self,
        builder: Builder,
        restart: Restart,
        factory: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let factory = Arc::new(factory);
        let start: Factory<E> = Box::new(move |builder, parent| {
            let factory = factory.clone();
            // Called in the task, so that a panic in it is the task's.
            spawn_child(builder, parent, async move { factory().await })
        });
        self.children.push(Spec {
            builder,
            restart,
            start,
        });
        self
    }

    /// Runs the children until all are done, or there is nothing for it but to
    /// give up. Dropping it cancels them.
    ///
    /// A child for which there is no memory has failed like any other, with [`TaskError::NoMemory`](super::TaskError::NoMemory).
    pub async fn run(self) -> Result<(), GaveUp<E>> {
        let mut running = Running::new(self);
        running.start_due(Instant::now());
        loop {
            let next = running.next_start();
            if next.is_none() && running.is_done() {
                break;
            }
            if let Some(index) = running.ends().next(next).await {
                running.on_end(index);
            }
            running.start_due(Instant::now());
        }
        running.result()
    }
}
