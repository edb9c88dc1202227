//! Tests of the image, on the machine it runs on.
//!
//! | | |
//! |---|---|
//! | `cores` | kicks, jobs, locks, masking |
//! | `devices` | drivers, and the lines that interrupt them |
//! | `virtio` | a network card and a disk, as QEMU plays them |
//! | `network` | connections of the machine to itself |
//! | `files` | a disk, and files on it |
//! | `time` | the clock and the timers |
//! | `protection` | what pages may and may not |
//! | `contexts` | switching, voluntarily and from an interrupt |
//! | `stacks` | stacks that grow, overflow, and give back what they had |
//! | `executor` | tasks on all cores |
//! | `image` | command line, symbols, the boot's own report |

mod contexts;
mod cores;
mod devices;
mod executor;
mod files;
mod image;
mod network;
mod protection;
mod stacks;
mod time;
mod virtio;
