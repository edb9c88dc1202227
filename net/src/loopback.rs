//! A link to oneself: what is sent comes back.

use alloc::{collections::VecDeque, vec::Vec};
use core::task::{Context, Poll};
use drivers::link::Link;

/// The longest packet.
const LONGEST: usize = 16 * 1024;
/// So many packets are on their way at most.
const MOST: usize = 1024;
/// Buffers of packets that are not on their way any more, kept for others; the longest of them.
const SPARE: usize = 64;
const LONGEST_SPARE: usize = 2048;

/// The link of an interface `lo`.
#[derive(Default)]
pub struct Loopback {
    packets: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Loopback {
    /// One with nothing on its way.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Link for Loopback {
    fn address(&self) -> Option<[u8; 6]> {
        None
    }

    fn longest(&self) -> usize {
        LONGEST
    }

    fn receive(&mut self, take: &mut dyn FnMut(&mut [u8])) -> bool {
        let Some(mut packet) = self.packets.pop_front() else {
            return false;
        };
        take(&mut packet);
        if self.spare.len() < SPARE && packet.capacity() <= LONGEST_SPARE {
            self.spare.push(packet);
        }
        true
    }

    fn has_room(&mut self) -> bool {
        self.packets.len() < MOST
    }

    fn send(&mut self, length: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        if length > LONGEST || !self.has_room() {
            return false;
        }
        let mut packet = self.spare.pop().unwrap_or_default();
        packet.clear();
        if packet.try_reserve(length).is_err() {
            return false;
        }
        packet.resize(length, 0);
        fill(&mut packet);
        self.packets.push_back(packet);
        true
    }

    fn poll_ready(&mut self, for_room: bool, _: &mut Context<'_>) -> Poll<Option<()>> {
        // One task sends and receives: nothing comes while it waits.
        match !self.packets.is_empty() || (for_room && self.has_room()) {
            true => Poll::Ready(Some(())),
            false => Poll::Pending,
        }
    }
}
