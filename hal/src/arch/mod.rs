//! The one place that chooses the architecture. Each defines the same names:
//!
//! | | |
//! |---|---|
//! | cores | `Core`, `this_core`, `local`, `set_local`, `current`, `current_anew`, `set_current`, `kick`, `send_stop`, `has_nmi`, `send_nmi`, `halt`, `pause`, `here`, `in_trap` |
//! | interrupts | `PREEMPTS`, `irq_mask`, `irq_enable`, `irq_are_enabled`, `wait_for_interrupt` |
//! | lines | `enable_line`, `disable_line`, `set_trigger`, `reserve_message`, `release_message` |
//! | devices | `read_port`, `write_port`, `physical`, `order_memory`, `order_before_registers` |
//! | time | `counter`, `cycles`, `timer_arm`, `timer_disarm` |
//! | contexts | `Frame`, `switch`, `touch_below`, `enter`, `leave`, `is_told` |
//! | memory | `paging::{leaf, table, decode, flush_page, flush_all, after_map, ..}`, `probe::{read, write, call}` |
//! | stacks | `stack::{DEFAULT_SIZE, BELOW, reserve, release, memory, collect, lacks, refill, overflow, ready}` |
//! | the lot | `FREE_AT_START`, `usable`, `usual`, `add_core` |
//! | what blocks | `Threads` |
//! | panics | `Payload`, `catch`, `resume`, `message`, `is_panicking` |
//! | coming up | `bring_up`: what boot calls, in the order of the boot |

#[cfg(target_os = "none")]
mod bare;
#[cfg(target_os = "none")]
pub use bare::*;

#[cfg(all(target_os = "none", target_arch = "x86_64"))]
mod x86_64;
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
pub use x86_64::*;

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
mod aarch64;
#[cfg(all(target_os = "none", target_arch = "aarch64"))]
pub use aarch64::*;

#[cfg(not(target_os = "none"))]
mod host;
#[cfg(not(target_os = "none"))]
pub use host::*;
