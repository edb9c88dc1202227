//! Why a task has no output, and all that is known of a panic.
//!
//! On the host a panic unwinds the task's poll, and what it threw comes to who joins. On the image nothing
//! unwinds: a poll that panicked or faulted is left for good (see `scheduler::lost`), and a report of it
//! comes to who joins.

use crate::shim::try_leak;
use alloc::{string::String, vec::Vec};
use core::{
    fmt::{self, Write},
    panic::PanicInfo,
};
use hal::{backtrace, context::Frame, traps::Fault, unwind};

/// Why a task has no output.
#[derive(Debug)]
pub enum TaskError {
    /// It was cancelled, or the runtime was shut down.
    Cancelled,
    /// Its stack was too small. What it had on it, and its future, are left as they are, for ever. On the host, whose stacks
    /// the operating system watches, the whole process ends instead.
    StackOverflow,
    /// There was no memory for its stack to grow, and it is left in the same way. Of a [`Supervisor`](super::Supervisor)'s
    /// child also: for it to be started.
    NoMemory,
    /// It panicked or, on the image, met a fault: a null pointer, an instruction that there is not. On the
    /// image what it had is left in the same way, as nothing unwinds there; on the host its destructors have run.
    Panicked(Panic),
}

impl TaskError {
    /// Whether the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// Whether the task's poll was left for good, with all that it had.
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Cancelled => false,
            Self::StackOverflow | Self::NoMemory => true,
            Self::Panicked(panic) => panic.report().is_some(),
        }
    }

    /// The same, for one more who is to hear of it; None: it is not about a lost poll.
    pub(crate) fn of_loss(&self) -> Option<Self> {
        match self {
            Self::Cancelled => None,
            Self::StackOverflow => Some(Self::StackOverflow),
            Self::NoMemory => Some(Self::NoMemory),
            Self::Panicked(panic) => {
                let report = panic.report()?;
                Some(Self::Panicked(Panic(Kind::Reported(report))))
            }
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::StackOverflow => f.write_str("the task's stack was too small"),
            Self::NoMemory => f.write_str("there was no memory for the task or its stack"),
            Self::Panicked(panic) => write!(f, "the task panicked: {}", panic.message()),
        }
    }
}

impl core::error::Error for TaskError {}

/// What a task panicked with.
///
/// ```
/// use executor::{Runtime, TaskError, spawn};
///
/// # let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let broken = spawn(async { panic!("on purpose") });
///     let Err(TaskError::Panicked(panic)) = broken.await else {
///         unreachable!("it cannot end in another way")
///     };
///     assert_eq!(panic.message(), "on purpose");
/// });
/// # Ok::<(), executor::BuildError>(())
/// ```
pub struct Panic(Kind);

enum Kind {
    /// It was thrown, and caught. Not on the image.
    Thrown(unwind::Payload),
    /// The poll was left where it was. On the image. None: there was no memory to note why.
    Reported(Option<&'static Report>),
}

/// What is known of a poll that was left for good. It is kept as long as all that the poll had, which is for ever.
struct Report {
    message: String,
    /// Where `panic!` was called.
    file: String,
    line: u32,
    column: u32,
    /// Where it was, and who had called that.
    backtrace: Vec<usize>,
    /// The registers at a fault.
    registers: Option<Frame>,
}

/// A place in the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location<'a> {
    /// The file, as the compiler was told of it.
    pub file: &'a str,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1.
    pub column: u32,
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl Panic {
    /// What `panic!` was told, or what kind of fault it was.
    pub fn message(&self) -> &str {
        match &self.0 {
            Kind::Thrown(payload) => payload
                .message()
                .unwrap_or("with something that is no text"),
            Kind::Reported(Some(report)) => &report.message,
            Kind::Reported(None) => "with something for which there was no memory",
        }
    }

    /// Where `panic!` was called. None for a fault; and on the host, where the panic has printed it.
    pub fn location(&self) -> Option<Location<'_>> {
        let report = self.noted().filter(|report| report.line != 0)?;
        Some(Location {
            file: &report.file,
            line: report.line,
            column: report.column,
        })
    }

    /// Addresses in the code: where it was, who had called that, and so on. Empty on the host, where the panic has
    /// printed it if it was asked to.
    pub fn backtrace(&self) -> &[usize] {
        self.noted().map_or(&[], |report| &report.backtrace)
    }

    /// The registers, if it was a fault.
    pub fn registers(&self) -> Option<&Frame> {
        self.noted()?.registers.as_ref()
    }

    /// Goes on panicking, here.
    pub fn resume(self) -> ! {
        match self.0 {
            Kind::Thrown(payload) => unwind::resume(payload),
            Kind::Reported(_) => panic!("a task panicked: {}", self.message()),
        }
    }

    fn report(&self) -> Option<Option<&'static Report>> {
        match self.0 {
            Kind::Thrown(_) => None,
            Kind::Reported(report) => Some(report),
        }
    }

    fn noted(&self) -> Option<&'static Report> {
        self.report()?
    }

    /// Of a panic in a poll that nobody goes on with, which runs here: program counter and frame pointer are `from`.
    pub(crate) fn of(info: &PanicInfo<'_>, from: (usize, usize)) -> Self {
        let mut report = Report::new(format_args!("{}", info.message()), from);
        if let Some(at) = info.location() {
            report.file = text(format_args!("{}", at.file()));
            (report.line, report.column) = (at.line(), at.column());
        }
        Self(Kind::Reported(report.keep()))
    }

    /// Of a poll that was left there, and nobody goes on with, because of this.
    pub(crate) fn where_left(why: &str, frame: &Frame) -> Self {
        let from = (frame.program_counter(), frame.frame_pointer());
        let report = Report::new(format_args!("{why}"), from);
        Self(Kind::Reported(report.keep()))
    }

    /// Of a fault in a poll that nobody goes on with, and which was saved in this frame.
    pub(crate) fn by(fault: &Fault, frame: &Frame) -> Self {
        let from = (frame.program_counter(), frame.frame_pointer());
        let mut report = Report::new(format_args!("{fault}"), from);
        report.registers = Some(*frame);
        Self(Kind::Reported(report.keep()))
    }
}

/// So many bytes of a message are kept,
const LONGEST: usize = 1024;
/// and so many steps of a backtrace.
const DEEPEST: usize = 64;

impl Report {
    fn new(message: fmt::Arguments<'_>, (program_counter, frame_pointer): (usize, usize)) -> Self {
        let mut steps = Vec::new();
        // As deep as there is memory for.
        let _ = steps.try_reserve_exact(DEEPEST);
        backtrace::walk(program_counter, frame_pointer, |address| {
            if steps.len() < steps.capacity() {
                steps.push(address);
            }
        });
        Self {
            message: text(message),
            file: String::new(),
            line: 0,
            column: 0,
            backtrace: steps,
            registers: None,
        }
    }

    fn keep(self) -> Option<&'static Self> {
        try_leak(self)
    }
}

/// As much of it as there is memory for, and no more than is worth it.
fn text(what: fmt::Arguments<'_>) -> String {
    struct Bounded(String);

    impl fmt::Write for Bounded {
        fn write_str(&mut self, more: &str) -> fmt::Result {
            let room = more.floor_char_boundary(LONGEST - self.0.len().min(LONGEST));
            self.0.try_reserve(room).map_err(|_| fmt::Error)?;
            self.0.push_str(&more[..room]);
            match room == more.len() {
                true => Ok(()),
                false => Err(fmt::Error),
            }
        }
    }

    let mut text = Bounded(String::new());
    // An error is the end of what fits.
    let _ = write!(text, "{what}");
    text.0
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message()).finish()
    }
}

impl From<unwind::Payload> for Panic {
    fn from(payload: unwind::Payload) -> Self {
        Self(Kind::Thrown(payload))
    }
}
