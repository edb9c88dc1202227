//! What becomes of panics and faults. One that is a task's ends that task, and all others go on. Under a
//! guard, in an interrupt or outside of tasks it is a machine panic: all cores stop, and each is shown with a
//! backtrace.

use crate::{console, println, symbols};
use core::{
    fmt,
    panic::PanicInfo,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};
use executor::{TaskError, task::Task, upcalls};
use hal::{
    backtrace, clock,
    context::{self, Frame},
    cores, irq, power,
    stop::{self, Role},
    traps::{Fault, FaultKind, Switch},
};

/// How long other cores get to stop. A virtual core may not run for seconds on a loaded host.
const PATIENCE: u64 = 5_000_000_000;

/// Whether lines for the test runner are written around the report.
static FOR_RUNNER: AtomicBool = AtomicBool::new(false);

/// From here on a report has the lines that the test runner looks for, and a task that panics fails the test: it
/// is a machine panic, as nobody may join that task. Unless the test [says otherwise](let_tasks_end).
pub fn report_to_runner() {
    FOR_RUNNER.store(true, Relaxed);
}

/// How many want panics and faults to end tasks only.
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// While this lives, a panic or fault of a task ends that task only, also in a test.
#[must_use = "it holds while it lives"]
pub struct TasksEnd(());

/// Lets panics and faults of tasks end these tasks, also in a test, which looks for them.
pub fn let_tasks_end() -> TasksEnd {
    WANTED.fetch_add(1, Relaxed);
    TasksEnd(())
}

impl Drop for TasksEnd {
    fn drop(&mut self) {
        WANTED.fetch_sub(1, Relaxed);
    }
}

fn may_end_task() -> bool {
    !FOR_RUNNER.load(Relaxed) || WANTED.load(Relaxed) != 0
}

/// From here on, a task that is lost is shown as it should be.
pub fn register() {
    upcalls::set_on_loss(on_loss);
}

/// A task was left in the middle of its poll, for good. A line at a time, as others write too.
fn on_loss(task: &Task, error: &TaskError) {
    let id = task.id();
    let TaskError::Panicked(panic) = error else {
        return log::error!("{task:?} is lost: {error}");
    };
    match panic.location() {
        Some(at) => log::error!("{task:?} panicked: {} ({at})", panic.message()),
        None => log::error!("{task:?} met a fault: {}", panic.message()),
    }
    if let Some(registers) = panic.registers() {
        log::error!("{id}: registers\n{registers}");
    }
    for (depth, &address) in panic.backtrace().iter().enumerate() {
        log::error!("{id} {depth:2}: {}", symbols::Address(address));
    }
}

#[panic_handler]
fn on_panic(info: &PanicInfo<'_>) -> ! {
    let (program_counter, frame_pointer) = backtrace::here();
    if may_end_task() {
        upcalls::on_panic(info, (program_counter, frame_pointer));
    }
    let report = Report {
        kind: "panic",
        program_counter,
        frame_pointer,
        frame: None,
    };
    match info.location() {
        Some(at) => report.send(format_args!("{} ({at})", info.message())),
        None => report.send(format_args!("{}", info.message())),
    }
}

/// A fault that nobody can mend. Where it is a task's, only that task ends; else it is a machine panic.
pub fn on_fault(fault: &Fault, frame: &Frame) -> Switch {
    end_task(fault).unwrap_or_else(|| panic_by_fault(fault, frame))
}

/// Ends the task that runs here, if the fault is its own.
fn end_task(fault: &Fault) -> Option<Switch> {
    if fault.in_handler {
        return None;
    }
    let context = context::current();
    match fault.kind {
        FaultKind::NoMemory => upcalls::on_stack_fault(context, TaskError::NoMemory),
        FaultKind::Read | FaultKind::Write if context.stack().is_overflow(fault.address) => {
            upcalls::on_stack_fault(context, TaskError::StackOverflow)
        }
        FaultKind::Double => None,
        _ if may_end_task() => upcalls::on_fault(context, fault),
        _ => None,
    }
}

fn panic_by_fault(fault: &Fault, frame: &Frame) -> ! {
    let mut report = Report {
        kind: "panic",
        program_counter: frame.program_counter(),
        frame_pointer: frame.frame_pointer(),
        frame: Some(frame),
    };
    let stack = context::current().stack();
    let about_memory = matches!(
        fault.kind,
        FaultKind::Read | FaultKind::Write | FaultKind::Double
    );
    if about_memory && !fault.in_handler && stack.is_overflow(fault.address) {
        report.kind = "overflow";
        let size = (stack.high - stack.low) / 1024;
        report.send(format_args!(
            "stack overflow: {:#x} is in the guard page below the stack of {size} KiB",
            fault.address
        ));
    }
    report.send(format_args!("{fault}"));
}

struct Report<'a> {
    kind: &'static str,
    program_counter: usize,
    frame_pointer: usize,
    frame: Option<&'a Frame>,
}

impl Report<'_> {
    fn send(&self, message: fmt::Arguments<'_>) -> ! {
        // For good: nothing may come between, least of all this core's own tick.
        core::mem::forget(irq::mask());
        match stop::claim() {
            Role::Reporter => {}
            Role::Bystander => stop::halt_here(self.program_counter, self.frame_pointer),
            Role::Again => {
                // SAFETY: this core reports, and has stopped the others or was about to.
                unsafe { console::force() };
                println!("*** and again while that was reported: {message}");
                power::exit(power::Status::Panic);
            }
        }
        let silent = stop::stop_others(PATIENCE);
        // SAFETY: the others stand still; one that does not answer has its interrupts masked for good,
        // and at worst spoils a line.
        unsafe { console::force() };
        let me = cores::this_core();
        let micros = clock::now() / 1000;
        // Whatever line was being written ends here.
        println!();
        if FOR_RUNNER.load(Relaxed) {
            println!("@@ {} core={me} {message}", self.kind);
        }
        println!(
            "*** machine panic on core {me} after {}.{:06} s",
            micros / 1_000_000,
            micros % 1_000_000
        );
        println!("*** {message}");
        println!("core {me}, where it happened:");
        if let Some(frame) = self.frame {
            println!("{frame}");
        }
        show(self.program_counter, self.frame_pointer);
        for core in cores::online().without(me).iter() {
            if silent.contains(core) {
                println!("core {core}: does not answer, its interrupts are masked");
            } else if let Some((program_counter, frame_pointer)) = stop::place(core) {
                println!("core {core}:");
                show(program_counter, frame_pointer);
            }
        }
        if FOR_RUNNER.load(Relaxed) {
            println!("@@ panic-end");
        }
        power::exit(power::Status::Panic)
    }
}

/// Shows a backtrace; a frame that is there many times in a row, as in an
/// endless recursion, once.
fn show(program_counter: usize, frame_pointer: usize) {
    let (mut depth, mut last, mut repeats) = (0, 0, 0);
    let tell_repeats = |repeats| {
        if repeats > 0 {
            println!("      the same {repeats} times more");
        }
    };
    backtrace::walk(program_counter, frame_pointer, |address| {
        if address == last {
            repeats += 1;
        } else {
            tell_repeats(repeats);
            println!("  {depth:2}: {}", symbols::Address(address));
            (last, repeats) = (address, 0);
        }
        depth += 1;
    });
    tell_repeats(repeats);
}
