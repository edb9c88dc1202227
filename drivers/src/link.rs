//! What carries frames of a network, whoever drives it.

use core::task::{Context, Poll};

/// Where frames come from and go to. One task has it.
pub trait Link: Send {
    /// The address of this end, if frames have one (Ethernet); without, they are bare IP packets.
    fn address(&self) -> Option<[u8; 6]>;

    /// The longest frame, its header included.
    fn longest(&self) -> usize;

    /// Takes one frame that has come, if there is one. `take` is called once at most, and may change the bytes.
    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> bool;

    /// Whether a frame can be sent now.
    fn has_room(&mut self) -> bool;

    /// Sends a frame of `length` bytes, which `fill` writes; all are 0 or of an earlier frame before. False: there is no room, or it is too long, and `fill` was not called.
    fn send(&mut self, length: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool;

    /// Ready as soon as a frame has come or, if `for_room`, there is room for one to be sent. Otherwise the context is woken when it is.
    /// `None`: the link is gone.
    fn poll_ready(&mut self, for_room: bool, context: &mut Context<'_>) -> Poll<Option<()>>;
}
