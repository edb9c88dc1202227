//! Reading a line from the console.

use crate::{console, print, println};

/// Longest line.
pub(super) const ROOM: usize = 120;

/// Reads a line, with the editing that everyone expects: backspace, Ctrl-W, Ctrl-U, Ctrl-C.
pub(super) async fn read(buffer: &mut [u8; ROOM]) -> &str {
    let mut length = 0;
    let rub_out = |length: &mut usize| {
        *length -= 1;
        print!("\x08 \x08");
    };
    loop {
        match console::read_byte().await {
            b'\r' | b'\n' => {
                println!();
                return core::str::from_utf8(&buffer[..length]).unwrap_or("");
            }
            8 | 127 if length > 0 => rub_out(&mut length),
            // Ctrl-C and Ctrl-U: forget the line.
            3 | 21 => {
                while length > 0 {
                    rub_out(&mut length);
                }
            }
            // Ctrl-W: forget a word.
            23 => {
                while length > 0 && buffer[length - 1] == b' ' {
                    rub_out(&mut length);
                }
                while length > 0 && buffer[length - 1] != b' ' {
                    rub_out(&mut length);
                }
            }
            ESCAPE => skip_escape().await,
            byte @ b' '..=b'~' if length < ROOM => {
                buffer[length] = byte;
                length += 1;
                print!("{}", byte as char);
            }
            // No room, or nothing to rub out: a bell.
            b' '..=b'~' | 8 | 127 => print!("\x07"),
            _ => {}
        }
    }
}

const ESCAPE: u8 = 27;

/// Takes the rest of what a cursor or function key sends.
async fn skip_escape() {
    if matches!(console::read_byte().await, b'[' | b'O') {
        while !matches!(console::read_byte().await, b'@'..=b'~') {}
    }
}
