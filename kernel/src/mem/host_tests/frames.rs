//! Tests of the frame allocator.

use super::{BASE, Machine, PAGE};
use crate::mem::{
    buddy::{Buddy, MAX_ORDER},
    pages::{Page, PageMap, Span},
};
use proptest::prelude::*;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    slice,
};

/// With holes of one page and of many, a region of one page, and two that touch.
const REGIONS: [Range<u64>; 6] = [0..3, 4..5, 7..300, 300..411, 1000..1512, 2047..2060];

#[test]
fn every_page_of_the_regions_is_given_out_once_and_comes_back() {
    let machine = Machine::new(&REGIONS);
    let start = machine.frames.stats();
    let all: u64 = REGIONS.iter().map(|region| region.end - region.start).sum();
    // The descriptors of 933 pages take 4 of them.
    assert_eq!(start.total as u64, all - (all * 16).div_ceil(PAGE));
    assert_eq!(start.free, start.total);
    let mut seen = BTreeSet::new();
    while let Some(frame) = machine.frames.alloc_frame() {
        let page = (frame - BASE) / PAGE;
        assert!(
            REGIONS.iter().any(|region| region.contains(&page)),
            "page {page} is in a hole"
        );
        assert!(seen.insert(frame), "page {page} was given out twice");
    }
    assert_eq!(seen.len(), start.total);
    assert_eq!(machine.frames.stats().free, 0);
    assert_eq!(machine.frames.stats().largest, 0);
    for frame in seen {
        assert_eq!(machine.frames.free(frame), 1);
    }
    assert_eq!(machine.frames.stats(), start);
}

#[test]
fn regions_that_touch_are_one_and_come_in_any_order() {
    let machine = Machine::new(&[300..1024, 0..300, 2000..2100]);
    assert_eq!(machine.frames.stats().largest, 512);
    // All but the descriptors, which are at the end: the first 512 pages and more are one stretch.
    let frame = machine.frames.alloc_pages(512, 9).unwrap();
    assert_eq!(frame, BASE);
}

#[test]
fn frame_zero_is_never_given_out() {
    let machine = Machine::at(0, &[0..2, 4..64]);
    // Less frame 0 and the one with the descriptors.
    assert_eq!(machine.frames.stats().total, 60);
    while let Some(frame) = machine.frames.alloc_frame() {
        assert_ne!(frame, 0);
    }
}

#[test]
fn a_page_is_found_by_its_first_address_only() {
    let machine = Machine::new(&REGIONS);
    let map = &machine.frames.map;
    for index in 0..map.total() {
        assert_eq!(map.index_of(map.phys_of(index)), Some(index));
        assert_eq!(map.index_of(map.phys_of(index) + 8), None);
    }
    for page in [3, 5, 6, 500, 999, 1512, 2046, 2060, 1 << 40] {
        assert_eq!(
            map.index_of(BASE + page * PAGE),
            None,
            "page {page} is in a hole"
        );
    }
    assert_eq!(map.index_of(0), None);
}

#[test]
fn blocks_are_aligned_to_their_size_and_split_and_joined_again() {
    let machine = Machine::with_pages(2048);
    let start = machine.frames.stats();
    let mut blocks = Vec::new();
    for order in [0, 3, 1, 8, 0, 5, 9, 2] {
        let block = machine.frames.alloc_order(order).unwrap();
        assert!(
            block.is_multiple_of(PAGE << order),
            "{block:#x} for order {order}"
        );
        blocks.push(block);
    }
    for block in blocks.into_iter().rev() {
        machine.frames.free(block);
    }
    assert_eq!(machine.frames.stats(), start);
    assert_eq!(machine.frames.alloc_order(MAX_ORDER + 1), None);
    assert_eq!(machine.frames.alloc_order(64), None);
    assert_eq!(machine.frames.alloc_pages(0, 0), None);
}

#[test]
fn five_pages_cost_five() {
    let machine = Machine::with_pages(64);
    let free = machine.frames.stats().free;
    let five = machine.frames.alloc_pages(5, 0).unwrap();
    assert_eq!(machine.frames.stats().free, free - 5);
    let aligned = machine.frames.alloc_pages(3, 4).unwrap();
    assert!(aligned.is_multiple_of(16 * PAGE));
    assert_eq!(machine.frames.stats().free, free - 8);
    assert_eq!(machine.frames.shrink(five, 2), 3);
    assert_eq!(machine.frames.free(five), 2);
    assert_eq!(machine.frames.free(aligned), 3);
    assert_eq!(machine.frames.stats().free, free);
}

#[test]
fn a_zeroed_frame_is_zero() {
    let machine = Machine::with_pages(16);
    let frame = machine.frames.alloc_frame().unwrap();
    let at = machine.frames.map.to_virt(frame);
    // SAFETY: the frame is this test's.
    unsafe { at.write_bytes(0xff, PAGE as usize) };
    machine.frames.free(frame);
    assert_eq!(
        machine.frames.alloc_zeroed_frame(),
        Some(frame),
        "the newest first"
    );
    // SAFETY: as above.
    assert!((0..PAGE as usize).all(|i| unsafe { at.add(i).read() } == 0));
}

#[test]
fn no_memory_and_too_little_memory_are_none() {
    for machine in [
        Machine::new(slice::from_ref(&(3..4))),
        Machine::with_pages(1),
    ] {
        assert_eq!(machine.frames.alloc_frame(), None);
        assert_eq!(machine.frames.stats().total, 0);
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "was freed, but no allocation begins there"]
fn freeing_twice_is_named() {
    let machine = Machine::with_pages(64);
    let frame = machine.frames.alloc_frame().unwrap();
    machine.frames.free(frame);
    machine.frames.free(frame);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "was freed, but no allocation begins there"]
fn freeing_the_inside_of_a_block_is_named() {
    let machine = Machine::with_pages(64);
    let block = machine.frames.alloc_pages(7, 0).unwrap();
    machine.frames.free(block + 4 * PAGE);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "0x1000 is not the frame allocator's"]
fn freeing_a_foreign_frame_is_named() {
    Machine::with_pages(64).frames.free(0x1000);
}

#[test]
fn sixty_four_gibibytes_in_pieces_cost_only_descriptors() {
    const GIB: u64 = (1 << 30) / PAGE;
    let sizes = [3 * GIB, 20 * GIB + 17, 41 * GIB - 17];
    let mut spans = Vec::new();
    let (mut frame, mut first) = (256, 0);
    for size in sizes {
        spans.push(Span {
            frame,
            first,
            length: size as u32,
        });
        frame += size + 5 * GIB + 3;
        first += size as u32;
    }
    let layout = Layout::array::<Page>(first as usize).unwrap();
    assert_eq!(layout.size(), 256 << 20, "a 256th");
    // SAFETY: the layout is not empty. The OS gives zeroed pages when they are first touched.
    let pages = unsafe { alloc_zeroed(layout) }.cast::<Page>();
    let map = PageMap::new();
    // SAFETY: new; zeroed descriptors for all pages; the memory itself is never touched.
    unsafe { map.init(0, pages, &spans) };
    let mut buddy = Buddy::new();
    for span in map.spans() {
        buddy.add(&map, span);
    }
    assert_eq!(buddy.free_pages() as u64, 64 * GIB);
    let mut blocks = Vec::new();
    while let Some(index) = buddy.allocate(&map, 1 << MAX_ORDER, MAX_ORDER) {
        assert!(map.phys_of(index).is_multiple_of(1 << 30));
        blocks.push(index);
    }
    assert!(
        blocks.len() >= 61,
        "each piece loses less than a block at its ends: {}",
        blocks.len()
    );
    let small = buddy.allocate(&map, 1, 0).unwrap();
    for index in blocks.into_iter().chain([small]) {
        buddy.release(&map, index, 0).unwrap();
    }
    assert_eq!(buddy.free_pages() as u64, 64 * GIB);
    // SAFETY: allocated above with the same layout, and used no more.
    unsafe { dealloc(pages.cast(), layout) };
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { count: usize, align_order: usize },
    Free(prop::sample::Index),
    Shrink(prop::sample::Index, prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let count = prop_oneof![8 => 1..5usize, 3 => 5..70usize, 1 => 70..600usize];
    let step = prop_oneof![
        5 => (count, 0..6usize).prop_map(|(count, align_order)| Step::Allocate { count, align_order }),
        4 => any::<prop::sample::Index>().prop_map(Step::Free),
        1 => any::<(prop::sample::Index, prop::sample::Index)>().prop_map(|(i, n)| Step::Shrink(i, n)),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_two_allocations_overlap_and_all_come_back(steps in steps()) {
        let machine = Machine::new(&REGIONS);
        let start = machine.frames.stats();
        // Allocations by their first page.
        let mut model = BTreeMap::<u64, u64>::new();
        for step in steps {
            match step {
                Step::Allocate { count, align_order } => {
                    let Some(block) = machine.frames.alloc_pages(count, align_order) else { continue };
                    prop_assert!(block.is_multiple_of(PAGE << align_order));
                    let first = (block - BASE) / PAGE;
                    let end = first + count as u64;
                    prop_assert!(REGIONS.iter().any(|region| region.contains(&first)));
                    prop_assert!((first..end).all(|page| REGIONS.iter().any(|region| region.contains(&page))));
                    let before = model.range(..end).next_back();
                    prop_assert!(before.is_none_or(|(&at, &count)| at + count <= first), "overlaps {before:?}");
                    model.insert(first, count as u64);
                }
                Step::Free(index) if !model.is_empty() => {
                    let &(&first, &count) = index.get(&model.iter().collect::<Vec<_>>());
                    prop_assert_eq!(machine.frames.free(BASE + first * PAGE) as u64, count);
                    model.remove(&first);
                }
                Step::Shrink(index, keep) if !model.is_empty() => {
                    let &(&first, &count) = index.get(&model.iter().collect::<Vec<_>>());
                    let keep = keep.index(count as usize) as u64 + 1;
                    prop_assert_eq!(machine.frames.shrink(BASE + first * PAGE, keep as usize) as u64, count - keep);
                    model.insert(first, keep);
                }
                _ => {}
            }
            prop_assert_eq!(start.free - machine.frames.stats().free, model.values().sum::<u64>() as usize);
        }
        for first in model.into_keys() {
            machine.frames.free(BASE + first * PAGE);
        }
        prop_assert_eq!(machine.frames.stats(), start);
    }
}
