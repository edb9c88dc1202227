//! The shell's side of the serial line: keys as they come, those that were typed ahead, and lines of them.

use super::line::{Editor, Key, Keys, Step};
use crate::{console, print, println};
use alloc::{collections::VecDeque, string::String, vec::Vec};
use drivers::serial::Rx;
use embedded_io_async::Read;

/// Keys that are kept while nobody asks for them.
const TYPED_AHEAD: usize = 1024;

/// What is typed, and the line that it makes.
pub(super) struct Terminal {
    input: Rx,
    keys: Keys,
    typed_ahead: VecDeque<Key>,
    editor: Editor,
}

impl Terminal {
    pub(super) async fn open() -> Self {
        Self {
            input: console::input().await,
            keys: Keys::default(),
            typed_ahead: VecDeque::new(),
            editor: Editor::default(),
        }
    }

    /// Waits for bytes, and takes them.
    pub(super) async fn read(&mut self, room: &mut [u8]) -> usize {
        loop {
            match self.input.read(room).await {
                Ok(0) | Err(_) => {
                    // The port was stopped: it may be started again.
                    self.input = console::input().await;
                }
                Ok(count) => return count,
            }
        }
    }

    /// The next keys, at least one, behind those that were typed ahead.
    async fn fill(&mut self) {
        let before = self.typed_ahead.len();
        while self.typed_ahead.len() == before {
            let mut bytes = [0; 64];
            let count = self.read(&mut bytes).await;
            let keys = bytes[..count]
                .iter()
                .filter_map(|byte| self.keys.key(*byte));
            self.typed_ahead.extend(keys);
        }
    }

    /// Edits a line until it is entered.
    pub(super) async fn line(
        &mut self,
        prompt: &str,
        complete: impl Fn(&str) -> Vec<String>,
    ) -> String {
        print!("{prompt}");
        loop {
            let Some(key) = self.typed_ahead.pop_front() else {
                self.fill().await;
                continue;
            };
            let mut shown = String::new();
            let step = self.editor.key(key, prompt, &complete, &mut shown);
            print!("{shown}");
            match step {
                Step::More => {}
                Step::Entered(line) => {
                    println!();
                    return line;
                }
                Step::Forgotten => print!("^C\n{prompt}"),
                Step::Clear => {
                    let mut shown = String::from("\x1b[2J\x1b[H");
                    self.editor.show(prompt, &mut shown);
                    print!("{shown}");
                }
            }
        }
    }

    /// Waits for a key of this kind, and takes it; others are for the next line, as many as there is room for.
    pub(super) async fn wait_for(&mut self, is_meant: impl Fn(Key) -> bool) {
        let mut looked = 0;
        loop {
            while let Some(key) = self.typed_ahead.get(looked).copied() {
                if is_meant(key) {
                    // What was typed before it was for what it ends.
                    self.typed_ahead.drain(..=looked);
                    return;
                }
                looked += 1;
            }
            if self.typed_ahead.len() >= TYPED_AHEAD {
                // Only what ends it is of interest now.
                self.typed_ahead.clear();
                looked = 0;
            }
            self.fill().await;
        }
    }
}
