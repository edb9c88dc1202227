//! Names for addresses, from the table that is put into the image when it is
//! packed: header (magic, length, count), then `count` pairs of address and
//! place of the name, sorted by address, then the names.

use core::{fmt, slice};
use hal::layout;

unsafe extern "C" {
    static __symbols: u8;
    static __image_start: u8;
    static __text_end: u8;
}

fn table() -> &'static [u8] {
    let start = &raw const __symbols;
    // SAFETY: the header is there in every image; boot mapped as much as its length word says.
    unsafe {
        let length = start.cast::<u32>().add(2).read_volatile() as usize;
        slice::from_raw_parts(start, length)
    }
}

fn word(table: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(table.get(at..at + 4)?.try_into().ok()?))
}

/// How many names there are.
pub fn count() -> usize {
    word(table(), 12).unwrap_or(0) as usize
}

/// Name of the function that `address` is in, and how far in.
pub fn lookup(address: usize) -> Option<(&'static str, usize)> {
    let (start, end) = (
        &raw const __image_start as usize,
        &raw const __text_end as usize,
    );
    if !(start..end).contains(&address) {
        return None;
    }
    let table = table();
    let offset = (address - start) as u32;
    let entry = |i: usize| word(table, 16 + 8 * i);
    // The last entry that is not behind the address.
    let (mut low, mut high) = (0, count());
    while low < high {
        let middle = (low + high) / 2;
        if entry(middle)? <= offset {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let found = low.checked_sub(1)?;
    let name = word(table, 16 + 8 * found + 4)? as usize;
    let length = u16::from_le_bytes(table.get(name..name + 2)?.try_into().ok()?) as usize;
    let name = core::str::from_utf8(table.get(name + 2..name + 2 + length)?).ok()?;
    Some((name, (offset - entry(found)?) as usize))
}

/// Shows an address with the name of its function.
pub struct Address(pub usize);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)?;
        match lookup(self.0) {
            Some((name, offset)) => write!(f, " {name}+{offset:#x}"),
            None if self.0 < layout::PAGE => write!(f, " (null)"),
            None => write!(f, " (outside the image's code)"),
        }
    }
}
