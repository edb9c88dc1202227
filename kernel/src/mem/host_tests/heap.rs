//! Tests of the heap.

use super::{Machine, PAGE, layout};
use crate::mem::{
    classes::{Class, SIZES},
    stress::{self, Random},
};
use proptest::prelude::*;
use std::{
    alloc::{GlobalAlloc, Layout},
    collections::BTreeSet,
};

#[test]
fn an_object_costs_exactly_its_class() {
    let machine = Machine::with_pages(1024);
    for class in Class::all() {
        let slabs = 10;
        let count = slabs * class.slab_capacity();
        let blocks: BTreeSet<_> = (0..count)
            .map(|_| machine.alloc(layout(class.size())).addr())
            .collect();
        assert_eq!(blocks.len(), count);
        let stats = machine.heap.stats().classes[class.index()];
        assert_eq!((stats.size, stats.live), (class.size(), count));
        // What the cache fetched ahead may need one more slab.
        assert!(
            stats.pages >> class.slab_order() <= slabs + 1,
            "{class:?}: {stats:?}"
        );
        let spread = blocks
            .iter()
            .zip(blocks.iter().skip(1))
            .map(|(a, b)| b - a)
            .min();
        assert_eq!(spread, Some(class.size()), "side by side, without headers");
        for block in blocks {
            machine.free(
                std::ptr::with_exposed_provenance_mut(block),
                layout(class.size()),
            );
        }
    }
    machine.assert_all_is_back();
}

#[test]
fn large_blocks_cost_their_pages_and_no_more() {
    let machine = Machine::with_pages(64);
    for (size, align, pages) in [
        (2049, 8, 1),
        (4096, 8, 1),
        (4097, 8, 2),
        (5 * 4096, 8, 5),
        (8, 4096, 1),
        (100, 16384, 1),
    ] {
        let layout = Layout::from_size_align(size, align).unwrap();
        let block = machine.alloc(layout);
        assert!(block.addr().is_multiple_of(align) && !block.is_null());
        let stats = machine.heap.stats();
        assert_eq!(
            (stats.large, stats.large_pages, stats.pages),
            (1, pages, pages),
            "{size} aligned to {align}"
        );
        machine.free(block, layout);
    }
    machine.assert_all_is_back();
}

#[test]
fn growing_and_shrinking_stays_in_place_where_it_can_and_keeps_the_bytes() {
    let machine = Machine::with_pages(256);
    let mut random = Random::new(7);
    let mut size = 100;
    let mut block = machine.alloc(layout(size));
    for _ in 0..2000 {
        // SAFETY: the block is this test's and has `size` bytes.
        unsafe { block.write_bytes(size as u8, size) };
        let limit = if random.below(4) == 0 { 40_000 } else { 3000 };
        let new_size = 1 + random.below(limit);
        // SAFETY: as above, with the layout that it has.
        let moved = unsafe { machine.heap.realloc(block, layout(size), new_size) };
        let kept = size.min(new_size);
        // SAFETY: it has at least as many bytes.
        assert!((0..kept).all(|i| unsafe { moved.add(i).read() } == size as u8));
        let class = Class::of(size, 8);
        let stays = match class {
            Some(_) => class == Class::of(new_size, 8),
            None => new_size > 2048 && new_size.div_ceil(4096) <= size.div_ceil(4096),
        };
        assert_eq!(moved == block, stays, "{size} to {new_size}");
        (block, size) = (moved, new_size);
        let stats = machine.heap.stats();
        assert_eq!(stats.live_objects(), 1);
        assert!(stats.live_bytes() < size + size / 4 + 4096);
    }
    machine.free(block, layout(size));
    machine.assert_all_is_back();
}

#[test]
fn zeroed_memory_is_zero_though_it_was_used() {
    let machine = Machine::with_pages(64);
    for size in [16, 100, 2048, 10_000] {
        for _ in 0..100 {
            // SAFETY: not empty; written and read within its size.
            unsafe {
                let block = machine.heap.alloc_zeroed(layout(size));
                assert!((0..size).all(|i| block.add(i).read() == 0));
                block.write_bytes(0xff, size);
                machine.free(block, layout(size));
            }
        }
    }
    machine.assert_all_is_back();
}

#[test]
fn out_of_memory_is_null_and_passes() {
    let machine = Machine::with_pages(64);
    for size in [16, 128, 2048, 4096] {
        let mut blocks = Vec::new();
        loop {
            let block = machine.alloc(layout(size));
            if block.is_null() {
                break;
            }
            blocks.push(block);
        }
        let bytes = blocks.len() * Class::of(size, 8).map_or(size, Class::size);
        let all = machine.frames.stats().total * PAGE as usize;
        assert!(
            bytes > all * 7 / 10,
            "{bytes} of {all} bytes could be used for blocks of {size}"
        );
        for block in blocks {
            machine.free(block, layout(size));
        }
    }
    assert!(machine.alloc(layout(1 << 40)).is_null());
    machine.assert_all_is_back();
}

#[test]
fn memory_that_caches_hold_is_found_when_there_is_no_other() {
    let machine = Machine::with_pages(64);
    // Every class leaves objects in the cache and slabs in reserve.
    for size in SIZES {
        let blocks: Vec<_> = (0..20).map(|_| machine.alloc(layout(size))).collect();
        assert!(blocks.iter().all(|block| !block.is_null()));
        blocks
            .into_iter()
            .for_each(|block| machine.free(block, layout(size)));
    }
    let free = machine.frames.stats().free;
    assert!(free < machine.frames.stats().total, "something is cached");
    let blocks: Vec<_> = (0..machine.frames.stats().total)
        .map(|_| machine.alloc(layout(4096)))
        .collect();
    assert!(blocks.iter().all(|block| !block.is_null()));
    assert!(machine.alloc(layout(16)).is_null());
    blocks
        .into_iter()
        .for_each(|block| machine.free(block, layout(4096)));
    machine.assert_all_is_back();
}

#[test]
fn a_heap_without_memory_returns_null() {
    let heap = crate::mem::Heap::new();
    // SAFETY: not empty.
    unsafe {
        assert!(heap.alloc(layout(16)).is_null());
        assert!(heap.alloc(layout(10_000)).is_null());
    }
    heap.drain();
}

#[test]
fn one_object_that_comes_and_goes_takes_no_frames_and_no_misses() {
    let machine = Machine::with_pages(64);
    machine.free(machine.alloc(layout(64)), layout(64));
    let free = machine.frames.stats().free;
    for _ in 0..1000 {
        machine.free(machine.alloc(layout(64)), layout(64));
        assert_eq!(machine.frames.stats().free, free);
    }
    assert_eq!(machine.heap.stats().hits_and_misses(), (1000, 1));
}

#[test]
fn statistics_read_as_a_table() {
    let machine = Machine::with_pages(256);
    let blocks: Vec<_> = (0..3).map(|_| machine.alloc(layout(100))).collect();
    let large = machine.alloc(layout(5000));
    let text = crate::mem::Stats::of(machine.frames, machine.heap).to_string();
    assert!(
        text.contains("8528 bytes in 4 objects; 12 KiB of frames, at most 12 KiB so far"),
        "{text}"
    );
    assert!(
        text.contains("     112         3        29     4            2          1"),
        "{text}"
    );
    blocks
        .into_iter()
        .for_each(|block| machine.free(block, layout(100)));
    machine.free(large, layout(5000));
    machine.assert_all_is_back();
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "freed twice"]
fn freeing_an_object_twice_is_named() {
    let machine = Machine::with_pages(64);
    let (block, other) = (machine.alloc(layout(64)), machine.alloc(layout(64)));
    machine.free(block, layout(64));
    machine.free(other, layout(64));
    machine.free(block, layout(64));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "written after it was freed"]
fn writing_to_a_freed_object_is_named() {
    let machine = Machine::with_pages(64);
    let block = machine.alloc(layout(64));
    machine.free(block, layout(64));
    // SAFETY: it is not sound, which is the point; the memory is there.
    unsafe { block.write_bytes(7, 64) };
    machine.alloc(layout(64));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "freed with another layout"]
fn freeing_with_another_layout_is_named() {
    let machine = Machine::with_pages(64);
    machine.free(machine.alloc(layout(64)), layout(128));
    machine.heap.drain();
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(Layout),
    Free(prop::sample::Index),
    Resize(prop::sample::Index, usize),
    Drain,
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 16..300usize, 3 => 300..2100usize, 1 => 2100..30_000usize]
}

fn heap_steps() -> impl Strategy<Value = Vec<Step>> {
    let layouts = (
        sizes(),
        prop_oneof![6 => Just(3), 2 => 4..8u32, 1 => 8..14u32],
    );
    let layouts =
        layouts.prop_map(|(size, shift)| Layout::from_size_align(size, 1 << shift).unwrap());
    let step = prop_oneof![
        50 => layouts.prop_map(Step::Allocate),
        40 => any::<prop::sample::Index>().prop_map(Step::Free),
        10 => (any::<prop::sample::Index>(), sizes()).prop_map(|(index, size)| Step::Resize(index, size)),
        1 => Just(Step::Drain),
    ];
    prop::collection::vec(step, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_keep_what_was_written_whatever_happens_around_them(steps in heap_steps()) {
        let machine = Machine::with_pages(1024);
        let mut blocks: Vec<(*mut u8, Layout)> = Vec::new();
        let mut bytes = 0;
        for (turn, step) in steps.into_iter().enumerate() {
            match step {
                Step::Allocate(layout) => {
                    let block = stress::make(machine.heap, layout).map_err(|t| TestCaseError::fail(t.to_string()))?;
                    bytes += layout.size();
                    blocks.push((block, layout));
                }
                Step::Free(index) if !blocks.is_empty() => {
                    let (block, layout) = blocks.swap_remove(index.index(blocks.len()));
                    bytes -= layout.size();
                    // SAFETY: it was made, and is taken off the list.
                    prop_assert_eq!(unsafe { stress::destroy(machine.heap, block) }, Ok(()));
                }
                Step::Resize(index, size) if !blocks.is_empty() => {
                    let at = index.index(blocks.len());
                    let slot = &mut blocks[at];
                    let (block, layout) = *slot;
                    // SAFETY: it is on the list, with its layout; its contents are made anew.
                    unsafe {
                        prop_assert_eq!(stress::check(block), Ok(layout));
                        let moved = machine.heap.realloc(block, layout, size);
                        prop_assert!(!moved.is_null() && moved.addr().is_multiple_of(layout.align()));
                        let new = Layout::from_size_align(size, layout.align()).unwrap();
                        stress::fill(moved, new);
                        *slot = (moved, new);
                    }
                    bytes = bytes - layout.size() + size;
                }
                Step::Drain => machine.heap.drain(),
                _ => {}
            }
            if turn % 16 != 0 {
                continue;
            }
            let stats = machine.heap.stats();
            prop_assert_eq!(stats.live_objects(), blocks.len());
            prop_assert!(stats.live_bytes() >= bytes);
            prop_assert_eq!(stats.pages, machine.frames.stats().total - machine.frames.stats().free);
        }
        for (block, layout) in blocks {
            // SAFETY: as above.
            unsafe {
                prop_assert_eq!(stress::check(block), Ok(layout));
                prop_assert_eq!(stress::destroy(machine.heap, block), Ok(()));
            }
        }
        machine.assert_all_is_back();
    }
}
