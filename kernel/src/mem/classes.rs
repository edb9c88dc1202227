//! Size classes: four to each doubling, so at most a fifth of an object is
//! lost, and none of the sizes that tasks like (64, 128, 256) loses a byte.
//!
//! Objects of a class lie side by side from the start of their slab, which
//! begins on a page, so each is aligned to the largest power of two that
//! divides its size. A layout is first rounded up to its own alignment. Within
//! one doubling the classes are the multiples of a step: if the alignment is no
//! larger than the step, every class there has it; if it is larger, the rounded
//! size is itself a class. So the class of the rounded size is always aligned.

use hal::layout::PAGE;

/// How many there are.
pub const CLASSES: usize = 24;
/// Bytes of an object of each class.
pub const SIZES: [usize; CLASSES] = [
    16, 32, 48, 64, 80, 96, 112, 128, //
    160, 192, 224, 256, //
    320, 384, 448, 512, //
    640, 768, 896, 1024, //
    1280, 1536, 1792, 2048,
];
/// Anything larger is made of whole frames.
pub const LARGEST: usize = SIZES[CLASSES - 1];

/// All sizes are multiples of this.
const GRAIN: usize = 16;

/// The class of each number of grains, minus one: `BY_GRAINS[(bytes - 1) / 16]`.
static BY_GRAINS: [u8; LARGEST / GRAIN] = {
    let mut table = [0; LARGEST / GRAIN];
    let (mut i, mut class) = (0, 0);
    while i < table.len() {
        if (i + 1) * GRAIN > SIZES[class] {
            class += 1;
        }
        table[i] = class as u8;
        i += 1;
    }
    table
};

/// A class, as a number below [`CLASSES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(u8);

impl Class {
    /// The class for `size` bytes aligned to `align`, a power of two; `None`: too large.
    #[inline]
    pub fn of(size: usize, align: usize) -> Option<Self> {
        // One less than the size rounded up to the alignment. A size of 0, which
        // nobody may ask for, wraps around and counts as too large.
        let last = size.wrapping_sub(1) | (align - 1);
        BY_GRAINS.get(last / GRAIN).map(|&class| Self(class))
    }

    /// All of them, smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES as u8).map(Self)
    }

    /// Its number.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Bytes of an object.
    pub const fn size(self) -> usize {
        SIZES[self.index()]
    }

    /// Its slabs are blocks of two to this many pages: at least 8 objects, and
    /// at most a sixteenth is left over at the end.
    pub const fn slab_order(self) -> usize {
        match self.size() {
            0..=512 => 0,
            513..=1024 => 1,
            _ => 2,
        }
    }

    /// Objects in a slab.
    pub const fn slab_capacity(self) -> usize {
        (PAGE << self.slab_order()) / self.size()
    }

    /// Most objects in a core's cache: 8 to 16 KiB at most, and at most 64 of them.
    pub const fn cache_limit(self) -> u32 {
        match self.size() {
            0..=128 => 64,
            129..=512 => 32,
            513..=1024 => 16,
            _ => 8,
        }
    }

    /// How many move between a cache and the slabs at once.
    pub const fn batch(self) -> u32 {
        self.cache_limit() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_tightest_class_that_has_its_alignment() {
        for align in (0..=11).map(|bits| 1 << bits) {
            for size in 1..=LARGEST {
                let class = Class::of(size, align).expect("not too large");
                let natural = 1 << class.size().trailing_zeros();
                assert!(
                    class.size() >= size && natural >= align,
                    "{size} aligned to {align}: {class:?}"
                );
                let tighter = SIZES
                    .iter()
                    .filter(|&&tighter| tighter >= size && tighter.is_multiple_of(align))
                    .min();
                assert_eq!(tighter, Some(&class.size()), "{size} aligned to {align}");
            }
        }
    }

    #[test]
    fn what_is_too_large_or_too_aligned_has_no_class() {
        assert_eq!(Class::of(LARGEST + 1, 1), None);
        assert_eq!(Class::of(1, 2 * LARGEST), None);
        assert_eq!(Class::of(0, 1), None);
    }

    #[test]
    fn no_class_wastes_more_than_a_sixteenth_of_its_slabs() {
        for class in Class::all() {
            let slab = PAGE << class.slab_order();
            let left_over = slab - class.slab_capacity() * class.size();
            assert!(
                left_over <= slab / 16 && class.slab_capacity() >= 8,
                "{class:?}"
            );
        }
    }
}
