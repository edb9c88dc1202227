//! The wheel at its boundaries and under load; `model` compares it with a sorted map.

mod model;

use super::*;
use std::{pin::Pin, vec::Vec};

const DAY: u64 = 86_400_000_000_000;
const YEAR: u64 = 365 * DAY;

/// A wheel and the entries that were ever in it, each named by its number.
struct Bench {
    // First, so that it is gone before the entries are.
    wheel: Box<Wheel<usize>>,
    entries: Vec<Pin<Box<Entry<usize>>>>,
}

impl Bench {
    fn new() -> Self {
        Self {
            wheel: Wheel::try_new().unwrap(),
            entries: Vec::new(),
        }
    }

    fn insert(&mut self, deadline: u64) -> usize {
        let id = self.entries.len();
        self.entries.push(Box::pin(Entry::new(id)));
        let entry = self.pointer(id);
        // SAFETY: it is new, and stays in its box as long as the wheel is there.
        unsafe { self.wheel.insert(entry, deadline) };
        id
    }

    fn remove(&mut self, id: usize) -> bool {
        let entry = self.pointer(id);
        // SAFETY: it was only ever in this wheel.
        unsafe { self.wheel.remove(entry) }
    }

    fn pointer(&self, id: usize) -> NonNull<Entry<usize>> {
        NonNull::from_ref(self.entries[id].as_ref().get_ref())
    }

    /// One turn; and whether there is more to do.
    fn turn(&mut self, now: u64, limit: usize) -> (Vec<usize>, bool) {
        let mut fired = Vec::new();
        let is_more = self.wheel.expire(now, limit, |entry| {
            // SAFETY: the bench owns it.
            fired.push(unsafe { entry.as_ref() }.value);
        });
        (fired, is_more)
    }

    /// All that fires, in order.
    fn expire(&mut self, now: u64, limit: usize) -> Vec<usize> {
        let mut fired = Vec::new();
        loop {
            let (some, is_more) = self.turn(now, limit);
            fired.extend(some);
            if !is_more {
                self.check();
                return fired;
            }
        }
    }

    /// The invariants that [`Wheel`] names.
    fn check(&self) {
        let wheel = &*self.wheel;
        assert_eq!(wheel.source, 0, "a cascade was not finished");
        let mut in_slots = 0;
        for entry in &self.entries {
            let entry = NonNull::from_ref(entry.as_ref().get_ref());
            // SAFETY: it is alive, and the wheel is borrowed.
            let (place, deadline) = unsafe { (list::place(entry), list::deadline(entry)) };
            let Some(place) = place else { continue };
            assert_eq!(place, slot_for(wheel.elapsed, deadline));
            if place != DUE {
                in_slots += 1;
                assert!(wheel.slots[place].earliest <= deadline);
            }
        }
        let occupied: u32 = wheel.occupied.iter().map(|bits| bits.count_ones()).sum();
        assert!(occupied <= in_slots);
        for (number, slot) in wheel.slots.iter().enumerate() {
            let bit = wheel.occupied[number >> DIGIT] >> (number % 64) & 1;
            assert_eq!(bit == 0, slot.entries.is_empty());
        }
    }
}

#[test]
fn a_wheel_is_about_ten_kib_and_needs_no_horizon() {
    assert_eq!(LEVELS, 11);
    assert_eq!(SLOTS, 10 * 64 + 16);
    assert!(size_of::<Wheel<usize>>() < 11 * 1024);
    assert_eq!(slot_for(0, u64::MAX), SLOTS - 1);
    assert_eq!(slot_for(u64::MAX - 1, u64::MAX), 63);
}

#[test]
fn an_entry_fires_at_its_deadline_and_not_a_nanosecond_before() {
    for deadline in [
        1,
        63,
        64,
        65,
        4095,
        4096,
        1_000_000,
        30 * DAY,
        100 * YEAR,
        u64::MAX - 1,
    ] {
        let mut bench = Bench::new();
        bench.insert(deadline);
        assert_eq!(bench.wheel.next_deadline(), Some(deadline));
        assert_eq!(bench.expire(deadline - 1, 32), []);
        assert_eq!(bench.wheel.next_deadline(), Some(deadline));
        assert_eq!(bench.expire(deadline, 32), [0]);
        assert_eq!(bench.wheel.next_deadline(), None);
    }
}

#[test]
fn never_is_never() {
    let mut bench = Bench::new();
    let id = bench.insert(NEVER);
    assert_eq!(bench.wheel.next_deadline(), None);
    assert_eq!(bench.expire(u64::MAX, 32), []);
    assert!(!bench.remove(id));
}

#[test]
fn past_deadlines_fire_next_in_the_order_of_insertion() {
    let mut bench = Bench::new();
    bench.expire(1000, 32);
    for deadline in [1000, 5, 999, 0, 1000] {
        bench.insert(deadline);
    }
    bench.insert(1001);
    assert_eq!(bench.wheel.next_deadline(), Some(1000));
    assert_eq!(bench.expire(1000, 2), [0, 1, 2, 3, 4]);
    assert_eq!(bench.expire(1001, 2), [5]);
}

#[test]
fn equal_deadlines_keep_their_order_over_cascades() {
    let deadline = 3 * DAY + 12_345;
    let mut bench = Bench::new();
    // Each is inserted from a nearer point, so at another level.
    for shift in (0..48).rev() {
        bench.expire(deadline - (1 << shift), 1);
        bench.insert(deadline);
    }
    let fired = bench.expire(deadline, 3);
    assert_eq!(fired, (0..48).collect::<Vec<_>>());
}

#[test]
fn a_clock_that_goes_back_fires_nothing_and_breaks_nothing() {
    let mut bench = Bench::new();
    bench.insert(100);
    bench.insert(2000);
    assert_eq!(bench.expire(1000, 32), [0]);
    assert_eq!(bench.expire(50, 32), []);
    bench.insert(60);
    assert_eq!(bench.expire(50, 32), [2], "60 was passed already");
    assert_eq!(bench.expire(1999, 32), []);
    assert_eq!(bench.expire(2000, 32), [1]);
}

#[test]
fn a_removed_entry_never_fires_and_the_others_do() {
    let mut bench = Bench::new();
    for id in 0..100 {
        bench.insert(10 + id / 10 * 100);
    }
    for id in (0..100).step_by(3) {
        assert!(bench.remove(id));
        assert!(!bench.remove(id), "only once");
    }
    let left: Vec<_> = (0..100).filter(|id| id % 3 != 0).collect();
    assert_eq!(bench.expire(5000, 7), left);
}

#[test]
fn an_entry_can_be_used_again_after_it_fired_or_was_removed() {
    let mut bench = Bench::new();
    let id = bench.insert(10);
    assert_eq!(bench.expire(10, 32), [id]);
    for deadline in [20, 30] {
        let entry = bench.pointer(id);
        // SAFETY: it is in no wheel.
        unsafe { bench.wheel.insert(entry, deadline) };
        assert!(bench.remove(id));
        // SAFETY: as above.
        unsafe { bench.wheel.insert(entry, deadline) };
        assert_eq!(bench.expire(deadline, 32), [id]);
    }
}

/// What is inserted for a slot while that is being emptied comes after what was there.
#[test]
fn inserting_in_the_middle_of_a_cascade_keeps_the_order() {
    let mut bench = Bench::new();
    for deadline in [200, 210, 210, 220] {
        bench.insert(deadline);
    }
    let (fired, is_more) = bench.turn(250, 2);
    assert!(fired.is_empty() && is_more && bench.wheel.source != 0);
    assert_eq!(
        bench.wheel.next_deadline(),
        Some(191),
        "there is more to do at once"
    );
    // Into the slot that is being emptied, twice; before it; after it.
    for deadline in [210, 220, 3, 300] {
        bench.insert(deadline);
    }
    assert!(bench.remove(3));
    let fired = bench.expire(250, 1);
    let position = |id| fired.iter().position(|&fired| fired == id).unwrap();
    assert_eq!(fired.len(), 6);
    assert!(position(0) < position(1) && position(1) < position(2) && position(2) < position(4));
    assert!(position(4) < position(5));
    assert_eq!(bench.expire(299, 1), []);
    assert_eq!(bench.expire(300, 1), [7]);
}

#[test]
fn there_is_something_to_do_until_a_cascade_is_over() {
    let mut bench = Bench::new();
    let first = bench.insert(200);
    bench.insert(230);
    bench.insert(210);
    // The slot still counts as one with something at 200.
    bench.remove(first);
    assert_eq!(bench.wheel.next_deadline(), Some(200));
    let (fired, is_more) = bench.turn(205, 1);
    assert!(fired.is_empty() && is_more);
    // 230 was moved, 210 was not: without this, the wheel would be looked at too late.
    assert!(bench.wheel.next_deadline() <= Some(205));
    assert_eq!(bench.expire(205, 1), []);
    assert_eq!(bench.wheel.next_deadline(), Some(210));
}

/// Where clocks and wheels of others broke: 12 days, 49 days, 2^32 ms, 2^53 ns, and every other power of two.
#[test]
fn nothing_happens_at_the_boundaries_of_time() {
    let milliseconds = (20..44).map(|power| (1u64 << power) * 1_000_000);
    let powers = (5..64).map(|power| 1 << power);
    let named = [12 * DAY, 25 * DAY, 49 * DAY, 50 * DAY, YEAR, 100 * YEAR];
    for boundary in milliseconds.chain(powers).chain(named) {
        let mut bench = Bench::new();
        // Inserted from far away, from near, and out of order.
        let deadlines: Vec<u64> = (0..8).map(|id| boundary - 4 + (id * 3) % 8).collect();
        for &deadline in &deadlines[..4] {
            bench.insert(deadline);
        }
        assert_eq!(bench.expire(boundary - 10, 4), []);
        for &deadline in &deadlines[4..] {
            bench.insert(deadline);
        }
        for now in boundary - 9..boundary + 9 {
            let due: Vec<_> = (0..8).filter(|&id| deadlines[id] == now).collect();
            assert_eq!(bench.expire(now, 4), due, "at {now}, around {boundary}");
            let next = deadlines
                .iter()
                .copied()
                .filter(|&deadline| deadline > now)
                .min();
            assert_eq!(bench.wheel.next_deadline(), next);
        }
    }
}

/// Years of uptime, a timer of 10 ms all the time, jumps in between.
#[test]
fn a_timer_works_on_any_day_of_a_century() {
    let mut bench = Bench::new();
    for day in 0..36_525 {
        let now = day * DAY + day * 7_919;
        assert_eq!(bench.expire(now, 8), []);
        let id = bench.insert(now + 10_000_000);
        assert_eq!(bench.expire(now + 9_999_999, 8), []);
        assert_eq!(bench.expire(now + 10_000_000, 8), [id]);
        bench.entries.clear();
        bench.entries.shrink_to(1);
    }
}

#[test]
fn a_million_timers_fire_in_order_and_no_turn_touches_more_than_its_limit() {
    const COUNT: usize = 1_000_000;
    const LIMIT: usize = 32;
    let mut wheel = Wheel::try_new().unwrap();
    // Evenly over an hour, in an order that jumps about.
    let deadline = |id: usize| (id * 611_953 % COUNT) as u64 * 3_600_000 + 17;
    let entries: Vec<_> = (0..COUNT).map(Entry::new).collect();
    for (id, entry) in entries.iter().enumerate() {
        // SAFETY: the entries are not moved, and dropped after the wheel is empty.
        unsafe { wheel.insert(NonNull::from_ref(entry), deadline(id)) };
    }
    // Every tenth is removed.
    for entry in entries.iter().step_by(10) {
        // SAFETY: it is in this wheel.
        assert!(unsafe { wheel.remove(NonNull::from_ref(entry)) });
    }
    let (mut fired, mut last, mut turns) = (0, 0, 0usize);
    while let Some(next) = wheel.next_deadline() {
        let now = next + 1_000_000;
        loop {
            let mut touched = 0;
            let is_more = wheel.expire(now, LIMIT, |entry| {
                // SAFETY: `entries` owns it.
                let id = unsafe { entry.as_ref() }.value;
                assert!(id % 10 != 0 && deadline(id) <= now && deadline(id) > last);
                last = deadline(id);
                touched += 1;
            });
            assert!(touched <= LIMIT);
            (fired, turns) = (fired + touched, turns + 1);
            if !is_more {
                break;
            }
        }
    }
    assert_eq!(fired, COUNT / 10 * 9);
    // Each costs its own firing and a few moves down, no more.
    assert!(turns * LIMIT < COUNT * (LIMIT + 12), "{turns} turns");
}
