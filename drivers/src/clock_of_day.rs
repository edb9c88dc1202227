//! PL031, a clock that knows the time of day and interrupts at a second: a whole driver, and the example of `docs/drivers.md`.

use alloc::{boxed::Box, string::String, sync::Arc};
use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering::*},
};
use executor::{
    io::{Attached, Device, Driver, Id, OnInterrupt, Registers, Seen, StartError, Started, lines},
    sync::{Mutex, Notify},
};
use hal::paging::map_device;

// Registers.
const NOW: usize = 0x00;
const MATCH: usize = 0x04;
const MASK: usize = 0x10;
const PENDING: usize = 0x18;
const CLEAR: usize = 0x1c;

/// What the interrupt and the tasks share.
struct Clock {
    registers: usize,
    is_stopped: AtomicBool,
    bell: Notify,
}

impl Clock {
    fn read(&self, register: usize) -> u32 {
        // SAFETY: `start` has mapped them for good; each is read by itself, from any core.
        unsafe { ((self.registers + register) as *const u32).read_volatile() }
    }

    fn write(&self, register: usize, value: u32) {
        // SAFETY: as above.
        unsafe { ((self.registers + register) as *mut u32).write_volatile(value) }
    }
}

/// The interrupt half.
impl OnInterrupt for Clock {
    fn on_interrupt(&self) -> Seen {
        if self.read(PENDING) == 0 {
            return Seen::Nothing;
        }
        self.write(CLEAR, 1);
        self.bell.notify_waiters();
        Seen::Work
    }
}

/// The clock that runs.
static RUNNING: Mutex<Option<Arc<Clock>>> = Mutex::new(None);

/// Waits for the next second, and returns it: since 1970. None: there is no such clock, or it was stopped. One at a time: it has one alarm.
pub async fn next_second() -> Option<u32> {
    let clock = RUNNING.lock().await.clone()?;
    let next = clock.read(NOW) + 1;
    loop {
        // Made before the look: a bell that rings in between is heard.
        let bell = clock.bell.notified();
        clock.write(MATCH, next);
        match clock.read(NOW) {
            _ if clock.is_stopped.load(Acquire) => return None,
            now if now >= next => return Some(now),
            _ => bell.await,
        }
    }
}

/// The driver.
pub struct Pl031;

impl Driver for Pl031 {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn drives(&self, device: &Device) -> bool {
        device.id == Id::BuiltIn("pl031")
    }

    fn start(&self, device: &Device) -> Result<Box<dyn Started>, StartError> {
        let Registers::Memory { address, length } = device.registers else {
            return Err(StartError::Lacks("registers in memory"));
        };
        let line = device.line.ok_or(StartError::Lacks("interrupt"))?;
        let registers = map_device(address, length).map_err(|_| StartError::NoMemory)?;
        let clock = Arc::new(Clock {
            registers,
            is_stopped: AtomicBool::new(false),
            bell: Notify::new(),
        });
        let line = lines::attach(line, None, clock.clone())?;
        clock.write(MASK, 1);
        *RUNNING.lock_blocking() = Some(clock.clone());
        Ok(Box::new(Running(clock, line)))
    }
}

/// Its line is detached when this is dropped.
struct Running(Arc<Clock>, Attached);

impl Started for Running {
    fn stop(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.write(MASK, 0);
        self.0.is_stopped.store(true, Release);
        self.0.bell.notify_waiters();
        Box::pin(async { *RUNNING.lock().await = None })
    }

    fn status(&self) -> String {
        alloc::format!("{} interrupts", self.1.count())
    }
}
