//! Machine panics: all cores stop, and each is shown with a backtrace.

use crate::{console, println, symbols};
use core::{
    fmt,
    panic::PanicInfo,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use executor::TaskError;
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

/// From here on a report has the lines that the test runner looks for.
pub fn report_to_runner() {
    FOR_RUNNER.store(true, Relaxed);
}

#[panic_handler]
fn on_panic(info: &PanicInfo<'_>) -> ! {
    let (program_counter, frame_pointer) = backtrace::here();
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

/// A fault that nobody can mend. Where it is a task's, whose stack was too
/// small, only that task ends; else it is a machine panic.
pub fn on_fault(fault: &Fault, frame: &Frame) -> Switch {
    if let Some(error) = error_of_task(fault)
        && let Some(switch) = executor::upcalls::on_fault(context::current(), error)
    {
        return switch;
    }
    panic_by_fault(fault, frame)
}

/// What the task that runs here would end with, if the fault is about its stack.
fn error_of_task(fault: &Fault) -> Option<TaskError> {
    let task = executor::task::try_current().filter(|_| !fault.in_handler)?;
    let error = match fault.kind {
        FaultKind::NoMemory => TaskError::NoMemory,
        FaultKind::Read | FaultKind::Write
            if context::current().stack().is_overflow(fault.address) =>
        {
            TaskError::StackOverflow
        }
        _ => return None,
    };
    // Not under a guard, for who holds one may be writing a line.
    if context::current().is_free() {
        log::error!("{task:?} ends at {:#x}: {error}", fault.address);
    }
    Some(error)
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
