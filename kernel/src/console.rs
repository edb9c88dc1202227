//! The console: lines of several cores that never mix, the `log` crate's
//! output, and what is typed.
//!
//! One lock around the serial port, held for a whole line. At first bytes are sent by hand; once its port is driven ([`Uart0`]), a line goes into a
//! ring, from which interrupts send it. A machine panic
//! stops all other cores first, sends what is in the ring, and then writes past the lock, which one of
//! them may hold for ever.

use alloc::{boxed::Box, format, string::String};
use boot::command_line::Level;
use core::{
    fmt::{self, Write},
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use drivers::serial::{self, Registers, Rx, Serial, Tx, UartError};
use executor::{
    io::{self, Device, Driver, Id, StartError, Started},
    sync::Notify,
};
use hal::{
    board::Uart,
    clock, cores,
    sync::{Lock, Rank, ranked},
};
use log::LevelFilter;
use spin::Once;

static PORT: Lock<Output> = ranked(Rank::Console, Output::None);
/// The same, for who goes past the lock.
static REGISTERS: Once<Registers> = Once::new();
/// Set while a machine panic is reported: the lock counts no more.
static FORCED: AtomicBool = AtomicBool::new(false);

/// How bytes get out.
enum Output {
    /// There is no port; or it is just being handed over, and is written to past its driver.
    None,
    /// By hand.
    ByHand(Serial),
    /// By interrupts.
    Driven(Tx),
}

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
    fn with<T>(&mut self, use_it: impl FnOnce(&mut Output) -> T) -> Option<T> {
        match self {
            // SAFETY: the lock lets in one core at a time; nothing that is called in here comes back to
            // the console, so this is the only reference.
            Self::Held => Some(use_it(unsafe { &mut *PORT.data_ptr() })),
            Self::PastTheLock => None,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let is_sent = self.with(|output| match output {
            Output::None => false,
            Output::ByHand(serial) => {
                serial.send(bytes);
                true
            }
            Output::Driven(tx) => {
                tx.write_now(bytes);
                true
            }
        });
        if is_sent != Some(true)
            && let Some(registers) = REGISTERS.get()
        {
            registers.send(bytes);
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

fn with_port<T>(use_it: impl FnOnce(&mut Port) -> T) -> T {
    let held_here = {
        let _masked = hal::irq::mask();
        // SAFETY: the raw lock is only asked who holds it.
        unsafe { PORT.raw() }.is_held_here()
    };
    // In a machine panic all other cores stand still, and one may hold the lock.
    if FORCED.load(Relaxed) {
        return use_it(&mut Port::PastTheLock);
    }
    // This very core is writing a line, perhaps, and what is shown in it writes another.
    let _held = (!held_here).then(|| PORT.lock());
    let result = use_it(&mut Port::Held);
    Port::Held.with(|output| {
        if let Output::Driven(tx) = output {
            tx.begin();
        }
    });
    result
}

/// Opens the board's serial port and starts to log.
pub fn init(uart: Uart, level: Level) {
    if let Some((serial, registers)) = Serial::open(uart) {
        REGISTERS.call_once(|| registers);
        *PORT.lock() = Output::ByHand(serial);
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
    let _ = with_port(|port| port.write_fmt(text));
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
    // By hand: the core that its interrupts go to may be the one that lets none in.
    port.with(|output| {
        if let Output::Driven(tx) = output {
            tx.send_all();
        }
    });
    drop(held);
    drop(masked);
}

/// Takes the console for the report of a machine panic.
///
/// # Safety
/// All other cores are stopped.
pub unsafe fn force() {
    // Once: what it does may fault itself, if it came in the middle of an exchange.
    if FORCED.swap(true, Relaxed) {
        return;
    }
    // SAFETY: nobody else runs, the caller says; what was interrupted here does not go on.
    if let (Output::Driven(tx), Some(registers)) = (unsafe { &*PORT.data_ptr() }, REGISTERS.get()) {
        // SAFETY: as above.
        unsafe { tx.send_past_lock(*registers) };
    }
}

/// Waits until all that was written is sent: before the machine is switched off.
pub fn flush() {
    if FORCED.load(Relaxed) {
        return;
    }
    if let Output::Driven(tx) = &*PORT.lock() {
        tx.send_all();
    }
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

/// Writes bytes as they are, and waits where there is no room. One at a time.
pub async fn write(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let room = match &mut *PORT.lock() {
            Output::Driven(tx) => {
                // An error: it is just being stopped, and by hand the next time.
                bytes = &bytes[tx.try_write(bytes).unwrap_or(0)..];
                Some(tx.room())
            }
            Output::ByHand(serial) => {
                serial.send(bytes);
                return;
            }
            Output::None if REGISTERS.get().is_none() => return,
            Output::None => None,
        };
        match room {
            Some(room) if !bytes.is_empty() => room.wait().await,
            Some(_) => {}
            None => executor::task::yield_now().await,
        }
    }
}

/// What is typed, as long as nobody has taken it.
static INPUT: Lock<Option<Rx>> = Lock::new(None);
static HAS_INPUT: Notify = Notify::new();

/// What is typed: waits until the port is driven. One has it at a time; when its port is stopped it reads no more.
pub async fn input() -> Rx {
    loop {
        let taken = INPUT.lock().take();
        if let Some(input) = taken {
            return input;
        }
        HAS_INPUT.notified().await;
    }
}

/// The driver of the console's port.
pub struct Uart0;

/// What boot has found for it.
pub fn device(uart: Uart) -> Option<Device> {
    let (id, registers) = match uart {
        Uart::Ns16550 { port, .. } => (
            "16550",
            io::Registers::Ports {
                first: port,
                count: 8,
            },
        ),
        Uart::Pl011 { registers, .. } => (
            "pl011",
            io::Registers::Memory {
                address: registers,
                length: 0x1000,
            },
        ),
        Uart::Host => return None,
    };
    Some(Device {
        id: Id::BuiltIn(id),
        registers,
        line: serial::line(uart),
    })
}

impl Driver for Uart0 {
    fn name(&self) -> &'static str {
        "uart"
    }

    fn drives(&self, found: &Device) -> bool {
        device(hal::board::platform().uart).as_ref() == Some(found)
    }

    fn start(&self, device: &Device) -> Result<Box<dyn Started>, StartError> {
        let line = device.line.ok_or(StartError::Lacks("interrupt"))?;
        // Whoever writes meanwhile does so past the driver.
        let before = core::mem::replace(&mut *PORT.lock(), Output::None);
        let serial = match before {
            Output::ByHand(serial) => serial,
            other => {
                *PORT.lock() = other;
                return Err(StartError::Wrong("it is driven already"));
            }
        };
        match serial::Uart::start(serial, line, None) {
            Ok((uart, rx, tx)) => {
                *PORT.lock() = Output::Driven(tx);
                let before = INPUT.lock().replace(rx);
                drop(before);
                HAS_INPUT.notify_one();
                Ok(Box::new(Running(uart)))
            }
            Err((serial, error)) => {
                *PORT.lock() = Output::ByHand(serial);
                Err(match error {
                    UartError::NoMemory => StartError::NoMemory,
                    UartError::Line(error) => StartError::Line(error),
                })
            }
        }
    }
}

struct Running(serial::Uart);

impl Started for Running {
    fn stop(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // First nobody writes to it any more, then it ends.
        let before = core::mem::replace(&mut *PORT.lock(), Output::None);
        if let Some(serial) = self.0.stop() {
            *PORT.lock() = Output::ByHand(serial);
        }
        drop(before);
        // Not under its lock: its memory is freed.
        let input = INPUT.lock().take();
        drop(input);
        Box::pin(core::future::ready(()))
    }

    fn status(&self) -> String {
        let counts = self.0.counts();
        format!(
            "{} bytes in, {} out; {} overruns",
            counts.received, counts.sent, counts.overruns
        )
    }
}
