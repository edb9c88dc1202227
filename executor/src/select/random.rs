//! Random numbers for a fair start: cheap, and good for nothing else.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use hal::cores::{self, MAX_CORES};

/// One for each core, on a cache line of its own.
#[repr(align(64))]
struct State(AtomicU32);

/// 0: not begun. Threads of the host with numbers beyond share.
static STATES: [State; MAX_CORES] = [const { State(AtomicU32::new(0)) }; MAX_CORES];

/// A number below `count`, each as likely as the others; 0 if there is none.
///
/// Not one step: whoever is preempted in the middle, or shares with another thread, may draw what
/// another one draws.
#[inline]
pub(super) fn below(count: usize) -> usize {
    let core = cores::this_core();
    let state = &STATES[core % MAX_CORES].0;
    let mut next = state.load(Relaxed);
    if next == 0 {
        // Any number but 0; far apart, so that cores do not draw the same.
        next = (core as u32).wrapping_add(1).wrapping_mul(0x9e37_79b9) | 1;
    }
    // Marsaglia's xorshift of 32 bits.
    next ^= next << 13;
    next ^= next >> 17;
    next ^= next << 5;
    state.store(next, Relaxed);
    ((u64::from(next) * count as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn numbers_are_below_the_bound_and_even() {
        for count in [1, 2, 3, 7, 64] {
            let mut drawn = [0; 64];
            for _ in 0..count * 1000 {
                drawn[below(count)] += 1;
            }
            // Ten times the standard deviation is 320; what it draws hardly depends on the seed.
            assert!(drawn[..count].iter().all(|&times| times > 680));
            assert!(drawn[count..].iter().all(|&times| times == 0));
        }
        assert_eq!(below(0), 0);
    }
}
