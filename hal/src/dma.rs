//! Memory that devices read and write too.
//!
//! On all boards that have such devices they see memory as the cores' caches do; what is needed is the order of accesses.

use crate::arch;

/// Physical address of what is at `address`, which is memory of the heap: that lies in the direct map, so what is contiguous here is so there.
pub fn physical(address: *const u8) -> u64 {
    arch::physical(address)
}

/// What was written before is seen by a device no later than what is written after, and what is read after is read after.
#[inline]
pub fn order() {
    arch::order_memory();
}

/// All that was written to memory is seen by a device before a register is written that tells it to look.
#[inline]
pub fn before_registers() {
    arch::order_before_registers();
}
