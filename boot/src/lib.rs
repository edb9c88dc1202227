//! From firmware to `main`.
//!
//! The entry assembly of each architecture turns on the MMU with first coarse
//! tables; then Rust reads what the firmware left (a PVH or multiboot2 block,
//! a device tree, or nothing), makes the final page tables and switches to
//! them, and only then anything is shared: one [`BootInfo`], whatever the
//! firmware was, goes to the image's `main`, which releases (`release_cores`)
//! the other cores when it has stacks for them.
//!
//! | | |
//! |---|---|
//! | `memory` | which memory there is |
//! | `command_line` | options |
//! | `space` | the final page tables |
//! | `secondary` | the other cores |
//! | `devicetree` | what a device tree says |
//! | `x86_64`, `aarch64` | entry, and what only one of them has |

#![cfg_attr(target_os = "none", no_std)]

pub mod command_line;
pub mod devicetree;
pub mod memory;

#[cfg(target_os = "none")]
mod secondary;
#[cfg(target_os = "none")]
mod space;
#[cfg(target_os = "none")]
pub use secondary::{CoreReport, CoreStacks, Outcome, release_cores};

#[cfg(all(target_os = "none", target_arch = "x86_64"))]
#[path = "x86_64/mod.rs"]
mod arch;
#[cfg(all(target_os = "none", target_arch = "aarch64"))]
#[path = "aarch64/mod.rs"]
mod arch;

use command_line::Options;
use hal::{board::Platform, cores::MAX_CORES};
use memory::MemoryMap;

/// All that is known when `main` begins.
pub struct BootInfo {
    /// The machine.
    pub platform: Platform,
    /// Its memory.
    pub memory: MemoryMap,
    /// Its cores; the first is the one that booted.
    pub cores: CoreList,
    /// The kernel's command line.
    pub command_line: Text,
    /// What the firmware left for drivers to look into.
    pub firmware: Firmware,
    /// How the image was started, for people.
    pub loader: &'static str,
    /// The raw counter and the cycle counter when the image was entered.
    pub entered: Entered,
}

impl BootInfo {
    /// What the command line asks for; bad words are told to `complain`.
    pub fn options<'a>(
        &'a self,
        complain: &mut dyn FnMut(command_line::Complaint<'a>),
    ) -> Options<'a> {
        Options::parse(self.command_line.as_str(), complain)
    }

    /// The device tree that the firmware left, for drivers to look into.
    #[cfg(target_os = "none")]
    pub fn device_tree(&self) -> Option<&'static [u8]> {
        let Firmware::DeviceTree(at, length) = self.firmware else {
            return None;
        };
        let at = space::map_firmware(at, length).ok()?;
        // SAFETY: boot found a device tree of this length there and keeps its memory out of use; it
        // was just made readable, and stays so.
        Some(unsafe { core::slice::from_raw_parts(at as *const u8, length) })
    }
}

/// When the image was entered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entered {
    /// Raw counter of the clock.
    pub counter: u64,
    /// [`hal::clock::cycles`].
    pub cycles: u64,
}

/// What the firmware left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    /// Physical address of the ACPI root pointer.
    Acpi(u64),
    /// Physical address and length of a device tree.
    DeviceTree(u64, usize),
    /// Nothing: the board's built-in table was used.
    Nothing,
}

/// Hardware numbers of the cores.
#[derive(Clone)]
pub struct CoreList {
    ids: [u64; MAX_CORES],
    count: usize,
    /// Cores that the firmware lists and that are not used.
    pub left_out: usize,
}

impl CoreList {
    /// No core yet.
    pub const fn new() -> Self {
        Self {
            ids: [0; MAX_CORES],
            count: 0,
            left_out: 0,
        }
    }

    /// Adds a core; one that is listed twice counts once.
    pub fn add(&mut self, id: u64) {
        if self.ids().contains(&id) {
            return;
        }
        if self.count == MAX_CORES {
            self.left_out += 1;
            return;
        }
        self.ids[self.count] = id;
        self.count += 1;
    }

    /// Keeps the first `limit`.
    pub fn limit(&mut self, limit: usize) {
        let kept = self.count.min(limit);
        self.left_out += self.count - kept;
        self.count = kept;
    }

    /// APIC ids or MPIDR values; the index is the core's number.
    pub fn ids(&self) -> &[u64] {
        &self.ids[..self.count]
    }
}

impl Default for CoreList {
    fn default() -> Self {
        Self::new()
    }
}

/// A short text that is kept.
#[derive(Clone)]
pub struct Text {
    bytes: [u8; command_line::ROOM],
    length: usize,
    /// Whether some of it did not fit.
    pub cut: bool,
}

impl Text {
    /// Keeps `bytes` up to the first NUL; what is no UTF-8 becomes `?`.
    pub fn new(bytes: impl IntoIterator<Item = u8>) -> Self {
        let mut text = Self {
            bytes: [0; command_line::ROOM],
            length: 0,
            cut: false,
        };
        for byte in bytes.into_iter().take_while(|&byte| byte != 0) {
            if text.length == text.bytes.len() {
                text.cut = true;
                break;
            }
            text.bytes[text.length] = byte;
            text.length += 1;
        }
        if core::str::from_utf8(&text.bytes[..text.length]).is_err() {
            for byte in &mut text.bytes[..text.length] {
                if !byte.is_ascii() {
                    *byte = b'?';
                }
            }
        }
        text
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("")
    }
}

/// Names the function that boot goes on to: `fn(&'static BootInfo) -> !`.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        extern "Rust" fn kernel_main(info: &'static $crate::BootInfo) -> ! {
            let main: fn(&'static $crate::BootInfo) -> ! = $main;
            main(info)
        }
    };
}

#[cfg(target_os = "none")]
unsafe extern "Rust" {
    fn kernel_main(info: &'static BootInfo) -> !;
}

/// The last step: hands over to the image.
#[cfg(target_os = "none")]
fn hand_over(info: BootInfo) -> ! {
    static INFO: spin::Once<BootInfo> = spin::Once::new();
    let info = INFO.call_once(|| info);
    assert!(
        hal::cores::arrival(0).arrive(),
        "nobody gives up on the boot core"
    );
    // SAFETY: `entry!` defines it with this signature.
    unsafe { kernel_main(info) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_its_nul_and_survives_bad_bytes() {
        assert_eq!(Text::new(*b"log=debug\0junk").as_str(), "log=debug");
        assert_eq!(Text::new(*b"a\xffb").as_str(), "a?b");
        let long = Text::new(core::iter::repeat_n(b'x', 5000));
        assert_eq!(long.as_str().len(), command_line::ROOM);
        assert!(long.cut);
    }

    #[test]
    fn cores_beyond_the_limit_are_counted_not_forgotten() {
        let mut cores = CoreList::new();
        for id in 0..70 {
            cores.add(id);
        }
        assert_eq!(cores.ids().len(), MAX_CORES);
        assert_eq!(cores.left_out, 6);
        cores.add(3);
        assert_eq!(
            cores.ids().len(),
            MAX_CORES,
            "one that is listed twice counts once"
        );
        cores.limit(4);
        assert_eq!(cores.ids(), [0, 1, 2, 3]);
    }
}
