//! What pages may and may not.

use crate::{cores::on_all, mem};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use hal::{
    context, cores, irq,
    layout::{self, PAGE},
    paging::{self, Access},
    probe,
};
use testing::kernel_test;

/// A place for tests to map things, above all stacks and devices.
const PLAYGROUND: usize = 0xffff_e000_0000_0000;

fn text() -> core::ops::Range<usize> {
    unsafe extern "C" {
        static __text_start: u8;
        static __text_end: u8;
    }
    &raw const __text_start as usize..&raw const __text_end as usize
}

#[kernel_test]
fn null_and_all_of_the_lower_half_fault() {
    on_all(&|_| {
        for address in [
            0,
            8,
            0x1000,
            0x7c00,
            0x20_0000,
            0x4008_0000,
            0x7fff_ffff_f000,
        ] {
            assert!(probe::read(address).is_err(), "{address:#x} can be read");
        }
    });
}

#[kernel_test]
fn the_page_below_every_stack_faults() {
    on_all(&|core| {
        let stack = context::current().stack();
        let here = 0u64;
        assert!(
            stack.contains(&raw const here as usize),
            "core {core} runs on its stack"
        );
        assert!(probe::read(stack.low).is_ok());
        assert!(
            probe::read(stack.low - 8).is_err(),
            "core {core} has no guard page"
        );
        assert!(stack.is_overflow(stack.low - 8));
    });
}

#[kernel_test]
fn no_page_is_both_writable_and_executable() {
    let mut pages = 0;
    paging::walk(&mut |virt, _, _, access| {
        pages += 1;
        assert!(access.is_some(), "{virt:#x} is writable and executable");
        assert!(virt >= layout::DIRECT_MAP, "{virt:#x} is in the lower half");
    });
    assert!(pages > 10, "the tables were walked");
}

#[kernel_test]
fn code_cannot_be_written_through_any_address() {
    let text = text();
    let (first, _) = paging::translate(text.start).expect("code is mapped");
    let code = first..first + text.len() as u64;
    paging::walk(&mut |virt, phys, length, access| {
        let overlaps = phys < code.end && phys + length as u64 > code.start;
        let writable = access.is_none_or(Access::is_writable);
        assert!(
            !(overlaps && writable),
            "{virt:#x} is a writable alias of code"
        );
    });
    let inside = text.start + 64;
    let word = probe::read(inside).expect("code can be read");
    // SAFETY: if it were writable, this would write what is there.
    assert!(unsafe { probe::write(inside, word) }.is_err());
}

#[kernel_test]
fn constants_cannot_be_written_and_data_cannot_be_run() {
    static CONSTANT: u64 = 0x1234_5678;
    static DATA: AtomicU64 = AtomicU64::new(0);
    let constant = &raw const CONSTANT as usize;
    // SAFETY: if it were writable, this would write what is there.
    assert!(unsafe { probe::write(constant, CONSTANT) }.is_err());
    let data = DATA.as_ptr() as usize;
    // SAFETY: if it were executable, the zeros there would fault and be reported.
    assert!(unsafe { probe::call(data) }.is_err());
    // And so for the heap's memory, the stack and a constant.
    let frame = mem::alloc_frame().expect("memory");
    for address in [
        layout::phys_to_virt(frame),
        &raw const data as usize,
        constant,
    ] {
        // SAFETY: if it were executable, what is there would fault and be reported.
        let result = unsafe { probe::call(address) };
        assert!(result.is_err(), "{address:#x} can be run");
    }
    mem::frames().free(frame);
}

#[kernel_test]
fn a_page_can_be_mapped_protected_and_unmapped() {
    let frame = mem::alloc_frame().expect("memory");
    paging::map(PLAYGROUND, frame, PAGE, Access::ReadWrite).unwrap();
    // SAFETY: the page was just mapped for this test alone.
    unsafe { probe::write(PLAYGROUND, 7) }.unwrap();
    assert_eq!(
        paging::map(PLAYGROUND, frame, PAGE, Access::ReadOnly),
        Err(paging::MapError::Taken(PLAYGROUND))
    );
    // SAFETY: nobody else knows the page.
    unsafe { paging::protect(PLAYGROUND, PAGE, Access::ReadOnly) }
        .unwrap()
        .wait();
    assert_eq!(probe::read(PLAYGROUND), Ok(7));
    // SAFETY: as above.
    assert!(unsafe { probe::write(PLAYGROUND, 8) }.is_err());
    let mut freed = 0;
    // SAFETY: nobody else knows the page.
    unsafe { paging::unmap(PLAYGROUND, PAGE, |phys| freed = phys) }
        .unwrap()
        .wait();
    assert_eq!(freed, frame);
    assert!(probe::read(PLAYGROUND).is_err());
    mem::frames().free(frame);
}

#[kernel_test(limit = 120)]
fn when_a_ticket_is_done_no_core_sees_the_old_page() {
    // All other cores read the page again and again, so they have its translation. It is unmapped;
    // from when the ticket is done, told to them by nothing but a word in memory, none may get through.
    const ROUNDS: usize = 50;
    let me = cores::this_core();
    let others = cores::online().len() - 1;
    let (open, closed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (seen, checked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wait_for = |count: &AtomicUsize, least: usize| {
        while count.load(Acquire) < least {
            hal::pause();
        }
    };
    on_all(&|core| {
        for round in 1..=ROUNDS {
            let at = PLAYGROUND + round * PAGE;
            if core != me {
                wait_for(&open, round);
                assert_eq!(probe::read(at), Ok(round as u64));
                seen.fetch_add(1, Release);
                // With interrupts masked most of the time: then the kick that would make this core forget
                // the page waits, and the ticket has to wait for it.
                while closed.load(Acquire) < round {
                    let _masked = irq::mask();
                    for _ in 0..1_000 {
                        let is_closed = closed.load(Acquire) >= round;
                        let is_seen = probe::read(at).is_ok();
                        assert!(!(is_closed && is_seen), "core {core} still sees the page");
                    }
                }
                assert!(probe::read(at).is_err(), "core {core} still sees the page");
                checked.fetch_add(1, Release);
                continue;
            }
            let frame = mem::alloc_frame().expect("memory");
            paging::map(at, frame, PAGE, Access::ReadWrite).unwrap();
            // SAFETY: the page was just mapped for this test alone.
            unsafe { probe::write(at, round as u64) }.unwrap();
            open.store(round, Release);
            wait_for(&seen, round * others);
            // SAFETY: the others only probe it.
            let ticket = unsafe { paging::unmap(at, PAGE, |_| {}) }.unwrap();
            ticket.wait();
            closed.store(round, Release);
            assert!(ticket.is_done());
            wait_for(&checked, round * others);
            mem::frames().free(frame);
        }
    });
}

#[kernel_test]
fn a_fault_in_a_handler_can_be_mended_too() {
    // A probe inside a timer interrupt: a trap in a trap.
    static FAULTED: AtomicU64 = AtomicU64::new(0);
    FAULTED.store(0, Relaxed);
    crate::upcalls::set_timer_hook(Some(|| {
        assert!(hal::irq::in_handler());
        FAULTED.store(1 + u64::from(probe::read(16).is_err()), Release);
    }));
    hal::clock::arm(0);
    while FAULTED.load(Acquire) == 0 {
        hal::pause();
    }
    crate::upcalls::set_timer_hook(None);
    assert_eq!(FAULTED.load(Relaxed), 2);
    assert!(!hal::irq::in_handler());
    assert!(cores::online().contains(cores::this_core()));
}
