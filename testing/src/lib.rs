//! The test framework of the image.
//!
//! A test is a function with `#[kernel_test]` in any crate of the image. The
//! attribute files a [`KernelTest`] in a linker section; [`run`] walks that
//! section and speaks to the runner on the host (`qemu/`) by lines that begin
//! with `@@ ` on the console:
//!
//! ```text
//! @@ plan 12
//! @@ begin 0 hal::clock::tests::time_does_not_go_back limit=60
//! @@ ok 0 hal::clock::tests::time_does_not_go_back us=1804
//! @@ end passed=12 failed=0 skipped=0
//! ```
//!
//! A test that panics takes the machine down; the runner boots again with
//! `from=` the next index, so the numbers stay the same from boot to boot.

#![no_std]

use core::fmt::{self, Write};

pub use testing_macros::kernel_test;

/// One test of the image, as `#[kernel_test]` files it.
pub struct KernelTest {
    /// Module path and function name.
    pub name: &'static str,
    /// Needs at least this many cores.
    pub cores: usize,
    /// Boards it runs on, separated by blanks; empty: all of them.
    pub boards: &'static str,
    /// Seconds on the wall clock that the runner gives it.
    pub limit_seconds: u32,
    /// Takes long: runs only when that is asked for, with others of its kind.
    pub is_long: bool,
    /// Needs a disk: runs only on a machine that has one, with others of its kind.
    pub needs_disk: bool,
    /// Runs it.
    pub run: fn() -> Outcome,
}

/// What a test that came back has to say.
#[allow(
    clippy::large_enum_variant,
    reason = "a test of the allocator reports too, so nothing is boxed"
)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It returned an error, shown with the given function.
    Failed(Message),
}

impl Outcome {
    /// Turns what a test function returns into an outcome.
    pub fn report(result: impl IntoOutcome) -> Self {
        result.into_outcome()
    }
}

/// What a test function may return: nothing, or a `Result`.
pub trait IntoOutcome {
    /// Judges the returned value.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Passed
    }
}

impl<E: fmt::Display> IntoOutcome for Result<(), E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                let mut message = Message::default();
                // A message longer than its buffer is cut, which `Message` marks.
                let _ = write!(message, "{error}");
                Outcome::Failed(message)
            }
        }
    }
}

/// Text of an error: fixed room, because a test of the allocator may report too.
#[derive(Clone)]
pub struct Message {
    bytes: [u8; Self::ROOM],
    length: usize,
}

impl Message {
    const ROOM: usize = 240;
}

impl Default for Message {
    fn default() -> Self {
        Self {
            bytes: [0; Self::ROOM],
            length: 0,
        }
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            // One message is one line of the protocol.
            let character = if character == '\n' { ' ' } else { character };
            let mut encoded = [0; 4];
            let encoded = character.encode_utf8(&mut encoded).as_bytes();
            let Some(room) = self.bytes.get_mut(self.length..self.length + encoded.len()) else {
                return Err(fmt::Error);
            };
            room.copy_from_slice(encoded);
            self.length += encoded.len();
        }
        Ok(())
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("?"))
    }
}

/// What the image tells the framework about itself.
pub struct Environment<'a> {
    /// Name of the board.
    pub board: &'a str,
    /// Cores that are up.
    pub cores: usize,
    /// Only tests whose name contains this.
    pub filter: &'a str,
    /// Only tests that take long, instead of those that do not.
    pub long: bool,
    /// Only tests that need a disk, which is there, instead of those that do not.
    pub disk: bool,
    /// Tests below this index have run in an earlier boot.
    pub from: usize,
    /// Monotonic time in nanoseconds.
    pub now: fn() -> u64,
    /// Writes one line to the console; never called from an interrupt.
    pub print_line: fn(fmt::Arguments<'_>),
}

/// How a whole run ended.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub struct Summary {
    /// Tests that passed in this boot.
    pub passed: usize,
    /// Tests that returned an error in this boot.
    pub failed: usize,
    /// Tests that this board or number of cores is not for.
    pub skipped: usize,
}

/// Runs the tests that were filed by `#[kernel_test]`.
pub fn run(environment: &Environment<'_>) -> Summary {
    run_list(registry(), environment)
}

fn run_list(list: &[KernelTest], environment: &Environment<'_>) -> Summary {
    let print = environment.print_line;
    let selected = || {
        list.iter()
            .filter(|test| test.is_long == environment.long && test.needs_disk == environment.disk)
            .filter(|test| test.name.contains(environment.filter))
            .enumerate()
    };
    print(format_args!(
        "@@ spindle 1 board={} cores={}",
        environment.board, environment.cores
    ));
    print(format_args!("@@ plan {}", selected().count()));
    let mut summary = Summary::default();
    for (index, test) in selected().skip(environment.from) {
        let name = test.name;
        if let Some(reason) = test.reason_to_skip(environment) {
            print(format_args!("@@ skip {index} {name} {reason}"));
            summary.skipped += 1;
            continue;
        }
        print(format_args!(
            "@@ begin {index} {name} limit={}",
            test.limit_seconds
        ));
        let start = (environment.now)();
        let outcome = (test.run)();
        let micros = (environment.now)().saturating_sub(start) / 1000;
        match outcome {
            Outcome::Passed => {
                print(format_args!("@@ ok {index} {name} us={micros}"));
                summary.passed += 1;
            }
            Outcome::Failed(message) => {
                print(format_args!("@@ fail {index} {name} {message}"));
                summary.failed += 1;
            }
        }
    }
    let Summary {
        passed,
        failed,
        skipped,
    } = summary;
    print(format_args!(
        "@@ end passed={passed} failed={failed} skipped={skipped}"
    ));
    summary
}

impl KernelTest {
    fn reason_to_skip(&self, environment: &Environment<'_>) -> Option<fmt::Arguments<'_>> {
        if !self.boards.is_empty()
            && !self
                .boards
                .split_ascii_whitespace()
                .any(|board| board == environment.board)
        {
            return Some(format_args!("only for another board"));
        }
        (self.cores > environment.cores).then_some(format_args!("needs more cores"))
    }
}

/// The table of tests that the linker gathered.
#[cfg(target_os = "none")]
fn registry() -> &'static [KernelTest] {
    unsafe extern "C" {
        static __tests_start: u8;
        static __tests_end: u8;
    }
    let start = (&raw const __tests_start).cast::<KernelTest>();
    let end = &raw const __tests_end;
    let count = (end as usize - start as usize) / size_of::<KernelTest>();
    // SAFETY: 1. the linker script brackets `.spindle.tests` with these two symbols and aligns it;
    // 2. only `#[kernel_test]` puts anything there, always a whole `KernelTest`, and it is never written.
    unsafe { core::slice::from_raw_parts(start, count) }
}

/// Tests of the image run in the image only.
#[cfg(not(target_os = "none"))]
fn registry() -> &'static [KernelTest] {
    &[]
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{format, string::String, sync::Mutex, vec::Vec};

    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn test(name: &'static str, cores: usize, boards: &'static str) -> KernelTest {
        KernelTest {
            name,
            cores,
            boards,
            limit_seconds: 60,
            is_long: false,
            needs_disk: false,
            run: || Outcome::report(Ok::<(), &str>(())),
        }
    }

    #[test]
    fn numbers_stay_the_same_when_a_run_goes_on_in_a_later_boot() {
        let mut list = [
            test("a::x", 1, ""),
            test("b::y", 1, ""),
            KernelTest {
                is_long: true,
                ..test("b::years", 1, "")
            },
            test("b::z", 8, ""),
            test("b::w", 1, "raspi3b"),
            test("b::v", 1, "pc virt"),
        ];
        list[5].run = || Outcome::report(Err("two\nlines"));
        let summary = run_list(
            &list,
            &Environment {
                board: "pc",
                cores: 4,
                filter: "b::",
                long: false,
                disk: false,
                from: 1,
                now: || 0,
                print_line: |line| LINES.lock().unwrap().push(format!("{line}")),
            },
        );
        assert_eq!(
            summary,
            Summary {
                passed: 0,
                failed: 1,
                skipped: 2
            }
        );
        assert_eq!(
            *LINES.lock().unwrap(),
            [
                "@@ spindle 1 board=pc cores=4",
                "@@ plan 4",
                "@@ skip 1 b::z needs more cores",
                "@@ skip 2 b::w only for another board",
                "@@ begin 3 b::v limit=60",
                "@@ fail 3 b::v two lines",
                "@@ end passed=0 failed=1 skipped=2",
            ]
        );
    }
}
