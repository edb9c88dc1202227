//! What a runtime is made of, and making one.

use super::{Runtime, serve};
use crate::{
    NoMemory,
    scheduler::{policy::Policy, shared::Shared, worker::Worker},
};
use alloc::{boxed::Box, vec::Vec};
use core::{fmt, sync::atomic::Ordering::Relaxed, time::Duration};
use hal::lot;

/// What a runtime is made of; see [`Builder`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Cores, the one that calls `block_on` included. None: as many as are usual; see [`Builder::workers`].
    pub workers: Option<usize>,
    /// Whether a core without work takes some from others.
    pub stealing: bool,
    /// Whether who is waited for is of the priority of who waits.
    pub inheritance: bool,
    /// Tasks that one core's deque holds, for each priority; more go to the injector. A power of two.
    pub queue: usize,
    /// Most tasks that are stolen at once.
    pub steal_batch: usize,
    /// Whether names, ages, polls and times of all tasks are kept for `tasks()`.
    pub track: bool,
    /// Whether time jumps to the next deadline when there is nothing to do. For tests, on one core.
    pub virtual_clock: bool,
    /// Room for the stack that a task is polled on, in bytes. It has memory only as far as it was used.
    pub stack: usize,
    /// How often a busy core looks whether it is still in the same poll.
    pub tick: Duration,
    /// How long a poll may take before it is preempted, if there is other work. None: as long as it likes.
    pub quantum: Option<Duration>,
    /// Most blocking functions that run at once; see [`Builder::blocking_threads`].
    pub blocking_threads: usize,
    /// How long a thread for them stays without work; see [`Builder::blocking_idle`].
    pub blocking_idle: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: None,
            stealing: true,
            inheritance: true,
            queue: 256,
            steal_batch: 128,
            track: false,
            virtual_clock: false,
            stack: hal::stack::DEFAULT_SIZE,
            tick: Duration::from_millis(1),
            quantum: Some(Duration::from_millis(10)),
            blocking_threads: 512,
            blocking_idle: Duration::from_secs(60),
        }
    }
}

/// The loop itself needs some of it.
pub(crate) const LEAST_STACK: usize = 16 << 10;

/// Makes one policy for each core.
type MakePolicy = Box<dyn Fn(usize) -> Box<dyn Policy>>;

/// Builds a [`Runtime`].
#[derive(Default)]
pub struct Builder {
    config: Config,
    policy: Option<MakePolicy>,
}

/// Why a runtime could not be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// More cores were asked for than there are free.
    TooFewCores {
        /// Asked for.
        asked: usize,
        /// Free, the calling one included.
        free: usize,
    },
    /// A runtime needs a core.
    NoCores,
    /// The size of queues is not a power of two between 2 and 65536.
    QueueSize(usize),
    /// At least one task must be stolen at once.
    StealBatch,
    /// Virtual time is for one core only.
    VirtualClock,
    /// A stack has at least 16 KiB.
    StackSize(usize),
    /// A tick of no time, or of more than the quantum.
    Tick,
    /// At least one blocking function must be able to run.
    NoBlockingThreads,
    /// There is no memory for its queues, or for the stacks of its cores.
    NoMemory,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewCores { asked, free } => write!(
                f,
                "{asked} cores are asked for and {free} are free: ask for fewer, or shut another runtime down"
            ),
            Self::NoCores => f.write_str("a runtime needs at least one core"),
            Self::QueueSize(size) => write!(
                f,
                "queues of {size}: the size must be a power of two from 2 to 65536"
            ),
            Self::StealBatch => f.write_str("a steal must take at least one task"),
            Self::VirtualClock => {
                f.write_str("virtual time is for runtimes of one core: set `workers(1)`")
            }
            Self::StackSize(size) => {
                write!(
                    f,
                    "stacks of {size} bytes: they must have at least {LEAST_STACK}"
                )
            }
            Self::Tick => f.write_str("a tick takes some time, and no more than a quantum"),
            Self::NoBlockingThreads => {
                f.write_str("at least one blocking function must be able to run")
            }
            Self::NoMemory => f.write_str("no memory for its queues and the stacks of its cores"),
        }
    }
}

impl core::error::Error for BuildError {}

impl Builder {
    /// The usual cores, stealing, queues of 256.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many cores, the one that calls `block_on` included. One: everything
    /// runs within `block_on`, and nothing while nobody calls it.
    ///
    /// If this is not called, all that are free; on the host, where cores are
    /// threads, no more than the process may run at once
    /// (`std::thread::available_parallelism`). More can be asked for there; but all runtimes of
    /// the process share up to 32 threads, those that call `block_on` not counted.
    pub fn workers(mut self, workers: usize) -> Self {
        self.config.workers = Some(workers);
        self
    }

    /// Whether a core without work takes some from others.
    pub fn stealing(mut self, on: bool) -> Self {
        self.config.stealing = on;
        self
    }

    /// Whether a task that has a lock, or whose end somebody waits for, is of the priority of the highest who waits, as long
    /// as he does. Yes by default; no is for showing why.
    pub fn inheritance(mut self, on: bool) -> Self {
        self.config.inheritance = on;
        self
    }

    /// Tasks that a core's deque holds, for each priority: a power of two.
    pub fn queue(mut self, size: usize) -> Self {
        self.config.queue = size;
        self
    }

    /// Most tasks that are stolen at once.
    pub fn steal_batch(mut self, most: usize) -> Self {
        self.config.steal_batch = most;
        self
    }

    /// Keeps name, age, polls and time of every task, for `tasks()`. Costs each
    /// task a block of memory and two looks at the clock for each poll.
    pub fn track(mut self, on: bool) -> Self {
        self.config.track = on;
        self
    }

    /// Time that jumps to the next deadline when there is nothing to do, and
    /// stands still otherwise: tests that sleep for a year are over at once. A
    /// [blocking function](crate::task::spawn_blocking) is something to do, as long as it does not itself wait for what tasks or timers do.
    pub fn virtual_clock(mut self) -> Self {
        self.config.virtual_clock = true;
        self
    }

    /// Room for the stack that a task is polled on, in bytes. It has memory only
    /// as far as it was used. 1 MiB unless told otherwise; on the host 8 MiB.
    pub fn stack(mut self, size: usize) -> Self {
        self.config.stack = size;
        self
    }

    /// How long a poll may keep its core while there is other work for it; then
    /// it is preempted. 10 ms unless told otherwise. None, not zero: as long as it likes.
    /// On the host nothing is preempted.
    pub fn quantum(mut self, quantum: impl Into<Option<Duration>>) -> Self {
        self.config.quantum = quantum.into();
        self
    }

    /// How often a core that is busy looks whether it is still in the same poll:
    /// each millisecond unless told otherwise. One that sleeps does not look.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.config.tick = tick;
        self
    }

    /// How many functions given to [`spawn_blocking`](crate::task::spawn_blocking) run at once, at most: 512
    /// unless told otherwise. The others wait for their turn, in the order they came. On the host each has a
    /// thread of the OS, beside those that are cores; it is made when none is idle.
    ///
    /// ```
    /// use executor::{BuildError, Runtime, task::spawn_blocking};
    ///
    /// let runtime = Runtime::builder().workers(1).blocking_threads(1).build()?;
    /// runtime.block_on(async {
    ///     let (first, second) = (spawn_blocking(|| 1), spawn_blocking(|| 2));
    ///     assert_eq!(second.await.unwrap(), 2);
    ///     assert!(first.is_finished());
    /// });
    /// assert_eq!(Runtime::builder().blocking_threads(0).build().err(), Some(BuildError::NoBlockingThreads));
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn blocking_threads(mut self, most: usize) -> Self {
        self.config.blocking_threads = most;
        self
    }

    /// How long a thread for blocking functions stays when it has nothing to do: 60 s unless told otherwise; zero: it
    /// ends at once. For the host. The image has no such threads, but stacks, and frees those beyond eight for each core at once.
    ///
    /// ```
    /// use executor::{Runtime, task::spawn_blocking, time::Duration};
    ///
    /// let runtime = Runtime::builder().workers(1).blocking_idle(Duration::ZERO).build()?;
    /// runtime.block_on(async { spawn_blocking(|| {}).await.unwrap() });
    /// while runtime.stats().blocking_threads != 0 {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    pub fn blocking_idle(mut self, time: Duration) -> Self {
        self.config.blocking_idle = time;
        self
    }

    /// Replaces work stealing by a policy of the user's own; `make` is called for each core.
    pub fn policy(mut self, make: impl Fn(usize) -> Box<dyn Policy> + 'static) -> Self {
        self.policy = Some(Box::new(make));
        self
    }

    /// Builds it, and starts its cores but the first.
    ///
    /// # Errors
    /// There is no memory for it, there are too few cores, or what was asked for does not fit together.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let Self { mut config, policy } = self;
        if config.workers == Some(0) {
            return Err(BuildError::NoCores);
        }
        if !config.queue.is_power_of_two() || !(2..=65536).contains(&config.queue) {
            return Err(BuildError::QueueSize(config.queue));
        }
        if config.steal_batch == 0 {
            return Err(BuildError::StealBatch);
        }
        if config.virtual_clock && config.workers != Some(1) {
            return Err(BuildError::VirtualClock);
        }
        let most = config.quantum.unwrap_or(Duration::MAX);
        if config.tick.is_zero() || config.tick > most {
            return Err(BuildError::Tick);
        }
        if config.blocking_threads == 0 {
            return Err(BuildError::NoBlockingThreads);
        }
        if config.stack < LEAST_STACK {
            return Err(BuildError::StackSize(config.stack));
        }
        // Another policy has no queues that could be stolen from.
        config.stealing &= policy.is_none();
        let wanted = config.workers.unwrap_or_else(lot::usual) - 1;
        let others = lot::claim(wanted);
        if config.workers.is_some() && others.len() < wanted {
            lot::give_back(others);
            return Err(BuildError::TooFewCores {
                asked: wanted + 1,
                free: others.len() + 1,
            });
        }
        let mut runs = Vec::new();
        let prepared = match runs.try_reserve_exact(others.len()) {
            Ok(()) => Shared::try_new(config, others.len() + 1, policy.as_deref()),
            Err(_) => Err(NoMemory),
        };
        let Ok(shared) = prepared else {
            lot::give_back(others);
            return Err(BuildError::NoMemory);
        };
        // SAFETY: the runtime holds it until it is dropped.
        let this = unsafe { shared.as_ref() };
        let has_stacks = |worker: &Worker| worker.find_spare().and(worker.find_last()).is_ok();
        if !this.cores().iter().all(has_stacks) {
            lot::give_back(others);
            Shared::free(shared);
            return Err(BuildError::NoMemory);
        }
        this.serving.store(others.len(), Relaxed);
        let run = |(core, worker): (usize, &Worker)| {
            lot::run(core, serve, core::ptr::from_ref(worker).expose_provenance())
        };
        runs.extend(others.iter().zip(&this.cores()[1..]).map(run));
        Ok(Runtime { shared, runs })
    }
}
