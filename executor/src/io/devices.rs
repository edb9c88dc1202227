//! What was found on the machine, and who drives it.
//!
//! A bus ([`found`]) says what there is; a [`Driver`] says which of that it knows. Whichever comes second brings them together, and
//! [`start`](Driver::start) makes a running device of the two, with a name: `uart0`. It goes on until it is [`stop`]ped, or [`remove`]d because it
//! is no longer there.

use crate::sync::Mutex;
use alloc::{boxed::Box, format, string::String, vec::Vec};
use core::{error, fmt, future::Future, pin::Pin};
use hal::irq::Line;

/// What kind of device something is, as its bus says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Id {
    /// In the table of a board.
    BuiltIn(&'static str),
    /// In a device tree: what it is compatible with.
    Compatible(&'static str),
    /// On PCI.
    Pci {
        /// Who made it.
        vendor: u16,
        /// Which of his devices it is.
        device: u16,
    },
    /// Of virtio, by its device id.
    Virtio(u32),
}

/// Where the registers of a device are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registers {
    /// In memory, at a physical address.
    Memory {
        /// The first byte.
        address: u64,
        /// How many.
        length: usize,
    },
    /// At I/O ports.
    Ports {
        /// The first.
        first: u16,
        /// How many.
        count: u16,
    },
    /// Where its configuration says, which is found on PCI.
    Pci {
        /// Which bus.
        bus: u8,
        /// Which device there.
        device: u8,
        /// Which of its functions.
        function: u8,
    },
}

/// Something that a bus has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// What it is.
    pub id: Id,
    /// Where its registers are.
    pub registers: Registers,
    /// Its interrupt, if it has one.
    pub line: Option<Line>,
}

/// Why a device was not started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartError {
    /// It does not answer as such a device should.
    Silent,
    /// It lacks something that it must have: which.
    Lacks(&'static str),
    /// It says something that cannot be: what.
    Wrong(&'static str),
    /// Its interrupt cannot be had.
    Line(super::AttachError),
    /// There is no memory for it.
    NoMemory,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("the device does not answer"),
            Self::Lacks(what) => write!(f, "the device has no {what}"),
            Self::Wrong(what) => write!(f, "the device says what cannot be: {what}"),
            Self::Line(error) => fmt::Display::fmt(error, f),
            Self::NoMemory => f.write_str("there is no memory for it"),
        }
    }
}

impl error::Error for StartError {}

impl From<super::AttachError> for StartError {
    fn from(error: super::AttachError) -> Self {
        Self::Line(error)
    }
}

impl From<crate::NoMemory> for StartError {
    fn from(_: crate::NoMemory) -> Self {
        Self::NoMemory
    }
}

/// Knows some kind of device.
pub trait Driver: Sync {
    /// What its devices are called, before the number.
    fn name(&self) -> &'static str;

    /// Whether it knows this one.
    fn drives(&self, device: &Device) -> bool;

    /// Sets the device up, attaches its interrupt half, and gives away what its users get.
    fn start(&self, device: &Device) -> Result<Box<dyn Started>, StartError>;
}

/// A device that runs.
pub trait Started: Send {
    /// Ends it: users are told, the device is quiet and its line detached when this is done.
    fn stop(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// A few words on how it is, for who looks.
    fn status(&self) -> String {
        String::new()
    }
}

/// One of all.
struct Entry {
    device: Device,
    /// Which driver's, and its number among those.
    name: Option<(&'static str, usize)>,
    state: State,
}

enum State {
    /// Nobody drives it.
    Found,
    Running(Box<dyn Started>),
    Stopped,
    Failed(StartError),
}

struct All {
    entries: Vec<Entry>,
    drivers: Vec<&'static dyn Driver>,
}

static ALL: Mutex<All> = Mutex::new(All {
    entries: Vec::new(),
    drivers: Vec::new(),
});

impl All {
    /// Starts an entry that nobody drives, if there is somebody who does.
    fn try_start(&mut self, index: usize) {
        let device = self.entries[index].device;
        let Some(driver) = self.drivers.iter().find(|driver| driver.drives(&device)) else {
            return;
        };
        let driver = *driver;
        let mut numbers = self.entries.iter().filter_map(|entry| entry.name);
        let name = self.entries[index].name.unwrap_or_else(|| {
            let own = numbers.by_ref().filter(|(name, _)| *name == driver.name());
            (
                driver.name(),
                own.map(|(_, number)| number + 1).max().unwrap_or(0),
            )
        });
        let entry = &mut self.entries[index];
        entry.name = Some(name);
        entry.state = match driver.start(&device) {
            Ok(running) => State::Running(running),
            Err(error) => {
                log::warn!("{}{} was not started: {error}", name.0, name.1);
                State::Failed(error)
            }
        };
    }

    fn find(&self, name: &str) -> Option<usize> {
        let is_it = |entry: &Entry| entry.name().is_some_and(|own| own == name);
        self.entries.iter().position(is_it)
    }
}

impl Entry {
    fn name(&self) -> Option<String> {
        self.name.map(|(name, number)| format!("{name}{number}"))
    }
}

/// A bus has found a device: it is started, if there is a driver for it.
pub async fn found(device: Device) {
    let mut all = ALL.lock().await;
    if all.entries.iter().any(|entry| entry.device == device) {
        return;
    }
    all.entries.push(Entry {
        device,
        name: None,
        state: State::Found,
    });
    let last = all.entries.len() - 1;
    all.try_start(last);
}

/// There is a driver: it is given the devices that it knows and nobody drives.
pub async fn register(driver: &'static dyn Driver) {
    let mut all = ALL.lock().await;
    all.drivers.push(driver);
    for index in 0..all.entries.len() {
        if matches!(all.entries[index].state, State::Found) {
            all.try_start(index);
        }
    }
}

/// Stops a device, which can be started again. False: there is none of this name that runs.
pub async fn stop(name: &str) -> bool {
    let mut all = ALL.lock().await;
    let Some(index) = all.find(name) else {
        return false;
    };
    if !matches!(all.entries[index].state, State::Running(_)) {
        return false;
    }
    let State::Running(running) = core::mem::replace(&mut all.entries[index].state, State::Stopped)
    else {
        return false;
    };
    running.stop().await;
    true
}

/// Starts one that was stopped, or could not be started. False: there is none of this name that does not run, or it still cannot.
pub async fn start(name: &str) -> bool {
    let mut all = ALL.lock().await;
    let Some(index) = all.find(name) else {
        return false;
    };
    if matches!(all.entries[index].state, State::Running(_)) {
        return false;
    }
    all.try_start(index);
    matches!(all.entries[index].state, State::Running(_))
}

/// A bus has lost a device: it is stopped, and forgotten. False: it was not known.
pub async fn remove(device: &Device) -> bool {
    let mut all = ALL.lock().await;
    let Some(index) = all.entries.iter().position(|entry| entry.device == *device) else {
        return false;
    };
    let entry = all.entries.swap_remove(index);
    if let State::Running(running) = entry.state {
        running.stop().await;
    }
    true
}

/// What is known of a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name, if somebody drives it, or did.
    pub name: Option<String>,
    /// What was found.
    pub device: Device,
    /// `running`, `stopped`, or why not.
    pub state: String,
}

/// All devices.
pub async fn devices() -> Vec<DeviceInfo> {
    let all = ALL.lock().await;
    let info = |entry: &Entry| DeviceInfo {
        name: entry.name(),
        device: entry.device,
        state: match &entry.state {
            State::Found => "no driver".into(),
            State::Running(running) => match running.status() {
                status if status.is_empty() => "running".into(),
                status => format!("running: {status}"),
            },
            State::Stopped => "stopped".into(),
            State::Failed(error) => format!("{error}"),
        },
    };
    all.entries.iter().map(info).collect()
}
