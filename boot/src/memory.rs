//! The memory map: which physical memory there is, and what is in use.

use hal::layout::{page_down, page_up};

/// What a stretch of memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Free for the frame allocator.
    Usable,
    /// The firmware's: its tables, its code.
    Firmware,
    /// The image.
    Image,
    /// Where the other cores take their first steps.
    Trampoline,
}

/// A stretch of physical memory, in whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// What it is for.
    pub kind: Kind,
}

impl Region {
    /// How many bytes.
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// Regions in order of address; none overlaps another.
#[derive(Clone)]
pub struct MemoryMap {
    regions: [Region; Self::ROOM],
    count: usize,
    lost: u64,
}

impl MemoryMap {
    /// More than any firmware was seen to report; what does not fit is counted in [`lost`](Self::lost).
    const ROOM: usize = 128;

    /// An empty map.
    pub const fn new() -> Self {
        const NONE: Region = Region {
            start: 0,
            end: 0,
            kind: Kind::Firmware,
        };
        Self {
            regions: [NONE; Self::ROOM],
            count: 0,
            lost: 0,
        }
    }

    /// The regions, lowest first.
    pub fn regions(&self) -> &[Region] {
        &self.regions[..self.count]
    }

    /// Usable regions, lowest first.
    pub fn usable(&self) -> impl Iterator<Item = Region> + '_ {
        self.regions()
            .iter()
            .copied()
            .filter(|region| region.kind == Kind::Usable)
    }

    /// How many usable bytes there are.
    pub fn usable_bytes(&self) -> u64 {
        self.usable().map(|region| region.len()).sum()
    }

    /// Usable bytes that had to be left out because the map was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds memory that may be used: the whole pages inside it. What was
    /// said of it before stays.
    pub fn add_usable(&mut self, start: u64, length: u64) {
        let mut at = page_up(start);
        let end = page_down(start.saturating_add(length));
        while at < end {
            // Up to the next region that is there already, then behind it.
            match self.regions().iter().find(|r| r.end > at && r.start < end) {
                Some(&taken) => {
                    if taken.start > at {
                        self.insert(at, taken.start, Kind::Usable);
                    }
                    at = taken.end;
                }
                None => {
                    self.insert(at, end, Kind::Usable);
                    return;
                }
            }
        }
    }

    /// Takes memory away from what was usable: every page that it touches.
    pub fn reserve(&mut self, start: u64, length: u64, kind: Kind) {
        if length == 0 {
            return;
        }
        let (start, end) = (page_down(start), page_up(start.saturating_add(length)));
        let mut i = 0;
        while i < self.count {
            let region = self.regions[i];
            if region.end <= start || region.start >= end {
                i += 1;
                continue;
            }
            self.remove(i);
            if region.start < start {
                self.insert(region.start, start, region.kind);
                i += 1;
            }
            if region.end > end {
                self.insert(end, region.end, region.kind);
            }
        }
        self.insert(start, end, kind);
    }

    /// Drops all usable memory from `limit` on.
    pub fn truncate(&mut self, limit: u64) {
        let mut i = 0;
        while i < self.count {
            let region = &mut self.regions[i];
            region.end = region.end.min(limit);
            if region.start >= region.end {
                self.remove(i);
            } else {
                i += 1;
            }
        }
    }

    fn insert(&mut self, start: u64, end: u64, kind: Kind) {
        if self.count == Self::ROOM {
            if kind == Kind::Usable {
                self.lost += end - start;
            }
            return;
        }
        let at = self
            .regions()
            .iter()
            .position(|region| region.start > start)
            .unwrap_or(self.count);
        self.regions.copy_within(at..self.count, at + 1);
        self.regions[at] = Region { start, end, kind };
        self.count += 1;
    }

    fn remove(&mut self, at: usize) {
        self.regions.copy_within(at + 1..self.count, at);
        self.count -= 1;
    }
}

impl Default for MemoryMap {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::*;

    fn list(map: &MemoryMap) -> Vec<(u64, u64, Kind)> {
        map.regions()
            .iter()
            .map(|r| (r.start, r.end, r.kind))
            .collect()
    }

    #[test]
    fn usable_memory_shrinks_to_whole_pages_and_reserved_memory_grows_to_them() {
        let mut map = MemoryMap::new();
        map.add_usable(0x1800, 0x8000);
        map.reserve(0x4fff, 2, Firmware);
        assert_eq!(
            list(&map),
            [
                (0x2000, 0x4000, Usable),
                (0x4000, 0x6000, Firmware),
                (0x6000, 0x9000, Usable),
            ]
        );
    }

    #[test]
    fn what_is_reserved_stays_so_whatever_order_the_firmware_tells_it_in() {
        let mut map = MemoryMap::new();
        map.reserve(0x3000, 0x1000, Image);
        map.add_usable(0x1000, 0x5000);
        map.add_usable(0x2000, 0x6000);
        assert_eq!(
            list(&map),
            [
                (0x1000, 0x3000, Usable),
                (0x3000, 0x4000, Image),
                (0x4000, 0x6000, Usable),
                (0x6000, 0x8000, Usable),
            ]
        );
        assert_eq!(map.usable_bytes(), 0x6000);
    }

    #[test]
    fn a_reservation_that_spans_regions_takes_its_part_of_each() {
        let mut map = MemoryMap::new();
        map.add_usable(0x1000, 0x2000);
        map.add_usable(0x5000, 0x2000);
        map.reserve(0x2000, 0x4000, Firmware);
        assert_eq!(
            list(&map),
            [
                (0x1000, 0x2000, Usable),
                (0x2000, 0x6000, Firmware),
                (0x6000, 0x7000, Usable),
            ]
        );
    }

    #[test]
    fn a_full_map_says_what_it_lost() {
        let mut map = MemoryMap::new();
        for i in 0..130 {
            map.add_usable(0x10_0000 + i * 0x2000, 0x1000);
        }
        assert_eq!(map.regions().len(), 128);
        assert_eq!(map.lost(), 0x2000);
    }

    #[test]
    fn wrapping_and_empty_ranges_are_harmless() {
        let mut map = MemoryMap::new();
        map.add_usable(u64::MAX - 10, 100);
        map.add_usable(0x1000, 0);
        map.reserve(0x1000, 0, Firmware);
        map.reserve(0x1100, 0, Firmware);
        assert_eq!(list(&map), []);
    }
}
