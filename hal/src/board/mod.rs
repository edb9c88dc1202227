//! The one place that tells boards apart.
//!
//! boot finds out what machine this is and writes it down as a [`Platform`];
//! hal asks it where things are. An image is built for an architecture, not
//! for a board: one aarch64 image boots on all three.

use crate::irq::Line;
use core::fmt;
use spin::Once;

/// A machine that Spindle knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Board {
    /// x86_64 PC.
    Pc,
    /// QEMU's aarch64 `virt`.
    Virt,
    /// Raspberry Pi 3.
    Raspi3,
    /// Raspberry Pi 4.
    Raspi4,
    /// This process.
    Host,
}

impl Board {
    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pc => "pc",
            Self::Virt => "virt",
            Self::Raspi3 => "raspi3b",
            Self::Raspi4 => "raspi4b",
            Self::Host => "host",
        }
    }

    /// Physical address of its GPIO registers, if it has pins.
    pub fn gpio(self) -> Option<u64> {
        match self {
            Self::Raspi3 => Some(0x3f20_0000),
            Self::Raspi4 => Some(0xfe20_0000),
            Self::Pc | Self::Virt | Self::Host => None,
        }
    }
}

/// How interrupts reach the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupts {
    /// PC: physical addresses of the local and the I/O APIC, port of the timer they are measured by.
    Apic {
        /// Local APIC registers.
        local: u64,
        /// I/O APIC registers.
        io: u64,
        /// I/O port of the ACPI timer.
        pm_timer: u16,
    },
    /// GIC with memory-mapped CPU interface.
    GicV2 {
        /// Distributor registers.
        distributor: u64,
        /// CPU interface registers.
        cpu: u64,
    },
    /// GIC with system registers.
    GicV3 {
        /// Distributor registers.
        distributor: u64,
        /// Redistributor registers, of all cores.
        redistributors: u64,
        /// How many bytes of them there are.
        redistributors_length: u64,
    },
    /// Raspberry Pi 3: a small controller for the cores and an older one for devices.
    Bcm2836 {
        /// Registers of the cores' controller.
        local: u64,
        /// Registers of the devices' controller.
        devices: u64,
    },
    /// Condition variables.
    Host,
}

impl fmt::Display for Interrupts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apic { local, io, .. } => write!(f, "APICs at {local:#x} and {io:#x}"),
            Self::GicV2 { distributor, cpu } => write!(f, "GICv2 at {distributor:#x} and {cpu:#x}"),
            Self::GicV3 {
                distributor,
                redistributors,
                ..
            } => {
                write!(f, "GICv3 at {distributor:#x} and {redistributors:#x}")
            }
            Self::Bcm2836 { local, devices } => write!(f, "BCM2836 at {local:#x} and {devices:#x}"),
            Self::Host => write!(f, "threads"),
        }
    }
}

/// The console's serial port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uart {
    /// 16550 at an I/O port.
    Ns16550 {
        /// First port.
        port: u16,
        /// Its interrupt.
        line: Line,
    },
    /// PL011 in memory.
    Pl011 {
        /// Physical address of the registers.
        registers: u64,
        /// Its interrupt.
        line: Line,
    },
    /// Standard output.
    Host,
}

impl fmt::Display for Uart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ns16550 { port, line } => {
                write!(f, "16550 at port {port:#x}, interrupt {}", line.0)
            }
            Self::Pl011 { registers, line } => {
                write!(f, "PL011 at {registers:#x}, interrupt {}", line.0)
            }
            Self::Host => write!(f, "standard output"),
        }
    }
}

/// How the machine is switched off and restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// ACPI: write `sleep_type` to a port. Port 0: not known.
    Acpi {
        /// PM1a control register.
        control: u16,
        /// Value that means off.
        sleep_type: u16,
    },
    /// PSCI, by `hvc`.
    PsciHvc,
    /// PSCI, by `smc`.
    PsciSmc,
    /// The watchdog of a Raspberry Pi: physical address of its registers.
    BcmWatchdog(u64),
    /// `std::process::exit`.
    Host,
}

/// What boot found out about the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Which board.
    pub board: Board,
    /// How interrupts reach the cores.
    pub interrupts: Interrupts,
    /// The console.
    pub uart: Uart,
    /// Switching off.
    pub power: Power,
    /// Whether there is a QEMU below that takes an exit status (`exit=qemu` on the command line).
    pub takes_status: bool,
}

static PLATFORM: Once<Platform> = Once::new();

/// Writes down what the machine is. By boot, once, before any other core is up.
pub fn set(platform: Platform) -> &'static Platform {
    PLATFORM.call_once(|| platform)
}

/// What the machine is.
pub fn platform() -> &'static Platform {
    PLATFORM.get().expect("boot has described the machine")
}

/// What the machine is, if boot got that far.
pub fn try_platform() -> Option<&'static Platform> {
    PLATFORM.get()
}

pub(crate) fn enable_line(line: Line, core: usize) -> usize {
    // A Pi 3 has one way for all that its GPU's controller collects, and leaves it at the first core.
    let core = match platform().interrupts {
        Interrupts::Bcm2836 { .. } => 0,
        _ => core,
    };
    crate::arch::enable_line(line.0, core);
    core
}

pub(crate) fn disable_line(line: Line) {
    crate::arch::disable_line(line.0);
}
