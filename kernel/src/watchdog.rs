//! The watchdog: says what goes on no more, and does something about it.
//!
//! | what it sees | who looks |
//! |---|---|
//! | a core that lets no interrupt in, a guard that is held, a queue from which nothing is taken | the timer interrupts of all cores (`executor/src/scheduler/watch.rs`): a task might be what does not run |
//! | tasks and threads that wait for each other's locks, in a circle | a task, four times a second |
//!
//! Each is named when it has been so for a second or a little more, with a backtrace. What happens then is for `watchdog=` to say.

use crate::{console, symbols};
use alloc::vec::Vec;
use boot::command_line::Watchdog;
use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed},
};
use executor::{
    TaskHandle, stats,
    task::{Builder, Task, TaskId},
    time::{Duration, sleep},
    watch::{self, Report, Trouble},
};
use hal::{power, sync::Lock};

/// How often it looks for circles.
const PERIOD: Duration = Duration::from_millis(250);
/// What is so for so many looks in a row is not about to end.
const LOOKS: usize = 4;
/// The hardware's watchdog bites if nobody has looked for this long, in seconds.
const PATIENCE: u32 = 10;

/// How often it had something to say, by what that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarms {
    /// Cores that let no interrupt in.
    pub masked: u64,
    /// Guards that were held.
    pub guarded: u64,
    /// Queues from which nothing was taken.
    pub starved: u64,
    /// Circles of locks.
    pub circles: u64,
}

impl Alarms {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.masked + self.guarded + self.starved + self.circles
    }
}

impl fmt::Display for Alarms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} alarms: {} of masked interrupts, {} of guards, {} of queues, {} of circles",
            self.total(),
            self.masked,
            self.guarded,
            self.starved,
            self.circles
        )
    }
}

static MASKED: AtomicU64 = AtomicU64::new(0);
static GUARDED: AtomicU64 = AtomicU64::new(0);
static STARVED: AtomicU64 = AtomicU64::new(0);
static CIRCLES: AtomicU64 = AtomicU64::new(0);

/// What it had to say so far.
pub fn alarms() -> Alarms {
    Alarms {
        masked: MASKED.load(Relaxed),
        guarded: GUARDED.load(Relaxed),
        starved: STARVED.load(Relaxed),
        circles: CIRCLES.load(Relaxed),
    }
}

/// What it does.
static ACTION: AtomicU8 = AtomicU8::new(Watchdog::Off as u8);
/// An alarm that nobody expects fails the test.
static IS_STRICT: AtomicBool = AtomicBool::new(false);
/// How many expect alarms.
static EXPECTED: AtomicUsize = AtomicUsize::new(0);

/// In tests: from here on an alarm is a machine panic, unless the test [says otherwise](expect_alarms).
pub fn be_strict() {
    IS_STRICT.store(true, Relaxed);
}

/// While this lives, alarms are no failures of the test, and have this action.
#[must_use = "it holds while it lives"]
pub struct Expected(u8);

/// For a test that is about alarms.
pub fn expect_alarms(action: Watchdog) -> Expected {
    EXPECTED.fetch_add(1, Relaxed);
    Expected(ACTION.swap(action as u8, Relaxed))
}

impl Drop for Expected {
    fn drop(&mut self) {
        ACTION.store(self.0, Relaxed);
        EXPECTED.fetch_sub(1, Relaxed);
    }
}

/// An alarm as it was told, for tests.
#[derive(Clone, Copy)]
pub struct Told {
    /// What it was about.
    pub trouble: Trouble,
    /// The core.
    pub core: usize,
    /// What ran there.
    pub task: Option<TaskId>,
    /// What waited.
    pub waiting: Option<TaskId>,
    /// For how long.
    pub time: Duration,
    steps: [usize; 48],
    depth: usize,
}

impl Told {
    /// Whether a function with this in its name is in the backtrace.
    pub fn names(&self, part: &str) -> bool {
        let is_it =
            |&step: &usize| symbols::lookup(step).is_some_and(|(name, _)| name.contains(part));
        self.steps[..self.depth].iter().any(is_it)
    }
}

static LAST: Lock<Option<Told>> = Lock::new(None);

/// The last alarm that was no circle; asked again, there is none.
pub fn take_last() -> Option<Told> {
    LAST.lock().take()
}

/// Begins to watch what runs on the cores. Before runtimes are built.
pub fn watch(action: Watchdog) {
    ACTION.store(action as u8, Relaxed);
    if action != Watchdog::Off {
        watch::start(on_trouble, on_look);
    }
    if action == Watchdog::Reset {
        power::arm_watchdog(PATIENCE);
    }
}

/// While this lives, nobody watches what runs on the cores.
#[must_use = "it holds while it lives"]
pub struct Unwatched(());

/// For a test that sets the timers of cores itself. Before its runtime is built.
pub fn leave_timers() -> Unwatched {
    watch::stop();
    Unwatched(())
}

impl Drop for Unwatched {
    fn drop(&mut self) {
        if ACTION.load(Relaxed) != Watchdog::Off as u8 {
            watch::start(on_trouble, on_look);
        }
    }
}

/// Somebody has looked at all cores. In an interrupt.
fn on_look() {
    if ACTION.load(Relaxed) == Watchdog::Reset as u8 {
        power::arm_watchdog(PATIENCE);
    }
}

/// A core goes on no more, or keeps others from doing so. Interrupts are masked.
fn on_trouble(report: &Report<'_>) {
    let Report {
        trouble,
        core,
        task,
        waiting,
        ..
    } = report;
    let millis = report.time.as_millis();
    struct Who<'a>(Option<&'a Task>);
    impl fmt::Display for Who<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.0 {
                Some(task) => write!(f, "{task:?}"),
                None => f.write_str("no task"),
            }
        }
    }
    let who = Who(*task);
    console::print_urgently(|out| {
        write!(out, "watchdog: ")?;
        match trouble {
            Trouble::Masked => writeln!(
                out,
                "core {core} lets no interrupt in, for {millis} ms; {who} runs there:"
            ),
            Trouble::Guarded => writeln!(
                out,
                "core {core} is under the same guard for {millis} ms; {who} runs there:"
            ),
            Trouble::Starved => writeln!(
                out,
                "{} waits for core {core}, and is not polled for {millis} ms; {who} runs there:",
                Who(*waiting)
            ),
        }?;
        report
            .backtrace
            .iter()
            .enumerate()
            .try_for_each(|(depth, &address)| {
                writeln!(out, "watchdog: {depth:2}: {}", symbols::Address(address))
            })
    });
    let mut steps = [0; 48];
    let depth = report.backtrace.len().min(steps.len());
    steps[..depth].copy_from_slice(&report.backtrace[..depth]);
    *LAST.lock() = Some(Told {
        trouble: *trouble,
        core: *core,
        task: task.map(Task::id),
        waiting: waiting.map(Task::id),
        time: report.time,
        steps,
        depth,
    });
    match trouble {
        Trouble::Masked => &MASKED,
        Trouble::Guarded => &GUARDED,
        Trouble::Starved => &STARVED,
    }
    .fetch_add(1, Relaxed);
    // What masks interrupts or holds a guard cannot be left where it is.
    let victim = task.filter(|_| *trouble == Trouble::Starved);
    act(victim, format_args!("{trouble:?} core {core}, {who}"));
}

/// A line more, which comes also if the console is held by who is reported.
fn say(line: fmt::Arguments<'_>) {
    console::print_urgently(|out| writeln!(out, "watchdog: {line}"));
}

/// Stops the machine. With interrupts masked: else only the task that looks would end.
fn stop_machine(why: &str, what: fmt::Arguments<'_>) -> ! {
    let _masked = hal::irq::mask();
    panic!("{why}: {what}")
}

/// Does what is to be done: of these tasks one is made to fail, if that is it.
fn act<'a>(victims: impl IntoIterator<Item = &'a Task>, what: fmt::Arguments<'_>) {
    if IS_STRICT.load(Relaxed) && EXPECTED.load(Relaxed) == 0 {
        stop_machine(
            "an alarm of the watchdog that the test does not expect",
            what,
        );
    }
    let action = ACTION.load(Relaxed);
    if action == Watchdog::Kill as u8 {
        match victims
            .into_iter()
            .find(|victim| victim.fail() || victim.is_finished())
        {
            Some(victim) if victim.is_finished() => say(format_args!("{victim:?} has ended")),
            Some(victim) => say(format_args!("{victim:?} is made to fail")),
            None => stop_machine("the watchdog cannot end it alone", what),
        }
    } else if action == Watchdog::Panic as u8 {
        stop_machine("the watchdog was told to", what);
    } else if action == Watchdog::Reset as u8 {
        say(format_args!("the machine is restarted: {what}"));
        power::restart();
    }
}

/// Starts the task that looks for circles of locks, unless it is to be off. In a task. It goes on until it is cancelled.
pub fn start() -> Option<TaskHandle<()>> {
    let watchdog = Builder::new().name("watchdog");
    (ACTION.load(Relaxed) != Watchdog::Off as u8).then(|| watchdog.spawn(run()))
}

async fn run() {
    let mut before: Option<Vec<TaskId>> = None;
    let mut looks = 0;
    loop {
        sleep(PERIOD).await;
        let circle = stats::lock_cycle();
        looks = match circle.is_some() && circle == before {
            true => looks + 1,
            false => 1,
        };
        if looks == LOOKS
            && let Some(circle) = &circle
        {
            on_circle(circle);
        }
        before = circle;
    }
}

fn on_circle(circle: &[TaskId]) {
    let tasks: Vec<Task> = circle.iter().copied().filter_map(stats::find).collect();
    let Some(first) = tasks.first() else {
        return;
    };
    CIRCLES.fetch_add(1, Relaxed);
    log::error!(
        "watchdog: {} tasks wait for each other's locks, in a circle:",
        tasks.len()
    );
    for (task, next) in tasks.iter().zip(tasks.iter().cycle().skip(1)) {
        log::error!("watchdog: {task:?} waits for a lock that {next:?} has");
        for (depth, address) in task.backtrace().into_iter().enumerate() {
            log::error!("{} {depth:2}: {}", task.id(), symbols::Address(address));
        }
    }
    act(&tasks, format_args!("a circle of locks, {first:?}"));
}
