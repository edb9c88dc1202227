//! Editing a line, key by key, on a terminal of a few lines of Rust.

use super::line::{Editor, Key, Keys, Step};
use alloc::{string::String, vec::Vec};
use testing::kernel_test;

/// What a terminal shows of one line.
#[derive(Default)]
struct Screen {
    line: Vec<char>,
    at: usize,
    bells: usize,
}

impl core::fmt::Write for Screen {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            match character {
                '\x08' => self.at -= 1,
                '\x07' => self.bells += 1,
                '\n' => {
                    self.line.clear();
                    self.at = 0;
                }
                '\x1b' => {
                    assert_eq!((rest.next(), rest.next()), (Some('['), Some('K')));
                    self.line.truncate(self.at);
                }
                _ => {
                    self.line.truncate(self.line.len().max(self.at));
                    match self.line.get_mut(self.at) {
                        Some(place) => *place = character,
                        None => self.line.push(character),
                    }
                    self.at += 1;
                }
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Typist {
    keys: Keys,
    editor: Editor,
    screen: Screen,
    entered: Vec<String>,
}

impl Typist {
    fn types(&mut self, bytes: &str) {
        for byte in bytes.bytes() {
            let Some(key) = self.keys.key(byte) else {
                continue;
            };
            let words = |line: &str| {
                let all = ["cores", "cat", "stats", "mem"].map(String::from);
                let word = String::from(line.rsplit(' ').next().unwrap_or(""));
                all.into_iter()
                    .filter(|name| name.starts_with(&word))
                    .collect()
            };
            match self.editor.key(key, "", words, &mut self.screen) {
                Step::Entered(line) => {
                    self.entered.push(line);
                    (self.screen.line, self.screen.at) = (Vec::new(), 0);
                }
                Step::Forgotten => (self.screen.line, self.screen.at) = (Vec::new(), 0),
                Step::More | Step::Clear => {}
            }
        }
    }

    fn shows(&self) -> (String, usize) {
        (self.screen.line.iter().collect(), self.screen.at)
    }
}

const LEFT: &str = "\x1b[D";
const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";

#[kernel_test]
fn the_screen_shows_the_line_whatever_is_pressed() {
    let mut typist = Typist::default();
    typist.types("hello world");
    for _ in 0..5 {
        typist.types(LEFT);
    }
    typist.types("big ");
    assert_eq!(typist.shows(), ("hello big world".into(), 10));
    typist.types("\x17");
    assert_eq!(typist.shows(), ("hello world".into(), 6));
    typist.types("\x1b[3~\x1b[3~");
    assert_eq!(typist.shows(), ("hello rld".into(), 6));
    typist.types("\x01\x0b");
    assert_eq!(typist.shows(), ("".into(), 0));
    typist.types("ab\x7f\x7f\x7f");
    assert_eq!((typist.shows(), typist.screen.bells), (("".into(), 0), 1));
    typist.types("mem\x1bOHx\x1b[4~y\r");
    assert_eq!(typist.entered, ["xmemy"]);
}

#[kernel_test]
fn lines_that_were_entered_come_back_and_what_was_typed_too() {
    let mut typist = Typist::default();
    typist.types("one\rtwo\r\ntwo\n\rthr");
    assert_eq!(typist.entered, ["one", "two", "two", ""]);
    typist.types(UP);
    assert_eq!(typist.shows(), ("two".into(), 3));
    typist.types(UP);
    assert_eq!(typist.shows(), ("one".into(), 3));
    typist.types(UP);
    assert_eq!(typist.screen.bells, 1, "there is no more");
    typist.types(DOWN);
    typist.types(DOWN);
    assert_eq!(typist.shows(), ("thr".into(), 3));
    typist.types("ee\x03\x10\r");
    assert_eq!(typist.entered.last().map(String::as_str), Some("two"));
}

#[kernel_test]
fn tab_completes_as_far_as_it_is_clear() {
    let mut typist = Typist::default();
    typist.types("st\t");
    assert_eq!(typist.shows(), ("stats ".into(), 6));
    typist.types("\x15c\t");
    // Two begin so: they are shown, and the line again.
    assert_eq!(typist.shows(), ("c".into(), 1));
    typist.types("o\t");
    assert_eq!(typist.shows(), ("cores ".into(), 6));
    typist.types("x\t");
    assert_eq!(typist.screen.bells, 1);
}

#[kernel_test]
fn bytes_make_keys_also_if_a_sequence_comes_in_pieces() {
    let mut keys = Keys::default();
    let mut all =
        |bytes: &[u8]| -> Vec<Key> { bytes.iter().filter_map(|byte| keys.key(*byte)).collect() };
    assert_eq!(all(b"\x1b"), []);
    assert_eq!(all(b"["), []);
    assert_eq!(all(b"A"), [Key::Up]);
    assert_eq!(
        all(b"\x1b[1;5C\x1b[20~\x1bx"),
        [Key::Right, Key::Char(b'x')]
    );
    assert_eq!(all(b"\r\n\n\x80\xff\0"), [Key::Enter, Key::Enter]);
    assert_eq!(all(b"\x1b[\x03"), [Key::Interrupt]);
}
