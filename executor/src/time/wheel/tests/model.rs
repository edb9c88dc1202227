//! Random lives of a wheel, compared with a sorted map.

use super::{super::NEVER, Bench, YEAR};
use proptest::prelude::*;
use std::{collections::BTreeMap, vec::Vec};

/// What happens to a wheel.
#[derive(Clone, Debug)]
enum Step {
    /// A deadline this far from now.
    InsertIn(i64),
    InsertAt(u64),
    /// The same deadline as one before.
    InsertEqual(usize),
    Remove(usize),
    /// Time goes on.
    Advance(u64),
    /// To this much before or after the next deadline.
    ToNext(i64),
    ToEnd(u64),
    /// A turn that may not be enough, with what comes next in the middle of it.
    Turn(u64),
}

/// Distances of every size, with a liking for the edges of slots.
fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..300u64,
        (0..63u32, 0..3u64).prop_map(|(power, off)| (1u64 << power) + off - 1),
        (0..63u32).prop_flat_map(|power| 0..1u64 << power),
        Just(100 * YEAR),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => distance().prop_map(|distance| Step::InsertIn(distance as i64)),
        1 => distance().prop_map(|distance| Step::InsertIn(-(distance as i64))),
        1 => prop_oneof![Just(0), Just(NEVER), Just(NEVER - 1), any::<u64>()].prop_map(Step::InsertAt),
        2 => any::<usize>().prop_map(Step::InsertEqual),
        3 => any::<usize>().prop_map(Step::Remove),
        3 => distance().prop_map(Step::Advance),
        3 => (-2..2i64).prop_map(Step::ToNext),
    ]
}

/// The model: what is in the wheel, by the moment it counts for and its number.
struct Model {
    now: u64,
    waiting: BTreeMap<(u64, usize), ()>,
    deadlines: Vec<u64>,
    /// Moment that each counts for.
    moments: Vec<u64>,
}

impl Model {
    fn new() -> Self {
        Self {
            now: 0,
            waiting: BTreeMap::new(),
            deadlines: Vec::new(),
            moments: Vec::new(),
        }
    }

    fn insert(&mut self, deadline: u64) {
        let (id, moment) = (self.deadlines.len(), deadline.max(self.now));
        self.deadlines.push(deadline);
        self.moments.push(moment);
        if deadline != NEVER {
            self.waiting.insert((moment, id), ());
        }
    }

    fn next(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(key, ())| key.0)
    }

    /// The deadline that a step inserts, if it does.
    fn inserted(&self, step: &Step) -> Option<u64> {
        Some(match *step {
            Step::InsertIn(distance) => self.now.saturating_add_signed(distance),
            Step::InsertAt(deadline) => deadline,
            Step::InsertEqual(pick) => *self.deadlines.get(pick % self.deadlines.len().max(1))?,
            _ => return None,
        })
    }

    /// The time that a step goes on to, if it does.
    fn advanced(&self, step: &Step) -> Option<u64> {
        let to = match *step {
            Step::Advance(distance) => self.now.saturating_add(distance),
            Step::ToNext(off) => self.next()?.saturating_add_signed(off),
            Step::ToEnd(off) => u64::MAX - off,
            _ => return None,
        };
        Some(to.max(self.now))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_wheel_does_what_a_sorted_map_does(
        mut steps in prop::collection::vec(step(), 1..120),
        end in 0..3u64,
        limit in 1..40usize,
    ) {
        steps.push(Step::ToEnd(end));
        let (mut bench, mut model) = (Bench::new(), Model::new());
        let mut was_removed = false;
        for step in &steps {
            if let Some(deadline) = model.inserted(step) {
                bench.insert(deadline);
                model.insert(deadline);
            } else if let Step::Remove(pick) = step && !model.deadlines.is_empty() {
                let id = pick % model.deadlines.len();
                let is_in = model.waiting.remove(&(model.moments[id], id)).is_some();
                prop_assert_eq!(bench.remove(id), is_in);
                was_removed |= is_in;
            } else if let Some(now) = model.advanced(step) {
                model.now = now;
                let later = model.waiting.split_off(&(now, usize::MAX));
                let due: Vec<_> = model.waiting.keys().map(|key| key.1).collect();
                model.waiting = later;
                prop_assert_eq!(bench.expire(now, limit), due);
                let next = bench.wheel.next_deadline();
                prop_assert!(next.is_none_or(|next| next > now), "it would be called for nothing");
            }
            let (next, expected) = (bench.wheel.next_deadline(), model.next());
            prop_assert_eq!(next.is_some(), expected.is_some());
            prop_assert!(next <= expected, "nothing may be late");
            if !was_removed {
                prop_assert_eq!(next, expected);
            }
        }
        prop_assert!(model.waiting.keys().all(|key| key.0 > model.now));
    }

    /// The same with turns that are too short, and all that can happen between them.
    #[test]
    fn short_turns_lose_nothing_and_keep_the_order(
        steps in prop::collection::vec(prop_oneof![
            3 => step(),
            2 => (1..4u64).prop_map(Step::Turn),
        ], 1..120),
    ) {
        let (mut bench, mut model) = (Bench::new(), Model::new());
        // Entries that were still to come when they were inserted, in the order they fired.
        let mut in_order: Option<(u64, usize)> = None;
        let mut check = |model: &mut Model, fired: Vec<usize>| {
            for id in fired {
                assert!(model.deadlines[id] <= model.now, "early");
                assert!(model.waiting.remove(&(model.moments[id], id)).is_some(), "twice, or though removed");
                if model.deadlines[id] == model.moments[id] {
                    let key = (model.moments[id], id);
                    assert!(in_order < Some(key), "out of order");
                    in_order = Some(key);
                }
            }
        };
        for step in &steps {
            if let Some(deadline) = model.inserted(step) {
                bench.insert(deadline);
                model.insert(deadline);
                // One for this very moment counts as past: it need not wait for others of that moment.
                if deadline == model.now {
                    let id = model.deadlines.len() - 1;
                    model.deadlines[id] = 0;
                }
            } else if let Step::Remove(pick) = step && !model.deadlines.is_empty() {
                let id = pick % model.deadlines.len();
                let is_in = model.waiting.remove(&(model.moments[id], id)).is_some();
                prop_assert_eq!(bench.remove(id), is_in);
            } else if let Some(now) = model.advanced(step) {
                model.now = now;
                let (fired, _) = bench.turn(now, 1);
                check(&mut model, fired);
            } else if let Step::Turn(limit) = step {
                let (fired, is_more) = bench.turn(model.now, *limit as usize);
                check(&mut model, fired);
                prop_assert!(is_more || model.next().is_none_or(|next| next > model.now));
            }
        }
        model.now = u64::MAX;
        let fired = bench.expire(u64::MAX, 5);
        check(&mut model, fired);
        prop_assert!(model.waiting.is_empty());
    }
}
