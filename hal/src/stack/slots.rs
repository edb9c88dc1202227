//! Which slots of the address space for stacks are taken: one bit each.

/// `64 * WORDS` slots, numbered from 0.
pub struct Slots<const WORDS: usize> {
    taken: [u64; WORDS],
    /// No word before this one has a slot that is free.
    from: usize,
}

impl<const WORDS: usize> Slots<WORDS> {
    /// How many there are.
    pub const COUNT: usize = 64 * WORDS;

    /// All are free.
    #[allow(clippy::new_without_default, reason = "made in a static")]
    pub const fn new() -> Self {
        Self {
            taken: [0; WORDS],
            from: 0,
        }
    }

    /// Takes `count` slots side by side, the lowest there are: those that were
    /// in use before have their page tables. Returns the first.
    pub fn take(&mut self, count: usize) -> Option<usize> {
        let mut first = self.next(false, 64 * self.from, Self::COUNT);
        self.from = first / 64;
        loop {
            let end = first.checked_add(count).filter(|&end| end <= Self::COUNT)?;
            let free_until = self.next(true, first, end);
            if free_until == end {
                self.flip(first, count);
                return Some(first);
            }
            first = self.next(false, free_until, Self::COUNT);
        }
    }

    /// Frees `count` slots from `first` on, which were taken.
    pub fn give_back(&mut self, first: usize, count: usize) {
        debug_assert_eq!(
            self.next(false, first, first + count),
            first + count,
            "a slot was given back that is free"
        );
        self.flip(first, count);
        self.from = self.from.min(first / 64);
    }

    /// The first slot from `at` on, but before `end`, that is taken, or free; else `end`.
    fn next(&self, taken: bool, at: usize, end: usize) -> usize {
        let mut mask = !0 << (at % 64);
        for word in at / 64..end.div_ceil(64) {
            let bits = if taken {
                self.taken[word]
            } else {
                !self.taken[word]
            };
            if bits & mask != 0 {
                let found = 64 * word + (bits & mask).trailing_zeros() as usize;
                return found.min(end);
            }
            mask = !0;
        }
        end
    }

    fn flip(&mut self, first: usize, count: usize) {
        for slot in first..first + count {
            self.taken[slot / 64] ^= 1 << (slot % 64);
        }
    }
}
