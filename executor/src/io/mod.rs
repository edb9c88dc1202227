//! Devices: how their interrupts find a driver, and how bytes and wake-ups get from there to a task.
//!
//! | | |
//! |---|---|
//! | `ring` | bytes between two that never wait for each other, one of which may be an interrupt |
//! | [`mod@pipe`] | the same with an end for each, and a task that waits at either |
//! | [`lines`] | which driver an interrupt is for; lines that come without end are shut off |
//! | [`devices`] | what was found on the machine, who drives it, and how that begins and ends |
//!
//! A driver has two halves. The *interrupt half* ([`OnInterrupt`]) runs wherever its line interrupts: it moves what the device has into a
//! ring or a bounded channel, wakes, and is done; it allocates nothing and waits for nothing. The *task half* is an ordinary task, or the
//! calls of one. It registers its waker before it looks a second time, so no interrupt is lost
//! between the look and the wait ([`WakerSlot`](crate::sync::WakerSlot), [`Notify`](crate::sync::Notify)).
//!
//! What a device says is never trusted: an index or a length from it is compared with what there is before it is used.

pub mod ring;

#[cfg(not(loom))]
pub mod devices;
#[cfg(not(loom))]
pub mod lines;
#[cfg(not(loom))]
pub mod pipe;

#[cfg(not(loom))]
pub use {
    devices::{Device, Driver, Id, Registers, StartError, Started},
    lines::{AttachError, Attached, OnInterrupt, Seen},
    pipe::pipe,
};
