//! Pins of a Raspberry Pi.

use hal::{board::Board, paging};

/// Function select registers: ten pins each, three bits a pin.
const SELECT: usize = 0x00;
/// Writing a pin's bit makes it high, or low; and what it is now. Two registers each.
const SET: usize = 0x1c;
const CLEAR: usize = 0x28;
const LEVEL: usize = 0x34;
const LENGTH: usize = 0x3c;

const OUTPUT: u32 = 0b001;
const FUNCTION: u32 = 0b111;
/// Pins that there are.
const PINS: u32 = 54;

/// A pin that is an output.
pub struct Output {
    /// Where the registers are mapped.
    registers: usize,
    number: u32,
}

impl Output {
    /// Makes pin `number` an output; `None` if this board has no such pin.
    ///
    /// Not by two cores at the same time: ten pins share a register.
    pub fn new(board: Board, number: u32) -> Option<Self> {
        let registers = board.gpio()?;
        if number >= PINS {
            return None;
        }
        let registers = paging::map_device(registers, LENGTH).ok()?;
        let mut pin = Self { registers, number };
        let select = SELECT + 4 * (number / 10) as usize;
        let shift = 3 * (number % 10);
        let others = pin.read(select) & !(FUNCTION << shift);
        pin.write(select, others | OUTPUT << shift);
        Some(pin)
    }

    /// Makes it high or low.
    pub fn set(&mut self, high: bool) {
        let register = if high { SET } else { CLEAR };
        self.write(register + self.word(), self.bit());
    }

    /// Whether it is high.
    pub fn is_high(&self) -> bool {
        self.read(LEVEL + self.word()) & self.bit() != 0
    }

    fn word(&self) -> usize {
        4 * (self.number / 32) as usize
    }

    fn bit(&self) -> u32 {
        1 << (self.number % 32)
    }

    fn read(&self, register: usize) -> u32 {
        // SAFETY: 1. the board says that its GPIO registers are here; 2. they were mapped as device
        // memory, for good, `LENGTH` bytes of them; 3. `register` is one of those above, all within.
        unsafe { ((self.registers + register) as *const u32).read_volatile() }
    }

    fn write(&mut self, register: usize, value: u32) {
        // SAFETY: as above.
        unsafe { ((self.registers + register) as *mut u32).write_volatile(value) }
    }
}
