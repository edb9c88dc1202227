//! Editing a line: keys in, what the terminal is to show out.
//!
//! | | |
//! |---|---|
//! | Left, Right, Home, End, Ctrl-B, -F, -A, -E | move |
//! | Backspace, Delete, Ctrl-D, -W, -U, -K | forget a character before or here, a word, all before, all behind |
//! | Up, Down, Ctrl-P, -N | lines that were entered before |
//! | Tab | complete a word |
//! | Ctrl-C, Ctrl-L | forget the line; clear the screen |

use alloc::{collections::VecDeque, string::String, vec::Vec};
use core::fmt::Write;

/// Longest line.
const ROOM: usize = 200;
/// Lines that are remembered.
const MEMORY: usize = 50;

/// What was pressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Char(u8),
    Enter,
    Left,
    Right,
    Home,
    End,
    Up,
    Down,
    Backspace,
    Delete,
    ForgetWord,
    ForgetBefore,
    ForgetBehind,
    Tab,
    Interrupt,
    Clear,
}

/// Makes keys of bytes.
#[derive(Default)]
pub(super) struct Keys {
    state: Sequence,
    /// The last byte was a carriage return: a line feed belongs to it.
    after_return: bool,
}

/// How much of what a cursor or function key sends has come.
#[derive(Default, Clone, Copy)]
enum Sequence {
    #[default]
    None,
    Escape,
    /// With the number in it, so far.
    Bracket(u32),
}

impl Keys {
    /// The next byte: what that makes.
    pub(super) fn key(&mut self, byte: u8) -> Option<Key> {
        let after_return = core::mem::replace(&mut self.after_return, byte == b'\r');
        match (self.state, byte) {
            (Sequence::None, _) => {}
            (Sequence::Escape, b'[' | b'O') => {
                self.state = Sequence::Bracket(0);
                return None;
            }
            // Not a sequence: the escape is forgotten, and the byte is itself.
            (Sequence::Escape, _) => self.state = Sequence::None,
            (Sequence::Bracket(number), b'0'..=b'9') => {
                let digit = u32::from(byte - b'0');
                self.state = Sequence::Bracket(number.saturating_mul(10).saturating_add(digit));
                return None;
            }
            (Sequence::Bracket(_), b';') => {
                self.state = Sequence::Bracket(0);
                return None;
            }
            // Nothing of a sequence: the byte is itself.
            (Sequence::Bracket(_), 0..0x20) => self.state = Sequence::None,
            (Sequence::Bracket(number), _) => {
                self.state = Sequence::None;
                return match (byte, number) {
                    (b'A', _) => Some(Key::Up),
                    (b'B', _) => Some(Key::Down),
                    (b'C', _) => Some(Key::Right),
                    (b'D', _) => Some(Key::Left),
                    (b'H', _) | (b'~', 1 | 7) => Some(Key::Home),
                    (b'F', _) | (b'~', 4 | 8) => Some(Key::End),
                    (b'~', 3) => Some(Key::Delete),
                    _ => None,
                };
            }
        }
        Some(match byte {
            b'\n' if after_return => return None,
            b'\r' | b'\n' => Key::Enter,
            0x1b => {
                self.state = Sequence::Escape;
                return None;
            }
            b' '..=b'~' => Key::Char(byte),
            8 | 127 => Key::Backspace,
            b'\t' => Key::Tab,
            1 => Key::Home,
            2 => Key::Left,
            3 => Key::Interrupt,
            4 => Key::Delete,
            5 => Key::End,
            6 => Key::Right,
            11 => Key::ForgetBehind,
            12 => Key::Clear,
            14 => Key::Down,
            16 => Key::Up,
            21 => Key::ForgetBefore,
            23 => Key::ForgetWord,
            _ => return None,
        })
    }
}

/// A line that is being edited, and those before it. What is shown is written to `out`.
#[derive(Default)]
pub(super) struct Editor {
    /// Printable ASCII only.
    line: String,
    /// Where the next character goes.
    at: usize,
    memory: VecDeque<String>,
    /// How far back in the memory, and what was there before.
    back: usize,
    set_aside: String,
}

/// What a key has come to.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It goes on.
    More,
    /// The line is entered.
    Entered(String),
    /// It is forgotten.
    Forgotten,
    /// The screen is to be cleared: [`Editor::show`] comes next.
    Clear,
}

impl Editor {
    /// A key was pressed; `complete` tells which words the last of this beginning of a line may be.
    pub(super) fn key(
        &mut self,
        key: Key,
        prompt: &str,
        complete: impl FnOnce(&str) -> Vec<String>,
        out: &mut dyn Write,
    ) -> Step {
        match key {
            Key::Enter => {
                self.move_to(self.line.len(), out);
                let line = core::mem::take(&mut self.line);
                (self.at, self.back) = (0, 0);
                self.remember(&line);
                return Step::Entered(line);
            }
            Key::Interrupt => {
                self.line.clear();
                (self.at, self.back) = (0, 0);
                return Step::Forgotten;
            }
            Key::Clear => return Step::Clear,
            Key::Char(byte) if self.line.len() < ROOM => {
                let mut buffer = [0; 4];
                self.insert((byte as char).encode_utf8(&mut buffer), out);
            }
            Key::Left if self.at > 0 => self.move_to(self.at - 1, out),
            Key::Right if self.at < self.line.len() => self.move_to(self.at + 1, out),
            Key::Home => self.move_to(0, out),
            Key::End => self.move_to(self.line.len(), out),
            Key::Backspace if self.at > 0 => self.forget(self.at - 1, self.at, out),
            Key::Delete if self.at < self.line.len() => self.forget(self.at, self.at + 1, out),
            Key::ForgetWord => {
                let before = self.line[..self.at].trim_end_matches(' ');
                let from = before.rfind(' ').map_or(0, |space| space + 1);
                self.forget(from, self.at, out);
            }
            Key::ForgetBefore => self.forget(0, self.at, out),
            Key::ForgetBehind => self.forget(self.at, self.line.len(), out),
            Key::Up if self.back < self.memory.len() => self.recall(self.back + 1, out),
            Key::Down if self.back > 0 => self.recall(self.back - 1, out),
            Key::Tab => self.complete(prompt, complete, out),
            // No room, or nowhere to go: a bell.
            _ => _ = out.write_char('\x07'),
        }
        Step::More
    }

    /// Shows the prompt, and the line as it is.
    pub(super) fn show(&self, prompt: &str, out: &mut dyn Write) {
        let _ = write!(out, "{prompt}{}", self.line);
        self.go_back(self.line.len() - self.at, out);
    }

    fn go_back(&self, count: usize, out: &mut dyn Write) {
        for _ in 0..count {
            let _ = out.write_char('\x08');
        }
    }

    fn move_to(&mut self, at: usize, out: &mut dyn Write) {
        if at < self.at {
            self.go_back(self.at - at, out);
        } else {
            let _ = out.write_str(&self.line[self.at..at]);
        }
        self.at = at;
    }

    fn insert(&mut self, text: &str, out: &mut dyn Write) {
        self.line.insert_str(self.at, text);
        let _ = out.write_str(&self.line[self.at..]);
        self.at += text.len();
        self.go_back(self.line.len() - self.at, out);
    }

    fn forget(&mut self, from: usize, to: usize, out: &mut dyn Write) {
        self.move_to(from, out);
        if from == to {
            return;
        }
        self.line.replace_range(from..to, "");
        let _ = write!(out, "{}\x1b[K", &self.line[from..]);
        self.go_back(self.line.len() - from, out);
    }

    fn remember(&mut self, line: &str) {
        let is_new = self.memory.back().is_none_or(|last| last != line);
        if line.trim().is_empty() || !is_new {
            return;
        }
        if self.memory.len() == MEMORY {
            self.memory.pop_front();
        }
        self.memory.push_back(line.into());
    }

    /// Takes the line that is so far back; 0: the one that was being typed.
    fn recall(&mut self, back: usize, out: &mut dyn Write) {
        if self.back == 0 {
            self.set_aside = self.line.clone();
        }
        self.back = back;
        let line = match back {
            0 => core::mem::take(&mut self.set_aside),
            _ => self.memory[self.memory.len() - back].clone(),
        };
        self.forget(0, self.line.len(), out);
        self.insert(&line, out);
    }

    fn complete(
        &mut self,
        prompt: &str,
        complete: impl FnOnce(&str) -> Vec<String>,
        out: &mut dyn Write,
    ) {
        let before = self.line[..self.at].trim_start();
        let words = complete(before);
        let typed = before.rsplit(' ').next().unwrap_or("").len();
        let Some(first) = words.first() else {
            let _ = out.write_char('\x07');
            return;
        };
        let common = words.iter().skip(1).fold(first.len(), |common, word| {
            let same = first.bytes().zip(word.bytes());
            common.min(same.take_while(|(one, other)| one == other).count())
        });
        if words.len() == 1 && self.line.len() + first.len() < ROOM {
            let rest = alloc::format!("{} ", &first[typed..]);
            self.insert(&rest, out);
        } else if common > typed && self.line.len() + common < ROOM {
            self.insert(&first[typed..common], out);
        } else {
            let _ = writeln!(out, "\n  {}", words.join("  "));
            self.show(prompt, out);
        }
    }
}
