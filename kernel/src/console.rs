//! The console: lines of several cores that never mix, the `log` crate's
//! output, and what is typed.
//!
//! One lock around the serial port, held for a whole line. A machine panic
//! stops all other cores first and then writes past the lock, which one of
//! them may hold for ever.

use boot::command_line::Level;
use core::{
    fmt::{self, Write},
    future::poll_fn,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    task::Poll,
};
use drivers::serial::{Registers, Serial};
use executor::sync::WakerSlot;
use hal::{
    board::Uart,
    clock, cores,
    sync::{Lock, Rank, ranked},
};
use log::LevelFilter;
use spin::Once;

static PORT: Lock<Option<Serial>> = Lock::new(None);
/// The same, for who goes past the lock.
static REGISTERS: Once<Registers> = Once::new();
/// Set while a machine panic is reported: the lock counts no more.
static FORCED: AtomicBool = AtomicBool::new(false);

/// The right to use the serial port now. Not a reference to it, because what
/// is shown in a line may write a line itself: each use takes one anew, and is
/// over before the next.
enum Port {
    /// By who holds its lock.
    Held,
    /// By somebody else, who may only write.
    PastTheLock,
}

impl Port {
    fn with<T>(&mut self, use_it: impl FnOnce(&mut Serial) -> T) -> Option<T> {
        match self {
            // SAFETY: the lock lets in one core at a time; nothing that is called in here comes back to
            // the console, so this is the only reference.
            Self::Held => unsafe { &mut *PORT.data_ptr() }.as_mut().map(use_it),
            Self::PastTheLock => None,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Held => _ = self.with(|serial| serial.send(bytes)),
            Self::PastTheLock => {
                if let Some(registers) = REGISTERS.get() {
                    registers.send(bytes);
                }
            }
        }
    }
}

/// With the carriage returns that terminals want.
impl Write for Port {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut pieces = text.split('\n');
        if let Some(first) = pieces.next() {
            self.send(first.as_bytes());
        }
        for piece in pieces {
            self.send(b"\r\n");
            self.send(piece.as_bytes());
        }
        Ok(())
    }
}

fn with_port<T>(use_it: impl FnOnce(Port) -> T) -> T {
    let held_here = {
        let _masked = hal::irq::mask();
        // SAFETY: the raw lock is only asked who holds it.
        unsafe { PORT.raw() }.is_held_here()
    };
    // In a machine panic all other cores stand still, and one may hold the lock.
    if FORCED.load(Relaxed) {
        return use_it(Port::PastTheLock);
    }
    // This very core is writing a line, perhaps, and what is shown in it writes another.
    let _held = (!held_here).then(|| PORT.lock());
    use_it(Port::Held)
}

/// Opens the board's serial port and starts to log.
pub fn init(uart: Uart, level: Level) {
    if let Some((serial, registers)) = Serial::open(uart) {
        REGISTERS.call_once(|| registers);
        *PORT.lock() = Some(serial);
    }
    // Fails only if a logger is set already, which then is this one.
    let _ = log::set_logger(&Logger);
    set_level(level);
}

/// Chooses what is logged.
pub fn set_level(level: Level) {
    log::set_max_level(match level {
        Level::Off => LevelFilter::Off,
        Level::Error => LevelFilter::Error,
        Level::Warn => LevelFilter::Warn,
        Level::Info => LevelFilter::Info,
        Level::Debug => LevelFilter::Debug,
        Level::Trace => LevelFilter::Trace,
    });
}

/// Writes text as it is.
pub fn print(text: fmt::Arguments<'_>) {
    // The port itself never fails; an error of a `Display` has said what it could.
    let _ = with_port(|mut port| port.write_fmt(text));
}

/// Writes one line, whole.
pub fn print_line(line: fmt::Arguments<'_>) {
    print(format_args!("{line}\n"));
}

/// Writes several lines, also if the port is kept by a core that goes on no more: then past the lock, and maybe into another line.
pub fn print_urgently(lines: impl FnOnce(&mut dyn Write) -> fmt::Result) {
    /// Long enough for a line, also if its core is not run meanwhile.
    const PATIENCE: u64 = 100_000_000;
    let masked = hal::irq::mask();
    let end = clock::now() + PATIENCE;
    let held = loop {
        let held = PORT.try_lock();
        if held.is_some() || clock::now() >= end || FORCED.load(Relaxed) {
            break held;
        }
        hal::stop::check();
        hal::pause();
    };
    let mut port = match held {
        Some(_) => Port::Held,
        None => Port::PastTheLock,
    };
    // As in `print`.
    let _ = lines(&mut port);
    drop(held);
    drop(masked);
}

/// Takes the console for the report of a machine panic.
///
/// # Safety
/// All other cores are stopped.
pub unsafe fn force() {
    FORCED.store(true, Relaxed);
}

/// Writes one line to the console, like `std`'s `println!`.
#[macro_export]
macro_rules! println {
    () => { $crate::console::print(format_args!("\n")) };
    ($($text:tt)*) => { $crate::console::print_line(format_args!($($text)*)) };
}

/// Writes to the console, like `std`'s `print!`.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::console::print(format_args!($($text)*)) };
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let micros = clock::now() / 1000;
        print_line(format_args!(
            "[{:5}.{:06}] core {} {:5} {}: {}",
            micros / 1_000_000,
            micros % 1_000_000,
            cores::this_core(),
            record.level(),
            record.target(),
            record.args()
        ));
    }

    fn flush(&self) {}
}

/// Bytes that arrived and nobody has read yet.
struct Input {
    bytes: [u8; 256],
    head: usize,
    count: usize,
}

impl Input {
    /// Keeps a byte; false: there is no room.
    fn push(&mut self, byte: u8) -> bool {
        if self.count == self.bytes.len() {
            return false;
        }
        let at = (self.head + self.count) % self.bytes.len();
        self.bytes[at] = byte;
        self.count += 1;
        true
    }

    fn pop(&mut self) -> Option<u8> {
        self.count = self.count.checked_sub(1)?;
        let byte = self.bytes[self.head];
        self.head = (self.head + 1) % self.bytes.len();
        Some(byte)
    }
}

static INPUT: Lock<Input> = ranked(
    Rank::Input,
    Input {
        bytes: [0; 256],
        head: 0,
        count: 0,
    },
);
/// Whoever waits for a byte.
static READER: WakerSlot = WakerSlot::new();
/// Bytes that came when there was no room, or damaged.
static OVERRUN: AtomicUsize = AtomicUsize::new(0);

/// The serial port's interrupt: takes what has arrived, and wakes who waits for it.
pub fn on_receive() {
    let mut input = INPUT.lock();
    while let Some(Some(byte)) = with_port(|mut port| port.with(Serial::receive)) {
        if !byte.is_ok_and(|byte| input.push(byte)) {
            OVERRUN.fetch_add(1, Relaxed);
        }
    }
    // First the bytes, then the wake, and that without the lock; `read_byte` has the other half.
    drop(input);
    READER.wake();
}

/// Lets received bytes interrupt core `core`.
pub fn listen(uart: Uart, core: usize) {
    if let Some(line) = drivers::serial::line(uart) {
        // The way first, then the interrupt: one that came before the way was open would be lost,
        // and with it, where lines work by edges, all that come after.
        hal::irq::enable_line(line, core);
        with_port(|mut port| port.with(Serial::interrupt_on_receive));
        let _masked = hal::irq::mask();
        on_receive();
    }
}

/// Waits for a byte and takes it. One task at a time: of two that wait, only
/// the last is woken.
pub async fn read_byte() -> u8 {
    let take = || INPUT.lock().pop();
    poll_fn(|context| {
        if let Some(byte) = take() {
            return Poll::Ready(byte);
        }
        READER.register(context.waker());
        executor::task::waits_for(&"console");
        // Once more: the interrupt of a byte that came after the first look had nobody to wake.
        take().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Bytes lost because nobody read them in time.
pub fn overrun() -> usize {
    OVERRUN.load(Relaxed)
}
