//! The image that runs every `#[kernel_test]` of the crates in it.

#![no_std]
#![no_main]

boot::entry!(kernel::test_main::main);
