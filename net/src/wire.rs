//! A link as smoltcp sees it, for the time of one call: at most one frame has come, and what is sent goes to the link.

use crate::interface::Counters;
use alloc::vec;
use core::sync::atomic::Ordering::Relaxed;
use drivers::link::Link;
use smoltcp::{
    phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken},
    time::Instant,
};

/// The link during one call.
pub struct Wire<'a> {
    pub link: &'a mut dyn Link,
    /// What has come and was not seen yet.
    pub frame: Option<&'a [u8]>,
    pub counters: &'a Counters,
    /// How many packets wanted to be sent, and how many of them were. The rest waits for the hardware address of their receiver.
    pub wanted: usize,
    pub sent: usize,
}

impl<'a> Wire<'a> {
    pub fn new(link: &'a mut dyn Link, frame: Option<&'a [u8]>, counters: &'a Counters) -> Self {
        Self {
            link,
            frame,
            counters,
            wanted: 0,
            sent: 0,
        }
    }
}

impl Device for Wire<'_> {
    type RxToken<'b>
        = Incoming<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Outgoing<'b>
    where
        Self: 'b;

    fn receive(&mut self, _: Instant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        let frame = self.frame.take()?;
        Some((
            Incoming(frame),
            Outgoing {
                link: self.link,
                counters: self.counters,
                sent: &mut self.sent,
            },
        ))
    }

    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        if !self.link.has_room() {
            return None;
        }
        self.wanted += 1;
        Some(Outgoing {
            link: self.link,
            counters: self.counters,
            sent: &mut self.sent,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = match self.link.address() {
            Some(_) => Medium::Ethernet,
            None => Medium::Ip,
        };
        capabilities.max_transmission_unit = self.link.longest();
        capabilities
    }
}

/// The frame that has come.
pub struct Incoming<'a>(&'a [u8]);

impl RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, see: F) -> R {
        see(self.0)
    }
}

/// A frame to be sent.
pub struct Outgoing<'a> {
    link: &'a mut dyn Link,
    counters: &'a Counters,
    sent: &'a mut usize,
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let has_header = self.link.address().is_some();
        let (mut fill, mut filled, mut is_packet) = (Some(fill), None, true);
        self.link.send(length, &mut |frame| {
            if let Some(fill) = fill.take() {
                filled = Some(fill(frame));
                // Requests for hardware addresses are not what a socket wanted to send.
                is_packet = !has_header || frame.get(12..14) != Some(&[0x08, 0x06]);
            }
        });
        match (filled, fill) {
            (Some(result), _) => {
                self.counters.sent.fetch_add(1, Relaxed);
                *self.sent += usize::from(is_packet);
                result
            }
            // There was no room: an answer to what has come. It is lost, as on any wire.
            (None, Some(fill)) => {
                self.counters.not_sent.fetch_add(1, Relaxed);
                fill(&mut vec![0; length])
            }
            (None, None) => unreachable!("`fill` was called, and has returned something"),
        }
    }
}
