//! Names: long ones, the short ones of 8 and 3 characters beside them, and which are the same.

use crate::error::{Error, Result};
use alloc::{string::String, vec::Vec};

/// A short name as it is on the disk.
pub(crate) type Short = [u8; 11];

/// In a short name's entry: the name, or its ending, is shown in small letters.
const SMALL_NAME: u8 = 0x08;
const SMALL_ENDING: u8 = 0x10;
/// Letters of a long name in each of its entries.
const PER_SLOT: usize = 13;
/// Where they are in it.
const LETTERS: [usize; PER_SLOT] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
/// Most letters of a long name.
const LONGEST: usize = 255;
/// Most entries of one: 20 of the long name, and the short one.
pub(crate) const MOST_SLOTS: usize = LONGEST.div_ceil(PER_SLOT) + 1;

/// The upper half of the characters that DOS had.
const HIGH: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// Whether two names are of one file.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let small = |name: &str| -> Vec<char> { name.chars().flat_map(char::to_lowercase).collect() };
    one == other || small(one) == small(other)
}

/// Whether something can be called so.
pub(crate) fn check(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::Name("it is empty"));
    }
    if name.encode_utf16().count() > LONGEST {
        return Err(Error::Name("it has more than 255 letters"));
    }
    if name.ends_with(['.', ' ']) || name.starts_with(' ') {
        return Err(Error::Name(
            "a point or blank at its end, or a blank at its start, would be lost",
        ));
    }
    let is_wrong = |letter: char| letter.is_control() || "\"*/:<>?\\|".contains(letter);
    if name.chars().any(is_wrong) {
        return Err(Error::Name(
            "no control characters, and none of \" * / : < > ? \\ |",
        ));
    }
    Ok(())
}

/// How a short name is shown.
pub(crate) fn show_short(short: &Short, flags: u8) -> String {
    let mut name = String::new();
    let show = |byte: u8, is_small: bool| match byte {
        ..0x80 if is_small => (byte as char).to_ascii_lowercase(),
        ..0x80 => byte as char,
        _ => HIGH.chars().nth(usize::from(byte) - 0x80).unwrap_or('_'),
    };
    let trimmed = |bytes: &[u8]| {
        bytes
            .iter()
            .rposition(|byte| *byte != b' ')
            .map_or(0, |last| last + 1)
    };
    for (at, byte) in short[..trimmed(&short[..8])].iter().enumerate() {
        // That a name begins with what marks an empty entry is written so.
        let byte = if at == 0 && *byte == 0x05 {
            0xe5
        } else {
            *byte
        };
        name.push(show(byte, flags & SMALL_NAME != 0));
    }
    let ending = &short[8..8 + trimmed(&short[8..])];
    if !ending.is_empty() {
        name.push('.');
        name.extend(
            ending
                .iter()
                .map(|byte| show(*byte, flags & SMALL_ENDING != 0)),
        );
    }
    name
}

/// Whether a character may be in a short name as it is.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "!#$%&'()-@^_`{}~".contains(letter)
}

/// The name and its ending.
fn parts(name: &str) -> (&str, &str) {
    match name.rsplit_once('.') {
        Some((before, ending)) if !before.is_empty() => (before, ending),
        _ => (name, ""),
    }
}

/// A name that needs no long one: the short one, and how it is shown.
pub(crate) fn exact_short(name: &str) -> Option<(Short, u8)> {
    let (before, ending) = parts(name);
    let fits = |part: &str, most: usize| part.len() <= most && part.chars().all(is_plain);
    let has = |part: &str, what: fn(&u8) -> bool| part.as_bytes().iter().any(what);
    let is_mixed =
        |part: &str| has(part, u8::is_ascii_lowercase) && has(part, u8::is_ascii_uppercase);
    if !fits(before, 8) || !fits(ending, 3) || is_mixed(before) || is_mixed(ending) {
        return None;
    }
    let mut flags = 0;
    if has(before, u8::is_ascii_lowercase) {
        flags |= SMALL_NAME;
    }
    if has(ending, u8::is_ascii_lowercase) {
        flags |= SMALL_ENDING;
    }
    Some((
        fill(&before.to_ascii_uppercase(), &ending.to_ascii_uppercase()),
        flags,
    ))
}

fn fill(before: &str, ending: &str) -> Short {
    let mut short = [b' '; 11];
    for (place, byte) in short[..8].iter_mut().zip(before.bytes()) {
        *place = byte;
    }
    for (place, byte) in short[8..].iter_mut().zip(ending.bytes()) {
        *place = byte;
    }
    short
}

/// The short name beside a long one: the `number`th that could be. The first nine end in a number; those after them have a sum of the name.
pub(crate) fn alias(name: &str, number: u32) -> Short {
    let (before, ending) = parts(name);
    let plain = |part: &str, most: usize| -> String {
        let letters = part.chars().filter(|letter| !matches!(letter, ' ' | '.'));
        let letters = letters.map(|letter| match is_plain(letter) {
            true => letter.to_ascii_uppercase(),
            false => '_',
        });
        letters.take(most).collect()
    };
    let before = match number {
        ..9 => alloc::format!("{}~{}", plain(before, 6), number + 1),
        _ => {
            let add = |sum: u32, unit: u16| sum.wrapping_mul(31).wrapping_add(u32::from(unit));
            let sum = name.encode_utf16().fold(number, add);
            alloc::format!("{}{:04X}~1", plain(before, 2), (sum ^ sum >> 16) & 0xffff)
        }
    };
    fill(&before, &plain(ending, 3))
}

/// What ties a long name to its short one.
pub(crate) fn sum(short: &Short) -> u8 {
    let add = |sum: u8, byte: &u8| sum.rotate_right(1).wrapping_add(*byte);
    short.iter().fold(0, add)
}

/// The entries of a long name, as they are in a directory before the short one.
pub(crate) fn long_slots(name: &str, short: &Short) -> Vec<[u8; 32]> {
    let units: Vec<u16> = name.encode_utf16().collect();
    let pieces: Vec<&[u16]> = units.chunks(PER_SLOT).collect();
    let slot = |(number, piece): (usize, &&[u16])| {
        let mut slot = [0; 32];
        let is_last = number + 1 == pieces.len();
        slot[0] = (number as u8 + 1) | if is_last { 0x40 } else { 0 };
        slot[11] = 0x0f;
        slot[13] = sum(short);
        for (letter, at) in LETTERS.iter().enumerate() {
            // The name, a zero, and then all ones.
            let unit = match letter.cmp(&piece.len()) {
                core::cmp::Ordering::Less => piece[letter],
                core::cmp::Ordering::Equal => 0,
                core::cmp::Ordering::Greater => 0xffff,
            };
            slot[*at..at + 2].copy_from_slice(&unit.to_le_bytes());
        }
        slot
    };
    pieces.iter().enumerate().map(slot).rev().collect()
}

/// Puts a long name together from its entries, which come last first.
#[derive(Default)]
pub(crate) struct Long {
    units: Vec<u16>,
    /// The number of the entry that came last; 0: none, or they did not fit.
    number: u8,
    sum: u8,
}

impl Long {
    /// One more entry.
    pub(crate) fn add(&mut self, slot: &[u8]) {
        let number = slot[0] & 0x3f;
        if slot[0] & 0x40 != 0 {
            (self.number, self.sum) = (number, slot[13]);
            self.units.clear();
        } else if number + 1 == self.number && slot[13] == self.sum {
            self.number = number;
        } else {
            self.number = 0;
        }
        if self.number == 0 || usize::from(number) >= MOST_SLOTS {
            self.clear();
            return;
        }
        let mut units = [0; PER_SLOT];
        for (unit, at) in units.iter_mut().zip(LETTERS) {
            *unit = u16::from_le_bytes([slot[at], slot[at + 1]]);
        }
        let length = units.iter().position(|unit| *unit == 0).unwrap_or(PER_SLOT);
        self.units.splice(0..0, units[..length].iter().copied());
    }

    pub(crate) fn clear(&mut self) {
        self.number = 0;
        self.units.clear();
    }

    /// The short name has come: the long one, if this was it.
    pub(crate) fn take(&mut self, short: &Short) -> Option<String> {
        let is_whole = self.number == 1 && self.sum == sum(short);
        let name = String::from_utf16(&self.units).ok();
        self.clear();
        // One that could not be typed is as good as none.
        name.filter(|name| is_whole && check(name).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(name: &str) -> Option<String> {
        let short = alias(name, 0);
        let mut long = Long::default();
        long_slots(name, &short)
            .iter()
            .for_each(|slot| long.add(slot));
        long.take(&short)
    }

    #[test]
    fn long_names_come_out_as_they_went_in() {
        for length in 1..=LONGEST {
            let name: String = (0..length)
                .map(|at| ['a', 'Ü', 'x', '名'][at % 4])
                .collect();
            assert_eq!(round(&name).as_deref(), Some(&*name));
        }
    }

    #[test]
    fn a_long_name_whose_entries_do_not_fit_is_none() {
        let name = "a name that needs more than two entries, by far";
        let short = alias(name, 0);
        let slots = long_slots(name, &short);
        for left_out in 0..slots.len() {
            let mut long = Long::default();
            let kept = slots.iter().enumerate().filter(|(at, _)| *at != left_out);
            kept.for_each(|(_, slot)| long.add(slot));
            assert_eq!(long.take(&short), None, "without {left_out}");
        }
        let mut long = Long::default();
        slots.iter().for_each(|slot| long.add(slot));
        assert_eq!(long.take(&alias(name, 1)), None, "it is another's");
    }

    #[test]
    fn short_names_are_shown_as_they_were_written() {
        for name in [
            "README.TXT",
            "readme.txt",
            "README.txt",
            "a",
            "X.Y",
            "12345678.abc",
        ] {
            let (short, flags) = exact_short(name).unwrap();
            assert_eq!(show_short(&short, flags), name);
        }
        for name in [
            "Readme.txt",
            "nine chars.x",
            "123456789",
            "a.html",
            "a.b.c",
            "ü",
        ] {
            assert_eq!(exact_short(name), None, "{name}");
        }
        assert_eq!(alias("a longer name.html", 0), *b"ALONGE~1HTM");
        assert_eq!(alias(".profile", 2), *b"PROFIL~3   ");
    }
}
