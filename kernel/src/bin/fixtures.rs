//! Tests that go wrong on purpose, each in its own way. The runner's own tests
//! boot this image and check that each is reported as what it is, and that
//! those after it still run.

#![no_std]
#![no_main]

use hal::power::{self, Status};
use testing::kernel_test;

boot::entry!(kernel::test_main::main);

#[kernel_test]
fn a_test_that_fails() -> Result<(), &'static str> {
    Err("as it was told to")
}

#[kernel_test]
fn a_test_that_panics() {
    panic!("as it was told to");
}

#[kernel_test]
fn a_test_that_overflows_its_stack() {
    #[inline(never)]
    fn deeper(depth: u64) -> u64 {
        let mut here = [depth; 64];
        core::hint::black_box(&mut here);
        deeper(depth + 1) + here[7]
    }
    core::hint::black_box(deeper(0));
}

#[kernel_test]
fn a_test_that_triple_faults() {
    hal::power::restart_by_force();
}

#[kernel_test(limit = 3)]
fn a_test_that_hangs_with_interrupts_off() {
    let _masked = hal::irq::mask();
    loop {
        hal::pause();
    }
}

#[kernel_test]
fn a_test_that_exits_early() {
    power::exit(Status::Success);
}

#[kernel_test]
fn a_test_that_passes() {}
