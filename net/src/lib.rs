//! TCP/IP for tasks on any core.
//!
//! The protocols are smoltcp's. It is made for one owner: a poll takes an interface and a set of sockets, and walks through all of the set. Here each
//! socket has *a set of its own*, behind a lock of its own, and a table says which socket a frame is for. So a frame costs
//! the same among 10,000 connections as among ten, and tasks on several cores read and write theirs at the same time.
//!
//! | | |
//! |---|---|
//! | [`Net`] | all of it: interfaces, and which socket is for what |
//! | [`TcpListener`], [`TcpStream`] | connections, with the traits of `embedded-io-async` |
//! | [`UdpSocket`] | datagrams |
//! | [`Net::resolve`], [`Net::ping`] | names, and whether somebody is there |
//! | `interface` | the task of an interface: frames in, frames out, time |
//! | `frames` | which socket a frame is for |
//! | `socket` | a socket, and who waits for it |
//! | [`Loopback`] | a link to oneself |
//! | [`echo`], [`http`] | two servers |
//!
//! **The way of a frame.** The device interrupts and wakes the interface's task. That takes the frame out of the device's buffer, finds the socket
//! in the table, locks it, lets smoltcp see the frame with that one socket, and wakes who reads there, after it is unlocked. **And back:** who writes locks the
//! socket, puts bytes into its buffer, and puts the socket onto the interface's list of those with something to do; its task sends them.
//!
//! IPv4 only; packets in fragments are dropped.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod echo;
mod error;
mod frames;
pub mod http;
mod interface;
mod lookup;
mod loopback;
mod ping;
mod socket;
mod stack;
mod tcp;
mod udp;
mod wire;

pub use {
    error::NetError,
    interface::Counters,
    loopback::Loopback,
    stack::{Addresses, InterfaceInfo, Net, Static},
    tcp::{Options, ReadHalf, TcpListener, TcpStream, WriteHalf},
    udp::UdpSocket,
};

#[doc(hidden)]
pub use frames::{Kind, address_of};
