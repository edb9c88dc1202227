//! The registers of a serial port, whichever kind it is.

use arm_pl011_uart::{
    DataBits, Interrupts, LineConfig, PL011Registers, Parity, StopBits, Uart as Pl011,
    UniqueMmioPointer,
};
use core::ptr::NonNull;
use hal::{board::Uart, irq::Line, paging};
use uart_16550::{
    BaudRate, Config, Uart16550,
    backend::Backend,
    spec::registers::{IER, LSR},
};

/// A serial port, whichever kind it is.
pub enum Serial {
    /// At I/O ports.
    Ns16550(Uart16550<Ports>),
    /// In memory.
    Pl011(Pl011<'static>),
}

/// The eight ports of a 16550.
pub struct Ports {
    first: u16,
    /// What was typed before the port was set up, which setting it up would throw away.
    early: [u8; EARLY],
    early_count: usize,
    /// How many of those were handed on; `None` while the port is being set up.
    early_taken: Option<usize>,
    /// Whether the last look at the line status saw a byte.
    has_byte: bool,
}

/// Most bytes that are kept of that.
const EARLY: usize = 64;

/// Data, and line status with its bit for "there is data".
const DATA: u8 = 0;
const LINE_STATUS: u8 = 5;
const DATA_READY: u8 = 1;

impl Ports {
    fn new(first: u16) -> Self {
        Self {
            first,
            early: [0; EARLY],
            early_count: 0,
            early_taken: None,
            has_byte: false,
        }
    }

    fn take_early(&mut self) -> Option<u8> {
        let taken = self.early_taken.as_mut()?;
        let byte = self.early[..self.early_count].get(*taken)?;
        *taken += 1;
        Some(*byte)
    }
}

impl Backend for Ports {
    unsafe fn read(&mut self, register: u8) -> u8 {
        // SAFETY: 1. the board's table says a 16550 is here; 2. the caller keeps `register` below 8.
        let value = unsafe { hal::io::read_port(self.first + u16::from(register)) };
        if register == LINE_STATUS {
            self.has_byte = value & DATA_READY != 0;
        }
        if register == DATA && self.has_byte && self.early_taken.is_none() {
            if let Some(room) = self.early.get_mut(self.early_count) {
                *room = value;
                self.early_count += 1;
            }
            self.has_byte = false;
        }
        value
    }

    unsafe fn write(&mut self, register: u8, value: u8) {
        // SAFETY: as above.
        unsafe { hal::io::write_port(self.first + u16::from(register), value) }
    }
}

/// Where the registers of a port are, for who cannot wait for its driver: nothing else is known of it, so any number of cores may write there. What
/// they write may mix.
#[derive(Clone, Copy, Debug)]
pub enum Registers {
    /// The first I/O port of a 16550.
    Ns16550(u16),
    /// The address of a PL011.
    Pl011(usize),
}

impl Registers {
    /// Sends all of `bytes`, waiting where it must.
    pub fn send(self, bytes: &[u8]) {
        for &byte in bytes {
            while !self.has_room() {
                hal::pause();
            }
            match self {
                // SAFETY: the port was open, so it is there; and a byte more does no harm to who uses it.
                Self::Ns16550(port) => unsafe { hal::io::write_port(port + u16::from(DATA), byte) },
                // SAFETY: as above; and it is mapped for good.
                Self::Pl011(at) => unsafe { (at as *mut u32).write_volatile(u32::from(byte)) },
            }
        }
    }

    fn has_room(self) -> bool {
        const HOLDING_EMPTY: u8 = 1 << 5;
        const FLAGS: usize = 0x18;
        const FULL: u32 = 1 << 5;
        match self {
            Self::Ns16550(port) => {
                // SAFETY: as in `send`; a look at the status forgets at most that a byte was damaged.
                let status = unsafe { hal::io::read_port(port + u16::from(LINE_STATUS)) };
                status & HOLDING_EMPTY != 0
            }
            Self::Pl011(at) => {
                // SAFETY: as in `send`.
                let flags = unsafe { ((at + FLAGS) as *const u32).read_volatile() };
                flags & FULL == 0
            }
        }
    }
}

/// A byte that did not arrive as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// Most bytes that are sent at once: as many as the FIFO of a PL011 has room for. Fewer would not do: it interrupts when it was more than half full
/// and is not any more.
const BURST: usize = 32;

/// Bits a second, on every board.
const BAUD: u32 = 115_200;
/// What clocks a PL011: `init_uart_clock` of a Pi's config.txt; QEMU does not care.
const PL011_CLOCK: u32 = 48_000_000;

impl Serial {
    /// Sets up the board's console port; `None` if it has none that this driver knows,
    /// or it does not answer.
    pub fn open(uart: Uart) -> Option<(Self, Registers)> {
        match uart {
            Uart::Ns16550 { port, .. } => {
                // SAFETY: the board's table says a 16550 is here, and this is the only driver for it.
                let mut serial = unsafe { Uart16550::new_with_backend(Ports::new(port)) };
                let config = Config {
                    baud_rate: BaudRate::Baud115200,
                    ..Config::DEFAULT
                };
                // What was typed already is kept; setting up the FIFO would drop it. Each byte that is
                // read makes room for the next, which may take a moment.
                let mut looks = 0;
                while looks < 100 && serial.backend_mut().early_count < EARLY {
                    looks += 1;
                    if serial.ready_to_receive().is_ok() {
                        // SAFETY: a register of the port.
                        unsafe { serial.backend_mut().read(DATA) };
                        looks = 0;
                    } else if serial.backend_mut().early_count == 0 {
                        break;
                    }
                }
                serial.init(config).ok()?;
                serial.backend_mut().early_taken = Some(0);
                if serial.ready_to_receive().is_err() {
                    // Nothing is there: the read gives nothing, but tells QEMU, which held back what was
                    // typed while there was no room for it, that there is room now. Only here: a byte that came
                    // between the look and the read would be lost.
                    // SAFETY: a register of the port.
                    unsafe { serial.backend_mut().read(DATA) };
                }
                Some((Self::Ns16550(serial), Registers::Ns16550(port)))
            }
            Uart::Pl011 { registers, .. } => {
                let mapped = paging::map_device(registers, size_of::<PL011Registers>()).ok()?;
                let at = NonNull::new(mapped as *mut PL011Registers)?;
                // SAFETY: 1. the registers were just mapped as device memory, for good; 2. the board's
                // table says a PL011 is there; 3. this is the only driver for it.
                let mut serial = Pl011::new(unsafe { UniqueMmioPointer::new(at) });
                let line = LineConfig {
                    data_bits: DataBits::Bits8,
                    parity: Parity::None,
                    stop_bits: StopBits::One,
                };
                serial.enable(line, BAUD, PL011_CLOCK).ok()?;
                Some((Self::Pl011(serial), Registers::Pl011(mapped)))
            }
            Uart::Host => None,
        }
    }

    /// Sends all of `bytes`, waiting where it must.
    pub fn send(&mut self, mut bytes: &[u8]) {
        match self {
            Self::Ns16550(serial) => {
                while !bytes.is_empty() {
                    bytes = &bytes[serial.send_bytes(bytes)..];
                    hal::pause();
                }
            }
            Self::Pl011(serial) => {
                for &byte in bytes {
                    while serial.is_tx_fifo_full() {
                        hal::pause();
                    }
                    serial.write_word(byte);
                }
            }
        }
    }

    /// What has arrived, if anything: a byte, or word that one was lost or damaged.
    pub fn receive(&mut self) -> Option<Result<u8, Damaged>> {
        match self {
            Self::Ns16550(serial) => {
                let early = serial.backend_mut().take_early();
                early.or_else(|| serial.try_receive_byte().ok()).map(Ok)
            }
            Self::Pl011(serial) => serial.read_word().map_err(|_| Damaged).transpose(),
        }
    }

    /// Sends as much of `bytes` as there is room for now: how much.
    pub fn send_some(&mut self, bytes: &[u8]) -> usize {
        match self {
            Self::Ns16550(serial) => serial.send_bytes(bytes),
            Self::Pl011(serial) => {
                // What QEMU emulates is never full.
                let burst = bytes.len().min(BURST);
                for (sent, byte) in bytes[..burst].iter().enumerate() {
                    if serial.is_tx_fifo_full() {
                        return sent;
                    }
                    serial.write_word(*byte);
                }
                burst
            }
        }
    }

    /// Asks for an interrupt when bytes arrive, and when there is room to send; or for none. If there is a reason for one, it comes after
    /// this, also where lines work by edges and the line was up all the time.
    pub fn set_interrupts(&mut self, receive: bool, send: bool) {
        match self {
            Self::Ns16550(serial) => {
                let choose = |is_on, bit| if is_on { bit } else { IER::empty() };
                let wanted = choose(receive, IER::DATA_READY) | choose(send, IER::THR_EMPTY);
                serial.disable_interrupts(IER::all());
                if !wanted.is_empty() {
                    serial.enable_interrupts(wanted);
                }
            }
            Self::Pl011(serial) => {
                let choose = |is_on, bits| if is_on { bits } else { Interrupts::empty() };
                // Received bytes interrupt by level, or when fewer have been waiting for a while.
                serial.set_interrupt_masks(
                    choose(receive, Interrupts::RXI | Interrupts::RTI)
                        | choose(send, Interrupts::TXI),
                );
            }
        }
    }

    /// Takes back what makes it interrupt because there was room to send: it comes again when there is.
    pub fn clear_send_interrupt(&mut self) {
        match self {
            // By what is sent.
            Self::Ns16550(_) => {}
            Self::Pl011(serial) => serial.clear_interrupts(Interrupts::TXI),
        }
    }

    /// Whether bytes were lost since the last look, because nobody took them out of the port in time.
    pub fn has_overrun(&mut self) -> bool {
        match self {
            Self::Ns16550(serial) => serial.lsr().contains(LSR::OVERRUN_ERROR),
            // Says so in place of the byte.
            Self::Pl011(_) => false,
        }
    }
}

/// The interrupt line of the board's console port.
pub fn line(uart: Uart) -> Option<Line> {
    match uart {
        Uart::Ns16550 { line, .. } | Uart::Pl011 { line, .. } => Some(line),
        Uart::Host => None,
    }
}
