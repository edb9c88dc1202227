//! Where things are in the kernel's address space; the same on every board.
//!
//! Everything lives in the upper half. The lower half is never mapped once
//! the cores are up, so a null pointer, or a small offset from one, faults.
//!
//! | from | what |
//! |---|---|
//! | `0xffff_8000_0000_0000` | all memory of the machine, at its physical address plus this |
//! | `0xffff_c000_0000_0000` | device registers, mapped as drivers ask for them |
//! | `0xffff_d000_0000_0000` | stacks that stay, each above an unmapped guard page |
//! | `0xffff_d800_0000_0000` | stacks that come and go, in slots of 1 MiB |
//! | `0xffff_ffff_8000_0000` | the image itself (x86_64's code model wants the top 2 GiB) |

/// Size of a page and of a frame.
pub const PAGE: usize = 4096;
/// Start of the window through which all physical memory is seen.
pub const DIRECT_MAP: usize = 0xffff_8000_0000_0000;
/// How much physical memory fits in it.
pub const DIRECT_MAP_SIZE: u64 = (DEVICES - DIRECT_MAP) as u64;
/// Start of the window for device registers.
pub const DEVICES: usize = 0xffff_c000_0000_0000;
/// Start of the window for stacks that stay.
pub const STACKS: usize = 0xffff_d000_0000_0000;
/// Start of the window for stacks that come and go.
pub const STACK_SLOTS: usize = 0xffff_d800_0000_0000;
/// Start of the window that holds the image.
pub const IMAGE: usize = 0xffff_ffff_8000_0000;

/// Address at which the memory at `physical` is seen.
#[inline]
pub const fn phys_to_virt(physical: u64) -> usize {
    DIRECT_MAP + physical as usize
}

/// Physical address of a place inside the direct map.
#[inline]
pub const fn direct_to_phys(address: usize) -> u64 {
    (address - DIRECT_MAP) as u64
}

/// Rounds down to a page boundary.
#[inline]
pub const fn page_down(address: u64) -> u64 {
    address & !(PAGE as u64 - 1)
}

/// Rounds up to a page boundary.
#[inline]
pub const fn page_up(address: u64) -> u64 {
    page_down(address.saturating_add(PAGE as u64 - 1))
}
