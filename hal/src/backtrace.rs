//! Walking a stack by frame pointers.
//!
//! Both architectures keep, at the frame pointer, the caller's frame pointer
//! and above it the return address. The stack may be damaged, so each word is
//! read by [`probe`], which cannot fault.

use crate::probe;

/// Most frames that are shown.
const DEPTH: usize = 256;

/// Calls `visit` with the program counter of each frame, innermost first.
/// Return addresses are moved back into their call, so that a call that is the
/// last instruction of a function is not shown as the function behind it.
pub fn walk(program_counter: usize, frame_pointer: usize, mut visit: impl FnMut(usize)) {
    visit(program_counter);
    let mut frame = frame_pointer;
    for _ in 0..DEPTH {
        if frame == 0 || !frame.is_multiple_of(8) {
            return;
        }
        let (Ok(next), Ok(back)) = (probe::read(frame), probe::read(frame.wrapping_add(8))) else {
            return;
        };
        if back == 0 {
            return;
        }
        visit(back as usize - 1);
        // Stacks grow down: a caller's frame is above, unless a trap changed stacks.
        if next as usize == frame {
            return;
        }
        frame = next as usize;
    }
}

/// Program counter and frame pointer of the caller.
#[inline(always)]
pub fn here() -> (usize, usize) {
    crate::arch::here()
}
