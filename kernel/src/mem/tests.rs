//! Tests of memory on the machine.

use super::{
    FRAMES, HEAP,
    stress::{Shelf, Trouble},
};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use hal::{cores, layout::PAGE, sync::Lock};
use testing::kernel_test;

/// What went wrong first, on whichever core.
fn on_all(work: impl Fn(usize) -> Result<(), Trouble> + Sync) -> Result<(), Trouble> {
    let first = Lock::new(Ok(()));
    crate::cores::on_all(&|core| {
        if let Err(trouble) = work(core) {
            *first.lock() = Err(trouble);
        }
    });
    first.into_inner()
}

#[kernel_test(cores = 1, limit = 300)]
fn a_million_operations_on_all_cores_lose_corrupt_and_leak_nothing() -> Result<(), Trouble> {
    const OPERATIONS: usize = 1_000_000;
    const ROUNDS: usize = 10;
    let each = OPERATIONS / ROUNDS / cores::online().len();
    let shelf = Shelf::new(256);
    let before = HEAP.stats();
    let mut pages = [0; ROUNDS];
    for (round, pages) in pages.iter_mut().enumerate() {
        on_all(|core| shelf.work(&HEAP, (round * cores::MAX_CORES + core) as u64, each))?;
        *pages = HEAP.stats().pages;
    }
    shelf.clear(&HEAP)?;
    on_all(|_| {
        HEAP.drain();
        Ok(())
    })?;
    let after = HEAP.stats();
    assert_eq!(
        after.live_objects(),
        before.live_objects(),
        "objects were lost or made up"
    );
    assert_eq!(after.live_bytes(), before.live_bytes());
    assert!(
        after.pages <= before.pages,
        "{} pages before, {} after",
        before.pages,
        after.pages
    );
    let (early, late) = pages.split_at(ROUNDS / 2);
    let most = |pages: &[usize]| pages.iter().copied().max().unwrap_or(0);
    assert!(
        most(late) <= 2 * most(early),
        "the heap grows: {pages:?} pages"
    );
    Ok(())
}

#[kernel_test(cores = 2, limit = 120)]
fn what_one_core_allocates_and_another_frees_does_not_pile_up() -> Result<(), Trouble> {
    let origin = cores::this_core();
    let consumer = cores::online()
        .without(origin)
        .iter()
        .next()
        .unwrap_or(origin);
    let shelf = [const { AtomicUsize::new(0) }; 64];
    let before = HEAP.stats().pages;
    on_all(|core| {
        let layout = core::alloc::Layout::new::<[u64; 16]>();
        for turn in 0..20_000 {
            let slot = &shelf[turn % shelf.len()];
            if core == origin {
                let block = super::stress::make(&HEAP, layout)?;
                while slot
                    .compare_exchange(
                        0,
                        block.expose_provenance(),
                        core::sync::atomic::Ordering::Release,
                        Relaxed,
                    )
                    .is_err()
                {
                    hal::pause();
                }
            } else if core == consumer {
                let block = loop {
                    match slot.swap(0, core::sync::atomic::Ordering::Acquire) {
                        0 => hal::pause(),
                        block => break core::ptr::with_exposed_provenance_mut(block),
                    }
                };
                // SAFETY: the other core made it and put it there; only this one took it.
                unsafe { super::stress::destroy(&HEAP, block)? };
            }
        }
        Ok(())
    })?;
    let after = HEAP.stats().pages;
    assert!(after <= before + 16, "{before} pages before, {after} after");
    Ok(())
}

#[kernel_test]
fn a_frame_is_the_machines_and_comes_back() {
    let before = FRAMES.stats();
    let frame = FRAMES.alloc_zeroed_frame().expect("there is memory");
    let at = hal::layout::phys_to_virt(frame) as *mut [u8; PAGE];
    // SAFETY: the frame was just allocated, and is in the direct map.
    unsafe {
        assert!(at.read() == [0; PAGE]);
        at.write_bytes(0xa5, 1);
    }
    assert_eq!(FRAMES.stats().free + 1, before.free);
    FRAMES.free(frame);
    assert_eq!(FRAMES.stats(), before);
}
